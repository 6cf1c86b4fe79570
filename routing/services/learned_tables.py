"""Tables for vocabularies that are not public: fitted to sums over rows, tried beside the used one, then used."""

from __future__ import annotations

import logging
from datetime import datetime

import msgspec
import numpy as np

from catalog.domain.records import Model
from routing.domain.accuracy import absolute_error_ppm_sum
from routing.domain.estimate.tables import Vocabulary, vocabulary_named
from routing.domain.learning.lessons import TableRows
from routing.domain.learning.states import HouseState, State
from routing.domain.learning.tables import SHADOW_ROWS, Apprentice
from routing.domain.learning.tallies import Tally
from routing.models import LearnedScope, LearnedState, LearnedTable, TableInTheMaking
from routing.services.learned_states import save_states

_log = logging.getLogger(__name__)


def candidate_of(model: Model) -> Vocabulary | None:
    """Give the table in the making that stands trial, if there is one."""
    making = TableInTheMaking.objects.filter(model_slug=model.slug).first()
    candidate = Apprentice.from_bytes(making.state).candidate if making else None
    return candidate.as_vocabulary(vocabulary_named(model.vocabulary)) if candidate else None


def teach_table(model_slug: str, rows: TableRows, version: int, at: datetime) -> bool:
    """Judge the candidate by a lesson's rows, add them to the sums, and say whether it takes over from now on.

    Under the lock of the version. The quotes it is judged against are those that customers got, ratios and all.
    """
    if not len(rows.settled_tokens):
        return False
    making = TableInTheMaking.objects.filter(model_slug=model_slug).first()
    apprentice = Apprentice.from_bytes(making.state) if making else Apprentice()
    if rows.candidate_tokens.any():
        apprentice = msgspec.structs.replace(
            apprentice,
            shadow_row_count=apprentice.shadow_row_count + len(rows.settled_tokens),
            used_error_ppm_sum=apprentice.used_error_ppm_sum
            + absolute_error_ppm_sum(rows.quoted_tokens, rows.settled_tokens),
            candidate_error_ppm_sum=apprentice.candidate_error_ppm_sum
            + absolute_error_ppm_sum(rows.candidate_tokens, rows.settled_tokens),
        )
    takes_over = apprentice.is_better()
    if takes_over:
        _take_over(model_slug, apprentice, version, at)
    sums = apprentice.sums.with_rows(rows.features, np.maximum(rows.settled_tokens, 1))
    if apprentice.candidate is None or apprentice.shadow_row_count >= SHADOW_ROWS:
        # Taken over or not good enough: the next one is fitted to all rows so far, and stands a trial of its own.
        apprentice = Apprentice(sums=sums, candidate=sums.fit())
    else:
        apprentice = msgspec.structs.replace(apprentice, sums=sums)
    TableInTheMaking.objects.update_or_create(
        model_slug=model_slug,
        defaults={"row_count": sums.row_count, "state": apprentice.to_bytes(), "learned_at": at},
    )
    return takes_over


def _take_over(model_slug: str, apprentice: Apprentice, version: int, at: datetime) -> None:
    """Let a model be counted by the candidate. Ratios to the old table mean nothing to the new one: they begin anew."""
    count = apprentice.shadow_row_count
    LearnedTable.objects.create(
        model_slug=model_slug,
        version=version,
        row_count=apprentice.sums.row_count,
        used_error_ppm=apprentice.used_error_ppm_sum // count,
        own_error_ppm=apprentice.candidate_error_ppm_sum // count,
        fit=msgspec.msgpack.encode(apprentice.candidate),
        made_at=at,
    )
    _log.warning("model %s: a learned table takes over, version %d", model_slug, version)
    rows = LearnedState.objects.filter(model_slug=model_slug).order_by("pk")
    save_states(
        [
            LearnedState(
                model_slug=model_slug,
                organisation_id=row.organisation_id,
                scope=row.scope,
                name=row.name,
                version=version,
                learned_at=at,
                state=_begun_anew(row, version),
            )
            for row in rows
        ]
    )


def _begun_anew(row: LearnedState, version: int) -> bytes:
    if row.scope == LearnedScope.HOUSE:
        return HouseState(table_version=version).to_bytes()
    state = State.from_bytes(row.state)
    return msgspec.structs.replace(state, input=Tally(), input_spread=b"").to_bytes()
