"""The one place that says what runs again and again, by task name and seconds between two starts.

Every task here finds its own work in the database and may run twice at once, so a schedule that slips or doubles does
no harm. A name needs no entry elsewhere; its task lies in the ``tasks.py`` of its app.
"""

from __future__ import annotations

from typing import Final

SECONDS_BETWEEN: Final[dict[str, float]] = {
    "routing.price_files": 1.0,
    "routing.validate_batches": 1.0,
    "routing.start_sub_lanes": 1.0,
    "routing.submit_jobs": 1.0,
    "routing.poll_jobs": 1.0,
    "routing.collect_jobs": 1.0,
    "routing.finish_batches": 1.0,
    "billing.write_exports": 1.0,
    "webhooks.deliver_due": 1.0,
    "routing.learn_from_batches": 5.0,
    "billing.read_invoices": 2.0,
    "billing.match_invoices": 2.0,
    "routing.gather_notices": 30.0,
    "routing.measure_lanes": 30.0,
    "routing.sweep_files": 60.0,
    "routing.sweep_payloads": 60.0,
    "routing.sweep_batches": 60.0,
    "billing.expire_grants": 5.0,
    "billing.tell_low_balances": 5.0,
    "billing.prove_ledger": 30.0,
    "billing.take_snapshot": 600.0,
    "billing.sweep_exports": 60.0,
    "accounts.sweep_kept_calls": 60.0,
    "accounts.sweep_sign_ins": 600.0,
    "routing.sweep_orphans": 3_600.0,
    "billing.sweep_orphan_exports": 3_600.0,
    "routing.sweep_learned_history": 3_600.0,
    "routing.ensure_partitions": 3_600.0,
}
