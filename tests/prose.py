"""English that is read once: counts how documents, templates, command help and errors are written, and hunts habits.

    python -m tests.prose            the counts, and whatever has to be rewritten: status 1 if there is anything
    python -m tests.prose --counts   the counts only
    python -m tests.prose --long     every sentence of more than 40 words, too

A document is in the reading path if the menu of the site leads to it. Decisions and evidence (measurements, the runs of
the papers) are dated records, and are not counted. Code, comments and addresses are no prose; a cell of a table is if it
has eight words or more.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Final

import click

from shuffleboard.cli import cli
from tests.code_prose import count_words

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
PACKAGES: Final = ("registry", "web", "workers", "shuffleboard")
RECORDS: Final = ("decisions", "evidence", "papers", "_static")
"""Folders of docs/ outside the reading path."""
LONG_WORDS: Final = 40

COUNTED: Final = {
    "if": r"\bif\b",
    "where": r"\bwhere\b",
    "what": r"\bwhat\b(?![^.!?:;]*\?)",  # a question may begin with it
    "you": r"\b(?:you|your|yours|yourself)\b",
    "example": r"\bfor example\b|\be\.g\.",
}
AT_LEAST: Final = {"if": 35, "you": 80}
AT_MOST: Final = {"where": 15, "what": 8}
"""Highest rates in 10,000 words of the reading path."""
LONG_AT_MOST: Final = 20
"""Largest number of sentences with more than LONG_WORDS words."""

HABITS: Final = {
    r"\bbeside\b(?! the point)": "next to, with",
    r"\banew\b": "again",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\balike\b": "the same",
    r"\bwhoever\b": "anyone who",
    r"\bwhom\b": "who, or a shorter sentence",
    r"\bin vain\b": "no use",
    r"\bthousand million\b": "billion",
    r"\b(?:told|tell) apart\b|\btells? \w+ apart\b": "distinguished",
    r"\broom for\b|\btakes? (?:the |up )?room\b|\bthere is room\b": "space",
    r"\bspelt out\b": "in full",
    r"\bput to (?:it|them|a model|the model)\b": "asked",
    r"^Where [^.?:;]{3,90}, (?!and\b|or\b)": "If …, …",
    r"^Of (?:the|its|two|three|four|five|\d[\d,]*) [^.]{3,60} (?:is|are|was|were|has|have|\d)": "the subject first",
    r"^What (?![^.!?]*\?)": "a noun",
    r", so that (?:it|they|the|a|an|no|each|every) \w+ (?:is|are|was|has|have)\b": "so",
    r"\bnobody (?:has )?ask(?:s|ed)\b": "nobody has tested",
    r"\bit stands to\b|\bstands? (?:in|on|under|above|below|behind) (?:it|the|its|a|every|each)\b": "is in, is shown",
}
"""Pattern of a habit → its replacement. `^` is the beginning of a sentence."""


@dataclass(frozen=True)
class Text:
    """A paragraph, list item, table cell or message.

    place: file and line, or a command.
    """

    group: str
    place: str
    words: str


def sentences(text: str) -> list[str]:
    """Return a paragraph's sentences."""
    return [part for part in re.split(r"(?<=[.!?])[)\"*”]*\s+(?=[A-Z“\"(*\[`\d])", text) if part]


# Documents


def documents(folder: Path = ROOT) -> list[Path]:
    """Return the pages of the reading path, in order."""
    docs = folder / "docs"
    pages = [path for path in docs.rglob("*.md") if path.relative_to(docs).parts[0] not in RECORDS]
    return [folder / "README.md", folder / "CONTRIBUTING.md", *sorted(pages)]


def is_generated(page: str) -> bool:
    return "Written by docs/generate.py" in page


