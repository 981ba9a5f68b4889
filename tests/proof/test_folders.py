"""A sealed evaluation as a folder, moved from one database engine to the other and back, and refused folders."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import Engine, select

from registry import chain
from registry.db import get_engine, read_session, write_session
from registry.digests import sha256_file
from registry.errors import IngestError, SealError, ShuffleboardError, UsageError
from registry.files.manifests import MANIFEST
from registry.leaderboard.rows import leaderboard_page
from registry.scores.clusters import clusters_of
from registry.sealed.exporting import export_evaluation
from registry.sealed.files import FILES, find_changed_files, manifest_of, write_json
from registry.sealed.importing import import_evaluation
from registry.sealed.provenance import provenance_document
from registry.sealed.verification import alike, verify_all, verify_evaluation
from registry.sealed.withdrawals import withdraw, withdrawal_of
from registry.settings import get_settings
from registry.tables import BenchmarkVersion, ChainLink, Evaluation, EvaluationMetric, EvaluationSource, Question
from tests.proof.commands import run
from tests.proof.population import Population, submit_and_score
from tests.proof.test_killed import kill_at
from tests.support import bombs
from tests.support.marks import long_but
from tests.support.population import predictions, table_counts

Registry = tuple[Engine, Population]


def metrics_of(engine: Engine, evaluation_id: int) -> dict[tuple[str, str], tuple[Any, ...]]:
    with read_session(engine) as session:
        rows = session.scalars(select(EvaluationMetric).filter_by(evaluation_id=evaluation_id))
        return {
            (row.scope, row.metric): (row.value, row.n, row.interval_low, row.interval_high, row.interval_method)
            for row in rows
        }


def seal_of(engine: Engine, evaluation_id: int) -> str | None:
    with read_session(engine) as session:
        return session.get_one(Evaluation, evaluation_id).seal


def clusters_in(engine: Engine, evaluation_id: int) -> list[int]:
    """Return the clusters of the questions in the order of their names."""
    with read_session(engine) as session:
        version = session.get_one(Evaluation, evaluation_id).benchmark_version_id
        question_ids = (
            select(Question.id).filter_by(benchmark_version_id=version, few_shot=False).order_by(Question.ordinal)
        )
        clusters = clusters_of(session, list(session.scalars(question_ids)))
    assert clusters is not None
    return clusters.tolist()


def run_export(engine: Engine, evaluation_id: int, folder: Path, name: str = "exported") -> Path:
    export_evaluation(engine, get_settings(), evaluation_id, folder / name)
    return folder / name


def import_folder(engine: Engine, folder: Path) -> int:
    evaluation_id, new = import_evaluation(engine, folder)
    assert new
    return evaluation_id


BOTH_WAYS: Final = (("sqlite", "postgresql"), ("postgresql", "sqlite"))


@pytest.fixture(params=long_but((BOTH_WAYS[0],), BOTH_WAYS), ids="-to-".join)
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Registry, Engine]:
    """Return a filled registry, and an empty one on the other engine."""
    one, other = request.param
    return request.getfixturevalue(f"{one}_proof"), get_engine(request.getfixturevalue(f"{other}_database"))


def test_an_evaluation_has_the_same_seal_and_metrics_in_another_registry(
    engines: tuple[Registry, Engine], tmp_path: Path
) -> None:
    (engine, population), other = engines
    folder = run_export(engine, population.evaluation, tmp_path)
    imported = import_folder(other, folder)
    assert seal_of(other, imported) == seal_of(engine, population.evaluation)
    assert metrics_of(other, imported).keys() == metrics_of(engine, population.evaluation).keys()
    for key, values in metrics_of(engine, population.evaluation).items():
        assert alike(metrics_of(other, imported)[key], values), key
    assert clusters_in(other, imported) == clusters_in(engine, population.evaluation) == [0, 1, 2, 2]
    without_numbers = [
        {key: {**row, "reused_from_evaluation_id": None} for key, row in predictions(*place).items()}
        for place in ((engine, population.evaluation), (other, imported))
    ]
    assert without_numbers[0] == without_numbers[1]
    with read_session(other) as session:
        assert verify_evaluation(session, imported)["problems"] == []
        assert verify_all(session)["ok"]
        (link,) = chain.links(session)
        assert (link.position, link.subject, link.previous) == (1, seal_of(other, imported), chain.BEGINNING)
        (row,) = leaderboard_page(session).rows
        assert (row["model"], row["benchmark"], row["evaluation_id"]) == ("fake", "bench", imported)
        document = provenance_document(session, imported)
        # The evaluation from which answers were copied is not in the folder, but its seal is.
        assert [(item["seal"], item["evaluation"]) for item in document["copies"]["sources"]] == [
            (seal_of(engine, population.source), None)
        ]
    with read_session(engine) as session:
        before = provenance_document(session, population.evaluation)
    for key in (
        "specification",
        "prompts",
        "tokens",
        "seeds",
        "shards",
        "engine_fingerprints",
        "requester",
        "created_at",
    ):
        assert document[key] == before[key], key


def test_an_export_of_an_import_is_the_same(engines: tuple[Registry, Engine], tmp_path: Path) -> None:
    (engine, population), other = engines
    first = run_export(engine, population.evaluation, tmp_path, "first")
    second = run_export(other, import_folder(other, first), tmp_path, "second")
    for name in FILES:
        # The last bits of metrics depend on how an engine adds numbers.
        if name.endswith(".parquet") and name != "metrics.parquet":
            tables = [pq.read_table(folder / name) for folder in (first, second)]
            numbers = {"question_id", "reused_from_evaluation_id"} & set(tables[0].column_names)
            assert tables[0].drop_columns(list(numbers)).equals(tables[1].drop_columns(list(numbers))), name
    documents = [json.loads((folder / "evaluation.json").read_text()) for folder in (first, second)]
    descriptions = [json.loads((folder / "registry.json").read_text()) for folder in (first, second)]
    assert alike(*(description.pop("analyses") for description in descriptions))
    assert descriptions[0]["withdrawals"] == descriptions[1]["withdrawals"]
    for document in documents:
        del document["files"]
        for key in ("model", "model_revision", "benchmark_version", "variant_set"):
            document[key].pop("created_at", None)
        for shard in document["shards"]:
            del shard["worker"]["stopped_at"]
    assert documents[0] == documents[1]


def test_copies_find_their_source_again_where_it_came_first(
    sqlite_proof: Registry, postgresql_database: str, tmp_path: Path
) -> None:
    engine, population = sqlite_proof
    target = get_engine(postgresql_database)
    source = import_folder(target, run_export(engine, population.source, tmp_path, "source"))
    imported = import_folder(target, run_export(engine, population.evaluation, tmp_path))
    with read_session(target) as session:
        (row,) = session.scalars(select(EvaluationSource).filter_by(evaluation_id=imported))
        assert (row.seal, row.predictions) == (seal_of(engine, population.source), 4)
        assert provenance_document(session, imported)["copies"]["sources"][0]["evaluation"] == source
        assert verify_all(session)["ok"]


def test_the_manifest_lists_every_file_with_its_digest(sqlite_proof: Registry, tmp_path: Path) -> None:
    engine, population = sqlite_proof
    folder = run_export(engine, population.evaluation, tmp_path)
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["seal"] == seal_of(engine, population.evaluation)
    assert (manifest["format"], manifest["format_version"]) == ("evaluation", 1)
    assert {entry["file"]: (entry["bytes"], entry["sha256"]) for entry in manifest["files"]} == {
        name: ((folder / name).stat().st_size, sha256_file(folder / name)) for name in FILES
    }
    assert sorted(path.name for path in folder.iterdir()) == sorted([MANIFEST, *FILES])
    kinds = [link["kind"] for link in json.loads((folder / "chain.json").read_text())["links"]]
    assert kinds == ["seal", "seal", "snapshot", "folder"]


def test_the_command_line_exports_and_imports(sqlite_proof: Registry, postgresql_database: str, tmp_path: Path) -> None:
    engine, population = sqlite_proof
    target = get_engine(postgresql_database)
    folder = tmp_path / "exported"
    folder.mkdir()
    written = run(engine, "evaluations", "export", population.evaluation, "--to", folder, "--json").document
    assert written["seal"] == seal_of(engine, population.evaluation)
    imported = run(target, "evaluations", "import", folder).document["evaluation"]
    assert seal_of(target, imported) == written["seal"]
    before = table_counts(target)
    again = run(target, "evaluations", "import", folder)
    assert (again.code, again.document) == (0, {"evaluation": imported})
    assert f"evaluation {imported} has this seal already; nothing was imported" in again.stderr
    assert table_counts(target) == before
    assert run(target, "evaluations", "import", folder, "--model", "m").code == 2
    assert run(target, "evaluations", "import", tmp_path / "none.jsonl", "--model", "m").code == 1
    assert (
        "already contains files" in run(engine, "evaluations", "export", population.evaluation, "--to", folder).stderr
    )


def test_an_export_of_tables_is_not_imported_as_an_evaluation(sqlite_proof: Registry, tmp_path: Path) -> None:
    engine, _ = sqlite_proof
    tables = tmp_path / "tables"
    assert run(engine, "export", "--format", "parquet", "--audience", "all", "--to", tables).code == 0
    refused = run(engine, "evaluations", "import", tables)
    assert refused.code == 1
    assert "tables: is an export of tables, but `shuffleboard evaluations import` takes" in refused.stderr
    assert f"use: shuffleboard verify --public KEY {tables}" in refused.stderr
    assert "to check a folder, give --public KEY" in run(engine, "verify", tables).stderr


def test_a_withdrawal_goes_along(sqlite_proof: Registry, postgresql_database: str, tmp_path: Path) -> None:
    engine, population = sqlite_proof
    target = get_engine(postgresql_database)
    with write_session(engine) as session:
        withdraw(session, population.source, "wrong", actor="somebody")
    imported = import_folder(target, run_export(engine, population.source, tmp_path))
    with read_session(target) as session:
        row = withdrawal_of(session, imported)
        assert row is not None
        assert (row.kind, row.reason, row.actor) == ("withdrawn", "wrong", "somebody")
        assert leaderboard_page(session).rows == []
        assert [link.kind for link in session.scalars(select(ChainLink).order_by(ChainLink.position))] == [
            "seal",
            "withdrawal",
        ]
        assert verify_all(session)["ok"]


# Refusals

Change = Callable[[Path], None]


def retouch(folder: Path) -> None:
    """Write the manifest for the present files, as an attacker would."""
    write_json(folder / MANIFEST, manifest_of(folder, json.loads((folder / "evaluation.json").read_text())["seal"]))


def with_rows(folder: Path, name: str, change: Callable[[list[dict[str, Any]]], None]) -> None:
    table = pq.read_table(folder / name)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), folder / name)
    retouch(folder)


def right_answers(folder: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        wrong = next(row for row in rows if row["question"] == "q2" and not row["correct"])
        wrong["correct"] = True

    with_rows(folder, "predictions.parquet", change)


def other_text(folder: Path) -> None:
    with_rows(folder, "predictions.parquet", lambda rows: rows[0].update(generation_text="I say nothing."))


def other_question(folder: Path) -> None:
    with_rows(folder, "questions.parquet", lambda rows: rows[0].update(text="Which is it?"))


def other_key(folder: Path) -> None:
    with_rows(folder, "questions.parquet", lambda rows: rows[0].update(extra='{"page": 4}'))


def other_metric(folder: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["metric"] == "accuracy")["value"] = 0.99

    with_rows(folder, "metrics.parquet", change)


def one_prediction_less(folder: Path) -> None:
    with_rows(folder, "predictions.parquet", lambda rows: rows.pop())


def one_prediction_twice(folder: Path) -> None:
    with_rows(folder, "predictions.parquet", lambda rows: rows.append(rows[-1]))


def no_replicate(folder: Path) -> None:
    document(folder, lambda content: content["evaluation"].pop("replicate"))


def ask_unknown_question(folder: Path) -> None:
    with_rows(folder, "predictions.parquet", lambda rows: rows[0].update(question="q9"))


def document(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads((folder / "evaluation.json").read_text())
    change(content)
    (folder / "evaluation.json").write_text(json.dumps(content))
    retouch(folder)


def other_host(folder: Path) -> None:
    document(folder, lambda content: content["shards"][0]["worker"].update(host="elsewhere"))


def other_weights(folder: Path) -> None:
    document(folder, lambda content: content["model_revision"].update(weights_digest="ab" * 32))


def other_specification(folder: Path) -> None:
    document(folder, lambda content: content["specification"]["model"].update(name="better"))


def a_float(folder: Path) -> None:
    document(folder, lambda content: content["specification"]["model"].update(name=0.5))


def from_another_file(folder: Path) -> None:
    document(folder, lambda content: content["variant_set"].update(content={"templates": []}))


def recorded(folder: Path) -> None:
    document(folder, lambda content: content["evaluation"].update(recorded=True))


def recorded_in_the_first_format(folder: Path) -> None:
    document(folder, lambda content: content["evaluation"].update(recorded=True, seal_version=1))


def recorded_as_a_word(folder: Path) -> None:
    document(folder, lambda content: content["evaluation"].update(recorded="yes"))


def newer(folder: Path) -> None:
    document(folder, lambda content: content.update(format_version=99))


def half(folder: Path) -> None:
    document(folder, lambda content: content.pop("shards"))


def a_byte(folder: Path) -> None:
    with (folder / "predictions.parquet").open("ab") as file:
        file.write(b"\x00")


def remove(folder: Path) -> None:
    (folder / "evaluation_questions.parquet").unlink()


def manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads((folder / MANIFEST).read_text())
    change(content)
    (folder / MANIFEST).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


def stray(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder.parent / "secret").write_text("secret")
        entry = {"file": name, "bytes": 6, "sha256": sha256_file(folder.parent / "secret")}
        manifest(folder, lambda content: content["files"].append(entry))

    return change


def a_link(folder: Path) -> None:
    target = folder.parent / "elsewhere.parquet"
    shutil.move(folder / "metrics.parquet", target)
    (folder / "metrics.parquet").symlink_to(target)


def a_link_inside(folder: Path) -> None:
    shutil.move(folder / "metrics.parquet", folder / "copy.parquet")
    (folder / "metrics.parquet").symlink_to(folder / "copy.parquet")


def unlist(folder: Path) -> None:
    manifest(folder, lambda content: content["files"].pop(3))


def add(folder: Path) -> None:
    (folder / "more.parquet").write_bytes(b"more")


def a_folder_more(folder: Path) -> None:
    (folder / "more").mkdir()


def a_remark(folder: Path) -> None:
    manifest(folder, lambda content: content.update(remark="the best model"))


def another_version(folder: Path) -> None:
    manifest(folder, lambda content: content.update(format_version=2))


def no_parquet(folder: Path) -> None:
    (folder / "metrics.parquet").write_text("no table")
    retouch(folder)


def a_bomb(folder: Path) -> None:
    bombs.repeated_text(folder, 260).rename(folder / "questions.parquet")
    retouch(folder)


def no_json(folder: Path) -> None:
    (folder / MANIFEST).write_text("{")


REFUSED: list[tuple[Change, type[ShuffleboardError], str]] = [
    (right_answers, SealError, "the seal cannot be reproduced: question q2 is not as it was sealed"),
    (other_text, SealError, "question q0 is not as it was sealed"),
    (other_key, SealError, "question q0 is not as it was sealed"),
    (other_question, IngestError, "questions.parquet: its questions are not those that the specification names"),
    (other_metric, SealError, r"metric accuracy .* is 0.99 in the folder"),
    (one_prediction_less, SealError, "question q3 is not as it was sealed"),
    (one_prediction_twice, IngestError, "a value is missing or has the wrong type"),
    (no_replicate, IngestError, "a value is missing or has the wrong type .'replicate'"),
    (ask_unknown_question, IngestError, "predictions.parquet: question 'q9' was not asked"),
    (other_host, SealError, "what evaluation.json states of the evaluation and its shards is not as it was sealed"),
    (other_weights, IngestError, "the model's digests and settings are not those that the specification names"),
    (other_specification, IngestError, "its specification does not match its digest"),
    (recorded, SealError, "what evaluation.json states of the evaluation and its shards is not as it was sealed"),
    (recorded_in_the_first_format, IngestError, "has 'recorded', which a seal of format 1 does not cover"),
    (recorded_as_a_word, IngestError, "a value is missing or has the wrong type"),
    (a_float, IngestError, "a value is missing or has the wrong type .a specification holds a float"),
    (from_another_file, IngestError, "what the variants read from a file does not match its digest"),
    (newer, IngestError, "evaluation.json: has folder format 99, and this version reads folder format 1; upgrade"),
    (half, IngestError, "has no 'shards' of the right kind"),
    (a_byte, IngestError, "predictions.parquet: is not the file that manifest.json lists"),
    (add, IngestError, "more.parquet: is not a file that manifest.json lists"),
    (a_folder_more, IngestError, "more: is not a file that manifest.json lists"),
    (a_remark, IngestError, "manifest.json: is not the manifest of these files"),
    (another_version, IngestError, "manifest.json: has export format 2, and this version reads export format 1"),
    (remove, IngestError, "evaluation_questions.parquet: is missing"),
    (stray("../secret"), IngestError, r"'../secret' is outside the folder"),
    (stray("a/../../secret"), IngestError, "is outside the folder"),
    (stray("..\\secret"), IngestError, "is outside the folder"),
    (stray("file:///etc/passwd"), IngestError, "is missing"),
    (stray("/etc/hostname"), IngestError, "is outside the folder"),
    (stray("x" * 5000), IngestError, "is outside the folder"),
    (stray(""), IngestError, "is outside the folder"),
    (a_link, IngestError, "is a link"),
    (a_link_inside, IngestError, "is a link"),
    (unlist, IngestError, "metrics.parquet: is missing in manifest.json"),
    (no_parquet, IngestError, "metrics.parquet: cannot be read as Parquet"),
    (
        a_bomb,
        IngestError,
        r"questions.parquet: needs \d+ bytes or more when it is unpacked, over the limit of 268435456",
    ),
    (no_json, IngestError, "cannot be read as JSON"),
]


@pytest.mark.long
def test_whatever_is_not_as_it_was_is_refused_and_nothing_is_stored(
    sqlite_proof: Registry, postgresql_database: str, tmp_path: Path
) -> None:
    engine, population = sqlite_proof
    target = get_engine(postgresql_database)
    folder = run_export(engine, population.evaluation, tmp_path)
    before = table_counts(target)
    for number, (change, kind, message) in enumerate(REFUSED):
        touched = tmp_path / str(number) / "exported"
        shutil.copytree(folder, touched)
        change(touched)
        with pytest.raises(kind, match=message):
            import_folder(target, touched)
        assert table_counts(target) == before
    assert import_folder(target, folder)


def test_another_replicate_of_the_same_number_is_not_overwritten(
    sqlite_proof: Registry, postgresql_proof: Registry, tmp_path: Path
) -> None:
    engine, population = sqlite_proof
    folder = run_export(engine, population.evaluation, tmp_path)
    with pytest.raises(IngestError, match="is replicate 0 of the same specification, with other results"):
        import_folder(postgresql_proof[0], folder)
    again = submit_and_score(engine, "cyclic", new_replicate=True)
    # A replicate with a new number goes next to the others.
    assert import_folder(postgresql_proof[0], run_export(engine, again, tmp_path, "again"))
    with read_session(postgresql_proof[0]) as session:
        assert verify_all(session)["ok"]


def test_only_what_is_sealed_and_may_be_seen_is_exported(sqlite_proof: Registry, tmp_path: Path) -> None:
    engine, population = sqlite_proof
    with write_session(engine) as session:
        session.execute(BenchmarkVersion.__table__.update().values(visibility="hidden"))  # type: ignore[attr-defined]
    settings = get_settings()
    with pytest.raises(UsageError, match="on a benchmark that is hidden"):
        export_evaluation(engine, settings, population.evaluation, tmp_path / "exported", "members")
    assert export_evaluation(engine, settings, population.evaluation, tmp_path / "exported", "all")["files"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


# Killed at any point

POINTS = 6
"""Least number of steps at which a process is killed."""


def exporting(engine: Engine, evaluation_id: int, folder: Path) -> None:
    export_evaluation(engine, get_settings(), evaluation_id, folder)


def importing(engine: Engine, folder: Path) -> None:
    import_evaluation(engine, folder)


@pytest.mark.long_on("postgresql")
def test_an_export_that_is_killed_leaves_no_folder_or_a_whole_one(proof: Registry, tmp_path: Path) -> None:
    engine, population = proof
    first = kill_at(engine, 20, exporting, population.evaluation, tmp_path / "first")
    assert (first, (tmp_path / "first").exists()) == (0, False)
    for name in ("second", "third"):  # the first of them writes the registry's own folder
        steps = kill_at(engine, 0, exporting, population.evaluation, tmp_path / name)
    for number in range(1, POINTS + 1):
        folder = tmp_path / str(number) / "exported"
        at = max(1, steps * number // POINTS)
        assert kill_at(engine, at, exporting, population.evaluation, folder) == 0
        assert not folder.exists() or find_changed_files(folder) == {}, at
        if not folder.exists():
            exporting(engine, population.evaluation, folder)
        assert json.loads((folder / MANIFEST).read_text())["seal"] == seal_of(engine, population.evaluation)
    with read_session(engine) as session:
        assert verify_all(session)["ok"]


@pytest.mark.long
def test_an_import_that_is_killed_stores_nothing_or_all_of_it(engines: tuple[Registry, Engine], tmp_path: Path) -> None:
    (engine, population), other = engines
    folder = run_export(engine, population.evaluation, tmp_path)
    before = table_counts(other)
    at = 8
    while not kill_at(other, at, importing, folder):
        # The process was killed before the commit, or after it while the boards were updated.
        with read_session(other) as session:
            stored = session.scalars(select(Evaluation.seal)).all()
            assert stored == [] or verify_all(session)["ok"], at
        assert stored or table_counts(other) == before, at
        at = at * 3 // 2
    assert at > 8 * (3 / 2) ** POINTS
    imported, new = import_evaluation(other, folder)
    assert not new
    with read_session(other) as session:
        assert verify_evaluation(session, imported)["problems"] == []
        assert session.scalars(select(Evaluation.id)).all() == [imported]
