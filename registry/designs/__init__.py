"""Designs: which questions an evaluation asks first, which next, and which metrics it can tell.

A design stands in the specification, so it is fixed before the first question is asked and the seal covers it. What is
asked next follows from the design and the answers alone, so nothing else is stored and `verify` can decide again. Read
without numpy, which `worker beat` does without.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.designs.planned import PlannedQuestion, plan_questions
from registry.metrics import METRICS
from registry.metrics.averaging import MeanOverQuestions
from registry.metrics.axes import AXES
from registry.metrics.catalogue import QUESTION_METRICS
from registry.prompting.protocols.answering import lists_options
from registry.prompting.variants import VARIANT_KINDS, stored_variants
from registry.tables import Evaluation, EvaluationQuestion, Question

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


@dataclass(frozen=True)
class Cost:
    """What an evaluation can take that does not ask everything: questions and prompts at most.

    Of a stated precision, where half of all answers are right, the worst case; of one that asks questions until they
    are decided, all of them.

    expected: prompts that models of the registry would have needed, the median; None without history. complete: prompts
    of all questions.
    """

    questions: int
    prompts: int
    expected: int | None
    complete: int


@dataclass(frozen=True)
class Everything:
    """The design that asks all questions in every variant at once, and what the other designs answer, too.

    asked: what the specification says of the design.
    """

    asked: Mapping[str, Any]
    is_whole: ClassVar[bool] = True
    """Whether it asks everything."""
    asks_again: ClassVar[bool] = False
    """Whether later shards ask the questions of earlier ones, in other variants."""

    @property
    def columns(self) -> dict[str, str | None]:
        """What the evaluation's row repeats of it."""
        return {}

    @property
    def label(self) -> str | None:
        """What it leaves out on purpose, in words; None if it leaves nothing out."""
        return None

    def asks_enough_for(self, metric: str) -> bool:  # noqa: ARG002
        """Whether each question that is asked is asked in enough variants for a metric."""
        return True

    def why_not_told(self, metric: str) -> str | None:  # noqa: ARG002
        """Why its answers do not tell a metric, or not as precisely as a rank needs; None if they do."""
        return None

    def prepare(self, session: Session, evaluation: Evaluation) -> None:
        """Reads and keeps what `following` needs of other models, so that its transaction does not take seconds."""

    def following(self, session: Session, evaluation: Evaluation) -> list[PlannedQuestion]:  # noqa: ARG002
        """The questions that are asked next, once all that were asked are answered; none if it ends here."""
        return []

    def cost(self, session: Session, evaluation: Evaluation, read: Any) -> Cost | None:  # noqa: ARG002
        """What an evaluation that was just submitted will cost; None if all that it asks is planned already.

        read: see `registry.designs.requests.Read`.
        """
        return None

    def estimates(self, session: Session, evaluation: Evaluation) -> dict[str, Any] | None:  # noqa: ARG002
        """Metric to its estimate, the questions behind it and its interval; None if answers alone give the metrics."""
        return None

    def document(self, session: Session, evaluation: Evaluation) -> dict[str, Any]:  # noqa: ARG002
        """What it has come to so far, as JSON has it, by the key of the report."""
        return {}


class Sample(Everything):
    """As many questions as a stated precision needs, batch by batch."""

    is_whole = False

    @property
    def columns(self) -> dict[str, str | None]:
        """See Everything."""
        return {"sampled_for": self.asked["metric"]}

    @property
    def label(self) -> str:
        """See Everything.

        >>> Sample({"precision": "0.02", "metric": "accuracy"}).label
        'sampled for accuracy to ±0.02'
        """
        return f"sampled for {self.asked['metric']} to ±{self.asked['precision']}"

    def why_not_told(self, metric: str) -> str | None:
        """See Everything."""
        label = label_of(metric)
        if metric not in SAMPLED_METRICS:
            return f"{label} is no mean over questions, so a sample of them does not estimate it"
        if metric != (sampled := self.asked["metric"]):
            return f"{label} has no interval here: the sample was drawn for {label_of(sampled).lower()}"
        return None

    def prepare(self, session: Session, evaluation: Evaluation) -> None:
        """See Everything."""
        from registry.designs.sample import sample_of  # and numpy

        sample_of(session, evaluation)

    def following(self, session: Session, evaluation: Evaluation) -> list[PlannedQuestion]:
        """See Everything."""
        from registry.designs.sample import sampled

        found = sampled(session, evaluation)
        assert found is not None
        if found.next_end is None:
            return []
        ids = found.sample.question_ids[found.asked : found.next_end]
        questions = session.scalars(select(Question).where(Question.id.in_(ids)).order_by(Question.ordinal)).all()
        definition = stored_variants(evaluation.variant_set)
        return plan_questions(questions, definition, evaluation.protocol.definition.get("labels"))[0]

    def cost(self, session: Session, evaluation: Evaluation, read: Any) -> Cost:  # noqa: ARG002
        """See Everything."""
        from registry.designs.sample import expected_questions
        from registry.statistics.survey import batch_ends, most_needed

        whole = self.asked["design"]["questions"]
        needed = most_needed(whole, float(self.asked["precision"]), float(self.asked["confidence"]))
        ends = batch_ends(whole, self.asked["design"]["batch"], self.asked["max_questions"])
        most = next((end for end in ends if end >= needed), ends[-1])
        expected = expected_questions(session, evaluation)
        each = evaluation.prompts / evaluation.questions
        return Cost(most, round(each * most), None if expected is None else round(each * expected), round(each * whole))

    def estimates(self, session: Session, evaluation: Evaluation) -> dict[str, Any]:
        """See Everything."""
        from registry.designs.sample import sampled_metrics

        return sampled_metrics(session, evaluation)

    def document(self, session: Session, evaluation: Evaluation) -> dict[str, Any]:
        """See Everything."""
        from registry.designs.sample import sampled

        found = sampled(session, evaluation)
        return {"sample": None if found is None else found.document()}


