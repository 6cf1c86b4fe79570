"""What the settled rows of one model group say: read from the customer's lines, kept as numbers alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from catalog.domain.records import Endpoint, Model
from routing.domain.estimate.tables import Vocabulary
from routing.domain.estimate.tokens import ONE_PPM, Weighed, count_inputs, output_ceilings, output_priors
from routing.domain.estimate.weights import prepare_texts
from routing.domain.jsonl import fast
from routing.domain.jsonl.table import FileLimits
from routing.domain.learning.jobs import NO_JOB, job_keys_of
from routing.domain.learning.tables import Features, features_of
from routing.domain.quoting import facts_of, lines_of, rules_of

Numbers = npt.NDArray[np.int64]
_LIMITS = FileLimits(maximum_rows=1_000_000)
_COLUMNS = (
    *("settled_input_tokens", "settled_output_tokens", "quoted_input_tokens"),
    *("counted_tokens", "given_tokens", "lowest_tokens", "ceiling_tokens", "prior_output_tokens"),
    *("most_output_tokens", "jobs"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """Settled rows of one group, one entry a row in each column, in the order of the file.

    ``counted_tokens`` are by the formula, without ``given_tokens`` (images, token lists); ``lowest_tokens`` and
    ``ceiling_tokens`` bound what text of so many bytes can be. ``prior_output_tokens`` is the output before any
    history. ``jobs`` are keys, 0 where a row belongs to none.
    """

    settled_input_tokens: Numbers
    settled_output_tokens: Numbers
    quoted_input_tokens: Numbers
    counted_tokens: Numbers
    given_tokens: Numbers
    lowest_tokens: Numbers
    ceiling_tokens: Numbers
    prior_output_tokens: Numbers
    most_output_tokens: Numbers
    jobs: Numbers

    def __len__(self) -> int:
        """Give the number of rows."""
        return len(self.jobs)

    @classmethod
    def joined(cls, parts: Iterable[Lesson]) -> Self:
        """Put parts of one group together."""
        kept = list(parts)
        return cls(
            **{
                name: np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in kept)])
                for name in _COLUMNS
            }
        )

    def where(self, is_chosen: npt.NDArray[np.bool_]) -> Self:
        """Give some of the rows."""
        return type(self)(**{name: getattr(self, name)[is_chosen] for name in _COLUMNS})

    def are_credible(self) -> npt.NDArray[np.bool_]:
        """Say of which rows the settled input can be true: what their bytes can be at all."""
        settled = self.settled_input_tokens
        are_credible: npt.NDArray[np.bool_] = (settled >= np.maximum(self.lowest_tokens, 1)) & (
            settled <= self.ceiling_tokens
        )
        return are_credible

    def measured_input_tokens(self) -> Numbers:
        """Give what the formula's count settled at: images and token lists are taken to be as they were quoted."""
        measured: Numbers = np.maximum(self.settled_input_tokens - self.given_tokens, 1)
        return measured

    def quoted_output_tokens(self, output_ppm: Numbers | int) -> Numbers:
        """Give what would be quoted for the output under a ratio."""
        raised = (self.prior_output_tokens * output_ppm + ONE_PPM // 2) // ONE_PPM
        quoted: Numbers = np.minimum(np.maximum(raised, 1), np.maximum(self.most_output_tokens, 1))
        return quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Pupil:
    """Of what a lesson is: a model as it counts now, and the table in the making that it may be counted by later.

    ``candidate`` is None where there is none yet; ``salt`` goes into the keys of the customer's jobs.
    """

    model: Model
    endpoint: Endpoint
    salt: bytes
    vocabulary: Vocabulary | None = None
    candidate: Vocabulary | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """Rows of text alone, as the fit of a table looks at them; ``candidate_tokens`` are 0 without a candidate."""

    features: Features
    settled_tokens: Numbers
    quoted_tokens: Numbers
    candidate_tokens: Numbers


def read_table_rows(lines: list[bytes], pupil: Pupil, settled: Numbers, quoted: Numbers) -> TableRows:
    """Read rows' lines again for a table in the making; those with tools, images or token lists are left out.

    Raises:
        Trouble: A line is not what a quote takes any more.
    """
    table = fast.read_rows(b"\n".join(lines), _LIMITS)
    texts = prepare_texts(table.literals)
    is_text = np.ones(len(table), dtype=bool)
    is_text[list(table.extras)] = False
    is_text &= settled > 0
    candidate = np.zeros(len(table), dtype=np.int64)
    if pupil.candidate is not None:
        rows = np.arange(len(table))
        rules = rules_of(pupil.model, pupil.endpoint, pupil.candidate)
        weighed = Weighed.of(texts, 0, len(table), rules.vocabulary)
        candidate = count_inputs(weighed, facts_of(table, rows), rules).counted_tokens
    return TableRows(
        features=features_of(texts, table.message_counts)[is_text],
        settled_tokens=settled[is_text],
        quoted_tokens=quoted[is_text],
        candidate_tokens=candidate[is_text],
    )


def read_lesson(
    lines: list[bytes],
    pupil: Pupil,
    *,
    settled_input_tokens: Numbers,
    settled_output_tokens: Numbers,
    quoted_input_tokens: Numbers,
) -> Lesson:
    """Read rows' lines again, as the quote did, and put beside them what they settled at.

    Raises:
        Trouble: A line is not what a quote takes any more.
    """
    model, endpoint = pupil.model, pupil.endpoint
    body = b"\n".join(lines)
    table = fast.read_rows(body, _LIMITS)
    rows = np.arange(len(table))
    texts = table.texts if len(table.model_names) == 1 else prepare_texts(table.literals)
    facts, rules = facts_of(table, rows), rules_of(model, endpoint, pupil.vocabulary)
    inputs = count_inputs(Weighed.of(texts, 0, len(rows), rules.vocabulary), facts, rules)
    most = output_ceilings(facts, rules)
    has_jobs = endpoint is not Endpoint.EMBEDDINGS
    jobs = job_keys_of(lines_of(body, table, rows), pupil.salt) if has_jobs else [NO_JOB] * len(rows)
    return Lesson(
        settled_input_tokens=settled_input_tokens,
        settled_output_tokens=settled_output_tokens,
        quoted_input_tokens=quoted_input_tokens,
        counted_tokens=inputs.counted_tokens,
        given_tokens=inputs.given_tokens,
        lowest_tokens=inputs.lowest_tokens,
        ceiling_tokens=inputs.ceiling_tokens,
        prior_output_tokens=np.minimum(output_priors(facts, quoted_input_tokens, rules) * facts.choices, most),
        most_output_tokens=most,
        jobs=np.array(jobs, dtype=np.int64),
    )
