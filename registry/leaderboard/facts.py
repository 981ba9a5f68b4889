"""The facts behind sentences about evaluations, read from the registry. Functions take the session first."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session

from registry.db import is_in
from registry.lookups import NAMES, with_names
from registry.predictions.stored import filter_archived
from registry.prompting.protocols.answering import lists_options, samples
from registry.prompting.variants import VARIANT_KINDS, parse_variants
from registry.schema.selectables import Row
from registry.scores.asked import ASKED, asking
from registry.scores.interval_methods import UPPER_BOUND
from registry.tables import (
    Evaluation,
    EvaluationMetric,
    ModelRevision,
    Prediction,
    Protocol,
    QuestionScore,
    VariantSet,
)
from registry.verdicts.facts import Asked, Facts, Noise, Number, Reading

NUMBERS: Final = (
    "accuracy",
    "average_accuracy",
    "worst_accuracy",
    "best_accuracy",
    "fluctuation_rate",
    "right_in_every_order",
    "right_twice_same_order",
    "right_twice_across_orders",
    "chance_loss",
    "order_loss",
)
"""The metrics that sentences speak of."""
UNKNOWN_STATE: Final = "no valid answer"
_KEPT: Final = 50_000


class Counts(NamedTuple):
    """The numbers of answers requested, valid and tied, and of questions with a read, and a right, original order.

    fewest, most: different prompts of a question with its own options.
    """

    asked: int
    valid: int
    tied: int
    originals_read: int
    originals_right: int
    fewest: int
    most: int


_counted: dict[str, Counts] = {}
"""Seal to its counts, which stay as they are."""


def facts_of(session: Session, evaluation_ids: Iterable[int], scope: str = "all") -> dict[int, Facts]:
    """Map each sealed evaluation to its facts; leave out repeats that were run elsewhere."""
    ids = list(dict.fromkeys(evaluation_ids))
    query = with_names(
        select(
            Evaluation.id,
            Evaluation.seal,
            Evaluation.questions,
            Evaluation.specification,
            Evaluation.repeats,
            *(getattr(Evaluation, name) for name in ASKED),
            *NAMES,
            ModelRevision.kind,
            Protocol.definition,
            VariantSet.kind.label("variant_kind"),
        )
    ).where(is_in(Evaluation.id, ids), Evaluation.seal.is_not(None))
    rows = {row["id"]: dict(row) for row in session.execute(query).mappings()}
    counts = _counts(session, {row["seal"]: number for number, row in rows.items()})
    numbers = _numbers(session, list(rows), scope)
    for number, row in rows.items():
        known = counts[row["seal"]]
        if scope == "all" and known.originals_read:
            answered = Number(known.originals_right / known.originals_read, known.originals_read)
            numbers.setdefault(number, {})["accuracy_of_answered"] = answered
    return {number: _facts(row, counts[row["seal"]], numbers.get(number, {})) for number, row in rows.items()}


def _facts(row: Row, counts: Counts, numbers: Mapping[str, Number]) -> Facts:
    definition, varied = row["definition"], find_varied_part(row["variant_kind"], row["definition"])
    recorded = row["specification"]["engine"]["name"] == "replay"
    lost = counts.asked - counts.valid
    return Facts(
        model=row["model"],
        benchmark=row["benchmark"],
        questions=row["questions"],
        asked=Asked(
            varied=varied,
            fewest=counts.fewest,
            most=counts.most,
            prompts=row["variants_max"] or 0,
            repeated=(row["repeats"] or 1) > 1,
            own_only=not (varied == "order" and row["orders_only"] is False),
            lists_options=lists_options(definition),
            samples=row["samples"],
        ),
        reading=Reading(counts.asked, {UNKNOWN_STATE: lost} if lost else {}, counts.tied),
        numbers=numbers,
        chance=row["chance"],
        variants=row["variants"],
        repeat=_repeating(row, definition, recorded=recorded),
        evaluation=row["id"],
    )


def _repeating(row: Row, definition: Mapping[str, Any], *, recorded: bool) -> str | None:
    """Return the command that runs each prompt twice; None if a prompt has one answer, or for imports."""
    if recorded or not samples(definition) or row["variant_kind"] == "imported":
        return None
    variants = parse_variants(row["variants"]).asked(2).name
    return asking(row | {"question_filter": row["specification"]["questions"]}, variants=variants)


def _varies(kind: str) -> str | None:
    return VARIANT_KINDS[kind].varies if kind in VARIANT_KINDS else None


def find_varied_part(kind: str, definition: Mapping[str, Any]) -> str | None:
    """Return which part of a protocol's prompts variants of a kind vary: `order`, `labels` or `wording`; None: none.

    >>> find_varied_part("divergent", {"format": "recorded"}), find_varied_part("cyclic", {"format": "cloze"})
    ('order', None)
    """
    found = {"options": "order", "question": None}.get(_varies(kind) or "", _varies(kind))
    return found if found != "order" or lists_options(definition) else None


def _counts(session: Session, by_seal: Mapping[str, int]) -> dict[str, Counts]:
    """Map each seal to the counts of its answers, of prompts with the question's own options.

    If prompts are repeated, all answers count: the copies of scores have only the first.
    """
    unknown = {number: seal for seal, number in by_seal.items() if seal not in _counted}
    if unknown:
        if len(_counted) > _KEPT:
            _counted.clear()
        score = QuestionScore
        read = case((score.original_answered.is_(True), 1), else_=0)
        right = case((score.original_answered.is_(True) & score.original_correct.is_(True), 1), else_=0)
        sums: list[ColumnElement[Any]] = [
            func.sum(count) for count in (score.variants, score.valid, score.tied, read, right)
        ]
        sums += [func.min(score.own_prompts), func.max(score.own_prompts)]
        query = (
            select(score.evaluation_id, *sums)
            .where(is_in(score.evaluation_id, list(unknown)))
            .group_by(score.evaluation_id)
        )
        again = select(Evaluation.id).where(is_in(Evaluation.id, list(unknown)), Evaluation.repeats > 1)
        repeated = {number: counts for number in session.scalars(again) if (counts := _answers(session, number))}
        for number, *found in session.execute(query):
            known = Counts(*(int(count or 0) for count in found))
            _counted[unknown.pop(number)] = known._replace(**repeated.get(number, {}))
        _counted.update(dict.fromkeys(unknown.values(), Counts(0, 0, 0, 0, 0, 0, 0)))
    return {seal: _counted[seal] for seal in by_seal}


def _answers(session: Session, evaluation_id: int) -> dict[str, int] | None:
    """Count the answers of an evaluation by its predictions; None if it is archived."""
    prediction = Prediction
    tied = func.sum(case((prediction.tied, 1), else_=0))
    query = select(func.count(), func.count(prediction.chosen_option), tied).where(
        prediction.evaluation_id == evaluation_id, prediction.question_shown, prediction.own_options
    )
    if filter_archived(session, [evaluation_id]):
        return None
    asked_for, valid, tied_answers = session.execute(query).one()
    return {"asked": int(asked_for), "valid": int(valid), "tied": int(tied_answers or 0)}


def missing_shares(session: Session, evaluation_ids: Iterable[int]) -> dict[int, float | None]:
    """Map each sealed evaluation to the share of its answers that are missing, in [0, 1]; None if none was requested.

    Missing answers are unread, unfinished, empty or refused.
    """
    ids = list(dict.fromkeys(evaluation_ids))
    query = select(Evaluation.seal, Evaluation.id).where(is_in(Evaluation.id, ids), Evaluation.seal.is_not(None))
    by_seal = {str(row[0]): row[1] for row in session.execute(query)}
    counts = _counts(session, by_seal)
    found = {number: counts[seal] for seal, number in by_seal.items()}
    return {number: 1 - known.valid / known.asked if known.asked else None for number, known in found.items()}


def _numbers(session: Session, ids: Sequence[int], scope: str) -> dict[int, dict[str, Number]]:
    """Map each evaluation to its defined metrics of NUMBERS over a scope; an upper bound has no lower end."""
    stored: Any = EvaluationMetric
    query = (
        select(
            stored.evaluation_id,
            stored.metric,
            stored.value,
            stored.n,
            stored.interval_low,
            stored.interval_high,
            stored.interval_method,
        )
        .where(
            is_in(stored.evaluation_id, list(ids)),
            stored.scope == scope,
            stored.metric.in_(NUMBERS),
            stored.value.is_not(None),
        )
        .order_by(stored.definition_version)
    )
    found: dict[int, dict[str, Number]] = {}
    for number, metric, value, n, low, high, method in session.execute(query):
        found.setdefault(number, {})[metric] = Number(value, n, None if method == UPPER_BOUND else low, high)
    return found


def noise_facts(document: Mapping[str, Any] | None) -> Noise | None:
    """Return the result of `registry.studies.noise.repeat_noise` for sentences; None if nothing was repeated."""
    if document is None or document["repeat_disagreement"] is None:
        return None

    return Noise(
        repeats=document["repeat_disagreement"],
        orders=document["order_disagreement"],
        effect=document["order_effect"],
        interval=None if document["interval"] is None else (document["interval"][0], document["interval"][1]),
        n=document["questions"],
        elsewhere=bool(document["noise_from"]) and document["noise_from"] != document["evaluations"],
    )
