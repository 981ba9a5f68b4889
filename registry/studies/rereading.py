"""A second reading of an evaluation's stored outputs, by the rules of another protocol; no prompt is asked.

It tells two reasons apart why answers flip between orders: a flip that both readings see is the model's, and one that
only one of them sees is the reading's. What was stored and sealed stays as it is: the second reading is kept beside it
and gets a link of its own in the chain.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import isclose
from typing import Any, Final

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, selectinload

from registry import chain
from registry.digests import specification_digest
from registry.errors import ProtocolError, UsageError
from registry.lookups import find_sealed
from registry.metrics import METRICS
from registry.metrics.averaging import mean_of_defined
from registry.metrics.outcome import VariantOutcome, distinct_prompts, own_variants, prompt_of
from registry.metrics.permutation import fluctuation_rate
from registry.predictions.stored import read as read_stored
from registry.predictions.texts import stored_output
from registry.prompting.prompts import labels_shown
from registry.prompting.reading import STATES, Reading, read
from registry.prompting.thoughts import reads_apart
from registry.prompting.variants import QuestionShape, VariantShown, stored_variants
from registry.scores.analyses import READING, store_analysis
from registry.scores.outcomes import RunAnswer, runs_over, stored_outcomes
from registry.tables import (
    Analysis,
    Evaluation,
    EvaluationMetric,
    EvaluationQuestion,
    Generation,
    Prediction,
    Question,
)
from registry.verdicts.facts import exact_high, exact_low

_CHUNK: Final = 200

Match = Callable[[str, Sequence[str]], int]
"""(an answer in its own words, option texts by position) → the position that it means."""


@dataclass
class _Flips:
    """How many questions, or pairs of orders, flip in both readings, and in one of them alone."""

    of: int = 0
    both: int = 0
    first_only: int = 0
    second_only: int = 0

    def add(self, first: bool, second: bool) -> None:
        self.of += 1
        self.both += first and second
        self.first_only += first and not second
        self.second_only += second and not first

    def document(self, *, interval: bool) -> dict[str, Any]:
        """The counts, and which share of all flips is the model's. interval: that of 95 %, exact, for questions."""
        flips = self.both + self.first_only + self.second_only
        document: dict[str, Any] = {
            "of": self.of,
            "model": self.both,
            "reading": self.first_only + self.second_only,
            "first_only": self.first_only,
            "second_only": self.second_only,
            "model_share": self.both / flips if flips else None,
            "reading_share": 1 - self.both / flips if flips else None,
        }
        if interval:
            ends = [exact_low(self.both, flips), exact_high(self.both, flips)] if flips else None
            document["model_share_interval"] = ends
        return document


@dataclass
class _Counts:
    """What is summed over questions while they are read."""

    prompts: int = 0
    left_out: set[str] = field(default_factory=set)
    states: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    differing: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    changed_options: int = 0
    questions: _Flips = field(default_factory=_Flips)
    pairs: _Flips = field(default_factory=_Flips)
    values: dict[str, list[float | None]] = field(default_factory=dict)
    """Metric to the value of each question in the second reading."""
    runs: list[RunAnswer] = field(default_factory=list)


def reread(
    session: Session,
    evaluation_id: int,
    definition: Mapping[str, Any],
    match: Match,
    kept: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, result) of a reading of a sealed evaluation's outputs by a protocol's rules; nothing is stored.

    prompts: outputs that were read. left_out: questions that do not count, since a text of theirs is not stored.
    states: of the outputs in the first and the second reading. changed: prompts with another state or option, of which
    changed_options have another option; `differing` lists them by question and variant as [option, state, rule].
    flips: `questions` whose answers are not the same in all orders, and `pairs` of orders with different answers; of
    these `model` in both readings and `reading` in one alone. A missing answer equals nothing, as in every metric.
    metrics: those that are stored of the evaluation, in both readings.
    kept: the result of an earlier reading by the same rules, whose matches are taken in place of those of `match`, so
    that everything else can be checked without an embedder.

    Raises QueueError for an evaluation that is not sealed, ProtocolError for a protocol that writes no text or reads
    labels that were not shown, UsageError where no texts, or not the thoughts that it reads, are stored.
    """
    evaluation = find_sealed(session, evaluation_id)
    if "answer" not in definition:
        raise ProtocolError(
            f"protocol {definition['name']} scores options, so it has no text to read; use one that generates, such as "
            "final-answer"
        )
    counts = _Counts()
    stored = _stored_metrics(session, evaluation.id)
    for ids in _parts(session, evaluation.id):
        _read_part(session, _Rules(evaluation, definition, match, kept), ids, stored, counts)
    if not counts.prompts:
        raise UsageError(
            f"evaluation {evaluation.id}: no question has the texts of all its answers, so there is nothing to read "
            "again; protocols that score options write none"
        )
    second = _metrics(counts, stored)
    parameters = {"protocol": definition["name"], "definition": dict(definition)}
    result = {
        "prompts": counts.prompts,
        "left_out": sorted(counts.left_out),
        "states": [{state: counted[state] for state in STATES} for counted in counts.states],
        "changed": sum(map(len, counts.differing.values())),
        "changed_options": counts.changed_options,
        "flips": {
            "questions": counts.questions.document(interval=True),
            "pairs": counts.pairs.document(interval=False),
        },
        "metrics": second,
        "differing": counts.differing,
    }
    return parameters, result


def store_reading(session: Session, evaluation: Evaluation, parameters: dict[str, Any], result: dict[str, Any]) -> bool:
    """Keeps a reading beside the first one, with a link in the chain; returns whether it is new."""
    new = store_analysis(session, evaluation.id, READING, parameters, result)
    if new:
        chain.append(session, READING, reading_digest(evaluation.seal, parameters, result))
    return new


def reading_digest(seal: str | None, parameters: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """What the chain holds of a reading: the digest over the seal of what was read, the rules, and what they found."""
    return specification_digest({"seal": seal, "parameters": parameters, "result": _exact(result)})


def _exact(value: Any) -> Any:
    """A document for a digest: floats as text that reads back as the same number."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return {key: _exact(item) for key, item in value.items()}
    return [_exact(item) for item in value] if isinstance(value, list | tuple) else value


