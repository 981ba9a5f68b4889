"""Predictions of sealed evaluations that move into files and back, which affects nothing else."""

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sqlalchemy import Engine, delete, func, insert, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from registry.db import get_engine, read_session, write_session
from registry.errors import ArchivedError, ArchiveError
from registry.files.stores import store_at
from registry.leaderboard.reports import evaluation_metrics
from registry.metrics import METRICS
from registry.operations.doctor import Context, services
from registry.operations.maintenance import Maintenance
from registry.operations.moving import move
from registry.operations.sizes import sizes
from registry.predictions import archive_files
from registry.predictions.archive_files import EVALUATION, METADATA, PREDICTIONS
from registry.predictions.archived import folder_name
from registry.predictions.stored import unwritten
from registry.schema.audiences import audience_engine
from registry.scores.computed import compute_metrics
from registry.scores.pride import pride_document
from registry.sealed import archiving
from registry.sealed.archiving import Shared, archive, open_predictions, restore, strays, write
from registry.sealed.backfills import add_missing_metrics
from registry.sealed.exporting import export_evaluation
from registry.sealed.verification import verify_all, verify_evaluation
from registry.settings import get_settings
from registry.studies.comparing import compare_evaluations
from registry.tables import Archive, Evaluation, EvaluationMetric, Generation, Prediction, Question, QuestionSeal
from tests.proof.population import Population
from tests.support.commands import shuffleboard
from tests.support.marks import long_but
from web.shown import chart_data, queries

pytestmark = pytest.mark.long_on("postgresql")

Proof = tuple[Engine, Population]


def rows(engine: Engine) -> dict[str, list[Any]]:
    """Return all predictions and texts with every column."""
    with read_session(engine) as session:
        return {
            table.__tablename__: sorted(map(tuple, session.execute(select(table.__table__))))
            for table in (Prediction, Generation)
        }


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def archive_all(engine: Engine) -> list[int]:
    with read_session(engine) as session:
        ids = list(session.scalars(select(Evaluation.id).where(Evaluation.seal.is_not(None)).order_by(Evaluation.id)))
    shared = Shared()
    for evaluation_id in ids:
        assert archive(engine, evaluation_id, shared=shared) is not None
    return ids


def test_what_is_archived_verifies_and_comes_back_bit_for_bit(proof: Proof) -> None:
    engine, _ = proof
    before = rows(engine)
    ids = archive_all(engine)
    assert rows(engine) == {"prediction": [], "generation": []}
    with read_session(engine) as session:
        report = verify_all(session)
    assert report["ok"], [report["problems"], [evaluation["problems"] for evaluation in report["evaluations"]]]
    assert [archive(engine, evaluation_id) for evaluation_id in ids] == [None] * len(ids)
    for evaluation_id in ids:
        assert restore(engine, evaluation_id) is not None
    assert rows(engine) == before
    with read_session(engine) as session:
        assert set(session.scalars(select(Archive.state))) == {"written"}
        assert verify_all(session)["ok"]


def round_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without their last bits, which depend on the order in which a query's plan adds numbers."""
    return {name: round(value, 12) if isinstance(value, float) else value for name, value in values.items()}


def readers(found: Population) -> dict[str, Callable[[Session], Any]]:
    """Return all functions that read predictions, by name."""
    one, other = found.source, found.evaluation
    question_id = select(func.max(QuestionSeal.question_id)).filter_by(evaluation_id=other)

    def question(session: Session) -> int:
        return session.scalars(question_id).one()

    return {
        "question page": lambda session: queries.predictions(session, other, question(session)),
        "predictions": lambda session: queries.predictions_after(session, other, (question(session) - 1, 0), limit=9),
        "thoughts": lambda session: queries.thoughts(session, other, question(session)),
        "words": lambda session: queries.questions_answered_with(session, other, "a"),
        "runs": lambda session: chart_data.runs(session, [one, other]),
        "positions": lambda session: chart_data.positions(session, other),
        "subjects": lambda session: chart_data.by_subject(session, other),
        "written": lambda session: chart_data.written(session, other, ["stated"]),
        "fails at": lambda session: list(session.scalars(chart_data.fails_at(session, other, 0))),
        "pride": lambda session: pride_document(session, other),
        "metrics": lambda session: {
            scope: round_values(found) for scope, found in compute_metrics(session, other).items()
        },
    }


