"""The benchmark file contract: `{"id", "question", "options": [...], "answer": index}`, one a line.

Options may also be `{"A": …, "B": …}`, in order, with the letter of the right one as the answer. Optional: `subject`,
`context` (alias `passage`), `cluster` and `split`; lines whose split is `fewshot` form the few-shot pool.
Unknown keys are kept. CSV and Parquet carry the same columns, `options` as a JSON list in CSV.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from sys import getsizeof
from typing import Any, Final

from registry.benchmarks.flags import are_sorted_numbers, refers_to_options
from registry.benchmarks.lines import Place, check_text, is_table, read_cells, read_lines, shorten
from registry.digests import canonical_json, sha256_file, sha256_text
from registry.errors import IngestError
from registry.files.allowance import Allowance
from registry.files.documents import as_written
from registry.names import MAX_LABEL
from registry.untrusted import RefusedError, check, decode

REQUIRED = ("id", "question", "options", "answer")
KNOWN = {*REQUIRED, "subject", "context", "passage", "split"}
"""Keys with columns of their own; `cluster` is stored with the unknown keys, as text."""
_AGAIN = "take the file from its source again"
FEW_SHOT = "fewshot"
MAX_OPTIONS = 1000
"""Most options of a question; real benchmarks have up to a few dozen."""


@dataclass(frozen=True)
class QuestionRecord:
    """A checked question. `answer` is the 0-based index into `options`, which are in the benchmark's order."""

    external_id: str
    subject: str | None
    context: str | None
    text: str
    options: tuple[str, ...]
    answer: int
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def refers_to_options(self) -> bool:
        """Return whether an option refers to others, so that permuting breaks the question."""
        return refers_to_options(self.options)

    @property
    def sorted_numeric(self) -> bool:
        """Return whether the options are numbers in rising or falling order."""
        return are_sorted_numbers(self.options)

    def content(self) -> list[Any]:
        """Return the values that the content digest covers: everything that a model can read, and the right answer."""
        return [self.external_id, self.subject, self.context, self.text, list(self.options), self.answer]


MIN_QUESTIONS_TO_WARN: Final = 10
"""Fewest questions for a warning about their keys: in so many, a pattern is not chance."""


MIN_OPTIONS_TO_WARN: Final = 4
"""Fewest options of a question for which a key that is never 0 suggests that keys count from 1."""
_LABELLED: Final = re.compile(r"\s*[(\[]?([A-Za-z]|\d{1,2})[)\].:]\s{1,9}(?=\S)")


def has_labels(options: Sequence[str]) -> bool:
    """Return whether each option begins with its own label: A. and B., a) and b), or 1. and 2."""
    labels = [match[1] if (match := _LABELLED.match(option)) else None for option in options]
    n = len(options)
    return any(
        labels == scheme
        for scheme in (
            list("ABCDEFGHIJKLMNOPQRSTUVWXYZ")[:n],
            list("abcdefghijklmnopqrstuvwxyz")[:n],
            [str(one) for one in range(1, n + 1)],
        )
    )


@dataclass(frozen=True)
class BenchmarkFile:
    """A whole benchmark in memory: questions, few-shot pool, and their source."""

    questions: tuple[QuestionRecord, ...]
    pool: tuple[QuestionRecord, ...]
    split: str
    file_digest: str
    shuffle_seed: int | None = None

    @property
    def only_place(self) -> int | None:
        """Return the position of the right option if all questions share it; None if not, or for few questions."""
        places = {question.answer for question in self.questions}
        return places.pop() if len(places) == 1 and len(self.questions) >= MIN_QUESTIONS_TO_WARN else None

    @property
    def warnings(self) -> list[str]:
        """Return sentences about signs of a wrong key or of labels in options, each with its remedy."""
        sentences = []
        if self.questions and all(has_labels(question.options) for question in self.questions):
            sentences.append(
                f"the options begin with labels, such as {self.questions[0].options[0]!r}; --strip-labels drops them"
            )
        never_first = all(
            question.answer > 0 and len(question.options) >= MIN_OPTIONS_TO_WARN for question in self.questions
        )
        if len(self.questions) >= MIN_QUESTIONS_TO_WARN and never_first and self.only_place is None:
            sentences.append("no key is 0, so the first option is never right; --one-based counts keys from 1")
        if self.only_place is not None:
            sentences.append(
                f"the right option is number {self.only_place + 1} in all {len(self.questions)} questions; "
                "--shuffle-options SEED draws an order for each"
            )
        return sentences

    @property
    def content_digest(self) -> str:
        """Return the SHA-256 over the questions and the pool in file order."""
        return content_digest([one.content() for one in self.questions], [one.content() for one in self.pool])


