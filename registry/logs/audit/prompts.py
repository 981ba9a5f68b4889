"""Faults of prompts that can be seen in their text."""

import re
from collections import Counter, deque
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Final

from registry.logs.listing import instructs, listing
from registry.logs.record import Seen
from registry.prompting.labels import LETTERS

_DOUBLED: Final = re.compile(
    r"(<s>|<bos>|<\|begin_of_text\|>|<\|startoftext\|>|<｜begin▁of▁sentence｜>|\[INST\]|<\|im_start\|>[a-z]+"
    r"|<start_of_turn>[a-z]+|<\|start_header_id\|>[a-z]+<\|end_header_id\|>)\s*\1"
)
_UNFILLED: Final = re.compile(
    r"\{\{-?\s*[A-Za-z_][\w.\[\]'\"]*\s*(?:\|[^{}\n]*)?-?\}\}|\{%-?\s*\w[^{}\n]*%\}"
    r"|\{(?<!\\.)(?:question|choices?|options?|input|query|answer|subject|context|passage|prompt|target|letters?)\}"
)
_AND: Final = r"(?:\s*[,/|]\s*(?:or\s+|and\s+)?|\s+or\s+|\s+and\s+)"
_QUOTED: Final = r"[\"'`(*]{0,2}%s[\"'`)*]{0,2}"
_LISTED: Final = re.compile(
    r"(?<![\w.])" + _QUOTED % "A" + _AND + _QUOTED % "B" + "((?:" + _AND + _QUOTED % "[C-Z]" + r")*)(?![\w'’])"
)
_RUN: Final = re.compile(r"(?<![\w])A?BC?D?E?F?G?H?I?J?K?L?M?N?O?P?(?![\w])|(?<![\w])ABC[D-P]*(?![\w])")
_RANGE: Final = re.compile(
    r"(?<![\w])\(?A\)?\s*(?:-|–|—|\.\.\.?|…|\bto\b|\bthrough\b)\s*\(?([B-Z])\)?(?![\w])", re.IGNORECASE
)
_GAPPED: Final = 4
"""The fewest letters of a list with a gap that counts: shorter ones may be about figures or persons."""
_EDGE: Final = 12
_MOST_EDGES: Final = 2_000
_ENDING: Final = re.compile(r"(?:answer|answer is|response)\s*(?:[:=]\s*)?[\"'(*]*([A-Z])[\"').*]*\s*$", re.IGNORECASE)
_SHORTEST: Final = 24
"""The fewest characters of a question whose repetition in a prompt counts."""


_SENTENCE: Final = re.compile(r"(?<=[.?!])\s+|\n\s*\n")


def count_named_labels(instruction: str) -> int:
    """Count the labels from A on that an instruction names, as "A, B, C or D", "ABCD" or "A to D"; 0 if none."""
    return max((_count_named(part) for part in _SENTENCE.split(instruction) if instructs(part)), default=0)


def label_gap(instruction: str) -> str | None:
    """Return the labels of a list with a gap in an instruction, such as "A, B and D"; None if there is none."""
    for part in filter(instructs, _SENTENCE.split(instruction)):
        for match in _LISTED.finditer(part):
            letters = re.findall(r"[A-Z]", re.sub(r"\b(?:or|and)\b", " ", match[0]))
            rising = all(one < other for one, other in pairwise(letters))
            if len(letters) >= _GAPPED and rising and letters != list(LETTERS[: len(letters)]):
                return f"{''.join(letters[:-1])} and {letters[-1]}"
    return None


def _count_named(instruction: str) -> int:
    most = 0
    for match in _LISTED.finditer(instruction):
        letters = re.findall(r"[A-Z]", re.sub(r"\b(?:or|and)\b", " ", match[0]))
        if letters == list(LETTERS[: len(letters)]):
            most = max(most, len(letters))
    for match in _RUN.finditer(instruction):
        if len(match[0]) > 2 and LETTERS.startswith(match[0]):
            most = max(most, len(match[0]))
    for match in _RANGE.finditer(instruction):
        if match[0].lstrip("(")[0] == "A" and match[1].isupper():
            most = max(most, LETTERS.index(match[1]) + 1)
    return most


