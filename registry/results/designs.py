"""Designs of evaluations that ask only as many questions as a stated precision needs; read without numpy."""

from collections.abc import Mapping
from typing import Any, Final

from registry.metrics import METRICS
from registry.metrics.averaging import MeanOverQuestions
from registry.metrics.axes import AXES
from registry.metrics.catalogue import QUESTION_METRICS
from registry.prompting.protocols.answering import lists_options
from registry.prompting.variants import VARIANT_KINDS, stored_variants
from registry.tables import Evaluation

METHOD: Final = "repeated confidence interval"
VERSION: Final = 2
"""Of the rules by which order, batches, looks and decisions follow from a design."""

SAMPLED_METRICS: Final = tuple(
    name
    for name in QUESTION_METRICS
    if isinstance(METRICS[name].averaging, MeanOverQuestions)
    and (METRICS[name].low, METRICS[name].high) == (0.0, 1.0)
    and name != "pride_accuracy"  # known only when all questions are
)
"""Means over questions of values from 0 to 1, which a sample can estimate."""


def design_of(evaluation: Evaluation) -> dict[str, Any] | None:
    """What was asked for and how questions are drawn; None for an evaluation of all its questions."""
    design: dict[str, Any] | None = evaluation.specification.get("questions", {}).get("precision")
    return design


STOPPABLE: Final = tuple(
    name
    for name in QUESTION_METRICS
    if isinstance(averaging := METRICS[name].averaging, MeanOverQuestions)
    and averaging.decided is not None
    and name in averaging.decided.by
)
"""Metrics that a question can be asked until they are decided."""


def stopping_of(evaluation: Evaluation) -> dict[str, Any] | None:
    """Until what questions are asked, and in which order of variants; None where they are asked in all of them."""
    stopping: dict[str, Any] | None = evaluation.specification.get("questions", {}).get("stopping")
    return stopping


def decided_with(metric: str) -> tuple[str, ...]:
    """The metrics that are known, exactly, once each question was asked until this one was decided.

    >>> decided_with("worst_accuracy")
    ('worst_accuracy', 'bmca_100')
    """
    return tuple(
        name
        for name in QUESTION_METRICS
        if isinstance(averaging := METRICS[name].averaging, MeanOverQuestions)
        and averaging.decided is not None
        and metric in averaging.decided.by
    )


def has_all_cells(evaluation: Evaluation) -> bool:
    """Whether each question was to be asked in every combination of what the variants vary."""
    if design_of(evaluation) is not None or stopping_of(evaluation) is not None:
        return False
    definition = stored_variants(evaluation.variant_set)
    return definition.kind != "imported" and definition.sample is None


def varied_axes(evaluation: Evaluation) -> frozenset[str]:
    """The axes of AXES that the variants of an evaluation vary; empty where its answers tell of none."""
    if not has_all_cells(evaluation):
        return frozenset()
    kinds = [factor.kind for factor in stored_variants(evaluation.variant_set).factors]
    return frozenset(VARIANT_KINDS[kind].axis for kind in kinds if kind != "original") & frozenset(AXES)


def as_specified(specification: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a new evaluation that repeat, for views to read, what its specification says."""
    return {"lists_options": lists_options(specification["protocol"]), **asked_in_part(specification)}


def asked_in_part(specification: Mapping[str, Any]) -> dict[str, str | None]:
    """The columns of an evaluation that say what it left out on purpose, and for which metric."""
    questions = specification.get("questions", {})
    return {
        "sampled_for": questions.get("precision", {}).get("metric"),
        "stopped_for": questions.get("stopping", {}).get("metric"),
    }


def stopped_label(question_filter: Mapping[str, Any]) -> str | None:
    """Until what questions were asked, in words; None where they were asked in every variant.

    >>> stopped_label({"limit": None, "stopping": {"metric": "worst_accuracy"}})
    'asked until worst accuracy was decided'
    """
    asked = question_filter.get("stopping")
    return None if asked is None else f"asked until {METRICS[asked['metric']].label.lower()} was decided"


def sampled_label(question_filter: Mapping[str, Any]) -> str | None:
    """How precisely a metric was asked for, in words; None where all questions were asked.

    >>> sampled_label({"limit": None, "precision": {"precision": "0.02", "metric": "accuracy"}})
    'sampled for accuracy to ±0.02'
    """
    asked = question_filter.get("precision")
    return None if asked is None else f"sampled for {asked['metric']} to ±{asked['precision']}"
