"""A visitor's own board on a published site: ranked in the browser as the server ranks it, to the last digit."""

from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from registry.boards.reading import rows_in_order, snapshot_as_of
from registry.db import read_session
from registry.digests import sha256_text
from registry.settings import get_settings
from tests.boards.test_selected import COLUMNS, drawn, fill_board, select
from tests.commands import eventually
from tests.conftest import FilledDatabases
from tests.outputs.conftest import Registry
from tests.web.test_browser import page
from tests.web.test_publishing import any_web_server
from web.publishing import publish
from web.publishing.places import Places

FIELDS = {"names": "model", "families": "family", "developers": "developer", "licences": "licence"}
PAGES = {"boards.board", "own.own", "pages.model", "site.choices", "site.choices_of_column", "site.static", "static"}
SHOWN = ("value", "n", "interval", "rank", "rank_interval", "tier", "all_rank_interval", "all_tier")
TOLD = ("models", "pairs", "pairs_told_apart", "neighbours", "neighbours_told_apart", "critical_value")


@pytest.fixture(scope="module")
def published(filled_sqlite: FilledDatabases, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The registry of nine models on three tasks, and the folder of its board's site: the pages that are asked for here."""
    folder, belongs = tmp_path_factory.mktemp("own"), Places._belongs
    with filled_sqlite.copy(fill_board, folder) as (url, _), pytest.MonkeyPatch.context() as patched:
        patched.setattr(Places, "_belongs", lambda places, page, of: page in PAGES and belongs(places, page, of))
        publish(get_settings().model_copy(update={"database_url": url}), "main", folder / "site")
        yield Registry(url, folder).engine, folder / "site"


def query_of(choice: dict[str, Any]) -> str:
    """The query string that holds a choice."""
    found: list[tuple[str, Any]] = [("column", column) for column in choice["columns"]]
    found += [("sort", choice["sort"])] + [("weight", f"{task}:{times}") for task, times in choice["weights"].items()]
    for key, value in choice["models"].items():
        values = value if isinstance(value, list) else [value]
        found += [(FIELDS.get(key, key), item) for item in values]
    return urlencode(found)


def told(document: Any, rows: Any) -> Any:
    """What a selection says: in order, of every model and column."""
    return {
        "sort": document["sort"],
        "selection": document["selection"],
        "together": {name: [of[key] for key in TOLD] for name, of in document["together"].items()},
        "rows": [
            [row["model"], row["complete"], {name: [of[key] for key in SHOWN] for name, of in row["values"].items()}]
            for row in rows
        ],
    }


def test_a_selection_is_ranked_in_the_browser_as_on_the_server(chromium: Any, published: Any) -> None:
    engine, folder = published
    with any_web_server(folder) as base, page(chromium) as opened:
        first = query_of(drawn(0))
        opened.goto(f"{base}/boards/main/own/?{first}")
        # Not wait_for_function: a page's policy forbids what it does if the first look comes too early.
        eventually(lambda: opened.evaluate("typeof rankings !== 'undefined' && rankings !== undefined"), "the rankings")
        with read_session(engine) as session:
            snapshot = snapshot_as_of(session, "main")
            for seed in range(40):
                choice = drawn(seed)
                expected = select(session, snapshot, choice)
                found = opened.evaluate("query => rankings.select(new URLSearchParams(query))", query_of(choice))
                assert told(found, found["rows"]) == told(expected, rows_in_order(expected)), (seed, choice)


def test_the_page_shows_a_choice_with_its_digest_and_the_address_holds_it(chromium: Any, published: Any) -> None:
    engine, folder = published
    with any_web_server(folder) as base, page(chromium) as opened:
        opened.goto(f"{base}/boards/main/own/")
        opened.get_by_label("second").fill("0")
        opened.get_by_label("first").fill("2")
        opened.get_by_label("first").blur()
        expect(opened.locator("#state")).to_have_text("9 of 9 models")
        choice = {"weights": {"second": 0, "first": 2}}
        with read_session(engine) as session:
            expected = select(session, snapshot_as_of(session, "main"), choice)
        expect(opened.locator("#selection")).to_have_text(expected["selection"])
        expect(opened.locator("#digest")).to_have_text(sha256_text(expected["selection"]))
        names = opened.locator("#own tbody th a").all_inner_texts()
        assert names == [row["model"] for row in rows_in_order(expected)]
        opened.reload()
        expect(opened.locator("#digest")).to_have_text(expected["digest"])
        opened.get_by_label("third").fill("0")
        opened.get_by_label("first").fill("0")
        opened.get_by_label("first").blur()
        expect(opened.locator("#state")).to_have_text("no task is left; give one of them a weight of 1")


def test_a_column_that_the_site_does_not_have_is_named(chromium: Any, published: Any) -> None:
    _, folder = published
    with any_web_server(folder) as base, page(chromium) as opened:
        opened.goto(f"{base}/boards/main/own/?column=luck%40cyclic")
        expect(opened.locator("#state")).to_contain_text(f"column=luck@cyclic: this site has {COLUMNS[0]}, ")
