"""A visitor's own board, which is computed from a selection like a board of the same selection."""

import random
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from bench.bench_small_tasks import column_of
from registry.boards.definition import BoardDefinition, SuiteDefinition, parse_column
from registry.boards.reading import snapshot_as_of
from registry.boards.selected import build_selection, models_of, narrow_board, values_of
from registry.boards.snapshots import refresh_boards, snapshot_document
from registry.boards.standings import standings_over
from registry.boards.store import board_definition, import_board, import_suite
from registry.db import read_session, write_session
from registry.digests import sha256_text
from registry.errors import UsageError
from registry.revisions.store import RevisionRequest, add_revision
from registry.tables import BoardSnapshot, Model, ModelRevision
from tests.boards.outputs import import_all
from tests.conftest import FilledDatabases
from tests.outputs.conftest import Registry, four_options

pytestmark = pytest.mark.one_engine

TASKS = ("first", "second", "third")
COLUMNS = (
    "accuracy@cyclic",
    "worst_accuracy@cyclic",
    "fluctuation_rate@cyclic",
    "pct_drop@cyclic",
    "right_twice_across_orders@cyclic",
)
MODELS = {
    f"m{number}": {
        "family": f"family-{number % 3}",
        "parameters": (number + 1) * 10**9 if number % 4 else None,
        "licence": (None, "MIT", "proprietary")[number % 3],
        "released": f"2025-0{1 + number}-15" if number < 7 else None,
    }
    for number in range(9)
}


def fill_board(engine: Engine, folder: Path) -> None:
    registry = Registry(engine.url.render_as_string(hide_password=False), folder)
    for number, task in enumerate(TASKS):
        questions = four_options(36 + 4 * number)
        registry.benchmark(task, questions)
        for place, (model, described) in enumerate(MODELS.items()):
            with write_session(engine) as session:
                add_revision(session, model, RevisionRequest("external"), described)
            if (model, task) != ("m8", "third"):
                how: dict[str, Any] = {"skill": 0.95 - 0.08 * place, "liking": 0.2 + 0.1 * place, "seed": place}
                import_all(registry, model, task, questions, ["cyclic"], **how)
    suite = SuiteDefinition.model_validate(
        {"name": "three", "variants": ["cyclic"], "tasks": [{"benchmark": task} for task in TASKS]}
    )
    with write_session(engine) as session:
        import_suite(session, suite)
        import_board(session, BoardDefinition(name="main", suite="three", columns=COLUMNS))
    refresh_boards(engine)


@pytest.fixture
def board(filled_databases: FilledDatabases, tmp_path: Path) -> Iterator[Engine]:
    """Yield nine models on three tasks; one model lacks the last task."""
    with filled_databases.copy(fill_board, tmp_path) as (url, _):
        yield Registry(url, tmp_path).engine


def drawn(seed: int) -> dict[str, Any]:
    """Return a random selection."""
    draw = random.Random(seed)
    weights = {task: draw.choice((0, 1, 1, 2, 3)) for task in TASKS}
    weights[draw.choice(TASKS)] = draw.choice((1, 2))
    columns = draw.sample(COLUMNS, draw.randint(1, 3))
    conditions: dict[str, Any] = {
        "names": draw.sample(sorted(MODELS), draw.randint(2, 9)),
        "families": ["family-0", "family-1"],
        "parameters_from": 3 * 10**9,
        "parameters_to": 6 * 10**9,
        "released_from": "2025-02-01",
        "released_to": "2025-05-15",
        "openness": draw.choice(("open", "closed")),
    }
    models = {key: conditions[key] for key in draw.sample(sorted(conditions), draw.randint(0, 2))}
    return {"weights": weights, "columns": columns, "models": models, "sort": columns[-1]}


def select(session: Session, snapshot: BoardSnapshot, choice: dict[str, Any]) -> dict[str, Any]:
    definition = narrow_board(board_definition(snapshot.board), choice, "own")
    return build_selection(
        snapshot,
        definition,
        models_of(session, snapshot),
        lambda task, column: values_of(session, snapshot, task, column),
    )


def assert_equal_to_boards(engine: Engine, seeds: range) -> None:
    outcomes = set()
    for seed in seeds:
        choice = drawn(seed)
        with read_session(engine) as session:
            selected = select(session, snapshot_as_of(session, "main"), choice)
        with write_session(engine) as session:
            definition = narrow_board(BoardDefinition(name="main", suite="three", columns=COLUMNS), choice, "own")
            expected = snapshot_document(session, import_board(session, definition)[0])
        for key in ("rows", "together", "columns", "entries", "sort"):
            assert selected[key] == expected[key], (seed, key)
        outcomes.add(str([row["values"] for row in selected["rows"]]))
    assert len(outcomes) > len(seeds) / 2


