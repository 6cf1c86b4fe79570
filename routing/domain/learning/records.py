"""What was learned, as a quote uses it: ratios and bands by model, all of one version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from routing.domain.estimate.tables import Vocabulary
from routing.domain.learning.tallies import ONE_PPM


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Fifth and 95th percentile of settled / quoted, in parts per million; low is at most 1, high at least."""

    low_ppm: int
    high_ppm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRatios:
    """A job's ratios; ``output_ppm`` is None before its workflow has enough settled rows."""

    input_ppm: int
    output_ppm: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRatios:
    """What is known of one model for one customer and workflow. Bands are None where the stated prior holds."""

    input_ppm: int = ONE_PPM
    output_ppm: int | None = None
    input_band: Band | None = None
    output_band: Band | None = None
    jobs: Mapping[int, JobRatios] = field(default_factory=lambda: MappingProxyType({}))
    # A table that settled rows taught, where the catalog's is not the model's own.
    vocabulary: Vocabulary | None = None


NOTHING_OF_A_MODEL = ModelRatios()


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """All that a customer's quote may use. ``version`` names it for good: a quote pins it.

    ``salt`` goes into the keys of the customer's jobs, so that they say nothing to anybody else.
    """

    version: int = 0
    salt: bytes = b""
    models: Mapping[str, ModelRatios] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, model_slug: str) -> ModelRatios:
        """Give what is known of a model."""
        return self.models.get(model_slug, NOTHING_OF_A_MODEL)


NOTHING_LEARNED = Learned()
