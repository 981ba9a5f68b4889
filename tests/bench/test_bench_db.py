"""The benchmark of the database at a small size, including that sealing reads only its own evaluation."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, select, text

from bench import bench_db
from bench.generate_predictions import Kind, Source, store
from registry.db import get_engine, read_session, write_session
from registry.predictions import archive_files, bulk
from registry.predictions.archived import archive_of
from registry.schema.audiences import audience_engine
from registry.schema.planner import BY_EVALUATION, analyze
from registry.scores.question_scores import write_question_scores
from registry.sealed.verification.findings import Findings
from registry.sealed.verification.sealed import check_archive
from registry.tables import Archive, Evaluation, EvaluationMetric, Prediction, QuestionScore

pytestmark = pytest.mark.long

SHARE = 0.02
"""Share of the benchmarks' questions that are used here."""


@pytest.fixture
def engine(postgresql_database: str) -> Engine:
    return get_engine(postgresql_database)


def import_next(engine: Engine, source: Source, number: int, kind: Kind) -> int:
    return bench_db.import_one(engine, source, number, kind, bench_db.Imported())


def test_it_runs_through_at_a_small_size(engine: Engine, postgresql_database: str, tmp_path: Path) -> None:
    printed: list[str] = []
    (measured,) = bench_db.run(postgresql_database, tmp_path, [20_000], requests=1, share=SHARE, report=printed.append)
    assert measured["predictions"] >= 20_000
    with read_session(engine) as session:
        assert session.scalar(select(func.count()).select_from(Prediction)) == measured["predictions"]
        states = set(session.execute(select(Evaluation.state, Evaluation.seal.is_not(None))))
        assert states == {("complete", True)}
        # Evaluations that were not sealed by the registry have as many metrics as others of their kind.
        of_kind = (Evaluation.benchmark_version_id, Evaluation.variant_set_id, Evaluation.id)
        counted = (
            select(*of_kind, func.count().label("metrics"))
            .join(EvaluationMetric, EvaluationMetric.evaluation_id == Evaluation.id)
            .group_by(*of_kind)
            .subquery()
            .c
        )
        differing = select(func.count(counted.metrics.distinct())).group_by(
            counted.benchmark_version_id, counted.variant_set_id
        )
        assert set(session.scalars(differing)) == {1}
    lines = "\n".join(printed)
    for expected in ("bytes per prediction", "sealed mmlu full", "leaderboard, last page", "indexes that nothing has"):
        assert expected in lines


def test_copied_archives_are_read_as_those_that_the_registry_wrote(
    engine: Engine, postgresql_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_db, "IMPORTED_LAST", 5_000)
    printed: list[str] = []
    sizes = [30_000, 60_000]
    options = {"requests": 1, "share": 0.01, "archiving": True, "copying": True, "report": printed.append}
    measured = bench_db.run(postgresql_database, tmp_path, sizes, **options)
    assert measured[1]["imported"]["predictions"] < 15_000, "most are copied"
    with read_session(engine) as session:
        counted = select(func.coalesce(func.sum(Archive.predictions), 0))
        assert session.scalar(counted) == measured[1]["archived"] > 30_000
        assert (
            measured[1]["archived"] + (session.scalar(select(func.count()).select_from(Prediction)) or 0)
            == (measured[1]["predictions"])
        )
        for archive in session.scalars(select(Archive)):
            checked = Findings()
            check_archive(session, session.get_one(Evaluation, archive.evaluation_id), checked)
            assert not checked.problems
            place = archive_of(session, archive.evaluation_id)
            assert place is not None
            assert sum(map(len, archive_files.groups(*place))) == archive.predictions
    assert "bytes each" in "\n".join(printed)


