"""Links and exports of the website, which parse, agree with the page, and reveal nothing hidden."""

import html
import io
import re
from collections.abc import Callable
from decimal import Decimal

import pyarrow.parquet as pq
import pytest
from flask.testing import FlaskClient
from pybtex.database import parse_string
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexMacroNode, LatexWalker

from registry.boards.reading import report_document, snapshot_as_of
from registry.db import get_engine, read_session
from registry.exchange.citations import snapshot_entry
from registry.exchange.tabular import ShownTable, csv_text, latex, markdown
from tests.web.accounts import add_one_of_each_role, signed_in
from tests.web.conftest import Site
from tests.web.seed import HOSTILE, evaluate, first, seed
from tests.web.test_boards import load
from web import create_app

pytestmark = pytest.mark.one_engine

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def boards(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return board "main", whose title must be escaped in all formats, and a board of a hidden benchmark."""
    url = lasting_sqlite()
    engine = get_engine(url)
    seeded = seed(engine, tmp_path_factory.mktemp("sharing"))
    seeded.evaluations["once"] = evaluate(engine, "delta", "capitals", first, variants="original")
    add_one_of_each_role(engine)
    site = Site(engine, seeded, create_app(database_url=url).test_client())
    load(site, title=f"Who knows 50 % of {{capitals}} & _all_ | of them? {HOSTILE}")
    load(site, "secret-board", ("secret",))
    return site


def fetch(client: FlaskClient, path: str, status: int = 200):
    answer = client.get(path)
    assert answer.status_code == status, (path, answer.get_data()[:300])
    return answer


def section(page: str, heading: str) -> str:
    """Return a section of the collapsed part on sharing, with entities decoded."""
    return html.unescape(page.split('id="share"')[1].split(f"<h3>{heading}</h3>")[1].split("</section>")[0])


# Citations


def test_a_snapshot_is_cited_by_its_address_and_digest(boards: Site) -> None:
    document = fetch(boards.client, "/api/v1/boards/main").get_json()
    address = f"/snapshots/{document['digest']}"
    answer = fetch(boards.client, f"{address}.bib")
    assert answer.headers["Content-Disposition"].startswith("attachment")
    for page in ("/boards/main", address):
        assert answer.text in section(fetch(boards.client, page).text, "Cite")
    (entry,) = parse_string(answer.text, "bibtex").entries.values()
    assert entry.type == "misc"
    assert entry.fields["url"] == f"http://localhost{address}"
    assert document["digest"] in entry.fields["note"]
    assert entry.fields["year"] == document["as_of"][:4]
    fetch(boards.client, f"/snapshots/{'0' * 64}.bib", 404)


def test_a_sealed_evaluation_is_cited_by_its_seal(boards: Site) -> None:
    alpha, slow = boards.seeded.evaluations["alpha"], boards.seeded.evaluations["slow"]
    (entry,) = parse_string(fetch(boards.client, f"/evaluations/{alpha}.bib").text, "bibtex").entries.values()
    assert fetch(boards.client, f"/api/v1/evaluations/{alpha}").get_json()["provenance"]["seal"] in entry.fields["note"]
    assert "alpha (revision 1) on capitals" in entry.fields["title"]
    assert "not complete" in fetch(boards.client, f"/evaluations/{slow}.bib", 404).text
    assert "<h3>Cite</h3>" not in fetch(boards.client, f"/evaluations/{slow}").text


@pytest.mark.parametrize("title", ["}{", "\\", 'a "quote" {', "@misc{x,", "100 % $x_1^2$ ~ #&", HOSTILE])
def test_no_title_breaks_a_bibtex_entry(boards: Site, title: str) -> None:
    with read_session(boards.engine) as session:
        document = report_document(session, snapshot_as_of(session, "main"))
    text = snapshot_entry(document | {"title": title}, None, "Shuffleboard")
    (entry,) = parse_string(text, "bibtex").entries.values()
    assert set(entry.fields) == {"title", "year", "month", "howpublished", "note"}
    assert [str(person) for person in entry.persons["author"]] == ["{Shuffleboard}"]
    LatexWalker(entry.fields["title"], tolerant_parsing=False).get_latex_nodes()


# Tables


def test_a_table_says_the_same_in_every_format(boards: Site) -> None:
    document = fetch(boards.client, "/api/v1/boards/main").get_json()
    lines = fetch(boards.client, "/boards/main/table.csv").text.splitlines()
    names = lines[0].split(",")
    table = pq.read_table(io.BytesIO(fetch(boards.client, "/boards/main/table.parquet").data))
    assert table.column_names == names
    assert len(lines) - 1 == table.num_rows == len(document["rows"])
    for row, line, stored in zip(document["rows"], lines[1:], table.to_pylist(), strict=True):
        cells = dict(zip(names, line.split(","), strict=True))
        value = row["values"]["worst_accuracy@cyclic"]["value"]
        assert cells["model"] == stored["model"] == row["model"]
        assert stored["worst_accuracy@cyclic"] == float(cells["worst_accuracy@cyclic"]) == value
    shown = fetch(boards.client, f"/snapshots/{document['digest']}/table.md").text
    rows = [line for line in shown.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + len(document["rows"])
    # A pipe in a cell would begin another column.
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {2 + 2 + len(document["columns"])}
    assert "75.0\u202f%" in shown
    assert document["digest"] in shown


def test_the_leaderboard_has_the_same_rows_in_every_format(boards: Site) -> None:
    view = "?benchmark=capitals&metrics=accuracy,worst_accuracy"
    lines = fetch(boards.client, f"/leaderboard.csv{view}").text.splitlines()
    table = pq.read_table(io.BytesIO(fetch(boards.client, f"/leaderboard.parquet{view}").data))
    assert table.column_names == lines[0].split(",")
    assert [row["model"] for row in table.to_pylist()] == [line.split(",")[1] for line in lines[1:]]
    # Incomplete evaluations have no numbers.
    slow = next(row for row in table.to_pylist() if row["model"] == "slow")
    assert slow["worst_accuracy"] is None
    assert slow["rank"] is None
    for form in ("md", "tex"):
        shown = fetch(boards.client, f"/leaderboard.{form}{view}").text
        assert "of 8 questions scored" in shown
        assert "http://localhost/?" in shown.replace("\\", "")
    fetch(boards.client, "/leaderboard.md?benchmark=nope", 400)
    fetch(boards.client, "/leaderboard.xlsx", 404)


def test_latex_is_a_table_environment_whatever_is_in_it(boards: Site) -> None:
    document = fetch(boards.client, "/api/v1/boards/main").get_json()
    text = fetch(boards.client, "/boards/main/table.tex").text
    columns, rows = tabular(text)
    assert columns == "rrlrrrr"
    assert len(rows) == 1 + len(document["rows"])
    assert all(len(row) == len(columns) for row in rows)
    signs = '\\ { } % $ # _ & ~ ^ | < > " [x] \n\x00'
    columns, rows = tabular(latex(ShownTable(signs, [signs] * 3, [[signs] * 3] * 2, frozenset({1}), signs)))
    assert (columns, len(rows), {len(row) for row in rows}) == ("lrl", 3, {3})


def tabular(text: str) -> tuple[str, list[list[str]]]:
    """Return (columns, rows of cells) of the only tabular in a table environment, which is strictly parsed."""
    nodes, _, _ = LatexWalker(text, tolerant_parsing=False).get_latex_nodes()
    (table,) = [node for node in nodes if isinstance(node, LatexEnvironmentNode)]
    assert table.environmentname == "table"
    (inner,) = [node for node in table.nodelist if isinstance(node, LatexEnvironmentNode)]
    assert inner.environmentname == "tabular"
    rows: list[list[str]] = [[""]]
    for node in inner.nodelist:
        if isinstance(node, LatexMacroNode) and node.macroname == "\\":
            rows.append([""])
        elif node.latex_verbatim() == "&":
            rows[-1].append("")
        elif not (isinstance(node, LatexMacroNode) and node.macroname == "hline"):
            rows[-1][-1] += node.latex_verbatim().strip()
    assert rows.pop() == [""]
    return inner.nodeargd.argnlist[-1].latex_verbatim().strip("{}"), rows


def test_a_cell_is_only_text_in_csv_and_markdown() -> None:
    rows = [{"a": value} for value in ("=1+1", "-2", "@x", "plain", None, Decimal(1))]
    assert csv_text(rows, ["a"]).splitlines() == ["a", "'=1+1", "'-2", "'@x", "plain", '""', "1"]
    text = markdown(ShownTable("c", ["h"], [["a|b\n*c* <b> [x](y)"]], frozenset(), "s"))
    assert "| a\\|b \\*c\\* \\<b\\> \\[x\\](y) |" in text


# Pictures of charts


def test_what_is_hidden_is_shared_with_nobody(boards: Site) -> None:
    application = boards.client.application
    secret = boards.seeded.secret_evaluation
    maintainer = signed_in(application, "maintainer")
    own_alone = ["/boards/secret-board/table.csv", "/boards/secret-board/table.tex", f"/evaluations/{secret}.bib"]
    for path in own_alone:
        fetch(boards.client, path, 404)
    for path in own_alone:
        answer = fetch(maintainer, path)
        assert answer.headers["Cache-Control"] == "private, no-cache"
    assert "secret" not in fetch(boards.client, "/models/alpha").text


def test_a_shared_link_says_which_view_it_is(boards: Site) -> None:
    page = fetch(boards.client, "/?benchmark=capitals&sort=accuracy&group=no").text
    (link,) = re.findall(r">(http://localhost/\?[^<]*)<", html.unescape(page.split('id="share"')[1]))
    assert {"benchmark=capitals", "sort=accuracy", "order=desc", "group=no"} <= set(link.split("?")[1].split("&"))
    fetch(boards.client, link.removeprefix("http://localhost"))
