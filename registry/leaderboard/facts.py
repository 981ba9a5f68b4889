"""Facts on which sentences about evaluations are based, read from the registry. Functions take the session first."""

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
from registry.scores.asked import ASKED, asking, is_recorded
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
"""Metrics that sentences can mention."""
UNKNOWN_STATE: Final = "no valid answer"
_MAX_CACHED: Final = 50_000


class Counts(NamedTuple):
    """Counts of an evaluation's answers to prompts with the question's own options.

    asked, valid, tied: numbers of answers. originals_read, originals_right: numbers of questions whose answer in the
    original order could be read, and was right. fewest, most: different prompts of a question.
    """

    asked: int
    valid: int
    tied: int
    originals_read: int
    originals_right: int
    fewest: int
    most: int


_counts_by_seal: dict[str, Counts] = {}
"""Counts by seal, cached because a sealed evaluation never changes."""


def facts_of(session: Session, evaluation_ids: Iterable[int], scope: str = "all") -> dict[int, Facts]:
    """Return the facts of each sealed evaluation by id, without `noise`, which can need other evaluations."""
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
    counts = _load_counts(session, {row["seal"]: number for number, row in rows.items()})
    numbers = _load_numbers(session, list(rows), scope)
    for number, row in rows.items():
        own_counts = counts[row["seal"]]
        if scope == "all" and own_counts.originals_read:
            answered = Number(own_counts.originals_right / own_counts.originals_read, own_counts.originals_read)
            numbers.setdefault(number, {})["accuracy_of_answered"] = answered
    return {number: _build_facts(row, counts[row["seal"]], numbers.get(number, {})) for number, row in rows.items()}


def _build_facts(row: Row, counts: Counts, numbers: Mapping[str, Number]) -> Facts:
    definition, varied = row["definition"], find_varied_part(row["variant_kind"], row["definition"])
    recorded = is_recorded(row["specification"])
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
        repeat=_repeat_command(row, definition, recorded=recorded),
        evaluation=row["id"],
    )


def _repeat_command(row: Row, definition: Mapping[str, Any], *, recorded: bool) -> str | None:
    """Return the command that runs each prompt twice; None for imports and for models that do not sample."""
    if recorded or not samples(definition) or row["variant_kind"] == "imported":
        return None
    variants = parse_variants(row["variants"]).asked(2).name
    return asking(row | {"question_filter": row["specification"]["questions"]}, variants=variants)


def _varied_part(kind: str) -> str | None:
    return VARIANT_KINDS[kind].varies if kind in VARIANT_KINDS else None


def find_varied_part(kind: str, definition: Mapping[str, Any]) -> str | None:
    """Return the part of a protocol's prompts that this kind of variants changes: `order`, `labels`, `wording` or None.

    >>> find_varied_part("divergent", {"format": "recorded"}), find_varied_part("cyclic", {"format": "cloze"})
    ('order', None)
    """
    part = {"options": "order", "question": None}.get(_varied_part(kind) or "", _varied_part(kind))
    return part if part != "order" or lists_options(definition) else None


def _load_counts(session: Session, by_seal: Mapping[str, int]) -> dict[str, Counts]:
    """Return the counts of each evaluation by seal.

    They come from question scores, or from predictions if prompts were repeated: scores contain only the first answer.
    """
    unknown = {number: seal for seal, number in by_seal.items() if seal not in _counts_by_seal}
    if unknown:
        if len(_counts_by_seal) > _MAX_CACHED:
            _counts_by_seal.clear()
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
        repeated_ids = select(Evaluation.id).where(is_in(Evaluation.id, list(unknown)), Evaluation.repeats > 1)
        repeated = {
            number: counts for number in session.scalars(repeated_ids) if (counts := _count_answers(session, number))
        }
        for number, *sums_of_scores in session.execute(query):
            counted = Counts(*(int(count or 0) for count in sums_of_scores))
            _counts_by_seal[unknown.pop(number)] = counted._replace(**repeated.get(number, {}))
        _counts_by_seal.update(dict.fromkeys(unknown.values(), Counts(0, 0, 0, 0, 0, 0, 0)))
    return {seal: _counts_by_seal[seal] for seal in by_seal}


def _count_answers(session: Session, evaluation_id: int) -> dict[str, int] | None:
    """Count an evaluation's answers from its predictions; return None if it is archived."""
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
    """Return the share of each sealed evaluation's answers that are missing, in [0, 1]; None if it requested none.

    Missing answers are unread, unfinished, empty or refused.
    """
    ids = list(dict.fromkeys(evaluation_ids))
    query = select(Evaluation.seal, Evaluation.id).where(is_in(Evaluation.id, ids), Evaluation.seal.is_not(None))
    by_seal = {str(row[0]): row[1] for row in session.execute(query)}
    counts = _load_counts(session, by_seal)
    counts_by_id = {number: counts[seal] for seal, number in by_seal.items()}
    return {
        number: 1 - answers.valid / answers.asked if answers.asked else None for number, answers in counts_by_id.items()
    }


def _load_numbers(session: Session, ids: Sequence[int], scope: str) -> dict[int, dict[str, Number]]:
    """Return each evaluation's defined metrics of NUMBERS over a scope.

    An interval that is only an upper bound has no lower end.
    """
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
    numbers: dict[int, dict[str, Number]] = {}
    for number, metric, value, n, low, high, method in session.execute(query):
        numbers.setdefault(number, {})[metric] = Number(value, n, None if method == UPPER_BOUND else low, high)
    return numbers


def noise_facts(document: Mapping[str, Any] | None) -> Noise | None:
    """Convert the result of `registry.studies.noise.repeat_noise` to Noise; None if no prompt was repeated."""
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
