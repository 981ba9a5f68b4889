"""Measures archiving: `python -m bench.bench_archives [OPTIONS]`.

A temporary database is filled through the registry's own functions (bench/generate_predictions.py) with evaluations
that the registry seals, up to the wanted number of predictions; then all are archived, and all are restored. The output
is bytes per prediction in the database before and after and in Parquet, also by column, and the time of each step.

Predictions are computed by scoring from made-up log-probabilities; with --foreign their other numbers and the digests
of their prompts are made up too, so that none can be recomputed.

Options: --predictions 1000000  --share 1.0 (of the benchmarks' sizes)  --foreign
         --sqlite (a file, in place of a PostgreSQL server)  --s3 (a server of that protocol, in place of a folder)
         --verify (compare every seal with the predictions before, after, and when all are restored)
"""

import argparse
import os
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from bench.bench_db import BenchServer
from bench.generate_predictions import Kind, Scored, Source, store
from registry.db import get_engine, write_session
from registry.files.stores import store_at
from registry.operations.migrate import upgrade
from registry.operations.sizes import sizes
from registry.predictions.archive_files import PREDICTIONS
from registry.predictions.bulk import renew_statistics
from registry.scores.question_scores import write_question_scores
from registry.sealed.archiving import Shared, archive, restore, write
from registry.sealed.folder import FILES
from registry.sealed.manifest import compute_seal
from registry.sealed.seal import seal
from registry.tables import Evaluation
from tests.support.services import S3Server, postgres_execute

MIB = 2**20


def vacuum(engine: Engine) -> None:
    """Free the space of removed rows, so that sizes include stored rows only."""
    if engine.dialect.name == "sqlite":
        assert engine.url.database is not None
        with closing(sqlite3.connect(engine.url.database, isolation_level=None)) as file:
            file.execute("VACUUM")
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM FULL prediction"))
        connection.execute(text("VACUUM ANALYZE"))


def hot(engine: Engine) -> tuple[int, int]:
    """Return the size of the table of predictions with its indexes, and that of the database, in bytes."""
    usage = sizes(engine, 0)
    return sum(table.total for table in usage.tables if table.table == "prediction"), usage.database


@contextmanager
def time_step(what: str, predictions: int, report: Callable[[str], None]) -> Iterator[list[float]]:
    """Report predictions per second, by wall time and by this process's CPU time. Yields the list for the seconds."""
    started, computed, took = time.perf_counter(), time.process_time(), list[float]()
    yield took
    seconds, cpu = time.perf_counter() - started, time.process_time() - computed
    took.append(seconds)
    load = f"load of the machine {os.getloadavg()[0]:.1f}"
    report(f"{what}: {predictions / seconds:,.0f} predictions/s, {predictions / cpu:,.0f} in a second of CPU; {load}")


def fill(engine: Engine, source: Source, number: int, kind: Kind) -> tuple[int, float]:
    """Store the predictions of an evaluation and seal it; return its id, and the seconds that sealing took."""
    with write_session(engine) as session:
        evaluation_id = source.add(session, number, kind)
        store(session, source.rows(number, kind, evaluation_id))
        renew_statistics(session, kind.predictions)
        write_question_scores(session, evaluation_id)
    began = time.perf_counter()
    with write_session(engine) as session:
        seal(session, evaluation_id)
    return evaluation_id, time.perf_counter() - began


def unlike(engine: Engine, ids: Sequence[int]) -> list[int]:
    """Return the evaluations whose seal differs from the seal of their stored predictions."""
    differing = []
    for evaluation_id in ids:
        with Session(engine) as session:
            evaluation = session.get_one(Evaluation, evaluation_id)
            if compute_seal(session, evaluation) != evaluation.seal:
                differing.append(evaluation_id)
    return differing


@contextmanager
def in_s3(folder: Path) -> Iterator[str]:
    """Yield the URL of a bucket on a temporary server, with settings that point to it."""
    with S3Server("results") as server:
        os.environ["SHUFFLEBOARD_ARCHIVES_ENDPOINT"] = server.url
        os.environ["SHUFFLEBOARD_ARCHIVES_REGION"] = "eu-central-1"
        for name, key in (("ACCESS_KEY", server.ACCESS_KEY), ("SECRET_KEY", server.SECRET_KEY)):
            (folder / name).write_text(f"{key}\n", encoding="utf-8")
            os.environ[f"SHUFFLEBOARD_ARCHIVES_{name}_FILE"] = str(folder / name)
        yield "s3://results"


