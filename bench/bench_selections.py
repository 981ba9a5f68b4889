"""Compares visitors' selections with boards of the same definition: `python -m bench.bench_selections [OPTIONS]`.

The registry is generated, with 571 models and 17 benchmarks of 40 questions, unless --url names one. Selections are
drawn at random, one for each seed: tasks, weights, columns, and models by name, family, developer, licence, openness,
size and date. Each is computed as on the website's page, where models are compared in the ranking column; with all
columns compared, as in the API; and as a board with the same definition (--boards). Every difference of values,
intervals, ranks and tiers is printed, with the CPU time of the selections.

Run it with OPENBLAS_NUM_THREADS=1, as `shuffleboard serve` does.

Options: --url URL  --first 0  --last 100  --boards
"""

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any, Final, NamedTuple
from unittest import mock

from sqlalchemy.orm import Session

from bench.bench_web import BOARD, TASKS, fill_database
from bench.generate_registry import Size
from registry.boards import standings
from registry.boards.definition import Column
from registry.boards.reading import snapshot_as_of
from registry.boards.selected import MOST_VALUES, build_selection, models_of, narrow_board, values_of
from registry.boards.snapshots import snapshot_document
from registry.boards.standings import TaskColumn
from registry.boards.store import board_definition, import_board
from registry.db import get_engine, read_session, write_session
from registry.tables import BoardSnapshot

COLUMNS: Final = (
    "accuracy@cyclic",
    "worst_accuracy@cyclic",
    "average_accuracy@cyclic",
    "fluctuation_rate@cyclic",
    "pct_drop@cyclic",
    "right_twice_across_orders@cyclic",
)


class Selection(NamedTuple):
    """A seed's choice, its document, and milliseconds of CPU: with one column compared, and with all columns."""

    seed: int
    choice: dict[str, Any]
    document: dict[str, Any]
    page: float
    every: float


def draw(seed: int, models: int) -> dict[str, Any]:
    """Return a random selection."""
    draw = random.Random(seed)
    weights = {f"benchmark-{number:03}": draw.choice((0, 1, 1, 2, 3)) for number in range(TASKS)}
    weights[f"benchmark-{draw.randrange(TASKS):03}"] = draw.choice((1, 2))
    tasks = sum(weight > 0 for weight in weights.values())
    columns = draw.sample(COLUMNS, 2 if models * tasks * 2 <= MOST_VALUES else 1)
    conditions: dict[str, Any] = {
        "names": [f"model-{number:03}" for number in draw.sample(range(models), draw.randint(2, 60))],
        "families": [f"family-{number}" for number in draw.sample(range(20), draw.randint(1, 10))],
        "developers": [f"developer-{number}" for number in draw.sample(range(7), draw.randint(1, 4))],
        "licences": draw.sample(("apache-2.0", "mit", "proprietary"), 2),
        "openness": draw.choice(("open", "closed")),
        "parameters_from": draw.randint(1, 20) * 10**9,
        "parameters_to": draw.randint(20, 60) * 10**9,
        "released_from": f"2024-0{draw.randint(1, 9)}-01",
        "released_to": f"2025-0{draw.randint(1, 7)}-15",
    }
    names = draw.sample(sorted(conditions), draw.choice((0, 1, 1, 2)))
    return {
        "weights": weights if len(columns) > 1 else draw.choice((weights, {})),
        "columns": columns,
        "models": {key: conditions[key] for key in names},
        "sort": columns[-1],
    }


def compute(session: Session, snapshot: BoardSnapshot, seeds: Sequence[int]) -> Iterator[Selection]:
    """Yield the selection of each seed; tasks are cached."""
    models = models_of(session, snapshot)

    @cache
    def values(task: str, column: Column) -> TaskColumn:
        return values_of(session, snapshot, task, column)

    for name in COLUMNS:
        every = narrow_board(board_definition(snapshot.board), {"columns": (name,)}, "own")
        build_selection(snapshot, every, models, values)
    # A website caches a fifth of these: the garbage collector would visit all of them now and then.
    gc.freeze()
    for seed in seeds:
        choice = draw(seed, len(models.revisions))
        definition = narrow_board(board_definition(snapshot.board), choice, "own")
        spent = []
        for compared in ((definition.sort_column,), None):
            began = time.process_time()
            document = build_selection(snapshot, definition, models, values, compared)
            spent.append(1000 * (time.process_time() - began))
        yield Selection(seed, choice, document, *spent)


def read_once() -> Callable[..., Any]:
    """Return a `question_values_of_each` with a cache, since a thousand boards would read the same rows."""
    read, values_of_key = standings.question_values_of_each, dict[Any, Mapping[str, Any]]()

    def values(session: Session, ids: Sequence[int], questions: Sequence[int], names: Sequence[str]) -> Iterator[Any]:
        keys = {number: (number, tuple(questions), tuple(names)) for number in ids}
        missing = [number for number, key in keys.items() if key not in values_of_key]
        values_of_key.update({keys[number]: rows for number, rows in read(session, missing, questions, names)})
        return iter([(number, values_of_key[key]) for number, key in keys.items()])

    return values


def compare_with_boards(url: str, found: Sequence[Selection]) -> int:
    """Return how many selections differ from a board with the same definition, omitting settings that change ranks."""
    differ = 0
    engine = get_engine(url)
    with (
        mock.patch.object(standings, "question_values_of_each", read_once()),
    ):
        for seed, choice, document, *_ in found:
            with write_session(engine) as session:
                definition = narrow_board(board_definition(snapshot_as_of(session, BOARD).board), choice, "own")
                expected = snapshot_document(session, import_board(session, definition)[0])
            unequal = [
                key for key in ("rows", "together", "columns", "entries", "sort") if document[key] != expected[key]
            ]
            differ += bool(unequal)
            if unequal:
                print(f"seed {seed} differs from its board in {', '.join(unequal)}: {choice}", flush=True)
    return differ


def summary(name: str, spent: Sequence[float]) -> str:
    """Return the median, 95th percentile and maximum, in milliseconds."""
    ordered = sorted(spent)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"{name}: {statistics.median(ordered):.0f} ms of CPU median, {p95:.0f} p95, {ordered[-1]:.0f} most"


def main() -> None:
    """Compute the selections and compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a database that bench_web filled")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=100)
    parser.add_argument("--boards", action="store_true")
    options = parser.parse_args()
    with nullcontext(options.url) if options.url else fill_database(Size(571, 17, 40)) as url:
        measure(url, range(options.first, options.last), boards=options.boards)


def measure(url: str, seeds: range, *, boards: bool) -> None:
    """Compute the selections of these seeds, and print their times."""
    with read_session(get_engine(url)) as session:
        snapshot = snapshot_as_of(session, BOARD)
        timings = list(compute(session, snapshot, seeds))
    print(f"{len(timings)} selections, seeds {seeds.start} to {seeds.stop - 1}")
    print(summary("page", [timing.page for timing in timings]))
    print(summary("all columns compared", [timing.every for timing in timings]), flush=True)
    if boards:
        print(f"{compare_with_boards(url, timings)} of {len(timings)} differ from their boards", flush=True)


if __name__ == "__main__":
    main()
