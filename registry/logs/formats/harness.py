"""lm-evaluation-harness files written with `--log_samples`: one document a line, log-likelihoods of its choices.

Samples of a task that `shuffleboard orders` wrote name their variant and order. All others are of one order.

Samples of the harness's SCORE tasks have a written answer for each of ten prompts, or for each position of the right
option: they are variants of `wording` and `answer-moving`. The answer is read as the tasks read it.

Samples of tasks that let a model write have its text, and the extract of each filter of the task. The answer is the
extract of the first sample's filter: a letter, or an option's text. If each prompt was sent several times and the
filter keeps several answers, they are variants 0, 1, ….

A document is found in the benchmark by its id, else by its question's text, else by its place; its choices are matched
to the options by text, so that a task which reorders them is read correctly.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place, read_lines, shorten, shown
from registry.logs.beside import METRICS, harness_overall, harness_results, task_and_date
from registry.logs.files import lines_of, records_of, results_beside
from registry.logs.format import HARNESS, METADATA, Format
from registry.logs.labels import Written, answer_label, certain, read_label
from registry.logs.listing import listing
from registry.logs.prompts import said
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
from registry.logs.values import likelihood_of, number_of, object_of, texts_of
from registry.prompting.labels import LETTERS


def read_harness(path: Path, questions: Mapping[str, KnownQuestion]) -> Iterator[Recorded]:
    """Yield each sample of a multiple-choice task; the answer is the likeliest choice, or was written.

    Raises IngestError for a sample of another kind of task, or without a matching question.
    """
    by_text: dict[str, list[KnownQuestion]] = {}
    for question in questions.values():
        by_text.setdefault(" ".join(question.text.split()), []).append(question)
    by_ordinal = {question.ordinal: question for question in questions.values()}
    filter_: Any = None
    once: dict[Any, str] = {}
    for place, line in read_lines(path):
        for key in FORMAT.keys:
            if key not in line:
                place.reject(f"key {key!r} is missing; is this a samples file of lm-evaluation-harness?")
        filter_ = line.get("filter") if filter_ is None else filter_
        if line.get("filter") != filter_:
            continue
        question = _find(place, line, questions, by_text, by_ordinal)
        _require_one_filter(place, line, once)
        if SCORE_KEYS & line["doc"].keys():
            if (recorded := _score_sample(place, line, question)) is not None:
                yield recorded
            continue
        if (written := texts_written(line)) and _choices(line["doc"]):
            yield from _written_samples(place, line, question, written)
            continue
        values = _loglikelihoods(place, line)
        order = _order(place, question, line["doc"], len(values))
        known = None if -math.inf in values else values
        yield Recorded(
            place,
            question,
            check_variant(place, _rotation(line["doc"]).get("variant", 0)),
            order,
            False,
            None,
            logprobs=known,
            weights=None if known else _weights(values),
            text=optional_text(place, None),
            stated=_stated(line),
            key=_key(line, _shown(line["doc"], question, order)),
        )


def _require_one_filter(place: Place, line: Mapping[str, Any], once: dict[Any, str]) -> None:
    """Reject a sample that is there again with the same responses, under no filter's name."""
    if "filter" in line or not isinstance(line["doc_id"], int | str) or SCORE_KEYS & line["doc"].keys():
        return
    responses = shown(line.get("resps"))
    if once.get(line["doc_id"]) == responses:
        place.reject(
            f"doc_id {shown(line['doc_id'])} is there twice with the same responses: the file holds several filters "
            "without their names, or repeats samples; keep the lines of one filter"
        )
    once[line["doc_id"]] = responses


_INDICES: Final = ("answer", "label", "gold", "answerKey", "answer_index", "correct")
"""Fields of a document that may contain the right option's index."""
_NUMBER: Final = r"[-+]?(?:inf(?:inity)?|[0-9.]{1,40}(?:[eE][-+]?[0-9]{1,4})?)"
_PAIR: Final = re.compile(rf"\s*[(\[]?\s*'?({_NUMBER})'?\s*(?:,\s*'?\w*'?\s*)?[)\]]?\s*")
"""A log-likelihood as Python prints it, alone or with whether it is the greedy answer."""
_LONGEST_PAIR: Final = 200
SCORE_KEYS = frozenset({"prompt_id", "always_same_option"})
"""A document of a SCORE task has one of these: the number of the prompt, or the right option's new position."""