def plain(text: str) -> str:
    """Return Markdown without its markup: code becomes one word, and a link its text."""
    text = re.sub(r"\$[^$\n]+\$", "formula", text)
    text = re.sub(r"`+[^`]+`+", "Code", text)  # a sentence may begin with it
    text = re.sub(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", text)
    text = re.sub(r"<https?:[^>]*>|https?:\S+", "address", text)
    return re.sub(r"[*_]{1,2}([^*_]+)[*_]{1,2}", r"\1", text)


def read_document(path: Path) -> Iterator[Text]:
    """Yield the prose of a page."""
    page = path.read_text(encoding="utf-8")
    group = "generated pages" if is_generated(page) else "documents"
    name = path.relative_to(ROOT).as_posix()
    blanked = re.sub(
        r"^ *```.*?^ *```$|<!--.*?-->|^\$\$.*?^\$\$$",
        lambda match: "\n" * match[0].count("\n"),
        page,
        flags=re.MULTILINE | re.DOTALL,
    )
    paragraph: list[str] = []
    start = 0

    def finish() -> Iterator[Text]:
        if paragraph:
            yield Text(group, f"{name}:{start}", plain(" ".join(paragraph)))
            paragraph.clear()

    for number, line in enumerate(blanked.splitlines(), 1):
        if re.match(r"\s*\|", line):
            yield from finish()
            cells = [plain(cell).strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            yield from (Text(group, f"{name}:{number}", cell) for cell in cells if count_words(cell) >= 8)
            continue
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+", line)
        if item or not line.strip() or line.startswith("#"):
            yield from finish()
        if line.strip() and not line.startswith("#") and not re.match(r"\[[\w-]+\]: ", line):
            start = start if paragraph else number
            paragraph.append(line[item.end() :].strip() if item else line.strip())
    yield from finish()


# Templates, help, errors


def read_template(path: Path) -> Iterator[Text]:
    """Yield the texts between the tags of a template."""
    page = path.read_text(encoding="utf-8")
    keep = "\n"
    page = re.sub(
        r"\{#.*?#\}|<script.*?</script>|<style.*?</style>", lambda m: keep * m[0].count(keep), page, flags=re.DOTALL
    )
    page = re.sub(r"\{\{.*?\}\}", lambda m: "value" + keep * m[0].count(keep), page, flags=re.DOTALL)
    page = re.sub(r"\{%.*?%\}", lambda m: keep * m[0].count(keep), page, flags=re.DOTALL)
    inline = r"</?(?:a|b|i|em|strong|code|span|time|abbr|small|kbd|var|q)\b[^>]*>"
    page = re.sub(inline, lambda m: keep * m[0].count(keep), page, flags=re.DOTALL)
    line = 1
    for part in re.split(r"(<[^>]*>)", page):
        if not part.startswith("<"):
            words = " ".join(unescape(part).split())
            if count_words(words) >= 4:
                yield Text("templates", f"{path.relative_to(ROOT).as_posix()}:{line}", words)
        line += part.count(keep)


def read_command(words: tuple[str, ...], command: click.Command) -> Iterator[Text]:
    """Yield the help of a command, its options and its subcommands."""
    place = " ".join(("shuffleboard", *words))
    for paragraph in (command.help or "").split("\n\n"):
        if not paragraph.strip().startswith("\b"):
            yield Text("command help", place, plain(" ".join(paragraph.split())))
    for option in command.params:
        if isinstance(option, click.Option) and option.help:
            yield Text("command help", f"{place} {option.opts[0]}", plain(option.help))
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                subcommand = command.get_command(context, name)
                assert subcommand is not None
                yield from read_command((*words, name), subcommand)


def read_module(path: Path) -> Iterator[Text]:
    """Yield the messages of the errors that a module raises."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        values: list[ast.expr] = []
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            values = node.exc.args
        elif isinstance(node, ast.Assign) and [
            target.id for target in node.targets if isinstance(target, ast.Name)
        ] == ["message"]:
            values = [node.value]
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                written = value.value
            elif isinstance(value, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "value" for part in value.values)
                written = "".join(map(str, parts))
            else:
                continue
            if count_words(written) >= 4:
                yield Text("errors", f"{path.relative_to(ROOT).as_posix()}:{value.lineno}", plain(written))


def texts() -> list[Text]:
    """Return all texts that are checked."""
    collected: list[Text] = []
    for page in documents():
        collected += read_document(page)
    for template in sorted((ROOT / "web" / "templates").rglob("*.html")):
        collected += read_template(template)
    collected += read_command((), cli)
    for package in PACKAGES:
        for module in sorted((ROOT / package).rglob("*.py")):
            collected += read_module(module)
    return collected


# Counts and findings


def rates(found: list[Text]) -> dict[str, float]:
    """Return words, occurrences per 10,000 words, and sentences that are too long."""
    words = sum(count_words(text.words) for text in found)
    per = {
        name: 10_000 * sum(len(re.findall(pattern, text.words, re.IGNORECASE)) for text in found) / max(words, 1)
        for name, pattern in COUNTED.items()
    }
    return {"words": words, **per, "long": sum(len(list(too_long(text))) for text in found)}


def too_long(text: Text) -> Iterator[str]:
    return (sentence for sentence in sentences(text.words) if count_words(sentence) > LONG_WORDS)


def habits(text: Text) -> Iterator[str]:
    """Yield a line for each habit in a text, with its replacement."""
    for sentence in sentences(text.words):
        for pattern, instead in HABITS.items():
            match = re.search(pattern, sentence, 0 if pattern.startswith("^") else re.IGNORECASE)
            if match:
                yield f"{text.place}: “{match[0].strip()}”: {instead}"


def main(arguments: list[str]) -> int:
    sources = texts()
    groups = {
        name: [text for text in sources if text.group == name]
        for name in dict.fromkeys(source.group for source in sources)
    }
    click.echo(f"{'per 10,000 words':18}" + "".join(f"{name:>9}" for name in ("words", *COUNTED, "long")))
    for name, members in groups.items():
        click.echo(f"{name:18}" + "".join(f"{value:9.0f}" for value in rates(members).values()))
    if "--long" in arguments:
        for text in sources:
            for sentence in too_long(text):
                click.echo(f"{text.place}: {count_words(sentence)} words: {sentence}")
    if "--counts" in arguments:
        return 0
    problems = [line for text in sources for line in habits(text)]
    of_path = rates(groups["documents"])
    problems += [
        f"documents: “{k}” {of_path[k]:.0f} times, {v} or more wanted" for k, v in AT_LEAST.items() if of_path[k] < v
    ]
    problems += [f"documents: “{k}” {of_path[k]:.0f} times, {v} at most" for k, v in AT_MOST.items() if of_path[k] > v]
    problems += [
        f"{name}: “what” {of_group['what']:.0f} times, {AT_MOST['what']} at most"
        for name, members in groups.items()
        if name in ("generated pages", "command help") and (of_group := rates(members))["what"] > AT_MOST["what"]
    ]
    if (long := sum(len(list(too_long(text))) for text in sources)) > LONG_AT_MOST:
        problems.append(
            f"{long} sentences of more than {LONG_WORDS} words, {LONG_AT_MOST} at most: list them with --long"
        )
    for line in problems:
        click.echo(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
