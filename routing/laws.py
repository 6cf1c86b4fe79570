"""What the nightly proof of the books asks of batches: laws about money that only this app can state."""

from __future__ import annotations

from typing import Final

# Rule -> a query whose every row is a violation, named by its first column.
LAWS: Final = {
    "ended_batch_has_its_receipt": """
        SELECT batch.public_id FROM routing_batch batch
        LEFT JOIN billing_receipt receipt ON receipt.batch_public_id = batch.public_id
        WHERE batch.in_progress_at IS NOT NULL AND batch.status IN ('completed', 'failed', 'expired', 'cancelled')
          AND receipt.id IS NULL""",
    "running_batch_has_its_holds": """
        SELECT batch.public_id FROM routing_batch batch
        WHERE batch.in_progress_at IS NOT NULL AND batch.status IN ('in_progress', 'finalizing', 'cancelling')
          AND NOT EXISTS (
              SELECT FROM billing_hold hold
              WHERE hold.organisation_id = batch.organisation_id AND hold.batch_public_id = batch.public_id)""",
}
