"""Untrusted SQL as tokens, in the small part of SQL that every parser tokenises the same way.

The guard checks what sqlglot reads, and the database runs what the database reads. Where the two cut a text up
differently, something can stand in a comment for the one and be run by the other. So what they could differ on is
refused or removed here: comments become a blank; escaped, prefixed and dollar-quoted strings, nested comments, control
characters and letters outside ASCII between the quotes are refused. What is left is run as it stands.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from registry.errors import QueryRefusedError

MAX_CHARACTERS: Final = 10_000
MAX_DEPTH: Final = 40
"""Parentheses within parentheses: sqlglot recurses into them."""

Kind = Literal["word", "quoted", "string", "number", "operator", "mark"]


@dataclass(frozen=True)
class Token:
    """A piece of the text. text: as it is written, with its quotes. start: where it begins."""

    kind: Kind
    text: str
    start: int

    @property
    def name(self) -> str:
        """A word or quoted name in lower case, without its quotes."""
        return self.text.strip('"').lower()


_OPERATORS: Final = (
    "=",
    "<>",
    "!=",
    "<",
    ">",
    "<=",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "->",
    "->>",
    "#>",
    "#>>",
    "::",
)
_BEFORE_A_SIGN: Final = ("=", "<>", "<", ">", "<=", ">=", "+", "*", "/")

_PIECES: Final = re.compile(
    r"""
      (?P<blank>  [ \t\n]+ )
    | (?P<word>   [A-Za-z_][A-Za-z0-9_]* )
    | (?P<number> (?: \d+ (?:\.\d*)? | \.\d+ ) (?:[eE][+-]?\d+)? )
    | (?P<string> '(?:[^']|'')*' )
    | (?P<quoted> "[^"]*" )
    | (?P<mark>   [(),.;\[\]] )
    | (?P<operator> (?: (?!--|/\*) [-+*/<>=!%|\#:] )+ )
    """,
    re.VERBOSE,
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


def without_comments(text: str) -> str:
    """The text with a blank for each comment, and lines that end in a line feed alone.

    Raises QueryRefusedError for a text that is too long, for control characters, and for comments that are nested or
    not closed.
    """
    if len(text) > MAX_CHARACTERS:
        raise QueryRefusedError(f"the query has {len(text)} characters; shorten it to {MAX_CHARACTERS}")
    text = text.replace("\r\n", "\n")
    if control := _CONTROL.search(text):
        raise QueryRefusedError(
            f"character {control.start() + 1} of the query is the control character U+{ord(control[0]):04X}; remove it"
        )
    pieces = []
    place = 0
    while place < len(text):
        if text.startswith("--", place):
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
            pieces.append(" ")
        elif text.startswith("/*", place):
            end = text.find("*/", place + 2)
            # PostgreSQL nests comments and SQLite does not: what follows the first end would be read differently.
            if end < 0 or "/*" in text[place + 2 : end]:
                raise QueryRefusedError(
                    f"the comment at character {place + 1} is nested or not closed; remove it or end it with */"
                )
            pieces.append(" ")
            place = end + 2
        elif text[place] in "'\"":
            end = text.find(text[place], place + 1)
            if end < 0:
                raise QueryRefusedError(f"the quote at character {place + 1} is not closed; close it")
            pieces.append(text[place : end + 1])
            place = end + 1
        else:
            pieces.append(text[place])
            place += 1
    return "".join(pieces).strip()


def tokens(text: str) -> list[Token]:
    """The tokens of a text without comments. Raises QueryRefusedError for what is not in the small part of SQL."""
    found: list[Token] = []
    place = depth = 0
    while place < len(text):
        match = _PIECES.match(text, place)
        if match is None or match.lastgroup is None:
            raise _unknown(text, place)
        kind = match.lastgroup
        if kind == "operator":
            found.extend(_operators(match[0], place))
        elif kind != "blank":
            found.append(Token(kind, match[0], place))  # type: ignore[arg-type]  # the names of the groups are the kinds
        depth += (match[0] == "(") - (match[0] == ")")
        if depth > MAX_DEPTH:
            raise QueryRefusedError(f"parentheses are nested more than {MAX_DEPTH} deep; simplify the query")
        place = match.end()
        if (
            kind == "number"
            and match[0][-1].isdigit()
            and "e" in match[0].lower()
            and text[place : place + 1] in ("+", "-")
        ):
            # sqlglot takes 1e5-1 for one number.
            raise QueryRefusedError(
                f"{text[match.start() : place + 1]!r} at character {match.start() + 1}: write a space after the number"
            )
        # E'…', U&"…", X'…', 1e5x and 'a'b mean different things to different readers.
        if (
            kind in ("word", "number", "string", "quoted")
            and place < len(text)
            and (text[place] in "'\"" or (kind != "word" and re.match(r"\w", text[place])))
        ):
            raise QueryRefusedError(
                f"{text[match.start() : place + 1]!r} at character {match.start() + 1}: prefixed strings, and names "
                "without a space between them, are not supported; write a plain 'string', with '' for a quote in it"
            )
    return found


def _operators(run: str, place: int) -> list[Token]:
    """A run of operator characters as one operator, or as one and a sign."""
    if run in _OPERATORS:
        return [Token("operator", run, place)]
    if run[-1] in "+-" and run[:-1] in _BEFORE_A_SIGN:
        return [Token("operator", run[:-1], place), Token("operator", run[-1], place + len(run) - 1)]
    raise QueryRefusedError(
        f"operator {run!r} at character {place + 1} is not supported; use one of {' '.join(_OPERATORS)}, "
        "with spaces between them"
    )


def _unknown(text: str, place: int) -> QueryRefusedError:
    character = text[place]
    where = f"character {place + 1}"
    if character in "?$:@":
        return QueryRefusedError(f"{character!r} at {where}: parameters are not supported; write the value itself")
    if not character.isascii():
        return QueryRefusedError(
            f"{character!r} at {where}: letters outside ASCII are allowed only within quotes; quote the text or the "
            "name"
        )
    return QueryRefusedError(f"{character!r} at {where} is not supported; remove it")
