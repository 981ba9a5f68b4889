"""Exports to Parquet, CSV and JSON Lines, read by pandas and DuckDB and compared with SQL."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import text

from registry.benchmarks.canary import canary, canary_id
from registry.db import read_session
from registry.errors import NotFoundError, UsageError
from registry.exchange.exports import FORMATS, ExportRequest, export, writing
from registry.exchange.exports import relations as reading
from registry.exchange.exports.relations import RELATIONS, TIME
from tests.exports.conftest import ODD, TEXTS, Filled
from tests.support.commands import shuffleboard, shuffleboard_json

TABLES = ("parquet", "csv", "jsonl")

PANDAS: Mapping[str, Callable[[Path], pd.DataFrame]] = {
    "parquet": pd.read_parquet,
    "csv": lambda path: pd.read_csv(path, keep_default_na=False, na_values=[""]),
    "jsonl": lambda path: pd.read_json(path, lines=True, dtype=False, precise_float=True),
}
DUCKDB: Mapping[str, str] = {
    "parquet": "read_parquet('{}')",
    "csv": "read_csv('{}', header = true, allow_quoted_nulls = false)",
    "jsonl": "read_json('{}')",
}


def _rows(path: Path, format_: str, columns: str, order: str) -> list[tuple[Any, ...]]:
    """Return the rows of a file as DuckDB reads them."""
    query = f"SELECT {columns} FROM {DUCKDB[format_].format(path)} ORDER BY {order}"
    return duckdb.sql(query).fetchall()


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


@pytest.mark.parametrize("format_", TABLES)
def test_pandas_and_duckdb_read_what_sql_says(filled: Filled, format_: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = export(filled.engine, ExportRequest(format_), out)
    with read_session(filled.engine) as session:
        for entry in manifest["files"]:
            path = out / entry["file"]
            frame = PANDAS[format_](path)
            # An empty file of JSON Lines has no names of columns.
            if entry["rows"] or format_ != "jsonl":
                assert list(frame.columns) == [column["name"] for column in entry["columns"]], entry["file"]
            relation = entry.get("view")
            if relation is not None:
                ids = "" if entry["relation"] == "published_results" else "WHERE evaluation_id IN (:odd, :other)"
                if relation == "option_probability":
                    ids += " AND probability IS NOT NULL"
                count = session.scalar(
                    text(f"SELECT count(*) FROM {relation} {ids}"), {"odd": filled.odd, "other": filled.other}
                )
                assert len(frame) == entry["rows"] == count, entry["file"]
            assert _rows(path, format_, "count(*)", "1") == [(entry["rows"],)], entry["file"]
        metrics = session.execute(
            text("SELECT metric, value FROM evaluation_metrics WHERE evaluation_id = :id AND scope = 'all'"),
            {"id": filled.odd},
        )
        expected = {row.metric: row.value for row in metrics}
        predictions = session.execute(
            text(
                "SELECT external_id, variant, chosen_position, correct, entropy FROM prediction_detail "
                "WHERE evaluation_id = :id ORDER BY external_id, variant"
            ),
            {"id": filled.odd},
        ).all()
    frame = PANDAS[format_](out / f"evaluation_metrics.{format_}")
    frame = frame[(frame["evaluation_id"] == filled.odd) & (frame["scope"] == "all")]
    for metric, value in zip(frame["metric"], frame["value"], strict=True):
        assert _missing(value) if expected[metric] is None else value == expected[metric], metric
    rows = _rows(
        out / f"predictions.{format_}",
        format_,
        "CAST(external_id AS VARCHAR), variant, chosen_position, CAST(correct AS BOOLEAN), entropy, evaluation_id",
        "1, 2",
    )
    # A reader of CSV takes "007" for a number by default.
    names = {"7": "007"} if format_ == "csv" else {}
    assert [(names.get(row[0], row[0]), *row[1:5]) for row in rows if row[5] == filled.odd] == [
        (row.external_id, row.variant, row.chosen_position, bool(row.correct), row.entropy) for row in predictions
    ]


@pytest.mark.parametrize("format_", TABLES)
def test_texts_that_look_like_something_else_stay_texts(sqlite_filled: Filled, format_: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(sqlite_filled.engine, ExportRequest(format_), out)
    questions = PANDAS[format_](out / f"questions.{format_}")
    options = [json.loads(value) if format_ == "csv" else list(value) for value in questions["options"]]
    assert options == [question["options"] for question in ODD]
    assert list(questions["text"]) == [question["question"] for question in ODD]
    assert questions["subject"][0] == "NA"
    assert _missing(questions["subject"][1])
    path = out / f"predictions.{format_}"
    predictions = PANDAS[format_](path)
    of_m = predictions[predictions["evaluation_id"] == sqlite_filled.odd]
    # pandas reads an empty cell of a CSV as missing, quoted or not; DuckDB distinguishes the two.
    expected = ["" if _missing(value) else value for value in of_m["generation"]]
    assert expected == TEXTS
    texts = duckdb.sql(
        f"SELECT generation FROM {DUCKDB[format_].format(path)} WHERE evaluation_id = {sqlite_filled.odd} "
        "ORDER BY question_id, variant"
    ).fetchall()
    assert [row[0] for row in texts] == TEXTS
    chosen = duckdb.sql(
        f"SELECT chosen_position, chosen_option_text FROM {DUCKDB[format_].format(path)} "
        f"WHERE evaluation_id = {sqlite_filled.odd} ORDER BY question_id, variant"
    ).fetchall()
    assert [row[0] for row in chosen] == [0, 2, 1, 0, None, 1, 0, 2, 1]
    assert [row[1] for row in chosen][:5] == ["None", "None", "None", "null", None]


def test_both_engines_export_the_same_values_of_the_same_types(
    sqlite_filled: Filled, postgresql_filled: Filled, tmp_path: Path
) -> None:
    tables: list[dict[str, Any]] = []
    for filled in (sqlite_filled, postgresql_filled):
        out = tmp_path / filled.engine.dialect.name
        manifest = export(filled.engine, ExportRequest("parquet", "all"), out)
        written = {entry["file"] for entry in manifest["files"]}
        assert {path.name for path in out.iterdir()} == {*written, "manifest.json", "README.md"}
        tables.append({name: pq.read_table(out / name) for name in written})
    one, other = tables
    assert one.keys() == other.keys()
    for name, table in one.items():
        assert table.schema == other[name].schema, name
        # Times, and values computed from times, differ between engines.
        compared = [
            field.name for field in table.schema if RELATIONS[name.partition(".")[0]].type_of(field.name) != TIME
        ]
        for column in compared:
            values, others = table[column].to_pylist(), other[name][column].to_pylist()
            if pa.types.is_float64(table.schema.field(column).type):
                # Sums and quotients of SQL differ in the last digits.
                assert values == pytest.approx(others, abs=1e-12), f"{name} {column}"
            else:
                assert values == others, f"{name} {column}"


def test_small_batches_write_the_same_rows_in_more_row_groups(
    sqlite_filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(sqlite_filled.engine, ExportRequest("parquet"), tmp_path / "one")
    monkeypatch.setattr(reading, "BATCH", 2)
    seen: list[int] = []
    export(
        sqlite_filled.engine, ExportRequest("parquet"), tmp_path / "other", lambda _what, done, _of: seen.append(done)
    )
    for name in ("predictions", "questions", "leaderboard", "option_probability"):
        one, other = (pq.ParquetFile(tmp_path / folder / f"{name}.parquet") for folder in ("one", "other"))
        assert one.read().equals(other.read())
        assert (one.num_row_groups, other.num_row_groups) == (1, math.ceil(one.metadata.num_rows / 2))
    assert {2, 4, 6, 8} < set(seen)


def test_the_manifest_says_what_was_written_and_the_readme_names_every_column(
    sqlite_filled: Filled, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    manifest = export(sqlite_filled.engine, ExportRequest("csv", code_version="1.2.3+abc"), out)
    assert json.loads((out / "manifest.json").read_text(encoding="utf-8")) == manifest
    readme = (out / "README.md").read_text(encoding="utf-8")
    for entry in manifest["files"]:
        content = (out / entry["file"]).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
        section = readme.partition(f"### {entry['file']}\n")[2].partition("\n### ")[0]
        assert all(f"| `{column['name']}` |" in section for column in entry["columns"])
    assert manifest["code_version"] == "1.2.3+abc"
    assert len(manifest["schema_revision"]) == 12
    (benchmark,) = manifest["benchmarks"]
    assert benchmark["canary"] in readme
    frame = PANDAS["csv"](out / "questions.csv")
    assert set(frame["canary"]) == {benchmark["canary"]} == {canary(benchmark["content_digest"])}


def test_a_canary_depends_on_the_content_alone_and_never_changes() -> None:
    assert canary_id("0" * 64) == "f0fb772a-052c-5398-be69-21cde4bfdc8d"
    assert canary_id("1" + "0" * 63) != canary_id("0" * 64)
    assert canary("0" * 64).endswith(f" shuffleboard canary {canary_id('0' * 64)}")


@pytest.mark.parametrize(
    ("audience", "benchmarks"),
    [("public", {"odd"}), ("members", {"odd", "club"}), ("all", {"odd", "club", "secret"})],
)
def test_an_audience_gets_what_it_may_see(filled: Filled, audience: Any, benchmarks: set[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = export(filled.engine, ExportRequest("jsonl", audience), out)
    assert {item["benchmark"] for item in manifest["benchmarks"]} == benchmarks
    visible = {"odd": [filled.odd, filled.other], "club": [filled.club], "secret": [filled.secret]}
    ids = {evaluation for name in benchmarks for evaluation in visible[name]}
    for entry in manifest["files"]:
        names = {column["name"] for column in entry["columns"]}
        rows = [json.loads(line) for line in (out / entry["file"]).read_text(encoding="utf-8").split("\n") if line]
        if "evaluation_id" in names:
            assert {row["evaluation_id"] for row in rows} <= ids, entry["file"]
        if entry["relation"] == "questions":
            assert {row["benchmark"] for row in rows} == benchmarks
    content = "".join(path.read_text(encoding="utf-8") for path in out.iterdir())
    assert ("secret" in content) == (audience == "all")


def test_filters_choose_evaluations_and_the_questions_they_are_of(sqlite_filled: Filled, tmp_path: Path) -> None:
    def ids(out: str, **filters: Any) -> tuple[set[int], set[str]]:
        folder = tmp_path / out
        manifest = export(sqlite_filled.engine, ExportRequest("parquet", **filters), folder)
        assert "published_results" not in {entry["relation"] for entry in manifest["files"]}
        evaluation_ids = pd.read_parquet(folder / "predictions.parquet")["evaluation_id"]
        return set(evaluation_ids), {item["benchmark"] for item in manifest["benchmarks"]}

    assert ids("a", evaluations=(sqlite_filled.other,)) == ({sqlite_filled.other}, {"odd"})
    assert ids("b", models=("m",)) == ({sqlite_filled.odd}, {"odd"})
    everyone = {"audience": "all"}
    assert ids("c", models=("m",), **everyone) == ({sqlite_filled.odd, sqlite_filled.club}, {"odd", "club"})
    assert ids("d", benchmarks=("club",), **everyone) == ({sqlite_filled.club}, {"club"})
    assert ids("e", benchmarks=("odd", "club"), models=("n@1",), **everyone) == ({sqlite_filled.other}, {"odd"})


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"benchmarks": ("club",)}, r"benchmark club is not for the audience 'public'; --audience members includes it"),
        (
            {"benchmarks": ("secret",), "audience": "members"},
            r"benchmark secret is not .* 'members'; --audience all includes",
        ),
        ({"evaluations": (4,)}, r"evaluation 4 is not for the audience 'public'; --audience all includes it"),
        ({"evaluations": (99,)}, r"no evaluation 99"),
        ({"benchmarks": ("nothing",)}, r"no benchmark 'nothing'; to add it: .*; known: "),
        ({"models": ("nobody",)}, r"no model 'nobody'"),
        ({"models": ("m",), "evaluations": (2,)}, r"no evaluation matches all the filters"),
        ({"models": ("n",), "benchmarks": ("club",), "audience": "members"}, r"no evaluation matches all"),
    ],
)
def test_a_filter_that_names_nothing_visible_says_why(
    sqlite_filled: Filled, filters: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(NotFoundError, match=message):
        export(sqlite_filled.engine, ExportRequest("csv", **filters), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_refused_and_an_empty_one_taken(sqlite_filled: Filled, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"taken: already contains files; name a new folder"):
        export(sqlite_filled.engine, ExportRequest("csv"), taken)
    with pytest.raises(UsageError, match=r"notes\.txt: is not a folder"):
        export(sqlite_filled.engine, ExportRequest("csv"), taken / "notes.txt")
    (tmp_path / "empty").mkdir()
    export(sqlite_filled.engine, ExportRequest("csv"), tmp_path / "empty")
    assert (tmp_path / "empty" / "manifest.json").exists()
    with pytest.raises(UsageError, match=r"cannot be written \(.*\); name another folder"):
        export(sqlite_filled.engine, ExportRequest("csv"), taken / "notes.txt" / "out")
    with pytest.raises(UsageError, match=r"format 'xml' is unknown; use parquet, csv, jsonl"):
        export(sqlite_filled.engine, ExportRequest("xml"), tmp_path / "other")


def test_a_failure_half_way_leaves_nothing(
    sqlite_filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        message = "disk full"
        raise RuntimeError(message)

    folder = tmp_path / "here"
    monkeypatch.setattr(writing, "readme", fail)
    with pytest.raises(RuntimeError, match="disk full"):
        export(sqlite_filled.engine, ExportRequest("csv"), folder / "out")
    assert list(folder.iterdir()) == []


def test_the_command_prints_its_manifest_and_keeps_progress_off_stdout(sqlite_filled: Filled, tmp_path: Path) -> None:
    url = {"database_url": sqlite_filled.url}
    out = tmp_path / "out"
    manifest = shuffleboard_json("export", "--format", "jsonl", "--out", out, "--benchmark", "odd", **url)
    assert manifest == json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["filters"] == {"evaluations": [], "benchmarks": ["odd"], "models": []}
    again = shuffleboard("export", "--format", "jsonl", "--out", out, status=2, **url)
    assert "already contains files" in again.stderr
    assert set(FORMATS) >= {"parquet", "csv", "jsonl", "every-eval-ever"}


@pytest.mark.one_engine
def test_datasette_is_told_what_every_column_of_the_leaderboard_means(sqlite_filled: Filled) -> None:
    described = json.loads(shuffleboard("db", "describe").stdout)["databases"]["shuffleboard"]["tables"]["leaderboard"]
    with read_session(sqlite_filled.engine) as session:
        columns = session.execute(text("SELECT * FROM leaderboard LIMIT 0")).keys()
    assert described["columns"].keys() == set(columns)
    assert described["columns"]["model"] == "Name of the model. Text; NULL: never."
    assert described["columns"]["worst_accuracy"] == (
        "Worst accuracy: Questions answered right under every tested order. Fraction; NULL: not sealed, or undefined."
    )


def test_positions_without_a_probability_are_left_out(filled: Filled, tmp_path: Path) -> None:
    export(filled.engine, ExportRequest("csv"), tmp_path / "out")
    probabilities = PANDAS["csv"](tmp_path / "out" / "option_probability.csv")
    values = ["logprob_nats", "probability", "logprob_without_question_nats"]
    assert not probabilities[values].isna().all(axis=1).any()
    with read_session(filled.engine) as session:
        stored = session.scalar(text("SELECT count(*) FROM option_probability WHERE probability IS NOT NULL"))
        everything = session.scalar(text("SELECT count(*) FROM option_probability"))
    assert stored == len(probabilities) < everything