class UntilDecided(Everything):
    """Each question in as many variants as decide a metric, round by round."""

    is_whole = False
    asks_again = True

    @property
    def columns(self) -> dict[str, str | None]:
        """See Everything."""
        return {"stopped_for": self.asked["metric"]}

    @property
    def label(self) -> str:
        """See Everything.

        >>> UntilDecided({"metric": "worst_accuracy"}).label
        'asked until worst accuracy was decided'
        """
        return f"asked until {METRICS[self.asked['metric']].label.lower()} was decided"

    def asks_enough_for(self, metric: str) -> bool:
        """See Everything."""
        return metric in decided_with(self.asked["metric"])

    def why_not_told(self, metric: str) -> str | None:
        """See Everything."""
        if self.asks_enough_for(metric):
            return None
        decided = label_of(self.asked["metric"]).lower()
        return f"{label_of(metric)} needs every order; each question was asked only until {decided} was decided"

    def following(self, session: Session, evaluation: Evaluation) -> list[PlannedQuestion]:
        """See Everything."""
        from registry.designs.until_decided import open_questions, stopping_in

        stopping = stopping_in(self.asked)
        return [
            PlannedQuestion(
                question.question_id,
                question.subject,
                question.n_options,
                question.n_variants,
                len(stopping.next_round(question.n_options, question.asked)),
            )
            for question in open_questions(session, evaluation.id, stopping)
        ]

    def cost(self, session: Session, evaluation: Evaluation, read: Any) -> Cost:
        """See Everything."""
        from registry.designs.until_decided import expected_prompts

        all_variants = select(func.sum(EvaluationQuestion.n_variants)).filter_by(evaluation_id=evaluation.id)
        complete = int(session.scalar(all_variants) or 0)
        return Cost(evaluation.questions, complete, expected_prompts(session, evaluation, read), complete)

    def document(self, session: Session, evaluation: Evaluation) -> dict[str, Any]:
        """See Everything."""
        from registry.designs.until_decided import stopping_document

        return {"stopping": stopping_document(session, evaluation)}


_DESIGNS: Final[dict[str, type[Everything]]] = {"precision": Sample, "stopping": UntilDecided}
"""By the key under which a specification's filter of questions holds it."""


def design_in(question_filter: Mapping[str, Any]) -> Everything:
    """The design that a specification's filter of questions holds."""
    for key, kind in _DESIGNS.items():
        if question_filter.get(key) is not None:
            return kind(question_filter[key])
    return Everything({})


def design_of(evaluation: Evaluation) -> Everything:
    """The design of an evaluation."""
    return design_in(evaluation.specification.get("questions", {}))


def design_by_columns(row: Mapping[str, Any]) -> Everything:
    """The design as far as the columns of an evaluation say: its kind, and for which metric it asks in part."""
    if (stopped := row.get("stopped_for")) is not None:
        return UntilDecided({"metric": stopped})
    if (sampled := row.get("sampled_for")) is not None:
        return Sample({"metric": sampled})
    return Everything({})


def label_of(metric: str) -> str:
    """What a metric is called, if it is one; else the name itself."""
    return METRICS[metric].label if metric in METRICS else metric


def without_design(specification: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, without what was drawn or learnt for it when it was submitted."""
    questions = {
        name: {key: part for key, part in value.items() if key != "design"} if name in _DESIGNS else value
        for name, value in specification["questions"].items()
    }
    return {**specification, "questions": questions}


def in_full(specification: Mapping[str, Any]) -> dict[str, Any]:
    """The specification that asks all questions in every variant, and nothing else differently."""
    questions = {name: value for name, value in specification["questions"].items() if name not in _DESIGNS}
    return {**specification, "questions": questions}


STOPPABLE: Final = tuple(
    name
    for name in QUESTION_METRICS
    if isinstance(averaging := METRICS[name].averaging, MeanOverQuestions)
    and averaging.decided is not None
    and name in averaging.decided.by
)
"""Metrics that a question can be asked until they are decided."""


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
    if not design_of(evaluation).is_whole:
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
    design = design_in(specification.get("questions", {}))
    return {"sampled_for": None, "stopped_for": None} | design.columns
