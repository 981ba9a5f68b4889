"""Grows a registry on PostgreSQL to millions of predictions: `python -m bench.bench_db [OPTIONS]`.

A temporary server is filled through the registry's own functions (bench/generate_predictions.py): COPY with keys,
foreign keys, checks and triggers enabled, question scores after it, and seals. At each size a table shows the size of
the database, how fast the last evaluations were imported, how long sealing takes, and how long pages take through the
application, without a network. The time for generating the rows is not counted.

The registry seals the first evaluation of each kind and each made-up model, and at every size the newest of each kind.
The other evaluations get the first one's rows of metrics, leaves and PriDe by INSERT ... SELECT: sealing them all would
take longer than importing them, pages read the same, and the leaves are correct, since the predictions are the same.

With --archive predictions are computed by scoring from made-up log-probabilities, and all evaluations are archived when
they are sealed, except the newest of each kind and those whose rows are repeated. With --copy the registry imports and
archives only the first evaluation of each kind and made-up model, and the last millions before each size. The others
get a copy of the file of an evaluation with the same answers, and its rows of every other table, so that hours become
minutes: tables, files and pages are as if all evaluations were archived, but the table of predictions has less to do.

Seconds are wall time; "CPU" is the time of both processes, which other work on the machine affects less. The server has
fsync off, so that a shared disk is not measured.

Options: --predictions 1000000  --sizes 1,5,10 (millions)  --requests 20  --share 1.0 (of the benchmarks' sizes)
         --parts 300000 (cost of each key, check and trigger, on this many predictions; alone)
         --explain (slowest statements)  --archive [--copy] (see above)
         --minutes 600 (import nothing more after this time)  --json FILE (all figures; bench/curves.py shows them)
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from bench.bench_web import measure, something_written, watching
from bench.generate_predictions import Kind, Scored, Source, profile_of, store
from registry import chain
from registry.boards.snapshots import refresh_boards
from registry.db import get_engine, read_session, write_session
from registry.digests import sha256_file, sha256_text
from registry.operations.migrate import upgrade
from registry.predictions.archive_files import EVALUATION, PREDICTIONS
from registry.predictions.archived import folder_name
from registry.predictions.bulk import renew_statistics
from registry.schema.audiences import AUDIENCES, audience_engine
from registry.scores.asked import ASKED
from registry.scores.question_scores import write_question_scores
from registry.sealed.archiving import Shared, archive
from registry.sealed.seal import seal
from registry.tables import Archive, Evaluation, EvaluationMetric, EvaluationQuestion, QuestionScore
from tests.support.services import PostgresServer, postgres_execute
from web import create_app

MIB: Final = 2**20
SETTINGS: Final = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "effective_cache_size": "8GB",
    "random_page_cost": "1.1",
}
"""Settings in addition to the tests' servers, which set fsync, full_page_writes and synchronous_commit off."""
VACUUM_AFTER: Final = 500_000
"""Number of archived predictions after which the table is vacuumed."""
IMPORTED_LAST: Final = 2_500_000
"""Predictions before each size that are imported and archived, not copied: about a hundred evaluations."""
FREE_BYTES: Final = 8 * 2**30
"""The run ends at its present size if the disk has less free space than this."""


class BenchServer(PostgresServer):
    """The tests' server with more memory. watched: whether it counts and times every statement."""

    def __init__(self, *, watched: bool = False) -> None:
        super().__init__()
        self.settings = dict(SETTINGS)
        if watched:
            self.settings |= {
                "shared_preload_libraries": "pg_stat_statements",
                "pg_stat_statements.track_planning": "on",
                "pg_stat_statements.track": "top",
            }

    def _command(self, folder: Path) -> Sequence[str | Path]:
        more = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        return [*super()._command(folder), *more]


@dataclass
class Spent:
    """Wall seconds, and CPU seconds of this process and of the server's processes for it."""

    wall: float = 0.0
    client: float = 0.0
    server: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.wall + other.wall, self.client + other.client, self.server + other.server)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.wall - other.wall, self.client - other.client, self.server - other.server)

    @property
    def cpu(self) -> float:
        """Return the CPU seconds of both processes."""
        return self.client + self.server