def problems(seen: Seen) -> Iterator[tuple[str, str]]:
    """Yield the findings about one prompt, as (name, detail)."""
    prompt = seen.prompt or ""
    own_texts = [part for part in (seen.text, *seen.options) if part and len(part) > 1]
    if (match := _DOUBLED.search(prompt)) is not None:
        yield "doubled-begin-token", " ".join(match[0].split())
    if (match := _UNFILLED.search(prompt)) is not None and not any(match[0] in part for part in own_texts):
        yield "unfilled-template", match[0][:40]
    flat = " ".join(prompt.split())
    text = " ".join((seen.text or "").split())
    lists = _lists_options(seen, flat)
    lines = [" ".join(line.split()) for line in (seen.text or "").strip().split("\n")]
    if text and not (lines[-1][-60:].rstrip(".?! ") in flat and lines[0][:60].rstrip(".?! ") in flat):
        if "attachment://" not in prompt:
            yield "truncated-prompt", "the question is not all there"
    elif lists and (missing := [option for option in seen.options if " ".join(option.split()) not in flat]):
        yield "truncated-prompt", f"{len(missing)} of {len(seen.options)} options are not there"
    elif len(text) >= _SHORTEST and flat.count(text) > 1 and _is_example(seen, flat, text, lists=lists):
        yield "question-among-examples", "the question stands there twice"
    if lists:
        yield from _check_labels(seen, prompt, own_texts)
        if not seen.scored and seen.key is not None:
            shown = listing(prompt)
            ending = None if shown is None else _ENDING.search(shown.after)
            if ending is not None and ending[1].upper() == LETTERS[seen.key]:
                yield "answer-in-prompt", f"it ends with {ending[0].strip()!r}"


def _is_example(seen: Seen, flat: str, text: str, *, lists: bool) -> bool:
    """Return whether options or an answer are between a question's first and last place in a prompt.

    Then the first place is an example, not a mere repetition.
    lists: whether the prompt lists options; then two of them must be there, since questions may have the same ending.
    """
    first = flat.find(text)
    between = flat[first + len(text) : flat.rfind(text)]
    options_between = sum(" ".join(option.split()) in between for option in seen.options)
    return options_between > 1 if lists else options_between > 0 or "nswer" in between


MAX_LABELS: Final = 1_000
"""Maximum number of places of a label in a prompt that are compared: the last ones."""


def _lists_options(seen: Seen, flat: str) -> bool:
    """Return whether the prompt lists options behind labels: at least two of this question's are found there."""
    if not seen.texts:
        return False
    listed = 0
    for position, option in enumerate(seen.options[: len(LETTERS)]):
        if _is_listed(LETTERS[position], " ".join(option.split()), flat):
            listed += 1
            if listed > 1:
                return True
    return False


def _is_listed(label: str, text: str, flat: str) -> bool:
    """Return whether a text stands behind a label. It is compared and not searched: patterns compile slowly."""
    for match in deque(_behind(label).finditer(flat), MAX_LABELS):
        # A text may begin with a character that closes labels, too.
        if any(flat.startswith(text, at) for at in range(match.end(), max(match.start() + 1, match.end() - 8), -1)):
            return True
    return False


@cache
def _behind(label: str) -> re.Pattern[str]:
    """Return the pattern of a label with what closes it; the letter comes first, so that others are passed at once."""
    return re.compile(rf"{label}(?<![^\s(\[*]{label})[.):\]*]+\s*")


def _check_labels(seen: Seen, prompt: str, own: list[str]) -> Iterator[tuple[str, str]]:
    around = prompt
    for part in sorted(own, key=len, reverse=True):
        around = around.replace(part, " ")
    # The instruction is before the options of the first example, or after the last option.
    parts = re.split(r"(?m)^[ \t>*-]*[(\[]?[A-Z][.):\]*][^\n]*$", f"{around}\n")
    instruction = f"{parts[0][:600]}\n\n{parts[-1][-600:]}"
    named = count_named_labels(instruction)
    if (gap := label_gap(instruction)) is not None:
        yield "labels-missing-in-instruction", f"it names {gap}, {len(seen.options)} options are shown"
    elif named and named < len(seen.options):
        yield (
            "labels-missing-in-instruction",
            f"it names A to {LETTERS[named - 1]}, {len(seen.options)} options are shown",
        )
    elif named > len(seen.options):
        yield "labels-beyond-options", f"it names A to {LETTERS[named - 1]}, {len(seen.options)} options are shown"


def beginning(prompt: str) -> str:
    """Return the beginning of a prompt, for comparison with other prompts."""
    return prompt.lstrip()[:_EDGE]


def ending(prompt: str) -> str:
    """Return the end of a prompt's last line, for comparison with other prompts."""
    return prompt.rstrip().rpartition("\n")[2][-_EDGE:]


class Edges:
    """Counts of the beginnings, or endings, of prompts, to find the few that differ from nearly all others."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._places: dict[str, list[str]] = {}

    def add(self, edge: str, place: str) -> None:
        """Count one prompt."""
        if edge in self._counts or len(self._counts) < _MOST_EDGES:
            self._counts[edge] += 1
            places = self._places.setdefault(edge, [])
            if len(places) < 3:
                places.append(place)

    def odd(self) -> tuple[int, list[str]]:
        """Return how many prompts lack the edge that at least 90 % have, and their first three places.

        The number is 0 if there is no such edge.
        """
        total = sum(self._counts.values())
        if total < 10:
            return 0, []
        edge, count = self._counts.most_common(1)[0]
        if count == total or count < 0.9 * total:
            return 0, []
        places = [place for other, edge_places in self._places.items() if other != edge for place in edge_places]
        return total - count, places[:3]