def test_sealing_reads_its_own_evaluation_whatever_else_there_is(engine: Engine, tmp_path: Path) -> None:
    with write_session(engine) as session:
        source = Source(session, tmp_path, SHARE)
    kind = next(kind for kind in source.kinds if (kind.benchmark, kind.variants) == ("arc", "cyclic"))
    others = [
        plan_kind for plan_kind in source.kinds if plan_kind.benchmark != "mmlu" or plan_kind.variants == "cyclic"
    ]
    # So many that PostgreSQL no longer lists each, and estimates a new value like a frequent one.
    for number in range(18):
        for plan_kind in others:
            import_next(engine, source, number, plan_kind)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    read = bench_db.read_by_sealing(engine, import_next(engine, source, 19, kind))
    with read_session(engine) as session:
        stored = {
            table: session.scalar(text(f"SELECT count(*) FROM {table}")) or 0
            for table in ("prediction", "evaluation_question", "question_score")
        }
    own = dict.fromkeys(bench_db.TABLES, kind.questions) | {"prediction": kind.predictions}
    for table in bench_db.TABLES:
        scanned, by_index = read[table]
        assert scanned == 0, f"{table} is read from end to end"
        assert by_index <= 50 * own[table], f"of {table} rows of other evaluations are read"
    for table, rows in stored.items():
        assert read[table][1] >= own[table]
        assert rows > 50 * own[table], f"{table} holds too little to tell"


def test_statistics_are_renewed_until_a_new_evaluation_looks_usual(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MANY_ROWS", 1)
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("ANALYZE"):
            sent.append(statement)

    def renew(rows: int) -> list[str]:
        sent.clear()
        with write_session(engine) as session:
            bulk.renew_statistics(session, rows)
        return sent

    event.listen(engine, "before_cursor_execute", note)
    with write_session(engine) as session:
        source = Source(session, tmp_path, 0.004)
    kind = next(kind for kind in source.kinds if (kind.benchmark, kind.variants) == ("arc", "cyclic"))
    import_next(engine, source, 0, kind)
    assert sent == [analyze(BY_EVALUATION)]
    with audience_engine(engine, "public").connect() as connection:
        explained = text("EXPLAIN (FORMAT JSON) SELECT * FROM prediction WHERE evaluation_id = 1")
        (plan,) = connection.execute(explained).scalar_one()
    assert plan["Plan"]["Plan Rows"] >= kind.predictions / 4, "a visitor's pages are planned for what is there"
    everything = [analyze(BY_EVALUATION)]
    assert renew(kind.predictions) == everything, "one that PostgreSQL knows is all it expects"
    with write_session(engine) as session:
        for number in range(1, 130):
            store(session, source.rows(number, kind, source.add(session, number, kind)))
            write_question_scores(session, number + 1)
    assert renew(kind.predictions) == everything
    # Nothing was sealed.
    assert renew(kind.predictions) == [analyze(["question_seal"])]
    assert renew(80 * kind.predictions) == [analyze(["question_seal"])]
    assert renew(200 * kind.predictions) == [analyze(["prediction", "question_seal"])]
    event.remove(engine, "before_cursor_execute", note)


def test_made_up_rows_are_what_scoring_would_store(engine: Engine, tmp_path: Path) -> None:
    with write_session(engine) as session:
        source = Source(session, tmp_path, SHARE)
    for number, kind in islice(source.plan(), 6):
        evaluation_id = import_next(engine, source, number, kind)
        with read_session(engine) as session:
            scores = session.scalars(select(QuestionScore).filter_by(evaluation_id=evaluation_id)).all()
            assert {(score.stored, score.valid, score.others) for score in scores} == {
                (len(kind.orders), len(kind.orders), len(kind.orders) - 1)
            }
            row = session.scalars(select(Prediction).filter_by(evaluation_id=evaluation_id).limit(1)).one()
            assert row.label_probabilities is not None
            assert sum(row.label_probabilities) == pytest.approx(1)
            assert row.shown[row.chosen_position or 0] == row.chosen_option
            assert max(row.label_probabilities) == row.label_probabilities[row.chosen_position or 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_logprobs": [float("nan")] * 4}, "non-finite"),
        ({"label_probabilities": [float("inf"), 0.0]}, "non-finite"),
        ({"prompt_digest": "no digest"}, "hexadecimal"),
    ],
)
def test_what_no_column_can_hold_is_refused(
    engine: Engine, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with write_session(engine) as session:
        source = Source(session, tmp_path, SHARE)
    number, kind = next(source.plan())
    with write_session(engine) as session:
        evaluation_id = source.add(session, number, kind)
        row = source.rows(number, kind, evaluation_id)[0]
        with pytest.raises(ValueError, match=message):
            bulk.insert_predictions(session, [row | changes])
        session.rollback()
