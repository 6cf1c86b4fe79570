"""Row outcomes: written once, by COPY, when a row's last attempt is known."""

from __future__ import annotations

from django.db import models


class RowOutcome(models.Model):
    """How one row ended. Partitioned by the batch's acceptance, so a batch's rows lie in one partition.

    (accepted_at, batch_id, row) is the key: a row cannot have two outcomes, whoever writes.
    """

    pk = models.CompositePrimaryKey("accepted_at", "batch_id", "row")
    accepted_at = models.DateTimeField()
    batch_id = models.BigIntegerField()
    row = models.IntegerField()
    outcome = models.CharField(max_length=10)
    code = models.CharField(max_length=60)
    status_code = models.SmallIntegerField()
    sub_lane_id = models.BigIntegerField()
    job_id = models.BigIntegerField(null=True)
    group_index = models.SmallIntegerField()
    attempt_number = models.SmallIntegerField()
    re_dispatch_count = models.SmallIntegerField()
    input_tokens = models.BigIntegerField()
    cached_input_tokens = models.BigIntegerField()
    cache_write_5m_tokens = models.BigIntegerField()
    cache_write_1h_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    reasoning_tokens = models.BigIntegerField()
    charge_pico_usd = models.BigIntegerField()
    # Where the answer's body lies in the job's results blob; length 0: there is none.
    body_offset = models.BigIntegerField()
    body_length = models.IntegerField()

    class Meta:
        managed = False
        db_table = "routing_rowoutcome"

    def __str__(self) -> str:
        return f"{self.batch_id}:{self.row}"
