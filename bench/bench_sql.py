"""Times the SQL page over thousands of sealed evaluations: `python -m bench.bench_sql [OPTIONS]`.

A temporary registry on SQLite, or with --postgresql on a server, gets evaluations that the registry imports and seals,
one of each kind and each made-up model (bench/generate_predictions.py). The others get the rows of one of these and, in
place of predictions, links to its files, since writing twenty million rows of predictions takes an hour and queries
read files only. The output is how fast the files of evaluations with predictions are written, how long the list of all
takes, and, for a process that is warm, how long a count of all predictions and queries of the leaderboard take: alone,
and with several visitors at once, one with heavy queries and the others with small ones. Then one more evaluation is
sealed, while a visitor sends a query every second, until it is counted.

With --website, the address of a website served on this host, only the 99th percentile of its pages is measured, alone
and next to visitors whose queries use their whole limit.

Options: --evaluations 3000  --predictions 20000000  --visitors 4  --repeats 9  --postgresql  --home FOLDER (kept)
    --website http://127.0.0.1:8000
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from threading import Event
from typing import Final
from urllib.parse import urlencode

from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from bench.bench_db import SCORED_LIKE, STAND_IN, BenchServer
from bench.generate_predictions import Kind, Source, profile_of, store
from registry.db import get_engine, read_session, utc_text, write_session
from registry.operations.migrate import upgrade
from registry.scores.question_scores import write_question_scores
from registry.sealed.seal import seal
from registry.settings import Settings
from registry.sql import Queries
from registry.sql.examples import EXAMPLES
from registry.sql.files import Files
from registry.tables import Evaluation
from tests.sql.attacks import BOMBS
from tests.support.services import postgres_execute

BENCHMARKS: Final = 6
ORDERS: Final = 24
COUNT: Final = "SELECT count(*) FROM prediction_detail"
QUERIES: Final = {
    "count of all predictions": COUNT,
    "share of each position": "SELECT chosen_position, count(*) FROM prediction_detail GROUP BY ALL",
    "leaderboard": "SELECT model, accuracy, worst_accuracy FROM leaderboard ORDER BY accuracy DESC LIMIT 20",
    "leaderboard of a benchmark": "SELECT * FROM leaderboard WHERE benchmark = 'made-up-2'",
    "one evaluation": "SELECT variant, avg(correct::INTEGER) FROM prediction_detail WHERE evaluation_id = 7 GROUP BY ALL",
    "one question of one evaluation": "SELECT * FROM question_metrics WHERE evaluation_id = 7 LIMIT 1",
    "ten questions that flip most": EXAMPLES["Which ten questions do models above 50 % flip on most?"],
}
PAGES: Final = ("/", "/boards", "/models", "/benchmarks", "/evaluations/2", "/compare")
HEAVY: Final = ("a product", "a series", "a sort", "a slow function", "repeat", "a regular expression")


class Many(Source):
    """Benchmarks of one size, with all orders of four options."""

    def __init__(self, session: Session, folder: Path, questions: int) -> None:
        self._questions = questions
        super().__init__(session, folder)

    def kinds_of(self, _share: float) -> tuple[Kind, ...]:
        """Return all benchmarks, whatever the share."""
        return tuple(Kind(f"made-up-{n}", self._questions, 4, 5, "full") for n in range(BENCHMARKS))


def seal_one(engine: Engine, source: Source, number: int, kind: Kind) -> int:
    """Import an evaluation and seal it, as the registry does."""
    with write_session(engine) as session:
        evaluation_id = source.add(session, number, kind)
        store(session, source.rows(number, kind, evaluation_id))
        write_question_scores(session, evaluation_id)
    with write_session(engine) as session:
        seal(session, evaluation_id)
    return evaluation_id


def fill(engine: Engine, files: Files, source: Source, evaluations: int) -> tuple[int, float]:
    """Add the evaluations; return how many have predictions, and the seconds that writing their files took."""
    plan, templates = source.plan(), dict[tuple[Kind, int], int]()
    planned = [next(plan) for _ in range(evaluations)]
    for number, kind in planned:
        if (kind, profile_of(number, kind)) not in templates:
            templates[kind, profile_of(number, kind)] = seal_one(engine, source, number, kind)
    begun = time.perf_counter()
    files.write("public")
    seconds = time.perf_counter() - begun
    alike = dict[int, int]()
    with write_session(engine) as session:
        for number, kind in planned[len(templates) :]:
            new, like = source.add(session, number, kind), templates[kind, profile_of(number, kind)]
            session.flush()
            digest = session.get_one(Evaluation, new).specification_digest
            for statement in (SCORED_LIKE, *STAND_IN):
                # Python computes these values for SQLite, which lacks PostgreSQL's functions.
                plain = statement.replace("sha256(specification_digest)", ":seal").replace("clock_timestamp()", ":now")
                values = {"new": new, "like": like, "seal": bytes.fromhex(digest), "now": utc_text(datetime.now(UTC))}
                session.execute(text(plain), {name: value for name, value in values.items() if f":{name}" in plain})
            alike[new] = like
    session.expire_all()
    places = files._places("all")
    for new, like in alike.items():
        for name, place in places[new].items():
            (files.folder / place).parent.mkdir(parents=True, exist_ok=True)
            os.link(files.folder / places[like][name], files.folder / place)
    return len(templates), seconds


def median(ask: Callable[[], object], repeats: int) -> float:
    """Return the median time in seconds."""
    spent = []
    for _ in range(repeats):
        begun = time.perf_counter()
        ask()
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent)


def measure(queries: Queries, repeats: int) -> None:
    """Print the time of each query once the process is warm."""

    def ask(sql: str) -> object:
        return queries.ask("public", sql, "alone")

    ask(COUNT)
    for name, sql in QUERIES.items():
        ask(sql)
        print(f"{name:48} {median(lambda sql=sql: ask(sql), repeats):8.3f} s", flush=True)


def together(queries: Queries, visitors: int, repeats: int) -> None:
    """Print the median and the slowest answer for several visitors, the first of them with heavy queries only."""

    def visit(number: int) -> Iterator[float]:
        for _ in range(repeats):
            sql = COUNT if number == 0 else QUERIES["leaderboard"]
            begun = time.perf_counter()
            queries.ask("public", sql, f"visitor {number}")
            yield time.perf_counter() - begun

    with ThreadPoolExecutor(visitors) as pool:
        for number, spent in enumerate(pool.map(lambda number: sorted(visit(number)), range(visitors))):
            what = "counts all" if number == 0 else "asks the leaderboard"
            middle, worst = statistics.median(spent), spent[-1]
            print(f"visitor {number} of {visitors}, who {what:24} {middle:8.3f} s, at most {worst:.3f} s", flush=True)


def next_to_queries(website: str, visitors: int, rounds: int) -> None:
    """Print the times of pages, alternately alone and next to queries, since a machine's load varies."""
    host, done = website.removeprefix("http://").rstrip("/"), Event()

    def visit(number: int) -> int:
        for visited in count():
            if done.is_set():
                return visited
            link = HTTPConnection(host, timeout=60, source_address=(f"127.0.0.{number + 2}", 0))
            link.request("GET", f"/sql.json?{urlencode({'q': BOMBS[HEAVY[(visited + number) % len(HEAVY)]]})}")
            link.getresponse().read()
        raise AssertionError

    def pages() -> Iterator[float]:
        link = HTTPConnection(host, timeout=60)
        for number in range(1500):
            begun = time.perf_counter()
            link.request("GET", PAGES[number % len(PAGES)])
            link.getresponse().read()
            yield time.perf_counter() - begun

    list(pages())
    alone, next_to_load, total = list[float](), list[float](), 0
    for _ in range(rounds):
        alone += pages()
        done.clear()
        with ThreadPoolExecutor(visitors) as pool:
            visits = [pool.submit(visit, number) for number in range(visitors)]
            time.sleep(1)
            next_to_load += pages()
            done.set()
        total += sum(visited.result() for visited in visits)
    first, second = (1000 * statistics.quantiles(spent, n=100)[98] for spent in (alone, next_to_load))
    print(
        f"pages, 99th percentile: alone {first:.1f} ms, next to {total} queries {second:.1f} ms, {second / first:.2f} x"
    )


