"""What somebody wants to be evaluated: one model for the API, the command line, `apply` and their documentation."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from sqlalchemy.orm import Session

from registry.db import MAX_INTEGER
from registry.designs import STOPPABLE
from registry.designs.requests import PrecisionRequest
from registry.fields import Between, OneOf, Remedy
from registry.prompting.protocols.store import with_room
from registry.prompting.variants import VariantSetDefinition, parse_variants
from registry.providers.budgets import MOST, set_budget
from registry.queue.estimate import Plan
from registry.queue.evaluations import EvaluationRequest, submit
from registry.tables import QUEUES, Evaluation

Reference = Annotated[str, Field(min_length=1, max_length=400, description="NAME, or NAME@VERSION.")]
Statement = Annotated[str, Field(max_length=500)]
Word = Annotated[str, Field(min_length=1, max_length=200)]
Queue = Annotated[str, OneOf(QUEUES)]
Priority = Annotated[int, Between(-MAX_INTEGER, MAX_INTEGER), Field(description="Higher is scored earlier.")]
Budget = Annotated[
    float,
    Field(
        ge=0, le=MOST, allow_inf_nan=False, description="What asking a provider may cost, in the price list's currency."
    ),
    Remedy(f"give an amount from 0 to {MOST:g}"),
]
_OF_BENCHMARKS: Final = (
    "variants",
    "protocol",
    "shots",
    "max_tokens",
    "limit",
    "subjects",
    "options",
    "replicate",
    "precision",
    "stop_when_decided",
)
"""What only a benchmark is asked with: suites and boards define it."""
OF_PRECISION: Final = ("metric", "confidence", "max_questions", "better_than", "until_tier")
"""What is said of a stated precision besides."""


class Wanted(BaseModel):
    """What is to be evaluated: a benchmark under variants, or all that a suite or a board lacks of the model."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        json_schema_extra={"examples": [{"model": "SmolLM2-135M", "benchmark": "capitals", "variants": "cyclic"}]},
    )

    model: Annotated[Reference, Field(description="Model NAME, or NAME@REVISION.")]
    benchmark: Annotated[Reference | None, Field(description="Benchmark NAME, or NAME@VERSION.")] = None
    variants: Annotated[
        Reference | None, Field(description="Kind of variants with its parameters, or several joined by '*'.")
    ] = None
    suite: Annotated[
        Reference | None, Field(description="Everything in this suite that is still missing: NAME, or NAME@VERSION.")
    ] = None
    board: Annotated[Reference | None, Field(description="Everything that this board still needs of the model.")] = None
    benchmarks: Annotated[
        list[Reference], Field(max_length=100, description="What the suite's * stands for; for suites alone.")
    ] = []
    protocol: Annotated[Word | None, Field(description="How the model is asked. Default: symbols.")] = None
    shots: Annotated[
        Annotated[int, Between(0, 1000)] | None, Field(description="Examples from the few-shot pool. Default: 0.")
    ] = None
    max_tokens: Annotated[
        Annotated[int, Between(1, MAX_INTEGER)] | None,
        Field(
            description="Limit of tokens for thought and answer together, in place of the protocol's; makes "
            "NAME-N-tokens."
        ),
    ] = None
    limit: Annotated[
        Annotated[int, Between(1, MAX_INTEGER)] | None,
        Field(description="Only the first questions in file order; of a suite, of each of its benchmarks."),
    ] = None
    subjects: Annotated[list[Word], Field(max_length=1000, description="Only these subjects.")] = []
    options: Annotated[
        Annotated[int, Between(2, 100)] | None, Field(description="Only questions with this many options.")
    ] = None
    priority: Priority = 0
    queue: Annotated[Queue, Field(description="Kind of device; gpu-N: a GPU with N GB or more.")] = "cpu"
    max_workers: Annotated[
        Annotated[int, Between(1, MAX_INTEGER)] | None, Field(description="How many score it at once, at most.")
    ] = None
    replicate: Annotated[bool, Field(description="Score again even if already scored.")] = False
    stop_when_decided: Annotated[
        Word | None,
        Field(description=f"Ask each question only until this is decided, exactly: {' or '.join(STOPPABLE)}."),
    ] = None
    precision: Annotated[
        float | None,
        Field(
            description="Ask only as many questions, in a drawn order, as it takes to know a metric to within ± this, "
            "such as 0.02."
        ),
    ] = None
    metric: Annotated[Word | None, Field(description="The metric with the stated precision. Default: accuracy.")] = None
    confidence: Annotated[
        float | None, Field(description="How sure the interval is to hold the value. Default: 0.95.")
    ] = None
    max_questions: Annotated[
        Annotated[int, Between(1, MAX_INTEGER)] | None,
        Field(description="With a precision: stop there, from 30 on, however wide the interval is."),
    ] = None
    better_than: Annotated[
        Reference | None,
        Field(
            description="With a precision: stop once it is known which of it and this model, asked in full before, is "
            "better."
        ),
    ] = None
    until_tier: Annotated[
        Reference | None, Field(description="With a precision: stop as soon as its tier on this board is known.")
    ] = None
    budget: Budget | None = None
    conflict_of_interest: Annotated[
        Statement | None,
        Field(description="Your tie to the model's maker, or none; shown on boards. Default: nothing is stated."),
    ] = None

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        if message := contradiction(dict(self), str):
            raise ValueError(message)
        return self

    def plan(self, *, requester: str | None = None, history: bool = True, read_files: bool = False) -> Plan:
        """What queues all that is wanted.

        history: whether a sample may use other models' answers. read_files: whether variants may name files of this
        machine. Raises ProtocolError for unknown variants.
        """
        definition = None if self.variants is None else parse_variants(self.variants, read_files=read_files)

        def submit_all(session: Session) -> list[tuple[Evaluation, bool]]:
            found = self._submitted(session, definition, requester, history=history)
            if self.budget is not None:
                for evaluation, _ in found:
                    set_budget(session, "evaluation", str(evaluation.id), self.budget)
            return found

        return submit_all

    def _submitted(
        self, session: Session, variants: VariantSetDefinition | None, requester: str | None, *, history: bool
    ) -> list[tuple[Evaluation, bool]]:
        from registry.boards.store import submit_board, submit_suite  # what takes numpy is for those who submit

        given = self.model_dump(include={"priority", "queue", "max_workers", "conflict_of_interest"}) | {
            "requester": requester
        }
        if self.board is not None:
            return submit_board(session, self.model, self.board, **given)
        if self.suite is not None:
            return submit_suite(session, self.model, self.suite, self.benchmarks, limit=self.limit, **given)
        assert self.benchmark is not None
        assert variants is not None
        protocol = self.protocol or "symbols"
        request = EvaluationRequest(
            model=self.model,
            benchmark=self.benchmark,
            variants=variants,
            protocol=protocol if self.max_tokens is None else with_room(session, protocol, self.max_tokens),
            shots=self.shots or 0,
            limit=self.limit,
            subjects=tuple(self.subjects),
            options=self.options,
            new_replicate=self.replicate,
            precision=self._precision(session, history=history),
            stop_when_decided=self.stop_when_decided,
            **given,
        )
        return [submit(session, request)]

    def _precision(self, session: Session, *, history: bool) -> PrecisionRequest | None:
        if self.precision is None:
            return None
        from registry.boards.bounds import ends_at

        until = ends_at(
            session,
            better=self.better_than,
            tier_of=self.until_tier,
            benchmark=self.benchmark or "",
            variants=self.variants or "",
            metric=self.metric or "accuracy",
        )
        given = self.model_dump(include={"metric", "confidence", "max_questions"}, exclude_none=True)
        return PrecisionRequest(self.precision, **given, history=history, until=until)


