"""Stored answers under other keys: every metric as it would be if the benchmark's file had had them.

Answers are stored as options, so another key changes which of them is right, and no model is asked again. What cannot
be known without asking is None, with a reason: where the corrected file would have shown other prompts, as the kinds do
that build their variants around the right option. See docs/decisions/0065-errata.md.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.metrics import METRICS, axes, cora, npsq, permutation, probability, runs
from registry.metrics.averaging import Runs, mean_of_defined
from registry.metrics.pride import ALPHA, estimation_set
from registry.predictions.stored import read
from registry.prompting.prompts import PromptKeys, question_text
from registry.prompting.variants import stored_variants
from registry.scores.cells import OfAxes, stored_axes
from registry.scores.corrections import Correction
from registry.scores.intervals import Array, base_metrics, question_values
from registry.scores.outcomes import answers_in_runs, runs_over, stored_outcomes
from registry.scores.pride import compute_pride
from registry.tables import (
    Evaluation,
    EvaluationQuestion,
    Prediction,
    Question,
    QuestionPride,
    QuestionScore,
)

_CHUNK: Final = 500

# What a metric looks at. The corrected file's prompts have to be the same as those that were asked.
_ORIGINAL, _OWN, _SHOWN = "the original order", "orders of the question's own options", "altered options"
_KEYLESS: Final = ("fluctuation_rate", "score", "entropy", "choice_sensitivity", "choice_sensitivity_normalized")
"""Metrics that do not ask which option is right: under any key they are those of the prompts that were asked."""
_LOOKS_AT: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys((metric.name for metric in permutation.METRICS), (_ORIGINAL, _OWN)),
    **dict.fromkeys((metric.name for metric in probability.METRICS), (_OWN,)),
    **dict.fromkeys((metric.name for metric in runs.METRICS), (_ORIGINAL, _OWN)),
    **dict.fromkeys((metric.name for metric in cora.METRICS), (_ORIGINAL, _SHOWN)),
    **dict.fromkeys((metric.name for metric in npsq.METRICS), (_ORIGINAL,)),
    **dict.fromkeys((metric.name for metric in axes.METRICS), (_OWN,)),
    "pride_accuracy": (_ORIGINAL, _OWN),
    "accuracy": (_ORIGINAL,),
    **dict.fromkeys(_KEYLESS, ()),
}
_EVERYTHING: Final = (_ORIGINAL, _OWN, _SHOWN)


@dataclass(frozen=True)
class Rescored:
    """An evaluation under a correction.

    question_ids: of the questions that it has, ascending. values: metric to (questions,), NaN where undefined and for
    questions left out. unknown: metric to why it cannot be said; its values are NaN.
    """

    session: Session
    evaluation: Evaluation
    correction: Correction
    question_ids: tuple[int, ...]
    values: Mapping[str, Array]
    unknown: Mapping[str, str]

    @cached_property
    def _runs(self) -> tuple[Runs, int]:
        found = answers_in_runs(self.session, self.evaluation, self.question_ids, self.correction)
        return runs_over(found)

    @cached_property
    def axes(self) -> OfAxes:
        """What the axes do."""
        return stored_axes(self.session, self.evaluation, self.correction)

    def metrics(self) -> dict[str, tuple[float | None, int]]:
        """Every metric's value, and over how many questions it is taken."""
        found: dict[str, tuple[float | None, int]] = {}
        for name, metric in METRICS.items():
            if name in self.unknown:
                found[name] = (None, 0)
            elif metric.over_runs is not None:
                of_orders, tested = self._runs
                found[name] = (metric.over_runs(of_orders), tested)
            elif metric.over_cells is not None:
                found[name] = self.axes.values.get(name, (None, 0))
            else:
                base = np.stack([self.values[part] for part in base_metrics(name)])
                both = base[:, ~np.isnan(base).any(axis=0)]
                means = [mean_of_defined(row.tolist())[0] for row in both]
                function = metric.of_two_means
                found[name] = (means[0] if function is None else function.value(*means), both.shape[1])
        return found

    @property
    def questions(self) -> int:
        """How many questions count."""
        return len(set(self.question_ids) - self.correction.left_out)

    def per_question(self) -> dict[str, dict[str, float | None]]:
        """Every metric of each question that counts, by its external id."""
        names = {row.id: row.external_id for row in _questions(self.session, self.question_ids)}
        return {
            names[question_id]: {
                name: None if np.isnan(column[place]) else float(column[place]) for name, column in self.values.items()
            }
            for place, question_id in enumerate(self.question_ids)
            if question_id not in self.correction.left_out
        }

    @property
    def counting(self) -> dict[str, Array]:
        """`values` over the questions that count alone: what intervals are resampled from."""
        kept = np.array([one not in self.correction.left_out for one in self.question_ids], dtype=np.bool_)
        return {name: column[kept] for name, column in self.values.items()}


