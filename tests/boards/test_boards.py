"""Boards over suites: one row per model from several variant sets, with intervals, ranks and history."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from registry.boards import snapshots
from registry.boards.definition import (
    BoardDefinition,
    SuiteDefinition,
    canonical_variants,
    read_board_file,
    read_suite_file,
)
from registry.boards.reading import board_rows, snapshot_as_of, snapshots_of
from registry.boards.snapshots import refresh_boards, snapshot_digest
from registry.boards.store import answering, import_board, import_suite, submit_board, submit_suite
from registry.db import read_session, write_session
from registry.errors import IngestError, NotFoundError, ShuffleboardError, UsageError
from registry.leaderboard.reports import evaluation_metrics
from registry.lookups import find_suite
from registry.metrics import METRICS
from registry.queue.evaluations import EvaluationRequest, submit
from registry.scores.clusters import compute_clustered_intervals
from registry.settings import Settings
from registry.studies.score_tables import rank_scores, read_scores
from registry.tables import Board, BoardSnapshot, ChainLink, Evaluation, Suite
from tests.boards.outputs import HEADLINE, KINDS, import_all
from tests.conftest import FilledDatabases
from tests.outputs.conftest import Registry, four_options
from tests.support.fake_scorer import FakeScorer
from workers.loop import WorkerLoop

pytestmark = pytest.mark.long_on("postgresql")

FIRST = four_options(40)
SECOND = [
    {
        "id": f"s{q}",
        "subject": "one" if q % 2 else "two",
        "question": f"Is it {q}?",
        "options": list("abc"),
        "answer": q % 3,
    }
    for q in range(30)
]
BOARD = BoardDefinition(name="main", suite="robustness-core", benchmarks=("first", "second"), columns=HEADLINE)

ORDERS = SuiteDefinition.model_validate({"name": "orders", "variants": ["cyclic"], "tasks": [{"benchmark": "*"}]})


def fill(registry: Registry, models: Sequence[str] = ("strong", "weak")) -> dict[str, list[int]]:
    """Store two benchmarks, and outputs of models in the order of decreasing skill."""
    registry.benchmark("first", FIRST)
    registry.benchmark("second", SECOND)
    evaluations = {}
    for number, name in enumerate(models):
        registry.model(name)
        how = {"skill": 0.9 - 0.5 * number, "liking": 0.3 + 0.9 * number, "seed": number}
        evaluations[name] = [
            *import_all(registry, name, "first", FIRST, **how),
            *import_all(registry, name, "second", SECOND, **how),
        ]
    return evaluations


def fill_strong(engine: Engine, folder: Path) -> None:
    fill(Registry(engine.url.render_as_string(hide_password=False), folder), ["strong"])


def fill_both(engine: Engine, folder: Path) -> dict[str, list[int]]:
    return fill(Registry(engine.url.render_as_string(hide_password=False), folder))


@pytest.fixture
def strong(filled_databases: FilledDatabases, tmp_path: Path) -> Iterator[Registry]:
    """Yield the two benchmarks with outputs of the model "strong"."""
    with filled_databases.copy(fill_strong, tmp_path) as (url, _):
        yield Registry(url, tmp_path)


@pytest.fixture
def strong_and_weak(filled_databases: FilledDatabases, tmp_path: Path) -> Iterator[Registry]:
    """Yield the two benchmarks with outputs of both models."""
    with filled_databases.copy(fill_both, tmp_path) as (url, _):
        yield Registry(url, tmp_path)


def load(registry: Registry, definition: BoardDefinition = BOARD) -> Board:
    with write_session(registry.engine) as session:
        board, _ = import_board(session, definition)
    refresh_boards(registry.engine)
    return board


def rows_of(registry: Registry, name: str = "main") -> dict[str, dict[str, Any]]:
    with read_session(registry.engine) as session:
        return {row["model"]: row for row in board_rows(snapshot_as_of(session, name))}


def test_a_board_joins_five_metrics_from_three_variant_sets(
    filled_sqlite: FilledDatabases, filled_postgresql: FilledDatabases, tmp_path: Path
) -> None:
    documents = []
    for databases in (filled_sqlite, filled_postgresql):
        with databases.copy(fill_both, tmp_path) as (url, evaluations):
            registry = Registry(url, tmp_path)
            load(registry)
            rows = rows_of(registry)
            assert list(rows) == ["strong", "weak"]
            for name, row in rows.items():
                assert row["complete"]
                with read_session(registry.engine) as session:
                    metrics = [evaluation_metrics(session, number)["metrics"] for number in evaluations[name]]
                for column in HEADLINE:
                    metric, kind = column.split("@")
                    of_kind = [metrics[place][metric] for place in (KINDS.index(kind), 3 + KINDS.index(kind))]
                    value = row["values"][column]
                    assert value["value"] == pytest.approx(sum(of_kind) / 2, abs=1e-9)
                    assert value["n"] == 70
                    low, high = value["interval"]
                    assert low < value["value"] < high
                    assert value["rank_interval"][0] <= value["rank"] <= value["rank_interval"][1]
            for column in HEADLINE:
                assert [rows[name]["values"][column]["rank"] for name in rows] == [1, 2]
                assert [rows[name]["values"][column]["tier"] for name in rows] == [1, 2]
            with read_session(registry.engine) as session:
                snapshot = snapshot_as_of(session, "main")
                assert snapshot.digest == snapshot_digest(snapshot.document)
                documents.append(snapshot.digest)
    assert documents[0] == documents[1]


@pytest.mark.one_engine
def test_models_that_cannot_be_told_apart_share_a_tier(registry: Registry) -> None:
    registry.benchmark("first", FIRST)
    for name, seed in (("one", 1), ("two", 2)):
        registry.model(name)
        import_all(registry, name, "first", FIRST, ["cyclic"], skill=0.6, liking=0.5, seed=seed)
    with write_session(registry.engine) as session:
        import_suite(session, ORDERS)
    column = "average_accuracy@cyclic"
    load(registry, BoardDefinition(name="other", suite="orders", benchmarks=("first",), columns=(column,)))
    values = [row["values"][column] for row in rows_of(registry, "other").values()]
    assert [value["tier"] for value in values] == [1, 1]
    assert [value["rank_interval"] for value in values] == [[1, 2], [1, 2]]


@pytest.mark.one_engine
def test_a_table_of_the_same_scores_has_the_ranks_of_a_board(registry: Registry) -> None:
    registry.benchmark("first", FIRST)
    table = ["model,question,score"]
    for number, name in enumerate(("one", "two", "three", "four")):
        registry.model(name)
        how = {"skill": 0.9 - 0.25 * number, "liking": 0.5, "seed": number}
        (evaluation,) = import_all(registry, name, "first", FIRST, ["cyclic"], **how)
        with read_session(registry.engine) as session:
            values = evaluation_metrics(session, evaluation, per_question=True)["per_question"]
        table += [f"{name},{question['id']},{values[question['id']]['accuracy']}" for question in FIRST]
    with write_session(registry.engine) as session:
        import_suite(session, ORDERS)
    column = "accuracy@cyclic"
    load(registry, BoardDefinition(name="other", suite="orders", benchmarks=("first",), columns=(column,)))
    rows = {name: row["values"][column] for name, row in rows_of(registry, "other").items()}
    for row in rank_scores(read_scores(registry.file("scores.csv", table)))["models"]:
        on_board = rows[row["model"]]
        assert row["mean"] == pytest.approx(on_board["value"], abs=1e-12)
        # Of 2,000 resamples here; on a board of one task of the evaluation's 10,000.
        assert row["interval"] == pytest.approx(on_board["interval"], abs=0.02)
        assert (row["rank"], row["rank_interval"]) == (on_board["rank"], on_board["all_rank_interval"])
        assert row["tier"] == on_board["all_tier"]


@pytest.mark.one_engine
def test_questions_that_belong_together_are_drawn_together_for_intervals_and_ranks(registry: Registry) -> None:
    # Twenty passages of two questions each; the questions of "named" name their clusters themselves.
    passages = [question | {"context": f"Passage {number // 2}"} for number, question in enumerate(FIRST)]
    named = [
        question | {"cluster": number // 2, "context": "The same for all."} for number, question in enumerate(FIRST)
    ]
    alone = [question | {"context": "The same for all."} for question in FIRST]
    for name, questions in (("first", passages), ("named", named), ("alone", alone)):
        registry.benchmark(name, questions)
    for model, seed in (("one", 1), ("two", 2)):
        registry.model(model)
        for name in ("first", "named", "alone"):
            imported = import_all(registry, model, name, FIRST, ["cyclic"], skill=0.6, liking=0.5, seed=seed)
    with write_session(registry.engine) as session:
        import_suite(session, ORDERS)
    values = {}
    for name in ("first", "named", "alone"):
        columns = ("accuracy@cyclic", "accuracy_mean_all@cyclic")
        load(registry, BoardDefinition(name=name, suite="orders", benchmarks=(name,), columns=columns))
        values[name] = rows_of(registry, name)["one"]["values"]
    first, named_value, by_itself = (values[name]["accuracy@cyclic"] for name in ("first", "named", "alone"))
    assert first == named_value
    assert first["rank_interval"] == [1, 2]
    assert first["clusters"] == 20
    assert first["interval"] == by_itself["interval"] != first["cluster_interval"]
    with read_session(registry.engine) as session:
        of_evaluation = evaluation_metrics(session, imported[0])["intervals"]["accuracy"]
    on_board = rows_of(registry, "alone")["two"]["values"]["accuracy@cyclic"]
    assert on_board["interval"] == pytest.approx(of_evaluation, abs=1e-12)
    assert first["design_effect"] > 0
    assert "clusters" not in by_itself
    assert "clusters" not in values["first"]["accuracy_mean_all@cyclic"]
    with read_session(registry.engine) as session:
        assert compute_clustered_intervals(session, imported[0]) is None
        by_subject = compute_clustered_intervals(session, imported[0], by_subject=True)
        assert by_subject["questions"] == 40 > by_subject["clusters"]


@pytest.mark.one_engine
def test_a_model_that_lacks_a_part_shows_the_rest_unranked(strong_and_weak: Registry) -> None:
    strong_and_weak.model("partial")
    how = {"skill": 1.0, "liking": 0.0, "seed": 9}
    import_all(strong_and_weak, "partial", "first", FIRST, **how)
    import_all(strong_and_weak, "partial", "second", SECOND, kinds=("cyclic",), **how)
    load(strong_and_weak)
    row = rows_of(strong_and_weak)["partial"]
    assert not row["complete"]
    assert row["values"]["worst_accuracy@cyclic"]["value"] is not None
    assert row["values"]["cora@divergent"]["value"] is None
    assert row["values"]["npsq_accuracy@choice-only"]["value"] is None
    assert all(value["rank"] is None and value["tier"] is None for value in row["values"].values())
    assert [rows_of(strong_and_weak)[name]["values"]["accuracy@cyclic"]["rank"] for name in ("strong", "weak")] == [
        1,
        2,
    ]
    # With the rest it is ranked, without a request.
    import_all(strong_and_weak, "partial", "second", SECOND, kinds=KINDS[1:], **how)
    row = rows_of(strong_and_weak)["partial"]
    assert row["complete"]
    assert row["values"]["worst_accuracy@cyclic"]["rank"] == 1


def test_a_board_as_of_a_date_is_what_it_showed_then(strong: Registry) -> None:
    load(strong)
    with read_session(strong.engine) as session:
        before = snapshot_as_of(session, "main")
    strong.model("later")
    import_all(strong, "later", "first", FIRST, ["cyclic"], skill=0.2, liking=0.0, seed=5)
    with read_session(strong.engine) as session:
        assert {row["model"] for row in snapshot_as_of(session, "main").document["rows"]} == {"strong", "later"}
        then = snapshot_as_of(session, "main", before.as_of)
        assert then.id == before.id
        assert [row["model"] for row in then.document["rows"]] == ["strong"]
        with pytest.raises(NotFoundError, match="did not exist at that time: its first snapshot is of"):
            snapshot_as_of(session, "main", before.as_of - timedelta(days=1))
        listed = snapshots_of(session, "main")
        assert [row.id for row in listed] == sorted((row.id for row in listed), reverse=True)
        assert listed[-1].id == before.id


@pytest.mark.one_engine
def test_refreshing_twice_makes_one_snapshot(strong: Registry) -> None:
    load(strong)
    assert refresh_boards(strong.engine) == []
    with read_session(strong.engine) as session:
        assert len(session.scalars(select(BoardSnapshot)).all()) == 1


@pytest.mark.one_engine
def test_an_evaluation_of_other_questions_leaves_a_board_unchanged(strong: Registry, tmp_path: Path) -> None:
    board = load(strong)
    ready_model(strong, "asked")
    variants = canonical_variants(BOARD.parsed_columns[0].variants)
    before = links(strong)
    others = {"limit": 5}, {"limit": 39}, {"sample": 5}
    with write_session(strong.engine) as session:
        for options in others:
            submit(session, EvaluationRequest("asked", "first", variants, **options))
        assert in_progress(session, session.merge(board)) == []
    loop = WorkerLoop(strong.engine, Settings(home=tmp_path, poll_seconds=0.05), FakeScorer(), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    assert refresh_boards(strong.engine) == []
    assert links(strong) == before | {"seal": before["seal"] + len(others)}
    with write_session(strong.engine) as session:
        # The board requires all questions, however they are requested.
        evaluation, _ = submit(session, EvaluationRequest("asked", "first", variants, limit=len(FIRST)))
        assert in_progress(session, session.merge(board)) == [evaluation.id]
    loop.run(until_idle=True)
    loop.stop()
    refresh_boards(strong.engine)
    assert links(strong)["snapshot"] == before["snapshot"] + 1
    assert evaluation.id in {item["evaluation"] for item in rows_of(strong)["asked"]["evaluations"] if item is not None}


def in_progress(session: Session, board: Board) -> list[int]:
    unfinished = select(Evaluation.id).where(answering(board.entries)(), Evaluation.seal.is_(None))
    return list(session.scalars(unfinished))


def links(registry: Registry) -> Counter[str]:
    """Return the number of links of each kind except folders, which maintenance writes at any time."""
    with read_session(registry.engine) as session:
        return Counter(session.scalars(select(ChainLink.kind).where(ChainLink.kind != "folder")))


def test_a_newer_definition_of_a_metric_makes_a_snapshot(strong: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    load(strong)
    metric = METRICS["worst_accuracy"]
    newer = replace(metric, definition_version=metric.definition_version + 1)
    monkeypatch.setattr(snapshots, "METRICS", {**METRICS, "worst_accuracy": newer})
    assert refresh_boards(strong.engine) == ["main"]
    assert refresh_boards(strong.engine) == []


@pytest.mark.one_engine
def test_a_board_left_behind_by_a_killed_worker_is_found(strong: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    load(strong)
    strong.model("later")
    with monkeypatch.context() as killed:
        killed.setattr("registry.logs.imports.importer.refresh_boards", lambda _engine: [])
        import_all(strong, "later", "first", FIRST, ["cyclic"], skill=0.2, liking=0.0, seed=5)
    assert "later" not in rows_of(strong)
    assert refresh_boards(strong.engine) == ["main"]
    assert "later" in rows_of(strong)


def test_the_views_hold_the_board(strong_and_weak: Registry) -> None:
    load(strong_and_weak)
    rows = rows_of(strong_and_weak)
    with read_session(strong_and_weak.engine) as session:
        headlines = (
            session.execute(text("SELECT * FROM board_headlines ORDER BY right_twice_across_orders_rank"))
            .mappings()
            .all()
        )
        standings = session.execute(text("SELECT * FROM board_standings WHERE current")).mappings().all()
    assert [row["model"] for row in headlines] == ["strong", "weak"]
    for row in headlines:
        for column in HEADLINE:
            metric = column.split("@")[0]
            assert row[metric] == pytest.approx(rows[row["model"]]["values"][column]["value"], abs=1e-9), column
    assert len(standings) == 2 * len(HEADLINE)
    assert {row["rank"] for row in standings} == {1, 2}
    for row in standings:
        value = rows[row["model"]]["values"][row["column_name"]]
        everywhere = value["all_rank_interval"] or [None, None]
        assert [row["all_rank_low"], row["all_rank_high"], row["all_tier"]] == [*everywhere, value["all_tier"]]
    assert any(row["all_tier"] == 1 for row in standings)


def test_snapshots_and_boards_cannot_be_changed(strong: Registry) -> None:
    load(strong)
    for statement in (
        "UPDATE board_standing SET value = 1",
        "DELETE FROM board_snapshot",
        "UPDATE board SET name = 'x'",
        "UPDATE suite SET name = 'x'",
        "DELETE FROM board_entry",
        "UPDATE question_pride SET correct = NOT correct",
        "UPDATE analysis SET kind = 'x'",
    ):
        refused = pytest.raises(DBAPIError, match=r"never change|added to, never changed|added, never changed")
        with refused, write_session(strong.engine) as session:
            session.execute(text(statement))


@pytest.mark.one_engine
def test_an_evaluation_of_all_questions_serves_a_part_of_the_benchmark(strong: Registry) -> None:
    suite = SuiteDefinition.model_validate(
        {
            "name": "parts",
            "variants": ["cyclic"],
            "tasks": [
                {"name": "one", "benchmark": "second", "subjects": ["one"]},
                {"name": "joined", "benchmarks": ["first", "second"], "limit": 10},
            ],
        }
    )
    with write_session(strong.engine) as session:
        import_suite(session, suite)
    load(strong, BoardDefinition(name="parts", suite="parts", columns=("accuracy@cyclic", "accuracy_mean_all@cyclic")))
    row = rows_of(strong, "parts")["strong"]
    assert row["complete"]
    with read_session(strong.engine) as session:
        per_question = {}
        for evaluation in session.scalars(select(Evaluation)):
            if evaluation.variant_set.kind == "cyclic":
                per_question |= evaluation_metrics(session, evaluation.id, per_question=True)["per_question"]
    accuracies = [per_question[q["id"]]["accuracy"] for q in SECOND if q["subject"] == "one"]
    joined = [per_question[q["id"]]["accuracy"] for q in [*FIRST[:10], *SECOND[:10]]]
    expected = (sum(accuracies) / len(accuracies) + sum(joined) / len(joined)) / 2
    assert row["values"]["accuracy@cyclic"]["value"] == pytest.approx(expected, abs=1e-9)
    assert row["values"]["accuracy_mean_all@cyclic"]["interval"] is None
    assert row["values"]["accuracy_mean_all@cyclic"]["rank"] == 1


@pytest.mark.one_engine
def test_a_changed_board_is_a_new_version_next_to_other_boards(strong: Registry) -> None:
    first = load(strong)
    again = load(strong)
    assert (first.id, first.version) == (again.id, again.version)
    changed = load(strong, BOARD.model_copy(update={"columns": HEADLINE[:2]}))
    assert changed.version == 2
    load(strong, BOARD.model_copy(update={"name": "other"}))
    assert set(rows_of(strong)["strong"]["values"]) == set(HEADLINE[:2])
    assert set(rows_of(strong, "main@1")["strong"]["values"]) == set(HEADLINE)
    assert set(rows_of(strong, "other")["strong"]["values"]) == set(HEADLINE)


# Submitting


def ready_model(registry: Registry, name: str) -> None:
    from tests.web.seed import add_model

    with write_session(registry.engine) as session:
        add_model(session, name)


def test_a_suite_queues_what_is_missing_and_nothing_twice(registry: Registry) -> None:
    registry.benchmark("first", FIRST)
    registry.benchmark("second", SECOND)
    ready_model(registry, "asked")
    load(registry)
    with write_session(registry.engine) as session:
        evaluations = submit_suite(session, "asked", "robustness-core")
        assert [new for _, new in evaluations] == [True] * 6
        assert {(e.benchmark_version.benchmark.name, e.variant_set.kind) for e, _ in evaluations} == {
            (name, kind) for name in ("first", "second") for kind in KINDS
        }
    with write_session(registry.engine) as session:
        again = submit_suite(session, "asked", "robustness-core", ["first"])
        assert [(e.id, new) for e, new in again] == [(e.id, False) for e, _ in evaluations[:3]]
        assert [new for _, new in submit_board(session, "asked", "main")] == [False] * 6


@pytest.mark.one_engine
def test_an_unknown_protocol_of_a_suite_queues_nothing(registry: Registry) -> None:
    registry.benchmark("first", FIRST)
    ready_model(registry, "asked")
    suite = SuiteDefinition.model_validate(
        {"name": "s", "protocols": ["symbols", "telepathy"], "variants": ["cyclic"], "tasks": [{"benchmark": "first"}]}
    )
    with write_session(registry.engine) as session:
        import_suite(session, suite)
    with (
        pytest.raises(ShuffleboardError, match="unknown protocol 'telepathy'"),
        write_session(registry.engine) as session,
    ):
        submit_suite(session, "asked", "s")
    with read_session(registry.engine) as session:
        assert session.scalars(select(Evaluation)).all() == []


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("suite", "benchmarks", "message"),
    [
        ("nothing", (), r"no suite 'nothing'; to add it: .*; known: belebele-4, cavalin-4, cho, .* and \d+ more$"),
        ("robustness-core@7", (), "suite robustness-core has no version '7'; it has: 1"),
        ("robustness-core", (), "is for any benchmarks: name them with --benchmark"),
        ("robustness-core", ("nowhere",), "no benchmark 'nowhere'"),
        ("gupta-mmlu", ("first",), "already names its benchmarks"),
    ],
)
def test_what_cannot_be_submitted_is_said(
    registry: Registry, suite: str, benchmarks: tuple[str, ...], message: str
) -> None:
    ready_model(registry, "asked")
    with pytest.raises(ShuffleboardError, match=message), write_session(registry.engine) as session:
        submit_suite(session, "asked", suite, benchmarks)


# Files


def test_the_shipped_suites_are_there_after_setting_up(registry: Registry) -> None:
    with read_session(registry.engine) as session:
        names = set(session.scalars(select(Suite.name)))
        seventeen = find_suite(session, "goliakova-17")
    of_papers = {"goliakova-17", "gupta-mmlu", "cavalin-4", "nowak", "cho"}
    of_nowak = {f"nowak-{part}" for part in ("in-text", "labels", "embedders", "similarity")}
    assert names == {"robustness-core", "belebele-4"} | of_nowak | of_papers
    assert len(seventeen.definition["tasks"]) == 17


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name = 'x'\nnope", r"suite\.toml: not valid TOML: Expected '=' after a key"),
        ("name = 'x y'\nvariants=['cyclic']\n[[tasks]]\nbenchmark='b'", "suite name 'x y': use up to"),
        ("name = 'x'\nvariants=['zigzag']\n[[tasks]]\nbenchmark='b'", "unknown variant kind 'zigzag'"),
        (
            "name = 'x'\nvariants=['cyclic']\n[[tasks]]\nbenchmark='b'\nshoots=3",
            "shoots: unknown key; known: name, benchmarks",
        ),
        ("name = 'x'\n[[tasks]]\nbenchmark='b'", "task 1 has no variants"),
        ("name = 'x'\nvariants=['cyclic']", "tasks: Field required"),
        (
            "name = 'x'\nvariants=['cyclic']\n[[tasks]]\nbenchmarks=['b','c']",
            "a task that joins benchmarks needs a name",
        ),
        ("name = 'x'\nvariants=['cyclic']\n[[tasks]]\nbenchmark='b'\n[[tasks]]\nbenchmark='b'", "'b' is used twice"),
        (
            "name = 'x'\nvariants=['cyclic']\n[[tasks]]\nbenchmark='b'\nshots=-1",
            "shots: Input should be greater than or equal to 0",
        ),
        (
            "name = 'x'\nvariants=['cyclic']\n[[tasks]]\nbenchmark='b'\nbenchmarks=['c']",
            "give benchmark or benchmarks, not both",
        ),
    ],
)
def test_a_bad_suite_file_is_refused_naming_file_and_place(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(content)
    with pytest.raises(IngestError, match=message):
        read_suite_file(path)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="cannot be read"):
        read_suite_file(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(IngestError, match="is not UTF-8"):
        read_board_file(tmp_path / "binary.toml")


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"suite": "nothing"}, "no suite 'nothing'"),
        ({"benchmarks": ()}, "is for any benchmarks; name them"),
        ({"benchmarks": ("nowhere",)}, "no benchmark 'nowhere'"),
        (
            {"columns": ("accuracy@full",)},
            "the suite has no variants 'full'; it has: cyclic, divergent:seed=0,subset=all, choice-only",
        ),
        ({"columns": ("accuracy@cyclic/cloze",)}, "the suite has no protocol 'cloze' there; it has: symbols"),
    ],
)
def test_a_board_that_does_not_fit_is_refused_and_not_stored(
    registry: Registry, change: dict[str, Any], message: str
) -> None:
    registry.benchmark("first", FIRST)
    registry.benchmark("second", SECOND)
    with pytest.raises(ShuffleboardError, match=message):
        load(registry, BOARD.model_copy(update=change))
    with read_session(registry.engine) as session:
        assert session.scalars(select(Board)).all() == []


@pytest.mark.parametrize(
    ("columns", "sort", "message"),
    [
        ('["accuracy"]', None, "column 'accuracy': write it metric@variants"),
        ('["acuracy@cyclic"]', None, r"no metric 'acuracy' \(did you mean accuracy or .*\?\)"),
        ('["accuracy@cyclic", "accuracy@cyclic"]', None, "column 'accuracy@cyclic' is listed twice"),
        ('["accuracy@cyclic"]', "cora@divergent", "sort 'cora@divergent' is not a column"),
        ("[]", None, "columns: Tuple should have at least 1 item"),
    ],
)
def test_a_bad_board_file_is_refused(tmp_path: Path, columns: str, sort: str | None, message: str) -> None:
    path = tmp_path / "board.toml"
    path.write_text(
        f"name = 'b'\nsuite = 's'\ncolumns = {columns}\n" + (f"sort = {json.dumps(sort)}\n" if sort else "")
    )
    with pytest.raises(IngestError, match=message):
        read_board_file(path)


def test_two_who_refresh_at_once_make_one_snapshot(strong: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    with write_session(strong.engine) as session:
        import_board(session, BOARD)
    compute = snapshots.snapshot_document
    first = True

    def slow(session: Any, board: Board) -> dict[str, Any]:
        nonlocal first
        document = compute(session, board)
        if first:
            first = False
            assert refresh_boards(strong.engine) == ["main"]  # the other is quicker
        return document

    monkeypatch.setattr(snapshots, "snapshot_document", slow)
    assert refresh_boards(strong.engine) == []
    with read_session(strong.engine) as session:
        assert len(session.scalars(select(BoardSnapshot)).all()) == 1


def test_a_time_is_a_date_or_a_time() -> None:
    from shuffleboard.cli.boards import parse_time

    assert parse_time(None) is None
    assert parse_time("2026-11-21") == datetime(2026, 11, 21, 23, 59, 59, 999_999, tzinfo=UTC)
    assert parse_time("2026-11-21T10:00+02:00") == datetime(2026, 11, 21, 8, tzinfo=UTC)
    for wrong in ("yesterday", "2026-13-01", "0001-01-01T00:00+10:00"):
        with pytest.raises(UsageError, match="give a date or time such as"):
            parse_time(wrong)
