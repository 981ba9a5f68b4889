"""Look-ups of rows by name: `NAME` means the newest version, `NAME@VERSION` exactly that one."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session, contains_eager

from registry.db import MAX_ROW_ID
from registry.errors import NotFoundError, QueueError
from registry.names import split_reference, suggest_names
from registry.proposals import propose
from registry.tables import (
    Benchmark,
    BenchmarkVersion,
    Board,
    Evaluation,
    Model,
    ModelRevision,
    Protocol,
    Suite,
    VariantSet,
    Withdrawal,
)

Row = TypeVar("Row")
S = TypeVar("S", bound=Select[Any])


def find_evaluation(session: Session, evaluation_id: int) -> Evaluation:
    """Return the evaluation with this id. Raises NotFoundError."""
    row = session.get(Evaluation, evaluation_id) if evaluation_id <= MAX_ROW_ID else None
    if row is None:
        total = session.scalar(select(func.count()).select_from(Evaluation))
        raise NotFoundError(f"no evaluation {evaluation_id}; the registry has {total} ({propose('evaluations list')})")
    return row


def find_sealed(session: Session, evaluation_id: int) -> Evaluation:
    """Return the sealed evaluation with this id. Raises NotFoundError, or QueueError if it is not complete."""
    evaluation = find_evaluation(session, evaluation_id)
    if evaluation.seal is None:
        raise QueueError(f"evaluation {evaluation_id} is {evaluation.state}; wait until it is complete")
    return evaluation


NAMES: Final = (
    Model.name.label("model"),
    ModelRevision.number.label("revision"),
    Benchmark.name.label("benchmark"),
    BenchmarkVersion.version.label("benchmark_version"),
    Protocol.name.label("protocol"),
    Protocol.shots,
    VariantSet.name.label("variants"),
)
"""The columns by which users identify an evaluation, for queries made by `with_names`."""


def with_names(query: S) -> S:
    """Join a query of evaluations with the rows that name them: model, benchmark, protocol and variants."""
    for relation in (
        *(Evaluation.model_revision, ModelRevision.model, Evaluation.benchmark_version, BenchmarkVersion.benchmark),
        *(Evaluation.protocol, Evaluation.variant_set),
    ):
        query = query.join(relation)
    return query


def not_withdrawn(evaluation: type[Evaluation] = Evaluation) -> ColumnElement[bool]:
    """Return the condition that an evaluation counts: it was neither withdrawn nor superseded."""
    return evaluation.id.not_in(select(Withdrawal.evaluation_id))


def find_version(session: Session, reference: str) -> BenchmarkVersion:
    """Return the benchmark version for `NAME` or `NAME@VERSION`. Raises NotFoundError, which lists the known names."""
    return _find(
        session,
        "benchmark",
        reference,
        select(BenchmarkVersion).join(Benchmark).order_by(BenchmarkVersion.id.desc()),
        Benchmark.name,
        lambda row: row.version,
        remedy=("benchmarks import", "FILE", "--name", "NAME"),
        none="none is imported yet",
    )


def find_revision(session: Session, reference: str) -> ModelRevision:
    """Return the model revision for `NAME`, `NAME@NUMBER`, or `OWNER/NAME`: the newest revision of a hub's model.

    Raises NotFoundError, which lists the known names.
    """
    if is_hub_name(reference):
        return find_of_hub(session, reference)
    name, at, version = reference.partition("@")
    model = model_named(session, name)
    return _find(
        session,
        "model",
        reference if model is None else f"{model.name}{at}{version}",
        select(ModelRevision).join(Model).order_by(ModelRevision.number.desc()),
        Model.name,
        lambda row: str(row.number),
        remedy=("models add", "NAME", "--kind", "KIND", "--location", "PLACE"),
        none="none is registered yet",
        called="revision",
    )


def model_named(session: Session, name: str) -> Model | None:
    """Return the model with this name: an exact match, else ignoring case, else a model that had the name earlier."""
    for condition in (Model.name == name, _matches_name(Model.name, name)):
        match = session.scalar(select(Model).where(condition).order_by(Model.id).limit(1))
        if match is not None:
            return match
    renamed = select(Model).where(Model.earlier_names.is_not(None)).order_by(Model.id)
    for model in session.scalars(renamed):
        if name.lower() in (earlier.lower() for earlier in model.earlier_names or ()):
            return model
    return None


def first_name(model: Model) -> str:
    """Return the name under which a model was registered first, which its evaluations' specifications contain."""
    return model.earlier_names[0] if model.earlier_names else model.name


