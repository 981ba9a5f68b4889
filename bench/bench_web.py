"""Times the website over a large registry on PostgreSQL: `python -m bench.bench_web [OPTIONS]`.

bench/generate_registry.py fills a database of a temporary server, whose board shows every model on the first seventeen
benchmarks; the time of its snapshot is printed first. --url names a database that is already filled. Each address is
requested through the application, without a network, first once unmeasured, then --requests times, and rendered each
time. The table shows the time of an answer (median and 95th percentile), the number of its statements, the time in the
database, and its size.

Options: --requests 30  --models 500  --benchmarks 60  --questions 10  --predictions 350000  --url URL  --only NAME
"""

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flask.testing import FlaskClient
from sqlalchemy import Engine, event, func, select, text

from bench.generate_registry import EXPLORED, Size, fill
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import get_engine, read_session, write_session
from registry.operations.migrate import upgrade
from registry.schema.audiences import audience_engine, dispose
from registry.tables import BoardSnapshot, Evaluation, EvaluationQuestion
from tests.support.services import PostgresServer, postgres_execute
from web import create_app

BOARD: Final = "everything"
TASKS: Final = 17
COLUMNS: Final = tuple(
    f"{name}@cyclic" for name in ("right_twice_across_orders", "accuracy", "order_loss", "worst_accuracy")
)


@dataclass
class Database:
    """Number and time of the statements sent to the database."""

    statements: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Measured:
    """The measurements of an address: seconds of each request, statements and their time, size of the answer."""

    seconds: list[float]
    statements: int
    database_seconds: float
    size: int

    def line(self, name: str) -> str:
        """Return a line of the table."""
        in_order = sorted(self.seconds)
        p95 = in_order[min(len(in_order) - 1, int(0.95 * len(in_order)))]
        return (
            f"{name:58} {1000 * statistics.median(in_order):8.1f} {1000 * p95:8.1f} {self.statements:6} "
            f"{1000 * self.database_seconds:8.1f} {self.size / 1024:8.0f}"
        )


def addresses(
    model: str, benchmark: str, evaluations: int, sealed: int, explored: int, questions: Sequence[int]
) -> Iterator[tuple[str, str]]:
    """Yield (description, address); pages first."""
    question = questions[len(questions) // 2]
    yield "leaderboard", "/"
    yield "leaderboard, tenth page", f"/?page={max(1, min(10, evaluations // 100))}"
    yield "leaderboard, one list", "/?group=no"
    yield "leaderboard, one benchmark", f"/?benchmark={benchmark}"
    yield "board", f"/boards/{BOARD}"
    # Each visitor makes other choices, so no selection is cached by another visitor.
    yield "board, a visitor's own", f"/boards/{BOARD}/own?column=accuracy@cyclic&weight.benchmark-001=2"
    yield "board, pairs", f"/boards/{BOARD}/pairs"
    yield "model", f"/models/{model}"
    yield "benchmark", f"/benchmarks/{benchmark}"
    yield "models", "/models"
    yield "overview", "/overview"
    yield "leaderboard as CSV", "/leaderboard.csv"
    yield "evaluation", f"/evaluations/{sealed}"
    yield "question explorer, evaluation", f"/evaluations/{explored}"
    yield "question explorer, flips", f"/evaluations/{explored}?only=flips"
    yield "question explorer, middle", f"/evaluations/{explored}?page={max(1, len(questions) // 50)}"
    yield "question explorer, question", f"/evaluations/{explored}/questions/{question}"
    yield "question", f"/questions/{question}"
    yield "queue", "/queue"
    api = "/api/v1"
    yield "API leaderboard, 100 rows", f"{api}/leaderboard?per_page=100"
    yield "API leaderboard, 1000 rows", f"{api}/leaderboard"
    yield "API leaderboard, filtered", f"{api}/leaderboard?family=family-3&min_parameters=1000000000&per_page=100"
    yield "API model", f"{api}/models/{model}"
    yield "API evaluations", f"{api}/evaluations"
    yield "API evaluation", f"{api}/evaluations/{sealed}"
    yield "API questions, 100", f"{api}/evaluations/{explored}/questions"
    yield "API predictions, 1000", f"{api}/evaluations/{explored}/predictions"
    yield "API predictions, last pages", f"{api}/evaluations/{explored}/predictions?cursor={question}.0"
    yield "API question", f"{api}/questions/{question}"


def snapshot(engine: Engine) -> None:
    """Put every model on a board, and print the time of its snapshot."""
    names = [f"benchmark-{number:03}" for number in range(TASKS)]
    suite = {"name": BOARD, "variants": ["cyclic"], "tasks": [{"benchmark": name} for name in names]}
    with write_session(engine) as session:
        import_suite(session, SuiteDefinition.model_validate(suite))
        import_board(session, BoardDefinition(name=BOARD, suite=BOARD, columns=COLUMNS))
    spent = time.process_time()
    refresh_boards(engine)
    spent = time.process_time() - spent
    stored = select(func.sum(func.pg_column_size(BoardSnapshot.document)))
    with read_session(engine) as session:
        document = session.scalar(stored) or 0
        standings = session.scalar(text("SELECT pg_total_relation_size('board_standing')")) or 0
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"snapshot: {spent:.0f} s of this process's CPU, {memory} MiB at most")
    print(f"stored of it: {document / 2**20:.2f} MiB, standings {standings / 2**20:.2f} MiB", flush=True)


