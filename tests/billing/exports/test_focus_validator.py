"""A FOCUS file before the checker of those who write the standard."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accounts.models import Organisation
from ground.blobs import read_blob
from tests.billing.exports.test_files import exported

ROOT: Final = Path(__file__).resolve().parents[3]
_NO_PYTHON: Final = 3
# What it cannot know: whether a charge is of an issued invoice. Prepaid credit is not invoiced, so ours have none.
_OF_INVOICES: Final = {"InvoiceId-C-005-C"}
_TOTALS: Final = re.compile(r"^Total: \d+ \| Pass: (\d+) \| Fail: (\d+)", re.MULTILINE)
_FAILED: Final = re.compile(r"^❌ (\S+): FAIL", re.MULTILINE)
# Without a single row refused it had passed 136 rules of 1.2 when this was written.
_PASSED_AT_LEAST: Final = 130


def verdict(path: Path, folder: Path) -> tuple[int, set[str]]:
    """Give how many rules a file passed, and the ids of those that it fails."""
    (packages,) = folder.glob("lib/python3.*/site-packages")
    told = subprocess.run(
        [folder / "bin/focus-validator", "--data-file", path, "--validate-version", "1.2", "--block-download"],
        # It opens its list of currencies relative to where it runs.
        cwd=packages,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    totals = _TOTALS.search(told)
    assert totals is not None, told
    failed = set(_FAILED.findall(told))
    assert len(failed) == int(totals[2])
    return int(totals[1]), failed


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_validator_of_focus_finds_nothing_but_invoices_that_there_are_none(
    customer: Organisation, tmp_path: Path
) -> None:
    made = subprocess.run(["scripts/install_focus_validator"], cwd=ROOT, capture_output=True, text=True, check=False)
    if made.returncode == _NO_PYTHON:
        pytest.skip(made.stderr.strip())
    assert made.returncode == 0, made.stderr
    folder = Path(made.stdout.strip())
    path = tmp_path / "focus.parquet"
    path.write_bytes(read_blob(exported(customer, "focus", "parquet").blob_name))
    passed_count, failed = verdict(path, folder)
    assert failed == _OF_INVOICES
    assert passed_count >= _PASSED_AT_LEAST
    # It does look: a file with a currency that is none is refused.
    table = pq.read_table(path)
    place = table.schema.get_field_index("BillingCurrency")
    pq.write_table(table.set_column(place, "BillingCurrency", pa.array(["usd!"] * table.num_rows)), path)
    assert any(rule.startswith("BillingCurrency") for rule in verdict(path, folder)[1])