def _score_sample(place: Place, line: Mapping[str, Any], question: KnownQuestion) -> Recorded | None:
    """Return a sample of a SCORE task; None for a position beyond the question's options.

    Prompt k is variant k + 1 of `wording`, whose variant 0 is in the protocol's own words; the letter of a position is
    variant 1, 2, … of `answer-moving`.
    """
    doc = line["doc"]
    choices = _choices(doc)
    order = None if choices is None else match_options(question, choices)
    if order is None:
        place.reject(f"options {shown(choices)} are not those of question {question.external_id}")
    if "prompt_id" in doc:
        variant = check_variant(place, doc["prompt_id"]) + 1
    else:
        letter = doc["always_same_option"]
        if not isinstance(letter, str) or letter not in LETTERS or len(letter) != 1:
            place.reject(f"always_same_option {shown(letter)} is not a letter")
        if LETTERS.index(letter) >= len(order):
            return None
        variant = LETTERS.index(letter) + 1
    text = only(line.get("filtered_resps", line.get("resps")))
    if not isinstance(text, str):
        place.reject(f"response {shown(text)} is not a text; SCORE's tasks generate one for each prompt")
    answer = _best_answer(text)
    position = LETTERS.index(answer) if len(answer) == 1 and answer in LETTERS[: len(order)] else None
    return Recorded(
        place, question, variant, order, True, position, text=optional_text(place, text), stated=_stated(line)
    )


def texts_written(line: Mapping[str, Any]) -> list[str]:
    """Return the texts of a sample of a task that lets the model write, once or several times; none for another task.

    Of a task that scores options, each option is a request by itself.
    """
    responses = line.get("resps")
    if isinstance(responses, list):
        if len(responses) != 1:
            return []
        responses = responses[0]
    items = responses if isinstance(responses, list) else [responses]
    texts = [only(item) for item in items]
    return texts if all(isinstance(text, str) for text in texts) else []


def extracted_of(line: Mapping[str, Any], texts: Sequence[str]) -> list[Any]:
    """Return the answers that the filter extracted: one of all texts, or one of each."""
    found = only(line.get("filtered_resps", list(texts)))
    answers = found if isinstance(found, list) and len(found) == len(texts) > 1 else [found]
    return [None if answer == INVALID else answer for answer in answers]


def _written_samples(
    place: Place, line: Mapping[str, Any], question: KnownQuestion, texts: Sequence[str]
) -> Iterator[Recorded]:
    """Yield the answers that a sample's filter extracted from its texts; several are variants 0, 1, …."""
    choices = _choices(line["doc"]) or []
    order = _order(place, question, line["doc"], len(question.options))
    answers, key = extracted_of(line, texts), _key(line, choices)
    stated = _stated(line) if len(answers) == 1 else None
    right = key.positions[0] if key is not None and stated == 1 else None
    for variant, (text, answer) in enumerate(zip(texts, answers, strict=False)):
        label = read_label(answer, choices, right=right)
        said = optional_text(place, text)
        yield Recorded(place, question, variant, order, True, None, text=said, stated=stated, answer=label, key=key)


def _stated(line: Mapping[str, Any]) -> float | None:
    """Return the score that a sample states for its answer; None if it has no score from 0 to 1."""
    for name in METRICS:
        value = line.get(name)
        if isinstance(value, int | float) and 0 <= value <= 1:
            return float(value)
    return None


def _key(line: Mapping[str, Any], options: Sequence[str]) -> Written | None:
    """Return the target of a sample as a label; None if it names no option in any way, as a continuation may not."""
    target = one_index(line.get("target"))
    if isinstance(target, list):
        return None
    key = target_label(target, line, options)
    names_nothing = set(key.positions) == {None} and not _LABEL.fullmatch(key.value)
    return None if names_nothing else key


def target_label(target: Any, line: Mapping[str, Any], options: Sequence[str]) -> Written:
    """Return a target as a label: an index as a number or as text, a letter, or the text of an option.

    A text that is none of these is one of the continuations that were scored, or names nothing.
    """
    key = read_label(target, options)
    if not isinstance(target, str):
        return key
    if len(set(key.positions)) > 1:
        # The document may contain the index that is meant.
        doc = line["doc"] if isinstance(line.get("doc"), dict) else {}
        index = next((doc[name] for name in _INDICES if type(doc.get(name)) is int), None)
        if index is not None and index in key.positions:
            return certain(target, index)
    if set(key.positions) == {None}:
        scored = [said.strip() for said in continuations(line)]
        if len(scored) == len(options) and scored.count(target.strip()) == 1:
            return certain(target, scored.index(target.strip()))
    return key


