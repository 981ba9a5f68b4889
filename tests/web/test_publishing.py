"""A board as files: complete, the same every time, and usable without our server."""

import functools
import hashlib
import http.server
import re
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet
import pytest
import yaml
from huggingface_hub import DatasetCardData
from playwright.sync_api import expect

from registry.errors import NotFoundError, UsageError
from registry.settings import get_settings
from tests.support.commands import shuffleboard
from tests.web.conftest import empty_caches
from tests.web.outputs import BOARD
from tests.web.test_browser import page, running
from web.publishing import Published, board_document, publish
from web.publishing.dataset import publish_dataset
from web.publishing.files import CHECKSUMS
from web.publishing.rewriting import rewrite

pytestmark = pytest.mark.long_on("postgresql")


@pytest.fixture(scope="module")
def settings(sqlite_drawn):
    return get_settings().model_copy(
        update={"database_url": sqlite_drawn.engine.url.render_as_string(hide_password=False)}
    )


@pytest.fixture(scope="module")
def site(settings, tmp_path_factory):
    """Return a published board, and the command's report about it."""
    folder = tmp_path_factory.mktemp("published") / "site"
    return folder, publish(settings, BOARD, folder)


def listing(folder):
    """Return file → its content's digest, except the folder's own list."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != CHECKSUMS
    }


class Addresses(HTMLParser):
    """The references of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.forms = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.forms += tag == "form" and "data-here" not in dict(attrs)
        self.found += [value for name, value in attrs if name in {"href", "src"}]


def test_every_address_of_every_page_is_a_file_of_the_site(site):
    folder, published = site
    pages = sorted(folder.rglob("*.html"))
    assert published.files == len(listing(folder)) > 20
    assert not list(folder.glob("boards/*/own"))
    for path in pages:
        addresses = Addresses(path.read_text(encoding="utf-8"))
        assert addresses.forms == 0, path
        for address in addresses.found:
            parts = urlsplit(address)
            if parts.scheme or not parts.path:
                continue
            assert not address.startswith("/"), (path, address)
            assert (path.parent / unquote(parts.path)).resolve().is_file(), (path, address)


def test_the_site_has_all_that_the_board_rests_on(site, sqlite_drawn):
    folder, _ = site
    evaluation = sqlite_drawn.outputs.evaluations["leaning", "cyclic", "symbols"]
    question = sqlite_drawn.outputs.questions["m4"]
    for name in (
        "index.html",
        f"boards/{BOARD}/pairs/index.html",
        "models/leaning/index.html",
        f"evaluations/{evaluation}/index.html",
        f"evaluations/{evaluation}/provenance/index.html",
        "benchmarks/mixed/index.html",
        f"questions/{question}/index.html",
        "metrics-guide/index.html",
        f"data/evaluation_id={evaluation}/predictions.parquet",
        f"api/v1/boards/{BOARD}.json",
    ):
        assert (folder / name).is_file(), name


def test_the_checksums_name_every_file(site):
    folder, _ = site
    lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
    assert dict(reversed(line.split("  ", 1)) for line in lines) == listing(folder)


def test_files_size_time_and_a_missing_key_are_stated_first(site, settings, tmp_path, monkeypatch):
    monkeypatch.setenv("SHUFFLEBOARD_HOME", str(tmp_path / "home"))
    outcome = shuffleboard("publish", BOARD, "--to", tmp_path / "site", database_url=settings.database_url)
    size, key, *_, end, _look = outcome.stderr.splitlines()
    files, megabytes = re.fullmatch(
        rf"{BOARD} has about ([\d,]+) files, (\d+) MB; writing all of them takes about .+", size
    ).groups()
    published = site[1]
    assert int(files.replace(",", "")) == pytest.approx(published.files, rel=0.15)
    assert int(megabytes) == pytest.approx(published.bytes / 1e6, rel=0.2)
    assert "will not be signed" in key
    assert f"{published.files} files" in end


def test_a_board_that_is_not_there_is_named_before_its_missing_key(settings, tmp_path):
    outcome = shuffleboard(
        "publish", "unheard-of", "--to", tmp_path / "site", database_url=settings.database_url, status=None
    )
    assert outcome.stderr.startswith("Error: there is no public board 'unheard-of'")
    assert not (tmp_path / "site").exists()


