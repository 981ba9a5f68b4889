"""Drift: what changed between two evaluations that gave the same model the same prompts.

Replicates over time, library versions, devices or batches; or two revisions of one model, such as two precisions, also
where the same files were registered under two names.
"""

import math
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from sqlalchemy import Row, Select, and_, select
from sqlalchemy.orm import Session

from registry.errors import UsageError
from registry.lookups import find_sealed
from registry.metrics import METRICS
from registry.predictions.stored import require_rows
from registry.proof.provenance import compare_provenance, provenance_document
from registry.tables import Evaluation, EvaluationMetric, Generation, Prediction, Question

DECADES: Final = tuple(range(-9, 0))
"""Changes of a probability are counted by powers of ten: up to 1e-9, up to 1e-8, …, up to 1e-1, and more."""

ENGINE_GROUPS: Final = ("model", "engine", "machines")
"""Groups of provenance facts that could be why numbers differ, where the prompts are the same."""


def drift_document(session: Session, one_id: int, other_id: int) -> dict[str, Any]:
    """What changed from one evaluation to another, over the prompts that both hold.

    flips: prompts with different answers, with both answers and the probabilities by position; largest_change: of any
    probability, None without probabilities; changes: how many prompts' largest change is within each of DECADES;
    metrics: of the whole evaluations, and the interval of the change as `compare_evaluations` has it; engine:
    facts that differ in what scored them.

    Raises QueueError for one that is not sealed, UsageError where models, benchmarks, protocols or variants differ.
    """
    one, other = _pair(session, one_id, other_id)
    prompts = flipped = 0
    largest: dict[str, Any] | None = None
    changes = [0] * (len(DECADES) + 1)
    unchanged = with_probabilities = states_differ = texts_differ = 0
    flips = []
    of, text = Prediction, Generation
    same = (text.evaluation_id == of.evaluation_id, text.question_id == of.question_id, text.variant == of.variant)
    query = (
        select(
            *(of.question_id, of.variant, of.shown, of.chosen_option, of.state, of.label_probabilities),
            *(Question.external_id, text.text),
        )
        .join(Question, Question.id == of.question_id)
        .outerjoin(text, and_(*same))
    )
    for left, right in pairs(session, query, one.id, other.id):
        prompts += 1
        states_differ += _state(left) != _state(right)
        texts_differ += None not in (left.text, right.text) and left.text != right.text
        if left.chosen_option != right.chosen_option:
            flipped += 1
            flips.append(
                {
                    "question_id": left.question_id,
                    "external_id": left.external_id,
                    "variant": left.variant,
                    "shown": list(left.shown),
                    "one": left.chosen_option,
                    "other": right.chosen_option,
                    "one_probabilities": left.label_probabilities,
                    "other_probabilities": right.label_probabilities,
                }
            )
        change = largest_change(left.label_probabilities, right.label_probabilities)
        if change is None:
            continue
        with_probabilities += 1
        if change == 0:
            unchanged += 1
        else:
            changes[decade(change)] += 1
        if largest is None or change > largest["change"]:
            largest = {"change": change, "external_id": left.external_id, "variant": left.variant}
    facts = compare_provenance(provenance_document(session, one.id), provenance_document(session, other.id))
    return {
        "evaluations": [one.id, other.id],
        "prompts": prompts,
        "flipped": flipped,
        "flips": flips,
        "largest_change": None if largest is None else largest["change"],
        "largest_change_at": largest,
        "changes": {"none": unchanged, "up_to": dict(zip((*map(str, DECADES), "0"), changes, strict=True))},
        "with_probabilities": with_probabilities,
        "texts_differ": texts_differ,
        "states_differ": states_differ,
        "metrics": _metrics(session, one.id, other.id),
        "engine": {
            f"{group}: {fact}": values
            for group in ENGINE_GROUPS
            for fact, values in facts["different"].get(group, {}).items()
        },
    }


