"""lm-evaluation-harness files written with `--log_samples`: one document per line, with log-likelihoods of its choices.

Samples of a task that `shuffleboard orders` wrote name their variant and order. All others are of one order.

Samples of the harness's SCORE tasks have a written answer for each of ten prompts, or for each position of the right
option: they are variants of `wording` and `answer-moving`. The answer is read as the tasks read it.

Samples of tasks in which a model writes have its text, and the extract of each filter of the task. The answer is the
extract of the first sample's filter: a letter, or an option's text. If each prompt was sent several times and the
filter keeps several answers, they are variants 0, 1, ….

A document is found in the benchmark by its id, else by its question's text, else by its number. Its choices are matched
to the options by text, so that a task which reorders them is read correctly.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place, quote, read_lines, shorten
from registry.logs.beside import harness_overall, harness_results, score_of_sample, task_and_date
from registry.logs.files import lines_of, records_of, results_beside
from registry.logs.format import HARNESS, METADATA, Format
from registry.logs.labels import Written, answer_label, are_one, certain, read_label
from registry.logs.listing import listing
from registry.logs.means import fields_of
from registry.logs.prompts import prompt_text
from registry.logs.record import (
    MAX_VARIANT,
    NOT_MULTIPLE_CHOICE,
    SEVERAL_RIGHT,
    Known,
    KnownQuestion,
    Recorded,
    Seen,
    Source,
    Unusable,
    check_permutation,
    check_variant,
    match_options,
    match_permuted,
    one_index,
    only,
    optional_text,
)
from registry.logs.texts import digest
from registry.logs.values import likelihood_of, object_of, texts_of, weights_of
from registry.prompting.labels import LETTERS


def read_harness(path: Path, questions: Mapping[str, KnownQuestion]) -> Iterator[Recorded]:
    """Yield the answer of each sample of a multiple-choice task: the likeliest choice, or a written answer.

    Raises IngestError for a sample of another kind of task, or without a matching question.
    """
    finder = _Finder(questions)
    filter_: Any = None
    once: dict[Any, str] = {}
    for place, line in read_lines(path, constants=True):
        for key in FORMAT.keys:
            if key not in line:
                place.reject(f"key {key!r} is missing; is this a samples file of lm-evaluation-harness?")
        filter_ = line.get("filter") if filter_ is None else filter_
        if line.get("filter") != filter_:
            continue
        question = finder.find(place, line)
        _require_one_filter(place, line, once)
        yield from _build_recorded(place, line, question)


def _build_recorded(place: Place, line: Mapping[str, Any], question: KnownQuestion) -> Iterator[Recorded]:
    """Yield a sample's answers to its question; rejects a sample of another kind of task."""
    sample = _read_sample(place.describe(), line)
    if sample is None:
        return
    if isinstance(sample, Unusable):
        place.reject(f"{sample.detail}; only multiple-choice tasks with one right option can be imported")
    if sample.likelihoods is None and not texts_written(line):
        response = quote(line.get("filtered_resps", line.get("resps")))
        place.reject(f"response {response} is neither a text nor log-likelihoods; write the samples with --log_samples")
    order = _match_order(place, question, line["doc"], sample)
    key = None if SCORE_KEYS & line["doc"].keys() or _names_nothing(sample.key) else sample.key
    build = partial(Recorded, place, question, stated=sample.stated, key=key, fields=sample.fields)
    if sample.likelihoods is None:
        for number, (text, label) in zip(sample.variants, sample.answers, strict=True):
            variant = check_variant(place, number or 0)
            yield build(variant, order, True, None, text=optional_text(place, text), answer=label)
        return
    highest = max(sample.likelihoods)
    if highest > 0:
        place.reject(f"log-likelihood {highest!r} is not a number up to 0")
    known = None if -math.inf in sample.likelihoods else sample.likelihoods
    weights = None if known else weights_of(sample.likelihoods)
    variant = check_variant(place, sample.variants[0] or 0)
    yield build(variant, order, False, None, logprobs=known, weights=weights)