def reading_digests(session: Session) -> Iterator[str]:
    """What the chain should hold of every reading that is stored."""
    query = (
        select(Evaluation.seal, Analysis.parameters, Analysis.result)
        .join(Evaluation, Evaluation.id == Analysis.evaluation_id)
        .where(Analysis.kind == READING)
        .execution_options(yield_per=10)
    )
    for row in session.execute(query):
        yield reading_digest(row.seal, row.parameters, row.result)


# Reading


@dataclass(frozen=True)
class _Rules:
    evaluation: Evaluation
    definition: Mapping[str, Any]
    match: Match
    kept: Mapping[str, Any] | None

    def position(self, external_id: str, row: Any, text: str, options: Sequence[str]) -> int:
        """The position that an answer in its own words means."""
        if self.kept is None:
            return self.match(text, options)
        found = self.kept["differing"].get(external_id, {}).get(str(row.variant))
        option = row.chosen_option if found is None else found[0]
        return list(row.shown).index(option) if option in row.shown else 0


def _parts(session: Session, evaluation_id: int) -> Iterator[list[int]]:
    query = (
        select(EvaluationQuestion.question_id)
        .join(Question, Question.id == EvaluationQuestion.question_id)
        .where(EvaluationQuestion.evaluation_id == evaluation_id)
        .order_by(Question.ordinal)
    )
    ids = session.scalars(query).all()
    for start in range(0, len(ids), _CHUNK):
        yield list(ids[start : start + _CHUNK])


def _texts(evaluation_id: int, ids: Sequence[int]) -> Select[*tuple[Any, ...]]:
    of, text = Prediction, Generation
    same = (text.evaluation_id == of.evaluation_id, text.question_id == of.question_id, text.variant == of.variant)
    return (
        select(
            of.question_id,
            of.variant,
            of.shown,
            of.chosen_option,
            of.state,
            text.text,
            text.finished,
            text.forced,
            text.thought,
            text.thought_characters,
            text.thought_apart,
            text.thought_opened,
        )
        .outerjoin(text, same[0] & same[1] & same[2])
        .where(of.evaluation_id == evaluation_id, of.question_id.in_(ids))
        .order_by(of.question_id, of.variant)
    )


def _read_part(
    session: Session, rules: _Rules, ids: Sequence[int], stored: Mapping[str, float], counts: _Counts
) -> None:
    evaluation = rules.evaluation
    found = session.scalars(select(Question).where(Question.id.in_(ids)).options(selectinload(Question.options)))
    questions = {row.id: row for row in found}
    by_question: dict[int, list[Any]] = {}
    for row in read_stored(session, [evaluation.id], _texts(evaluation.id, ids), ids):
        by_question.setdefault(row.question_id, []).append(row)
    again: dict[tuple[int, int], int | None] = {}
    whole: dict[int, int] = {}
    for question_id, rows in by_question.items():
        question = questions[question_id]
        if any(row.text is None for row in rows):
            counts.left_out.add(question.external_id)
            continue
        whole[question_id] = question.answer
        shown = variants_of(evaluation, question)
        for row in rows:
            reading = _read(rules, question, shown.get(row.variant), row)
            option = None if reading.position is None else row.shown[reading.position]
            again[question_id, row.variant] = option
            _count(counts, question.external_id, row, option, reading)
    first = stored_outcomes(session, evaluation, whole)
    second = stored_outcomes(session, evaluation, whole, again)
    for question_id in whole:
        _count_flips(counts, first[question_id], second[question_id])
        _count_values(counts, question_id, second[question_id], stored)
    for question in questions.values():
        for one in question.options:
            session.expunge(one)
        session.expunge(question)


