"""Suites and boards in the database: every version of a definition is stored, and the newest of each name is used."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from registry.boards.definition import (
    Asked,
    BoardDefinition,
    Column,
    SuiteDefinition,
    as_document,
    canonical_variants,
    entries_asked,
    evaluations_asked,
    first_questions,
    read_suite_file,
    sample_suite,
)
from registry.db import one_at_a_time
from registry.digests import specification_digest
from registry.errors import UsageError
from registry.lookups import find_board, find_revision, find_suite, find_version, not_withdrawn
from registry.names import list_first
from registry.prompting.protocols.store import find_definition, store_protocol
from registry.prompting.variants import ORDERS, load_variants, parse_variants
from registry.queue.evaluations import (
    EvaluationRequest,
    choose_questions,
    store_variant_set,
    submit,
)
from registry.scores.asked import compute_asked_digest
from registry.tables import (
    Benchmark,
    BenchmarkVersion,
    Board,
    BoardEntry,
    Evaluation,
    ModelRevision,
    Protocol,
    Suite,
    VariantSet,
)


def import_suite(session: Session, definition: SuiteDefinition) -> tuple[Suite, bool]:
    """Store a suite; return it, and whether it is new. A changed definition becomes a new version."""
    one_at_a_time(session, "suites")
    document = as_document(definition)
    digest = specification_digest(document)
    row = session.scalar(select(Suite).where(Suite.name == definition.name, Suite.digest == digest))
    if row is not None:
        return row, False
    newest = session.scalar(select(func.max(Suite.version)).where(Suite.name == definition.name)) or 0
    row = Suite(name=definition.name, version=newest + 1, digest=digest, definition=document)
    session.add(row)
    session.flush()
    return row, True


def load_shipped_suites(session: Session) -> int:
    """Store the suites that this package includes; return the number of new suites."""
    folder = files(__package__) / "suites"
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=lambda path: path.name)
    return sum(import_suite(session, read_suite_file(path))[1] for path in paths)  # type: ignore[arg-type]


def suite_definition(suite: Suite) -> SuiteDefinition:
    """Parse a stored suite's definition."""
    return SuiteDefinition.model_validate(suite.definition)


def board_definition(board: Board) -> BoardDefinition:
    """Parse a stored board's definition."""
    return BoardDefinition.model_validate(board.definition)


def current_boards(session: Session) -> list[Board]:
    """Return the newest version of every board, by name."""
    newest = select(Board.name, func.max(Board.version).label("version")).group_by(Board.name).subquery()
    query = select(Board).join(newest, (newest.c.name == Board.name) & (newest.c.version == Board.version))
    return list(session.scalars(query.order_by(Board.name)))


def import_board(session: Session, definition: BoardDefinition) -> tuple[Board, bool]:
    """Store a board on the newest versions of its benchmarks; return it, and whether it is new.

    A changed definition, suite or benchmark makes a new version of the board. Raises a ShuffleboardError if the suite
    or a benchmark is unknown, the suite's protocols are not supported yet, or a column is not in the suite.
    """
    one_at_a_time(session, "boards")
    suite = find_suite(session, definition.suite)
    asked_for = suite_definition(suite)
    if asked_for.needs_benchmarks and not definition.benchmarks:
        raise UsageError(
            f'board {definition.name}: suite {suite.name} is for any benchmarks; name them: benchmarks = ["…"]'
        )
    if definition.benchmarks and not asked_for.needs_benchmarks:
        raise UsageError(
            f"board {definition.name}: suite {suite.name} already names its benchmarks; remove the board's benchmarks"
        )
    entries = [_build_entry(session, evaluation) for evaluation in entries_asked(asked_for, definition)]
    for column in definition.parsed_columns:
        column_entries(definition.name, column, entries)
    document = as_document(definition)
    digest = specification_digest(
        {
            "definition": document,
            "suite": suite.digest,
            "entries": [
                [entry.task, entry.benchmark_version.content_digest, entry.protocol.digest, entry.variant_set.digest]
                for entry in entries
            ],
        }
    )
    row = session.scalar(select(Board).where(Board.name == definition.name, Board.digest == digest))
    if row is not None:
        return row, False
    newest = session.scalar(select(func.max(Board.version)).where(Board.name == definition.name)) or 0
    row = Board(name=definition.name, version=newest + 1, digest=digest, suite=suite, definition=document)
    session.add(row)
    session.flush()
    for ordinal, entry in enumerate(entries):
        session.add(
            BoardEntry(
                board_id=row.id,
                ordinal=ordinal,
                task=entry.task,
                benchmark_version=entry.benchmark_version,
                protocol=entry.protocol,
                variant_set=entry.variant_set,
                question_filter=entry.question_filter,
                questions=entry.questions,
            )
        )
    session.flush()
    return row, True


def _usual_metrics(variants: str) -> tuple[str, ...]:
    """Return the metrics that a default board shows for these variants."""
    definition = parse_variants(variants)
    if definition.kind not in ORDERS:
        return ("accuracy",)
    return ("right_twice_across_orders", "accuracy", "order_loss", "worst_accuracy", "fluctuation_rate")


