"""Honest questions are answered, alike on both engines, and within the limits."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from registry.db import get_engine
from registry.errors import DatabaseError, QueryRefusedError
from registry.schema.audiences import Audience
from registry.schema.public_sql import as_csv, as_json, checked, documented_views, run_query
from registry.schema.public_sql.bounds import NUMERIC_SUMS
from registry.schema.public_sql.child import Answer, Question, ask_postgresql
from registry.schema.public_sql.guard import FUNCTIONS, Dialect
from registry.schema.public_sql.results import QueryResult
from registry.schema.views import VIEWS
from registry.settings import Settings
from tests.docs.pages import DOCS, Block, blocks, code, sections
from tests.sql.conftest import Asked

COMMON = {
    "a window": """
        SELECT model, benchmark, rank() OVER (PARTITION BY benchmark ORDER BY worst_accuracy DESC) AS place
        FROM leaderboard WHERE complete
    """,
    "a named window": "SELECT sum(times) OVER w FROM (SELECT 1 AS times) AS q WINDOW w AS (ORDER BY times)",
    "a moving frame": """
        SELECT variant, avg(accuracy) OVER (ORDER BY variant ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS smooth
        FROM run_accuracy WHERE scope = 'all'
    """,
    "several with": """
        WITH broken AS (SELECT evaluation_id, external_id FROM question_metrics WHERE worst_accuracy = 0),
            counted (evaluation, times) AS (SELECT evaluation_id, count(*) FROM broken GROUP BY evaluation_id)
        SELECT leaderboard.model, counted.times FROM counted
        JOIN leaderboard ON leaderboard.evaluation_id = counted.evaluation
    """,
    "with in a subquery": "SELECT * FROM (WITH q AS (SELECT model FROM leaderboard) SELECT model FROM q) AS inner_query",
    "filter": "SELECT count(*) FILTER (WHERE correct) AS right_ones, count(DISTINCT external_id) FROM prediction_detail",
    "sets": "SELECT model FROM leaderboard UNION SELECT model FROM board_standings EXCEPT SELECT 'a' ORDER BY 1",
    "a condition on groups": "SELECT scope FROM scope_metrics GROUP BY scope HAVING count(*) > 0 ORDER BY scope LIMIT 5 OFFSET 0",
    "case": "SELECT CASE WHEN accuracy > 0.5 THEN 'high' WHEN accuracy IS NULL THEN '?' ELSE 'low' END FROM leaderboard",
    "in, between, exists": """
        SELECT model FROM leaderboard AS l WHERE variants IN ('cyclic', 'full') AND accuracy BETWEEN 0 AND 1
        AND EXISTS (SELECT 1 FROM evaluation_metrics AS m WHERE m.evaluation_id = l.evaluation_id)
    """,
    "like": "SELECT DISTINCT scope FROM evaluation_metrics WHERE scope LIKE 'subject:%' AND NOT scope LIKE '%x!%' ESCAPE '!'",
    "joined texts": "SELECT model || ' on ' || benchmark || ' (' || variants || ')' AS label FROM leaderboard",
    "casts and rounding": "SELECT round(cast(worst_accuracy AS numeric), 2), cast(revision AS text) FROM leaderboard",
    "arithmetic": "SELECT -accuracy * 2 + 1 / 4.0 - 3 % 2, accuracy<>-1, .5e1 FROM leaderboard",
    "shares": """
        SELECT evaluation_id, round(100.0 * sum(CASE WHEN correct THEN 1 ELSE 0 END) / count(*), 1) AS percent
        FROM prediction_detail GROUP BY evaluation_id
    """,
    "powers of doubles": """
        SELECT power(1.0 - accuracy, 2), sqrt(accuracy * (1 - accuracy) / scored), exp(ln(accuracy + 1)), power(2, 10),
            exp(-0.5), power(1.5, 3), sqrt(2.0), ln(10), log(100)
        FROM leaderboard
    """,
    "deviations": """
        WITH mean AS (SELECT avg(accuracy) AS m FROM leaderboard)
        SELECT sum(power(accuracy - m, 2)) / count(*), sqrt(avg((accuracy - m) * (accuracy - m)))
        FROM leaderboard CROSS JOIN mean
    """,
    "entropy": "SELECT -sum(probability * ln(probability)) / ln(2) FROM option_probability WHERE probability > 0",
    "shares of shares": """
        WITH a AS (SELECT variant, count(*) AS n FROM prediction_detail GROUP BY variant),
            b AS (SELECT variant, n, 100.0 * n / sum(n) OVER () AS percent FROM a),
            c AS (SELECT variant, n * percent / 100.0 AS part, percent FROM b)
        SELECT variant, round(part * percent / 7.0, 3) FROM c
    """,
    "parts of texts": """
        SELECT substr(scope, 1, 8), substring(scope, 2), substr(external_id, length(external_id) - 1),
            replace(scope, ':', ' is '), upper(substr(scope, 1, 1)) || lower(substr(scope, 2))
        FROM question_metrics JOIN run_accuracy ON run_accuracy.evaluation_id = question_metrics.evaluation_id
    """,
    "comments": "-- which?\nSELECT /* all */ model -- the name\nFROM leaderboard;",
    "quoted names": 'SELECT model AS "Modell (größtes)", 1 AS "a-b; DROP" FROM leaderboard',
    "texts with everything": "SELECT 'it''s; -- /* $1 :x ? \\ é \u2028'''".replace("\u2028", ""),
    "a scalar subquery": "SELECT (SELECT max(accuracy) FROM leaderboard) - accuracy FROM leaderboard",
    "a natural join": "SELECT evaluation_id FROM evaluation_progress JOIN evaluation_seconds USING (evaluation_id)",
    "an empty answer": "SELECT model FROM leaderboard WHERE model = 'nobody'",
}
ONLY = {
    "postgresql": {
        "lists": "SELECT place.option, place.ordinality FROM prediction_detail CROSS JOIN LATERAL unnest(shown) WITH ORDINALITY AS place (option, ordinality)",
        "a place of a list": "SELECT shown[1], cardinality(shown) FROM prediction_detail",
        "values": "SELECT bin.low FROM (VALUES (0), (1)) AS bin (low)",
        "a lateral": "SELECT model, best.value FROM leaderboard AS l LEFT JOIN LATERAL (SELECT value FROM evaluation_metrics AS m WHERE m.evaluation_id = l.evaluation_id ORDER BY value DESC LIMIT 1) AS best ON true",
        "a median": "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY average_accuracy) FROM question_metrics",
        "distinct on": "SELECT DISTINCT ON (benchmark) benchmark, model FROM leaderboard ORDER BY benchmark, accuracy DESC",
        "times": "SELECT date_trunc('day', sealed_at), extract(year FROM sealed_at), sealed_at + interval '1 day', sealed_at AT TIME ZONE 'UTC', current_date FROM leaderboard",
        "a digest": "SELECT encode(prompt_digest, 'hex') FROM prediction_detail",
        "JSON": "SELECT engine_fingerprint->>'engine' FROM evaluation_provenance",
        "short casts": "SELECT accuracy::numeric(6, 3), split_part(scope, ':', 2), trim(' a ') FROM run_accuracy",
        "any": "SELECT 1 = ANY(shown) FROM prediction_detail",
        "numerics": "SELECT round(avg(accuracy)::numeric, 3) * 100 || '%', min(accuracy::numeric / 3), max(variant::numeric(10, 2)) FROM run_accuracy",
        "numbers in texts": "SELECT cast('1.5' AS numeric), cast(split_part(external_id, 'n', 2) AS numeric(20, 6)), to_number('1,000', '9,999') FROM question_metrics WHERE external_id = 'nobody'",
        "formats": "SELECT to_char(accuracy, 'FM990.000'), to_char(sealed_at, 'YYYY-MM-DD HH24:MI'), extract(epoch FROM sealed_at) / 86400 FROM leaderboard",
        "places": "SELECT substring(scope FROM position(':' IN scope) + 1), substring(scope FROM 2 FOR 3), left(scope, 3) FROM run_accuracy",
        "correlation": "SELECT corr(accuracy, worst_accuracy), stddev_samp(accuracy) FROM leaderboard",
    },
    "sqlite": {
        "lists": "SELECT place.key, place.value FROM prediction_detail, json_each(prediction_detail.shown) AS place",
        "a place of a list": "SELECT json_extract(shown, '$[0]'), json_array_length(shown) FROM prediction_detail",
        "times": "SELECT strftime('%Y', sealed_at), date(sealed_at) FROM leaderboard",
        "a digest": "SELECT lower(hex(prompt_digest)) FROM prediction_detail",
        "a list of names": "SELECT group_concat(model, ', ') FROM leaderboard",
    },
}


@pytest.mark.parametrize("query", COMMON.values(), ids=COMMON)
def test_the_guard_lets_honest_questions_pass_on_both_engines(query: str) -> None:
    for dialect in FUNCTIONS:
        assert checked(query, dialect)


def asked_here(question: Question) -> dict[str, Any]:
    """What the process that a query has answers, from this one: loading the driver takes longer than the query."""
    answer = Answer(question)
    ask_postgresql(question, answer)
    return json.loads(answer.document())


def test_honest_questions_are_answered(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    if asked.engine == "postgresql":
        monkeypatch.setattr("registry.schema.public_sql.runner._asked", asked_here)
    queries = [*COMMON.values(), *ONLY[asked.engine].values()]
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda query: run_query(asked.settings, "public", query), queries))
    for query, result in zip(queries, results, strict=True):
        assert all(len(row) == len(result.columns) for row in result.rows), query
        assert not result.truncated, query


def test_honest_questions_are_answered_where_nothing_is_hidden(sqlite_template: Path) -> None:
    # Views are plain there, and SQLite reads no column of a joined table that a question does not need.
    settings = Settings(database_url=f"sqlite:///{sqlite_template}")
    for query in (*COMMON.values(), "SELECT count(*) FROM leaderboard"):
        run_query(settings, "public", query)


@pytest.mark.parametrize("block", blocks(DOCS / "sql.md", "sql"), ids=lambda block: block.text.split("\n")[0][:40])
def test_the_queries_of_the_documentation_pass_the_guard(block: Block) -> None:
    for dialect in FUNCTIONS:
        assert checked(block.text, dialect)


def test_the_text_that_runs_is_the_text_that_was_checked_without_its_comments() -> None:
    query = "SELECT  model, 'a -- b', \"c /* d\"   -- e\n FROM leaderboard /* f; */ ;"
    expected = "SELECT  model, 'a -- b', \"c /* d\"    \n FROM leaderboard"
    assert checked(query.replace('"c /* d"', 'model AS "c /* d"'), "sqlite") == expected.replace(
        '"c /* d"', 'model AS "c /* d"'
    )


def test_both_engines_answer_alike(sqlite_asked: Asked, postgresql_asked: Asked) -> None:
    query = "SELECT model, benchmark, accuracy, worst_accuracy, complete, family FROM leaderboard ORDER BY benchmark"
    one, other = (run_query(asked.settings, "members", query) for asked in (sqlite_asked, postgresql_asked))
    assert one.columns == other.columns == ("model", "benchmark", "accuracy", "worst_accuracy", "complete", "family")
    assert one.rows == other.rows  # 1 is True
    assert [row[1] for row in one.rows] == ["club", "open"]


@pytest.mark.parametrize(("audience", "seen"), [("public", ["open"]), ("members", ["club", "open"])])
def test_each_audience_is_answered_from_what_it_sees(asked: Asked, audience: Audience, seen: list[str]) -> None:
    named = run_query(asked.settings, audience, "SELECT DISTINCT benchmark FROM leaderboard ORDER BY benchmark")
    assert [name for (name,) in named.rows] == seen
    texts = run_query(asked.settings, audience, "SELECT DISTINCT chosen_option_text FROM prediction_detail")
    assert {text.split()[0] for (text,) in texts.rows} == set(seen)


ORACLES = {
    "postgresql": "CASE chosen_option_text WHEN '{text}' THEN CAST(chosen_option_text AS integer) END = 1",
    "sqlite": "abs(CASE chosen_option_text WHEN '{text}' THEN -9223372036854775807 - 1 END) = 1",
}


@pytest.mark.parametrize("text", ["secret 1.1", "club 1.1"])
def test_an_error_tells_nothing_of_what_is_hidden(asked: Asked, text: str) -> None:
    # The condition fails for the rows that have the text: asked of the audience's rows alone, for none. LIKE, since
    # SQLite puts what a column is equal to in the column's place.
    oracle = ORACLES[asked.engine].format(text=text)
    query = f"SELECT count(*) FROM prediction_detail WHERE chosen_option_text LIKE '{text}' AND {oracle}"
    assert run_query(asked.settings, "public", query).rows == ((0,),)
    with pytest.raises(QueryRefusedError, match=r"integer overflow|invalid input syntax"):
        run_query(asked.settings, "public", query.replace(text, "open 1.1"))


def test_rows_beyond_the_limit_are_left_out_and_said_to_be(asked: Asked) -> None:
    settings = asked.settings.model_copy(update={"sql_rows": 3})
    result = run_query(settings, "public", "SELECT variant FROM prediction_detail ORDER BY external_id, variant")
    assert [variant for (variant,) in result.rows] == [0, 1, 2]
    assert result.truncated
    assert result.notes == ("These are the first 3 rows; there are more.",)
    exactly = run_query(settings, "public", "SELECT variant FROM prediction_detail ORDER BY variant LIMIT 3")
    assert not exactly.truncated


def test_bytes_beyond_the_limit_are_left_out_and_said_to_be(asked: Asked) -> None:
    settings = asked.settings.model_copy(update={"sql_bytes": 1000})
    result = run_query(settings, "public", "SELECT a.* FROM prediction_detail AS a, prediction_detail AS b")
    assert result.truncated
    assert len(json.dumps(result.rows, ensure_ascii=False)) <= 1000 + 2 * len(result.rows) + 2
    assert "1000 bytes; there are more" in result.notes[0]


def test_long_cells_are_cut_and_said_to_be(asked: Asked) -> None:
    settings = asked.settings.model_copy(update={"sql_cell_characters": 10})
    result = run_query(settings, "public", "SELECT 'abcdefghijklmnop' AS long, 'abcdefghij' AS just FROM leaderboard")
    assert result.rows == (("abcdefghij…", "abcdefghij"),)
    assert result.notes == ("1 cells were cut to 10 characters and end in ….",)


def test_an_error_of_the_database_names_the_remedy(asked: Asked) -> None:
    with pytest.raises(QueryRefusedError, match=r"worst_accuracy.*; correct the query"):
        run_query(asked.settings, "public", "SELECT worst_accuracy FROM prediction_detail")


def test_values_that_json_does_not_know_are_texts(postgresql_asked: Asked) -> None:
    query = "SELECT CAST('NaN' AS double precision), CAST('-Infinity' AS double precision), 10.0 / 4, sum(2) FROM leaderboard"
    result = run_query(postgresql_asked.settings, "public", query)
    assert json.loads(as_json(result))["rows"] == [["NaN", "-Infinity", 2.5, 2]]


@pytest.mark.parametrize(
    "document",
    ["[" * 900 + "]" * 900, "[" * 4000 + "]" * 4000, '{"a":' * 200 + "1" + "}" * 200, "1" * 5000],
    ids=["walked by recursion", "read by recursion", "deep objects", "an integer of 5,000 digits"],
)
def test_json_that_python_cannot_read_or_write_is_given_as_its_text(postgresql_asked: Asked, document: str) -> None:
    result = run_query(postgresql_asked.settings, "public", f"SELECT cast('{document}' AS json), 1 AS one")
    assert result.rows == ((document, 1),)
    assert json.loads(as_json(result))["rows"] == [[document, 1]]
    as_csv(result)


def test_documented_numbers_are_numbers_of_64_bits(postgresql_asked: Asked) -> None:
    # The bounds rely on it: arithmetic with numerics may take any time, and that with others cannot.
    with get_engine(postgresql_asked.url).connect() as connection:
        found = connection.execute(
            text(
                "SELECT table_name, column_name, data_type FROM information_schema.columns "
                "WHERE table_schema = 'shuffleboard_public'"
            )
        )
        types = {(view, column): kind for view, column, kind in found}
    kinds = {"double": {"double precision"}, "integer": {"bigint", "integer", "smallint"}}
    for view in documented_views():
        for column in view.columns:
            if column.type in kinds:
                expected = kinds[column.type] | ({"numeric"} if column.name in NUMERIC_SUMS else set())
                assert types[view.name, column.name] in expected, (view.name, column.name)


def test_csv_keeps_formulas_from_running_and_numbers_as_they_are() -> None:
    rows = (("=1+1", -1.5, None, [1, "a"], True), ("plain, quoted", 2, "-x", {"k": 1}, False))
    text = as_csv(QueryResult(("@name", "b", "c", "d", "e"), rows, truncated=False, elapsed_s=0.0))
    assert list(csv.reader(StringIO(text))) == [
        ["'@name", "b", "c", "d", "e"],
        ["'=1+1", "-1.5", "", '[1, "a"]', "True"],
        ["plain, quoted", "2", "'-x", '{"k": 1}', "False"],
    ]


def test_the_schema_browser_has_every_view_with_its_columns() -> None:
    documented = {view.name: view for view in documented_views()}
    assert set(documented) <= set(VIEWS)  # that none is missing is tested of docs/views.md
    column = next(column for column in documented["leaderboard"].columns if column.name == "sealed_at")
    assert (column.meaning, column.unit, column.null) == ("When it was sealed", "time", "not sealed")
    assert documented["leaderboard"].one_row_per == "evaluation specification"


@pytest.mark.parametrize("dialect", FUNCTIONS)
def test_the_functions_that_may_be_called_are_documented(dialect: Dialect) -> None:
    section = sections(DOCS / "sql.md")["Queries from anonymous visitors"]
    heading = {"sqlite": "On SQLite also", "postgresql": "On PostgreSQL also"}[dialect]
    (common,) = [line for line in section.split("\n\n") if line.startswith("On both engines")]
    (own,) = [line for line in section.split("\n\n") if line.startswith(heading)]
    assert {*code(common), *code(own)} == FUNCTIONS[dialect]


def test_without_a_reader_postgresql_is_not_asked(postgresql_asked: Asked) -> None:
    settings = postgresql_asked.settings.model_copy(update={"reader_url": ""})
    with pytest.raises(DatabaseError, match=r"SHUFFLEBOARD_READER_URL is not set.*shuffleboard db roles"):
        run_query(settings, "public", "SELECT 1")


@pytest.mark.parametrize("who", ["owner", "app", "member_reader"])
def test_who_may_do_more_than_a_reader_is_not_taken_for_one(postgresql_asked: Asked, who: str) -> None:
    assert postgresql_asked.names is not None
    names = postgresql_asked.names
    url = postgresql_asked.settings.reader_url.replace(names.reader, getattr(names, who))
    with pytest.raises(DatabaseError, match="create readers with: shuffleboard db roles"):
        run_query(postgresql_asked.settings.model_copy(update={"reader_url": url}), "public", "SELECT 1")


def test_a_superuser_is_not_taken_for_a_reader(postgresql_asked: Asked) -> None:
    settings = postgresql_asked.settings.model_copy(update={"reader_url": postgresql_asked.url})
    with pytest.raises(DatabaseError, match="create readers with: shuffleboard db roles"):
        run_query(settings, "public", "SELECT 1")


def test_a_database_in_memory_is_not_asked() -> None:
    with pytest.raises(DatabaseError, match="use a file"):
        run_query(Settings(database_url="sqlite:///:memory:"), "public", "SELECT 1")
