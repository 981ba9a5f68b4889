"""Single answers in the schema of Every Eval Ever 0.3.0: `…_samples.jsonl`, one record for each prompt and result.

    {"schema_version": "0.3.0", "evaluation_id": "…", "sample_id": "q1", "evaluation_result_id": "accuracy",
     "interaction_type": "single_turn", "input": {"raw": "…", "reference": ["…"], "choices": ["…", …]},
     "output": {"raw": ["…"]}, "answer_attribution": [{"extracted_value": "…", "is_terminal": true}],
     "evaluation": {"score": 1.0, "is_correct": true}, "metadata": {"variant": "0"}}

A prompt that counts in several results has a record for each, and is read once. The schema has no field for
probabilities; a record that this registry wrote keeps them, the variant and the order in its metadata.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place, read_lines, shorten, shown
from registry.logs.beside import every_eval_ever_overall, every_eval_ever_results
from registry.logs.documents import members, texts
from registry.logs.files import records_of, results_beside
from registry.logs.format import EVERY_EVAL_EVER, Format
from registry.logs.labels import Written, answer_label, read_label
from registry.logs.listing import listing
from registry.logs.prompts import said
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
    only,
    optional_text,
)
from registry.logs.values import number_of, object_of, text_of, texts_of
from registry.untrusted import decode

_ORDINAL: Final = re.compile("[0-9]{1,5}")


def read_every_eval_ever(path: Path, questions: Mapping[str, KnownQuestion]) -> Iterator[Recorded]:
    """Yield each prompt of a file of single answers.

    Variants are numbered by the metadata (`variant`, or `epoch` from 1), else in the order of the file. Raises
    IngestError for a record without choices, of several turns, of another benchmark, or of another evaluation than the
    first.
    """
    finder = QuestionFinder(questions)
    seen: set[tuple[int, int]] = set()
    counts: dict[tuple[int, Any], int] = {}
    evaluation: Any = None
    for place, record in read_lines(path):
        for key in FORMAT.keys:
            if key not in record:
                listed = ", ".join(sorted(FORMAT.keys))
                place.reject(f"key {key!r} is missing; records of Every Eval Ever have {listed}")
        evaluation = evaluation or record.get("evaluation_id")
        if record.get("evaluation_id") != evaluation:
            place.reject(
                f"evaluation_id {shown(record.get('evaluation_id'))} is not that of the first record, "
                f"{shown(evaluation)}; import one evaluation at a time"
            )
        if record["interaction_type"] != "single_turn":
            place.reject(f"interaction_type {shown(record['interaction_type'])}: only single_turn can be imported")
        if record.get("error"):
            continue  # a prompt that was not answered
        question, order, right = _question(place, record, finder, questions)
        result = (question.question_id, record.get("evaluation_result_id"))
        variant = _variant(place, record, counts.get(result, 0))
        counts[result] = counts.get(result, 0) + 1
        if (question.question_id, variant) in seen:
            continue
        seen.add((question.question_id, variant))
        yield _recorded(place, record, question, variant, order, right)


def _metadata(record: Mapping[str, Any]) -> Mapping[str, Any]:
    found = record.get("metadata")
    return found if isinstance(found, dict) else {}


def _variant(place: Place, record: Mapping[str, Any], following: int) -> int:
    metadata = _metadata(record)
    for key, first in (("variant", 0), ("epoch", 1)):
        if key in metadata:
            text = str(metadata[key])
            if not _ORDINAL.fullmatch(text) or not first <= int(text) <= MAX_VARIANT + first:
                place.reject(f"metadata.{key} {shown(metadata[key])} is not a whole number from {first}")
            return int(text) - first
    return following


def _question(
    place: Place, record: Mapping[str, Any], finder: QuestionFinder, questions: Mapping[str, KnownQuestion]
) -> tuple[KnownQuestion, tuple[int | str, ...], Written | None]:
    """Return the question, its options in the order shown, and the log's key."""
    asked = members(place, record, "input", dict)
    if not asked.get("choices"):
        place.reject("input.choices is empty; only multiple-choice questions can be imported")
    choices = texts(place, asked, "choices")
    name = str(record["sample_id"])
    own = _own_order(place, record, questions.get(name), choices)
    if own is not None:
        return questions[name], own, None
    question = finder.find(place, name, members(place, asked, "raw", str), choices)
    matched = match_options(question, choices)
    assert matched is not None  # the finder compared them
    references = texts(place, asked, "reference")
    return question, matched, read_label(references[0], choices) if len(references) == 1 else None


def _own_order(
    place: Place, record: Mapping[str, Any], question: KnownQuestion | None, choices: Sequence[str]
) -> tuple[int | str, ...] | None:
    """Return the order stated in our own record, if it is an order of this question with these choices; else None."""
    stated = _metadata(record).get("order")
    if question is None or not isinstance(stated, str):
        return None
    try:
        ordinals = decode(stated)
    except ValueError:
        place.reject(f"metadata.order {shown(stated)} is not a list of ordinals")
    if not isinstance(ordinals, list) or len(ordinals) != len(choices):
        place.reject(f"metadata.order {shown(stated)} has not one ordinal for each of the {len(choices)} choices")
    order = check_order(
        place,
        question,
        [text if isinstance(item, int) and item < 0 else item for item, text in zip(ordinals, choices, strict=True)],
    )
    if any(isinstance(item, int) and question.options[item] != text for item, text in zip(order, choices, strict=True)):
        return None
    return order


