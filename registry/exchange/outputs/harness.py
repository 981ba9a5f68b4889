"""lm-evaluation-harness files written with `--log_samples`: one document a line, log-likelihoods of its choices.

A document is found in the benchmark by its id, else by its question's text, else by its place; its choices are matched
to the options by text, so that a task which reorders them is read rightly. Everything is variant 0 of one order.
"""

import ast
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from registry.benchmarks.lines import Place, read_lines, shown
from registry.exchange.outputs.record import KnownQuestion, Recorded, match_options, optional_text

KEYS = frozenset({"doc_id", "doc", "target"})


def read_harness(path: Path, questions: Mapping[str, KnownQuestion]) -> Iterator[Recorded]:
    """Each sample of a multiple-choice task; the answer is the choice with the highest log-likelihood.

    Raises IngestError for a sample of another kind of task, or one that matches no question.
    """
    by_text: dict[str, list[KnownQuestion]] = {}
    for question in questions.values():
        by_text.setdefault(" ".join(question.text.split()), []).append(question)
    by_ordinal = {question.ordinal: question for question in questions.values()}
    for place, line in read_lines(path):
        for key in KEYS:
            if key not in line:
                place.reject(f"key {key!r} is missing; is this a samples file of lm-evaluation-harness?")
        question = _find(place, line, questions, by_text, by_ordinal)
        logprobs = _loglikelihoods(place, line)
        order = _order(place, question, line["doc"], len(logprobs))
        yield Recorded(place, question, 0, order, False, None, logprobs=logprobs, text=optional_text(place, None))


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
    if line["doc_id"] not in by_ordinal:
        place.reject(f"doc_id {shown(line['doc_id'])} matches no question of the benchmark; check --benchmark")
    return by_ordinal[line["doc_id"]]


def _choices(doc: Mapping[str, Any]) -> list[str] | None:
    for key in ("choices", "options", "endings"):
        value = doc.get(key)
        if isinstance(value, dict):  # ARC: {"text": [...], "label": [...]}
            value = value.get("text")
        if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
            return value
    return None


def _order(place: Place, question: KnownQuestion, doc: Mapping[str, Any], n_shown: int) -> tuple[int, ...]:
    choices = _choices(doc)
    order = tuple(range(len(question.options))) if choices is None else match_options(question, choices)
    if order is None:
        place.reject(f"choices {shown(choices)} are not the options of question {question.external_id}")
    if len(order) != n_shown:
        place.reject(
            f"question {question.external_id} was scored on {n_shown} continuations but shows {len(order)} options; "
            "only multiple-choice tasks can be imported"
        )
    return order


def _loglikelihoods(place: Place, line: Mapping[str, Any]) -> tuple[float, ...]:
    """Log-likelihood of each choice; `filtered_resps` and `resps` hold pairs, or texts of pairs."""
    responses = line.get("filtered_resps", line.get("resps"))
    if not isinstance(responses, list) or not responses:
        place.reject("no responses; write the samples with --log_samples")
    return tuple(_loglikelihood(place, response) for response in responses)


def _loglikelihood(place: Place, response: Any) -> float:
    while isinstance(response, list) and len(response) == 1:
        response = response[0]
    if isinstance(response, str):
        try:
            response = ast.literal_eval(response)
        except (ValueError, SyntaxError):
            place.reject(f"response {shown(response)} is generated text; only log-likelihood tasks can be imported")
    value = response[0] if isinstance(response, (list, tuple)) and response else response
    try:
        number = float(value)
    except (TypeError, ValueError):
        place.reject(f"response {shown(json.dumps(response, default=str))} contains no log-likelihood")
    if not math.isfinite(number) or number > 0:
        place.reject(f"log-likelihood {number!r} is not a finite number up to 0")
    return number
