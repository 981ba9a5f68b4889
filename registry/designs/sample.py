"""Evaluations that ask only as many questions as a stated precision needs: their design, and what their looks found.

The design stands in the specification, so it is fixed before the first question is asked and the seal covers it. The
order of all questions, every look and the decision after it follow from the design and the answers alone; whoever has
both can repeat them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select, text, true
from sqlalchemy.orm import Session

from registry.designs import METHOD, SAMPLED_METRICS, VERSION, Sample, design_of
from registry.digests import sha256_text
from registry.errors import NotFoundError
from registry.lookups import others_sealed
from registry.statistics import survey
from registry.statistics.sequential import Look, RepeatedInterval
from registry.tables import Evaluation, EvaluationQuestion, Question


@dataclass(frozen=True)
class Drawn:
    """A design with what it is drawn from.

    ids: of all questions that could be asked, in file order; frame and order are of places in it. ends: how many have
    been asked after each batch. bounds: values that it is to be told from; without them it goes on to the precision.
    """

    metric: str
    precision: float
    confidence: float
    frame: survey.Frame
    ids: tuple[int, ...]
    order: tuple[int, ...]
    ends: tuple[int, ...]
    bounds: tuple[float, ...] = ()

    @cached_property
    def question_ids(self) -> list[int]:
        """The ids of all questions in the order in which they are asked."""
        return [self.ids[place] for place in self.order]

    def looks(self, values: NDArray[np.float64]) -> list[Look]:
        """The looks at the values of the first questions asked, in their order; NaN where one has none."""
        order = self.order[: len(values)]
        return survey.looks(self.frame, order, values, self.ends, self.precision, self.confidence, self.bounds)

    def next_end(self, asked: int) -> int | None:
        """How many questions will have been asked after the next batch; None when there is no other."""
        return next((end for end in self.ends if end > asked), None)


def metric_values(
    session: Session, evaluation_id: int, metrics: Sequence[str], ids: Sequence[int]
) -> NDArray[np.float64]:
    """Metrics of some questions, shape (questions, metrics); NaN where one is undefined or not asked."""
    query = text(
        f"SELECT question_id, {', '.join(metrics)} FROM question_metrics WHERE evaluation_id = :id"  # noqa: S608
    )
    found = {row[0]: row[1:] for row in session.execute(query, {"id": evaluation_id})}
    nothing = (None,) * len(metrics)
    table = np.array([found.get(question_id, nothing) for question_id in ids], dtype=np.float64)
    return table.reshape(len(ids), len(metrics))


def history(
    session: Session,
    *,
    model_id: int,
    benchmark_version_id: int,
    variant_set_id: int | None,
    metric: str,
    ids: Sequence[int],
) -> dict[str, NDArray[np.float64]]:
    """Seal to the metric's values over all these questions: of other models' newest evaluations under these variants.

    Empty where they are too few. The protocol may be another: what predicts nothing costs nothing but its noise.
    """
    if variant_set_id is None:
        return {}
    whole = Evaluation.questions >= len(ids)
    others = others_sealed(session, model_id, benchmark_version_id, variant_set_id, whole).values()
    values = {seal: metric_values(session, number, [metric], ids)[:, 0] for number, seal in others}
    return survey.history_of(values)


def _frame(
    questions: Sequence[Any], known: dict[str, NDArray[np.float64]], precision: float, confidence: float
) -> survey.Frame:
    if known:
        return survey.frame_by_history(np.stack([values for _, values in sorted(known.items())], axis=1))
    smallest = survey.smallest_share(len(questions), precision, confidence)
    return survey.frame_by_subject([question.subject for question in questions], smallest)


def draw(
    questions: Sequence[Question],
    known: dict[str, NDArray[np.float64]],
    *,
    metric: str,
    precision: float,
    confidence: float,
    most: int | None,
    seed: int,
    bounds: tuple[float, ...] = (),
) -> tuple[dict[str, Any], Drawn]:
    """A design as a specification holds it, and the sample that it draws. known: of `history`."""
    frame = _frame(questions, known, precision, confidence)
    names = [question.external_id for question in questions]
    order = survey.drawn_order(frame, names, seed)
    batch = survey.batch_of(len(questions), precision, confidence)
    document = {
        "version": VERSION,
        "method": METHOD,
        "seed": seed,
        "questions": len(questions),
        "strata": "difficulty" if known else "subject",
        "history": sorted(known),
        "batch": batch,
        "order": sha256_text("\n".join(names[place] for place in order)),
    }
    ends = survey.batch_ends(len(questions), batch, most)
    ids = tuple(question.id for question in questions)
    return document, Drawn(metric, precision, confidence, frame, ids, tuple(order), tuple(ends), bounds)


_KEPT: Final = 8
"""Samples that a process keeps: reading the answers of all other models takes seconds."""


@lru_cache(maxsize=_KEPT)
def _drawn(_key: tuple[Any, ...]) -> list[Drawn]:
    return []


def sample_of(session: Session, evaluation: Evaluation) -> Drawn | None:
    """The sample of an evaluation, drawn again from its design; None for one of all its questions.

    Raises NotFoundError where an evaluation that the design names as history is not in this registry, or the order that
    is drawn is not the one that was recorded.
    """
    asked = _asked(evaluation)
    if asked is None:
        return None
    database = str(session.get_bind().engine.url)
    kept = _drawn((database, evaluation.id, evaluation.specification_digest, evaluation.created_at))
    if not kept:
        kept.append(_drawn_again(session, evaluation, asked))
    return kept[0]


def _asked(evaluation: Evaluation) -> Mapping[str, Any] | None:
    design = design_of(evaluation)
    return design.asked if isinstance(design, Sample) else None


def _drawn_again(session: Session, evaluation: Evaluation, asked: Mapping[str, Any]) -> Drawn:
    design = asked["design"]
    kept = evaluation.specification["questions"]
    query = (
        select(Question.id, Question.external_id, Question.subject)
        .where(
            Question.benchmark_version_id == evaluation.benchmark_version_id,
            ~Question.few_shot,
            Question.subject.in_(kept["subjects"]) if kept["subjects"] else true(),
            Question.n_options == kept["options"] if "options" in kept else true(),
        )
        .order_by(Question.ordinal)
        .limit(kept["limit"])
    )
    questions: list[Any] = list(session.execute(query))
    known = _known(session, evaluation, [question.id for question in questions])
    again, sample = draw(
        questions,
        known,
        metric=asked["metric"],
        precision=float(asked["precision"]),
        confidence=float(asked["confidence"]),
        most=asked["max_questions"],
        seed=design["seed"],
        bounds=bounds_of(asked),
    )
    if again != design:
        different = ", ".join(sorted(key for key in again if again[key] != design.get(key)))
        raise NotFoundError(f"evaluation {evaluation.id}: drawing its questions again gives another {different}")
    return sample


def bounds_of(asked: Mapping[str, Any]) -> tuple[float, ...]:
    """The values that a specification's sample is to be told from."""
    return tuple(float(bound) for bound in asked.get("until", {}).get("bounds", ()))


