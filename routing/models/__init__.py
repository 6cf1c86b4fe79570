"""Tables of routing, one module an entity. Django finds them here."""

from routing.models.batches import (
    ENDED_STATUSES,
    Batch,
    BatchEnding,
    BatchStatus,
    SubLane,
    SubLaneState,
)
from routing.models.files import FilePurpose, StoredFile
from routing.models.jobs import JobState, ProviderAccount, ProviderJob, UnclearChoice, UnclearDecision
from routing.models.learning import (
    BatchLesson,
    GroupAccuracy,
    LearnedScope,
    LearnedState,
    LearnedStateVersion,
    LearnedTable,
    LearningChoice,
    LearningDecision,
    LessonState,
    TableInTheMaking,
)
from routing.models.outcomes import RowOutcome
from routing.models.quote_path import QuotePathReport
from routing.models.quotes import FilePricing, PricingState, Quote, QuoteStatus
from routing.models.turns import Turn
from routing.models.workflows import Workflow, WorkflowVersion

__all__ = [
    "ENDED_STATUSES",
    "Batch",
    "BatchEnding",
    "BatchLesson",
    "BatchStatus",
    "FilePricing",
    "FilePurpose",
    "GroupAccuracy",
    "JobState",
    "LearnedScope",
    "LearnedState",
    "LearnedStateVersion",
    "LearnedTable",
    "LearningChoice",
    "LearningDecision",
    "LessonState",
    "PricingState",
    "ProviderAccount",
    "ProviderJob",
    "Quote",
    "QuotePathReport",
    "QuoteStatus",
    "RowOutcome",
    "StoredFile",
    "SubLane",
    "SubLaneState",
    "TableInTheMaking",
    "Turn",
    "UnclearChoice",
    "UnclearDecision",
    "Workflow",
    "WorkflowVersion",
]