def continuations(line: Mapping[str, Any]) -> list[str]:
    """Return the continuations that were scored, one for each request."""
    calls = line.get("arguments")
    calls = list(calls.values()) if isinstance(calls, dict) else calls if isinstance(calls, list) else []
    found = [call.get("arg_1") if isinstance(call, dict) else call[-1] if call else None for call in calls]
    return [said for said in found if isinstance(said, str)]


def _shown(doc: Mapping[str, Any], question: KnownQuestion, order: Sequence[int]) -> Sequence[str]:
    return _choices(doc) or [question.options[item] for item in order]


def _weights(values: Sequence[float]) -> tuple[float, ...]:
    """Return probabilities of log-likelihoods, some of them minus infinity."""
    highest = max(values)
    if highest == -math.inf:
        return tuple(0.0 for _ in values)
    return tuple(math.exp(value - (highest if highest < _UNDERFLOW else 0.0)) for value in values)


_LABEL: Final = re.compile(r"\W{0,3}(?:[A-Za-z]|\d{1,2})\W{0,3}")
"""A target that contradicts its question if it names no option; another text is a continuation of the prompt."""
_UNDERFLOW: Final = -600.0
"""With a lower log-likelihood, a probability is not distinguished from 0."""
INVALID: Final = "[invalid]"
"""Written by a filter that extracted nothing."""


_LEAD: Final = "the best answer is "


def _best_answer(text: str) -> str:
    """Return the word after the last "the best answer is", its letters and digits in capitals; else the whole text."""
    lowered = text.lower()
    if _LEAD.rstrip() not in lowered:
        return text
    words = lowered.split(_LEAD)[-1].split("\n")[0].split(" ")[0]
    return re.sub(r"[^a-zA-Z0-9]", "", words).upper()


def _find(
    place: Place,
    line: Mapping[str, Any],
    questions: Mapping[str, KnownQuestion],
    by_text: Mapping[str, list[KnownQuestion]],
    by_ordinal: Mapping[int, KnownQuestion],
) -> KnownQuestion:
    doc = line["doc"]
    if not isinstance(doc, dict):
        place.reject(f"doc {shown(doc)} is not an object")
    for key in ("id", "question_id", "ind"):
        if str(doc.get(key)) in questions:
            return questions[str(doc[key])]
    for key in ("question", "query", "question_stem"):
        if isinstance(doc.get(key), str):
            found = by_text.get(" ".join(doc[key].split()), [])
            if len(found) == 1:
                return found[0]
            choices = _choices(doc)
            fitting = [question for question in found if choices and match_options(question, choices) is not None]
            if fitting:
                return fitting[0]
            if not found:
                place.reject(f"question {shown(doc[key])} is not in the benchmark; check --benchmark")
    number = line["doc_id"]
    if not isinstance(number, int) or number not in by_ordinal:
        place.reject(f"doc_id {shown(number)} matches no question of the benchmark; check --benchmark")
    return by_ordinal[number]


def _choices(doc: Mapping[str, Any]) -> list[str] | None:
    for key in ("choices", "options", "endings"):
        value = doc.get(key)
        if isinstance(value, dict):  # ARC: {"text": [...], "label": [...]}
            value = value.get("text")
        if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
            return value
    return None


def _order(place: Place, question: KnownQuestion, doc: Mapping[str, Any], n_shown: int) -> tuple[int, ...]:
    choices, stated = _choices(doc), _rotation(doc).get("order")
    order: tuple[int, ...] | None
    if choices is None:
        order = tuple(range(len(question.options)))
    elif stated is None:
        order = match_options(question, choices)
    else:
        order = match_permuted(question, choices, check_permutation(place, stated, len(choices)))
    if order is None:
        place.reject(f"choices {shown(choices)} are not the options of question {question.external_id}")
    if len(order) != n_shown:
        place.reject(
            f"question {question.external_id} was scored on {n_shown} continuations but shows {len(order)} options; "
            "only multiple-choice tasks can be imported"
        )
    return order