@contextmanager
def spending(*pids: int) -> Iterator[Spent]:
    """Measure the time of the block. pids: the server's processes."""
    spent = Spent()
    wall, client, server = time.perf_counter(), time.process_time(), cpu_seconds(pids)
    yield spent
    spent.wall, spent.client = time.perf_counter() - wall, time.process_time() - client
    spent.server = cpu_seconds(pids) - server


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU seconds of processes on this machine; ended processes count as 0."""
    files = [file for file in (Path(f"/proc/{pid}/stat") for pid in pids) if file.exists()]
    fields = [file.read_text().rpartition(")")[2].split() for file in files]
    return sum(int(values[11]) + int(values[12]) for values in fields) / os.sysconf("SC_CLK_TCK")


def backend(session: Session) -> int:
    """Return the process id of the server's process for a session."""
    return int(session.scalar(text("SELECT pg_backend_pid()")) or 0)


@dataclass
class Imported:
    """Totals over the imported evaluations."""

    predictions: int = 0
    questions: int = 0
    copying: Spent = field(default_factory=Spent)
    scoring: Spent = field(default_factory=Spent)
    statistics: Spent = field(default_factory=Spent)
    archived: int = 0
    archiving: Spent = field(default_factory=Spent)


@dataclass
class Sealed:
    """An evaluation that the registry sealed."""

    kind: Kind
    evaluation_id: int
    spent: Spent


@dataclass
class State:
    """The contents of the database.

    newest: by kind, the last evaluation and the made-up model that it repeats. templates: by kind and made-up model,
    the evaluation that the registry sealed. archives: folder for the others' archives; None if nothing is archived.
    files: by kind and made-up model, an archived evaluation whose file is copied for others; None to copy none.
    """

    evaluations: int = 0
    predictions: int = 0
    newest: dict[Kind, tuple[int, int]] = field(default_factory=dict)
    templates: dict[tuple[Kind, int], int] = field(default_factory=dict)
    sealed: list[Sealed] = field(default_factory=list)
    archives: Path | None = None
    files: dict[tuple[Kind, int], int] | None = None
    shared: Shared = field(default_factory=Shared)
    archived: int = 0
    unvacuumed: int = 0


def import_one(engine: Engine, source: Source, number: int, kind: Kind, imported: Imported) -> int:
    """Import one evaluation in one transaction, as the importer does; return its id."""
    with write_session(engine) as session:
        evaluation_id = source.add(session, number, kind)
        rows = source.rows(number, kind, evaluation_id)
        pid = backend(session)
        with spending(pid) as copying:
            store(session, rows)
        with spending(pid) as analysing:
            renew_statistics(session, len(rows))
        with spending(pid) as scoring:
            write_question_scores(session, evaluation_id)
    imported.predictions += len(rows)
    imported.questions += kind.questions
    imported.copying += copying
    imported.statistics += analysing
    imported.scoring += scoring
    return evaluation_id


def seal_one(engine: Engine, kind: Kind, evaluation_id: int) -> Sealed:
    """Seal an evaluation as a worker does."""
    with write_session(engine) as session, spending(backend(session)) as spent:
        seal(session, evaluation_id)
        session.flush()
    return Sealed(kind, evaluation_id, spent)


_KEPT: Final = [
    column.name for column in EvaluationMetric.__table__.columns if column.name not in ("evaluation_id", "value")
]
_ASKED: Final = ", ".join(ASKED)
STAND_IN: Final = (
    (
        "INSERT INTO question_pride (evaluation_id, question_id, estimation, correct) "
        "SELECT :new, question_id, estimation, correct FROM question_pride WHERE evaluation_id = :like"
    ),
    (
        "INSERT INTO question_seal (evaluation_id, question_id, leaf, prompts) "
        "SELECT :new, question_id, leaf, prompts FROM question_seal WHERE evaluation_id = :like"
    ),
    # Other values, but still shares, so that sorting by them differs from sorting by age.
    (
        f"INSERT INTO evaluation_metric (evaluation_id, value, {', '.join(_KEPT)}) "
        f"SELECT :new, value * (0.9 + 0.1 * (:new * 7919 % 1000) / 1000.0), {', '.join(_KEPT)} "
        "FROM evaluation_metric WHERE evaluation_id = :like"
    ),
    (
        "UPDATE evaluation SET state = 'complete', seal = sha256(specification_digest), "
        f"sealed_at = clock_timestamp(), seal_version = 1, ({_ASKED}) = "
        f"(SELECT {_ASKED} FROM evaluation AS known WHERE known.id = :like) WHERE id = :new"
    ),
)
"""Statements that copy the rows that sealing wrote from the evaluation :like to :new."""