def revisions_named(session: Session, names: Collection[str]) -> dict[tuple[str, int], ModelRevision]:
    """Map (name, number) to the model revision, for current and earlier names among `names`."""
    revisions = {}
    for row in session.scalars(select(ModelRevision).join(Model).options(contains_eager(ModelRevision.model))):
        for name in (row.model.name, *(row.model.earlier_names or ())):
            if name in names:
                revisions[name, row.number] = row
    return revisions


def _matches_name(named: Any, name: str) -> ColumnElement[bool]:
    """Return the condition that a name matches, ignoring case; names are ASCII."""
    return func.lower(named) == name.lower()


def is_hub_name(reference: str) -> bool:
    """Return whether a reference to a model is `OWNER/NAME` or `OWNER/NAME@REVISION`: registry names have no slash."""
    return reference.count("/") == 1 and not reference.startswith(("/", ".", "~")) and not reference.endswith("/")


def find_of_hub(session: Session, reference: str) -> ModelRevision:
    """Return the newest registered revision of a hub's model, or the one for `@REVISION`. Raises NotFoundError."""
    location, revision = split_reference(reference)
    query = select(ModelRevision).filter_by(kind="huggingface", location=location).order_by(ModelRevision.id.desc())
    for row in session.scalars(query):
        if revision in (None, row.requested_revision, row.revision):
            return row
    of_revision = () if revision is None else ("--revision", revision)
    raise NotFoundError(
        f"no model of the hub's {reference} is registered "
        f"({propose('models add', 'NAME', '--kind', 'huggingface', '--location', location, *of_revision)})"
    )


def find_suite(session: Session, reference: str) -> Suite:
    """Return the suite for `NAME` or `NAME@VERSION`. Raises NotFoundError, which lists the known names."""
    return _find(
        session,
        "suite",
        reference,
        select(Suite).order_by(Suite.version.desc()),
        Suite.name,
        lambda row: str(row.version),
        remedy=("suites import", "FILE"),
    )


def find_board(session: Session, reference: str) -> Board:
    """Return the board for `NAME` or `NAME@VERSION`. Raises NotFoundError, which lists the known names."""
    return _find(
        session,
        "board",
        reference,
        select(Board).order_by(Board.version.desc()),
        Board.name,
        lambda row: str(row.version),
        remedy=("boards import", "FILE"),
    )


def _find(
    session: Session,
    thing: str,
    reference: str,
    newest_first: Select[Row],
    named: Any,
    version_of: Callable[[Row], str],
    *,
    remedy: Sequence[str],
    none: str = "there is none yet",
    called: str = "version",
) -> Row:
    name, version = split_reference(reference)
    rows = list(session.scalars(newest_first.where(named == name)))
    if not rows:
        others = list(session.scalars(select(named).where(_matches_name(named, name)).distinct()))
        rows = list(session.scalars(newest_first.where(named == others[0]))) if len(others) == 1 else []
    if not rows:
        known = session.scalars(select(named).distinct().order_by(named))
        words = (name or word if word == "NAME" else word for word in remedy[1:])
        adding = f"to add it: {propose(remedy[0], *words)}"
        raise NotFoundError(f"no {thing} {name!r}{suggest_names(name, known, none=none, remedy=adding)}")
    for row in rows:
        if version in (None, version_of(row)):
            return row
    listed = ", ".join(map(version_of, rows))
    raise NotFoundError(f"{thing} {name} has no {called} {version!r}; it has: {listed}")