def content_digest(questions: Iterable[list[Any]], pool: Iterable[list[Any]]) -> str:
    """Return the SHA-256 over questions and few-shot examples, both in the form of `QuestionRecord.content`."""
    digest = hashlib.sha256()
    for part in (questions, pool):
        for content in part:
            digest.update(canonical_json(content).encode() + b"\n")
        digest.update(b"\n")
    return digest.hexdigest()


def read_benchmark(
    path: Path,
    *,
    split: str | None = None,
    few_shot: Path | None = None,
    shuffle_seed: int | None = None,
    strip_labels: bool = False,
    one_based: bool = False,
    documents: Iterable[tuple[Place, dict[str, Any]]] | None = None,
) -> BenchmarkFile:
    """Read and check a whole benchmark file before anything is stored.

    split: the split whose lines are questions, if the file marks several; by default its only one.
    few_shot: a separate file with the pool. shuffle_seed: reorders each question's options, for benchmarks whose answer
    always comes first. strip_labels: drops labels at the beginning of options. one_based: keys count from 1.
    documents: the lines in the contract's form, if `path` has another format.
    Raises IngestError naming file, line, value and remedy.
    """

    def change_all(lines: Iterable[tuple[Place, dict[str, Any]]]) -> Iterator[tuple[Place, dict[str, Any]]]:
        for place, document in lines:
            yield place, _change_record(document, strip_labels=strip_labels, one_based=one_based)

    with as_written(path.name, _AGAIN):
        lines = change_all(_documents(path) if documents is None else documents)
        content = check_benchmark(lines, name=path.name, file_digest="", split=split)
    pool = content.pool
    if few_shot is not None:
        if pool:
            raise IngestError(f"{path.name}: has {FEW_SHOT} lines already; remove --fewshot or those lines")
        with as_written(few_shot.name, _AGAIN):
            pool = tuple(record for _, record in _read_records(few_shot.name, change_all(_documents(few_shot))))
    digest = sha256_file(path) if few_shot is None else sha256_text(sha256_file(path) + sha256_file(few_shot))
    return _reorder_options(BenchmarkFile(content.questions, pool, content.split, digest, shuffle_seed))


def _change_record(document: dict[str, Any], *, strip_labels: bool, one_based: bool) -> dict[str, Any]:
    options, answer = document.get("options"), document.get("answer")
    if (
        strip_labels
        and isinstance(options, list)
        and all(isinstance(one, str) for one in options)
        and has_labels(options)
    ):
        document = document | {"options": [_LABELLED.sub("", option, count=1) for option in options]}
    if one_based and isinstance(answer, int) and not isinstance(answer, bool):
        document = document | {"answer": answer - 1}
    return document


def check_benchmark(
    documents: Iterable[tuple[Place, dict[str, Any]]],
    *,
    name: str,
    file_digest: str,
    split: str | None = None,
    shuffle_seed: int | None = None,
) -> BenchmarkFile:
    """Check a benchmark whose lines were read elsewhere. name: its name in messages.

    Raises IngestError as `read_benchmark` does.
    """
    marked = list(_read_records(name, documents))
    splits = {mark for mark, _ in marked if mark not in (None, FEW_SHOT)}
    if split is None and len(splits) > 1:
        listed = ", ".join(sorted(str(mark) for mark in splits))
        raise IngestError(f"{name}: has several splits ({listed}); choose one with --split")
    chosen = split or next(iter(splits), None) or "test"
    questions = tuple(record for mark, record in marked if mark in (None, chosen))
    pool = tuple(record for mark, record in marked if mark == FEW_SHOT)
    if not questions:
        of_split = f" of split {chosen!r}" if marked else ""
        raise IngestError(f"{name}: contains no question{of_split}; give at least one line")
    return _reorder_options(BenchmarkFile(questions, pool, chosen, file_digest, shuffle_seed))


