"""Logs of Inspect AI: `.eval` archives and `.json` files of a task with `multiple_choice()` and the scorer `choice()`.

    {"version": 2, "status": "success", "eval": {"task": "…", "model": "…"}, "results": {"scores": […]}, "samples": [
        {"id": "q1", "epoch": 1, "input": "…", "choices": ["…", …], "target": "C",
         "output": {"completion": "ANSWER: C"},
         "scores": {"choice": {"value": "C", "answer": "C", "explanation": "…"}}}, …]}

An archive has the same content, with the samples as `samples/*.json`. If the dataset shuffled the choices, a sample
lists them as shown. If the solver shuffled them, a sample lists the dataset's order, and message, completion and answer
are rewritten to it; then only the score's explanation has the order shown, and only the events have the original text.
Each epoch is a variant; in logs of our extension an epoch is a repeat of the order that the sample's metadata names.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place, quote, shorten
from registry.errors import IngestError
from registry.files.allowance import Allowance
from registry.files.packed import Archive
from registry.logs.documents import Log, members, objects, open_archive, read_archived_json, read_description, texts
from registry.logs.files import DAMAGED
from registry.logs.format import INSPECT, METADATA, Format
from registry.logs.labels import Written, certain, read_label
from registry.logs.means import fields_of
from registry.logs.prompts import prompt_text
from registry.logs.record import (
    MAX_VARIANT,
    NOT_MULTIPLE_CHOICE,
    SEVERAL_RIGHT,
    Item,
    Known,
    KnownQuestion,
    QuestionFinder,
    Recorded,
    Seen,
    Source,
    Unusable,
    check_permutation,
    match_permuted,
    optional_text,
    record_of,
)
from registry.logs.values import object_of
from registry.prompting.labels import LETTERS

SCORER: Final = "choice"
METRIC: Final = "accuracy of choice()"
SHUFFLED: Final = "Choices were shuffled before generating a response, the following was sent to the model:\n\n"
SHUFFLED_ANSWER: Final = "\nShuffled answer:\nANSWER: "
_NUMBER: Final = re.compile("[1-9][0-9]{0,3}")
_VALUES: Final = {"C": 1.0, "I": 0.0, "N": 0.0, "P": 0.5}

Samples = Iterable[tuple[Item, dict[str, Any]]]


def inspect_document(path: Path, document: dict[str, Any]) -> tuple[dict[str, Any], Samples]:
    """Return (header, samples) of a log that is one JSON document; samples after a damaged one remain readable."""
    samples = members(Item(path, "document"), document, "samples", list)
    return document, map(partial(_place_sample, path), range(1, len(samples) + 1), samples)


def _place_sample(path: Path, number: int, sample: Any) -> tuple[Item, dict[str, Any]]:
    place = Item(path, f"sample {number}")
    if not isinstance(sample, dict):
        place.reject(f"{quote(sample)} is not an object; fetch the log again")
    return place, sample


def inspect_archive(path: Path, *, storable: bool = True) -> tuple[dict[str, Any], Samples]:
    """Return (header, samples) of an archive; samples are read one at a time, also after a damaged one.

    storable: whether values that no database stores are refused. Raises IngestError if it is not a log of Inspect. A
    run that was cut short has a journal instead of a header.
    """
    archive = open_archive(path)
    names = archive.names()
    header_name = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
    if header_name is None:
        raise IngestError(f"{path.name}: is an archive, but not a log of Inspect AI: it has no header.json")
    header = read_archived_json(archive, header_name, storable=storable)
    if not isinstance(header, dict):
        raise IngestError(f"{path.name} {header_name}: is not an object; fetch the log again")
    entries = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
    return header, map(partial(_read_archived_sample, archive, storable=storable), entries)


def _read_archived_sample(archive: Archive, name: str, *, storable: bool) -> tuple[Item, dict[str, Any]]:
    sample = read_archived_json(archive, name, storable=storable)
    place = Item(archive.path, name)
    if not isinstance(sample, dict):
        place.reject("is not an object; fetch the log again")
    return place, sample


def read_inspect(path: Path, head: tuple[Mapping[str, Any], Samples], questions: Mapping[str, KnownQuestion]) -> Log:
    """Return the answers of a log. Failed and cancelled samples are left out, as prompts without an answer.

    Raises IngestError for samples without choices, without a score of `choice()`, with several right choices, and for
    samples that are not questions of the benchmark.
    """
    header, samples = head
    finder = QuestionFinder(questions)
    epochs = epochs_of(header)
    recorded, failed = [], 0
    allowance = Allowance(path.name, kept=True)
    for place, raw in samples:
        sample = _read_sample(place, raw, epochs)
        if isinstance(sample, Unusable):
            if sample.name != FAILED:
                place.reject(f"{sample.detail}; only multiple-choice tasks with one right choice can be imported")
            failed += 1
            continue
        allowance.take(len(sample.text or ""), records=1)
        recorded.append(_build_recorded(place, sample, finder))
    if not recorded:
        raise IngestError(f"{path.name}: contains no finished sample; import the log of a finished run")
    remarks = [f"{failed} samples ended with an error or were cancelled, and are left out"] if failed else []
    if header.get("status") not in (None, "success"):
        remarks.append(f"the run did not succeed: its status is {shorten(header['status'])}")
    description = members(Item(path, "header"), header, "eval", dict)
    about = {key: description.get(key) for key in ("task", "run_id", "model", "created")}
    packages = description.get("packages")
    if isinstance(packages, dict):
        about["inspect_ai"] = packages.get("inspect_ai")
    return Log(INSPECT, recorded, read_description(path, about), METRIC, _read_overall(header), None, remarks, failed)


def epochs_of(header: Mapping[str, Any]) -> int:
    """Return the number of epochs that a log was to have; 1 if its header has none."""
    about = header.get("eval")
    config = about.get("config") if isinstance(about, dict) else None
    epochs = config.get("epochs") if isinstance(config, dict) else None
    return epochs if isinstance(epochs, int) and 1 <= epochs <= MAX_VARIANT else 1


def inspect_questions(_path: Path, head: tuple[Mapping[str, Any], Samples]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the questions of a log as lines of a benchmark file, each once.

    Choices are in the order of the samples, or in the original order if our extension recorded it.
    """
    seen: set[str] = set()
    for place, sample in head[1]:
        name = _read_id(place, sample)
        if name in seen:
            continue
        seen.add(name)
        choices = _read_choices(place, sample)
        order = _read_stated_order(place, sample, len(choices))
        metadata = sample.get("metadata")
        subject = metadata.get("subject") if isinstance(metadata, dict) else None
        yield (
            place,
            {
                "id": name,
                "subject": subject if isinstance(subject, str) else None,
                "question": _read_input(place, sample),
                "options": [choices[order.index(option)] for option in range(len(choices))],
                "answer": order[_read_target(place, sample, len(choices))],
            },
        )