def _rotation(doc: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the question, variant and order that a document names; nothing if no rotation was written."""
    found = doc.get(METADATA)
    return found if isinstance(found, dict) else {}


def _loglikelihoods(place: Place, line: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the log-likelihood of each choice; `filtered_resps` and `resps` contain pairs, or texts of pairs."""
    responses = line.get("filtered_resps", line.get("resps"))
    if not isinstance(responses, list) or not responses:
        place.reject("no responses; write the samples with --log_samples")
    return tuple(_loglikelihood(place, response) for response in responses)


def _loglikelihood(place: Place, response: Any) -> float:
    response = only(response)
    if isinstance(response, str):
        pair = _PAIR.fullmatch(response) if len(response) < _LONGEST_PAIR else None
        if pair is None:
            place.reject(f"response {shown(response)} is generated text, and its document lists no options as choices")
        response = pair[1]
    value = response[0] if isinstance(response, (list, tuple)) and response else response
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        place.reject(f"response {shown(json.dumps(response, default=str))} contains no log-likelihood")
    if math.isnan(number) or number > 0:
        place.reject(f"log-likelihood {number!r} is not a number up to 0")
    return number


# Records as written, for an audit


_GIVEN: Final = (
    *("passage", "flores_passage", "article", "context", "support", "premise", "hypothesis"),
    *("sentence1", "sentence2"),
)
"""Fields of a document that a question may be about."""
_ASKED: Final = ("question", "query", "question_stem", "Question", "input", "ctx", "sentence", "problem", "goal")
_SHORTEST_QUESTION: Final = 12
"""A shorter question that is missing from the prompt is a code, such as COPA's `cause`."""
_CHOICES: Final = ("choices", "options", "endings", "mc1_targets", "Choices")


def _harness(path: Path, first: Mapping[str, Any], _known: Known) -> list[Source]:
    filters = _filters(path, first)
    task, _ = task_and_date(path)
    # Before samples named their filter, each filter of a task wrote all samples again, in the task's order.
    unnamed = 1 if "filter" in first else _unnamed_filters(path)
    filters = filters if unnamed == 1 else [f"filter {number}" for number in range(1, unnamed + 1)]
    remarks: list[str] = []
    results = results_beside(harness_results(path), remarks)
    sizes = object_of(object_of(results.get("n-samples")).get(task))
    metric = next((name for name in METRICS if name in first), None)
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
            _harness_records(path, name, metric, unnamed=unnamed > 1),
            harness_overall(path, results, {**first, "filter": name}),
            declared,
            part=name if len(filters) > 1 else "",
            remarks=remarks,
        )
        for name in filters
    ]


def _filters(path: Path, first: Mapping[str, Any]) -> list[str]:
    """Return the names of the filters in a file, in their order."""
    name = str(first.get("filter", "none"))
    if name == "none":
        return [name]
    return list(dict.fromkeys(str(line.get("filter", "none")) for _, line in lines_of(path) if isinstance(line, dict)))


def _unnamed_filters(path: Path) -> int:
    """Return how many filters wrote every sample of a file, so that each response is there as often; 1 if unsure."""
    counts: Counter[tuple[str, int]] = Counter()
    for _, line in lines_of(path):
        if isinstance(line, dict):
            counts[str(line.get("doc_id")), digest(json.dumps(line.get("resps")))] += 1
    times = set(counts.values())
    ids = {name for name, _ in counts}
    return times.pop() if len(times) == 1 and len(ids) == len(counts) else 1