def rescored(session: Session, evaluation: Evaluation, correction: Correction) -> Rescored:
    """A sealed evaluation under a correction."""
    ids = tuple(
        session.scalars(
            select(QuestionScore.question_id)
            .where(QuestionScore.evaluation_id == evaluation.id)
            .order_by(QuestionScore.question_id)
        )
    )
    published = question_values(session, evaluation.id, ids)
    values, unknown = corrected_values(session, evaluation, ids, correction, published)
    return Rescored(session, evaluation, correction, ids, values, unknown)


def corrected_values(
    session: Session,
    evaluation: Evaluation,
    question_ids: Sequence[int],
    correction: Correction,
    published: Mapping[str, Array],
) -> tuple[dict[str, Array], dict[str, str]]:
    """What `question_values` gave of the questions, under a correction, and metric to why it cannot be said."""
    asked = set(question_ids)
    answers = {key: answer for key, answer in correction.answers.items() if key in asked}
    left_out = correction.left_out & asked
    if not answers and not left_out:
        return dict(published), {}
    values = {name: column.copy() for name, column in published.items()}
    unknown = unknown_metrics(session, evaluation, Correction(left_out, answers))
    places = {question_id: place for place, question_id in enumerate(question_ids)}
    for question_id, outcomes in stored_outcomes(session, evaluation, answers).items():
        place = places[question_id]
        for name, column in values.items():
            function = METRICS[name].per_question
            if function is None or name in unknown or _never(column[place], name):
                continue
            found = function(outcomes)
            column[place] = np.nan if found is None else found
    if "pride_accuracy" in values and "pride_accuracy" not in unknown:
        values["pride_accuracy"] = _pride(session, evaluation, question_ids, correction)
    gone = [places[question_id] for question_id in left_out]
    for name, column in values.items():
        column[gone] = np.nan
        if name in unknown:
            column[:] = np.nan
    return values, unknown


_NEEDS_LOGPROBS: Final = {"accuracy_normalized", "npsq_accuracy", "choice_only_accuracy"}


def _never(published: float, name: str) -> bool:
    """Whether a metric is undefined under every key, since what it needs was not stored when the answer was scored."""
    return name in _NEEDS_LOGPROBS and bool(np.isnan(published))


def _pride(session: Session, evaluation: Evaluation, question_ids: Sequence[int], correction: Correction) -> Array:
    """PriDe as of the corrected file; where questions are left out, others may be in its estimation set."""
    nothing = np.full(len(question_ids), np.nan)
    of = QuestionPride
    known = session.scalar(select(func.count()).select_from(of).where(of.evaluation_id == evaluation.id))
    if not known:
        return nothing
    of_version = Question.benchmark_version_id == evaluation.benchmark_version_id
    query = select(Question.id, Question.external_id).where(of_version, ~Question.few_shot)
    names: dict[int, str] = {row.id: row.external_id for row in session.execute(query)}
    found = compute_pride(session, evaluation.id, correction=correction).answers
    for place, question_id in enumerate(question_ids):
        answer = found.get(names[question_id])
        if answer is not None and answer.correct is not None:
            nothing[place] = float(answer.correct)
    return nothing


# Which prompts the corrected file would have shown