def inspect_overall(header: Mapping[str, Any]) -> float | None:
    """Return the accuracy that the log states for `choice()`, or else for its first scorer."""
    overall = _read_overall(header)
    return overall if overall is not None else _read_overall(header, scorer=None)


def _read_id(place: Place, sample: Mapping[str, Any]) -> str:
    value = _read_permutation(sample).get("question", sample.get("id"))
    if isinstance(value, bool) or not isinstance(value, int | str):
        place.reject(f"id {quote(value)} is neither text nor a whole number; the log is damaged")
    return str(value)


def _read_choices(place: Place, sample: Mapping[str, Any]) -> list[str]:
    if not sample.get("choices"):
        place.reject("has no choices; only multiple-choice tasks can be imported")
    return texts(place, sample, "choices")


def _read_input(place: Place, sample: Mapping[str, Any]) -> str:
    """Return the question: the sample's input, or its last user message."""
    value = sample.get("input")
    if isinstance(value, str):
        return value
    messages = [message for message in objects(place, sample, "input") if message.get("role") == "user"]
    if not messages:
        place.reject("its input has no user message; give a task that asks the question there")
    content = messages[-1].get("content")
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str):
        place.reject(f"content {quote(content)} of its input is not text; only text questions can be imported")
    return content


def _read_named_label(place: Place, name: str, value: Any, choices: Sequence[str]) -> Written:
    """Return the target or the answer of a sample as a label; reject a letter or number beyond its choices."""
    named = [_parse_label(part) for part in value.split(",")] if isinstance(value, str) else [None]
    if len(choices) > len(LETTERS) and len(named) == 1 and named[0] in range(len(choices)):
        return certain(value, named[0])
    label = read_label(value, choices)
    beyond = any(index not in range(len(choices)) for index in named)
    if set(label.positions) == {None} and None not in named and beyond:
        place.reject(f"{name} {quote(value)} does not name one of its {len(choices)} choices; the log is damaged")
    return label


