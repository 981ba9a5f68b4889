"""One evaluation as an RO-Crate: from one database engine to the other and back, and what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rocrate.rocrate import ROCrate
from sqlalchemy import Engine, select

from registry import chain
from registry.db import get_engine, read_session, write_session
from registry.digests import sha256_file
from registry.errors import IngestError, SealError, ShuffleboardError, UsageError
from registry.exchange.crates import export_crate, import_crate
from registry.exchange.crates.layout import FILES, METADATA
from registry.leaderboard.rows import leaderboard_page
from registry.proof.provenance import provenance_document
from registry.proof.withdrawals import withdraw, withdrawal_of
from registry.scores.clusters import clusters_of
from registry.tables import BenchmarkVersion, ChainLink, Evaluation, EvaluationMetric, EvaluationSource, Question
from registry.verification import alike, verify_all, verify_evaluation
from tests import bombs
from tests.population import predictions, table_counts
from tests.proof.commands import run
from tests.proof.population import Population, submit_and_score

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
    """Of the questions in the order of their names."""
    with read_session(engine) as session:
        version = session.get_one(Evaluation, evaluation_id).benchmark_version_id
        asked = select(Question.id).filter_by(benchmark_version_id=version, few_shot=False).order_by(Question.ordinal)
        found = clusters_of(session, list(session.scalars(asked)))
    assert found is not None
    return found.tolist()


def archived(engine: Engine, evaluation_id: int, folder: Path, name: str = "crate") -> Path:
    with read_session(engine) as session:
        export_crate(session, evaluation_id, folder / name)
    return folder / name


@pytest.fixture(params=[("sqlite", "postgresql"), ("postgresql", "sqlite")], ids="-to-".join)
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Registry, Engine]:
    """A registry that holds something, and an empty one on the other engine."""
    one, other = request.param
    return request.getfixturevalue(f"{one}_proof"), get_engine(request.getfixturevalue(f"{other}_database"))


def test_an_evaluation_has_the_same_seal_and_metrics_in_another_registry(
    engines: tuple[Registry, Engine], tmp_path: Path
) -> None:
    (engine, population), other = engines
    crate = archived(engine, population.evaluation, tmp_path)
    imported = import_crate(other, crate)
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
        # The source of the copies did not come along; its seal did.
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


def test_a_crate_of_a_crate_is_the_same(engines: tuple[Registry, Engine], tmp_path: Path) -> None:
    (engine, population), other = engines
    first = archived(engine, population.evaluation, tmp_path, "first")
    second = archived(other, import_crate(other, first), tmp_path, "second")
    for name in FILES:
        if name.endswith(".parquet") and name != "metrics.parquet":  # whose last bits an engine's sums decide
            tables = [pq.read_table(crate / name) for crate in (first, second)]
            numbers = {"question_id", "reused_from_evaluation_id"} & set(tables[0].column_names)
            assert tables[0].drop_columns(list(numbers)).equals(tables[1].drop_columns(list(numbers))), name
    documents = [json.loads((crate / "evaluation.json").read_text()) for crate in (first, second)]
    said = [json.loads((crate / "registry.json").read_text()) for crate in (first, second)]
    assert alike(*(one.pop("analyses") for one in said))
    assert said[0]["withdrawals"] == said[1]["withdrawals"]
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
    other = get_engine(postgresql_database)
    source = import_crate(other, archived(engine, population.source, tmp_path, "source"))
    imported = import_crate(other, archived(engine, population.evaluation, tmp_path))
    with read_session(other) as session:
        (row,) = session.scalars(select(EvaluationSource).filter_by(evaluation_id=imported))
        assert (row.seal, row.predictions) == (seal_of(engine, population.source), 4)
        assert provenance_document(session, imported)["copies"]["sources"][0]["evaluation"] == source
        assert verify_all(session)["ok"]


def test_the_crate_is_one_for_other_programs_too(sqlite_proof: Registry, tmp_path: Path) -> None:
    engine, population = sqlite_proof
    crate = archived(engine, population.evaluation, tmp_path)
    read = ROCrate(str(crate))
    assert read.root_dataset["seal"] == seal_of(engine, population.evaluation)
    metadata = json.loads((crate / METADATA).read_text())
    by_id = {entity["@id"]: entity for entity in metadata["@graph"]}
    assert by_id[METADATA]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    root = by_id["./"]
    assert {"name", "description", "datePublished", "license"} <= root.keys()
    assert {part["@id"] for part in root["hasPart"]} == FILES.keys()
    for name in FILES:
        assert by_id[name]["sha256"] == sha256_file(crate / name)
        assert by_id[name]["contentSize"] == str((crate / name).stat().st_size)
    assert sorted(path.name for path in crate.iterdir()) == sorted([METADATA, *FILES])


def test_the_command_line_writes_and_reads_crates(
    sqlite_proof: Registry, postgresql_database: str, tmp_path: Path
) -> None:
    engine, population = sqlite_proof
    other = get_engine(postgresql_database)
    written = run(
        engine, "evaluations", "export", population.evaluation, "--out", tmp_path / "crate", "--json"
    ).document
    assert written["seal"] == seal_of(engine, population.evaluation)
    imported = run(other, "evaluations", "import", tmp_path / "crate").document["evaluation"]
    assert seal_of(other, imported) == written["seal"]
    again = run(other, "evaluations", "import", tmp_path / "crate" / METADATA)
    assert (again.code, f"is already imported: evaluation {imported}" in again.stderr) == (1, True)
    assert run(other, "evaluations", "import", tmp_path / "crate", "--model", "m").code == 2
    assert run(other, "evaluations", "import", tmp_path / "none.jsonl", "--model", "m").code == 2
    assert "already exists" in run(engine, "evaluations", "export", population.evaluation, "--out", tmp_path).stderr


def test_a_withdrawal_goes_along(sqlite_proof: Registry, postgresql_database: str, tmp_path: Path) -> None:
    engine, population = sqlite_proof
    other = get_engine(postgresql_database)
    with write_session(engine) as session:
        withdraw(session, population.source, "wrong", actor="somebody")
    imported = import_crate(other, archived(engine, population.source, tmp_path))
    with read_session(other) as session:
        row = withdrawal_of(session, imported)
        assert row is not None
        assert (row.kind, row.reason, row.actor) == ("withdrawn", "wrong", "somebody")
        assert leaderboard_page(session).rows == []
        assert [link.kind for link in session.scalars(select(ChainLink).order_by(ChainLink.position))] == [
            "seal",
            "withdrawal",
        ]
        assert verify_all(session)["ok"]


# What is refused

Change = Callable[[Path], None]


def retouched(crate: Path, name: str) -> None:
    """Writes the file's new digest into the metadata, as somebody would who wants to deceive."""
    metadata = json.loads((crate / METADATA).read_text())
    for entity in metadata["@graph"]:
        if entity["@id"] == name:
            entity["sha256"] = sha256_file(crate / name)
    (crate / METADATA).write_text(json.dumps(metadata))


