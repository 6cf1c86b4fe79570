"""Routing's part of ``/v1``: quotes, batches, files, workflows."""

from ninja import Router

from routing.api.batches import router as batches_router
from routing.api.files import router as files_router
from routing.api.quotes import router as quotes_router
from routing.api.workflows import router as workflows_router

router = Router()
router.add_router("/quotes", quotes_router)
router.add_router("/batches", batches_router)
router.add_router("/files", files_router)
router.add_router("/workflows", workflows_router)
