"""What each scheduled task does, in words for operators; the schedule itself is ``config/settings/schedule``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TASK_WORDS: Final[Mapping[str, str]] = {
    "accounts.sweep_kept_calls": "Forget answers kept for repeated calls",
    "accounts.sweep_sign_ins": "Forget old sessions and sign-in attempts",
    "billing.read_invoices": "Read provider reports",
    "billing.match_invoices": "Match provider invoices",
    "billing.expire_grants": "Expire granted credit",
    "billing.take_snapshot": "Note balances of the books",
    "billing.prove_ledger": "Prove the ledger",
    "billing.write_exports": "Write exports",
    "billing.sweep_exports": "Remove exports whose time is over",
    "billing.sweep_orphan_exports": "Remove files that no export names",
    "billing.tell_low_balances": "Tell customers of low balances",
    "routing.price_files": "Price uploaded files",
    "routing.validate_batches": "Check files sent as batches",
    "routing.start_sub_lanes": "Cut sub-lanes into jobs",
    "routing.submit_jobs": "Send jobs to providers",
    "routing.poll_jobs": "Ask providers about jobs",
    "routing.collect_jobs": "Collect results",
    "routing.finish_batches": "Finish batches",
    "routing.learn_from_batches": "Learn from settled batches",
    "routing.sweep_learned_history": "Forget old versions of what was learned",
    "routing.measure_lanes": "Measure lanes",
    "routing.ensure_partitions": "Make room for the next months",
    "routing.gather_notices": "Gather events of low-cost batches",
    "routing.sweep_files": "Remove files whose time is over",
    "routing.sweep_payloads": "Remove requests of expired quotes",
    "routing.sweep_batches": "Remove files of deleted batches",
    "routing.sweep_orphans": "Remove files that nothing names",
    "webhooks.deliver_due": "Deliver webhooks",
}
