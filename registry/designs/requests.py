"""What somebody asks for: everything, as many questions as a precision needs, or each question until it is decided.

A request says how a specification holds it, and puts the design into the specification, which is fixed from then on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Result, select
from sqlalchemy.orm import Session

from registry.db import MAX_INTEGER
from registry.designs import SAMPLED_METRICS, STOPPABLE
from registry.designs.planned import PlannedQuestion
from registry.digests import specification_digest
from registry.errors import UsageError
from registry.metrics import METRICS
from registry.prompting.protocols.answering import lists_options
from registry.prompting.variants import QuestionShape, VariantSetDefinition, repeats
from registry.tables import ModelRevision, Question, VariantSet

SEED: Final = 0
NARROWEST: Final = 0.001
WIDEST: Final = 0.25
Read = Callable[..., "Result[*tuple[Any, ...]]"]
"""How answers of other models are read: `registry.queue.evaluations.read_rows`."""


@dataclass(frozen=True)
class Asking:
    """The questions that an evaluation may ask, in which variants, of which model, by which protocol."""

    questions: Sequence[Question]
    planned: Sequence[PlannedQuestion]
    definition: VariantSetDefinition
    protocol: Mapping[str, Any]
    revision: ModelRevision


class EverythingRequest:
    """All questions in every variant."""

    def asked(self, asking: Asking) -> dict[str, Any]:  # noqa: ARG002
        """What a specification holds of the request, still without the design.

        Raises UsageError for a request that cannot be met.
        """
        return {}

    def begin(
        self,
        session: Session,  # noqa: ARG002
        specification: dict[str, Any],  # noqa: ARG002
        asking: Asking,
        read: Read,  # noqa: ARG002
    ) -> list[PlannedQuestion]:
        """Puts the design into a specification; returns the questions as they are asked first."""
        return list(asking.planned)


@dataclass(frozen=True)
class Until:
    """What ends a sample before its precision is reached: its interval holds none of the bounds.

    what: in words, behind "until". source: the seal or the digest of what the bounds were taken from.
    """

    what: str
    bounds: tuple[float, ...]
    source: str | None


@dataclass(frozen=True)
class PrecisionRequest(EverythingRequest):
    """Half the length that the interval of a metric is to have, and how sure it is to be.

    max_questions: stop there, however wide the interval is. history: whether other models' answers may be used.
    until: what ends it before.
    """

    precision: float
    metric: str = "accuracy"
    confidence: float = 0.95
    max_questions: int | None = None
    seed: int = SEED
    history: bool = True
    until: Until | None = None

    def asked(self, asking: Asking) -> dict[str, Any]:
        """See EverythingRequest."""
        planned = asking.planned
        if not NARROWEST <= self.precision <= WIDEST:
            raise UsageError(
                f"precision {self.precision:g}: give half the length of the interval, from {NARROWEST} to {WIDEST}, "
                "such as 0.02 for ±2 points"
            )
        if not 0.5 <= self.confidence <= 0.999:
            raise UsageError(f"confidence {self.confidence:g}: give a number from 0.5 to 0.999, such as 0.95")
        from registry.statistics.bootstrap import MINIMUM_QUESTIONS  # and numpy, which beat does without

        if self.max_questions is not None and not MINIMUM_QUESTIONS <= self.max_questions <= MAX_INTEGER:
            raise UsageError(
                f"max-questions {self.max_questions}: give a number from {MINIMUM_QUESTIONS} to {MAX_INTEGER}; fewer "
                "questions have no interval"
            )
        if self.metric not in SAMPLED_METRICS:
            raise UsageError(
                f"metric {self.metric}: a precision can be stated for means over questions from 0 to 1: "
                f"{', '.join(SAMPLED_METRICS)}"
            )
        if METRICS[self.metric].needs_two_prompts and any(question.n_variants < 2 for question in planned):
            raise UsageError(
                f"metric {self.metric} needs each question in two orders or more; use --variants cyclic, or "
                "--metric accuracy"
            )
        asked = {
            "precision": repr(self.precision),
            "metric": self.metric,
            "confidence": repr(self.confidence),
            "max_questions": self.max_questions,
            **({} if self.history else {"without_history": True}),
            **({} if self.until is None else {"until": _until(self.until)}),
        }
        return {"precision": asked}

    def begin(
        self,
        session: Session,
        specification: dict[str, Any],
        asking: Asking,
        read: Read,  # noqa: ARG002
    ) -> list[PlannedQuestion]:
        """See EverythingRequest."""
        from registry.designs.sample import draw, history  # and numpy

        known = {}
        if self.history:
            known = history(
                session,
                model_id=asking.revision.model_id,
                benchmark_version_id=asking.questions[0].benchmark_version_id,
                variant_set_id=_variant_set(session, specification),
                metric=self.metric,
                ids=[question.id for question in asking.questions],
            )
        document, sample = draw(
            asking.questions,
            known,
            metric=self.metric,
            precision=self.precision,
            confidence=self.confidence,
            most=self.max_questions,
            seed=self.seed,
            bounds=() if self.until is None else self.until.bounds,
        )
        specification["questions"]["precision"]["design"] = document
        first = set(sample.question_ids[: sample.ends[0]])
        return [question for question in asking.planned if question.question_id in first]


def _until(until: Until) -> dict[str, Any]:
    return {"what": until.what, "bounds": [repr(bound) for bound in until.bounds], "source": until.source}


@dataclass(frozen=True)
class StopRequest(EverythingRequest):
    """Each question in as many orders as decide a metric."""

    metric: str

    def asked(self, asking: Asking) -> dict[str, Any]:
        """See EverythingRequest.

        Raises UsageError for a metric that some variants never decide, for variants that are not orders of a question's
        own options, and for a protocol that does not list them.
        """
        definition, questions, protocol = asking.definition, asking.questions, asking.protocol
        if self.metric not in STOPPABLE:
            raise UsageError(
                f"metric {self.metric}: answers in some orders decide only {' or '.join(STOPPABLE)}; use one of them, "
                "or ask in every order"
            )
        if repeats(definition.kind):
            raise UsageError(
                f"variants {definition.name}: {self.metric} is decided by one answer in each order; leave out repeat, "
                "or ask every question in full"
            )
        if not lists_options(protocol):
            raise UsageError(
                f"protocol {protocol['name']}: {self.metric} is decided by two or more orders of the options, which it "
                "does not list; use --protocol hybrid, or ask in every variant"
            )
        one_of_each = {question.n_options: question for question in questions}
        for options, question in sorted(one_of_each.items()):
            variants = definition.variants(QuestionShape(question.external_id, options, question.answer))
            shown = [variant for variant in variants if variant.question_shown and variant.own_options(options)]
            if len(shown) < len(variants) or len(variants) < 2:
                raise UsageError(
                    f"variants {definition.name}: {self.metric} is decided by two or more orders of a question's own "
                    "options; use --variants full or cyclic"
                )
        return {"stopping": {"metric": self.metric}}

    def begin(
        self, session: Session, specification: dict[str, Any], asking: Asking, read: Read
    ) -> list[PlannedQuestion]:
        """See EverythingRequest."""
        from registry.designs.until_decided import design_stopping, stopping_in

        specification["questions"]["stopping"]["design"] = design_stopping(
            session,
            metric=self.metric,
            definition=asking.definition,
            variant_set_id=_variant_set(session, specification),
            model_id=asking.revision.model_id,
            questions=asking.questions,
            shared=asking.revision.kind != "openai",
            read=read,
        )
        stopping = stopping_in(specification["questions"]["stopping"])
        return [
            replace(question, asked_now=len(stopping.next_round(question.n_options, 0))) for question in asking.planned
        ]


def _variant_set(session: Session, specification: Mapping[str, Any]) -> int | None:
    digest = specification_digest(specification["variants"])
    return session.scalar(select(VariantSet.id).where(VariantSet.digest == digest))
