"""Single answers in the schema of Every Eval Ever 0.3.0: `…_samples.jsonl`, one record for each prompt and result.

    {"schema_version": "0.3.0", "evaluation_id": "…", "sample_id": "q1", "evaluation_result_id": "accuracy",
     "interaction_type": "single_turn", "input": {"raw": "…", "reference": ["…"], "choices": ["…", …]},
     "output": {"raw": ["…"]}, "answer_attribution": [{"extracted_value": "…", "is_terminal": true}],
     "evaluation": {"score": 1.0, "is_correct": true}, "metadata": {"variant": "0"}}

A prompt that counts in several results has a record for each, and is read once. The schema has no field for
probabilities; a record that this registry wrote has them in its metadata, with the variant and the order.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place, quote, read_lines, shorten
from registry.logs.beside import RESULT, every_eval_ever_overall, every_eval_ever_results
from registry.logs.files import lines_of, records_of, results_beside
from registry.logs.format import EVERY_EVAL_EVER, Format
from registry.logs.labels import Written, answer_label, are_one, read_label
from registry.logs.listing import listing
from registry.logs.means import fields_of
from registry.logs.prompts import prompt_text
from registry.logs.record import (
    MAX_VARIANT,
    NOT_MULTIPLE_CHOICE,
    SEVERAL_RIGHT,
    Known,
    KnownQuestion,
    QuestionFinder,
    Recorded,
    Seen,
    Source,
    Unusable,
    check_numbers,
    check_order,
    match_options,
    optional_text,
)
from registry.logs.values import number_of, object_of, text_of, texts_of
from registry.untrusted import decode

_ORDINAL: Final = re.compile("[0-9]{1,5}")


def read_every_eval_ever(path: Path, questions: Mapping[str, KnownQuestion]) -> Iterator[Recorded]:
    """Yield the answer to each prompt in a file of single answers.

    Variants are numbered by the metadata (`variant`, or `epoch` from 1), else in the order of the file. Raises
    IngestError for a record without choices, of several turns, of another benchmark, or of another evaluation than the
    first.
    """
    finder = QuestionFinder(questions)
    first_results: FirstResults = {}
    counts: dict[int, int] = {}
    evaluation: Any = None
    for place, record in read_lines(path):
        for key in FORMAT.keys:
            if key not in record:
                listed = ", ".join(sorted(FORMAT.keys))
                place.reject(f"key {key!r} is missing; records of Every Eval Ever have {listed}")
        evaluation = evaluation or record.get("evaluation_id")
        if record.get("evaluation_id") != evaluation:
            place.reject(
                f"evaluation_id {quote(record.get('evaluation_id'))} is not that of the first record, "
                f"{quote(evaluation)}; import one evaluation at a time"
            )
        if record["interaction_type"] != "single_turn":
            place.reject(f"interaction_type {quote(record['interaction_type'])}: only single_turn can be imported")
        if record.get("error") or _is_repeat(record, first_results):
            continue
        sample = _read_sample(place.describe(), record)
        if isinstance(sample, Unusable):
            place.reject(f"{sample.detail}; only multiple-choice questions with one right option can be imported")
        question, order, right = _find_question(place, record, sample, finder, questions)
        variant = _read_variant(place, record, counts.get(question.question_id, 0))
        counts[question.question_id] = counts.get(question.question_id, 0) + 1
        yield _read_record(place, record, sample, question, variant, order, right)


FirstResults = dict[tuple[str, str], str]
"""(sample, number of its prompt) → the first result in which the prompt counts."""


def _is_repeat(record: Mapping[str, Any], first: FirstResults) -> bool:
    """Return whether a record repeats an earlier prompt, which counts in another result, too."""
    metadata = _read_metadata(record)
    key = str(record.get("sample_id")), str(metadata.get("variant", metadata.get("epoch")))
    result = str(record.get(RESULT))
    return first.setdefault(key, result) != result


def _read_metadata(record: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = record.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _read_fields(record: Mapping[str, Any]) -> dict[str, str]:
    return fields_of(_read_metadata(record), {name: record.get(name) for name in ("evaluation_name", RESULT)})


def _read_variant(place: Place, record: Mapping[str, Any], following: int) -> int:
    metadata = _read_metadata(record)
    for key, first in (("variant", 0), ("epoch", 1)):
        if key in metadata:
            text = str(metadata[key])
            if not _ORDINAL.fullmatch(text) or not first <= int(text) <= MAX_VARIANT + first:
                place.reject(f"metadata.{key} {quote(metadata[key])} is not a whole number from {first}")
            return int(text) - first
    return following


def _find_question(
    place: Place,
    record: Mapping[str, Any],
    sample: "_Sample",
    finder: QuestionFinder,
    questions: Mapping[str, KnownQuestion],
) -> tuple[KnownQuestion, tuple[int | str, ...], Written | None]:
    """Return the question, its options in the order shown, and the log's key."""
    name = str(record["sample_id"])
    own = _read_own_order(place, record, questions.get(name), sample.options)
    if own is not None:
        return questions[name], own, None
    question = finder.find(place, name, sample.question, sample.options)
    matched = match_options(question, sample.options)
    assert matched is not None  # the finder compared them
    return question, matched, sample.key


