"""A small world for tests of the product: an organisation with credit and a key, and the stand-in provider."""

from __future__ import annotations

from dataclasses import dataclass, field

from accounts.models import ApiKey, Organisation, OrganisationKind
from accounts.selectors import Caller
from accounts.services.organisations import create_api_key, create_organisation
from billing.services.wallets import open_wallet, record_top_up
from catalog.models import Lane, Model
from ground import clock
from routing.services import closing, collect, dispatch, file_batches, file_quotes, finish
from routing.services.provider_accounts import set_provider_account


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An organisation and one key of it."""

    organisation: Organisation
    api_key: ApiKey
    key_text: str = field(repr=False)

    @property
    def caller(self) -> Caller:
        """The tenant as services see it."""
        return Caller(organisation=self.organisation, api_key=self.api_key)

    @property
    def headers(self) -> dict[str, str]:
        """What a client of it sends."""
        return {"Authorization": f"Bearer {self.key_text}"}


def make_tenant(slug: str = "acme", *, credit_micro_usd: int = 100_000_000) -> Tenant:
    """Make an organisation with credit (none when 0) and a key."""
    organisation = create_organisation(slug=slug, name=slug.title(), at=clock.now())
    open_wallet(organisation)
    if credit_micro_usd:
        record_top_up(
            organisation,
            reference="first",
            amount_micro_usd=credit_micro_usd,
            effective_at=clock.now(),
            recorded_by=None,
        )
    api_key, new = create_api_key(organisation=organisation, name="test", at=clock.now())
    return Tenant(organisation=organisation, api_key=api_key, key_text=new.text)


def use_simulator(base_url: str) -> None:
    """Let every organisation's OpenAI lanes lead to a simulator."""
    for kind in OrganisationKind.values:
        set_provider_account(
            provider="openai",
            kind=kind,
            name=f"openai-{kind}",
            base_url=base_url,
            api_key=f"key-of-{kind}",
            at=clock.now(),
        )


def do_due_steps() -> int:
    """Do every step that is due now, in the engine's order, until none is; give how many were done."""
    steps = (
        file_quotes.price_next_file,
        file_batches.validate_next_batch,
        dispatch.start_next_sub_lane,
        dispatch.submit_next_job,
        collect.poll_next_job,
        collect.collect_next_job,
        finish.finish_next_batch,
    )
    done_count = closing.expire_batches()
    for step in steps:
        while step():
            done_count += 1
    return done_count


def keep_models_in_service() -> None:
    """Take the retirement dates off all that is still offered, so that a test holds on any day."""
    Model.objects.filter(lanes__isnull=False).update(retires_at=None)
    Lane.objects.update(retires_at=None)