def board_of_suite(session: Session, suite: Suite) -> Board | None:
    """Create the default board of a suite, under the suite's name, and return it.

    The columns are accuracy and, for variants that only move options, right in two orders (which ranks the models),
    order loss, worst accuracy and fluctuation rate. Returns None if a board on the suite exists, the suite is for any
    benchmarks, or no protocol and variants are common to all its tasks.
    """
    definition = suite_definition(suite)
    if definition.needs_benchmarks or any(board.suite.name == suite.name for board in current_boards(session)):
        return None
    combinations = [
        {
            (evaluation.variants, evaluation.protocol)
            for evaluation in evaluations_asked(definition)
            if evaluation.task == task
        }
        for task in dict.fromkeys(evaluation.task for evaluation in evaluations_asked(definition))
    ]
    protocols = {evaluation.protocol for evaluation in evaluations_asked(definition)}
    columns = [
        Column(metric, variants, protocol if len(protocols) > 1 else None).name
        for variants, protocol in sorted(set.intersection(*combinations))
        for metric in _usual_metrics(variants)
    ]
    if not columns:
        return None
    board = BoardDefinition(name=suite.name, title=definition.title, suite=suite.name, columns=tuple(columns[:100]))
    return import_board(session, board)[0]


@dataclass(frozen=True)
class Entry:
    """One evaluation that a board requires, with names resolved to rows."""

    task: str
    benchmark_version: BenchmarkVersion
    protocol: Protocol
    variant_set: VariantSet
    question_filter: dict[str, Any]
    questions: int


E = TypeVar("E", Entry, BoardEntry)
Condition = ColumnElement[bool]


def _build_entry(session: Session, asked: Asked) -> Entry:
    version = find_version(session, asked.benchmark)
    questions, question_filter = choose_questions(
        session,
        version,
        limit=asked.limit,
        subjects=asked.subjects,
        options=asked.options,
        sample=asked.sample,
        seed=asked.seed,
    )
    return Entry(
        asked.task,
        version,
        store_protocol(session, find_definition(session, asked.protocol, asked.shots)),
        store_variant_set(session, parse_variants(asked.variants)),
        question_filter,
        len(questions),
    )


def column_entries(board: str, column: Column, entries: Iterable[E]) -> dict[str, list[E]]:
    """Map each task to the entries whose questions a column covers. board: its name, for messages.

    Raises UsageError if the suite does not have the column's variants or protocol on every task.
    """
    listed = list(entries)
    wanted = canonical_variants(column.variants)
    matching = [entry for entry in listed if entry.variant_set.name == wanted]
    if not matching:
        known = ", ".join(dict.fromkeys(entry.variant_set.name for entry in listed))
        raise UsageError(
            f"board {board}: column {column.name}: the suite has no variants {column.variants!r}; it has: {known}"
        )
    protocols = list(dict.fromkeys(entry.protocol.name for entry in matching))
    if column.protocol is None and len(protocols) > 1:
        raise UsageError(
            f"board {board}: column {column.name}: the suite has several protocols; write "
            f"{column.metric}@{column.variants}/{protocols[0]}, or one of {', '.join(protocols[1:])}"
        )
    if column.protocol is not None and column.protocol not in protocols:
        raise UsageError(
            f"board {board}: column {column.name}: the suite has no protocol {column.protocol!r} there; it has: "
            f"{', '.join(protocols)}"
        )
    by_task: dict[str, list[E]] = {}
    for entry in matching:
        if column.protocol in (None, entry.protocol.name):
            by_task.setdefault(entry.task, []).append(entry)
    lacking = [task for task in dict.fromkeys(entry.task for entry in listed) if task not in by_task]
    if lacking:
        raise UsageError(f"board {board}: column {column.name}: task {lacking[0]!r} is not asked that way")
    return by_task


def compute_asked_digests(entry: BoardEntry | Entry) -> tuple[str, str]:
    """Return two digests: of an evaluation of exactly the entry's questions, and of one of the whole benchmark."""
    version = entry.benchmark_version
    specification = {
        "benchmark": {"name": version.benchmark.name, "content_digest": version.content_digest},
        "protocol": entry.protocol.definition,
        "variants": load_variants(entry.variant_set).specification(),
        "questions": entry.question_filter,
    }
    return (
        compute_asked_digest(specification, entry.questions, version.questions),
        compute_asked_digest(specification, version.questions, version.questions),
    )


def answering(entries: Iterable[BoardEntry | Entry]) -> Callable[..., Condition]:
    """Return a function of Evaluation, or of an alias of it, that gives a condition for SQL.

    The condition: the evaluation covers the questions of one of these entries, or the whole benchmark.
    """
    digests = {digest for entry in entries for digest in compute_asked_digests(entry)}

    def condition(evaluation: type[Evaluation] = Evaluation) -> Condition:
        return evaluation.asked_digest.in_(digests)

    return condition