def _read_own_order(
    place: Place, record: Mapping[str, Any], question: KnownQuestion | None, choices: Sequence[str]
) -> tuple[int | str, ...] | None:
    """Return the order that our own record states if it fits this question and these choices; else None."""
    stated = _read_metadata(record).get("order")
    if question is None or not isinstance(stated, str):
        return None
    try:
        ordinals = decode(stated)
    except ValueError:
        place.reject(f"metadata.order {quote(stated)} is not a list of ordinals")
    if not isinstance(ordinals, list) or len(ordinals) != len(choices):
        place.reject(f"metadata.order {quote(stated)} has not one ordinal for each of the {len(choices)} choices")
    order = check_order(
        place,
        question,
        [text if isinstance(item, int) and item < 0 else item for item, text in zip(ordinals, choices, strict=True)],
    )
    if any(isinstance(item, int) and question.options[item] != text for item, text in zip(order, choices, strict=True)):
        return None
    return order


def _read_record(
    place: Place,
    record: Mapping[str, Any],
    sample: "_Sample",
    question: KnownQuestion,
    variant: int,
    order: tuple[int | str, ...],
    key: Written | None,
) -> Recorded:
    stated = _read_metadata(record).get("label_probabilities")
    weights = None
    if isinstance(stated, str):
        try:
            values = decode(stated)
        except ValueError:
            place.reject(f"metadata.label_probabilities {quote(stated)} is not a list of numbers")
        weights = check_numbers(place, "metadata.label_probabilities", values, len(order), low=0.0, high=math.inf)
    return Recorded(
        place,
        question,
        variant,
        order,
        True,
        None,
        weights,
        text=optional_text(place, sample.text),
        reasoning=optional_text(place, sample.reasoning),
        stated=sample.stated,
        answer=sample.answer,
        key=key,
        fields=sample.fields,
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """A record as written, for audits and imports. options: as shown, by position. key: None if there is none."""

    question: str
    options: tuple[str, ...]
    key: Written | None
    stated: float | None
    answer: Written
    text: str | None
    reasoning: str | None
    fields: Mapping[str, str]


def _read_sample(place: str, record: Mapping[str, Any]) -> _Sample | Unusable:
    """Read a record; return the problem if it lacks something or contradicts itself."""
    sent, output = object_of(record.get("input")), object_of(record.get("output"))
    question, choices = prompt_text(sent.get("raw")), sent.get("choices")
    options = texts_of(choices)
    if not options and (listed := listing(question)) is not None:
        options, question = listed.options, listed.question
    if len(options) < 2:
        return Unusable(place, "input.choices lists no choices", NOT_MULTIPLE_CHOICE)
    reference = sent.get("reference")
    alone = isinstance(reference, str) and reference != ""
    references = [read_label(text, options) for text in texts_of([reference] if alone else reference)]
    if len(references) > 1 and not are_one(references):
        return Unusable(place, f"it has {len(references)} references: several options are right", SEVERAL_RIGHT)
    key = references[0] if references else None
    evaluation = object_of(record.get("evaluation"))
    value = evaluation.get("is_correct")
    stated = number_of(value if isinstance(value, bool) else evaluation.get("score"))
    stated = stated if stated is not None and 0 <= stated <= 1 else None
    written, named = texts_of(output.get("raw")) or (None,), read_extracted_answer(record)
    trace = output.get("reasoning_trace")
    reasoning = "\n\n".join(texts_of(trace)) if isinstance(trace, list) else text_of(trace)
    text = written[0] if reasoning or written[0] not in options else None
    return _Sample(
        question,
        options,
        key,
        stated,
        answer_label(written[0] if named is None else named, options, key, stated),
        "" if text is None and reasoning else text,
        reasoning or None,
        _read_fields(record),
    )


def read_extracted_answer(record: Mapping[str, Any]) -> str | int | None:
    """Return the label or index that was extracted last; None if the record has none."""
    attributions = record.get("answer_attribution")
    for item in reversed(attributions if isinstance(attributions, list) else []):
        value = item.get("extracted_value") if isinstance(item, dict) and item.get("is_terminal") else None
        if isinstance(value, str | int) and not isinstance(value, bool):
            return value
    return None


# Records as written, for an audit


def _list_sources(path: Path, first: Mapping[str, Any], _known: Known) -> list[Source]:
    remarks: list[str] = []
    beside = every_eval_ever_results(path)
    results = {} if beside is None else results_beside(beside, remarks)
    several = bool(results) and any(
        isinstance(line, dict) and line.get(RESULT) != first.get(RESULT) for _, line in lines_of(path)
    )
    # One of several results may count other answers.
    stated = None if several else every_eval_ever_overall(results, first)
    return [
        Source(
            path,
            EVERY_EVAL_EVER,
            str(first.get("model_id") or "model"),
            str(first.get("evaluation_name") or path.stem),
            records_of(path, partial(_build_seen, first={})),
            stated,
            remarks=remarks,
        )
    ]


def _build_seen(place: str, record: Mapping[str, Any], first: FirstResults) -> Iterator[Seen | Unusable]:
    if record.get("error"):
        yield Unusable(place, shorten(record["error"]), "failed-samples")
        return
    if _is_repeat(record, first):
        return
    sample = _read_sample(place, record)
    if isinstance(sample, Unusable):
        yield sample
        return
    metadata = object_of(record.get("metadata"))
    variant = metadata.get("variant", metadata.get("epoch"))
    yield Seen(
        place,
        str(record.get("sample_id")),
        sample.question,
        sample.options,
        None,
        None,
        int(variant) if isinstance(variant, str) and variant.isdecimal() else None,
        sample.stated,
        text_of(object_of(record.get("input")).get("formatted")) or (prompt_text(record.get("messages")) or None),
        sample.text,
        sample.reasoning,
        metadata.get("stop_reason") in ("length", "max_tokens"),
        metadata.get("stop_reason") == "content_filter",
        answer=sample.answer,
        keyed=sample.key,
        fields=sample.fields,
    )


FORMAT: Final = Format(
    EVERY_EVAL_EVER,
    "Every Eval Ever",
    "lines",
    frozenset({"evaluation", "input", "interaction_type", "sample_id", "schema_version"}),
    {
        "schema_version": "0.3.0",
        "sample_id": "q1",
        "interaction_type": "single_turn",
        "input": {"raw": "…", "reference": ["…"], "choices": ["…", "…"]},
        "evaluation": {"is_correct": True},
    },
    _list_sources,
    program="Every Eval Ever 0.3.0, a `…_samples.jsonl`",
    recognised="`schema_version`, `sample_id`, `interaction_type`",
    becomes="The variants that its metadata names, else those of one prompt in the order of the file",
    scores="give each record its evaluation.is_correct",
    paragraph=(
        "**Every Eval Ever.** The answer is the last extracted value, else the first text, if it is an option or "
        "a letter. The schema has no probabilities; records that a Shuffleboard exported have them in their "
        "metadata and come back as they were."
    ),
    read_lines=read_every_eval_ever,
)