def _pair(session: Session, one_id: int, other_id: int) -> tuple[Evaluation, Evaluation]:
    one, other = find_sealed(session, one_id), find_sealed(session, other_id)
    if one.id == other.id:
        raise UsageError(f"evaluation {one.id} is compared with itself; give another")
    for what, names in (
        ("models", _models(one, other)),
        ("benchmark versions", [f"{item.benchmark_version_id}" for item in (one, other)]),
        ("protocols", [item.protocol.digest for item in (one, other)]),
        ("variants", [item.variant_set.name for item in (one, other)]),
    ):
        if names[0] != names[1]:
            raise UsageError(
                f"evaluations {one.id} and {other.id} have different {what}: drift is between runs of the same prompts "
                "on one model; to compare models: shuffleboard statistics compare"
            )
    return one, other


def _models(one: Evaluation, other: Evaluation) -> list[str]:
    """What tells the models apart: their names, unless both were loaded from the very same files."""
    revisions = [one.model_revision, other.model_revision]
    files = {(revision.weights_digest, revision.tokenizer_digest) for revision in revisions}
    if len(files) == 1 and revisions[0].weights_digest is not None:
        return ["the same files"] * 2
    return [revision.model.name for revision in revisions]


def largest_change(one: list[float] | None, other: list[float] | None) -> float | None:
    """The largest difference in a probability between two lists by position; None where one is missing."""
    if one is None or other is None:
        return None
    return max(abs(first - second) for first, second in zip(one, other, strict=True))


def decade(change: float) -> int:
    """Place in DECADES of the smallest power of ten that a change is within; behind the last for more than 1e-1."""
    return min(max(math.ceil(math.log10(change)) - DECADES[0], 0), len(DECADES))


def pairs(
    session: Session, query: Select[*tuple[Any, ...]], one_id: int, other_id: int
) -> Iterator[tuple[Row[*tuple[Any, ...]], Row[*tuple[Any, ...]]]]:
    """The rows of two evaluations for every prompt that both hold in the same order, by question and variant.

    query: of predictions; it begins with their question, variant and order.
    """
    of = Prediction
    ordered = query.order_by(of.question_id, of.variant).execution_options(yield_per=5000)
    require_rows(session, one_id, other_id)
    one, other = (session.execute(ordered.where(of.evaluation_id == number)) for number in (one_id, other_id))
    with closing(one), closing(other):
        right = next(other, None)
        for left in one:
            while right is not None and tuple(right[:2]) < tuple(left[:2]):
                right = next(other, None)
            if right is not None and tuple(right[:2]) == tuple(left[:2]) and list(right[2]) == list(left[2]):
                yield left, right


def _state(row: Any) -> str:
    return row.state or ("unread" if row.chosen_option is None else "answered")


def _metrics(session: Session, one_id: int, other_id: int) -> list[dict[str, Any]]:
    """Both values of every metric that either has, over all questions, in its newest definition."""
    from registry.scores.intervals import question_values  # and numpy, which pages do without
    from registry.studies.comparing import common_questions, metric_differences

    ids = common_questions(session, one_id, other_id)
    differences = metric_differences(*(question_values(session, number, ids) for number in (other_id, one_id)))
    rows = session.execute(
        select(
            EvaluationMetric.evaluation_id,
            EvaluationMetric.metric,
            EvaluationMetric.definition_version,
            EvaluationMetric.value,
        ).where(EvaluationMetric.evaluation_id.in_((one_id, other_id)), EvaluationMetric.scope == "all")
    )
    values = {(row.evaluation_id, row.metric, row.definition_version): row.value for row in rows}
    found = []
    for name, metric in METRICS.items():
        one, other = (values.get((item, name, metric.definition_version)) for item in (one_id, other_id))
        if one is not None or other is not None:
            change = None if one is None or other is None else other - one
            interval = differences[name]["interval"] if name in differences and change is not None else None
            found.append({"metric": name, "one": one, "other": other, "change": change, "interval": interval})
    return found