def test_readers_of_archived_predictions_name_the_restore_command_and_then_agree(proof: Proof) -> None:
    engine, population = proof
    for reading in (engine, audience_engine(engine, "public")):
        with read_session(reading) as session:
            before = {name: reader(session) for name, reader in readers(population).items()}
        assert archive(engine, population.evaluation) is not None
        with read_session(reading) as session:
            for name, reader in readers(population).items():
                with pytest.raises(ArchivedError, match=rf"shuffleboard evaluations restore {population.evaluation}$"):
                    pytest.fail(f"{name}: {reader(session)}")
        assert restore(engine, population.evaluation) is not None
        with read_session(reading) as session:
            assert {name: reader(session) for name, reader in readers(population).items()} == before


def test_metrics_of_an_archived_evaluation_are_those_of_its_sealing(proof: Proof) -> None:
    engine, population = proof
    options = [{"per_question": True}, {"without_flagged": True}]
    with read_session(engine) as session:
        before = [evaluation_metrics(session, population.evaluation, **how) for how in options]
        compared = compare_evaluations(session, population.source, population.evaluation)
    assert archive(engine, population.evaluation) is not None
    with read_session(engine) as session:
        after = [evaluation_metrics(session, population.evaluation, **how) for how in options]
        assert [metrics | {"metrics": round_values(metrics["metrics"])} for metrics in after] == [
            metrics | {"metrics": round_values(metrics["metrics"])} for metrics in before
        ]
        again = compare_evaluations(session, population.source, population.evaluation)
        assert again["causes"]["flips"] is None
        assert again | {"causes": None} == compared | {"causes": None}


