"""What an audit sees of one prompt and its answer, whatever program wrote it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from registry.prompting.labels import LETTERS


@dataclass(slots=True)
class Seen:
    """One record of a log. Sequences run by position.

    place: in its file, such as "line 7". text: of the question, None where the log has none. options: as shown; where
    the log has no texts, what tells them apart. key: position of the right option, None where unknown. position: of the
    recorded answer, None for no valid answer. variant: which asking of the question it is; None where the log does not
    say. stated: the score that the log gives the answer. prompt: all that the model was shown, examples included.
    output: what it wrote. problems: findings that only the reader can see, as (name, detail).
    """

    place: str
    question_id: str
    text: str | None
    options: tuple[str, ...]
    key: int | None
    position: int | None
    variant: int | None = None
    stated: float | None = None
    prompt: str | None = None
    output: str | None = None
    reasoning: str | None = None
    cut_off: bool = False
    refused: bool = False
    texts: bool = True
    """Whether `options` are texts."""
    scored: bool = False
    """Whether options were scored by log-likelihood, so that a prompt may end with one."""
    problems: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Unusable:
    """A record that cannot be scored: why, and the name of the finding."""

    place: str
    detail: str
    name: str = "unusable-answer"


@dataclass
class Source:
    """A log: what it says of itself, and its records.

    stated: its own accuracy. declared: whether it says that only some of the questions were asked. remarks: why files
    next to it could not be read.
    """

    path: Path
    format: str
    model: str
    task: str
    records: Iterator[Seen | Unusable]
    stated: float | None = None
    declared: bool = False
    part: str = ""
    """What tells it from other logs of the same file."""
    remarks: list[str] = field(default_factory=list)


_MARKS: Final = " \t\r\n.,:;!?\"'`*"


def normal(text: str) -> str:
    """A text as it is compared: blanks as one, no capitals, no punctuation around it."""
    return " ".join(text.split()).casefold().strip(_MARKS)


def digest(text: str) -> int:
    """64 bits of a text, never 0."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True) or 1


_LABELLED: Final = re.compile(
    r"^[ \t>*-]*[(\[]?(?:\*\*)?([A-Z]|[a-z]|[0-9]{1,2})(?:\*\*)?[.):\]]+(?:\*\*)?(?:[ \t]+(\S[^\n]*))?[ \t]*$",
    re.MULTILINE,
)
_QUESTION: Final = re.compile(r"^(?:question|q|problem|input)\s*\d*\s*[:.]\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Listing:
    """The last list of labelled options in a prompt: the question before it, and what follows it."""

    question: str
    labels: tuple[str, ...]
    options: tuple[str, ...]
    after: str


def listing(prompt: str) -> Listing | None:
    """The last list of options in a prompt, one a line behind labels that count on from A, a or 1; None without one."""
    run: list[re.Match[str]] = []
    best: list[re.Match[str]] = []
    for match in _LABELLED.finditer(prompt):
        label = match[1]
        if run and _follows(run[-1][1], label):
            run.append(match)
        elif label in ("A", "a", "1", "0"):
            run = [match]
        else:
            run = []
        if len(run) > 1:
            best = list(run)
    if not best:
        return None
    # A question is what follows the last line that says so, or else the last paragraph; no example's options are in it.
    lines = prompt[: best[0].start()].rstrip().split("\n")
    start = max((n for n, line in enumerate(lines) if _QUESTION.match(line.strip())), default=-1)
    if start < 0 or _LABELLED.search("\n".join(lines[start:])):
        start = max((n + 1 for n, line in enumerate(lines) if not line.strip()), default=0)
    question = "\n".join(lines[start:]).strip()
    question = _QUESTION.sub("", question).removesuffix("Options:").removesuffix("Choices:").strip()
    return Listing(
        question,
        tuple(match[1] for match in best),
        tuple((match[2] or "").strip() for match in best),
        prompt[best[-1].end() :],
    )


def _follows(before: str, label: str) -> bool:
    if before.isdigit() and label.isdigit():
        return int(label) == int(before) + 1
    return len(before) == len(label) == 1 and before.isalpha() and ord(label) == ord(before) + 1


def label_position(label: object, options: Sequence[str], labels: Sequence[str] = LETTERS) -> int | None:
    """The position that a label or an option's text names; None where it names none."""
    if isinstance(label, bool) or label is None:
        return None
    if isinstance(label, int):
        return label if 0 <= label < len(options) else None
    text = str(label).strip()
    bare = text.strip("()[]{}.:*\" '")
    shown = list(labels[: len(options)])
    if bare in shown:
        return shown.index(bare)
    same = [position for position, option in enumerate(options) if option.strip() == text]
    if same:
        return same[0]
    if len(bare) == 1 and bare.upper() in shown:
        return shown.index(bare.upper())
    return None