def _harness_records(path: Path, filter_: str, metric: str | None, *, unnamed: bool) -> Iterator[Seen | Unusable]:
    seen: Counter[str] = Counter()

    def record(place: str, line: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
        name = str(line.get("filter", "none"))
        if unnamed:
            seen[str(line.get("doc_id"))] += 1
            name = f"filter {seen[str(line.get('doc_id'))]}"
        if name == filter_:
            yield from _harness_record(place, line, metric)

    return records_of(path, record)


def _harness_record(place: str, line: Mapping[str, Any], metric: str | None) -> Iterator[Seen | Unusable]:
    doc = object_of(line.get("doc"))
    options: tuple[str, ...] = ()
    for name in _CHOICES:
        value = doc.get(name)
        if isinstance(value, dict):
            value = value.get("text", value.get("choices"))
        if isinstance(value, list) and value:
            options = texts_of(value)
            break
    calls = line.get("arguments")
    calls = list(calls.values()) if isinstance(calls, dict) else calls if isinstance(calls, list) else []
    pairs = [
        (call.get("arg_0"), call.get("arg_1")) if isinstance(call, dict) else (*call, None, None)[:2] for call in calls
    ]
    prompt = said(pairs[0][0]) if pairs else None
    asked = _harness_question(doc, prompt or "")
    responses = line.get("filtered_resps", line.get("resps"))
    responses = responses if isinstance(responses, list) else [responses]
    likelihoods = [likelihood_of(item) for item in responses]
    scored = len(likelihoods) > 1 and None not in likelihoods
    shown = listing(prompt) if prompt else None
    if not options and shown is not None:
        options, asked = shown.options, asked or shown.question
    if not options and scored:
        options = tuple(str(pair[1]).strip() for pair in pairs)
    if len(options) < 2:
        yield Unusable(place, "lists no options", NOT_MULTIPLE_CHOICE)
        return
    if scored and "option1" in doc and "option2" in doc:
        # WinoGrande: each option is put into the sentence, and the rest of the sentence is scored.
        options, prompt = (str(doc["option1"]), str(doc["option2"])), None
        index = {"1": 0, "2": 1}.get(str(doc.get("answer")))
        keyed = certain(doc.get("answer"), index)
    else:
        target = one_index(line.get("target"))
        if isinstance(target, list) and len(target) > 1:
            yield Unusable(place, f"its target {shorten(target, 40)}: several options are right", SEVERAL_RIGHT)
            return
        keyed = target_label(target, line, options)
    position = None
    answers: list[tuple[str | None, Written | None]] = [(None, None)]
    stated = None if metric is None else number_of(line.get(metric))
    if scored:
        if len(likelihoods) != len(options):
            yield Unusable(place, f"{len(likelihoods)} continuations were scored for {len(options)} options")
            return
        numbers = [value for value in likelihoods if value is not None]
        if any(map(math.isnan, numbers)):
            yield Unusable(place, f"{sum(map(math.isnan, numbers))} of its log-likelihoods are no numbers")
            return
        position = numbers.index(max(numbers))
    else:
        written = texts_written(line)
        read = extracted_of(line, written)
        stated = stated if len(read) == 1 else None
        answers = [
            (text, answer_label(answer, options, keyed, stated))
            for text, answer in zip(written or repeat(None), read, strict=False)
        ]
    rotation = _rotation(doc)
    variant = rotation.get("variant", doc.get("prompt_id"))
    if isinstance(doc.get("always_same_option"), str):
        variant = LETTERS.find(doc["always_same_option"][:1])
    number = variant if isinstance(variant, int) and 0 <= variant <= MAX_VARIANT else None
    for at, (output, answer) in enumerate(answers):
        yield Seen(
            place,
            str(rotation.get("question", line.get("doc_id"))),
            asked,
            options,
            None,
            position,
            number if len(answers) == 1 else at,
            stated,
            prompt,
            output,
            scored=scored,
            answer=answer,
            keyed=keyed,
        )


def _harness_question(doc: Mapping[str, Any], prompt: str) -> str | None:
    """Return a document's question, after the texts that it is about."""
    asked = next((doc[key] for key in _ASKED if isinstance(doc.get(key), str)), None)
    if asked is not None and len(asked) < _SHORTEST_QUESTION and asked not in prompt.split():
        asked = None
    given = [doc[key] for key in _GIVEN if isinstance(doc.get(key), str) and doc[key]]
    return "\n".join(given if asked is None else [*given, asked]) or None


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
    _harness,
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
        "(evidence/comparison.md#rotations-asked-by-lm-evaluation-harness) name their variant. If the model wrote a "
        "text, the answer is what the task's filter extracted from it. If the task has several filters, that of the "
        "first sample counts. If each prompt was sent several times and the filter keeps all answers, import them as "
        "`--variants original:repeats=N`. Samples of SCORE's tasks are recognised by `prompt_id` or "
        "`always_same_option`: give `--variants wording:templates=1-10` for prompts, `imported` for orders. Prompt k "
        "is variant k + 1."
    ),
    read_lines=read_harness,
)
