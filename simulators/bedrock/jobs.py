"""The calls about model invocation jobs."""

import secrets
import string
from collections.abc import Callable, Mapping
from datetime import datetime

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from simulators.bedrock.lifecycle import Lifecycle
from simulators.bedrock.records import ENDED, JobRecord
from simulators.bedrock.requests import WantedJob, read_wanted_job
from simulators.bedrock.settings import Settings
from simulators.bedrock.storage import Storage, StorageError
from simulators.bedrock.wire import ApiError, Identity, arn_of, job_object, json_response
from simulators.clock import SimClock
from simulators.settings import SettingsBox

Json = Mapping[str, object]

_ALPHABET = string.ascii_lowercase + string.digits
_MAX_PAGE_JOBS = 1_000
_DEFAULT_PAGE_JOBS = 100
_HOUR_SECONDS = 3_600
_Jobs = list[JobRecord]


class JobsApi:
    """Create, get, list and stop jobs of one account in one region."""

    def __init__(
        self, lifecycle: Lifecycle, clock: SimClock, settings: SettingsBox[Settings], storage: Storage
    ) -> None:
        """Let `lifecycle` move the jobs of its store; inputs are copied from `storage`."""
        self._lifecycle = lifecycle
        self._store = lifecycle.store
        self._clock = clock
        self._settings = settings
        self._storage = storage

    async def create(self, request: Request, caller: Identity) -> Response:
        """``POST /model-invocation-job``."""
        body = _json_object(await request.body())
        job = await run_in_threadpool(self._make, body, caller)
        return json_response({"jobArn": arn_of(job)})

    async def get(self, request: Request, caller: Identity) -> Response:
        """``GET /model-invocation-job/{jobIdentifier}``."""
        job = await run_in_threadpool(self._advanced, request.path_params["job"], caller)
        return json_response(job_object(job))

    async def list(self, request: Request, caller: Identity) -> Response:
        """``GET /model-invocation-jobs``."""
        return json_response(await run_in_threadpool(self._page, dict(request.query_params), caller))

    async def stop(self, request: Request, caller: Identity) -> Response:
        """``POST /model-invocation-job/{jobIdentifier}/stop``."""
        await run_in_threadpool(self._stop, request.path_params["job"], caller)
        return json_response({})

    async def model_wanted(self, request: Request) -> str | None:
        """The model of a create, for faults that are meant for a model."""
        try:
            return str(_json_object(await request.body())["modelId"])
        except (ApiError, KeyError):
            return None

    async def model_known(self, request: Request) -> str | None:
        """The model of the job in the path."""
        job = await run_in_threadpool(self._store.find, _job_id(request.path_params["job"]))
        return None if job is None else job.model_id

    def _advanced(self, identifier: str, caller: Identity) -> JobRecord:
        return self._lifecycle.advance(self._found(identifier, caller).id)

    def _found(self, identifier: str, caller: Identity) -> JobRecord:
        job = self._store.find(_job_id(identifier))
        if job is None or (job.account, job.region) != (caller.account, caller.region):
            raise ApiError("ResourceNotFoundException", "Could not find the model invocation job.")
        if ":" in identifier and identifier != arn_of(job):
            raise ApiError("ResourceNotFoundException", "Could not find the model invocation job.")
        return job

    def _make(self, body: Json, caller: Identity) -> JobRecord:
        wanted = read_wanted_job(body)
        with self._lifecycle.lock:
            earlier = self._with_token(wanted.client_token, caller)
            if earlier is not None:
                if orjson.loads(earlier.request) != body:
                    message = "The client request token was used before with other parameters."
                    raise ApiError("ConflictException", message)
                return earlier
            self._require_quota(wanted, caller)
            job = self._new_job(wanted, body, caller)
            self._store.save(job)
            return job

    def _new_job(self, wanted: WantedJob, body: Json, caller: Identity) -> JobRecord:
        settings = self._settings.current
        now = self._clock.now()
        job_id = "".join(secrets.choice(_ALPHABET) for _ in range(12))
        problem = None
        try:
            self._storage.fetch(wanted.source, self._store.rows_path(job_id), settings.max_input_bytes)
        except StorageError as error:
            problem = str(error)
        return JobRecord(
            id=job_id,
            account=caller.account,
            status="Submitted",
            created_at=now,
            modified_at=now,
            expires_at=now + wanted.timeout_hours * _HOUR_SECONDS,
            content_seed=0,
            shuffled=settings.shuffle_results,
            rows_per_second=settings.rows_per_second,
            region=caller.region,
            name=wanted.name,
            model_id=wanted.model_id,
            client_token=wanted.client_token,
            request=orjson.dumps(body),
            input_problem=problem,
        )

    def _with_token(self, token: str | None, caller: Identity) -> JobRecord | None:
        if token is None:
            return None
        found = self._store.select(
            "account = ? AND region = ? AND client_token = ?", (caller.account, caller.region, token)
        )
        return found[0] if found else None

    def _require_quota(self, wanted: WantedJob, caller: Identity) -> None:
        """Refuse one more job than an account may have open for a model."""
        if wanted.model_id in self._settings.current.unknown_models:
            raise ApiError("ValidationException", "The provided model identifier is invalid.")
        mine = [job for job in self._mine(caller, newest_first=False) if job.model_id == wanted.model_id]
        open_jobs = sum(job.status not in ENDED for job in mine)
        limit = self._settings.current.max_open_jobs
        if open_jobs >= limit:
            message = f"The number of in-progress and submitted batch inference jobs is limited to {limit}."
            raise ApiError("ServiceQuotaExceededException", message)

    def _mine(self, caller: Identity, *, newest_first: bool) -> _Jobs:
        """Every job of the caller as it stands now."""
        jobs = self._store.select(
            "account = ? AND region = ?", (caller.account, caller.region), ascending=not newest_first
        )
        return [self._lifecycle.advance(job.id) for job in jobs]

    def _page(self, query: Mapping[str, str], caller: Identity) -> Json:
        limit = _page_limit(query.get("maxResults"))
        jobs = self._mine(caller, newest_first=query.get("sortOrder", "Descending") == "Descending")
        jobs = [job for job in jobs if all(fits(job) for fits in _filters(query))]
        token = query.get("nextToken")
        ids = [job.id for job in jobs]
        if token is not None and token not in ids:
            raise ApiError("ValidationException", "The nextToken is invalid.")
        start = 0 if token is None else ids.index(token) + 1
        page = jobs[start : start + limit]
        answer: dict[str, object] = {"invocationJobSummaries": [job_object(job) for job in page]}
        if start + limit < len(jobs):
            answer["nextToken"] = page[-1].id
        return answer

    def _stop(self, identifier: str, caller: Identity) -> None:
        job = self._lifecycle.stop(self._found(identifier, caller).id)
        if job.status in ENDED:
            raise ApiError("ConflictException", f"The job cannot be stopped in status {job.status}.")


