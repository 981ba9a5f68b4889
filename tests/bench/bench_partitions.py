"""What partitions of the predictions would change: `python -m tests.bench.bench_partitions [OPTIONS]`.

A throw-away PostgreSQL server gets a table of a prediction's key and of some of its other columns, undivided and in
partitions, one form after the other; each is filled evaluation by evaluation, read, and loses evaluations. Printed are
the server's CPU seconds, since nothing else is comparable on a machine that does other work, and milliseconds by the
clock where a reader waits.

Options: --rows 50000000  --evaluation 56000 (rows of each)  --forms one,range,hash-16,hash-256  --requests 41
"""

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import psycopg

from tests.bench.bench_db import BenchServer, cpu_seconds

COLUMNS: Final = (
    "evaluation_id bigint NOT NULL, question_id bigint NOT NULL, variant smallint NOT NULL, chosen_position smallint, "
    "chosen_option smallint, correct boolean NOT NULL, answer_probability double precision"
)
FILL: Final = (
    "INSERT INTO prediction SELECT evaluation, place / 24 + 1, place %% 24, place %% 4, place %% 4, place %% 4 = 0, "
    "place / 60000.0 FROM generate_series(%s::bigint, %s) evaluation, generate_series(0, %s) place"
)
TOGETHER: Final = 20
"""Evaluations in a partition by range, and in a transaction that fills the table."""
BESIDE: Final = 35
"""Evaluations that one question is looked up in, as on the question's page."""


def forms(evaluations: int) -> dict[str, list[str]]:
    """Name of a form → the statements that make the table."""

    def by_hash(count: int) -> list[str]:
        return [
            f"CREATE TABLE prediction ({COLUMNS}) PARTITION BY HASH (evaluation_id)",
            *(
                f"CREATE TABLE prediction_{number} PARTITION OF prediction "
                f"FOR VALUES WITH (MODULUS {count}, REMAINDER {number})"
                for number in range(count)
            ),
        ]

    # One more than is filled: what is imported last has a partition, too.
    first = range(1, evaluations + 2, TOGETHER)
    return {
        "one": [f"CREATE TABLE prediction ({COLUMNS})"],
        "range": [
            f"CREATE TABLE prediction ({COLUMNS}) PARTITION BY RANGE (evaluation_id)",
            *(
                f"CREATE TABLE prediction_{low} PARTITION OF prediction FOR VALUES FROM ({low}) TO ({low + TOGETHER})"
                for low in first
            ),
        ],
        "hash-16": by_hash(16),
        "hash-256": by_hash(256),
    }


class Table:
    """A connection to the table of one form, with what the server spent on it."""

    def __init__(self, connection: psycopg.Connection[tuple[int, ...]]) -> None:
        self._connection = connection
        self._pid = connection.info.backend_pid

    def run(self, statement: str, values: Sequence[int] = ()) -> list[tuple[int, ...]]:
        """Executes a statement. Its rows."""
        cursor = self._connection.execute(statement.encode(), values, prepare=False)
        return cursor.fetchall() if cursor.description else []

    @contextmanager
    def spent(self, into: dict[str, float], name: str) -> Iterator[None]:
        """Writes down the CPU seconds of the server's process for what is done inside."""
        before = cpu_seconds([self._pid])
        yield
        into[name] = cpu_seconds([self._pid]) - before

    def clocked(self, statement: str, values: Sequence[Sequence[int]]) -> float:
        """Median milliseconds by the clock of a statement over these values, after one that is not counted."""
        seconds = []
        for each in values:
            started = time.perf_counter()
            self.run(statement, each)
            seconds.append(time.perf_counter() - started)
        return 1000 * statistics.median(seconds[1:])


def measure(table: Table, made: Sequence[str], evaluations: int, rows: int, requests: int) -> dict[str, float]:
    """What one form costs: see the headings that are printed."""
    found: dict[str, float] = {}
    for statement in made:
        table.run(statement)
    table.run("ALTER TABLE prediction ADD PRIMARY KEY (evaluation_id, question_id, variant)")
    with table.spent(found, "filling, s"):
        for first in range(1, evaluations + 1, TOGETHER):
            table.run(FILL, (first, min(first + TOGETHER - 1, evaluations), rows - 1))
    with table.spent(found, "VACUUM (ANALYZE) of all, s"):
        table.run("VACUUM (ANALYZE) prediction")
    with table.spent(found, "VACUUM again, s"):
        table.run("VACUUM prediction")
    parts = "FROM pg_class WHERE relname ~ '^prediction(_[0-9]+)?$' AND relkind = 'r'"
    found["rows, GB"], found["keys, GB"] = (
        table.run(f"SELECT sum({size}(oid))::bigint {parts}")[0][0] / 1e9
        for size in ("pg_table_size", "pg_indexes_size")
    )
    # Spread over all that there is, the same for every form.
    asked = [(1 + 7919 * number % evaluations, 1 + 104729 * number % (rows // 24)) for number in range(requests)]
    found["a question of an evaluation, ms"] = table.clocked(
        "SELECT * FROM prediction WHERE evaluation_id = %s AND question_id = %s", asked
    )
    several = [
        [1 + (one + 7919 * place) % evaluations for place in range(BESIDE)] + [question] for one, question in asked
    ]
    listed = ", ".join(["%s"] * BESIDE)
    found[f"a question in {BESIDE} evaluations, ms"] = table.clocked(
        f"SELECT evaluation_id, sum(correct::int) FROM prediction WHERE evaluation_id IN ({listed}) "
        "AND question_id = %s GROUP BY evaluation_id",
        several,
    )
    found["a join with four evaluations, ms"] = table.clocked(
        "SELECT asked.id, p.* FROM (VALUES (%s::bigint), (%s), (%s), (%s)) asked (id) "
        "JOIN prediction p ON p.evaluation_id = asked.id AND p.question_id = %s",
        [[*each[:4], each[-1]] for each in several],
    )
    with table.spent(found, "an evaluation more, s"):
        table.run(FILL, (evaluations + 1, evaluations + 1, rows - 1))
    with table.spent(found, "DELETE of an evaluation, s"):
        table.run("DELETE FROM prediction WHERE evaluation_id = %s", (evaluations // 2,))
    with table.spent(found, "VACUUM after it, s"):
        table.run("VACUUM prediction")
    leaving = range(1, 1 + max(1, evaluations // 20))
    with table.spent(found, f"DELETE of {len(leaving)} evaluations, s"):
        table.run("DELETE FROM prediction WHERE evaluation_id <= %s", (leaving[-1],))
    with table.spent(found, "VACUUM after them, s"):
        table.run("VACUUM prediction")
    table.run("DROP TABLE prediction")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Fills, measures and prints one form after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--evaluation", type=int, default=56_000)
    parser.add_argument("--forms", default="one,range,hash-16,hash-256")
    parser.add_argument("--requests", type=int, default=41)
    options = parser.parse_args(arguments)
    evaluations = max(BESIDE, options.rows // options.evaluation)
    made = forms(evaluations)
    server = BenchServer()
    server.settings["autovacuum"] = "off"  # It would do at any time what is measured.
    with server:
        for form in options.forms.split(","):
            with psycopg.connect(server.url.replace("+psycopg", ""), autocommit=True) as connection:
                found = measure(Table(connection), made[form], evaluations, options.evaluation, options.requests)
            print(f"\n{form}: {evaluations} evaluations, {evaluations * options.evaluation} rows", flush=True)
            for name, value in found.items():
                print(f"  {name:42} {value:10.2f}", flush=True)


if __name__ == "__main__":
    main()
