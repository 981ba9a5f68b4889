"""Rewrites a page of the website into a page that needs no server."""

from collections.abc import Callable
from html import escape
from html.parser import HTMLParser
from typing import Final

Target = Callable[[str], str | None]
"""Maps an address in the page to the address in the published page; None if it is not published."""

LIVE: Final = "data-live"
"""Attribute that marks an element as needing a server; the site omits the element."""
_FOLLOWING: Final = frozenset({"data-follow", "data-poll", "data-swap"})
"""Attributes that make scripts send requests."""
_ADDRESSES: Final = frozenset({"href", "src"})
_LISTS: Final = frozenset({"data-libraries", "data-worker", "data-duckdb", "data-parquet", "data-tables"})
"""Attributes that list addresses for scripts, separated by spaces; only addresses that begin with a slash count."""
HERE: Final = "data-here"
"""Attribute of a form that needs no server; all other forms are omitted, with fields that belong to them by name."""
_AS_WRITTEN: Final = frozenset({"pre", "script", "style", "textarea"})
_ENDED_BY_THE_NEXT: Final = frozenset({"td", "th", "tr"})
"""Elements whose end tag is optional in HTML and omitted, since a site has many thousands of them."""
_VOID: Final = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"})


def rewrite(page: str, target: Target) -> str:
    """Return the page with its addresses replaced, and without the space between lines of tags.

    A link to an unpublished page becomes plain text; a form, a picture or a script with such an address is removed.
    """
    rewriter = _Rewriter(target)
    rewriter.feed(page)
    rewriter.close()
    return "".join(rewriter.written)


class _Rewriter(HTMLParser):
    def __init__(self, target: Target) -> None:
        super().__init__(convert_charrefs=False)
        self.written: list[str] = []
        self._target = target
        self._open: list[tuple[str, str]] = []
        """The open elements: original tag name and the name that closes it, empty if the element is left out."""
        self._left_out = 0
        """The number of open elements that are left out."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        shown, leave_out = tag, LIVE in attributes or "form" in attributes or (tag == "form" and HERE not in attributes)
        changed = {name: value for name, value in attrs if name not in _FOLLOWING}
        for name in _ADDRESSES & set(attributes):
            address = self._target(attributes[name] or "")
            if address is not None:
                changed[name] = address
            elif tag == "a":
                shown = "span"
                changed = {key: value for key, value in changed.items() if key in {"class", "title", "id"}}
            else:
                leave_out = True
        for name in _LISTS & set(attributes):
            parts = (attributes[name] or "").split()
            changed[name] = " ".join((self._target(part) or "") if part.startswith("/") else part for part in parts)
        if tag not in _VOID:
            self._open.append((tag, "" if leave_out else shown))
            self._left_out += leave_out
        elif leave_out:
            return
        if self._left_out:
            return
        if shown == tag and changed == attributes:
            self._write(self.get_starttag_text() or "")
        else:
            self._write(_write_tag(shown, changed))

    def handle_startendtag(self, _tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        # Drawings have such elements, without addresses of their own.
        self._write(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            was, closes = self._open.pop()
            if not closes:
                self._left_out -= 1
            elif was == tag and tag not in _ENDED_BY_THE_NEXT:
                self._write(f"</{closes}>")
            if was == tag:
                return

    def handle_data(self, data: str) -> None:
        between = data.isspace() and "\n" in data and not any(tag in _AS_WRITTEN for tag, _ in self._open)
        self._write("\n" if between else data)

    def handle_entityref(self, name: str) -> None:
        self._write(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._write(f"&#{name};")

    def handle_comment(self, data: str) -> None:
        self._write(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._write(f"<!{decl}>")

    def _write(self, text: str) -> None:
        if not self._left_out:
            self.written.append(text)


def _write_tag(name: str, attributes: dict[str, str | None]) -> str:
    text = "".join(f" {key}" if value is None else f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{text}>"