def _filters(query: Mapping[str, str]) -> "list[Callable[[JobRecord], bool]]":
    status, name = query.get("statusEquals"), query.get("nameContains")
    after, before = _moment(query.get("submitTimeAfter")), _moment(query.get("submitTimeBefore"))
    return [
        lambda job: status is None or job.status == status,
        lambda job: name is None or name in job.name,
        lambda job: after is None or job.created_at > after,
        lambda job: before is None or job.created_at < before,
    ]


def _moment(given: str | None) -> float | None:
    try:
        return None if given is None else datetime.fromisoformat(given).timestamp()
    except ValueError as error:
        raise ApiError("ValidationException", f"Invalid timestamp: {given}") from error


def _page_limit(given: str | None) -> int:
    if given is None:
        return _DEFAULT_PAGE_JOBS
    if not given.isdecimal() or not 1 <= int(given) <= _MAX_PAGE_JOBS:
        message = f"Value at 'maxResults' failed to satisfy constraint: between 1 and {_MAX_PAGE_JOBS}"
        raise ApiError("ValidationException", message)
    return int(given)


def _job_id(identifier: str) -> str:
    return identifier.rsplit("/", 1)[-1]


def _json_object(body: bytes) -> Json:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError("ValidationException", "The request body is not valid JSON.") from error
    if not isinstance(found, dict):
        raise ApiError("ValidationException", "The request body is not an object.")
    return found