def shown_in(
    evaluation: Evaluation, question: Question, variant: VariantShown | None, row: Any
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options' texts and the labels that an answer can name them by, if there are any, by position.

    row: of a prediction, with `variant` and `shown`. variant: None where others made the orders.
    """
    own = [option.text for option in question.options]
    inserted = evaluation.variant_set.inserted
    if variant is not None and variant.noise is not None:
        own = list(variant.noise.options(tuple(own), question.answer))
    options = tuple(own[option] if option >= 0 else inserted[str(option)] for option in row.shown)
    plain = variant or VariantShown(row.variant, "", tuple(row.shown))
    labels = labels_shown(evaluation.protocol.definition, plain, len(options), question.external_id) or ()
    return options, labels if len(set(labels)) == len(labels) else ()


def variants_of(evaluation: Evaluation, question: Question) -> dict[int, VariantShown]:
    """The variants of a question by ordinal; empty where others made the orders."""
    if evaluation.variant_set.kind == "imported":
        return {}
    shape = QuestionShape(question.external_id, question.n_options, question.answer)
    return {variant.ordinal: variant for variant in stored_variants(evaluation.variant_set).variants(shape)}


def _read(rules: _Rules, question: Question, variant: VariantShown | None, row: Any) -> Reading:
    evaluation, definition = rules.evaluation, rules.definition
    options, labels = shown_in(evaluation, question, variant, row)
    answers = options
    if definition["answer"] == "label":
        answers = labels
        if not answers:
            raise ProtocolError(
                f"evaluation {evaluation.id} was asked by {evaluation.protocol.definition['name']}, which shows no "
                f"labels that an answer could name, and {definition['name']} reads labels; use final-answer-text or "
                "match-dash"
            )
    if not reads_apart(definition) and row.thought is None and row.thought_characters:
        raise UsageError(
            f"evaluation {evaluation.id}: its thoughts were not kept, and {definition['name']} reads them; use a "
            "protocol that reads answers alone"
        )
    reading = read(definition, stored_output(row, _state(row)), answers, options)
    if reading.to_match:
        assert reading.text is not None
        reading = reading.matched(rules.position(question.external_id, row, reading.text, options))
    return reading


def _state(row: Any) -> str:
    return row.state or ("unread" if row.chosen_option is None else "answered")


def _count(counts: _Counts, external_id: str, row: Any, option: int | None, reading: Reading) -> None:
    state = _state(row)
    counts.prompts += 1
    counts.states[0][state] += 1
    counts.states[1][reading.state] += 1
    if (option, reading.state) != (row.chosen_option, state):
        counts.changed_options += option != row.chosen_option
        of_question = counts.differing.setdefault(external_id, {})
        of_question[str(row.variant)] = [option, reading.state, reading.rule]


def _count_flips(counts: _Counts, first: Sequence[VariantOutcome], second: Sequence[VariantOutcome]) -> None:
    flipped = [fluctuation_rate(outcomes) for outcomes in (first, second)]
    if distinct_prompts(own_variants(first)) < 2:
        return
    counts.questions.add(flipped[0] == 1, flipped[1] == 1)
    pairs = zip(own_variants(first), own_variants(second), strict=True)
    for (one, one_again), (other, other_again) in combinations(pairs, 2):
        if prompt_of(one) != prompt_of(other):
            counts.pairs.add(_differ(one, other), _differ(one_again, other_again))


def _differ(one: VariantOutcome, other: VariantOutcome) -> bool:
    return one.option is None or one.option != other.option


# Metrics


def _stored_metrics(session: Session, evaluation_id: int) -> dict[str, float]:
    """Metrics over all questions that have a value, in their newest definition."""
    query = select(EvaluationMetric).filter_by(evaluation_id=evaluation_id, scope="all")
    return {
        row.metric: row.value
        for row in session.scalars(query)
        if row.value is not None
        and row.metric in METRICS
        and row.definition_version == METRICS[row.metric].definition_version
    }


def _count_values(
    counts: _Counts, question_id: int, outcomes: Sequence[VariantOutcome], stored: Mapping[str, float]
) -> None:
    for name in stored:
        function = METRICS[name].per_question
        if function is not None:
            counts.values.setdefault(name, []).append(function(outcomes))
    own = own_variants(outcomes)
    if distinct_prompts(own) > 1:
        counts.runs += [RunAnswer(question_id, one.variant, one.correct, one.original) for one in own]


def _metrics(counts: _Counts, stored: Mapping[str, float]) -> dict[str, Any]:
    """Each stored metric in both readings; those that answers alone do not define are left out."""
    means = {name: mean_of_defined(values) for name, values in counts.values.items()}
    runs, tested = runs_over(counts.runs)
    found: dict[str, Any] = {}
    for name, first in stored.items():
        metric = METRICS[name]
        if name in means:
            value, n = means[name]
        elif (two := metric.of_two_means) is not None and {two.first, two.second} <= means.keys():
            pairs = zip(counts.values[two.first], counts.values[two.second], strict=True)
            both = [pair for pair in pairs if None not in pair]
            value, n = two.value(*(mean_of_defined(column)[0] for column in zip(*both, strict=True))), len(both)
        elif metric.over_runs is not None:
            value, n = metric.over_runs(runs), tested
        else:
            continue
        if value is not None and isclose(first, value, rel_tol=1e-9, abs_tol=1e-12):
            value = first  # the database adds up in another order
        found[name] = {"first": first, "second": value, "n": n}
    return found
