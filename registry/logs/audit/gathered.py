"""Columns of numbers, without texts, gathered from a log while its records are read."""

import re
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from registry.benchmarks.contract import MAX_OPTIONS
from registry.benchmarks.lines import shorten
from registry.errors import IngestError
from registry.files.documents import as_written
from registry.logs.audit.known import compute_short_digest
from registry.logs.audit.prompts import Edges, beginning, ending, problems
from registry.logs.files import DAMAGED, reading
from registry.logs.format import QUESTIONS
from registry.logs.imports.agreement import likeliest
from registry.logs.listing import find_listing_labels
from registry.logs.means import Fields
from registry.logs.record import Seen, Source, Unusable
from registry.logs.rereading import RULES, reread
from registry.logs.texts import digest, normal
from registry.prompting.labels import LETTERS, letter
from registry.prompting.thoughts import OPENED_SHARE, closes_only, load_markers, opens_thought
from registry.untrusted import LARGEST

Column = NDArray[Any]
Sketch = tuple[int, NDArray[np.uint32], NDArray[np.uint32]]
"""Digests of a question: of its numbers and negations, and the smallest digests of three words in a row.

The latter are taken from all its words and again from its last line with its options: questions about one passage
differ only in the last line.
"""

SKETCHED: Final = 100_000
"""The most questions that are compared for near duplicates."""
SKETCH: Final = 24
REREAD: Final = 4_000
"""The number of texts after which only every second one is read again, then every fourth, and so on."""
BEGINNING: Final = 1_000
"""Records at the beginning that show how labels are read, and whether a template opened the thoughts."""
STATES: Final = ("answered", "unread", "unfinished", "empty", "refused")
PLACES: Final = 3
"""Places listed per finding, by default."""
SECONDS: Final = 600.0
"""Time limit for reading a log, in seconds."""
LONGEST_TEXT: Final = 1 << 20
"""The most characters of an answer or a prompt that are read: about a second of work."""


@lru_cache(maxsize=50_000)
def _digest_text(text: str) -> int:
    return digest(normal(text))


@lru_cache(maxsize=20_000)
def _digest_options(options: tuple[str, ...]) -> tuple[tuple[int, ...], int, int, bool, str | None]:
    """Return (digest of each option, of the set of options, of their order, whether two are equal, the problem)."""
    digests = tuple(map(_digest_text, options))
    problem = None
    if not all(map(str.strip, options)):
        problem = "empty-question-or-option"
    elif len({text.strip() for text in options}) < len(options):
        problem = "repeated-options"
    equal = len(set(options)) < len(options)
    return digests, hash(tuple(sorted(digests))), hash(digests), equal, problem


@dataclass
class Questions:
    """The questions of all logs, numbered from 0.

    text: digest of each text, 0 if unknown. known: its digest among known benchmarks, 0 if unknown. sketches: digests
    of its words, None if they are too few. told: findings already reported, with their questions.
    """

    index: dict[tuple[int, int], int] = field(default_factory=dict)
    text: "array[int]" = field(default_factory=lambda: array("q"))
    known: "array[int]" = field(default_factory=lambda: array("Q"))
    sketches: list[Sketch | None] = field(default_factory=list)

    told: set[tuple[str, int]] = field(default_factory=set)

    def first_told(self, finding: str, subject: bytes) -> bool:
        """Return whether a finding has not been reported yet: facts about questions are reported once for all logs."""
        key = finding, hash(subject)
        if key in self.told:
            return False
        self.told.add(key)
        return True

    def of(self, seen: Seen, options: int) -> int:
        """Return the number of a record's question; it is the same for equal texts and options in any order."""
        text = _digest_text(seen.text) if seen.text is not None else digest(seen.question_id)
        key = text, options if seen.texts else 0
        number = self.index.get(key)
        if number is None:
            number = self.index[key] = len(self.text)
            self.text.append(text if seen.text is not None else 0)
            options_shown = _digest_options(seen.options)[0]
            self.known.append(
                compute_short_digest(seen.text, options_shown) if seen.text is not None and seen.texts else 0
            )
            sketched = seen.text is not None and number < SKETCHED
            self.sketches.append(_build_sketch(seen.text or "", seen.options) if sketched else None)
        return number