@contextmanager
def watching(engine: Engine) -> Iterator[Database]:
    """Count and time the statements of an engine inside the block."""
    seen = Database()

    def note_start(
        _connection: Any, _cursor: Any, _statement: str, _parameters: Any, context: Any, _many: bool
    ) -> None:
        context.began = time.perf_counter()

    def note_end(_connection: Any, _cursor: Any, _statement: str, _parameters: Any, context: Any, _many: bool) -> None:
        seen.statements += 1
        seen.seconds += time.perf_counter() - context.began

    event.listen(engine, "before_cursor_execute", note_start)
    event.listen(engine, "after_cursor_execute", note_end)
    yield seen
    event.remove(engine, "before_cursor_execute", note_start)
    event.remove(engine, "after_cursor_execute", note_end)


def measure(
    client: FlaskClient, engine: Engine, address: str, requests: int, *, before: Callable[[], None] = lambda: None
) -> Measured:
    """Request an address several times. before: called before each request, not timed."""
    response = client.get(address)
    size = len(response.get_data())
    assert response.status_code == 200, f"{address}: {response.status_code} {response.text[:500]}"
    seconds = []
    with watching(engine) as seen:
        for _ in range(requests):
            before()
            started = time.perf_counter()
            client.get(address).get_data()  # read to the end, since long answers are sent in pieces
            seconds.append(time.perf_counter() - started)
    return Measured(seconds, seen.statements // requests, seen.seconds / requests, size)


def something_written(engine: Engine) -> None:
    """Run a transaction that may write, after which no cached page is served."""
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_current_xact_id()"))


def measure_all(url: str, requests: int, only: str) -> None:
    """Print the table."""
    # The pages read through this engine, since their visitor is anonymous.
    engine = audience_engine(get_engine(url), "public")
    client = create_app(database_url=url).test_client()
    with read_session(engine) as session:
        first = session.get_one(Evaluation, session.scalars(select(func.min(Evaluation.id))).one())
        model, benchmark = first.model_revision.model.name, first.benchmark_version.benchmark.name
        listed = select(Evaluation.id).order_by(Evaluation.id.desc())
        explored = next(
            row
            for row in session.scalars(listed)
            if session.get_one(Evaluation, row).benchmark_version.benchmark.name == EXPLORED
        )
        of_it = select(EvaluationQuestion.question_id).filter_by(evaluation_id=explored).order_by("question_id")
        questions = session.scalars(of_it).all()
        evaluations = session.scalars(select(func.count()).select_from(Evaluation)).one()
    print(f"{evaluations} evaluations, {len(questions)} questions explored, {requests} requests each")
    print(f"{'':58} {'median':>8} {'p95':>8} {'SQL':>6} {'in SQL':>8} {'answer':>8}")
    print(f"{'':58} {'ms':>8} {'ms':>8} {'':>6} {'ms':>8} {'KiB':>8}")
    for name, address in addresses(model, benchmark, evaluations, first.id, explored, questions):
        if only in name:
            measured = measure(client, engine, address, requests, before=lambda: something_written(get_engine(url)))
            print(measured.line(name), flush=True)


@contextmanager
def fill_database(size: Size) -> Iterator[str]:
    """Fill a database of a temporary server, take a snapshot of its board, and yield its URL."""
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        postgres_execute(server.url, "CREATE DATABASE bench TEMPLATE template0")
        url = server.database_url("bench")
        upgrade(url)
        started = time.perf_counter()
        fill(get_engine(url), Path(folder), size)
        print(f"filled in {time.perf_counter() - started:.0f} s")
        snapshot(get_engine(url))
        yield url
        dispose(get_engine(url))


def main() -> None:
    """Fill a database and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--models", type=int, default=Size.models)
    parser.add_argument("--benchmarks", type=int, default=Size.benchmarks)
    parser.add_argument("--questions", type=int, default=Size.questions)
    parser.add_argument("--predictions", type=int, default=Size.predictions)
    parser.add_argument("--url", default=None, help="a database that is filled already")
    parser.add_argument("--only", default="", help="only addresses whose name contains this")
    options = parser.parse_args()
    if options.url is not None:
        measure_all(options.url, options.requests, options.only)
        return
    size = Size(options.models, options.benchmarks, options.questions, options.predictions)
    with fill_database(size) as url:
        measure_all(url, options.requests, options.only)


if __name__ == "__main__":
    main()
