"""English of the code: counts how docstrings, comments and names are written, and refuses more than the ceilings.

    python -m tests.code_prose            counts for each package; status 1 if a ceiling is passed, or a test's name
                                          has more than twelve words
    python -m tests.code_prose --list P   every place of a pattern, such as `what` or `names`, under the paths that follow
    python -m tests.code_prose --rooms    counts for each folder

The ceilings are the highest of four projects that people praise for their code: Inspect, Datasette, procrastinate and
warehouse.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("registry", "workers", "web", "shuffleboard", "migrations", "docs", "docker", "tests", "bench")

WORDS: Final = {
    "what": (r"\bwhat\b(?![^.!?:;]*\?)", 11),
    "where": (r"\bwhere\b(?![^.!?:;]*\?)", 13),
    "software that acts": (
        (
            r"\b(?:ask(?:s|ed|ing)?|sa(?:ys?|id|ying)|tells?|told|telling|st(?:ands?|ood|anding)|h(?:olds?|eld|olding)"
            r"|(?:comes?|came|coming) to)\b"
        ),
        16,
    ),
    "one that": (r"\bones? that\b|\bthose (?:of|that)\b|\bof which\b", 3),
    "known of": (r"\b(?:known|said|read|asked|told|seen|kept|left) of\b", 1),
    "beside": (r"\b(?:beside|alike|whoever|anew|whom|meanwhile)\b(?! the point)", 4),
}
"""Pattern → its highest rate in 10,000 words of docstrings and comments."""
FIRST_WORDS: Final = r"(?:an?|the|what|whether|how|each|every|all|where|which|who|whose|those|one|of|as|if|when)\b"
FIRST_AT_MOST: Final = 0.14
"""Largest share of functions' docstrings that may begin with an article or a question word in place of a verb."""
PREPOSITIONS: Final = frozenset(
    [
        "about",
        "above",
        "across",
        "after",
        "against",
        "among",
        "around",
        "at",
        "before",
        "behind",
        "below",
        "beside",
        "between",
        "beyond",
        "by",
        "down",
        "during",
        "for",
        "from",
        "in",
        "inside",
        "into",
        "near",
        "of",
        "off",
        "on",
        "onto",
        "out",
        "outside",
        "over",
        "past",
        "since",
        "through",
        "to",
        "toward",
        "under",
        "until",
        "up",
        "upon",
        "with",
        "within",
        "without",
    ]
)
ALLOWED_FIRST: Final = frozenset(
    [
        "from",
        "to",
        "as",
        "by",
        "with",
        "on",
        "at",
        "in",
        "for",
        "is",
        "has",
        "up",
    ]  # from_json, to_dict, as_csv, by_name, with_seed, on_start
)
NOUNS: Final = frozenset(
    [
        "seed",
        "speed",
        "feed",
        "need",
        "weed",
        "bed",
        "id",
        "embed",
        "led",
        "red",
        "shed",
        "sped",
        "thread",
        "spread",
        "head",
        "read",
        "bread",
        "lead",
        "tread",
        "embedded",
        "nested",
        "signed",
        "unsigned",
        "weighted",
        "paired",
        "shared",
        "cached",
        "related",
    ]
)
"""Words that end like participles, but are nouns, verbs or adjectives in front of a noun."""
PARTICIPLES: Final = frozenset(
    [
        "found",
        "known",
        "given",
        "taken",
        "made",
        "said",
        "told",
        "held",
        "kept",
        "left",
        "seen",
        "shown",
        "drawn",
        "written",
        "read_of",
        "chosen",
        "gone",
        "done",
        "been",
        "begun",
        "spent",
        "sent",
        "built",
        "put",
        "meant",
        "understood",
        "spelt",
        "got",
        "stood",
    ]
)
NAMES_AT_MOST: Final = 0.03
"""Largest share of functions whose names may begin with a participle or a preposition."""
TEST_NAME_WORDS: Final = 12
"""The most words after `test_` in the name of a test."""


@dataclass(frozen=True)
class Prose:
    """A docstring or a comment. kind: function, class, module or comment."""

    path: Path
    line: int
    kind: str
    words: str


@dataclass(frozen=True)
class Name:
    """The name of a function."""

    path: Path
    line: int
    name: str


def python_files(folders: Iterable[str]) -> list[Path]:
    """Return the Python files under some folders or files of the project, in order."""
    paths: list[Path] = []
    for folder in folders:
        path = ROOT / folder
        paths += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [path for path in paths if "vendor" not in path.parts]


@cache
def read_prose(path: Path) -> tuple[Prose, ...]:
    """Return the docstrings and comments of a file."""
    return tuple(_iterate_prose(path))


def _iterate_prose(path: Path) -> Iterator[Prose]:
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            kinds = {ast.Module: "module", ast.ClassDef: "class"}
            yield from _docstring(path, node.body[0] if node.body else None, kinds.get(type(node), "function"))
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for statement in node.body[1:]:
                    yield from _docstring(path, statement, "variable")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(?:noqa|type:|!)", token.string):
            words = re.sub(r"#\s?|noqa: [A-Z\d, ]+|type: ignore\S*", "", token.string)
            yield Prose(path, token.start[0], "comment", _plain(words))