def with_rows(crate: Path, name: str, change: Callable[[list[dict[str, Any]]], None]) -> None:
    table = pq.read_table(crate / name)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), crate / name)
    retouched(crate, name)


def right_answers(crate: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        wrong = next(row for row in rows if row["question"] == "q2" and not row["correct"])
        wrong["correct"] = True

    with_rows(crate, "predictions.parquet", change)


def other_text(crate: Path) -> None:
    with_rows(crate, "predictions.parquet", lambda rows: rows[0].update(generation_text="I say nothing."))


def other_question(crate: Path) -> None:
    with_rows(crate, "questions.parquet", lambda rows: rows[0].update(text="Which is it?"))


def other_key(crate: Path) -> None:
    with_rows(crate, "questions.parquet", lambda rows: rows[0].update(extra='{"page": 4}'))


def other_metric(crate: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["metric"] == "accuracy")["value"] = 0.99

    with_rows(crate, "metrics.parquet", change)


def one_prediction_less(crate: Path) -> None:
    with_rows(crate, "predictions.parquet", lambda rows: rows.pop())


def one_prediction_twice(crate: Path) -> None:
    with_rows(crate, "predictions.parquet", lambda rows: rows.append(rows[-1]))


def no_replicate(crate: Path) -> None:
    document(crate, lambda content: content["evaluation"].pop("replicate"))


def of_an_unknown_question(crate: Path) -> None:
    with_rows(crate, "predictions.parquet", lambda rows: rows[0].update(question="q9"))


def document(crate: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads((crate / "evaluation.json").read_text())
    change(content)
    (crate / "evaluation.json").write_text(json.dumps(content))
    retouched(crate, "evaluation.json")


def other_host(crate: Path) -> None:
    document(crate, lambda content: content["shards"][0]["worker"].update(host="elsewhere"))


def other_weights(crate: Path) -> None:
    document(crate, lambda content: content["model_revision"].update(weights_digest="ab" * 32))


def other_specification(crate: Path) -> None:
    document(crate, lambda content: content["specification"]["model"].update(name="better"))


def a_float(crate: Path) -> None:
    document(crate, lambda content: content["specification"]["model"].update(name=0.5))


def from_another_file(crate: Path) -> None:
    document(crate, lambda content: content["variant_set"].update(content={"templates": []}))


def newer(crate: Path) -> None:
    document(crate, lambda content: content.update(version=99))


def half(crate: Path) -> None:
    document(crate, lambda content: content.pop("shards"))


def a_byte(crate: Path) -> None:
    with (crate / "predictions.parquet").open("ab") as file:
        file.write(b"\x00")


def gone(crate: Path) -> None:
    (crate / "evaluation_questions.parquet").unlink()


def metadata(crate: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    content = json.loads((crate / METADATA).read_text())
    change(content["@graph"])
    (crate / METADATA).write_text(json.dumps(content))


def stray(name: str) -> Change:
    def change(crate: Path) -> None:
        (crate.parent / "secret").write_text("secret")
        entry = {"@id": name, "@type": "File", "sha256": sha256_file(crate.parent / "secret")}
        metadata(crate, lambda graph: graph.append(entry))

    return change


def a_link(crate: Path) -> None:
    target = crate.parent / "elsewhere.parquet"
    shutil.move(crate / "metrics.parquet", target)
    (crate / "metrics.parquet").symlink_to(target)


def a_link_inside(crate: Path) -> None:
    shutil.move(crate / "metrics.parquet", crate / "copy.parquet")
    (crate / "metrics.parquet").symlink_to(crate / "copy.parquet")


def unlisted(crate: Path) -> None:
    metadata(crate, lambda graph: graph.remove(next(item for item in graph if item["@id"] == "metrics.parquet")))


def no_parquet(crate: Path) -> None:
    (crate / "metrics.parquet").write_text("no table")
    retouched(crate, "metrics.parquet")


def a_bomb(crate: Path) -> None:
    bombs.repeated_text(crate, 260).rename(crate / "questions.parquet")
    retouched(crate, "questions.parquet")


def no_json(crate: Path) -> None:
    (crate / METADATA).write_text("{")


REFUSED: list[tuple[Change, type[ShuffleboardError], str]] = [
    (right_answers, SealError, "the seal cannot be reproduced: question q2 is not as it was sealed"),
    (other_text, SealError, "question q0 is not as it was sealed"),
    (other_key, SealError, "question q0 is not as it was sealed"),
    (other_question, IngestError, "questions.parquet: its questions are not those that the specification names"),
    (other_metric, SealError, r"metric accuracy .* is 0.99 in the crate"),
    (one_prediction_less, SealError, "question q3 is not as it was sealed"),
    (one_prediction_twice, IngestError, "a value is missing or has the wrong type"),
    (no_replicate, IngestError, "a value is missing or has the wrong type .'replicate'"),
    (of_an_unknown_question, IngestError, "predictions.parquet: question 'q9' was not asked"),
    (other_host, SealError, "who scored its shards is not as it was sealed"),
    (other_weights, IngestError, "the model's digests and settings are not those that the specification names"),
    (other_specification, IngestError, "its specification does not match its digest"),
    (a_float, IngestError, "a value is missing or has the wrong type .a specification holds a float"),
    (from_another_file, IngestError, "what the variants read from a file does not match its digest"),
    (newer, IngestError, "has version 99; this code reads version 1"),
    (half, IngestError, "has no 'shards' of the right kind"),
    (a_byte, IngestError, r"predictions.parquet: is not the file that the metadata describes"),
    (gone, IngestError, "evaluation_questions.parquet: is missing"),
    (stray("../secret"), IngestError, r"'../secret' is outside the folder"),
    (stray("a/../../secret"), IngestError, "is outside the folder"),
    (stray("..\\secret"), IngestError, "is outside the folder"),
    (stray("file:///etc/passwd"), IngestError, "is missing"),
    (stray("/etc/hostname"), IngestError, "is outside the folder"),
    (stray("x" * 5000), IngestError, "is outside the folder"),
    (stray(""), IngestError, "is outside the folder"),
    (a_link, IngestError, "is a link"),
    (a_link_inside, IngestError, "is a link"),
    (unlisted, IngestError, "does not list metrics.parquet"),
    (no_parquet, IngestError, "metrics.parquet: cannot be read as Parquet"),
    (
        a_bomb,
        IngestError,
        r"questions.parquet: needs \d+ bytes or more when it is unpacked, over the limit of 268435456",
    ),
    (no_json, IngestError, "cannot be read as JSON"),
]


def test_whatever_is_not_as_it_was_is_refused_and_nothing_is_stored(
    sqlite_proof: Registry, postgresql_database: str, tmp_path: Path
) -> None:
    engine, population = sqlite_proof
    other = get_engine(postgresql_database)
    crate = archived(engine, population.evaluation, tmp_path)
    before = table_counts(other)
    for number, (change, kind, message) in enumerate(REFUSED):
        touched = tmp_path / str(number) / "crate"
        shutil.copytree(crate, touched)
        change(touched)
        with pytest.raises(kind, match=message):
            import_crate(other, touched)
        assert table_counts(other) == before
    assert import_crate(other, crate)


def test_another_replicate_of_the_same_number_is_not_overwritten(
    sqlite_proof: Registry, postgresql_proof: Registry, tmp_path: Path
) -> None:
    engine, population = sqlite_proof
    crate = archived(engine, population.evaluation, tmp_path)
    with pytest.raises(IngestError, match="is replicate 0 of the same specification, with other results"):
        import_crate(postgresql_proof[0], crate)
    again = submit_and_score(engine, "cyclic", new_replicate=True)
    # A replicate of its own number finds its place beside the others.
    assert import_crate(postgresql_proof[0], archived(engine, again, tmp_path, "again"))
    with read_session(postgresql_proof[0]) as session:
        assert verify_all(session)["ok"]


def test_only_what_is_sealed_and_may_be_seen_is_archived(sqlite_proof: Registry, tmp_path: Path) -> None:
    engine, population = sqlite_proof
    with write_session(engine) as session:
        session.execute(BenchmarkVersion.__table__.update().values(visibility="hidden"))  # type: ignore[attr-defined]
    with read_session(engine) as session:
        with pytest.raises(UsageError, match="on a benchmark that is hidden"):
            export_crate(session, population.evaluation, tmp_path / "crate", "members")
        assert export_crate(session, population.evaluation, tmp_path / "crate", "all")["files"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