_WORD: Final = re.compile(r"[^\W_]+")


def _split_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


MAX_SKETCHED: Final = 100_000
"""Only this many characters at the end of a question, and at the beginning of each option, are compared with others."""


def _build_sketch(text: str, options: tuple[str, ...]) -> Sketch | None:
    text = text[-MAX_SKETCHED:]
    words = _split_words(text)
    if len(words) < 8:
        return None
    distinguishing = [word for word in words if any(map(str.isdigit, word)) or word in _NEGATIONS]
    option_words = _split_words(" ".join(sorted(option[:MAX_SKETCHED] for option in options)))
    last_line = _split_words(text.rpartition("\n")[2]) if "\n" in text else words
    return (
        crc32(" ".join(distinguishing).encode()),
        _digest_triples(words + option_words),
        _digest_triples(last_line + option_words),
    )


def _digest_triples(words: Sequence[str]) -> NDArray[np.uint32]:
    triples = {crc32(" ".join(three).encode()) for three in zip(words, words[1:], words[2:], strict=False)}
    return np.array(sorted(triples)[:SKETCH], dtype=np.uint32)


_NEGATIONS: Final = frozenset(
    {
        "not",
        "no",
        "never",
        "except",
        "least",
        "most",
        "false",
        "true",
        "incorrect",
        "correct",
        "wrong",
        "without",
        "first",
        "second",
        "increase",
        "increases",
        "decrease",
        "decreases",
        "larger",
        "smaller",
        "higher",
        "lower",
        "before",
        "after",
        "left",
        "right",
        "third",
    }
)


def _settle_labels(seen: Seen, conventions: tuple[int, int]) -> Seen | Unusable:
    """Return a record with its key and answer read under these conventions; Unusable if its key names no option."""
    if seen.keyed is not None:
        seen.key = seen.keyed.positions[conventions[0]]
        if seen.key is None:
            detail = f"its key {shorten(seen.keyed.value, 40)!r} names none of its {len(seen.options)} options"
            beyond = seen.listed and len(seen.keyed.value) == 1 and seen.keyed.value in LETTERS[len(seen.options) :]
            return Unusable(seen.place, detail, "truncated-prompt" if beyond else "unusable-answer")
    if seen.answer is not None:
        seen.position = seen.answer.positions[conventions[1]]
    return seen


def _check_numbers(seen: Seen | Unusable) -> Seen | Unusable:
    """Return a record if its numbers are valid, else Unusable: readers do not check them."""
    if isinstance(seen, Unusable):
        return seen
    shown = len(seen.options)
    if shown > MAX_OPTIONS:
        return Unusable(seen.place, f"it shows {shown:,} options, and a question has {MAX_OPTIONS:,} at most")
    if (reason := _describe_excess(seen)) is not None:
        return Unusable(seen.place, reason)
    for name, value in (("position", seen.position), ("key", seen.key)):
        if value is not None and (type(value) is not int or not 0 <= value < shown):
            return Unusable(seen.place, f"its {name} {shorten(value, 40)} is not among the {shown} shown")
    if seen.variant is not None and not -1 <= seen.variant <= LARGEST:
        return Unusable(seen.place, f"its variant {shorten(seen.variant, 40)} is beyond 64-bit integers")
    return seen


def _describe_excess(seen: Seen) -> str | None:
    """Return the reason why a record's texts take too long to read; None if they are short enough."""
    for name, text in (("output", seen.output), ("reasoning", seen.reasoning), ("prompt", seen.prompt)):
        if text is not None and len(text) > LONGEST_TEXT:
            return f"its {name} has {len(text):,} characters, over the limit of {LONGEST_TEXT:,}"
    return None