_COUNTED: Final = ", ".join(column.name for column in QuestionScore.__table__.columns if column.name != "evaluation_id")
SCORED_LIKE: Final = (
    f"INSERT INTO question_score (evaluation_id, {_COUNTED}) "
    f"SELECT :new, {_COUNTED} FROM question_score WHERE evaluation_id = :like"
)
"""Gives the evaluation :new the question scores of :like."""


def stand_in(session: Session, like: int, new: int) -> None:
    """Copy the rows of a sealed evaluation of the same kind to a new evaluation."""
    for statement in STAND_IN:
        session.execute(text(statement), {"new": new, "like": like})


def copy_folder(archives: Path, name: str, old: str, new: str) -> str:
    """Copy an archive folder, replacing the seal in it with another of the same length; return its digest."""
    part = archives / f"{new}.part"
    shutil.copytree(archives / name, part)
    predictions, document = part / PREDICTIONS, part / EVALUATION
    written = sha256_file(predictions)
    predictions.write_bytes(predictions.read_bytes().replace(old.encode(), new.encode()))
    text = document.read_text().replace(written, sha256_file(predictions))
    document.write_text(text)
    digest = sha256_text(text)
    part.rename(archives / folder_name(new, digest))
    return digest


def copy_one(engine: Engine, source: Source, state: State, number: int, kind: Kind, like: int) -> None:
    """Add an evaluation with the rows of an archived one with the same answers, and a copy of its folder."""
    assert state.archives is not None
    with write_session(engine) as session:
        evaluation_id = source.add(session, number, kind)
        session.execute(text(SCORED_LIKE), {"new": evaluation_id, "like": like})
        stand_in(session, like, evaluation_id)
        session.expire_all()
        archived, evaluations = session.get_one(Archive, like), (like, evaluation_id)
        old, new = (session.get_one(Evaluation, sealed_id).seal or "" for sealed_id in evaluations)
        digest = copy_folder(state.archives, folder_name(old, archived.digest), old, new)
        values = {name: getattr(archived, name) for name in ("location", "size", "predictions", "texts")}
        # A trigger rightly refuses an archive of predictions that were never in their table.
        session.execute(text("SET LOCAL session_replication_role = replica"))
        session.add(Archive(evaluation_id=evaluation_id, state="archived", digest=digest, **values))
        chain.append(session, "folder", digest, labels=new)
    state.archived += kind.predictions


def archive_one(engine: Engine, state: State, evaluation_id: int, kind: Kind, profile: int, imported: Imported) -> None:
    """Archive a sealed evaluation, and vacuum at least as often as autovacuum would."""
    if state.archives is None:
        return
    predictions = kind.predictions
    if state.files is not None:
        state.files[kind, profile] = evaluation_id
    with spending(*backends(engine)) as archiving:
        moved = archive(engine, evaluation_id, str(state.archives), state.shared)
    assert moved is not None
    state.archived += predictions
    state.unvacuumed += predictions
    imported.archived += predictions
    imported.archiving += archiving
    if state.unvacuumed >= VACUUM_AFTER:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM prediction"))
        state.unvacuumed = 0


def grow(
    engine: Engine, source: Source, plan: Iterator[tuple[int, Kind]], state: State, target: int, deadline: float
) -> Imported:
    """Import evaluations up to the target or the deadline; the newest of each kind stays unsealed."""
    imported = Imported()
    while state.predictions < target and time.monotonic() < deadline:
        number, kind = next(plan)
        profile = profile_of(number, kind)
        like = (state.files or {}).get((kind, profile)) if state.predictions < target - IMPORTED_LAST else None
        state.evaluations += 1
        state.predictions += kind.predictions
        if like is not None:
            copy_one(engine, source, state, number, kind, like)
            continue
        evaluation_id = import_one(engine, source, number, kind, imported)
        previous, of_previous = state.newest.get(kind, (None, 0))
        state.newest[kind] = (evaluation_id, profile)
        if previous is not None and previous != state.templates[kind, of_previous]:
            with write_session(engine) as session:
                stand_in(session, state.templates[kind, of_previous], previous)
            archive_one(engine, state, previous, kind, of_previous, imported)
        if (kind, profile) not in state.templates:
            state.sealed.append(seal_one(engine, kind, evaluation_id))
            state.templates[kind, profile] = evaluation_id
    return imported


