"""Options that a prompt lists behind labels, and the question before them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from registry.logs.prompts import STYLES
from registry.logs.record import Seen
from registry.prompting.labels import LETTERS

_LABELLED: Final = re.compile(
    r"^[ \t>*-]*[(\[]?(?:\*\*)?([A-Z]|[a-z]|[0-9]{1,2})(?:\*\*)?[.):\]]+(?:\*\*)?(?:[ \t]+(\S[^\n]*))?[ \t]*$",
    re.MULTILINE,
)
_CUES: Final = (
    *("answer", "letter", "choice", "choose", "option", "respond", "reply", "replies", "label", "select", "pick"),
    "output",
)
"""Words that mark an instruction: a question without them may be about persons A and B."""
_ANSWER: Final = re.compile(r"\W*(?:\w{1,2}\W*|(?:the )?(?:correct )?answer\b.*)?$", re.IGNORECASE)
_FROM_THE_END: Final = 50_000
"""Characters at the end of a prompt in which its last list of options is searched."""
_HEADING: Final = re.compile(r"(?:\banswer )?\b(?:options|choices):$", re.IGNORECASE)
_LONGEST_HEADING: Final = 20
_QUESTION: Final = re.compile(r"^(?:question|q|problem|input)\s*(?:\d+\s*)?[:.]\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Listing:
    """The last list of labelled options in a prompt.

    question: the question of the list. before, after: all text before and after the list.
    """

    question: str
    before: str
    labels: tuple[str, ...]
    options: tuple[str, ...]
    after: str


def instructs(text: str) -> bool:
    """Return whether a text contains a word that marks an instruction."""
    lowered = text.lower()
    return any(cue in lowered for cue in _CUES)


@lru_cache(maxsize=4)
def listing(prompt: str) -> Listing | None:
    """Return the last list of options in a prompt, one per line behind labels from A, a, 1 or 0 on; else None."""
    runs: list[list[re.Match[str]]] = []
    for match in _LABELLED.finditer(prompt, max(0, len(prompt) - _FROM_THE_END)):
        if runs and _follows(runs[-1][-1][1], match[1]):
            runs[-1].append(match)
            continue
        if runs and len(runs[-1]) == 1:
            runs.pop()
        if match[1] in ("A", "a", "1", "0"):
            runs.append([match])
    runs = [run for run in runs if len(run) > 1]
    if not runs:
        return None
    best = runs[-1]
    before = prompt[: best[0].start()]
    # A question may list statements of its own, with other labels than its options.
    example = next((run for run in runs[-2::-1] if run[0][1] == best[0][1]), None)
    return Listing(
        _extract_question(
            before if example is None else before[example[-1].end() :], behind_example=example is not None
        ),
        before,
        tuple(match[1] for match in best),
        tuple((match[2] or "").strip() for match in best),
        prompt[best[-1].end() :],
    )


def find_listing_labels(records: Sequence[Seen]) -> Sequence[str]:
    """Return the labels behind which a log's prompts list options, by position; letters if no prompt lists any."""
    for seen in records[:_LOOKED_AT]:
        shown = listing(seen.prompt) if seen.prompt and seen.texts else None
        if shown is not None and len(shown.labels) == len(seen.options):
            return next((style for style in STYLES if style[: len(shown.labels)] == shown.labels), LETTERS)
    return LETTERS


_LOOKED_AT: Final = 20
"""The number of records in whose prompts labels of options are searched."""


def _extract_question(text: str, *, behind_example: bool) -> str:
    """Return the question before a list of options, without the instruction or the answer of an example."""
    text = text.strip()
    text = (text[:-_LONGEST_HEADING] + _HEADING.sub("", text[-_LONGEST_HEADING:])).rstrip()
    paragraphs = re.split(r"\n\s*\n", text)
    if behind_example:
        while len(paragraphs) > 1 and all(_ANSWER.match(line) for line in paragraphs[0].split("\n")):
            paragraphs.pop(0)
        lines = "\n\n".join(paragraphs).split("\n")
        start = max((n for n, line in enumerate(lines) if _QUESTION.match(line.strip())), default=0)
        return _QUESTION.sub("", "\n".join(lines[start:]).strip())
    parts = paragraphs if len(paragraphs) > 1 else text.split("\n")
    marked = next((n for n, part in enumerate(parts) if _QUESTION.match(part.strip())), len(parts) - 1)
    start = max((n + 1 for n, part in enumerate(parts[:marked]) if instructs(part)), default=0)
    return _QUESTION.sub("", ("\n\n" if len(paragraphs) > 1 else "\n").join(parts[start:]).strip())


def _follows(before: str, label: str) -> bool:
    if before.isdigit() and label.isdigit():
        return int(label) == int(before) + 1
    return len(before) == len(label) == 1 and before.isalpha() and ord(label) == ord(before) + 1
