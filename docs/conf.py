"""The configuration of Sphinx, which builds the site from these pages: `make docs`, into build/site.

The pages are plain Markdown that a Git host can show as well. The site needs more: the menu is read from the front
page, links that leave docs/ get a target, formulas become MathML, and a script draws the diagrams.
"""

# ruff: noqa: INP001 - Sphinx executes this file; it is in no package.

import logging
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

DOCS: Final = Path(__file__).resolve().parent
ROOT: Final = DOCS.parent
sys.path.insert(0, str(ROOT))  # a checkout may be built without being installed
logging.getLogger("alembic").setLevel(logging.WARNING)  # Sphinx would show alembic's messages on import.

REPOSITORY: Final = os.environ.get("SHUFFLEBOARD_REPOSITORY_URL", "").rstrip("/")
"""URL of the repository's files, such as https://git.example.org/shuffleboard/blob/main; empty if there is none."""

DEMO: Final = bool(os.environ.get("SHUFFLEBOARD_DOCS_DEMO"))
"""True if the site includes the demo's published board under demo/, which `make docs` writes."""

project = "Shuffleboard"
html_title = "Shuffleboard"
language = "en"
root_doc = "index"

extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["_static"]
nitpicky = True

myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_digits = False  # "$5 and $6" are no formula
myst_dmath_allow_space = False
myst_heading_anchors = 4  # anchors as Git hosts make them, since links use them

html_theme = "furo"
html_static_path = ["_static", "../web/static/icon.svg"]
html_logo = "../web/static/icon.svg"
html_favicon = "../web/static/icon.svg"
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1d4f91", "color-brand-content": "#1d4f91"},
    "dark_css_variables": {"color-brand-primary": "#8db8f0", "color-brand-content": "#8db8f0"},
}
html_math_renderer = "mathml"
copybutton_selector = ", ".join(
    f".highlight-{language} pre" for language in ("sh", "console", "python", "sql", "toml", "json", "yaml")
)
copybutton_prompt_text = "$ "  # copy the commands of a console block without their output

# The menu, and links that leave docs/

PAGES: Final = {ROOT / "README.md": "index.md", ROOT / "CONTRIBUTING.md": "contributing.md"}
"""Pages outside docs/, and the pages of the site that replace them."""

_BLOCK_OR_LINK: Final = re.compile(
    r"(?P<block>^ *```.*?^ *```$)|\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)", re.MULTILINE | re.DOTALL
)


def led(text: str, folder: Path, docname: str) -> str:
    """Return a page's text with new targets for the links that leave docs/.

    folder: base of the text's relative links. Links to files of the repository lead to REPOSITORY, or become plain text
    if that is not set.
    """

    def link(match: re.Match[str]) -> str:
        target = match["target"]
        if match["block"] or re.match(r"[a-z]+:|#", target):
            return match[0]
        file, hash_, anchor = target.partition("#")
        path = (folder / file).resolve()
        if path in PAGES:
            path = DOCS / PAGES[path]
        elif not path.is_relative_to(DOCS):
            address = f"{REPOSITORY}/{path.relative_to(ROOT).as_posix()}{hash_}{anchor}"
            return f"[{match['text']}]({address})" if REPOSITORY else match["text"]
        elif path.is_dir():
            path /= "README.md"
        relative_path = os.path.relpath(path, (DOCS / docname).parent).replace(os.sep, "/")
        return f"[{match['text']}]({relative_path}{hash_}{anchor})"

    return _BLOCK_OR_LINK.sub(link, text)


def menu(text: str) -> str:
    """Return the menu for Sphinx: headings and lists of links from the front page."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    listed = zip(parts[1::2], parts[2::2], strict=True)
    links = re.compile(r"^- \[([^\]]+)\]\(([^)]+)\.md\)", re.MULTILINE)
    return "".join(
        _toctree(f":caption: {heading}", (f"{label} <{page}>" for label, page in links.findall(part)))
        for heading, part in listed
    )


def submenu(text: str) -> str:
    """Return the menu below a folder's README: the neighbouring pages that it links to, in its order."""
    return _toctree(":titlesonly:", dict.fromkeys(re.findall(r"\]\(([\w-]+)\.md\)", text)))


def _toctree(option: str, entries: Iterable[str]) -> str:
    return "\n".join(("", "```{toctree}", ":hidden:", option, "", *entries, "```", ""))


RECORDS: Final = ("decisions", "evidence", "papers")
"""Folders of dated records, which are on the site but not in its menu."""


def read_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Set a page's text to the text that the site shows."""
    if docname == "contributing":  # docs/contributing.md is only a link
        page = ROOT / "CONTRIBUTING.md"
        app.env.note_dependency(page)
        source[0] = led(page.read_text(encoding="utf-8"), ROOT, docname)
    else:
        source[0] = led(source[0], (DOCS / docname).parent, docname)
    if docname == "index":
        source[0] += menu(source[0])
        if DEMO:
            link = '<p><a href="demo/index.html">Click through the demo\'s board</a> before you install anything.</p>'
            source[0] = source[0].replace("\n\n| You want", f"\n\n{link}\n\n| You want", 1)
    elif docname.endswith("/README"):
        source[0] += submenu(source[0])
    if docname in {f"{folder}/README" for folder in RECORDS}:
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"


# Formulas and diagrams


def inline_formula(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def formula(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on its own lines."""
    translator.body.append(f'<div class="math">{_mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, display: str) -> str:
    from web.pages.guide import mathml

    return str(mathml(node.astext(), display))


def write_for_programs(app: Sphinx, failed: Exception | None) -> None:
    """Write each page as Markdown next to its HTML, and llms.txt, which lists them, at the top of the site."""
    if failed is not None:
        return
    out = Path(app.outdir)
    for docname in sorted(app.env.found_docs):
        page = ROOT / "CONTRIBUTING.md" if docname == "contributing" else DOCS / f"{docname}.md"
        text = led(page.read_text(encoding="utf-8"), page.parent, docname)
        (out / f"{docname}.md").write_text(text, encoding="utf-8")
    (out / "llms.txt").write_text(llms((DOCS / "index.md").read_text(encoding="utf-8")), encoding="utf-8")


def llms(index: str) -> str:
    """Return the front page in the format of llmstxt.org: a title, a summary, and lists of links to Markdown."""
    summary = index.split("\n\n")[1].replace("\n", " ")
    parts = re.split(r"^## (.+)$", index, flags=re.MULTILINE)
    lists = zip(parts[1::2], parts[2::2], strict=True)
    entries = (f"## {heading}\n\n" + "\n".join(re.findall(r"^- .+$", part, re.MULTILINE)) for heading, part in lists)
    return "\n\n".join(["# Shuffleboard", f"> {summary}", *entries]) + "\n"


def add_diagrams(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Add the drawing scripts to a page with diagrams; no other page has to load them."""
    if "highlight-mermaid" in context.get("body", ""):
        app.add_js_file("vendor/mermaid.min.js", loading_method="defer")
        app.add_js_file("diagrams.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the functions above; Sphinx calls this."""
    for plain in ("mermaid", "csv", "jsonl"):
        app.add_lexer(plain, TextLexer)
    app.add_html_math_renderer("mathml", (inline_formula, None), (formula, None))
    app.connect("source-read", read_page)
    app.connect("html-page-context", add_diagrams)
    app.connect("build-finished", write_for_programs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