def _names_nothing(key: Written | None) -> bool:
    """Return whether a target is a continuation of the prompt rather than a label, so that it contradicts no key."""
    return key is not None and set(key.positions) == {None} and _LABEL.fullmatch(key.value) is None


def _require_one_filter(place: Place, line: Mapping[str, Any], once: dict[Any, str]) -> None:
    """Reject a second sample with the same id and responses in a file that does not name its filters."""
    if "filter" in line or not isinstance(line["doc_id"], int | str) or SCORE_KEYS & line["doc"].keys():
        return
    responses = quote(line.get("resps"))
    if once.get(line["doc_id"]) == responses:
        place.reject(
            f"doc_id {quote(line['doc_id'])} is there twice with the same responses: the file holds several filters "
            "without their names, or repeats samples; keep the lines of one filter"
        )
    once[line["doc_id"]] = responses


_INDICES: Final = ("answer", "label", "gold", "answerKey", "answer_index", "correct")
"""Fields of a document that may contain the right option's index."""
SCORE_KEYS = frozenset({"prompt_id", "always_same_option"})
"""A document of a SCORE task has one of these keys: the number of the prompt, or the right option's new position."""


def _read_score_variant(doc: Mapping[str, Any], n_options: int) -> int | str | None:
    """Return the variant of a document of a SCORE task, or the problem with it; None for a position beyond its options.

    Prompt k is variant k + 1 of `wording`, whose variant 0 uses the protocol's own words; the letter of a position is
    variant 1, 2, … of `answer-moving`.
    """
    if "prompt_id" in doc:
        number = doc["prompt_id"]
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < MAX_VARIANT:
            return f"prompt_id {quote(number)} is not a whole number from 0"
        return number + 1
    letter = doc["always_same_option"]
    if not isinstance(letter, str) or letter not in LETTERS or len(letter) != 1:
        return f"always_same_option {quote(letter)} is not a letter"
    return LETTERS.index(letter) + 1 if LETTERS.index(letter) < n_options else None


def texts_written(line: Mapping[str, Any]) -> list[str]:
    """Return the texts of a sample whose task lets the model write, once or several times; empty for other tasks.

    A task that scores options sends a request for each of them.
    """
    responses = line.get("resps")
    if isinstance(responses, list):
        if len(responses) != 1:
            return []
        responses = responses[0]
    items = responses if isinstance(responses, list) else [responses]
    texts = [only(item) for item in items]
    return texts if all(isinstance(text, str) for text in texts) else []


def read_extracted(line: Mapping[str, Any], texts: Sequence[str]) -> list[Any]:
    """Return the extracted answers of a sample: one for all texts, or one for each."""
    extracted = only(line.get("filtered_resps", list(texts)))
    answers = extracted if isinstance(extracted, list) and len(extracted) == len(texts) > 1 else [extracted]
    return [None if answer == INVALID else answer for answer in answers]


def _read_key(line: Mapping[str, Any], options: Sequence[str]) -> Written | str | None:
    """Return the target of a sample as a label, or the problem if it names several options; None without a target.

    A list may name one option in several forms. A text that names no option is a continuation of the prompt.
    """
    doc = object_of(line.get("doc"))
    if tuple(options) == (doc.get("option1"), doc.get("option2")):
        # In WinoGrande the target is the rest of the sentence, and the document's answer counts from 1.
        return certain(doc.get("answer"), {"1": 0, "2": 1}.get(str(doc.get("answer"))))
    target = one_index(line.get("target"))
    if target is None or target == "":
        index = next((doc[name] for name in _INDICES if type(doc.get(name)) is int), None)
        return None if index is None or not 0 <= index < len(options) else certain(index, index)
    if not isinstance(target, list):
        return target_label(target, line, options)
    labels = [target_label(item, line, options) for item in target]
    if not are_one(labels):
        return f"its target {shorten(target, 40)}: several options are right"
    return labels[0]


