"""Ordinary queries, which return the same answers on both engines within the limits."""

import csv
import json
from io import BytesIO, StringIO
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from registry.db import get_engine, read_session
from registry.errors import QueryRefusedError
from registry.schema.audiences import Audience, audience_engine
from registry.schema.documented import load_documented_views
from registry.schema.selectables import view_of
from registry.sql import Queries, QueryResult, as_csv, as_json, as_parquet
from registry.sql.examples import EXAMPLES
from registry.sql.files import Files
from tests.docs.pages import DOCS, blocks
from tests.sql.conftest import Asked, run_query

HONEST = {
    "comments": "-- which?\nSELECT /* all */ model -- the name\nFROM leaderboard;",
    "quoted names": 'SELECT model AS "Modell (größtes)", 1 AS "a-b; DROP" FROM leaderboard',
    "texts with everything": "SELECT 'it''s; -- /* $1 :x ? \\ é '''",
    "an empty answer": "SELECT model FROM leaderboard WHERE model = 'nobody'",
    "lists": "SELECT unnest(shown), list_position(shown, answer), shown[1], len(shown) FROM prediction_detail",
    "times": "SELECT date_trunc('day', sealed_at), sealed_at + INTERVAL 1 DAY, current_date FROM leaderboard",
    "times with a zone": "SELECT now(), [now()] FROM leaderboard WHERE sealed_at < now()",
    "a digest": "SELECT prompt_digest FROM prediction_detail",
    "JSON": "SELECT engine_fingerprint->>'engine' FROM evaluation_provenance",
    "a pivot": "PIVOT (SELECT model, metric, value FROM evaluation_metrics JOIN leaderboard USING (evaluation_id) "
    "WHERE scope = 'all') ON metric IN ('accuracy', 'cora') USING first(value)",
}
"""Queries that need work of our process, which names columns, splits texts, or converts DuckDB's values."""


@pytest.mark.long_on("postgresql")
def test_honest_questions_are_answered(asked: Asked) -> None:
    documented = {f"sql.md: {block.text[:40]}": block.text for block in blocks(DOCS / "sql.md", "sql")}
    for name, query in (HONEST | EXAMPLES | documented).items():
        try:
            result = run_query(asked.settings, "public", query)
        except QueryRefusedError as error:
            pytest.fail(f"{name}: {error}")
        assert all(len(row) == len(result.columns) for row in result.rows), name
        assert not result.truncated, name


@pytest.mark.long_on("postgresql")
@pytest.mark.parametrize("audience", ["public", "members", "all"])
def test_each_view_has_the_rows_that_the_database_gives_its_audience(asked: Asked, audience: Audience) -> None:
    engine = get_engine(asked.settings.resolve_database_url())
    for first in ("all", audience):  # writing folders adds links to the chain, which is a view
        Files(engine, asked.settings).write(first)
    queries = Queries(engine, asked.settings)
    for view in load_documented_views():
        relation = view_of(view.name)
        names = tuple(column.name for column in relation.columns)
        quoted = ", ".join(f'"{name}"' for name in names)  # `at` is a keyword of DuckDB
        with read_session(audience_engine(engine, audience)) as session:
            expected = [[comparable(cell) for cell in row] for row in session.execute(select(relation))]
        answer = queries.ask(audience, f"SELECT {quoted} FROM {view.name}", "me").result
        assert answer.columns == names
        rows = [[comparable(cell) for cell in row] for row in answer.rows]
        assert sorted(rows, key=repr) == sorted(expected, key=repr), view.name


def comparable(cell: Any) -> Any:
    """Return a value in a form that both engines share, without the last bits of averages and JSON's spaces."""
    if hasattr(cell, "isoformat"):
        return f"{cell:%Y-%m-%dT%H:%M:%S.%fZ}"
    if isinstance(cell, str) and cell.startswith(("{", "[")):
        return comparable(json.loads(cell))
    if isinstance(cell, dict):
        return json.dumps(cell, sort_keys=True)
    if isinstance(cell, (list, tuple)):
        return [comparable(item) for item in cell]
    return cell if cell is None or isinstance(cell, (str, bool)) else f"{float(cell):.9g}"


@pytest.mark.one_engine
def test_rows_beyond_the_limit_are_left_out_and_said_to_be(asked: Asked) -> None:
    settings = asked.settings.model_copy(update={"sql_rows": 3})
    result = run_query(settings, "public", "SELECT variant FROM prediction_detail ORDER BY external_id, variant")
    assert [variant for (variant,) in result.rows] == [0, 1, 2]
    assert result.truncated
    assert result.notes == ("These are the first 3 rows; there are more.",)
    exactly = run_query(settings, "public", "SELECT variant FROM prediction_detail ORDER BY variant LIMIT 3")
    assert not exactly.truncated


@pytest.mark.one_engine
def test_rows_beyond_the_limit_and_cut_cells_are_reported(asked: Asked) -> None:
    settings = asked.settings.model_copy(update={"sql_bytes": 1000})
    result = run_query(settings, "public", "SELECT a.* FROM prediction_detail AS a, prediction_detail AS b")
    assert result.truncated
    assert len(json.dumps(result.rows, ensure_ascii=False)) <= 1000 + 2 * len(result.rows) + 2
    assert "1,000 bytes; there are more" in result.notes[0]
    settings = asked.settings.model_copy(update={"sql_cell_characters": 10})
    result = run_query(settings, "public", "SELECT 'abcdefghijklmnop' AS long, 'abcdefghij' AS just FROM leaderboard")
    assert result.rows == (("abcdefghij…", "abcdefghij"),)
    assert result.notes == ("1 cells were cut to 10 characters and end in ….",)


@pytest.mark.one_engine
def test_values_that_json_does_not_know_are_texts(asked: Asked) -> None:
    query = "SELECT 'NaN'::DOUBLE, '-Infinity'::DOUBLE, 10.0 / 4, sum(2), 2 ** 70, {'a': [1, NULL]} FROM leaderboard"
    result = run_query(asked.settings, "public", query)
    document = json.loads(as_json(result))
    assert document["rows"] == [["NaN", "-Infinity", 2.5, 2, 2.0**70, {"a": [1, None]}]]
    assert document["types"][2:4] == ["DOUBLE", "HUGEINT"]


def test_csv_keeps_formulas_from_running_and_numbers_as_they_are() -> None:
    rows = (("=1+1", -1.5, None, [1, "a"], True), ("plain, quoted", 2, "-x", {"k": 1}, False))
    text = as_csv(QueryResult(("@name", "b", "b", "d", "e"), rows, truncated=False, elapsed_s=0.0))
    assert list(csv.reader(StringIO(text))) == [
        ["'@name", "b", "b_2", "d", "e"],
        ["'=1+1", "-1.5", "", '[1, "a"]', "True"],
        ["plain, quoted", "2", "'-x", '{"k": 1}', "False"],
    ]


def test_parquet_keeps_types_and_numbers_repeated_names() -> None:
    rows = ((1, 0.5, "a", [1]), (2, None, 3, None))
    table = pq.read_table(BytesIO(as_parquet(QueryResult(("n", "n", "mixed", "list"), rows, False, 0.0))))
    assert table.to_pydict() == {"n": [1, 2], "n_2": [0.5, None], "mixed": ["a", "3"], "list": [[1], None]}