def test_a_selection_has_the_ranks_of_a_board_made_of_it(board: Engine) -> None:
    assert_equal_to_boards(board, range(12))


@pytest.mark.long
def test_a_hundred_selections_have_the_ranks_of_boards_made_of_them(board: Engine) -> None:
    assert_equal_to_boards(board, range(12, 112))


def test_a_selections_digest_covers_its_text_and_snapshot(board: Engine) -> None:
    with read_session(board) as session:
        snapshot = snapshot_as_of(session, "main")
        definition = narrow_board(board_definition(snapshot.board), drawn(0), "own")
        document = build_selection(
            snapshot, definition, models_of(session, snapshot), partial(values_of, session, snapshot)
        )
    assert document["digest"] == sha256_text(document["selection"])
    assert snapshot.digest in document["selection"]


def test_models_are_compared_in_the_columns_that_are_asked_for(board: Engine) -> None:
    with read_session(board) as session:
        snapshot = snapshot_as_of(session, "main")
        definition = narrow_board(board_definition(snapshot.board), {}, "own")
        arguments = snapshot, definition, models_of(session, snapshot), cache(partial(values_of, session, snapshot))
        every, one = build_selection(*arguments), build_selection(*arguments, ("accuracy@cyclic",))
    assert one["together"] == {}
    assert (one["unranked"], one["digest"]) == (every["unranked"], every["digest"])
    for actual, expected in zip(one["rows"], every["rows"], strict=True):
        for key in ("value", "n", "interval", "rank", "all_rank_interval"):
            assert actual["values"]["accuracy@cyclic"][key] == expected["values"]["accuracy@cyclic"][key]
        for name in COLUMNS[1:]:
            for key in ("value", "n", "interval", "rank"):
                assert actual["values"][name][key] == expected["values"][name][key]
            assert actual["values"][name]["all_rank_interval"] is None


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"weights": dict.fromkeys(TASKS, 0)}, "no task is left"),
        ({"weights": {"fourth": 2}}, "has no task 'fourth'; it has: first, second, third"),
        ({"weights": {"first": -1}}, "greater than or equal to 0"),
        ({"columns": ["accuracy@full"]}, "the suite has no variants 'full'"),
        ({"columns": ["luck@cyclic"]}, "no metric 'luck'"),
        (
            {"models": {"released_from": "2025-02-30"}},
            "models.released_from='2025-02-30': a release date .* give a day",
        ),
    ],
)
def test_a_selection_that_is_none_is_refused(board: Engine, choice: dict[str, Any], message: str) -> None:
    with read_session(board) as session, pytest.raises(UsageError, match=message):
        select(session, snapshot_as_of(session, "main"), choice)


def test_the_day_of_a_models_release_is_a_day(board: Engine) -> None:
    described = {"released": "2025-02-30"}
    with write_session(board) as session, pytest.raises(UsageError, match="give a day, YYYY-MM-DD"):
        add_revision(session, "m0", RevisionRequest("external"), described)


@pytest.mark.parametrize("metric", ["accuracy", "average_accuracy"])
def test_columns_that_ranked_other_selections_rank_as_new_ones(metric):
    column, revision = parse_column(f"{metric}@cyclic"), ModelRevision(number=1, model=Model(name="model"))

    def columns():
        generator = np.random.default_rng(3)
        right = np.linspace(0.3, 0.8, 6)
        return [
            column_of(generator.binomial(levels, right, (size, 6)) / levels, size, f"task-{size}", metric)
            for size, levels in zip(
                (40, 60, 12, 31), (1, 1, 1, 1) if metric == "accuracy" else (4, 4, 4, 4), strict=True
            )
        ]

    def rank(tasks, chosen, weights, rows):
        by_task = [{column.name: tasks[place]} for place in chosen]
        placed, together = standings_over([column], [(row, revision, True) for row in rows], by_task, weights)
        return [one[column.name].document() for one in placed], together[column.name].document()

    used = columns()
    for chosen, weights, rows in (
        ((0, 1, 2, 3), None, range(6)),
        ((0, 1, 2, 3), [1, 3, 1, 1], range(6)),
        ((0, 1, 3), [2, 1, 5], range(6)),
        ((0, 1, 3), [2, 1, 5], (0, 2, 3, 5)),
        ((0, 1, 2, 3), [1, 3, 1, 1], (0, 2, 3, 5)),
        ((0,), None, (1, 2)),
    ):
        assert rank(used, chosen, weights, rows) == rank(columns(), chosen, weights, rows)