def test_the_same_board_gives_the_same_bytes_and_only_changes_are_written(site, settings):
    folder, first = site
    before = listing(folder)
    assert publish(settings, BOARD, folder) == Published(first.files, first.bytes, 0, 0)
    assert listing(folder) == before


@pytest.mark.long
def test_a_board_whose_evaluations_are_archived_is_published_with_the_same_folders(
    site, sqlite_archived, settings, tmp_path, monkeypatch
):
    empty_caches(monkeypatch)
    url = sqlite_archived.engine.url.render_as_string(hide_password=False)
    publish(settings.model_copy(update={"database_url": url}), BOARD, tmp_path / "site")
    before, after = listing(site[0]), listing(tmp_path / "site")
    folders = {name for name in before if name.startswith("data/evaluation_id=")}
    assert folders
    assert {name: after[name] for name in folders} == {name: before[name] for name in folders}
    pages = [path.read_text() for path in (tmp_path / "site" / "evaluations").rglob("index.html")]
    assert any("The predictions of this evaluation are archived" in page for page in pages)
    assert before["index.html"] == after["index.html"], "the board is what it was"


@pytest.mark.long
def test_the_next_run_completes_a_broken_one_and_repairs_changed_files(site, settings, tmp_path):
    class CutOffError(Exception):
        pass

    def cut_off(count):
        if count == 7:
            raise CutOffError

    folder, _ = site
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(CutOffError):
        publish(settings, BOARD, elsewhere, cut_off)
    publish(settings, BOARD, elsewhere)
    assert listing(elsewhere) == listing(folder)

    (elsewhere / "index.html").write_text("changed by somebody", encoding="utf-8")
    (elsewhere / "models" / "gone").mkdir()
    (elsewhere / "models" / "gone" / "index.html").write_text("an earlier model's", encoding="utf-8")
    with (elsewhere / CHECKSUMS).open("a", encoding="utf-8") as sums:
        sums.write(f"{'0' * 64}  models/gone/index.html\n")
    (elsewhere / "CNAME").write_text("board.example.org", encoding="utf-8")
    mended = publish(settings, BOARD, elsewhere)
    assert (mended.changed, mended.removed) == (1, 1)
    assert listing(elsewhere).keys() - listing(folder).keys() == {"CNAME"}
    assert not (elsewhere / "models" / "gone").exists()