def _known(session: Session, evaluation: Evaluation, ids: Sequence[int]) -> dict[str, NDArray[np.float64]]:
    """Seal to the values of the other models that the design names."""
    asked = _asked(evaluation)
    assert asked is not None
    known = {}
    for seal in asked["design"]["history"]:
        number = session.scalars(select(Evaluation.id).where(Evaluation.seal == seal).order_by(Evaluation.id)).first()
        if number is None:
            raise NotFoundError(
                f"evaluation {evaluation.id}: its questions were drawn with the answers of the evaluation sealed "
                f"{seal[:12]}…, which is not in this registry; import it first"
            )
        known[seal] = metric_values(session, number, [asked["metric"]], ids)[:, 0]
    return known


REPLAYED: Final = 8
"""Models whose answers are asked again to say what another would need."""


def expected_questions(session: Session, evaluation: Evaluation) -> int | None:
    """The questions that models of the history would have been asked, each with the others as history: the median.

    None without history.
    """
    sample, asked = sample_of(session, evaluation), _asked(evaluation)
    if sample is None or asked is None:
        return None
    known = _known(session, evaluation, sample.ids)
    needed = []
    for seal in list(known)[:: max(1, len(known) // REPLAYED)]:
        others = np.stack([values for other, values in known.items() if other != seal], axis=1)
        frame = survey.frame_by_history(others)
        order = survey.drawn_order(frame, [str(number) for number in sample.ids], asked["design"]["seed"])
        found = survey.looks(
            frame, order, known[seal][order], sample.ends, sample.precision, sample.confidence, sample.bounds
        )
        needed.append(found[-1].questions)
    return round(float(np.median(needed))) if needed else None


@dataclass(frozen=True)
class Sampled:
    """What an evaluation with a stated precision has found so far. looks: the last is what it comes to when it ends.

    until: what else ends it, in words.
    """

    sample: Drawn
    asked: int
    looks: list[Look]
    until: str | None = None

    @property
    def reached(self) -> bool:
        """Whether the interval is as narrow as was asked for."""
        return bool(self.looks) and self.looks[-1].half_width <= self.sample.precision + 1e-9

    @property
    def _decided(self) -> bool:
        low, high = (self.looks[-1].interval.low, self.looks[-1].interval.high) if self.looks else (0.0, 1.0)
        return not any(low <= bound <= high for bound in self.sample.bounds)

    @property
    def next_end(self) -> int | None:
        """How many questions to have asked after the next batch; None: nothing more is asked."""
        return None if survey.ended(self.looks, self.sample.bounds) else self.sample.next_end(self.asked)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "metric": self.sample.metric,
            "precision": self.sample.precision,
            "confidence": self.sample.confidence,
            "history": self.sample.frame.history.shape[1],
            "questions": len(self.sample.ids),
            "asked": self.asked,
            "at_most": self.sample.ends[-1],
            "reached": self.reached,
            "until": self.until,
            "decided": None if self.until is None else self._decided,
            "looks": [
                {
                    "questions": look.questions,
                    "value": look.value,
                    "low": look.interval.low,
                    "high": look.interval.high,
                    "information": look.information,
                }
                for look in self.looks
            ],
        }


def sampled(session: Session, evaluation: Evaluation) -> Sampled | None:
    """What the looks of an evaluation have found up to the last batch whose answers are all stored."""
    sample = sample_of(session, evaluation)
    if sample is None:
        return None
    asked = session.scalars(
        select(EvaluationQuestion.question_id).where(EvaluationQuestion.evaluation_id == evaluation.id)
    ).all()
    values = metric_values(session, evaluation.id, [sample.metric], sample.question_ids[: len(asked)])[:, 0]
    done = [end for end in sample.ends if end <= len(asked) and not np.isnan(values[:end]).any()]
    until = (_asked(evaluation) or {}).get("until", {}).get("what")
    return Sampled(sample, len(asked), sample.looks(values[: done[-1]] if done else values[:0]), until)


def sampled_metrics(session: Session, evaluation: Evaluation) -> dict[str, tuple[float, int, RepeatedInterval | None]]:
    """Metric to its estimate over all questions, the questions it rests on, and its interval, where it has one.

    Only the metric whose precision was asked for has an interval, and uses history. Other means over questions are
    weighted by stratum, since strata are asked at different rates; what is no such mean is not estimated.
    """
    found = sampled(session, evaluation)
    if found is None or not found.looks:
        return {}
    sample, asked = found.sample, found.asked
    last = found.looks[-1]
    estimated: dict[str, tuple[float, int, RepeatedInterval | None]] = {
        sample.metric: (last.value, last.questions, last.interval)
    }
    order = np.array(sample.order[:asked], dtype=np.int64)[None]
    plain = survey.Frame(sample.frame.strata, sample.frame.rates, np.empty((len(sample.ids), 0)))
    values = metric_values(session, evaluation.id, SAMPLED_METRICS, sample.question_ids[:asked])
    for name, column in zip(SAMPLED_METRICS, values.T, strict=True):
        if not np.isnan(column).any():
            mean = float(survey.estimates(plain, order, column[None])[0][0])
            estimated.setdefault(name, (mean, asked, None))
    return estimated