def _reorder_options(content: BenchmarkFile) -> BenchmarkFile:
    """Return a benchmark with its options reordered by its seed, if it has one."""
    if content.shuffle_seed is None:
        return content
    questions = tuple(_shuffle_options(record, content.shuffle_seed) for record in content.questions)
    return replace(
        content,
        questions=questions,
        pool=tuple(_shuffle_options(record, content.shuffle_seed) for record in content.pool),
    )


def _shuffle_options(record: QuestionRecord, seed: int) -> QuestionRecord:
    order = sorted(
        range(len(record.options)),
        key=lambda item: sha256_text(f"{seed}:shuffle-options:{record.external_id}:0:{item}"),
    )
    return QuestionRecord(
        record.external_id,
        record.subject,
        record.context,
        record.text,
        tuple(record.options[item] for item in order),
        order.index(record.answer),
        record.extra,
    )


def _read_records(
    name: str, documents: Iterable[tuple[Place, dict[str, Any]]]
) -> Iterator[tuple[str | None, QuestionRecord]]:
    seen: dict[str, int] = {}
    allowance = Allowance(name, kept=True)
    for place, document in documents:
        mark, record = _check_record(place, document)
        allowance.take(sum(map(getsizeof, _values([*record.content(), record.extra]))), records=1)
        if record.external_id in seen:
            place.reject(
                f"id {shorten(record.external_id)!r} is already used on line {seen[record.external_id]}; give each "
                "question its own id"
            )
        seen[record.external_id] = place.line
        yield mark, record


def _documents(path: Path) -> Iterable[tuple[Place, dict[str, Any]]]:
    name = path.name.lower()
    if name.endswith(".parquet"):
        return _read_parquet(path)
    if is_table(path):
        return _read_table(path)
    if name.endswith((".jsonl", ".jsonl.gz")) or not path.exists():
        return read_lines(path)
    raise IngestError(f"{path.name}: unknown kind of file; use .jsonl, .jsonl.gz, .csv, .tsv, .xlsx or .parquet")