def _recorded(
    place: Place,
    record: Mapping[str, Any],
    question: KnownQuestion,
    variant: int,
    order: tuple[int | str, ...],
    key: Written | None,
) -> Recorded:
    output = record.get("output")
    written = texts(place, output, "raw") if isinstance(output, dict) and output.get("raw") else []
    choices = texts(place, record["input"], "choices")
    right = order.index(question.answer) if question.answer in order else None
    score = _score(members(place, record, "evaluation", dict))
    named = named_answer(record) or (written[0] if written else None)
    answer = read_label(named, choices, right=right if score == 1 else None)
    stated = _metadata(record).get("label_probabilities")
    weights = None
    if isinstance(stated, str):
        try:
            values = decode(stated)
        except ValueError:
            place.reject(f"metadata.label_probabilities {shown(stated)} is not a list of numbers")
        weights = check_numbers(place, "metadata.label_probabilities", values, len(order), low=0.0, high=math.inf)
    traces = (
        texts(place, output, "reasoning_trace") if isinstance(output, dict) and output.get("reasoning_trace") else []
    )
    text = written[0] if written and (traces or written[0] not in choices) else None
    return Recorded(
        place,
        question,
        variant,
        order,
        True,
        None,
        weights,
        text="" if text is None and traces else optional_text(place, text),
        reasoning=optional_text(place, "\n\n".join(traces) or None),
        stated=score,
        answer=answer,
        key=key,
    )


def _score(evaluation: Mapping[str, Any]) -> float | None:
    """Return whether the record counts its answer as right, else its score if that is from 0 to 1."""
    value = evaluation.get("is_correct")
    if not isinstance(value, bool):
        value = evaluation.get("score")
    return float(value) if isinstance(value, bool | int | float) and 0 <= value <= 1 else None


def named_answer(record: Mapping[str, Any]) -> str | None:
    """Return the value that was extracted last; None if the record has none."""
    attributions = record.get("answer_attribution")
    for item in reversed(attributions if isinstance(attributions, list) else []):
        if isinstance(item, dict) and item.get("is_terminal") and isinstance(item.get("extracted_value"), str):
            value: str = item["extracted_value"]
            return value
    return None


# Records as written, for an audit


def _every_eval_ever(path: Path, first: Mapping[str, Any], _known: Known) -> list[Source]:
    remarks: list[str] = []
    beside = every_eval_ever_results(path)
    whole = {} if beside is None else results_beside(beside, remarks)
    stated = every_eval_ever_overall(whole, first)
    return [
        Source(
            path,
            EVERY_EVAL_EVER,
            str(first.get("model_id") or "model"),
            str(first.get("evaluation_name") or path.stem),
            records_of(path, partial(_every_eval_ever_record, result=first.get("evaluation_result_id"))),
            stated,
            remarks=remarks,
        )
    ]


def _every_eval_ever_record(place: str, record: Mapping[str, Any], result: Any) -> Iterator[Seen | Unusable]:
    if record.get("evaluation_result_id") != result:
        return  # the same prompt, counted in another result
    if record.get("error"):
        yield Unusable(place, shorten(record["error"]), "failed-samples")
        return
    asked, output = object_of(record.get("input")), object_of(record.get("output"))
    scored, metadata = object_of(record.get("evaluation")), object_of(record.get("metadata"))
    options = texts_of(asked.get("choices"))
    text = said(asked.get("raw"))
    if not options and (shown := listing(text)) is not None:
        options, text = shown.options, shown.question
    if len(options) < 2:
        yield Unusable(place, "lists no choices", NOT_MULTIPLE_CHOICE)
        return
    references = texts_of(asked.get("reference"))
    if len(references) != 1:
        yield Unusable(place, f"it has {len(references)} references: several options are right, or none", SEVERAL_RIGHT)
        return
    keyed = read_label(references[0], options)
    raw = only(output.get("raw"))
    named = named_answer(record)
    variant = metadata.get("variant", metadata.get("epoch"))
    trace = output.get("reasoning_trace")
    is_correct = scored.get("is_correct")
    stated = number_of(is_correct) if isinstance(is_correct, bool) else number_of(scored.get("score"))
    yield Seen(
        place,
        str(record.get("sample_id")),
        text,
        options,
        None,
        None,
        int(variant) if isinstance(variant, str) and variant.isdecimal() else None,
        stated,
        text_of(asked.get("formatted")) or (said(record.get("messages")) or None),
        text_of(raw) if raw not in options else None,
        "\n".join(texts_of(trace)) if isinstance(trace, list) else text_of(trace),
        metadata.get("stop_reason") in ("length", "max_tokens"),
        metadata.get("stop_reason") == "content_filter",
        answer=answer_label(raw if named is None else named, options, keyed, stated),
        keyed=keyed,
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
    _every_eval_ever,
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