def _docstring(path: Path, statement: ast.stmt | None, kind: str) -> Iterator[Prose]:
    if (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ):
        yield Prose(path, statement.lineno, kind, _plain(statement.value.value))


def _plain(text: str) -> str:
    """Return the text without code: one word for each piece in backticks, none for indented examples."""
    lines = [line for line in text.split("\n") if not re.match(r" {8,}\S|\s*>>>", line)]
    return re.sub(r"`+[^`]+`+", "Code", "\n".join(lines))


@cache
def read_names(path: Path) -> tuple[Name, ...]:
    """Return the names of a file's functions, except tests, fixtures, properties and methods that Python calls."""
    return tuple(_iterate_names(path))


def _iterate_names(path: Path) -> Iterator[Name]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        decorators = " ".join(map(ast.unparse, node.decorator_list))
        if not re.match(r"test_|__", node.name) and not re.search(r"property|fixture|route|setter", decorators):
            yield Name(path, node.lineno, node.name)


def list_long_tests() -> list[str]:
    """Return the tests whose names have more than TEST_NAME_WORDS words."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in python_files(["tests"])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and len(node.name.split("_")) - 1 > TEST_NAME_WORDS
    ]


def count_words(text: str) -> int:
    """Return the number of words."""
    return len(re.findall(r"[^\W_][\w'’-]*", text))


def is_odd_first_line(prose: Prose) -> bool:
    """Return whether a function's docstring begins with an article or a question word."""
    return prose.kind == "function" and re.match(FIRST_WORDS, prose.words.strip(), re.IGNORECASE) is not None


def is_odd_name(name: Name) -> bool:
    """Return whether a function's name begins with a participle or a preposition."""
    words = name.name.strip("_").split("_")
    first = words[0]
    if first in PREPOSITIONS:
        return first not in ALLOWED_FIRST or len(words) == 1
    if first in PARTICIPLES:
        return True
    return first.endswith("ed") and first not in NOUNS


def rates(prose: list[Prose], names: list[Name]) -> dict[str, float]:
    """Return occurrences per 10,000 words of each pattern, and the shares of odd first lines and names."""
    texts = [item.words for item in prose]
    words = max(sum(map(count_words, texts)), 1)
    frequencies = {
        name: 10_000 * sum(len(re.findall(pattern, text, re.IGNORECASE)) for text in texts) / words
        for name, (pattern, _) in WORDS.items()
    }
    functions = [item for item in prose if item.kind == "function"]
    return {
        "words": words,
        **frequencies,
        "first": sum(map(is_odd_first_line, functions)) / max(len(functions), 1),
        "names": sum(map(is_odd_name, names)) / max(len(names), 1),
    }


CEILINGS: Final = {name: float(most) for name, (_, most) in WORDS.items()} | {
    "first": FIRST_AT_MOST,
    "names": NAMES_AT_MOST,
}


def measure(folders: Iterable[str]) -> dict[str, float]:
    """Return the rates of all files under some folders."""
    paths = python_files(folders)
    return rates(
        [item for path in paths for item in read_prose(path)], [item for path in paths for item in read_names(path)]
    )


def list_exceeded(found: dict[str, float]) -> list[str]:
    """Return the patterns that pass their ceilings."""
    return [name for name, most in CEILINGS.items() if found[name] > most]


def _list_places(pattern: str, folders: list[str]) -> None:
    for path in python_files(folders or PACKAGES):
        where = path.relative_to(ROOT)
        if pattern == "names":
            lines = [(name.line, name.name) for name in read_names(path) if is_odd_name(name)]
        else:
            lines = [
                (item.line, " ".join(item.words.split())[:150])
                for item in read_prose(path)
                if (
                    is_odd_first_line(item)
                    if pattern == "first"
                    else re.search(WORDS[pattern][0], item.words, re.IGNORECASE)
                )
            ]
        for line, text in lines:
            print(f"{where}:{line}: {text}")


def _print_rates(rows: Iterable[tuple[str, dict[str, float]]]) -> None:
    print(f"{'per 10,000 words':34}{'words':>8}" + "".join(f"{name:>12.11}" for name in CEILINGS))
    print(f"{'at most':42}" + "".join(f"{most:12.3g}" for most in CEILINGS.values()))
    for title, measured in rows:
        print(f"{title:34}{measured['words']:8.0f}" + "".join(f"{measured[name]:12.3g}" for name in CEILINGS))


def main(arguments: list[str]) -> int:
    """Print the counts. Returns 1 if a package passes a ceiling, or the name of a test is too long."""
    if arguments[:1] == ["--list"]:
        _list_places(arguments[1], arguments[2:])
        return 0
    if arguments[:1] == ["--rooms"]:
        counted = Counter(
            "/".join(path.relative_to(ROOT).parts[:-1][:3]) for path in python_files(arguments[1:] or PACKAGES)
        )
        _print_rates((room, measure([room])) for room in sorted(counted))
        return 0
    by_package = {package: measure([package]) for package in PACKAGES}
    _print_rates([*by_package.items(), ("all", measure(PACKAGES))])
    problems = [f"{package}: {name}" for package, measured in by_package.items() for name in list_exceeded(measured)]
    problems += [f"{test}: more than {TEST_NAME_WORDS} words" for test in list_long_tests()]
    print("\n".join(f"over the ceiling: {problem}" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