def _read_target(place: Place, sample: Mapping[str, Any], n_choices: int) -> int:
    value = sample.get("target")
    targets = value if isinstance(value, list) else [value]
    if len(targets) != 1 or not isinstance(targets[0], str):
        place.reject(f"target {quote(value)} is not one letter; a question has one right option")
    index = _parse_label(targets[0])
    if index is None or index >= n_choices:
        place.reject(
            f"target {quote(value)} is not one letter of its {n_choices} choices; a question has one right option"
        )
    return index


def _parse_label(letter: str) -> int | None:
    """Return the position of a label as Inspect writes it: A to Z, then 1, 2, …."""
    text = letter.strip().upper()
    if len(text) == 1 and text in LETTERS:
        return LETTERS.index(text)
    return len(LETTERS) + int(text) - 1 if _NUMBER.fullmatch(text) else None


def _label_at(index: int) -> str:
    return LETTERS[index] if index < len(LETTERS) else str(index - len(LETTERS) + 1)


@dataclass(frozen=True, slots=True)
class _Sample:
    """A sample as written, for audits and imports.

    choices: in the sample's order. stated_order: the order in which our extension showed them. shown: index of the
    choice at each position. key, answer, position: labels and position in the order shown; answer is None if the
    explanation states the position.
    """

    name: str
    question: str
    choices: tuple[str, ...]
    stated_order: tuple[int, ...]
    shown: tuple[int, ...]
    variant: int
    key: Written
    answer: Written | None
    position: int | None
    stated: float
    logprobs: tuple[float, ...] | None
    text: str | None
    reasoning: str | None
    fields: Mapping[str, str]


FAILED: Final = "failed-samples"
"""Code of the problem that a sample ended with an error or was cancelled."""


def _find_problem(place: Item, sample: Mapping[str, Any]) -> Unusable | None:
    """Return the problem if a sample has no answer that can be scored; None if it may have one."""
    error = sample.get("error")
    if error is not None:
        message = error.get("message", "an error") if isinstance(error, dict) else "an error"
        return Unusable(place.name, shorten(message), FAILED)
    if not sample.get("scores"):
        return Unusable(place.name, "has no score: it was cancelled", FAILED)
    if not sample.get("choices"):
        return Unusable(place.name, "has no choices", NOT_MULTIPLE_CHOICE)
    target = sample.get("target")
    if isinstance(target, list) and len(target) > 1:
        return Unusable(place.name, f"target {quote(target)}: several options are right", SEVERAL_RIGHT)
    return None


def _read_sample(place: Item, sample: dict[str, Any], epochs: int, *, any_scorer: bool = False) -> _Sample | Unusable:
    """Read a sample; return the problem if it has no answer. Raises IngestError if it contradicts itself.

    any_scorer: whether another scorer is read as if it were `choice()`.
    """
    problem = _find_problem(place, sample)
    if problem is not None:
        return problem
    choices = _read_choices(place, sample)
    stated_order = _read_stated_order(place, sample, len(choices))
    key = _read_key(place, sample, choices)
    score = _find_score(place, sample, any_scorer=any_scorer)
    stated = _read_value(place, score)
    output = members(place, sample, "output", dict)
    answer: Written | None = None
    if not _is_shuffled(score):
        shown = tuple(range(len(choices)))
        text = output.get("completion")
        right = key.positions[0] if stated == 1 else None
        named = score.get("answer")
        answer = _read_named_answer(place, score, choices, right) if named else read_label(None, choices)
        position = answer.positions[0] if len(set(answer.positions)) == 1 else None
    else:
        chosen = _read_answer(place, score, len(choices))
        shown = _read_shown_order(place, score, choices, chosen)
        position = None if chosen is None else shown.index(chosen)
        key = certain(sample.get("target"), shown.index(_read_target(place, sample, len(choices))))
        # The completion was rewritten to the dataset's order; the model's event has the original.
        output = _last_output(sample)
        text = _read_completion(sample, output)
    reasoning = _read_reasoning(sample, output)
    if reasoning and not isinstance(text, str):
        text = ""
    return _Sample(
        _read_id(place, sample),
        _read_input(place, sample),
        tuple(choices),
        tuple(stated_order),
        shown,
        _read_variant(place, sample, epochs),
        key,
        answer,
        position,
        stated,
        _read_label_logprobs(output, position, len(choices)),
        text if isinstance(text, str) and (text or reasoning) else None,
        reasoning,
        fields_of(object_of(sample.get("metadata"))),
    )


