"""The site that Sphinx builds from the documentation: complete, without broken links or requests to other hosts."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from registry.metrics.catalogue import METRICS
from registry.schema.views import VIEWS
from registry.settings import Settings
from tests.docs.pages import DOCS, ROOT, blocks, generator, list_docs, omit_blocks, read

pytestmark = pytest.mark.long

LOADS = {("script", "src"), ("img", "src"), ("source", "srcset"), ("iframe", "src"), ("object", "data")}
"""Attributes with addresses that a browser loads by itself, as for every <link> that is not merely a reference."""
POINTS = {"author", "canonical", "index", "next", "prev", "search"}


@dataclass
class Built(HTMLParser):
    """A page of the site: its loaded files, links, anchors, and the entries of its menu."""

    loads: list[str] = field(default_factory=list)
    leads: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    menu: list[str] = field(default_factory=list)
    pictures_without_words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.ids |= {attributes[name] for name in ("id", "name") if name in attributes}
        self.loads += [value for name, value in attributes.items() if (tag, name) in LOADS]
        if tag == "link" and not POINTS & set(attributes["rel"].split()):
            self.loads.append(attributes["href"])
        if tag == "a" and "href" in attributes:
            self.leads.append(attributes["href"])
            if attributes.get("class", "").startswith("reference internal"):
                self.menu.append(attributes["href"])
        if tag == "img" and not attributes.get("alt"):
            self.pictures_without_words.append(attributes.get("src", ""))


@dataclass
class Site:
    """A built site. complaints: Sphinx's warnings."""

    folder: Path
    complaints: str
    pages: dict[Path, Built]

    def page(self, name: str) -> Built:
        return self.pages[self.folder / name]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return the site, built once; warnings fail the first test and leave the site for the others."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-n", "--keep-going", str(DOCS), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    pages = {}
    for path in sorted(folder.rglob("*.html")):
        pages[path] = Built()
        pages[path].feed(path.read_text(encoding="utf-8"))
    return Site(folder, done.stderr, pages)


def build(page: Path) -> str:
    """Return the site's path for a page of docs/."""
    return page.relative_to(DOCS).with_suffix(".html").as_posix()


def test_it_is_built_without_a_warning(site: Site) -> None:
    assert site.complaints == ""


@pytest.mark.parametrize("page", list_docs(), ids=lambda page: page.stem)
def test_pages_have_no_syntax_that_a_git_host_does_not_know(page: Path) -> None:
    # A role is a word in braces before code: {ref}`name`.
    text = re.sub(r"`[^`]*`", "`", omit_blocks(page))
    assert not re.search(r"^ *:::|^\([\w-]+\)=$|\{[a-z]+\}`", text, re.MULTILINE)
    assert not [block.info for block in blocks(page) if block.info.startswith("{")]


def test_every_page_is_on_the_site_and_in_its_menu(site: Site) -> None:
    listed = {urlsplit(address).path for address in site.page("index.html").menu}
    records = {page for page in list_docs() if page.relative_to(DOCS).parts[0] in ("decisions", "evidence", "papers")}
    assert {build(page) for page in list_docs() if page not in records} - {"index.html"} <= listed
    text = read(site.folder / "index.html")
    menu = text[text.index('class="sidebar-tree"') : text.index("</aside>")]
    assert not [page for page in records if f'href="{build(page)}"' in menu]
    assert "Where everything is" in read(site.folder / "contributing.html")


def test_programs_find_each_page_as_markdown_and_a_list_of_them(site: Site) -> None:
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+\.md)\): .+", read(site.folder / "llms.txt"), re.MULTILINE)
    assert len(listed) > 40
    for name in (*listed, *(page.relative_to(DOCS).as_posix() for page in list_docs())):
        assert read(site.folder / name).startswith(("# ", "<!--")), name


