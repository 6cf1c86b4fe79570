"""The receiver's routes."""

import json
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

# A sender that sends more is refused, as a real receiver would.
_BODY_MAX_BYTES = 1_000_000
_KEPT_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature", "content-type", "user-agent")


def create_app(state_dir: Path) -> Starlette:
    """A receiver that keeps its calls in ``state_dir``."""
    state_dir.mkdir(parents=True, exist_ok=True)
    path = state_dir / "received.jsonl"

    async def take(request: Request) -> Response:
        body = await request.body()
        if len(body) > _BODY_MAX_BYTES:
            return PlainTextResponse("too large", status_code=413)
        headers = {name: request.headers[name] for name in _KEPT_HEADERS if name in request.headers}
        call = {"headers": headers, "body": body.decode(errors="replace")}
        with path.open("a", encoding="utf-8") as calls:
            calls.write(json.dumps(call) + "\n")
        return PlainTextResponse("taken")

    async def received(_request: Request) -> Response:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return JSONResponse([json.loads(line) for line in lines])

    return Starlette(
        routes=[Route("/hooks", take, methods=["POST"]), Route("/received", received, methods=["GET"])],
    )