def test_what_cannot_be_published_is_named_and_leaves_no_trace(settings, tmp_path):
    with pytest.raises(NotFoundError, match=r"no public board .unheard-of.; known: order"):
        publish(settings, "unheard-of", tmp_path / "site")
    assert not (tmp_path / "site").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="holds something that was not published"):
        publish(settings, BOARD, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    with pytest.raises(UsageError, match="this is a file"):
        publish(settings, BOARD, tmp_path / "mine" / "thesis.txt")
    (tmp_path / "led-astray").mkdir()
    (tmp_path / "led-astray" / CHECKSUMS).write_text(f"{'0' * 64}  ../mine/thesis.txt\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"leads to '\.\./mine/thesis\.txt', outside"):
        publish(settings, BOARD, tmp_path / "led-astray")
    assert (tmp_path / "mine" / "thesis.txt").is_file()


def test_what_users_wrote_stays_as_it_was_escaped():
    def nowhere(_address):
        return None

    written = (
        '<p>a &lt;b&gt; &amp; c <a href="/x" title="&quot;">&#39;d&#39;</a> <pre>\n   \n   <b>e</b>\n   </pre></p>'
    )
    assert rewrite(written, str) == written
    assert rewrite(written, lambda address: f"{address}?&") == written.replace("/x", "/x?&amp;")
    as_text = written.replace('<a href="/x" title', "<span title").replace("</a>", "</span>")
    assert rewrite(written, nowhere) == as_text
    assert rewrite("<div><form><b>x</b></form><i data-live>y<br></i>z</div>", nowhere) == "<div>z</div>"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A web server that knows nothing of us."""

    def log_message(self, *_):
        pass


def any_web_server(folder: Path):
    return running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))))


def test_a_browser_shows_sorts_and_queries_it_from_its_own_files_alone(chromium, site):
    folder, _ = site
    with any_web_server(folder) as base, page(chromium, viewport={"width": 1440, "height": 900}) as opened:
        requests = []
        opened.on("request", lambda request: requests.append(request.url))
        opened.goto(base)
        models = opened.locator(".standing tbody th[scope=row] > a")
        expect(models.first).to_be_visible()
        before = models.all_inner_texts()
        heading = opened.locator(".standing th").filter(has_text="Model")
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", "descending")
        assert models.all_inner_texts() == sorted(before, reverse=True)
        expect(opened.locator("main")).to_contain_text(
            "Here you can sort and filter tables; the server of this board ranks other tasks, weights and models"
        )
        models.first.click()
        expect(opened.locator("h1")).to_have_text(re.compile(max(before)))

        opened.goto(f"{base}/query/")
        opened.get_by_label("Query").fill("SELECT count(*) FROM prediction_detail WHERE correct")
        opened.get_by_role("button", name="Run").click()
        expect(opened.locator("#answer td").first).to_have_text(re.compile(r"^[1-9]\d*$"))
        opened.get_by_role("button", name="Which models lose most").click()
        expect(opened.locator("#answer th").first).to_have_text("model")
        assert {urlsplit(url).netloc for url in requests if not url.startswith("blob:")} == {urlsplit(base).netloc}


def test_a_query_that_cannot_be_run_says_so(chromium, site):
    folder, _ = site
    # DuckDB also reports it to the console.
    with any_web_server(folder) as base, closing(chromium.new_page()) as opened:
        opened.goto(f"{base}/query/")
        opened.get_by_label("Query").fill("SELEC 1")
        opened.keyboard.press("Control+Enter")
        expect(opened.get_by_role("alert")).to_have_text(
            re.compile("syntax error at or near .SELEC.(?!.*duckdb-worker)", re.DOTALL)
        )
        opened.route("**/leaderboard.parquet", lambda route: route.abort())
        opened.get_by_label("Query").fill("SELECT model FROM leaderboard")
        opened.keyboard.press("Control+Enter")
        expect(opened.get_by_role("alert")).to_have_text(
            re.compile("cannot be fetched .no answer.; run the query again")
        )
        opened.unroute("**/leaderboard.parquet")
        opened.keyboard.press("Control+Enter")
        expect(opened.locator("#answer th").first).to_have_text("model")
        opened.get_by_label("Query").fill("SELECT json_keys('{}')")
        opened.keyboard.press("Control+Enter")
        expect(opened.get_by_role("alert")).to_have_text(re.compile("it exists in the json extension.$"))


def test_it_can_be_read_on_a_phone_without_scripts(chromium, site):
    folder, _ = site
    phone = {"width": 390, "height": 844}
    with any_web_server(folder) as base, page(chromium, java_script_enabled=False, viewport=phone) as opened:
        opened.goto(base)
        expect(opened.get_by_role("navigation", name="Main").get_by_role("link", name="SQL")).to_be_visible()
        assert opened.evaluate("document.documentElement.scrollWidth") == 390
        opened.locator(".standing tbody th[scope=row] > a").first.click()
        expect(opened.locator("h1")).to_be_visible()
        opened.goto(f"{base}/query/")
        expect(opened.get_by_text("The query runs in a script")).to_be_visible()
        expect(opened.get_by_role("button", name="Run")).not_to_be_visible()


@pytest.mark.one_engine
def test_a_board_is_a_dataset_whose_card_names_every_table(settings, tmp_path):
    folder = tmp_path / "dataset"
    names = publish_dataset(settings, BOARD, folder)
    _, head, _ = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    card = DatasetCardData(**yaml.safe_load(head))
    files = {one["config_name"]: one["data_files"] for one in card.configs}
    assert sorted(files) == sorted(names)
    assert {"board", "leaderboard", "evaluation_metrics"} <= set(names)
    tables = {name: pyarrow.parquet.read_table(folder / file) for name, file in files.items()}
    document = board_document(settings, BOARD)
    expected = [row["values"][one["name"]]["value"] for row in document["rows"] for one in document["columns"]]
    assert tables["board"].column("value").to_pylist() == expected
    with pytest.raises(UsageError, match="already contains files"):
        publish_dataset(settings, BOARD, folder)