def seal_newest(engine: Engine, state: State, imported: Imported, *, largest: bool) -> list[Sealed]:
    """Seal the newest evaluation of each kind with the registry; the largest kind only on request.

    Returns these evaluations and the first of each kind, which were sealed before.
    """
    templates, state.sealed = state.sealed, []
    left_out = None if largest else max(state.newest, key=lambda kind: kind.predictions)
    for kind, (evaluation_id, profile) in state.newest.items():
        if kind != left_out and evaluation_id != state.templates[kind, profile]:
            templates.append(seal_one(engine, kind, evaluation_id))
            archive_one(engine, state, state.templates[kind, profile], kind, profile, imported)
            state.templates[kind, profile] = evaluation_id
    refresh_boards(engine)
    return templates


SIZES: Final = """
SELECT relname AS name, pg_table_size(oid) AS rows, pg_indexes_size(oid) AS indexes, reltuples::bigint AS n
FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
ORDER BY pg_total_relation_size(oid) DESC
"""


def sizes(engine: Engine) -> tuple[int, list[dict[str, Any]]]:
    """Return the size of the database in bytes, and the largest tables with their sizes."""
    with read_session(engine) as session:
        total = int(session.scalar(text("SELECT pg_database_size(current_database())")) or 0)
        return total, [dict(row) for row in session.execute(text(SIZES)).mappings()][:8]