def target_label(target: Any, line: Mapping[str, Any], options: Sequence[str]) -> Written:
    """Return a target as a label: an index as a number or as text, a letter, or the text of an option.

    Any other text is one of the continuations that were scored, or names nothing.
    """
    key = read_label(target, options)
    if not isinstance(target, str):
        return key
    if len(set(key.positions)) > 1:
        # The document may contain the right index.
        doc = line["doc"] if isinstance(line.get("doc"), dict) else {}
        index = next((doc[name] for name in _INDICES if type(doc.get(name)) is int), None)
        if index is not None and index in key.positions:
            return certain(target, index)
    if set(key.positions) == {None}:
        scored = [text.strip() for text in continuations(line)]
        if len(scored) == len(options) and scored.count(target.strip()) == 1:
            return certain(target, scored.index(target.strip()))
    return key


def continuations(line: Mapping[str, Any]) -> list[str]:
    """Return the continuations that were scored, one for each request."""
    calls = line.get("arguments")
    calls = list(calls.values()) if isinstance(calls, dict) else calls if isinstance(calls, list) else []
    candidates = [call.get("arg_1") if isinstance(call, dict) else call[-1] if call else None for call in calls]
    return [text for text in candidates if isinstance(text, str)]


_LABEL: Final = re.compile(r"\W{0,3}(?:[A-Za-z]|\d{1,2})\W{0,3}")
"""Targets that contradict their question if they name no option; any other text is a continuation of the prompt."""
INVALID: Final = "[invalid]"
"""The value that a filter writes if it extracted nothing."""


_LEAD: Final = "the best answer is "


def _extract_best_answer(text: str) -> str:
    """Return the word after the last "the best answer is", its letters and digits in capitals; else the whole text."""
    lowered = text.lower()
    if _LEAD.rstrip() not in lowered:
        return text
    words = lowered.split(_LEAD)[-1].split("\n")[0].split(" ")[0]
    return re.sub(r"[^a-zA-Z0-9]", "", words).upper()


class _Finder:
    """Finds the question of a sample: by its id, else by its text, else by its number."""

    def __init__(self, questions: Mapping[str, KnownQuestion]) -> None:
        self._questions = questions
        self._by_text: dict[str, list[KnownQuestion]] = {}
        for question in questions.values():
            self._by_text.setdefault(" ".join(question.text.split()), []).append(question)
        self._by_ordinal = {question.ordinal: question for question in questions.values()}
        self._found: dict[str, KnownQuestion] = {}
        self._taken: set[int] = set()

    def find(self, place: Place, line: Mapping[str, Any]) -> KnownQuestion:
        """Return the question of a sample; rejects a question that the benchmark lacks."""
        doc, number = line["doc"], line["doc_id"]
        if not isinstance(doc, dict):
            place.reject(f"doc {quote(doc)} is not an object")
        choices = _read_choices(doc)
        for key in ("id", "question_id", "ind"):
            named = self._questions.get(str(doc.get(key)))
            # Ids of another numbering may be the same, so the options decide.
            if named is not None and (not choices or match_options(named, choices) is not None):
                return named
        text = next((doc[key] for key in _TEXTS if isinstance(doc.get(key), str)), None)
        same_text = [] if text is None else self._by_text.get(" ".join(text.split()), [])
        if text is not None and not same_text:
            place.reject(f"question {quote(text)} is not in the benchmark; check --benchmark")
        fitting = [question for question in same_text if choices and match_options(question, choices) is not None]
        if len(same_text) == 1 or fitting:
            return self._take_equal(str(number), fitting or same_text)
        if not isinstance(number, int) or number not in self._by_ordinal:
            place.reject(f"doc_id {quote(number)} matches no question of the benchmark; check --benchmark")
        return self._by_ordinal[number]

    def _take_equal(self, doc_id: str, equal: Sequence[KnownQuestion]) -> KnownQuestion:
        """Return a document's question among several equal ones: each document takes the next."""
        if len(equal) == 1:
            return equal[0]
        if doc_id not in self._found:
            named = [question for question in equal if doc_id == question.external_id]
            free = named or [question for question in equal if question.question_id not in self._taken] or equal
            self._found[doc_id] = free[0]
            self._taken.add(free[0].question_id)
        return self._found[doc_id]