def contradiction(given: Mapping[str, Any], spelled: Callable[[str], str]) -> str | None:
    """What contradicts itself in fields of `Wanted`, in one line with its remedy; None: nothing does.

    spelled: a field's name as whoever asks has given it.
    """

    def those(names: tuple[str, ...]) -> str:
        values = {name: given.get(name) for name in names}
        found = [name for name, value in values.items() if value not in (None, [], ()) and value is not False]
        return ", ".join(dict.fromkeys(map(spelled, found)))

    asker = next((name for name in ("board", "suite") if given.get(name) is not None), None)
    if asker is not None:
        defined = tuple(name for name in _OF_BENCHMARKS if (asker, name) != ("suite", "limit"))
        extra = those((*defined, *{"board": ("suite", "benchmark", "benchmarks"), "suite": ("benchmark",)}[asker]))
        return f"a {asker} already defines what is asked; leave out {extra}" if extra else None
    if given.get("benchmark") is None:
        return f"{spelled('benchmark')} is missing: give one, or {spelled('suite')}, or {spelled('board')}"
    if given.get("benchmarks"):
        return f"{spelled('benchmarks')} are what a suite's * stands for; leave them out"
    if given.get("variants") is None:
        return f"a benchmark is asked under variants; give {spelled('variants')}, such as cyclic"
    if given.get("precision") is None and (without := those(OF_PRECISION)):
        return f"{without} without {spelled('precision')}; give the precision that is wanted, such as 0.02"
    return None