class Gathered:
    """The columns of a log, with a row for each answer, and the findings in its texts and prompts.

    question: number among all questions. order: digest of the order shown. chosen: digest of the option chosen, 0 for
    none. keyed: digest of the right option, 0 if unknown. position, key: −1 for none. right: 1, 0, or −1 if unknown.
    stated: NaN if the log states none. row_id: number of the record's id. repeated: whether two options are equal.
    """

    def __init__(
        self, source: Source, questions: Questions, most_places: int = PLACES, seconds: float = SECONDS
    ) -> None:
        self.source = source
        self.seconds = seconds
        self.questions = questions
        self.most_places = most_places
        self.ids: dict[str, int] = {}
        self.columns: dict[str, array[Any]] = {name: array(code) for name, code in _COLUMNS.items()}
        self.places = array("l")
        self.noun = ""
        self.counts: Counter[str] = Counter()
        self.found: dict[str, list[str]] = {}
        self.details: dict[str, str] = {}
        self.edges = {"begins": Edges(), "ends": Edges()}
        self.prompts = 0
        self.read_again = 0
        self.texts = 0
        self.scored = 0
        """Number of answers from log-likelihoods, which are the same in every repeat."""
        self.rules: dict[str, list[int]] = {name: [0, 0, 0] for name in RULES}
        """For each rule: answers read in texts, answers that differ from the recorded ones, right answers."""
        self._reread_every = 1
        self._opened = False
        self._labels: Sequence[str] = LETTERS
        self.fields = Fields()
        self.apart = ""
        """A path or number that distinguishes the log from others of the same model and task."""

    @property
    def label(self) -> str:
        """Return the log's name in findings."""
        source = self.source
        if source.format == QUESTIONS:
            return source.path.name
        parts = [part for part in (source.part, self.apart) if part not in ("", source.model)]
        return " ".join([f"{source.model} · {source.task}", *(f"[{part}]" for part in parts)])

    def read(self) -> "Gathered":
        """Read the log to its end and return it."""
        records = self._read_records()
        first = list(islice(records, BEGINNING))
        texts = [record.output for record in first if isinstance(record, Seen) and record.output]
        closing = sum(closes_only(text, load_markers()) for text in texts)
        self._opened = closing >= max(1.0, OPENED_SHARE * len(texts))
        self._labels = find_listing_labels([record for record in first if isinstance(record, Seen)])
        conventions = likeliest([record for record in first if isinstance(record, Seen)])
        for record in chain(first, records):
            checked = record if isinstance(record, Unusable) else _check_numbers(_settle_labels(record, conventions))
            if isinstance(checked, Unusable):
                self.note(checked.name, checked.place, checked.detail)
            else:
                self._add(checked)
        for remark in self.source.remarks:
            self.note(DAMAGED, self.source.path.name, remark)
        return self

    def _read_records(self) -> Iterator[Seen | Unusable]:
        """Yield the records; if a reader fails at damaged content or takes too long, end with an Unusable record."""
        name = self.source.path.name
        end = time.monotonic() + self.seconds
        last = "its beginning"
        try:
            with as_written(name, "fetch the log again"), reading(self.source.path):
                for record in self.source.records:
                    if time.monotonic() > end:
                        took = f"was read for {self.seconds:g} s, up to {last}"
                        yield Unusable(name, f"{took}; divide it, or allow more with --seconds", DAMAGED)
                        return
                    last = record.place
                    yield record
        except IngestError as error:
            yield Unusable(name, str(error), DAMAGED)

    def note(self, name: str, place: str, detail: str) -> None:
        """Count a finding and remember its first places."""
        self.counts[name] += 1
        places = self.found.setdefault(name, [])
        if len(places) < self.most_places:
            places.append(place)
            self.details.setdefault(name, detail)

    def _add(self, seen: Seen) -> None:
        options, options_set, order, equal, problem = _digest_options(seen.options)
        question = self.questions.of(seen, options_set)
        noun, _, number = seen.place.rpartition(" ")
        self.noun = self.noun or noun
        if not number.isdecimal() or noun != self.noun:
            number = str(len(self.places))
            self.noun = "record"
        self.places.append(int(number))
        self.scored += seen.scored and seen.output is None
        key, position = seen.key, seen.position
        correct = -1 if key is None else int(position == key)
        row = (
            question,
            order,
            0 if position is None else options[position],
            0 if key is None else options[key],
            self.ids.setdefault(seen.question_id, len(self.ids)),
            -1 if position is None else position,
            -1 if key is None else key,
            len(options),
            correct,
            -1 if seen.variant is None else seen.variant,
            self._read_state(seen),
            float("nan") if seen.stated is None else seen.stated,
            equal,
        )
        for column, value in zip(self.columns.values(), row, strict=True):
            column.append(value)
        if self.source.stated is not None:
            self.fields.add(seen.fields)
        if seen.texts and problem is None and seen.text is not None and not seen.text.strip():
            problem = "empty-question-or-option"
        if (seen.texts and problem) or seen.problems or seen.prompt:
            self._note_problems(seen, problem if seen.texts else None)

    def _note_problems(self, seen: Seen, problem: str | None) -> None:
        place = f"{seen.place} ({seen.question_id})"
        if problem is not None and (self.source.part == "" or self.questions.first_told(problem, place.encode())):
            self.note(problem, place, "")
        for name, detail in seen.problems:
            self.note(name, place, detail)
        if seen.prompt:
            self.prompts += 1
            self.edges["begins"].add(beginning(seen.prompt), place)
            if not seen.scored:
                self.edges["ends"].add(ending(seen.prompt), place)
            for name, detail in problems(seen):
                self.note(name, place, detail)

    def _read_state(self, seen: Seen) -> int:
        """Return the state of an answer, reading a sample of the texts again by other rules."""
        if seen.output is None:
            return STATES.index("refused" if seen.refused else "answered" if seen.position is not None else "unread")
        self.texts += 1
        answered = seen.position is not None
        if answered and self.texts % self._reread_every:
            return STATES.index("answered")
        opened = self._opened or (seen.prompt is not None and opens_thought(seen.prompt, load_markers()))
        reread_text = reread(
            seen.output,
            seen.options,
            reasoning=seen.reasoning,
            cut_off=seen.cut_off,
            refused=seen.refused,
            opened=opened,
            labels=self._labels,
        )
        if not seen.texts and reread_text.positions[0] is None:
            return STATES.index(
                "answered" if answered else reread_text.state if reread_text.state != "answered" else "unread"
            )
        self.read_again += 1
        if self.read_again % REREAD == 0:
            self._reread_every *= 2
        self._compare_rules(seen, reread_text.positions, reread_text.thought)
        if answered:
            return STATES.index("answered")
        return STATES.index("unread" if reread_text.state == "answered" else reread_text.state)

    def _compare_rules(self, seen: Seen, positions: tuple[int | None, ...], thought: int | None) -> None:
        place = f"{seen.place} ({seen.question_id})"
        for name, position in zip(RULES, positions, strict=True):
            counts = self.rules[name]
            counts[0] += position is not None
            counts[1] += position is not None and position != seen.position
            counts[2] += position is not None and position == seen.key
        final = positions[0]
        if final is not None and seen.position is None:
            self.note("answers-lost", place, f"reads as {letter(final)}, recorded as no answer")
        elif final is not None and final != seen.position:
            if seen.options[seen.position or 0].strip() == letter(final):
                return  # the options are letters, and the text of the recorded one was meant
            name = "thought-read" if thought == seen.position and thought is not None else "answers-misread"
            self.note(name, place, f"reads as {letter(final)}, recorded as {letter(seen.position or 0)}")
        elif final is None and seen.position is not None and thought == seen.position:
            self.note("thought-read", place, f"{letter(seen.position)} is in the thought alone")
        if final is not None and positions[1] not in (None, final):
            self.note("rules-disagree", place, "")

    def column(self, name: str) -> Column:
        """Return a column as an array, with a row for each answer."""
        code = _COLUMNS[name]
        return np.frombuffer(self.columns[name], dtype=np.dtype(code)) if len(self.places) else np.zeros(0, code)

    def __len__(self) -> int:
        return len(self.places)

    def place(self, row: int) -> str:
        """Return the place of a row in the file, with its id."""
        name = self._names[int(self.columns["row_id"][row])]
        return f"{self.noun} {self.places[row]} ({name})"

    @property
    def _names(self) -> list[str]:
        if not hasattr(self, "_name_list"):
            self._name_list = list(self.ids)
        return self._name_list


_COLUMNS: Final[dict[str, str]] = {
    "question": "l",
    "order": "q",
    "chosen": "q",
    "keyed": "q",
    "row_id": "l",
    "position": "h",
    "key": "h",
    "n_options": "h",
    "right": "b",
    "variant": "l",
    "state": "b",
    "stated": "f",
    "repeated": "b",
}