_TEXTS: Final = ("question", "query", "question_stem", "Question")
"""Fields of a document by which its question is looked up."""
_CHOICES: Final = ("choices", "options", "endings", "mc1_targets", "Choices")


def _read_choices(doc: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options that a document lists, in any of the forms of tasks; none if it lists none."""
    if "option1" in doc and "option2" in doc:
        return str(doc["option1"]), str(doc["option2"])
    for name in _CHOICES:
        value = doc.get(name)
        if isinstance(value, dict):  # ARC: {"text": [...], "label": [...]}; others: {"A": "…", "B": "…"}
            labelled = tuple(value) == tuple(LETTERS[: len(value)])
            value = list(value.values()) if labelled else value.get("text", value.get("choices"))
        if isinstance(value, list) and value:
            return texts_of(value)
    return ()


def _match_order(place: Place, question: KnownQuestion, doc: Mapping[str, Any], sample: "_Sample") -> tuple[int, ...]:
    """Return the question's options in the order shown; in its own order if the sample has no option texts."""
    stated = _read_rotation(doc).get("order")
    order: tuple[int, ...] | None
    if stated is not None:
        order = match_permuted(question, sample.options, check_permutation(place, stated, len(sample.options)))
    else:
        order = match_options(question, sample.options)
    if order is None and not sample.texts and len(sample.options) == len(question.options):
        return tuple(range(len(question.options)))
    if order is None:
        place.reject(f"choices {quote(list(sample.options))} are not the options of question {question.external_id}")
    return order


def _read_rotation(doc: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return our question, variant and order in a document; empty unless `shuffleboard orders` wrote its task."""
    rotation = doc.get(METADATA)
    return rotation if isinstance(rotation, dict) else {}


# Records as written, for an audit


_CONTEXTS: Final = (
    *("passage", "flores_passage", "article", "context", "support", "premise", "hypothesis"),
    *("sentence1", "sentence2"),
)
"""Fields of a document with texts that its question may be about."""
_ASKED: Final = ("question", "query", "question_stem", "Question", "input", "ctx", "sentence", "problem", "goal")
_SHORTEST_QUESTION: Final = 12
"""A question shorter than this that the prompt does not contain is a code, such as COPA's `cause`."""


def _list_sources(path: Path, first: Mapping[str, Any], _known: Known) -> list[Source]:
    filters = _list_filters(path, first)
    task, _ = task_and_date(path)
    # In files that do not name filters, each filter of a task wrote all samples again, in the task's order.
    unnamed = 1 if "filter" in first else _count_unnamed_filters(path)
    filters = filters if unnamed == 1 else [f"filter {number}" for number in range(1, unnamed + 1)]
    remarks: list[str] = []
    results = results_beside(harness_results(path), remarks)
    sizes = object_of(object_of(results.get("n-samples")).get(task))
    declared = object_of(results.get("config")).get("limit") is not None or sizes.get("original") != sizes.get(
        "effective"
    )
    model = str(results.get("model_name") or path.parent.name or "model")
    if "mc2" in task:
        several = Unusable("line 1", "several options are right", NOT_MULTIPLE_CHOICE)
        return [Source(path, HARNESS, model, task, iter([several]))]
    return [
        Source(
            path,
            HARNESS,
            model,
            task,
            _read_records(path, name, unnamed=unnamed > 1),
            harness_overall(path, results, {**first, "filter": name}),
            declared,
            part=name if len(filters) > 1 else "",
            remarks=remarks,
        )
        for name in filters
    ]


def _list_filters(path: Path, first: Mapping[str, Any]) -> list[str]:
    """Return the names of the filters in a file, in order of appearance."""
    name = str(first.get("filter", "none"))
    if name == "none":
        return [name]
    return list(dict.fromkeys(str(line.get("filter", "none")) for _, line in lines_of(path) if isinstance(line, dict)))


def _count_unnamed_filters(path: Path) -> int:
    """Return how many filters wrote all samples of a file: each response occurs as often. Returns 1 if unsure."""
    counts: Counter[tuple[str, int]] = Counter()
    for _, line in lines_of(path):
        if isinstance(line, dict):
            counts[str(line.get("doc_id")), digest(json.dumps(line.get("resps")))] += 1
    times = set(counts.values())
    ids = {name for name, _ in counts}
    return times.pop() if len(times) == 1 and len(ids) == len(counts) else 1


def _read_records(path: Path, filter_: str, *, unnamed: bool) -> Iterator[Seen | Unusable]:
    seen: Counter[str] = Counter()

    def record(place: str, line: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
        name = str(line.get("filter", "none"))
        if unnamed:
            seen[str(line.get("doc_id"))] += 1
            name = f"filter {seen[str(line.get('doc_id'))]}"
        if name == filter_:
            yield from _build_seen(place, line)

    return records_of(path, record)


def _build_seen(place: str, line: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
    """Yield a sample's answers as records of an audit."""
    sample = _read_sample(place, line)
    if sample is None:
        return
    if isinstance(sample, Unusable):
        yield sample
        return
    position = None if sample.likelihoods is None else sample.likelihoods.index(max(sample.likelihoods))
    name = str(_read_rotation(object_of(line.get("doc"))).get("question", line.get("doc_id")))
    for variant, (text, label) in zip(sample.variants, sample.answers, strict=True):
        yield Seen(
            place,
            name,
            sample.question,
            sample.options,
            None,
            position,
            variant,
            sample.stated,
            sample.prompt,
            text,
            scored=sample.likelihoods is not None,
            answer=label,
            keyed=sample.key,
            fields=sample.fields,
        )


@dataclass(frozen=True, slots=True)
class _Sample:
    """A sample as written, for audits and imports.

    options: as shown, by position; texts: whether the sample has their texts. key: None if it has none. likelihoods: of
    the options; None if texts were written. answers: each text with the label that was extracted from it. variants: the
    number of each answer's variant, None for a single one.
    """

    options: tuple[str, ...]
    texts: bool
    question: str | None
    prompt: str | None
    key: Written | None
    stated: float | None
    likelihoods: tuple[float, ...] | None
    answers: list[tuple[str | None, Written | None]]
    variants: list[int | None]
    fields: Mapping[str, str]


def _read_sample(place: str, line: Mapping[str, Any]) -> "_Sample | Unusable | None":
    """Read a sample; return None if a SCORE task moved the right option beyond the options."""
    doc = object_of(line.get("doc"))
    calls = line.get("arguments")
    calls = list(calls.values()) if isinstance(calls, dict) else calls if isinstance(calls, list) else []
    pairs = [
        (call.get("arg_0"), call.get("arg_1")) if isinstance(call, dict) else (*call, None, None)[:2] for call in calls
    ]
    prompt = prompt_text(pairs[0][0]) if pairs else None
    question = _read_question(doc, prompt or "")
    responses = line.get("filtered_resps", line.get("resps"))
    responses = responses if isinstance(responses, list) else [responses]
    likelihoods = [likelihood_of(item) for item in responses]
    numbers = tuple(value for value in likelihoods if value is not None)
    scored = len(likelihoods) > 1 and len(numbers) == len(likelihoods)
    options = _read_choices(doc)
    texts = bool(options)
    listed = listing(prompt) if prompt and not options else None
    if listed is not None:
        options, question, texts = listed.options, question or listed.question, True
    if not options and scored:
        options = tuple(str(pair[1]).strip() for pair in pairs)
        options = options if len(options) == len(numbers) else tuple(LETTERS[: len(numbers)])
    if len(options) < 2:
        return Unusable(place, "lists no options", NOT_MULTIPLE_CHOICE)
    key = _read_key(line, options)
    if isinstance(key, str):
        return Unusable(place, key, SEVERAL_RIGHT)
    if scored and len(numbers) != len(options):
        return Unusable(place, f"{len(numbers)} continuations were scored for {len(options)} options")
    if scored and any(map(math.isnan, numbers)):
        return Unusable(place, f"{sum(map(math.isnan, numbers))} of its log-likelihoods are no numbers")
    variant = _read_rotation(doc).get("variant")
    variants = [variant if isinstance(variant, int) and 0 <= variant <= MAX_VARIANT else None]
    _, stated = score_of_sample(line)
    answers: list[tuple[str | None, Written | None]] = [(None, None)]
    if SCORE_KEYS & doc.keys():
        number = _read_score_variant(doc, len(options))
        if number is None:
            return None
        text = only(responses)
        if isinstance(number, str) or not isinstance(text, str):
            problem = number if isinstance(number, str) else f"response {quote(text)} is not a text"
            return Unusable(place, problem)
        best = _extract_best_answer(text)
        position = LETTERS.index(best) if len(best) == 1 and best in LETTERS[: len(options)] else None
        variants, answers = [number], [(text, certain(best, position))]
    elif not scored:
        written = texts_written(line)
        extracted = read_extracted(line, written)
        stated = stated if len(extracted) == 1 else None
        pairs_read = zip(written or repeat(None), extracted, strict=False)
        answers = [(text, answer_label(answer, options, key, stated)) for text, answer in pairs_read]
        variants = variants if len(answers) == 1 else [*range(len(answers))]
    in_sentence = scored and "option1" in doc and "option2" in doc
    return _Sample(
        options,
        texts,
        question,
        None if in_sentence else prompt,
        key,
        stated,
        numbers if scored else None,
        answers,
        variants,
        fields_of(doc),
    )


def _read_question(doc: Mapping[str, Any], prompt: str) -> str | None:
    """Return a document's question, preceded by the texts that it is about."""
    question = next((doc[key] for key in _ASKED if isinstance(doc.get(key), str)), None)
    if question is not None and len(question) < _SHORTEST_QUESTION and question not in prompt.split():
        question = None
    contexts = [doc[key] for key in _CONTEXTS if isinstance(doc.get(key), str) and doc[key]]
    return "\n".join(contexts if question is None else [*contexts, question]) or None


FORMAT: Final = Format(
    HARNESS,
    "lm-evaluation-harness",
    "lines",
    frozenset({"doc", "doc_id", "target"}),
    {
        "doc_id": 0,
        "doc": {"question": "…", "choices": ["…", "…"]},
        "target": 1,
        "resps": [[["-1.2", "False"]], [["-0.3", "True"]]],
        "acc": 1.0,
    },
    _list_sources,
    program="lm-evaluation-harness, samples written with `--log_samples`",
    recognised="`doc_id`, `doc`, `target`",
    becomes=(
        "Variant 0 of each question, or the variants that `shuffleboard orders` wrote, with the log-likelihoods as "
        "`logprobs`, or with the generated text"
    ),
    scores="give a task with a metric, and --log_samples",
    paragraph=(
        "**lm-evaluation-harness.** A document is found by its id, else by its question's text, else by its "
        "`doc_id`; its choices are matched to the options by text. Documents of [`shuffleboard orders`]"
        "(how-to/use-with-lm-eval.md) name their variant. If the model wrote a "
        "text, the answer is what the task's filter extracted from it; if its metric searches the whole text, and the "
        "scores show that, it is the answer that the text states. If the task has several filters, that of the first "
        "sample counts. If each prompt was sent several times and the filter keeps all answers, import them as "
        "`--variants original:repeats=N`. Samples of SCORE's tasks are recognised by `prompt_id` or "
        "`always_same_option`: give `--variants wording:templates=1-10` for prompts, `imported` for orders. Prompt k "
        "is variant k + 1."
    ),
    read_lines=read_harness,
)