def _build_recorded(place: Place, sample: _Sample, finder: QuestionFinder) -> Recorded:
    """Return a sample's answer with its question; reject a sample that the benchmark lacks."""
    question = finder.find(place, sample.name, sample.question, sample.choices)
    # Our extension records the positions of equal texts.
    order = match_permuted(question, sample.choices, sample.stated_order)
    assert order is not None  # the finder compared them
    return Recorded(
        place,
        question,
        sample.variant,
        tuple(order[index] for index in sample.shown),
        True,
        sample.position,
        logprobs=sample.logprobs,
        text=sample.text,
        stated=sample.stated,
        key=sample.key,
        reasoning=optional_text(place, sample.reasoning),
        answer=sample.answer,
        fields=sample.fields,
    )


def _read_key(place: Place, sample: Mapping[str, Any], choices: Sequence[str]) -> Written:
    """Return the target of a sample as a label; reject several targets, and a target that names no choice."""
    value = sample.get("target")
    targets = value if isinstance(value, list) else [value]
    label = _read_named_label(place, "target", targets[0], choices) if len(targets) == 1 else None
    if label is None or set(label.positions) == {None}:
        place.reject(f"target {quote(value)} is not one of its {len(choices)} choices; a question has one right option")
    return label


def _read_named_answer(place: Place, score: Mapping[str, Any], choices: Sequence[str], right: int | None) -> Written:
    """Return the answer that a score names as a label; among equal choices it means the one at `right`."""
    value = score["answer"]
    label = _read_named_label(place, "answer", value, choices)
    return label if right is None else read_label(value, choices, right=right)


def _read_variant(place: Place, sample: Mapping[str, Any], epochs: int) -> int:
    """Return the variant of a sample: its epoch, or the repeat of the order that our extension showed."""
    epoch = members(place, sample, "epoch", int)
    if not 1 <= epoch <= MAX_VARIANT + 1:
        place.reject(f"epoch {quote(epoch)} is not a whole number from 1 to {MAX_VARIANT + 1}; the log is damaged")
    order = _read_permutation(sample).get("variant")
    if order is None:
        return epoch - 1
    if isinstance(order, bool) or not isinstance(order, int) or not 0 <= order <= MAX_VARIANT or epoch > epochs:
        place.reject(f"variant {quote(order)}, epoch {epoch} of {epochs}: there is no such answer; the log is damaged")
    variant = order * epochs + epoch - 1
    if variant > MAX_VARIANT:
        place.reject(f"variant {order} in {epochs} epochs is beyond {MAX_VARIANT}; use fewer orders or epochs")
    return variant


def _read_stated_order(place: Place, sample: Mapping[str, Any], n_choices: int) -> list[int]:
    """Return the order in which our extension showed the choices; without the extension, the sample's own order."""
    stated = _read_permutation(sample).get("order")
    return list(range(n_choices)) if stated is None else check_permutation(place, stated, n_choices)