def one_more(engine: Engine, queries: Queries, source: Source) -> None:
    """Seal one more evaluation, and print the time until it is counted."""
    (before,) = queries.ask("public", COUNT, "alone").result.rows[0]
    kind = source.kinds[0]
    seal_one(engine, source, 1_000_000, kind)
    begun, slowest = time.perf_counter(), 0.0
    while True:
        sent = time.perf_counter()
        (after,) = queries.ask("public", COUNT, "alone").result.rows[0]
        slowest = max(slowest, time.perf_counter() - sent)
        if after == before + kind.predictions:
            break
        time.sleep(1)
    print(f"one more is counted after {time.perf_counter() - begun:.1f} s; the slowest answer took {slowest:.2f} s")


def main() -> None:
    """Fill a registry and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=3000)
    parser.add_argument("--predictions", type=int, default=20_000_000)
    parser.add_argument("--visitors", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--home", type=Path)
    parser.add_argument("--website")
    options = parser.parse_args()
    if options.website:
        next_to_queries(options.website, options.visitors, options.repeats)
        return
    with ExitStack() as stack:
        home = options.home or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        home.mkdir(parents=True, exist_ok=True)
        url = f"sqlite:///{home / 'bench.db'}"
        if options.postgresql:
            server = stack.enter_context(BenchServer())
            postgres_execute(server.url, "CREATE DATABASE bench TEMPLATE template0")
            url = server.database_url("bench")
        upgrade(url)
        engine = get_engine(url)
        settings = Settings(database_url=url, home=home, rate_limits=False)
        queries = Queries(engine, settings)
        questions = -(-options.predictions // options.evaluations // ORDERS)
        with write_session(engine) as session:
            source = Many(session, home, questions)
        templates, seconds = fill(engine, queries.files, source, options.evaluations)
        rows = templates * questions * ORDERS
        print(f"files of {templates} evaluations with {rows:,} predictions: {seconds:.1f} s, {rows / seconds:,.0f} /s")
        print(f"listing all: {median(lambda: queries.files.write('public'), 1):.1f} s", flush=True)
        measure(queries, options.repeats)
        together(queries, options.visitors, options.repeats)
        one_more(engine, queries, source)
        with read_session(engine) as session:
            print(f"{len(session.scalars(select(Evaluation.id)).all()):,} evaluations")
        engine.dispose()


if __name__ == "__main__":
    main()
