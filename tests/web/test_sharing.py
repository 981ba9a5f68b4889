"""What leads out of the website: it parses, it says what the page says, and it gives away nothing that is not public."""

import html
import io
import re
import struct
import zlib
from collections.abc import Callable
from decimal import Decimal
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
import pytest
from flask.testing import FlaskClient
from pybtex.database import parse_string
from pylatexenc.latexwalker import LatexEnvironmentNode, LatexMacroNode, LatexWalker

from registry.boards.reading import shown_document, snapshot_as_of
from registry.db import get_engine, read_session
from registry.exchange.citations import snapshot_entry
from registry.exchange.tabular import ShownTable, csv_text, latex, markdown
from registry.settings import Settings
from registry.verdicts.spans import Part, Span
from tests.web.accounts import add_one_of_each_role, bearer, signed_in, token_of
from tests.web.conftest import Drawn, Site
from tests.web.outputs import BOARD
from tests.web.seed import HOSTILE, evaluate, first, seed
from tests.web.test_boards import load
from web import charts, create_app, pictures
from web.pages import sharing
from web.pictures import child, drawings
from web.pictures.page import read_page
from web.serving.cache import OfSealed
from web.share_links import DRAWN_ON
from web.shown.headlines import Badge, Card, Line

pytestmark = pytest.mark.one_engine

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def boards(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Board "main", with a title that no format takes as it is, and one over a hidden benchmark; delta is asked twice."""
    url = lasting_sqlite()
    engine = get_engine(url)
    seeded = seed(engine, tmp_path_factory.mktemp("sharing"))
    seeded.evaluations["once"] = evaluate(engine, "delta", "capitals", first, variants="original")
    add_one_of_each_role(engine)
    site = Site(engine, seeded, create_app(database_url=url).test_client())
    load(site, title=f"Who knows 50 % of {{capitals}} & _all_ | of them? {HOSTILE}")
    load(site, "secret-board", ("secret",))
    return site


@pytest.fixture(scope="module")
def drawn_client(sqlite_drawn: Drawn) -> FlaskClient:
    return sqlite_drawn.client


def fetched(client: FlaskClient, path: str, status: int = 200):
    answer = client.get(path)
    assert answer.status_code == status, (path, answer.get_data()[:300])
    return answer


def section(page: str, heading: str) -> str:
    """A section of the folded part on sharing, with its entities resolved."""
    return html.unescape(page.split('id="share"')[1].split(f"<h3>{heading}</h3>")[1].split("</section>")[0])


def png_size(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG, every chunk of which is whole."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, kinds, pixels = 8, [], b""
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length])[0] == zlib.crc32(kind + body)
        kinds.append(kind)
        pixels += body if kind == b"IDAT" else b""
        place += 12 + length
    assert kinds[0] == b"IHDR"
    assert kinds[-1] == b"IEND"
    assert len(set(zlib.decompress(pixels))) > 20, "an empty picture"
    return struct.unpack(">II", data[16:24])  # type: ignore[return-value]


# Citations


def test_a_snapshot_is_cited_by_its_address_and_digest(boards: Site) -> None:
    document = fetched(boards.client, "/api/v1/boards/main").get_json()
    address = f"/snapshots/{document['digest']}"
    answer = fetched(boards.client, f"{address}.bib")
    assert answer.headers["Content-Disposition"].startswith("attachment")
    for page in ("/boards/main", address):
        assert answer.text in section(fetched(boards.client, page).text, "Cite")
    (entry,) = parse_string(answer.text, "bibtex").entries.values()
    assert entry.type == "misc"
    assert entry.fields["url"] == f"http://localhost{address}"
    assert document["digest"] in entry.fields["note"]
    assert entry.fields["year"] == document["as_of"][:4]
    fetched(boards.client, f"/snapshots/{'0' * 64}.bib", 404)


def test_a_sealed_evaluation_is_cited_by_its_seal(boards: Site) -> None:
    alpha, slow = boards.seeded.evaluations["alpha"], boards.seeded.evaluations["slow"]
    (entry,) = parse_string(fetched(boards.client, f"/evaluations/{alpha}.bib").text, "bibtex").entries.values()
    assert (
        fetched(boards.client, f"/api/v1/evaluations/{alpha}").get_json()["provenance"]["seal"] in entry.fields["note"]
    )
    assert "alpha (revision 1) on capitals" in entry.fields["title"]
    assert "not complete" in fetched(boards.client, f"/evaluations/{slow}.bib", 404).text
    assert "<h3>Cite</h3>" not in fetched(boards.client, f"/evaluations/{slow}").text


@pytest.mark.parametrize("title", ["}{", "\\", 'a "quote" {', "@misc{x,", "100 % $x_1^2$ ~ #&", HOSTILE])
def test_no_title_breaks_a_bibtex_entry(boards: Site, title: str) -> None:
    with read_session(boards.engine) as session:
        document = shown_document(session, snapshot_as_of(session, "main"))
    text = snapshot_entry(document | {"title": title}, None, "Shuffleboard")
    (entry,) = parse_string(text, "bibtex").entries.values()
    assert set(entry.fields) == {"title", "year", "month", "howpublished", "note"}
    assert [str(person) for person in entry.persons["author"]] == ["{Shuffleboard}"]
    LatexWalker(entry.fields["title"], tolerant_parsing=False).get_latex_nodes()


# Tables


def test_a_table_says_the_same_in_every_format(boards: Site) -> None:
    document = fetched(boards.client, "/api/v1/boards/main").get_json()
    lines = fetched(boards.client, "/boards/main/table.csv").text.splitlines()
    names = lines[0].split(",")
    table = pq.read_table(io.BytesIO(fetched(boards.client, "/boards/main/table.parquet").data))
    assert table.column_names == names
    assert len(lines) - 1 == table.num_rows == len(document["rows"])
    for row, line, stored in zip(document["rows"], lines[1:], table.to_pylist(), strict=True):
        cells = dict(zip(names, line.split(","), strict=True))
        value = row["values"]["worst_accuracy@cyclic"]["value"]
        assert cells["model"] == stored["model"] == row["model"]
        assert stored["worst_accuracy@cyclic"] == float(cells["worst_accuracy@cyclic"]) == value
    shown = fetched(boards.client, f"/snapshots/{document['digest']}/table.md").text
    rows = [line for line in shown.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + len(document["rows"])
    # A pipe in a cell would make a column of it.
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {2 + 2 + len(document["columns"])}
    assert "75.0\u202f%" in shown
    assert document["digest"] in shown


def test_the_leaderboard_has_the_same_rows_in_every_format(boards: Site) -> None:
    view = "?benchmark=capitals&metrics=accuracy,worst_accuracy"
    lines = fetched(boards.client, f"/leaderboard.csv{view}").text.splitlines()
    table = pq.read_table(io.BytesIO(fetched(boards.client, f"/leaderboard.parquet{view}").data))
    assert table.column_names == lines[0].split(",")
    assert [row["model"] for row in table.to_pylist()] == [line.split(",")[1] for line in lines[1:]]
    # Of what is not complete nothing is a number.
    slow = next(row for row in table.to_pylist() if row["model"] == "slow")
    assert slow["worst_accuracy"] is None
    assert slow["rank"] is None
    for form in ("md", "tex"):
        shown = fetched(boards.client, f"/leaderboard.{form}{view}").text
        assert "of 8 questions scored" in shown
        assert "http://localhost/?" in shown.replace("\\", "")
    fetched(boards.client, "/leaderboard.md?benchmark=nope", 400)
    fetched(boards.client, "/leaderboard.xlsx", 404)


def test_latex_is_a_table_environment_whatever_is_in_it(boards: Site) -> None:
    document = fetched(boards.client, "/api/v1/boards/main").get_json()
    text = fetched(boards.client, "/boards/main/table.tex").text
    columns, rows = tabular(text)
    assert columns == "rrlrrrr"
    assert len(rows) == 1 + len(document["rows"])
    assert all(len(row) == len(columns) for row in rows)
    signs = '\\ { } % $ # _ & ~ ^ | < > " [x] \n\x00'
    columns, rows = tabular(latex(ShownTable(signs, [signs] * 3, [[signs] * 3] * 2, frozenset({1}), signs)))
    assert (columns, len(rows), {len(row) for row in rows}) == ("lrl", 3, {3})


def tabular(text: str) -> tuple[str, list[list[str]]]:
    """(columns, rows of cells) of the one tabular of a table environment, strictly parsed."""
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


def test_every_chart_of_a_page_is_a_picture_of_its_own(drawn_client: FlaskClient, sqlite_drawn: Drawn) -> None:
    evaluation = sqlite_drawn.outputs.evaluations["leaning", "cyclic", "symbols"]
    page = f"/evaluations/{evaluation}"
    text = fetched(drawn_client, page).text
    found = re.findall(r'href="([^"]*/charts/[^"]*\.svg)"', text)
    assert len(found) == text.count("<figure") > 1
    svg = fetched(drawn_client, f"{page}/charts/positions.svg")
    assert svg.mimetype == "image/svg+xml"
    root = ET.fromstring(svg.text)
    said = "".join(root.itertext())
    assert root.tag == f"{SVG}svg"
    assert "leaning on mixed" in (root.findtext(f"{SVG}title") or "")
    assert f"http://localhost{page}" in said
    assert "Right answer here" in said
    # It stands by itself: no style sheet names its colours, and it fetches nothing.
    assert "var(" not in svg.text
    assert not re.search(r'(?:href|src)="(?!#)|url\((?!#)', svg.text)
    width, height = png_size(fetched(drawn_client, f"{page}/charts/positions.png?theme=dark").data)
    assert width == 2 * int(root.attrib["width"])
    assert height == 2 * int(root.attrib["height"])
    assert "it has: " in fetched(drawn_client, f"{page}/charts/nope.svg", 404).text


def test_a_picture_is_of_the_view_that_was_asked_for(drawn_client: FlaskClient, monkeypatch) -> None:
    orders = []
    monkeypatch.setattr(pictures, "drawn", lambda order: orders.append(order) or b"drawn")
    page = fetched(drawn_client, f"/boards/{BOARD}?sort=accuracy@cyclic").text
    (address,) = {html.unescape(found) for found in re.findall(r'href="(/[^"]*/charts/[^"]*\.png[^"]*)"', page)}
    assert address.endswith("?sort=accuracy%40cyclic")
    fetched(drawn_client, f"{address}&theme=dark")
    assert orders[0]["source"].startswith(f"http://localhost/boards/{BOARD}?sort=accuracy%40cyclic, 20")
    assert orders[0]["colours"]["panel"] == pictures.palette(dark=True)["panel"]
    fetched(drawn_client, f"/boards/{BOARD}/charts/accuracy-and-worst.svg?sort=nope", 400)


def test_what_has_no_charts_has_no_pictures(boards: Site) -> None:
    for path in ("/sql/charts/x.svg", "/charts/x.svg", "/api/v1/boards/charts/x.png", "/nope/charts/x.svg"):
        fetched(boards.client, path, 404)
    fetched(boards.client, f"/evaluations/{boards.seeded.secret_evaluation}/charts/positions.svg", 404)
    known = {rule.endpoint for rule in boards.client.application.url_map.iter_rules()}
    assert known >= DRAWN_ON


def test_every_chart_is_named_and_every_colour_known() -> None:
    for name in charts.__all__:
        draw = getattr(charts, name)
        if callable(draw) and "Chart" in str(getattr(draw, "__annotations__", {}).get("return")):
            assert hasattr(draw, "__wrapped__"), f"{name} lacks @named"
    light, dark = pictures.palette(dark=False), pictures.palette(dark=True)
    assert set(light) == set(dark)
    assert int(light["ground"][1:3], 16) > 0xC0
    assert int(dark["ground"][1:3], 16) < 0x40


DRAWN_BY_THE_SERVER = """<!doctype html><html><head><title>A &amp; B – Shuffleboard</title>
<link rel="stylesheet" href="/static/board.css?v=1"><link rel="stylesheet" href="/static/plots.css?v=2"></head><body>
<table><tr><td><svg role="img" aria-label="small"><rect/></svg></td></tr></table>
<div class="chart plot"><svg class="scatter" width="100%" height="100%" role="group" aria-label="Points &amp; lines">
<text class="tick" x="2%" y="88%" dy="16">50&#8239;%&nbsp;&minus;</text>
<a href="/models/m"><title>m</title><circle class="dot" cx="50%" cy="20%" r="5"/><g class="tip"><text>hidden</text></g></a>
</svg></div>
<p data-pictures="scatter"></p></body></html>"""
PLOTS = """/* .dot { fill: red } */ .chart .dot, .chart a:hover .dot { fill: var(--kept); r: 9rem }
.tip { display: none } .other { fill: blue } @media (max-width: 9rem) { .dot { fill: red } }
@media (min-width: 9rem) { .tick { font-size: .75rem; width: 100% } }"""


def test_svg_that_the_server_drew_takes_its_looks_along(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plots.css").write_text(PLOTS)
    monkeypatch.setattr("web.pictures.page._STATIC", tmp_path)
    found = read_page(DRAWN_BY_THE_SERVER, "https://board.example.org")
    assert found.title == "A & B"
    chart = found.charts["scatter"]
    assert chart.label == "Points & lines"
    svg = pictures.of_chart(chart, "svg", title=found.title, source="s", dark=False).decode()
    root = ET.fromstring(svg)
    style = root.findtext(f".//{SVG}style")
    assert style.split("\n") == [
        f".chart .dot{{fill: {pictures.palette(dark=False)['kept']}}}",
        ".tip{display: none}",
        ".tick{font-size: 12px}",
    ]
    assert [found.attrib["href"] for found in root.iter(f"{SVG}a")] == ["https://board.example.org/models/m"]
    assert root.find(f".//{SVG}svg").attrib["width"] == "880"
    assert png_size(pictures.of_chart(chart, "png", title="t", source="s", dark=True))[0] == 2 * (880 + 40)


def test_a_chart_that_cannot_be_drawn_is_no_fault_of_the_page(boards: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with boards.client.application.test_request_context():
        broken = charts.Chart("x", {"mark": "nope", "data": {"values": []}})
        with pytest.raises(Exception, match="could not be drawn"):
            pictures.of_chart(broken, "svg", title="t", source="s", dark=False)
        monkeypatch.setattr(pictures, "MOST_SPECIFICATION", 10)
        with pytest.raises(Exception, match="too large"):
            pictures.of_chart(broken, "svg", title="t", source="s", dark=False)


def test_a_frame_holds_any_text() -> None:
    hostile = f"{HOSTILE}\x0b & " + "w" * 400
    order = {"title": hostile, "description": hostile, "source": hostile, "form": "svg"}
    order["colours"] = {"ink": "#000", "quiet": "#555", "panel": "#fff"}
    drawing = '<svg xmlns="http://www.w3.org/2000/svg" width="760" height="10.5"></svg>'
    framed = child.framed(drawing, order)
    root = ET.fromstring(child.draw({"form": "svg", "svg": framed}))
    assert HOSTILE in (root.findtext(f"{SVG}title") or "")
    assert all(len(line) <= 120 for line in child.lines(hostile, 120))
    assert child.lines("one two three four", 9, most=2) == ["one two", "three fo…"]


# Badges


def badge(client: FlaskClient, path: str) -> tuple[str, str, list[str]]:
    """(accessible title, colour, texts) of a badge, which is a valid picture."""
    root = ET.fromstring(fetched(client, path).text)
    assert root.attrib["role"] == "img"
    title = root.findtext(f"{SVG}title") or ""
    assert root.attrib["aria-label"] == title
    colour = [rect.attrib["fill"] for rect in root.iter(f"{SVG}rect") if "fill" in rect.attrib][1]
    return title, colour, [text.text or "" for text in root.iter(f"{SVG}text")]


def test_a_badge_says_the_number_or_why_there_is_none(boards: Site) -> None:
    ids = boards.seeded.evaluations
    once = ids["once"]
    title, colour, texts = badge(boards.client, f"/badge/evaluations/{ids['beta']}.svg")
    assert texts == ["worst accuracy", "75.0\u202f%, sealed"]
    assert title.startswith("beta on capitals, cyclic: worst accuracy")
    for evaluation, said in ((once, "asked in one order"), (ids["slow"], "not complete")):
        _, other, texts = badge(boards.client, f"/badge/evaluations/{evaluation}.svg")
        assert texts == ["worst accuracy", said]
        assert other != colour
    assert badge(boards.client, f"/badge/evaluations/{once}.svg?metric=accuracy")[2][1] == "25.0\u202f%, sealed"
    # Of a model's evaluations the one that was asked in more orders.
    assert badge(boards.client, "/badge/models/delta/capitals.svg")[2] == ["worst accuracy", "0.0\u202f%, sealed"]
    only = badge(boards.client, "/badge/models/delta/capitals.svg?variants=original")[2]
    assert only == ["worst accuracy", "asked in one order"]
    assert badge(boards.client, "/badge/models/slow/capitals.svg")[2][1] == "not complete"
    fetched(boards.client, "/badge/models/nope/capitals.svg", 404)
    fetched(boards.client, f"/badge/evaluations/{once}.svg?metric=nope", 400)
    page = fetched(boards.client, "/models/delta").text
    assert "[![Worst accuracy on capitals](http://localhost/badge/models/delta/capitals.svg)]" in section(page, "Badge")


SPAN = Span(0.5, (0.4, 0.6), (Part("order", 0.2, 0.5), Part("range", 0.1, 0.9)), 0.25, 0.1, "order", "words")


def test_badges_and_cards_are_valid_whatever_they_say() -> None:
    for text in (HOSTILE, "43.1\u202f% ± 2.0, sealed", "日本 & <b>"):
        root = ET.fromstring(drawings.badge_svg(Badge(text, text, text, stated=True)))
        assert root.findtext(f"{SVG}title") == text
        card = Card(
            text * 5, text * 9, [Line(text * 3, text, SPAN), Line(text * 3, text[:9], SPAN), Line(text, text)], text
        )
        drawn = drawings.card_svg(card, pictures.palette(dark=False), text)
        assert ET.fromstring(drawn).attrib["height"] == "630"
        assert "lost to the order" in drawn, "the marks are explained"


# Previews


def meta(page: str) -> dict[str, str]:
    found = re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)">', page)
    return {name: html.unescape(content) for name, content in found}


def test_a_link_is_shown_with_headline_numbers_and_a_picture(boards: Site) -> None:
    ids = boards.seeded.evaluations
    expected = {
        "/boards/main": "alpha is first of 5 models by worst accuracy (cyclic): 100.0\u202f%",
        f"/evaluations/{ids['beta']}": "worst accuracy 75.0\u202f%",
        f"/evaluations/{ids['slow']}": "Not complete yet",
        "/models/beta": "capitals (cyclic) 75.0\u202f%",
    }
    for path, said in expected.items():
        found = meta(fetched(boards.client, path).text)
        assert said in found["description"] == found["og:description"], path
        assert found["og:url"] == f"http://localhost{path}"
        assert found["twitter:card"] == "summary_large_image"
        picture = fetched(boards.client, found["og:image"].removeprefix("http://localhost"))
        assert picture.mimetype == "image/png"
        assert png_size(picture.data) == (1200, 630)
    assert "og:image" not in fetched(boards.client, "/queue").text


# Audiences


def test_what_is_hidden_is_shared_with_nobody(boards: Site) -> None:
    """Not even through the maintainer who may see it: badges, previews and embedded boards are for everyone."""
    application = boards.client.application
    secret = boards.seeded.secret_evaluation
    maintainer = signed_in(application, "maintainer")
    token = {"headers": bearer(token_of(boards.engine, "maintainer"))}
    everyones = [
        f"/badge/evaluations/{secret}.svg",
        "/badge/models/alpha/secret.svg",
        f"/evaluations/{secret}/preview.png",
        "/boards/secret-board/embed",
        "/boards/secret-board/preview.png",
    ]
    own_alone = ["/boards/secret-board/table.csv", "/boards/secret-board/table.tex", f"/evaluations/{secret}.bib"]
    for path in everyones:
        fetched(maintainer, path, 404)
        assert application.test_client().get(path, **token).status_code == 404
    for path in everyones + own_alone:
        fetched(boards.client, path, 404)
    for path in own_alone:
        answer = fetched(maintainer, path)
        assert answer.headers["Cache-Control"] == "private, no-cache"
    assert "secret" not in fetched(boards.client, "/models/alpha").text


def test_a_preview_is_drawn_once_whatever_a_request_calls_the_host(
    boards: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr(pictures, "_drawn", OfSealed(48))
    monkeypatch.setattr(pictures, "_draw", lambda order: drawn.append(order) or b"picture")
    url = boards.engine.url.render_as_string(hide_password=False)
    client = create_app(database_url=url, keep_pages=False).test_client()
    for number in range(5):
        answer = client.get("/boards/main/preview.png", headers={"Host": f"{number}.example.org"})
        assert (answer.status_code, answer.data) == (200, b"picture")
    assert len(drawn) == 1
    assert "example.org" not in drawn[0]["svg"]


def test_previews_count_as_the_pictures_of_a_client(boards: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "drawn", lambda _: b"picture")
    monkeypatch.setattr(sharing, "PICTURES", "3 per minute")
    url = boards.engine.url.render_as_string(hide_password=False)
    client = create_app(database_url=url, keep_pages=False).test_client()
    answers = [client.get("/boards/main/preview.png").status_code for _ in range(5)]
    assert answers == [200, 200, 200, 429, 429]


def test_nothing_is_shared_where_anonymous_visitors_may_not_read(boards: Site) -> None:
    url = boards.engine.url.render_as_string(hide_password=False)
    client = create_app(Settings(anonymous_reading=False), database_url=url).test_client()
    for path in ("/badge/models/alpha/capitals.svg", "/boards/main/embed", "/boards/main/preview.png"):
        # The address that was asked for leads back after signing in.
        assert "alpha" not in fetched(client, path, 401).text.replace(path, "")
    assert fetched(client, "/boards/main", 302).headers["Location"].startswith("/sign-in")


def test_only_the_embedded_board_may_be_framed(boards: Site) -> None:
    answer = fetched(boards.client, "/boards/main/embed")
    assert "frame-ancestors *" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Cache-Control"] == "public, max-age=300"
    assert "Authorization" not in answer.headers.get("Vary", "")
    again = boards.client.get("/boards/main/embed", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    links = re.findall(r"<a [^>]*>", answer.text)
    assert len(links) == 2 + 5
    assert all('target="_blank" rel="noopener"' in link and 'href="http://localhost/' in link for link in links)
    assert "<script" not in answer.text.replace(html.escape(HOSTILE), "")
    badge = fetched(boards.client, "/badge/models/alpha/capitals.svg")
    assert badge.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    page = fetched(boards.client, "/boards/main")
    assert "&lt;iframe src=&#34;http://localhost/boards/main/embed&#34;" in page.text
    for path in ("/", "/boards/main", "/models/alpha", "/sign-in", "/badge/models/alpha/capitals.svg", "/nope"):
        assert "frame-ancestors 'none'" in boards.client.get(path).headers["Content-Security-Policy"], path


def test_a_shared_link_says_which_view_it_is(boards: Site) -> None:
    page = fetched(boards.client, "/?benchmark=capitals&sort=accuracy&group=no").text
    (link,) = re.findall(r">(http://localhost/\?[^<]*)<", html.unescape(page.split('id="share"')[1]))
    assert {"benchmark=capitals", "sort=accuracy", "order=desc", "group=no"} <= set(link.split("?")[1].split("&"))
    fetched(boards.client, link.removeprefix("http://localhost"))