def evaluations_of_entry(
    session: Session, entry: BoardEntry | Entry, revision: ModelRevision | None = None
) -> dict[int, Evaluation]:
    """Map each model revision's id to the sealed evaluation that covers an entry.

    An evaluation of the whole benchmark also covers the entry. The preferred evaluation is chosen, the newest among
    equals; withdrawn evaluations do not count. revision: consider only this one; None for all.
    """
    query = select(Evaluation).where(answering([entry])(), Evaluation.seal.is_not(None), not_withdrawn())
    if revision is not None:
        query = query.where(Evaluation.model_revision_id == revision.id)
    exact, _ = compute_asked_digests(entry)

    def preference(evaluation: Evaluation) -> tuple[bool, ...]:
        """Prefer an evaluation of exactly the entry's questions to one of the whole benchmark.

        Imported sets all have one name, so among these prefer several orders to one, and the same number of answers for
        each order to a mixture of repeats.
        """
        most, prompts = evaluation.distinct_prompts_max or 0, evaluation.variants_max or 0
        several, mixed = most > 1, most > 0 and prompts % most > 0
        return several, not mixed, evaluation.asked_digest == exact

    preferred: dict[int, Evaluation] = {}
    for evaluation in session.scalars(query.order_by(Evaluation.id)):
        earlier = preferred.get(evaluation.model_revision_id)
        if earlier is None or preference(evaluation) >= preference(earlier):
            preferred[evaluation.model_revision_id] = evaluation
    return preferred


def _request(model: str, asked: Asked, benchmark: str, **options: Any) -> EvaluationRequest:
    return EvaluationRequest(
        model=model,
        benchmark=benchmark,
        variants=asked.variants,
        protocol=asked.protocol,
        shots=asked.shots,
        limit=asked.limit,
        subjects=asked.subjects,
        options=asked.options,
        sample=asked.sample,
        seed=asked.seed,
        **options,
    )


def submit_suite(
    session: Session,
    model: str,
    suite: str,
    benchmarks: Sequence[str] = (),
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    **options: Any,
) -> list[tuple[Evaluation, bool]]:
    """Queue the evaluations that a suite still needs of a model; return all of them, with whether they are new.

    benchmarks: replace the suite's "*"; by default the benchmarks that boards on the suite name. limit: only the first
    questions of each benchmark; sample, seed: only a random sample of these. Either makes another suite, with a board
    for it. options: priority, queue, max_workers, requester of EvaluationRequest. If one cannot be queued, none is.
    """
    row = find_suite(session, suite)
    if limit is not None:
        row, _ = import_suite(session, first_questions(suite_definition(row), limit))
    if sample is not None:
        row, _ = import_suite(session, sample_suite(suite_definition(row), sample, seed))
    if limit is not None or sample is not None:
        board_of_suite(session, row)
    asked_for = evaluations_of_suite(session, row, benchmarks)
    return [_submit_missing(session, model, evaluation, **options) for evaluation in asked_for]


def evaluations_of_suite(session: Session, row: Suite, benchmarks: Sequence[str] = ()) -> list[Asked]:
    """Return the evaluations that a suite requires of every model.

    benchmarks: replace its "*"; by default the benchmarks that boards on the suite name. Raises UsageError if a suite
    for any benchmarks has none, or if benchmarks are given for a suite that names its own.
    """
    definition = suite_definition(row)
    chosen = list(benchmarks)
    if definition.needs_benchmarks and not chosen:
        boards = [board for board in current_boards(session) if board.suite.name == row.name]
        chosen = list(dict.fromkeys(name for board in boards for name in board_definition(board).benchmarks))
        if not chosen:
            known = list_first(session.scalars(select(Benchmark.name).order_by(Benchmark.name)).all())
            raise UsageError(
                f"suite {row.name} is for any benchmarks: name them with --benchmark "
                f"({f'known: {known}' if known else 'none is imported yet'}), or import a board on it"
            )
    if benchmarks and not definition.needs_benchmarks:
        raise UsageError(f"suite {row.name} already names its benchmarks; leave out --benchmark")
    return list(evaluations_asked(definition, chosen))


def _submit_missing(session: Session, model: str, asked: Asked, **options: Any) -> tuple[Evaluation, bool]:
    known = evaluations_of_entry(session, _build_entry(session, asked), revision := find_revision(session, model))
    if revision.id in known:
        return known[revision.id], False
    return submit(session, _request(model, asked, asked.benchmark, **options))


def submit_board(session: Session, model: str, board: str, **options: Any) -> list[tuple[Evaluation, bool]]:
    """Queue the evaluations that a board still needs of a model, on the board's versions of the benchmarks.

    Returns all of them, each with whether it is new.
    """
    row = find_board(session, board)
    definition = board_definition(row)
    asked_for = entries_asked(suite_definition(row.suite), definition)
    evaluations = []
    for evaluation, entry in zip(asked_for, row.entries, strict=True):
        revision = find_revision(session, model)
        known = evaluations_of_entry(session, entry, revision)
        if revision.id in known:
            evaluations.append((known[revision.id], False))
            continue
        version = entry.benchmark_version
        evaluations.append(
            submit(session, _request(model, evaluation, f"{version.benchmark.name}@{version.version}", **options))
        )
    return evaluations