def _read_permutation(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata that our Inspect extension wrote into a sample; empty if there is none."""
    metadata = sample.get("metadata")
    permutation = metadata.get(METADATA) if isinstance(metadata, dict) else None
    return permutation if isinstance(permutation, dict) else {}


def _find_score(place: Place, sample: Mapping[str, Any], *, any_scorer: bool) -> Mapping[str, Any]:
    scores = object_of(sample.get("scores"))
    chosen_score = scores.get(SCORER)
    if any_scorer and SCORER not in scores:
        chosen_score = next((score for score in scores.values() if isinstance(score, dict)), None)
    if not isinstance(chosen_score, dict):
        listed = shorten(", ".join(scores)) or "none"
        place.reject(f"has no score of choice() (it has: {listed}); only tasks that are scored by it can be imported")
    return chosen_score


def _read_answer(place: Place, score: Mapping[str, Any], n_choices: int) -> int | None:
    """Return the index of the choice that a score names; None for no valid answer, and for several choices."""
    value = score.get("answer")
    if value is None or value == "":
        return None
    named = [_parse_label(part) for part in str(value).split(",")]
    if any(index is None or index >= n_choices for index in named):
        place.reject(f"answer {quote(value)} does not name one of its {n_choices} choices; the log is damaged")
    return named[0] if len(named) == 1 else None


def _read_value(place: Place, score: Mapping[str, Any]) -> float:
    value = score.get("value")
    number = _VALUES.get(value) if isinstance(value, str) else value
    if not isinstance(number, int | float) or not math.isfinite(number):
        place.reject(
            f"score {quote(value)} is neither C, I, N, P nor a number; only tasks scored by choice() can be imported"
        )
    return float(number)


def _is_shuffled(score: Mapping[str, Any]) -> bool:
    """Return whether the solver shuffled the choices, which the explanation then reports."""
    explanation = score.get("explanation")
    return isinstance(explanation, str) and explanation.startswith(SHUFFLED)


def _read_shown_order(
    place: Place, score: Mapping[str, Any], choices: Sequence[str], answer: int | None
) -> tuple[int, ...]:
    """Return the index of the choice at each position shown, from the explanation of the score."""
    explanation = str(score["explanation"])
    listing, _, letters = explanation.removeprefix(SHUFFLED).rpartition(SHUFFLED_ANSWER)
    order: list[int] = []
    at = 0
    for position in range(len(choices)):
        lead = f"{_label_at(position)}) "
        start = at + len(lead)
        fitting = [
            index
            for index, text in enumerate(choices)
            if index not in order
            and listing.startswith(lead, at)
            and listing.startswith(text, start)
            and listing[start + len(text) : start + len(text) + 1] in ("\n", "")
        ]
        # The longest fits best: a choice may be the beginning of another that continues on a new line.
        best = max(fitting, key=lambda index: len(choices[index]), default=None)
        if best is None:
            place.reject("the shuffled choices of its explanation are not those of the sample; the log is damaged")
        order.append(best)
        at = start + len(choices[best]) + 1
    position_answered = _parse_label(letters) if letters else None
    if (position_answered is None) != (answer is None) or at < len(listing):
        place.reject(
            f"shuffled answer {quote(letters)} and answer {quote(score.get('answer'))} differ; the log is damaged"
        )
    if position_answered is not None and answer is not None:
        there = order[position_answered] if position_answered < len(order) else -1
        if there != answer:
            if there < 0 or choices[there] != choices[answer]:
                place.reject(
                    f"shuffled answer {quote(letters)} and answer {quote(score.get('answer'))} name different choices; "
                    "the log is damaged"
                )
            # If two choices have the same text, the answer decides which is meant.
            order[order.index(answer)], order[position_answered] = there, answer
    return tuple(order)


def _last_output(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model's last answer, from its event; empty if the log has no events."""
    events = sample.get("events")
    for event in reversed(events if isinstance(events, list) else []):
        if isinstance(event, dict) and event.get("event") == "model" and isinstance(event.get("output"), dict):
            output: dict[str, Any] = event["output"]
            return output
    return {}


def _read_reasoning(sample: Mapping[str, Any], output: Mapping[str, Any]) -> str | None:
    """Return the reasoning in an output's message, in order; a redacted block is replaced by its summary, if any."""
    message = _first_choice(output).get("message")
    content = message.get("content") if isinstance(message, dict) else None
    texts = []
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("type") == "reasoning":
            text = block.get("summary") if block.get("redacted") else block.get("reasoning")
            texts.append(_resolve_attachment(sample, text))
    return "\n\n".join(text for text in texts if text) or None


def _first_choice(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first choice of an output; empty if it has none."""
    choices = output.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _resolve_attachment(sample: Mapping[str, Any], text: Any) -> str | None:
    """Return a text, or the attachment of the sample that it refers to."""
    prefix = "attachment://"
    if isinstance(text, str) and text.startswith(prefix):
        attachments = sample.get("attachments")
        text = attachments.get(text.removeprefix(prefix)) if isinstance(attachments, dict) else None
    return text if isinstance(text, str) else None


def _read_completion(sample: Mapping[str, Any], output: Mapping[str, Any]) -> str | None:
    """Return the text of an event's output, which may be an attachment of the sample."""
    return _resolve_attachment(sample, output.get("completion"))


def _read_label_logprobs(output: Mapping[str, Any], position: int | None, n_choices: int) -> tuple[float, ...] | None:
    """Return the labels' log-probabilities at the last token that is the answer's letter; None if the log lacks any.

    They are conditioned on all text before that letter. A label that is not among the token's alternatives is unknown,
    not improbable.
    """
    if position is None:
        return None
    logprobs = _first_choice(output).get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    for token in reversed(content if isinstance(content, list) else []):
        text = token.get("token") if isinstance(token, dict) else None
        if not isinstance(text, str) or text.strip() != _label_at(position):
            continue
        blank = text[: len(text) - len(text.lstrip())]
        top = {entry.get("token"): entry.get("logprob") for entry in token.get("top_logprobs") or []}
        values = [top.get(blank + _label_at(index)) for index in range(n_choices)]
        if any(not isinstance(value, int | float) or not math.isfinite(value) for value in values):
            return None
        return tuple(min(0.0, float(value)) for value in values if value is not None)
    return None


def _read_overall(header: Mapping[str, Any], scorer: str | None = SCORER) -> float | None:
    """Return the accuracy that the log states as a mean over samples and epochs, or over groups of them; else None."""
    results = header.get("results")
    scores = results.get("scores") if isinstance(results, dict) else None
    for score in scores if isinstance(scores, list) else []:
        if not isinstance(score, dict) or score.get("reducer") not in (None, "mean"):
            continue
        if scorer is not None and score.get("scorer") != scorer:
            continue
        metrics = score.get("metrics")
        metrics = metrics if isinstance(metrics, dict) else {}
        # `grouped` names its metric "all", whether it is the mean over samples or over groups.
        accuracy = metrics.get("accuracy", metrics.get("all"))
        value = accuracy.get("value") if isinstance(accuracy, dict) else None
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    return None


# Records as written, for an audit


def _list_sources(path: Path, head: tuple[Mapping[str, Any], Samples], _known: Known) -> list[Source]:
    header, samples = head
    about = object_of(header.get("eval"))
    dataset, config = object_of(about.get("dataset")), object_of(about.get("config"))
    sampled, total = len(dataset.get("sample_ids") or ()), dataset.get("samples")
    declared = config.get("limit") is not None or config.get("sample_id") is not None
    declared = declared or (isinstance(total, int) and 0 < sampled < total)
    return [
        Source(
            path,
            INSPECT,
            str(about.get("model") or "model"),
            str(about.get("task") or path.stem),
            _read_records(path.name, samples, epochs_of(header)),
            inspect_overall(header),
            declared,
        )
    ]


def _read_records(file: str, samples: Any, epochs: int) -> Iterator[Seen | Unusable]:
    each = iter(samples)
    while True:
        try:
            place, sample = next(each)
        except StopIteration:
            return
        except IngestError as error:
            place, _, reason = str(error).removeprefix(f"{file} ").partition(": ")
            yield Unusable(place, reason, DAMAGED)
            continue
        yield from record_of(place.name, partial(_build_seen, place, sample, epochs))


def _build_seen(place: Item, raw: dict[str, Any], epochs: int) -> Iterator[Seen | Unusable]:
    """Yield a sample as a record of an audit."""
    sample = _read_sample(place, raw, epochs, any_scorer=True)
    if isinstance(sample, Unusable):
        yield sample
        return
    output = members(place, raw, "output", dict)
    completion, stopped = output.get("completion"), _first_choice(output).get("stop_reason")
    messages = raw.get("messages")
    messages = messages if isinstance(messages, list) and messages else raw.get("input")
    if isinstance(messages, list) and isinstance(messages[-1], dict) and messages[-1].get("role") == "assistant":
        messages = messages[:-1]
    yield Seen(
        place.name,
        sample.name,
        sample.question,
        tuple(sample.choices[index] for index in sample.shown),
        None,
        sample.position,
        sample.variant,
        sample.stated,
        prompt_text(messages) or None,
        sample.text or (completion if isinstance(completion, str) else ""),
        sample.reasoning,
        stopped in ("max_tokens", "model_length"),
        stopped == "content_filter",
        answer=sample.answer,
        keyed=sample.key,
        fields=sample.fields,
    )


FORMAT: Final = Format(
    INSPECT,
    "Inspect",
    "document",
    frozenset({"eval", "status", "version"}),
    {"version": 2, "status": "success", "eval": {"task": "…", "model": "…"}, "samples": []},
    _list_sources,
    program="Inspect AI, `.eval` archives and `.json` logs",
    recognised="`eval`, `status`, `version`",
    becomes="A variant for each epoch, in the order that was shown, with the generated text",
    scores="score the task with choice()",
    paragraph=(
        "**Inspect AI.** [Our extension](how-to/use-with-inspect.md) asks any multiple-choice task in several "
        "orders; its log is imported as the kind that it was given, with `repeats` for its epochs. Tasks of "
        "`multiple_choice()` that are scored by `choice()`, with one right choice. Import N epochs of the same "
        "order as `--variants original:repeats=N`, shuffled orders as `--variants imported`. If the solver "
        "shuffled the choices, the order is read from the score's explanation. Samples that ended with an error, or "
        "have no score, are left out, so the evaluation is incomplete."
    ),
    read_log=read_inspect,
    questions=inspect_questions,
)
