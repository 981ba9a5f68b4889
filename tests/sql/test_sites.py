"""A published site, which has the views of the SQL page in the reader's browser, with the rows of its own content."""

import re

import pyarrow.parquet as pq
import pytest

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import get_engine, write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.revisions.store import RevisionRequest, add_revision
from registry.schema.documented import load_documented_views
from registry.settings import get_settings
from registry.sql import Queries
from registry.sql.examples import EXAMPLES
from registry.sql.files import Files
from registry.sql.relations import Part
from registry.tables.accounts import Account, SavedQuery
from registry.tables.providers import ProviderCall
from tests.sql.test_queries import comparable
from tests.support.population import write_lines
from tests.web.outputs import BOARD, HIDDEN
from tests.web.outputs import fill as fill_outputs
from tests.web.test_browser import page
from tests.web.test_publishing import any_web_server
from web import create_app
from web.publishing import publish, write_tables
from web.publishing.pages import Frame, install
from web.publishing.places import Places

PAGES = {"boards.board", "site.data", "site.query", "site.sealed", "site.static", "static"}
SUITE = {
    "name": "every",
    "protocols": ["symbols", "hybrid"],
    "variants": ["cyclic", "answer-moving", "adversarial", "shuffle"],
    "tasks": [{"benchmark": "*"}],
}


def fill(engine, folder):
    """Store outputs, rows for the other views, and a public board; return the other board's evaluations."""
    outputs = fill_outputs(engine, folder)
    first, *others = outputs.lines["leaning", "cyclic", "symbols"]
    with write_session(engine) as session:
        add_revision(session, "leaning", RevisionRequest("external", revision="newer"))
    again = write_lines(folder / "again.out", [first | {"position": None}, *others])
    evaluation = import_outputs(engine, ImportRequest(again, "leaning@2", "mixed", "cyclic", "symbols"))
    with write_session(engine) as session:
        call = {"state": "answered", "outcome": "complete", "text": "B", "cost": 0.25}
        session.add(ProviderCall(evaluation_id=evaluation, question_id=outputs.questions["m4"], variant=0, **call))
        session.add(account := Account(name="rita", role="submitter"))
        session.flush()
        for public in (True, False):
            name = "all" if public else "mine"
            session.add(SavedQuery(slug=name, account_id=account.id, name=name, sql="SELECT 1.5", public=public))
        import_suite(session, SuiteDefinition.model_validate(SUITE))
        of = ("mixed", "parted")
        import_board(
            session, BoardDefinition(name="whole", suite="every", benchmarks=of, columns=("accuracy@cyclic/symbols",))
        )
    refresh_boards(engine)
    evaluations = outputs.evaluations.items()
    return {evaluation, *(number for of, number in evaluations if of[1:] == ("cyclic", "symbols"))}


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def published(request, tmp_path_factory):
    """Yield a registry's settings, the site of a board of all public content, and another board's evaluations."""
    folder, belongs = tmp_path_factory.mktemp("published"), Places._belongs
    filled = request.getfixturevalue(f"filled_{request.param}")
    with filled.copy(fill, folder) as (url, of_board), pytest.MonkeyPatch.context() as patched:
        patched.setattr(Places, "_belongs", lambda places, page, of: page in PAGES and belongs(places, page, of))
        limits = {"sql_seconds": 600.0, "sql_rows": 100_000, "sql_bytes": 10**9}
        settings = get_settings().model_copy(update={"database_url": url, "home": folder, **limits})
        publish(settings, "whole", folder / "site")
        yield settings, folder / "site", of_board


def in_order(rows):
    return sorted(([comparable(cell) for cell in row] for row in rows), key=repr)


@pytest.mark.long
def test_a_registry_that_is_published_whole_has_the_same_views_and_answers(chromium, published):
    settings, folder, _ = published
    engine, empty = get_engine(settings.database_url), set()
    queries = Queries(engine, settings)
    Files(engine, settings).write("public")

    def there(query):
        result = queries.ask("public", query, "me").result
        return list(result.types), in_order(result.rows)

    with any_web_server(folder) as base, page(chromium) as opened:
        opened.goto(f"{base}/query/")

        def here(query):
            script = "async (query) => [rowsOf(await ask(query)), rowsOf(await ask(`DESCRIBE ${query}`))]"
            rows, types = opened.evaluate(script, query)
            return [row[1] for row in types], in_order(rows)

        for view in load_documented_views():
            columns = ", ".join(f'"{column.name}"' for column in view.columns)
            condition = " WHERE board = 'whole'" if "board" in columns.split('"') else ""
            types, rows = here(f"SELECT {columns} FROM {view.name}")
            assert (types, rows) == there(f"SELECT {columns} FROM {view.name}{condition}"), view.name
            empty |= set() if rows else {view.name}
        for label, query in EXAMPLES.items():
            condition = re.sub(r"FROM board_standings\s+WHERE", "FROM board_standings WHERE board = 'whole' AND", query)
            assert here(query)[1] == there(condition)[1], label
    assert empty <= {"withdrawals", "evaluation_sources", "extraction_counts", "evaluation_seconds"}


def test_a_site_has_nothing_that_its_board_is_not_about(published, tmp_path):
    settings, _, of_board = published
    write_tables(get_engine(settings.database_url), Part(tuple(of_board), BOARD), tmp_path / "data")
    expected = {"evaluation_id": {*of_board, None}, "board": {BOARD}}
    for path in (tmp_path / "data").glob("*.parquet"):
        rows = pq.read_table(path).to_pydict()
        for column in expected.keys() & rows.keys():
            assert set(rows[column]) <= expected[column], path.name
        assert not [word for word in (HIDDEN, "Nobody may know", "parted", "whole") if word in repr(rows)], path.name


def test_its_page_has_the_sql_pages_queries_suggestions_and_values(chromium, published):
    settings, folder, _ = published
    values = "SELECT 1.5, sum(2), [0.5, 2], {'a': 2::HUGEINT}, '\\xAA'::BLOB, DATE '2026-05-01', 1 AS a, 2 AS a"
    with any_web_server(folder) as base, page(chromium) as opened:
        opened.goto(f"{base}/query/")
        assert opened.evaluate("async (query) => rowsOf(await ask(query))", values) == [
            [1.5, 2, [0.5, 2], {"a": 2}, "aa", "2026-05-01", 1, 2]
        ]
        assert opened.evaluate("""["=1", -1, null, 'a"b'].map(cellOf).join()""") == '"\'=1","-1",,"a""b"'
        opened.get_by_label("Query").fill("SELECT model FROM ")
        opened.get_by_label("Query").press_sequentially("leaderb")
        opened.get_by_role("option", name="leaderboard").click()
        assert opened.get_by_label("Query").input_value() == "SELECT model FROM leaderboard"
        assert opened.locator("button[data-query='SELECT 1.5']").all_inner_texts() == ["all"]
    app = create_app(settings.model_copy(update={"anonymous_sql": False}))
    install(app, Frame("whole", "whole", "", ()), folder)
    assert "SELECT 1.5" not in app.test_client().get("/query").text