def addresses(engine: Engine, state: State) -> dict[str, str]:
    """Map the name of each page to the address to request."""
    largest = max(state.newest, key=lambda kind: kind.predictions)
    with read_session(engine) as session:
        evaluation_id = state.templates[largest, state.newest[largest][1]]  # sealed by the registry
        model = session.get_one(Evaluation, evaluation_id).model_revision.model.name
        questions = (
            select(EvaluationQuestion.question_id).filter_by(evaluation_id=evaluation_id).order_by("question_id")
        )
        question = session.scalars(questions.offset(largest.questions // 2).limit(1)).one()
    return {
        "leaderboard": "/",
        "leaderboard, last page": f"/?page={max(1, state.evaluations // 100)}",
        "leaderboard, one list": "/?group=no",
        "leaderboard, one benchmark": "/?benchmark=mmlu",
        "board": "/boards/bench",
        "model": f"/models/{model}",
        "evaluation": f"/evaluations/{evaluation_id}",
        "question of it": f"/evaluations/{evaluation_id}/questions/{question}",
        "API leaderboard, 100 rows": "/api/v1/leaderboard?per_page=100",
        "API predictions, 1000": f"/api/v1/evaluations/{evaluation_id}/predictions",
    }


def pages(engine: Engine, state: State, requests: int) -> dict[str, tuple[float, float, float, float]]:
    """Map page → milliseconds for an answer: median, 95th percentile, mean time in SQL, and CPU of both processes.

    Something is written before each request, so that the page is rendered again, except for the names that end in `,
    kept`.
    """

    client = create_app(database_url=engine.url.render_as_string(hide_password=False)).test_client()
    times = {}
    ways = {"": lambda: something_written(engine), ", kept": lambda: None}
    for (name, address), (way, before) in product(addresses(engine, state).items(), ways.items()):
        with ExitStack() as stack:
            watched = [stack.enter_context(watching(each)) for each in _engines(engine)]
            client.get(address)  # opens the connections, so that their processes are known
            with spending(*backends(engine)) as spent:
                measured = measure(client, engine, address, requests, before=before)
            in_sql = sum(each.seconds for each in watched) / (requests + 2)
        in_order = sorted(measured.seconds)
        p95 = in_order[min(len(in_order) - 1, int(0.95 * len(in_order)))]
        cpu = spent.cpu / (requests + 1)
        times[name + way] = (1000 * statistics.median(in_order), 1000 * p95, 1000 * in_sql, 1000 * cpu)
    return times


def backends(engine: Engine) -> list[int]:
    """Return the process ids of the server's processes for all connections to a database."""
    with read_session(engine) as session:
        return list(
            session.scalars(
                text(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
                    "AND backend_type = 'client backend'"
                )
            )
        )


def _engines(engine: Engine) -> list[Engine]:
    """Return the website's engines, one for each audience."""
    return [audience_engine(engine, audience) for audience in AUDIENCES if audience != "all"]


SLOWEST: Final = """
SELECT calls, mean_exec_time, mean_plan_time, shared_blks_read + shared_blks_hit AS blocks, left(query, 3000) AS query
FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid
WHERE datname = current_database() AND query NOT LIKE '%pg_stat%' AND query NOT LIKE 'DO %'
ORDER BY (total_exec_time + total_plan_time) DESC LIMIT 25
"""


def slowest(engine: Engine) -> list[dict[str, Any]]:
    """Return the statements that took the most time since the last call."""
    with engine.connect() as connection:
        connection.execute(text("CREATE EXTENSION IF NOT EXISTS pg_stat_statements"))
        statements = [dict(row) for row in connection.execute(text(SLOWEST)).mappings()]
        connection.execute(text("SELECT pg_stat_statements_reset()"))
        connection.commit()
    return statements


TABLES: Final = ("prediction", "generation", "question_score", "evaluation_question", "question_seal", "question_pride")
READ: Final = text(
    "SELECT relname, seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables "
    "WHERE schemaname = 'public' AND relname = ANY(:tables)"
)


def read_by_sealing(engine: Engine, evaluation_id: int) -> dict[str, tuple[int, int]]:
    """Map table → rows that sealing an evaluation reads by scanning the table, and by an index; roll back afterwards.

    Scans are discouraged, since no plan would use an index for a table of a few pages.
    """
    with Session(engine) as session:
        session.execute(text("SET LOCAL enable_seqscan = off"))
        # The server also counts the connection's earlier reads once it flushes its statistics.
        before = _read_so_far(session)
        seal(session, evaluation_id)
        after = _read_so_far(session)
        session.rollback()
    return {table: (after[table][0] - before[table][0], after[table][1] - before[table][1]) for table in after}


def _read_so_far(session: Session) -> dict[str, tuple[int, int]]:
    return {row[0]: (int(row[1]), int(row[2])) for row in session.execute(READ, {"tables": list(TABLES)})}


UNUSED: Final = """
SELECT indexrelname AS name, relname AS of_table, pg_relation_size(indexrelid) AS size
FROM pg_stat_user_indexes JOIN pg_index USING (indexrelid)
WHERE idx_scan = 0 AND schemaname = 'public' ORDER BY size DESC, name
"""


def list_unused_indexes(engine: Engine) -> list[dict[str, Any]]:
    """Return the indexes that no statement of the run has read, largest first."""
    with read_session(engine) as session:
        return [dict(row) for row in session.execute(text(UNUSED)).mappings()]


# Cost of each part

_DROP_CHECKS: Final = """
DO $$ DECLARE name text; BEGIN
FOR name IN SELECT conname FROM pg_constraint WHERE conrelid = 'prediction'::regclass AND contype = 'c' LOOP
EXECUTE format('ALTER TABLE prediction DROP CONSTRAINT %I', name); END LOOP; END $$
"""
_DROP_FOREIGN: Final = _DROP_CHECKS.replace("contype = 'c'", "contype = 'f'")
_DROP_KEY: Final = "ALTER TABLE prediction DROP CONSTRAINT pk_prediction CASCADE"
_DROP_INDEX: Final = "DROP INDEX ix_prediction_reused_from"
_DROP_TRIGGERS: Final = "ALTER TABLE prediction DISABLE TRIGGER USER"
WITHOUT: Final[dict[str, tuple[str, ...]]] = {
    "everything on": (),
    "without the primary key": (_DROP_KEY,),
    "without the index of reused results": (_DROP_INDEX,),
    "without the foreign key": (_DROP_FOREIGN,),
    "without the triggers": (_DROP_TRIGGERS,),
    "without the checks": (_DROP_CHECKS,),
    "bare table": (_DROP_KEY, _DROP_INDEX, _DROP_FOREIGN, _DROP_TRIGGERS, _DROP_CHECKS),
}


def parts(server: PostgresServer, folder: Path, predictions: int, report: Callable[[str], None]) -> None:
    """Import the same predictions with one key, check or trigger dropped at a time."""
    postgres_execute(server.url, "CREATE DATABASE empty TEMPLATE template0")
    empty = get_engine(server.database_url("empty"))
    upgrade(server.database_url("empty"))
    with write_session(empty) as session:
        source = Source(session, folder)
    empty.dispose()
    report("| | predictions/s | µs of the server's CPU per prediction | µs of the client's |\n|---|---|---|---|")
    for number, (name, statements) in enumerate(WITHOUT.items()):
        postgres_execute(server.url, f"CREATE DATABASE parts{number} TEMPLATE empty")
        url = server.database_url(f"parts{number}")
        postgres_execute(url, *statements)
        engine = get_engine(url)
        spent, stored = Spent(), 0
        plan = ((n, kind) for n, kind in source.plan() if kind.benchmark != "csqa" and kind.variants == "cyclic")
        while stored < predictions:
            model, kind = next(plan)
            with write_session(engine) as session:
                evaluation_id = source.add(session, model, kind)
                rows = source.rows(model, kind, evaluation_id)
                with spending(backend(session)) as copying:
                    store(session, rows)
            spent, stored = spent + copying, stored + len(rows)
        report(
            f"| {name} | {stored / spent.wall:,.0f} | {1e6 * spent.server / stored:.2f} | "
            f"{1e6 * spent.client / stored:.2f} |"
        )
        engine.dispose()
        postgres_execute(server.url, f"DROP DATABASE parts{number}")


# Reporting


def describe(
    state: State, imported: Imported, sealed: Sequence[Sealed], engine: Engine, requests: int
) -> dict[str, Any]:
    """Return all measurements at one size, as JSON."""
    total, tables = sizes(engine)
    return {
        "predictions": state.predictions,
        "evaluations": state.evaluations,
        "bytes": total,
        "archived": state.archived,
        "archive_bytes": sum(file.stat().st_size for file in state.archives.rglob("*.*")) if state.archives else 0,
        "tables": tables,
        "imported": asdict(imported),
        "sealed": [asdict(evaluation) for evaluation in sealed],
        "pages": pages(engine, state, requests),
        "load": os.getloadavg()[0],
    }


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the measurements at one size as lines for a reader."""
    n, imported = found["predictions"], found["imported"]
    copied, copying = imported["predictions"], imported["copying"]
    own = next(table for table in found["tables"] if table["name"] == "prediction")
    yield (
        f"\n{n:,} predictions, {found['evaluations']:,} evaluations; load of the machine {found['load']:.1f}\n"
        f"  database {found['bytes'] / MIB:,.0f} MiB, {found['bytes'] / n:.0f} bytes per prediction: "
        f"{own['rows'] / n:.0f} in the table prediction, {own['indexes'] / n:.0f} in its indexes"
    )
    if found["archived"]:
        spent, moved = imported["archiving"], imported["archived"]
        yield (
            f"  archived {found['archived']:,} of them, {found['archive_bytes'] / MIB:,.0f} MiB, "
            f"{found['archive_bytes'] / found['archived']:.1f} bytes each; at {moved / max(1e-9, spent['wall']):,.0f}/s, CPU per "
            f"prediction: server {1e6 * spent['server'] / max(1, moved):.1f} µs, client "
            f"{1e6 * spent['client'] / max(1, moved):.1f} µs"
        )
    if copied:
        per_row = [1e6 * copying[part] / copied for part in ("server", "client")]
        both = copying["wall"] + imported["scoring"]["wall"] + imported["statistics"]["wall"]
        yield (
            f"  import {copied / copying['wall']:,.0f}/s; CPU per prediction: server {per_row[0]:.1f} µs, client "
            f"{per_row[1]:.1f} µs; question scores {copied / imported['scoring']['wall']:,.0f}/s, statistics "
            f"{imported['statistics']['wall']:.0f} s; all {copied / both:,.0f}/s"
        )
    for evaluation in found["sealed"]:
        kind, spent = Kind(**evaluation["kind"]), evaluation["spent"]
        yield (
            f"  sealed {kind.benchmark} {kind.variants}: {kind.predictions:,} predictions in {spent['wall']:.1f} s, "
            f"CPU {spent['client'] + spent['server']:.1f} s ({spent['server']:.1f} s of it the server's)"
        )
    for name, (median, p95, in_sql, cpu) in found["pages"].items():
        yield f"  {name:32} median {median:6.1f} ms, 95 % {p95:6.1f} ms, in SQL {in_sql:6.1f} ms, CPU {cpu:6.1f} ms"
    for table in found["tables"]:
        yield f"    {table['name']:20} {table['n']:>12,} rows {table['rows'] / MIB:9,.0f} MiB, indexes {table['indexes'] / MIB:,.0f} MiB"


def run(
    url: str,
    folder: Path,
    targets: Sequence[int],
    *,
    requests: int,
    share: float,
    explain: bool = False,
    archiving: bool = False,
    copying: bool = False,
    minutes: float = 600.0,
    path: Path | None = None,
    report: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Grow an empty database from size to size, and measure at each size."""
    engine = get_engine(url)
    with write_session(engine) as session:
        source = (Scored if archiving else Source)(session, folder, share)
    state = State(files={} if copying else None)
    if archiving:
        state.archives = folder / "archives"
        state.archives.mkdir()
    plan, measurements = source.plan(), []
    deadline = time.monotonic() + 60 * minutes
    for target in targets:
        started = time.perf_counter()
        imported = grow(engine, source, plan, state, target, deadline)
        late = time.monotonic() >= deadline
        sealed = seal_newest(engine, state, imported, largest=late or target == targets[-1])
        if explain:
            slowest(engine)
        measurement = describe(state, imported, sealed, engine, requests)
        measurement["seconds"] = time.perf_counter() - started
        measurements.append(measurement)
        if path is not None:
            path.write_text(json.dumps(measurements, indent=1), encoding="utf-8")
        for line in lines(measurement):
            report(line)
        for row in slowest(engine) if explain else ():
            report(
                f"{row['calls']} times {row['mean_exec_time']:.1f} ms, planned in {row['mean_plan_time']:.1f} ms, "
                f"{row['blocks']} blocks: {' '.join(row['query'].split())}"
            )
        if late or shutil.disk_usage(folder).free < FREE_BYTES:
            report(f"stopped: {minutes:g} minutes are over, or less than {FREE_BYTES / 2**30:.0f} GiB are free")
            break
    listed = ", ".join(f"{row['name']} ({row['size'] / MIB:,.0f} MiB)" for row in list_unused_indexes(engine))
    report(f"\nindexes that nothing has read: {listed}")
    for each in _engines(engine):
        each.dispose()
    engine.dispose()
    return measurements


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure; with --parts only the cost of each key, check and trigger."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=int, default=1_000_000)
    parser.add_argument("--sizes", default=None, help="in millions, such as 1,5,10,25,50")
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--share", type=float, default=1.0, help="of the questions of each benchmark")
    parser.add_argument("--parts", type=int, default=0, metavar="PREDICTIONS")
    parser.add_argument("--explain", action="store_true", help="list the statements that took most time")
    parser.add_argument("--archive", action="store_true", help="archive evaluations as they are sealed")
    parser.add_argument("--copy", action="store_true", help="copy archives of the same answers")
    parser.add_argument("--minutes", type=float, default=600.0, help="import nothing more after so long")
    parser.add_argument("--json", type=Path, default=None, help="a file for all figures")
    options = parser.parse_args(arguments)
    if options.copy and not options.archive:
        parser.error("--copy: copies archives; give --archive, too")
    targets = [options.predictions]
    if options.sizes:
        targets = [round(float(size) * 1_000_000) for size in options.sizes.split(",")]

    def report(line: str) -> None:
        print(line, flush=True)

    # On the disk: a small database fits in memory, like the tests' databases, and a large one does not.
    os.environ.setdefault("TMPDIR", tempfile.gettempdir())
    with BenchServer(watched=options.explain) as server, tempfile.TemporaryDirectory() as name:
        if options.parts:
            parts(server, Path(name), options.parts, report)
            return
        postgres_execute(server.url, "CREATE DATABASE bench TEMPLATE template0")
        upgrade(server.database_url("bench"))
        run(
            server.database_url("bench"),
            Path(name),
            targets,
            requests=options.requests,
            share=options.share,
            explain=options.explain,
            archiving=options.archive,
            copying=options.copy,
            minutes=options.minutes,
            path=options.json,
            report=report,
        )


if __name__ == "__main__":
    main()