def unknown_metrics(session: Session, evaluation: Evaluation, correction: Correction) -> dict[str, str]:
    """Metric to why it cannot be known under a correction without asking the model again."""
    of = EvaluationQuestion
    asked = set(session.scalars(select(of.question_id).where(of.evaluation_id == evaluation.id)))
    answers = {key: answer for key, answer in correction.answers.items() if key in asked}
    left_out = correction.left_out & asked
    if not answers and not left_out:
        return {}
    if evaluation.sampled_for is not None:
        reason = "the evaluation asked as many questions as a precision by the published keys needed"
        return dict.fromkeys(METRICS, reason)
    if not answers:
        return {}
    if evaluation.stopped_for is not None:
        return dict.fromkeys(METRICS, "each question was asked until it was decided by the published keys")
    differ: dict[str, set[str]] = {}
    for question in _questions(session, answers):
        same = _same_prompts(session, evaluation, question, answers[question.id])
        for what in _EVERYTHING:
            if what not in same:
                differ.setdefault(what, set()).add(question.external_id)
    prior = differ.get(_OWN, set()) & _estimated_from(session, evaluation, left_out) if _OWN in differ else set()
    kind = evaluation.variant_set.kind
    unknown = {}
    for name in METRICS:
        looks_at = _LOOKS_AT.get(name, _EVERYTHING)
        if name == "pride_accuracy" and not prior:
            looks_at = (_ORIGINAL,)
        questions = set().union(*(differ.get(what, set()) for what in looks_at))
        if questions:
            listed = ", ".join(sorted(questions)[:3]) + (", …" if len(questions) > 3 else "")
            unknown[name] = (
                f"with the corrected key, variants {kind} show other prompts, which the model was not asked ({listed})"
            )
    return unknown


def _questions(session: Session, ids: Iterable[int]) -> list[Question]:
    listed = sorted(ids)
    return [
        question
        for start in range(0, len(listed), _CHUNK)
        for question in session.scalars(select(Question).where(Question.id.in_(listed[start : start + _CHUNK])))
    ]


def _estimated_from(session: Session, evaluation: Evaluation, left_out: Collection[int]) -> set[str]:
    """The questions that PriDe's prior is estimated from without those left out, by external id."""
    groups: dict[int, list[str]] = {}
    query = (
        select(Question.id, Question.external_id, Question.n_options)
        .join(QuestionScore, QuestionScore.question_id == Question.id)
        .where(QuestionScore.evaluation_id == evaluation.id, QuestionScore.variants > 0)
    )
    for question_id, name, n_options in session.execute(query):
        if question_id not in left_out:
            groups.setdefault(n_options, []).append(name)
    return {name for names in groups.values() for name in estimation_set(names, ALPHA)}


def _same_prompts(session: Session, evaluation: Evaluation, question: Question, answer: int) -> set[str]:
    """What of the prompts of one question is the same whichever of the two options is right."""
    variant_set = evaluation.variant_set
    if variant_set.kind == "imported":
        return _imported(session, evaluation, question)
    definition = stored_variants(variant_set)
    text = question_text(question)
    keys = [
        PromptKeys(definition, replace(text, answer=key), lists_options=evaluation.lists_options)
        for key in (question.answer, answer)
    ]
    before, after = (of_key.variants for of_key in keys)
    if before == after:
        return set(_EVERYTHING)
    same, L = set(), question.n_options
    own = [[one for one in variants if one.question_shown and one.own_options(L)] for variants in (before, after)]
    if own[0] == own[1] and len({of_key.distinct > 1 for of_key in keys}) == 1:
        same.add(_OWN)
    originals = [next((one for one in variants if one.unchanged(L)), None) for variants in (before, after)]
    # Where there is no original, its metrics look at the first of the question's own orders.
    if originals[0] == originals[1] and (originals[0] is not None or _OWN in same):
        same.add(_ORIGINAL)
    return same


def _imported(session: Session, evaluation: Evaluation, question: Question) -> set[str]:
    """Recorded orders are what they are; whether options were dropped or inserted around a key, nobody has recorded."""
    altered = select(func.count()).where(
        Prediction.evaluation_id == evaluation.id,
        Prediction.question_id == question.id,
        Prediction.question_shown,
        ~Prediction.own_options,
    )
    changed = read(session, [evaluation.id], altered, [question.id]).scalar()
    return {_ORIGINAL, _OWN} if changed else set(_EVERYTHING)
