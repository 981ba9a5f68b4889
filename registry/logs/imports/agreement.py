"""Agreement of a log with itself: the convention of reading labels that reproduces its stated scores and key.

If no convention reproduces them, nothing is imported, so that no wrong number is sealed unnoticed.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Final

from registry.benchmarks.lines import shorten
from registry.errors import ContradictionError, IngestError
from registry.logs.labels import CONVENTIONS, WHOLE, Written, names_by_text
from registry.logs.listing import find_listing_labels
from registry.logs.means import Mean, Means, tolerance
from registry.logs.record import Recorded, Seen, with_answer_at
from registry.logs.rereading import final_reading
from registry.names import plural
from registry.prompting.labels import letter

Reader = Callable[[], Iterator[Recorded]]
SCORE_TOLERANCE: Final = 1e-9
"""Largest difference between two scores of one answer that is still rounding."""
NAMED: Final = 3
"""Places that an error message names."""
MOST_LISTED: Final = 100
"""The most contradictions that `--json` lists."""
_MOST_READINGS: Final = 10_000
_HALF: Final = 0.5
_READ_AGAIN: Final = 50
"""Number of texts that are read to choose between conventions."""
_ALL: Final = range(len(CONVENTIONS))


@dataclass(frozen=True)
class Contradiction:
    """An answer whose score in the log differs from ours.

    answer: as the log writes it. reading: the option we read. score: the log's score.
    """

    place: str
    question: str
    answer: str | None
    reading: str | None
    score: float

    def describe(self) -> str:
        """Return the contradiction in words."""
        written = "" if self.answer is None else f"answer {self.answer!r} "
        read = "no answer" if self.reading is None else self.reading
        return f"{self.place} (question {self.question}): {written}read as {read}, score {self.score:g}"


@dataclass(frozen=True)
class OtherKey:
    """A question whose right option in the log differs from the benchmark's. log: the log's key as it writes it."""

    place: str
    question: str
    log: str
    log_option: str | None
    benchmark: str
    benchmark_option: str

    def describe(self) -> str:
        """Return both keys in words."""
        named = "" if self.log_option is None else f", {shorten(self.log_option, 40)!r}"
        return (
            f"{self.question} (log {self.log}{named}; benchmark {self.benchmark}, "
            f"{shorten(self.benchmark_option, 40)!r})"
        )


@dataclass
class Agreement:
    """Counts over the answers of one log; lists have an item for each of CONVENTIONS.

    compared: answers with a score of their own. stated: the sum of these scores. right: right answers. keyed: questions
    whose key the log states. labels: answers that are labels.
    """

    file: str
    compared: int = 0
    stated: float = 0.0
    lines: int = 0
    keyed: int = 0
    labels: int = 0
    right_alike: int = 0
    unread_alike: int = 0
    """Right and unread answers that all conventions read the same; the lists count the other answers."""
    right: list[int] = field(default_factory=lambda: [0 for _ in _ALL])
    unread: list[int] = field(default_factory=lambda: [0 for _ in _ALL])
    contradicted: list[int] = field(default_factory=lambda: [0 for _ in _ALL])
    contradictions: list[list[Contradiction]] = field(default_factory=lambda: [[] for _ in _ALL])
    other_keys: list[int] = field(default_factory=lambda: [0 for _ in _ALL])
    keys: list[list[OtherKey]] = field(default_factory=lambda: [[] for _ in _ALL])
    means: Means = field(default_factory=Means)
    repeated: int = 0
    """Repeated answers, which count once."""
    repeated_right: list[int] = field(default_factory=lambda: [0 for _ in _ALL])
    by_text: int = 0
    """Answers that are options' texts under every convention, minus answers that are labels under every convention."""
    _readings: dict[tuple[int | None, ...], Contradiction] = field(default_factory=dict)

    def add(self, recorded: Recorded) -> None:
        """Add one answer, comparing it with its score and its key."""
        self.lines += 1
        question, order = recorded.question, recorded.order
        if recorded.key is not None and question.answer in order:
            self._compare_key(recorded, recorded.key)
        if recorded.stated is not None:
            self.compared += 1
            self.stated += recorded.stated
        self.labels += recorded.answer is not None
        positions = None if recorded.answer is None else recorded.answer.positions
        if positions is None or positions.count(positions[0]) == len(_ALL):
            # Most answers are read the same under all conventions.
            position = recorded.shown_position if positions is None else positions[0]
            if recorded.answer is not None:
                self.by_text += _score_by_text(recorded.answer, question.options, order)
            correct = position is not None and order[position] == question.answer
            self.right_alike += correct
            self.unread_alike += position is None
            self.means.add(recorded.fields, recorded.stated, correct)
            if _contradicts(recorded, correct=correct):
                self._note_contradiction(recorded, position, _ALL)
            return
        if positions not in self._readings and len(self._readings) < _MOST_READINGS:
            self._readings[positions] = self._build_contradiction(recorded, positions[0])
        right = {number: at is not None and order[at] == question.answer for number, at in enumerate(positions)}
        self.means.add(recorded.fields, recorded.stated, right)
        for number, position in enumerate(positions):
            correct = right[number]
            self.right[number] += correct
            self.unread[number] += position is None
            if _contradicts(recorded, correct=correct):
                self._note_contradiction(recorded, position, (number,))

    def add_repeat(self, recorded: Recorded) -> None:
        """Count a repeated answer: it is not among the others, but the log's scores may include it."""
        self.repeated += 1
        for number in _ALL:
            position = recorded.shown_position if recorded.answer is None else recorded.answer.positions[number]
            self.repeated_right[number] += position is not None and recorded.order[position] == recorded.question.answer

    def share_right(self, number: int) -> float:
        """Return the share of answers that are right under a convention."""
        return (self.right_alike + self.right[number]) / self.lines

    def _note_contradiction(self, recorded: Recorded, position: int | None, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.contradicted[number] += 1
            if len(self.contradictions[number]) < MOST_LISTED:
                self.contradictions[number].append(self._build_contradiction(recorded, position))

    def _build_contradiction(self, recorded: Recorded, position: int | None) -> Contradiction:
        text = None if recorded.text is None else shorten(recorded.text, 60)
        shown = text if recorded.answer is None else recorded.answer.value
        read = None if position is None else letter(position)
        place = recorded.place.describe()
        return Contradiction(place, recorded.question.external_id, shown, read, recorded.stated or 0.0)

    def _compare_key(self, recorded: Recorded, key: Written) -> None:
        question = recorded.question
        own = recorded.order.index(question.answer)
        self.keyed += 1
        if key.positions.count(own) == len(_ALL):
            return
        for number, position in enumerate(key.positions):
            if position == own:
                continue
            item = None if position is None else recorded.order[position]
            shown = question.options[item] if isinstance(item, int) else item
            if shown is not None and shown.strip() == question.options[question.answer].strip():
                continue
            self.other_keys[number] += 1
            if len(self.keys[number]) < MOST_LISTED:
                self.keys[number].append(
                    OtherKey(
                        recorded.place.describe(),
                        question.external_id,
                        key.value,
                        shown,
                        letter(own),
                        question.options[question.answer],
                    )
                )

    def require_same_key(self) -> list[int]:
        """Return the conventions under which the log's key is the benchmark's. Raises ContradictionError for none."""
        fewest = min(self.other_keys)
        if fewest == 0:
            return [number for number in _ALL if not self.other_keys[number]]
        other_keys = self.keys[self.other_keys.index(fewest)]
        listed = "; ".join(item.describe() for item in other_keys[:NAMED])
        raise ContradictionError(
            f"{self.file}: its key is not the benchmark's in {fewest:,} of {plural(self.keyed, 'answer')}: {listed}"
            "; nothing is imported. Import the version of the benchmark that was asked",
            {"keys": [asdict(item) for item in other_keys]},
        )

    def choose(self, overall: float | None, *, ignore: bool) -> int:
        """Return the number of the convention that reproduces the log's scores.

        overall: the mean that the log states. ignore: choose the convention with the fewest contradictions. Raises
        ContradictionError if none reproduces the scores, IngestError if several do and read answers differently.
        """
        same_key = self.require_same_key()
        fewest = min(self.contradicted)
        fitting = [number for number in _ALL if self.contradicted[number] == fewest]
        if not self.compared and overall is not None:
            near = [number for number in fitting if self._has_overall(number, overall)]
            if not near and not ignore:
                self._refuse(fitting[0], overall)
            fitting = near or fitting
        if self.compared or overall is not None:
            # A text counts as an answer only if the scores need it: `exact_match` compares it as a whole.
            fitting = [number for number in fitting if number != WHOLE] or fitting
        if fewest and not ignore:
            self._refuse(fitting[0], None)
        if self.compared and overall is not None and not ignore:
            self._require_overall(fitting[0], overall)
        if len(same_key) < len(_ALL):
            fitting = [number for number in fitting if number in same_key] or fitting
        best = min(self.unread[number] for number in fitting)
        fitting = [number for number in fitting if self.unread[number] == best]
        if not self.compared and overall is None and not ignore:
            self._require_one_reading(fitting)
        if self.by_text > 0:
            fitting = [number for number in fitting if CONVENTIONS[number].text_first] or fitting
        return fitting[0]

    def _require_overall(self, number: int, overall: float) -> None:
        """Refuse an overall score that is neither the answers' nor a mean of their own scores."""
        share = self.stated / self.compared if self.compared == self.lines else math.inf
        if abs(share - overall) > tolerance(overall) and not self._has_overall(number, overall):
            self._refuse(number, overall)

    def _has_overall(self, number: int, overall: float) -> bool:
        near = abs(self.share_right(number) - overall) <= tolerance(overall)
        return near or self.mean_over(number, overall) is not None

    def mean_over(self, number: int, overall: float) -> Mean | None:
        """Return the mean over a field that equals the overall score under a convention.

        Returns None if there is none, or if the share of right answers equals it.
        """
        if abs(self.share_right(number) - overall) <= tolerance(overall):
            return None
        return self.means.find(overall, self.lines, number)

    def _refuse(self, number: int, overall: float | None) -> None:
        contradictions = self.contradictions[number]
        ours = self.share_right(number)
        remedy = "nothing is imported. Correct the log, or import it all the same with --stated ignore"
        if overall is not None:
            raise ContradictionError(
                f"{self.file}: it states {overall:.4f}, and {plural(self.lines, 'answer')} as we read them give "
                f"{ours:.4f}{self._remark_repeats(number, overall)}; {remedy}",
                {"contradictions": [], "stated": overall, "recomputed": ours},
            )
        stated = self.stated / self.compared
        raise ContradictionError(
            f"{self.file}: {self.contradicted[number]:,} of {plural(self.compared, 'answer')} contradict the log's own "
            f"scores (mean stated {stated:.4f}, recomputed {ours:.4f}): "
            f"{'; '.join(item.describe() for item in contradictions[:NAMED])}; {remedy}",
            {
                "contradictions": [asdict(item) for item in contradictions],
                "stated": stated,
                "recomputed": ours,
            },
        )

    def _remark_repeats(self, number: int, overall: float) -> str:
        """Return a remark if the answers reproduce the overall score once repeated ones count again, else ""."""
        right = self.right_alike + self.right[number] + self.repeated_right[number]
        if not self.repeated or abs(right / (self.lines + self.repeated) - overall) > tolerance(overall):
            return ""
        return f" (it counts {plural(self.repeated, 'repeated answer')} twice, which count once here)"

    def _require_one_reading(self, fitting: Sequence[int]) -> None:
        """Refuse digits that may count from 0 or from 1, or be an option's text, if no score or key decides."""
        among, form = fitting, CONVENTIONS[fitting[0]].form
        if fitting[0] == WHOLE:
            among, form = _ALL, CONVENTIONS[0].form  # a digit among whole texts may count from 1, too
        any_form = [number for number in among if CONVENTIONS[number].form == form]
        for positions, first in self._readings.items():
            written = first.answer or ""
            if len({positions[number] for number in any_form}) > 1 and any(map(str.isdigit, written)):
                raise IngestError(
                    f"{self.file}: {first.place} (question {first.question}): answer {written!r} may count options "
                    "from 0 or from 1, or be an option's text, and the log has no score that decides; write letters"
                )


def _contradicts(recorded: Recorded, *, correct: bool) -> bool:
    """Return whether an answer's score differs from ours without a known reason."""
    stated = recorded.stated
    return stated is not None and recorded.excuse is None and abs(stated - correct) > SCORE_TOLERANCE


def likeliest(records: Sequence[Seen]) -> tuple[int, int]:
    """Return the conventions for keys and for answers under which the fewest keys are unread and scores contradicted.

    records: the beginning of a log, for an audit, which has no benchmark to confirm the key.
    """
    varied = [seen for seen in records if _varies(seen.keyed) or _varies(seen.answer)]
    if not varied:
        return 0, 0
    texts = [
        sum(_score_by_text(label, seen.options) for seen in records if (label := getattr(seen, name)) is not None) > 0
        for name in ("keyed", "answer")
    ]
    keys = _distinct_columns([seen.keyed.positions if seen.keyed else (seen.key,) * len(_ALL) for seen in varied])
    answers = _distinct_columns(
        [seen.answer.positions if seen.answer else (seen.position,) * len(_ALL) for seen in varied]
    )
    scores = [None if seen.stated is None else seen.stated > _HALF for seen in varied]
    # If an answer's letter is also an option's text, the answer's full text decides which is meant.
    shown = find_listing_labels(records)
    stated_positions = [
        final_reading(seen.output, seen.options, shown) if seen.output else None for seen in varied[:_READ_AGAIN]
    ]
    stated_positions += [None] * (len(varied) - len(stated_positions))

    def rank(pair: tuple[int, int]) -> tuple[int, int, bool, int, int, bool, int, int, int]:
        key, answer = keys[pair[0]], answers[pair[1]]
        contradicted = sum(
            score is not None and score != (at is not None and at == right)
            for right, at, score in zip(key, answer, scores, strict=True)
        )
        same = CONVENTIONS[pair[0]].first_digit == CONVENTIONS[pair[1]].first_digit
        # An answer such as 2 means the option "2" if other answers are options' texts.
        labels = sum(text and not CONVENTIONS[at].text_first for text, at in zip(texts, pair, strict=True))
        reads_texts = pair[1] == WHOLE and any(score is not None for score in scores)
        unlike = sum(None not in (at, text) and at != text for at, text in zip(answer, stated_positions, strict=True))
        return key.count(None), contradicted, reads_texts, unlike, answer.count(None), not same, labels, *pair

    return min(product(keys, answers), key=rank)


def _score_by_text(label: Written, options: Sequence[str], order: Sequence[int | str] | None = None) -> int:
    """Return 1 if a label is an option's text under every convention, −1 if it is another label, 0 if unsure."""
    is_text = names_by_text(label, options, order)
    return 0 if is_text is None else 1 if is_text else -1


def _varies(label: Written | None) -> bool:
    return label is not None and len(set(label.positions)) > 1


def _distinct_columns(rows: Sequence[tuple[int | None, ...]]) -> dict[int, tuple[int | None, ...]]:
    """Return the distinct columns, each by the number of the first convention that has it."""
    numbers: dict[tuple[int | None, ...], int] = {}
    for number, column in enumerate(zip(*rows, strict=True)):
        numbers.setdefault(column, number)
    return {number: column for column, number in numbers.items()}


def settle_labels(reader: Reader, number: int) -> Reader:
    """Return a reader whose labels are read under one convention."""

    def read() -> Iterator[Recorded]:
        for recorded in reader():
            yield settle(recorded, number)

    return read


def settle(recorded: Recorded, number: int) -> Recorded:
    """Return an answer with its label read under one convention."""
    if recorded.answer is None:
        return recorded
    return replace(recorded, answered=True, position=recorded.answer.positions[number], answer=None)


def order_by_key(recorded: Recorded) -> Recorded:
    """Return the answer with the option that the log calls right in the key's position, if two options are equal."""
    position = None if recorded.key is None else recorded.key.positions[0]
    if position is None or position >= len(recorded.order):
        return recorded
    order = with_answer_at(recorded.order, recorded.question, position)
    return recorded if order == recorded.order else replace(recorded, order=order)