def _read_parquet(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the rows of a Parquet file, numbered from line 2, as in a table with a heading."""
    from registry.files.parquet import parquet_rows  # pyarrow takes long to load

    for number, row in enumerate(parquet_rows(path), start=2):
        yield _check_cells(Place(path, number), {key: _cell(value) for key, value in row.items()})


def _check_cells(place: Place, document: dict[str, Any]) -> tuple[Place, dict[str, Any]]:
    """Reject a table's row that a database cannot store; lines of JSON are checked when they are parsed."""
    try:
        check(document)
    except RefusedError as error:
        place.reject(str(error))
    return place, document


def _cell(value: Any) -> Any:
    """Return a cell as a JSON value; a missing number is null."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _read_table(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the rows of a table. Nothing is turned into NaN: "None", "NA" and "=1+1" are real options."""
    rows = read_cells(path)
    place, heading = next(rows, (Place(path, 1), []))
    if len(set(heading)) < len(heading):
        twice = Counter(heading).most_common(1)[0][0]
        place.reject(f"column {shorten(twice)!r} is given twice; keep one")
    for place, cells in rows:
        if len(cells) > len(heading):
            place.reject(f"has {len(cells)} cells, the heading {len(heading)}; repair the row")
        document: dict[str, Any] = dict(zip_longest(heading, cells, fillvalue=""))
        _convert_texts(place, document)
        yield _check_cells(place, document)


def _convert_texts(place: Place, document: dict[str, Any]) -> None:
    """Convert a row's texts: options from a JSON list, the answer from a number, empty optional cells to None."""
    for key in ("subject", "context", "passage", "split"):
        if document.get(key) == "":
            document[key] = None
    try:
        document["options"] = decode(document.get("options", ""))
    except RefusedError as error:
        place.reject(f"options: {error}")
    except ValueError:
        place.reject(f'options {shorten(document.get("options"))!r} is not a JSON list such as ["yes", "no"]')
    try:
        document["answer"] = int(document.get("answer", ""))
    except ValueError:
        if isinstance(document["options"], dict):
            return  # the answer is one of the options' labels
        place.reject(
            f"answer {shorten(document.get('answer'))!r} is not a whole number; give the option's 0-based index"
        )


def _check_record(place: Place, document: dict[str, Any]) -> tuple[str | None, QuestionRecord]:
    for key in REQUIRED:
        if key not in document:
            place.reject(f"key {key!r} is missing; add it")
    external_id = document["id"]
    if isinstance(external_id, int) and not isinstance(external_id, bool):
        external_id = str(external_id)
    external_id = _text(place, "id", external_id)
    if not external_id:
        place.reject("id is empty; give each question its own id")
    _require_label(place, "id", external_id)
    options, answer = document["options"], document["answer"]
    if isinstance(options, dict):
        labels = list(options)
        options = list(options.values())
        if isinstance(answer, str):
            if answer not in labels:
                place.reject(
                    f"answer {shorten(answer)!r} is none of the labels {', '.join(labels)[:60]}; give one of them"
                )
            answer = labels.index(answer)
    if not isinstance(options, list) or len(options) < 2:
        place.reject(f"options {shorten(options)!r}: a question needs a list of at least two options")
    if len(options) > MAX_OPTIONS:
        place.reject(f"{len(options):,} options: a question may have up to {MAX_OPTIONS}; leave some out")
    for index, option in enumerate(options):
        if not _text(place, f"option {index}", option).strip():
            place.reject(f"option {index} of {external_id!r} is empty; fill it in or remove the question")
    if isinstance(answer, bool) or not isinstance(answer, int):
        place.reject(f"answer {shorten(answer)!r} is not a whole number; give the 0-based index of the right option")
    if not 0 <= answer < len(options):
        place.reject(
            f"answer {answer} is outside 0 … {len(options) - 1}, the indexes of its {len(options)} options; the first "
            "option is 0"
        )
    if "context" in document and "passage" in document:
        place.reject("context and its alias passage are both given; keep one")
    record = QuestionRecord(
        external_id,
        _label(place, "subject", document.get("subject")),
        _optional_text(place, "context", document.get("context", document.get("passage"))),
        _text(place, "question", document["question"]),
        tuple(options),
        answer,
        {key: value for key, value in document.items() if key not in KNOWN} | _cluster(place, document),
    )
    return _label(place, "split", document.get("split")), record


def _cluster(place: Place, document: dict[str, Any]) -> dict[str, Any]:
    """Return the cluster that a question names, as text; empty if it names none."""
    value = document.get("cluster")
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if "cluster" not in document:
        return {}
    return {"cluster": _label(place, "cluster", value)}


def _values(document: Any) -> Iterator[Any]:
    """Yield every value in a JSON document, keys, lists and objects included."""
    stack = [document]
    while stack:
        value = stack.pop()
        yield value
        if isinstance(value, dict):
            stack += [*value, *value.values()]
        elif isinstance(value, list):
            stack += value


def _text(place: Place, name: str, value: Any) -> str:
    if not isinstance(value, str):
        place.reject(f"{name} {shorten(value)!r} is not text; put it in quotation marks")
    return check_text(place, name, value)


def _label(place: Place, name: str, value: Any) -> str | None:
    """Return a text that is indexed and therefore short, such as a subject; None if it is empty."""
    text = _optional_text(place, name, value)
    return None if text is None else _require_label(place, name, text)


def _require_label(place: Place, name: str, text: str) -> str:
    if len(text) > MAX_LABEL:
        place.reject(f"{name} {shorten(text)!r} has {len(text):,} characters; give at most {MAX_LABEL}")
    return text


def _optional_text(place: Place, name: str, value: Any) -> str | None:
    return None if value is None or value == "" else _text(place, name, value)