def test_an_archived_evaluation_is_exported_as_before(proof: Proof, tmp_path: Path) -> None:
    engine, population = proof

    def run_export(name: str) -> dict[str, bytes]:
        export_evaluation(engine, get_settings(), population.evaluation, tmp_path / name)
        return {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.parquet")}

    before = run_export("before")
    assert before
    assert archive(engine, population.evaluation) is not None
    assert run_export("after") == before


@pytest.mark.one_engine
def test_an_export_leaves_archived_predictions_out_and_names_the_command(sqlite_proof: Proof, tmp_path: Path) -> None:
    engine, population = sqlite_proof
    assert archive(engine, population.evaluation) is not None
    for format_, left_out in (("jsonl", ["predictions", "option_probability"]), ("every-eval-ever", ["samples"])):
        out = tmp_path / format_
        arguments = ("--format", format_, "--audience", "all", "--to", out)
        outcome = shuffleboard("export", *arguments, database_url=url_of(engine))
        restoring = f"shuffleboard evaluations restore {population.evaluation}"
        assert f"left out: {' and '.join(left_out)} of 1 archived evaluation; bring them back with: {restoring}" in (
            outcome.stderr
        )
        manifest = json.loads((out / "manifest.json").read_text())
        assert manifest["archived"] == {
            "evaluations": [population.evaluation],
            "left_out": left_out,
            "restore": restoring,
        }
        assert restoring in (out / "README.md").read_text()
    lines = (tmp_path / "jsonl" / "predictions.jsonl").read_text().splitlines()
    assert {json.loads(line)["evaluation_id"] for line in lines} == {population.source}
    names = {path.suffix: path for path in (tmp_path / "every-eval-ever" / "data").rglob("*") if path.is_file()}
    assert names.keys() == {".json", ".jsonl"}


@pytest.mark.one_engine
def test_a_changed_metric_of_an_archived_evaluation_is_found(sqlite_proof: Proof) -> None:
    engine, population = sqlite_proof
    assert archive(engine, population.evaluation) is not None
    with write_session(engine) as session:
        names = session.scalars(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).all()
        for name in names:
            session.execute(text(f"DROP TRIGGER {name}"))
        table = EvaluationMetric
        changed = update(table).where(
            table.evaluation_id == population.evaluation, table.metric == "accuracy", table.scope == "all"
        )
        session.execute(changed.values(value=0.125))
    with read_session(engine) as session:
        problems = verify_evaluation(session, population.evaluation)["problems"]
    assert any(problem.startswith("metric accuracy (all), definition") for problem in problems)


@pytest.mark.one_engine
def test_metrics_that_are_new_are_added_once_an_evaluation_is_restored(
    sqlite_proof: Proof, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, population = sqlite_proof
    assert archive(engine, population.evaluation) is not None
    newer = dataclasses.replace(METRICS["accuracy"], definition_version=METRICS["accuracy"].definition_version + 1)
    monkeypatch.setitem(METRICS, "accuracy", newer)
    table = EvaluationMetric
    query = select(func.max(table.definition_version)).where(
        table.evaluation_id == population.evaluation, table.metric == "accuracy"
    )
    with write_session(engine) as session:
        assert add_missing_metrics(session) == [population.evaluation]
        assert session.scalar(query) == newer.definition_version - 1
    assert restore(engine, population.evaluation) is not None
    with read_session(engine) as session:
        assert session.scalar(query) == newer.definition_version


# Statements that the database permits


def refuse(engine: Engine, *statements: Any) -> bool:
    """Return whether the last of these statements is refused, after the others have run."""
    try:
        with write_session(engine) as session:
            for number, statement in enumerate(statements, start=1):
                try:
                    session.execute(statement)
                except DBAPIError:
                    if number == len(statements):
                        raise
                    return False
            session.rollback()
    except DBAPIError:
        return True
    return False


def test_the_database_allows_archiving_and_restoring_and_nothing_else(proof: Proof) -> None:
    engine, population = proof
    own, other = population.evaluation, population.source
    with read_session(engine) as session:
        counts = [
            session.scalar(select(func.count()).select_from(table).filter_by(evaluation_id=own))
            for table in (Prediction, Generation)
        ]
    values = {"location": "x", "digest": "0" * 64, "size": 1, "predictions": counts[0], "texts": counts[1]}
    written = insert(Archive).values(evaluation_id=own, state="written", **values)
    changed = update(Archive).filter_by(evaluation_id=own)
    begun = (written, changed.values(state="archiving"))
    gone = [delete(table).filter_by(evaluation_id=own) for table in (Generation, Prediction)]
    others = delete(Generation).filter_by(evaluation_id=other)
    assert refuse(engine, gone[0])
    assert refuse(engine, written, gone[0]), "before it is archived"
    assert refuse(engine, written.values(state="archived"))
    assert refuse(engine, written.values(state="archiving"))
    assert refuse(engine, written.values(predictions=counts[0] - 1))
    assert refuse(engine, written.values(texts=0))
    assert refuse(engine, *begun, others)
    assert refuse(engine, *begun, update(Prediction).filter_by(evaluation_id=own).values(tied=True))
    assert refuse(engine, *begun, changed.values(state="archived")), "while there are rows"
    assert refuse(engine, *begun, gone[0], changed.values(state="archived")), "while there are predictions"
    assert not refuse(engine, *begun, *gone, changed.values(state="archived"))
    assert refuse(engine, *begun, *gone, changed.values(state="archived", digest="1" * 64))
    assert refuse(engine, *begun, *gone, delete(Archive))
    assert archive(engine, own) is not None
    row = insert(Prediction).values(
        evaluation_id=own,
        question_id=select(func.min(QuestionSeal.question_id)).filter_by(evaluation_id=own).scalar_subquery(),
        variant=0,
        prompt_key=0,
        shown=[0],
        question_shown=True,
        own_options=True,
        unchanged=True,
        correct=False,
        tied=False,
    )
    assert refuse(engine, row)
    assert refuse(engine, delete(Archive))
    assert refuse(engine, changed.values(location="elsewhere"))
    assert refuse(engine, changed.values(state="archiving"))
    assert refuse(engine, changed.values(state="restoring"), row, changed.values(state="written")), "not all of it"
    assert restore(engine, own) is not None
    assert not refuse(engine, delete(Archive)), "the file can be written again"


# Files


def file_of(engine: Engine, evaluation_id: int) -> Path:
    with read_session(engine) as session:
        seal = session.get_one(Evaluation, evaluation_id).seal
        assert seal is not None
        row = session.get_one(Archive, evaluation_id)
        folder = store_at(row.location).folder
        assert folder is not None
        return folder / folder_name(seal, row.digest) / PREDICTIONS


@pytest.mark.one_engine
def test_a_changed_byte_names_the_question_and_a_missing_file_is_named(sqlite_proof: Proof) -> None:
    engine, population = sqlite_proof
    archive_all(engine)
    file = file_of(engine, population.evaluation)
    content = file.read_bytes()
    with read_session(engine) as session:
        names = set(session.scalars(select(Question.external_id).where(~Question.few_shot)))
    with pq.ParquetFile(file) as parquet:
        group = parquet.metadata.row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        place = {column.path_in_schema: column.data_page_offset for column in columns}
    for path in ("shown.list.element", "label_logprobs.list.element", "generation_text"):
        at = place[path] + 40
        file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with read_session(engine) as session:
            report = verify_evaluation(session, population.evaluation)
        assert not report["ok"]
        assert any("is not the file that was written" in problem for problem in report["problems"])
        assert set(report["questions"]) & names, path
        with pytest.raises(ArchiveError, match="not the file that was archived"):
            restore(engine, population.evaluation)
    file.write_bytes(content[: len(content) // 2])
    assert file.parent.name in findings(engine)
    file.unlink()
    with read_session(engine) as session:
        (problem,) = [one for one in verify_evaluation(session, population.evaluation)["problems"] if "archive" in one]
        assert f"{file.parent.name} is missing or not whole" in problem
    with pytest.raises(ArchiveError, match="SHUFFLEBOARD_ARCHIVES"):
        restore(engine, population.evaluation)
    assert file.parent.name in findings(engine)
    file.write_bytes(content)
    for other in (path for path in file.parent.iterdir() if path != file):
        right = other.read_bytes()
        other.write_bytes(right[:9] + bytes([right[9] ^ 1]) + right[10:])
        with read_session(engine) as session:
            (problem,) = verify_evaluation(session, population.evaluation)["problems"]
        assert f"{other.name} is not the file that was written" in problem
        other.write_bytes(right)
    assert restore(engine, population.evaluation) is not None
    at = place["label_logprobs.list.element"] + 40
    file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with read_session(engine) as session:
        report = verify_evaluation(session, population.evaluation)
    assert set(report["questions"]) & names, "also where its rows are in their tables"
    assert write(engine, population.evaluation).state == "written"
    assert file.read_bytes() == content, "and it is written again"
    file.unlink()
    assert file.parent.name in findings(engine)
    with read_session(engine) as session:
        assert verify_evaluation(session, population.evaluation)["ok"], "nothing is lost"


def findings(engine: Engine) -> str:
    """Return the doctor's findings about archives."""
    return services.archives(Context(get_settings(), engine, "0")).found


def folder_of_archives() -> Path:
    folder = store_at().folder
    assert folder is not None
    return folder


def test_a_file_that_was_written_a_moment_ago_is_not_called_removable(sqlite_proof: Proof) -> None:
    """Check that the doctor may run between the writing of a file and its record."""
    engine, population = sqlite_proof
    archive(engine, population.evaluation)
    restore(engine, population.evaluation)
    file = file_of(engine, population.evaluation)
    with write_session(engine) as session:
        session.execute(delete(Archive))
    with read_session(engine) as session:
        assert strays(session, store_at()).unknown == [], "as long as it is young"
        for path in file.parent.iterdir():
            os.utime(path, (0, 0))
        assert strays(session, store_at()).unknown == [file.parent.as_uri()]
    write(engine, population.evaluation)
    with read_session(engine) as session:
        assert strays(session, store_at()) == archiving.Strays([], [], [])


def test_an_archiving_whose_file_was_removed_meanwhile_fails_and_keeps_the_rows(proof: Proof) -> None:
    engine, population = proof
    before = rows(engine)
    checked = archiving.place_of

    def remove(row: Archive, seal: str) -> object:
        file_of(engine, population.evaluation).unlink()
        return checked(row, seal)

    with (
        mock.patch.object(archiving, "place_of", side_effect=remove),
        pytest.raises(ArchiveError, match="is missing or not whole"),
    ):
        archive(engine, population.evaluation)
    assert rows(engine) == before
    with read_session(engine) as session:
        assert session.scalar(select(Archive.state)) == "written"


def test_another_evaluation_s_archive_under_this_one_s_name_is_refused(sqlite_proof: Proof) -> None:
    engine, _ = sqlite_proof
    ids = archive_all(engine)
    right, wrong = (file_of(engine, one) for one in ids[:2])
    shutil.copyfile(wrong, right)
    with pytest.raises(ArchiveError, match="another seal"):
        list(archive_files.groups(store_at(), f"{right.parent.name}/{PREDICTIONS}"))
    with pytest.raises(ArchiveError, match="is not the file that was archived"):
        restore(engine, ids[0])
    with read_session(engine) as session:
        assert not verify_evaluation(session, ids[0])["ok"]


def test_leftovers_of_killed_archivings_are_removed_after_a_day(sqlite_proof: Proof, tmp_path: Path) -> None:
    engine, population = sqlite_proof
    old, young, others = (tmp_path / name for name in (f"{'a' * 64}.1.part", f"{'b' * 64}.2.part", "notes.part"))
    for path in (old, young, others):
        path.mkdir()
    for path in (old, others):
        os.utime(path, (0, 0))
    url = engine.url.render_as_string(hide_password=False)
    outcome = shuffleboard("evaluations", "archive", population.evaluation, "--to", tmp_path, database_url=url)
    assert f"removed {old.as_uri()}" in outcome.stderr
    assert [path.exists() for path in (old, young, others)] == [False, True, True]


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/archives"])
def test_an_impossible_folder_is_named_as_such(sqlite_proof: Proof, place: str) -> None:
    engine, population = sqlite_proof
    with pytest.raises(ArchiveError, match=rf"file://{place}: cannot be written to .* --to, or SHUFFLEBOARD_ARCHIVES"):
        archive(engine, population.evaluation, place)


@pytest.mark.one_engine
def test_others_read_the_files_as_they_are(sqlite_proof: Proof) -> None:
    engine, population = sqlite_proof
    with read_session(engine) as session:
        right = session.scalar(select(func.count()).select_from(Prediction).filter_by(evaluation_id=2, correct=True))
        seal = session.get_one(Evaluation, population.evaluation).seal
    assert archive(engine, population.evaluation) is not None
    file = file_of(engine, population.evaluation)
    digest = hashlib.sha256((file.parent / EVALUATION).read_bytes()).hexdigest()
    assert file.parent.name == f"{seal}-{digest[:12]}"
    assert file.stat().st_mode & 0o777 == 0o600
    numbers = "array_agg(question_id)"
    counted = f"SELECT count(*) FILTER (correct), list_sort({numbers}) = {numbers} FROM '{file}'"
    assert duckdb.execute(counted).fetchall() == [(right, True)]
    assert pd.read_parquet(file).correct.sum() == right
    described = json.loads(pq.read_schema(file).metadata[b"shuffleboard"])
    assert described["seal"] == seal
    assert described["columns"].keys() >= {"question", "variant", "shown", "label_logprobs", "generation_text"}
    assert pd.read_parquet(file)[["prompt_digest", "entropy"]].notna().to_numpy().all(), (
        "every column stands in the file"
    )


@pytest.mark.long
def test_a_registry_with_archives_moves_to_another_database(
    sqlite_proof: Proof, postgresql_url: str, tmp_path: Path
) -> None:
    engine, population = sqlite_proof
    before = rows(engine)
    archive_all(engine)
    moved = move(engine.url.render_as_string(hide_password=False), postgresql_url)
    assert moved.rows["archive"] == 2
    assert moved.problems == []
    target = get_engine(postgresql_url)
    assert restore(target, population.source) is not None
    assert restore(target, population.evaluation) is not None
    assert rows(target) == before


def test_sizes_are_by_table_and_by_evaluation_wherever_it_is(proof: Proof) -> None:
    engine, population = proof
    moved = archive(engine, population.source)
    assert moved is not None
    measured = sizes(engine, limit=5)
    by_evaluation = {one.evaluation_id: one for one in measured.evaluations}
    assert (by_evaluation[population.source].archived, by_evaluation[population.source].hot) == (moved.size, 0)
    assert by_evaluation[population.evaluation].hot > 0
    assert {one.table for one in measured.tables} >= {"prediction", "question_score", "archive"}
    assert 0 < sum(one.total for one in measured.tables) <= measured.database


@pytest.mark.one_engine
def test_a_round_of_maintenance_writes_the_files_that_are_missing(
    sqlite_proof: Proof, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, population = sqlite_proof
    maintenance = Maintenance(engine, get_settings())
    with monkeypatch.context() as patched:
        patched.setenv("SHUFFLEBOARD_ARCHIVES", "/dev/null/archives")
        maintenance.seal_complete()  # this logs that nothing can be written there
        with read_session(engine) as session:
            assert len(unwritten(session)) == 2
    maintenance.seal_complete()
    before = file_of(engine, population.evaluation).stat().st_mtime_ns
    maintenance.seal_complete()
    assert file_of(engine, population.evaluation).stat().st_mtime_ns == before
    with read_session(engine) as session:
        assert unwritten(session) == []
        assert strays(session, store_at(), older_than_s=0) == archiving.Strays([], [], [])
        assert verify_all(session)["ok"]


@pytest.mark.parametrize("kind", long_but(("nullable",), ("nullable", "with a default")))
def test_a_folder_without_a_newer_column_is_read_by_everything(proof: Proof, tmp_path: Path, kind: str) -> None:
    engine, population = proof
    assert archive(engine, population.evaluation) is not None
    engine.dispose()
    url = engine.url.render_as_string(hide_password=False)
    program = [sys.executable, "-m", "tests.proof.newer_column", kind, url, population.evaluation, tmp_path]
    done = subprocess.run(list(map(str, program)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.one_engine
def test_a_file_with_unknown_or_missing_columns_is_refused(
    sqlite_proof: Proof,
) -> None:
    engine, population = sqlite_proof
    assert archive(engine, population.evaluation) is not None
    file = file_of(engine, population.evaluation)
    table = pq.read_table(file)
    place = store_at(), f"{file.parent.name}/{PREDICTIONS}"
    for changed, message in (
        (table.append_column("added_since", table.column("state")), r"does not know \(added_since\)"),
        (table.drop_columns(["correct"]), r"lacks columns \(correct\)"),
        (
            table.replace_schema_metadata({METADATA: '{"format_version": 2}'}),
            "has folder format 2, and this version reads",
        ),
        (table.replace_schema_metadata({}), "states no number of its folder format"),
    ):
        pq.write_table(changed, file)
        with pytest.raises(ArchiveError, match=message):
            list(archive_files.groups(*place))
        with read_session(engine) as session:
            opened, (problem,) = open_predictions(session, 10)
        assert (opened, re.search(message, problem) is not None) == (0, True)