def run(
    url: str,
    folder: Path,
    target: str,
    predictions: int,
    share: float,
    report: Callable[[str], None],
    *,
    verify: bool,
    foreign: bool,
) -> float:
    """Fill, write files, archive, restore and measure; return bytes per prediction in Parquet.

    target: where the files are stored.
    """
    engine = get_engine(url)
    with write_session(engine) as session:
        source = (Source if foreign else Scored)(session, folder, share)
    predictions_of: dict[int, int] = {}
    started, sealing = time.perf_counter(), 0.0
    for number, kind in source.plan():
        if sum(predictions_of.values()) >= predictions:
            break
        evaluation_id, seconds = fill(engine, source, number, kind)
        predictions_of[evaluation_id] = kind.predictions
        sealing += seconds
    stored, ids = sum(predictions_of.values()), list(predictions_of)

    def check(when: str) -> None:
        if verify:
            began, wrong = time.perf_counter(), unlike(engine, ids)
            verified = f"{len(ids) - len(wrong)} of {len(ids)} seals are those of the predictions"
            report(f"{when}: {verified}; {stored / (time.perf_counter() - began):,.0f} predictions/s")

    report(
        f"{stored:,} predictions of {len(ids)} evaluations stored and sealed in {time.perf_counter() - started:,.0f} s"
    )
    vacuum(engine)
    before, database_bytes = hot(engine)
    report(f"hot: {before / stored:.0f} bytes per prediction, {before / MIB:,.0f} of {database_bytes / MIB:,.0f} MiB")
    check("before")
    shared = Shared()
    with time_step("files written", stored, report) as took:
        written = sum(write(engine, evaluation_id, target, shared).size for evaluation_id in ids)
    report(
        f"{written / stored:.1f} bytes each; sealing took {sealing:.1f} s, and its files {took[0] / sealing:.0%} more"
    )
    with time_step("archived", stored, report):
        for evaluation_id in ids:
            assert archive(engine, evaluation_id, target) is not None
    for name, size in measure_columns(target).most_common(18):
        report(f"  {name:40} {size / stored:6.2f}")
    vacuum(engine)
    after, database_bytes = hot(engine)
    report(f"hot table afterwards: {after / MIB:,.2f} MiB of {database_bytes / MIB:,.0f} MiB")
    check("archived")
    with time_step("restored", stored, report):
        for evaluation_id in ids:
            assert restore(engine, evaluation_id) is not None
    check("restored")
    engine.dispose()
    return written / stored


def measure_columns(target: str) -> Counter[str]:
    """Return the total bytes of each column in a store's predictions, and of each other file."""
    columns, place = Counter[str](), store_at(target)
    for name in place.folders():
        for file in FILES:
            columns[file] += place.size(f"{name}/{file}") or 0
        with place.reading(f"{name}/{PREDICTIONS}") as stream:
            metadata = pq.read_metadata(stream)
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                columns[column.path_in_schema] += column.total_compressed_size
    return columns


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=1.0)
    for flag in ("--sqlite", "--s3", "--verify", "--foreign"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args(arguments)

    def report(line: str) -> None:
        print(line, flush=True)

    os.environ.setdefault("TMPDIR", tempfile.gettempdir())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if options.sqlite:
            url = f"sqlite:///{folder / 'registry.db'}"
        else:
            server = stack.enter_context(BenchServer(watched=False))
            postgres_execute(server.url, "CREATE DATABASE bench TEMPLATE template0")
            url = server.database_url("bench")
        upgrade(url)
        target = stack.enter_context(in_s3(folder)) if options.s3 else str(folder / "archives")
        how = {"verify": options.verify, "foreign": options.foreign}
        run(url, folder, target, options.predictions, options.share, report, **how)


if __name__ == "__main__":
    main()