def test_no_page_asks_another_host_for_anything(site: Site) -> None:
    for path, page in site.pages.items():
        assert page.loads, path
        assert [address for address in page.loads if re.match(r"(?:[a-z]+:)?//", address)] == [], path
    for sheet in site.folder.rglob("*.css"):
        assert not re.search(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""", read(sheet)), sheet


def test_every_link_leads_to_a_page_and_to_a_place_on_it(site: Site) -> None:
    dead = []
    for path, page in site.pages.items():
        for address in {*page.leads, *page.loads}:
            parts = urlsplit(address)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lost = not target.is_file() or not target.is_relative_to(site.folder.resolve())
            if lost or (parts.fragment and target in site.pages and parts.fragment not in site.pages[target].ids):
                dead.append(f"{path.relative_to(site.folder)}: {address}")
    assert dead == []


def test_every_picture_says_in_words_what_is_on_it(site: Site) -> None:
    assert [picture for page in site.pages.values() for picture in page.pictures_without_words] == []


def test_every_setting_metric_command_and_view_has_its_place(site: Site) -> None:
    settings = read(site.folder / "settings.html")
    for name in Settings.model_fields:
        assert f">SHUFFLEBOARD_{name.upper()}<" in settings
    assert set(METRICS) <= site.page("metrics.html").ids
    commands = {"-".join(("shuffleboard", *words)) for words, _ in generator().commands() if words}
    groups = {command for command in commands if any(other.startswith(f"{command}-") for other in commands)}
    assert commands - groups <= site.page("command-line.html").ids
    assert set(VIEWS) <= site.page("views.html").ids


def test_links_to_source_files_lead_to_the_repository_where_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    conf: dict[str, object] = {"__file__": str(DOCS / "conf.py")}
    shown = "https://git.example.org/blob/main/registry/metrics/cora.py"
    for address, source in (("", "`cora.py`"), ("https://git.example.org/blob/main/", f"[`cora.py`]({shown})")):
        monkeypatch.setenv("SHUFFLEBOARD_REPOSITORY_URL", address)
        exec(compile(read(DOCS / "conf.py"), "conf.py", "exec"), conf)
        page = "[metrics](../metrics.md#cora), [`cora.py`](../../registry/metrics/cora.py), [why](../../README.md)"
        led = conf["led"](page, DOCS / "papers", "papers/cora")  # type: ignore[operator]
        assert led == f"[metrics](../metrics.md#cora), {source}, [why](../index.md)"


@contextmanager
def open_page(chromium: Browser, site: Site) -> Iterator[tuple[Page, str]]:
    """Yield a narrow tab that must not complain nor reach other hosts, and the site's address."""
    complaints: list[str] = []

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site.folder))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    base = f"http://127.0.0.1:{server.server_port}"
    try:
        with closing(chromium.new_page(color_scheme="light", viewport={"width": 390, "height": 844})) as page:
            page.on("request", lambda request: complaints.append(request.url) if elsewhere(request.url, base) else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            yield page, base
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert complaints == []


def elsewhere(address: str, base: str) -> bool:
    return not address.startswith((f"{base}/", "data:"))


def test_diagrams_are_drawn_and_follow_the_light_and_the_dark_scheme(site: Site, chromium: Browser) -> None:
    diagrams = [page for page in list_docs() if blocks(page, "mermaid")]
    assert diagrams
    with open_page(chromium, site) as (page, base):
        for path in diagrams:
            page.emulate_media(color_scheme="light")
            page.goto(f"{base}/{build(path)}")
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.wait_for_selector(f"body[data-diagrams={scheme}]")
                drawings = page.locator(".highlight-mermaid svg")
                assert drawings.count() == len(blocks(path, "mermaid"))
                assert all(len(text.split()) > 4 for text in drawings.all_text_contents())
                colour = page.evaluate("getComputedStyle(document.querySelector('.diagram .nodeLabel')).color")
                bright = sum(map(int, re.findall(r"\d+", colour)[:3])) > 3 * 127
                assert bright == (scheme == "dark"), colour


def test_pages_fit_a_narrow_window_and_wide_tables_scroll_within_themselves(site: Site, chromium: Browser) -> None:
    with open_page(chromium, site) as (page, base):
        for name in ("index", "views", "architecture", "api"):
            page.goto(f"{base}/{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        assert page.evaluate(
            "[...document.querySelectorAll('.table-wrapper')].some((each) => each.scrollWidth > each.clientWidth)"
        )


def test_commands_are_copied_without_their_prompts(site: Site, chromium: Browser) -> None:
    console = [page for page in list_docs() if any(block.language == "console" for block in blocks(page))]
    with open_page(chromium, site) as (page, base):
        page.goto(f"{base}/{build(console[0])}")
        page.wait_for_selector(".highlight-console button.copybtn")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        shown = page.locator(".highlight-console pre").first.inner_text()
        page.locator(".highlight-console button.copybtn").first.click()
        page.wait_for_selector(".copybtn.success")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert [f"$ {line}" for line in copied.splitlines()] == [
            line for line in shown.splitlines() if line.startswith("$ ")
        ]
        assert copied


def test_the_search_finds_a_word(site: Site, chromium: Browser) -> None:
    with open_page(chromium, site) as (page, base):
        page.goto(f"{base}/search.html?q=fluctuation")
        page.wait_for_selector("#search-results a[href*='metrics.html']")
