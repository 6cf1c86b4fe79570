"""Tables of routing, one module an entity. Django finds them here."""

from routing.models.batches import (
    ENDED_STATUSES,
    Batch,
    BatchEnding,
    BatchStatus,
    SubLane,
    SubLaneState,
)
from routing.models.files import FilePurpose, StoredFile
from routing.models.jobs import JobState, ProviderAccount, ProviderJob, UnclearChoice, UnclearDecision
from routing.models.outcomes import RowOutcome
from routing.models.quotes import FilePricing, PricingState, Quote, QuoteStatus
from routing.models.workflows import Workflow, WorkflowVersion

__all__ = [
    "ENDED_STATUSES",
    "Batch",
    "BatchEnding",
    "BatchStatus",
    "FilePricing",
    "FilePurpose",
    "JobState",
    "PricingState",
    "ProviderAccount",
    "ProviderJob",
    "Quote",
    "QuoteStatus",
    "RowOutcome",
    "StoredFile",
    "SubLane",
    "SubLaneState",
    "UnclearChoice",
    "UnclearDecision",
    "Workflow",
    "WorkflowVersion",
]
