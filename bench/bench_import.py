"""Imports recorded answers into SQLite and PostgreSQL: `python -m bench.bench_import [OPTIONS]`.

Two files: a table of the letters with which 26 models answered 12,032 questions of ten options, and a million lines
with probabilities, the answers of one model in every order. They are generated from a seed; --table and --benchmark
name real ones.

Reading and storing (checks, rows, question scores) is reported separately from sealing (metrics, intervals, digests).
Seconds are CPU time of the importer and the server, which other work on the machine affects less than wall time.

Options: --lines 1000000  --models 26  --questions 12032  --table FILE --benchmark FILE  --engines sqlite,postgresql
         --only table | lines
"""

import argparse
import json
import multiprocessing
import random
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Final

from sqlalchemy import text

from bench.bench_db import Spent, backends, cpu_seconds
from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, read_session, write_session
from registry.logs.imports.importer import ImportRequest, import_columns, import_outputs
from registry.operations.migrate import upgrade
from registry.prompting.labels import LETTERS
from registry.revisions.store import RevisionRequest, add_revision
from tests.support.population import question, write_lines
from tests.support.services import postgres, postgres_execute

ORDERS: Final = list(permutations(range(4)))
SUBJECTS: Final = 14


@dataclass(frozen=True)
class Given:
    """Files to be imported.

    table: whether the outputs are a table of letters, or else lines of one model under `full`.
    """

    name: str
    benchmark: Path
    outputs: Path
    table: bool


@dataclass(frozen=True)
class Measured:
    """The measurements of an import.

    predictions: number stored. storing: time for reading and storing. peak_mb: peak memory of the importer. size: size
    of the database in bytes.
    """

    predictions: int
    storing: Spent
    sealing: Spent
    peak_mb: float
    size: int


def make_table(folder: Path, questions: int, models: int) -> Given:
    """Write a file with the answer letters of models that are right more often than not."""
    rng = random.Random(0)
    lines = [question(number, subject=f"subject {number % SUBJECTS}", options=10) for number in range(questions)]
    outputs = folder / "letters.csv"
    with outputs.open("w", encoding="utf-8") as stream:
        print("question_id", *(f"model-{number}" for number in range(models)), sep=",", file=stream)
        for line in lines:
            chosen = (line["answer"] if rng.random() < 0.5 else rng.randrange(10) for _ in range(models))
            print(line["id"], *(LETTERS[place] for place in chosen), sep=",", file=stream)
    return Given(f"letters of {models} models", write_lines(folder / "table.jsonl", lines), outputs, table=True)


def make_lines(folder: Path, lines: int) -> Given:
    """Write a file with the probabilities of one model for all orders of four-option questions."""
    rng = random.Random(0)
    questions = [question(number, subject=f"subject {number % 57}") for number in range(lines // len(ORDERS))]
    outputs = folder / "outputs.jsonl"
    with outputs.open("w", encoding="utf-8") as stream:
        for item in questions:
            for variant, order in enumerate(ORDERS):
                weights = [rng.random() for _ in order]
                record = {"question_id": item["id"], "variant": variant, "order": order, "probabilities": weights}
                print(json.dumps(record), file=stream)
    return Given("lines of one model", write_lines(folder / "lines.jsonl", questions), outputs, table=False)


def measure(url: str, given: Given) -> Measured:
    """Import the files into an empty database, in this process, and measure it."""
    upgrade(url)
    engine = get_engine(url)
    with write_session(engine) as session:
        import_benchmark(session, read_benchmark(given.benchmark), name="b")
        add_revision(session, "m", RevisionRequest("external"))

    def now() -> Spent:
        server = backends(engine) if engine.dialect.name == "postgresql" else []
        return Spent(time.perf_counter(), time.process_time(), cpu_seconds(server))

    begun, stored = now(), None

    def report(what: str, _done: int, _total: int | None) -> None:
        nonlocal stored
        if what == "sealing" and stored is None:
            stored = now()

    if given.table:
        import_columns(engine, given.outputs, benchmark="b", report=report)
    else:
        import_outputs(engine, ImportRequest(given.outputs, "m", "b", "full"), report=report)
    ended = now()
    assert stored is not None
    with read_session(engine) as session:
        predictions = session.scalar(text("SELECT count(*) FROM prediction")) or 0
        size = "page_count * page_size FROM pragma_page_count, pragma_page_size"
        if engine.dialect.name == "postgresql":
            size = "pg_database_size(current_database())"
        bytes_ = session.scalar(text(f"SELECT {size}")) or 0
    engine.dispose()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(predictions, stored - begun, ended - stored, peak_mb, bytes_)


@contextmanager
def databases(
    engines: Sequence[str], files: Sequence[Given], folder: Path
) -> Iterator[Iterator[tuple[str, str, Given]]]:
    """Yield (engine, URL of an empty database, file to import) for each engine and file."""

    def sqlite() -> Iterator[tuple[str, str, Given]]:
        for number, file in enumerate(files):
            yield "SQLite", f"sqlite:///{folder}/{number}.db", file

    if "postgresql" not in engines:
        yield sqlite()
        return
    with postgres() as server:

        def both() -> Iterator[tuple[str, str, Given]]:
            yield from sqlite() if "sqlite" in engines else ()
            for number, file in enumerate(files):
                postgres_execute(server.database_url("postgres"), f"CREATE DATABASE bench{number}")
                yield "PostgreSQL", server.database_url(f"bench{number}"), file

        yield both()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--models", type=int, default=26)
    parser.add_argument("--questions", type=int, default=12_032)
    parser.add_argument("--table", type=Path, help="a real table of letters, and with --benchmark its questions")
    parser.add_argument("--benchmark", type=Path)
    parser.add_argument("--engines", default="sqlite,postgresql")
    parser.add_argument("--only", choices=("table", "lines"))
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder, files = Path(name), []
        if options.only != "lines":
            real = options.table and Given(options.table.name, options.benchmark, options.table, table=True)
            files.append(real or make_table(folder, options.questions, options.models))
        if options.only != "table":
            files.append(make_lines(folder, options.lines))
        print(
            "| database | import of | predictions | reading and storing, s of CPU (the server's) | predictions/s of CPU "
            "| sealing, s of CPU (the server's) | by the clock, s | peak MiB | bytes per prediction |\n"
            + "|---" * 9
            + "|"
        )
        with databases(options.engines.split(","), files, folder) as cases:
            for engine, url, file in cases:
                # A separate process, so that the peak of memory belongs to one import.
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    measured = pool.apply(measure, (url, file))
                storing, sealing = measured.storing, measured.sealing
                print(
                    f"| {engine} | {file.name} | {measured.predictions:,} | {storing.cpu:.1f} ({storing.server:.1f}) "
                    f"| {measured.predictions / storing.cpu:,.0f} | {sealing.cpu:.1f} ({sealing.server:.1f}) "
                    f"| {storing.wall:.1f} + {sealing.wall:.1f} | {measured.peak_mb:.0f} "
                    f"| {measured.size / measured.predictions:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
