"""What archiving makes of a registry on PostgreSQL: `python -m tests.bench.bench_archives [OPTIONS]`.

A throw-away server is filled through the registry's own functions (tests/bench/generate_predictions.py), with
evaluations that the registry seals, until there are so many predictions; then all are archived, and one is restored.
Printed are bytes per prediction in the database before and after and in Parquet, by column too, how long each step takes,
and how long the question page and the explorer take of an evaluation before and after.

Predictions are what scoring makes of made-up log-probabilities; with --foreign their other numbers and the digests of
their prompts are made up too, so that none can be computed again.

Options: --predictions 1000000  --share 1.0 (of the benchmarks' sizes)  --requests 10  --verify (each evaluation after)
--foreign
"""

import argparse
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from registry.db import get_engine, read_session, write_session
from registry.operations.archiving import Shared, archive, restore
from registry.operations.migrate import upgrade
from registry.proof.manifest import compute_seal
from registry.proof.seal import seal
from registry.settings import Settings
from registry.tables import Evaluation, EvaluationQuestion
from registry.verification.derived import check_scores
from registry.verification.findings import Findings
from tests.bench.bench_db import BenchServer, Imported, import_one, sizes
from tests.bench.generate_predictions import Scored, Source
from tests.services import postgres_execute
from web import create_app

MIB = 2**20


def pages(engine: Engine, evaluation_id: int, requests: int) -> dict[str, tuple[float, float]]:
    """Median milliseconds of an evaluation's pages, of the wall and of this process's CPU, without a network."""
    with read_session(engine) as session:
        asked = select(EvaluationQuestion.question_id).filter_by(evaluation_id=evaluation_id)
        ids = session.scalars(asked.order_by(EvaluationQuestion.question_id)).all()
    url = engine.url.render_as_string(hide_password=False)
    client = create_app(Settings(database_url=url, rate_limits=False)).test_client()
    found = {}
    for name, address in {
        "question page": f"/evaluations/{evaluation_id}/questions/{{}}",
        "explorer": f"/evaluations/{evaluation_id}?page={{}}",
    }.items():
        seconds, cpu = [], []
        for number in range(requests + 1):
            place = ids[(number * 37) % len(ids)] if name == "question page" else 1 + number
            started, computed = time.perf_counter(), time.process_time()
            response = client.get(address.format(place))
            seconds.append(time.perf_counter() - started)
            cpu.append(time.process_time() - computed)
            assert response.status_code == 200, (address, response.status_code)
        # The first request compiles templates and statements.
        found[name] = (1000 * statistics.median(seconds[1:]), 1000 * statistics.median(cpu[1:]))
    return found


def vacuum(engine: Engine) -> None:
    """Gives the room of removed rows back, so that sizes are of what is stored."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM FULL prediction"))
        connection.execute(text("VACUUM ANALYZE"))


def hot(engine: Engine) -> tuple[int, int]:
    """Bytes of the table of predictions with its indexes, and of the database."""
    total, tables = sizes(engine)
    own = [table for table in tables if table["name"] == "prediction"]
    return sum(int(table["rows"] + table["indexes"]) for table in own), total


def run(
    url: str,
    folder: Path,
    predictions: int,
    share: float,
    requests: int,
    report: Callable[[str], None],
    *,
    verify: bool,
    foreign: bool,
) -> float:
    """Fills, archives and measures; returns bytes per prediction in Parquet."""
    engine = get_engine(url)
    with write_session(engine) as session:
        source = (Source if foreign else Scored)(session, folder, share)
    made: list[tuple[int, int]] = []
    for number, kind in source.plan():
        if sum(size for _, size in made) >= predictions:
            break
        evaluation_id = import_one(engine, source, number, kind, Imported())
        with write_session(engine) as session:
            seal(session, evaluation_id)
        made.append((evaluation_id, kind.predictions))
    stored = sum(size for _, size in made)
    largest = max(made, key=lambda one: one[1])[0]
    vacuum(engine)
    before, whole = hot(engine)
    report(f"{stored:,} predictions of {len(made)} evaluations, load of the machine {os.getloadavg()[0]:.1f}")
    report(f"hot: {before / stored:.0f} bytes per prediction, {before / MIB:,.0f} of {whole / MIB:,.0f} MiB")
    times = {"hot": pages(engine, largest, requests)}
    started, written, columns = time.perf_counter(), 0, Counter[str]()
    target, shared = folder / "archives", Shared()
    for evaluation_id, _ in made:
        moved = archive(engine, evaluation_id, str(target), shared)
        assert moved is not None
        written += moved.size or 0
    report(
        f"archived: {stored / (time.perf_counter() - started):,.0f} predictions/s, {written / stored:.1f} bytes each"
    )
    for path in target.glob("*.parquet"):
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                for place in range(group.num_columns):
                    columns[group.column(place).path_in_schema] += group.column(place).total_compressed_size
    for name, size in columns.most_common(12):
        report(f"  {name:40} {size / stored:6.2f}")
    vacuum(engine)
    after, whole = hot(engine)
    report(f"hot table afterwards: {after / MIB:,.2f} MiB of {whole / MIB:,.0f} MiB")
    times["archived"] = pages(engine, largest, requests)
    for name in times["hot"]:
        for where in ("hot", "archived"):
            wall, cpu = times[where][name]
            report(f"{name}, {where}: {wall:.0f} ms, CPU {cpu:.0f} ms")
    for evaluation_id, size in made if verify else ():
        started = time.perf_counter()
        with Session(engine) as session:
            found = Findings()
            check_scores(session, evaluation_id, found)
            sealed = session.get_one(Evaluation, evaluation_id)
            same = compute_seal(session, sealed) == sealed.seal and not found.problems
        report(
            f"{size:,} predictions: seal and scores {'as sealed' if same else 'differ'}, {time.perf_counter() - started:.1f} s"
        )
    started = time.perf_counter()
    restored = restore(engine, largest)
    assert restored is not None
    report(f"restored: {restored.predictions / (time.perf_counter() - started):,.0f} predictions/s")
    engine.dispose()
    return written / stored


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=int, default=1_000_000)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--requests", type=int, default=10)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--foreign", action="store_true")
    options = parser.parse_args(arguments)

    def report(line: str) -> None:
        print(line, flush=True)

    os.environ.setdefault("TMPDIR", tempfile.gettempdir())
    with BenchServer(watched=False) as server, tempfile.TemporaryDirectory() as name:
        postgres_execute(server.url, "CREATE DATABASE bench TEMPLATE template0")
        url = server.database_url("bench")
        upgrade(url)
        run(
            url,
            Path(name),
            options.predictions,
            options.share,
            options.requests,
            report,
            verify=options.verify,
            foreign=options.foreign,
        )


if __name__ == "__main__":
    main()
