"""OpenCompass's predictions, `predictions/MODEL/DATASET.json`, and the results next to them, `results/MODEL/…`.

    {"0": {"origin_prompt": "…", "prediction": "B", "gold": "C",
           "label: A": {"testing input": "…", "prompt": "…", "PPL": 3.1}, …}, …}

A run by perplexity (`PPLInferencer`) or log-likelihood (`LLInferencer`) states the label it chose; a run that generates
(`GenInferencer`) has the evaluator's reading of the text, in the results only. A perplexity is the mean over a whole
prompt, examples included, and no probability of an option: none is imported. The order of the options is read from the
prompt. Read as OpenCompass 0.5 writes it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from registry.benchmarks.lines import Place, quote
from registry.errors import IngestError
from registry.files.allowance import Allowance
from registry.logs.documents import Log, load_json, members, read_description
from registry.logs.files import read_beside
from registry.logs.format import OPENCOMPASS, Format
from registry.logs.labels import Written, answer_label, certain, read_label
from registry.logs.listing import listing
from registry.logs.means import fields_of
from registry.logs.prompts import PromptFinder, ending_order, find_listed_order, prompt_text
from registry.logs.record import (
    NOT_MULTIPLE_CHOICE,
    Item,
    Known,
    KnownQuestion,
    Recorded,
    Seen,
    Source,
    Unusable,
    check_numbers,
    only,
    optional_text,
    record_of,
)
from registry.logs.rereading import final_reading
from registry.logs.values import number_of, object_of, text_of

METRIC: Final = "accuracy"
LABEL: Final = "label: "
_OF_THE_ANSWER: Final = ("origin_prompt", "prompt", "prediction", "predictions", "pred", "gold", "answer", "correct")
"""Members of a prediction or its details that name no group of them."""
NO_PROBABILITIES: Final = (
    "perplexities are means over whole prompts and not probabilities of the options, so that no probabilities are "
    "imported"
)


def read_opencompass(path: Path, document: Mapping[str, Any], questions: Mapping[str, KnownQuestion]) -> Log:
    """Return the answers of a data set. path: its file of predictions, whose content is `document`.

    Raises IngestError if a prompt has no known question or does not list its options; and for generated texts without
    the results that record the letter read from each.
    """
    finder = PromptFinder(questions)
    details, stated = opencompass_results(path)
    allowance = Allowance(path.name, kept=True)
    recorded = []
    perplexities = False
    for number in range(len(document)):
        place = Item(path, f"prediction {number}")
        prediction = members(place, document, str(number), dict)
        labels = {key.removeprefix(LABEL): value for key, value in prediction.items() if key.startswith(LABEL)}
        if labels:
            perplexities |= any(isinstance(value, dict) and "PPL" in value for value in labels.values())
            answer = _read_chosen(place, prediction, labels, details.get(str(number)), finder)
        else:
            answer = _read_written(place, prediction, details.get(str(number)), finder)
        allowance.take(len(answer.text or ""), records=1)
        recorded.append(answer)
    about = read_description(path, {"model": path.parent.name, "dataset": path.stem})
    remarks = [NO_PROBABILITIES] if perplexities else []
    return Log(OPENCOMPASS, recorded, about, METRIC, stated, None, remarks)


def _read_chosen(
    place: Place, prediction: Mapping[str, Any], labels: Mapping[str, Any], detail: Any, finder: PromptFinder
) -> Recorded:
    """Return the label with the lowest perplexity, or the highest log-likelihood, as the program states it."""
    prompts = [_prompt(place, members(place, labels, label, dict).get("testing input")) for label in labels]
    names = list(labels)
    question, following = finder.find(place, prompts[0])
    listed = find_listed_order(question, following)
    if listed is None:
        # The options continue the prompts: each label's prompt ends with its option.
        matched = ending_order(question, prompts)
        positions: Mapping[str, int | None] = {name: position for position, name in enumerate(names)}
    else:
        matched = listed
        positions = {name: read_label(name, [""] * len(listed)).positions[0] for name in names}
    if matched is None:
        _reject_unlisted(place, question)
    position = positions.get(str(prediction.get("prediction")))
    if position is None:
        place.reject(f"prediction {quote(prediction.get('prediction'))} is none of its labels: {quote(names)}")
    gold = prediction.get("gold")
    right = None if gold is None else positions.get(str(gold))
    if gold is not None and right is None:
        place.reject(f"gold {quote(gold)} is none of its labels: {quote(names)}; a question has one right option")
    order = matched
    key = None if right is None else certain(gold, right)
    values = [labels[name].get("Loglikelihood") for name in names]
    logprobs = None
    if all(value is not None for value in values) and len(values) == len(order):
        numbers = check_numbers(place, "Loglikelihood", values, len(order), low=-math.inf, high=math.inf)
        assert numbers is not None
        by_position = {positions[name]: min(0.0, number) for name, number in zip(names, numbers, strict=True)}
        logprobs = tuple(by_position[at] for at in range(len(order))) if len(by_position) == len(order) else None
    found = Recorded(place, question, 0, order, True, position, logprobs=logprobs, stated=_correct(detail), key=key)
    return replace(found, fields=_fields(prediction, detail))


def _read_written(place: Place, prediction: Mapping[str, Any], detail: Any, finder: PromptFinder) -> Recorded:
    """Return the letter that the evaluator read from a text, according to the results."""
    text = members(place, find_written(prediction), "prediction", str)
    if not isinstance(detail, dict):
        place.reject(
            "is a generated text, and no results next to the predictions (results/MODEL/DATASET.json) say which letter "
            "the evaluator read from it; run OpenCompass with --dump-eval-details, and import within its folder"
        )
    question, following = finder.find(place, _prompt(place, prediction.get("origin_prompt")))
    listed = find_listed_order(question, following)
    if listed is None:
        _reject_unlisted(place, question)
    gold = prediction.get("gold")
    options = [question.options[item] for item in listed]
    key = None if gold is None else read_label(only(gold), options)
    if key is not None and set(key.positions) == {None}:
        place.reject(f"gold {quote(gold)} is not a label of its {len(listed)} options; a question has one right option")
    extracted = only(detail.get("predictions", detail.get("pred")))
    if not isinstance(extracted, str):
        place.reject(f"the results have no letter for it, but {quote(extracted)}; run OpenCompass again with details")
    stated = _correct(detail)
    right = key.positions[0] if key is not None and stated == 1 else None
    return Recorded(
        place,
        question,
        0,
        listed,
        True,
        None,
        text=optional_text(place, text) or None,
        stated=stated,
        answer=read_label(extracted, options, right=right),
        key=key,
        fields=_fields(prediction, detail),
    )


def _fields(prediction: Mapping[str, Any], detail: Any) -> dict[str, str]:
    found = fields_of(prediction, object_of(detail))
    return {name: value for name, value in found.items() if name not in _OF_THE_ANSWER}


def find_written(prediction: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object with a prediction's text: models that count their tokens nest it, with `rollout`."""
    nested = prediction.get("prediction")
    return nested if isinstance(nested, dict) else prediction


def _correct(detail: Any) -> float | None:
    """Return the score that the results state for an answer, under either name that evaluators give it."""
    value = only(detail.get("correct", detail.get("is_correct"))) if isinstance(detail, dict) else None
    return float(value) if isinstance(value, bool) else None


def _prompt(place: Place, value: Any) -> str:
    """Return the text of a prompt, which is one text or a list of turns."""
    if isinstance(value, str):
        return value
    turns = value if isinstance(value, list) else []
    said = [turn.get("prompt", turn.get("content")) for turn in turns if isinstance(turn, dict)]
    parts = [text for text in said if isinstance(text, str)]
    if not parts or len(parts) < len(turns):
        place.reject(f"prompt {quote(value)} is neither a text nor a list of turns; the file is damaged")
    return "\n".join(parts)


def _reject_unlisted(place: Place, question: KnownQuestion) -> NoReturn:
    place.reject(
        f'its prompt does not list the options of question {question.external_id} behind labels such as "A.", nor '
        "ends with them, so that their order is unknown; give the answers as JSON Lines"
    )


def opencompass_results(path: Path) -> tuple[Mapping[str, Any], float | None]:
    """Return (details by number, accuracy from 0 to 1) from the results next to predictions; empty without them."""
    file = path.parent.parent.with_name("results") / path.parent.name / path.name
    if path.parent.parent.name != "predictions" or not file.is_file():
        return {}, None
    document = load_json(file, storable=False)
    if not isinstance(document, dict):
        raise IngestError(f"{file.name}: the results next to the predictions are not an object; remove the file")
    details = document.get("details")
    if isinstance(details, list):
        details = {str(number): detail for number, detail in enumerate(details)}
    accuracy = document.get(METRIC)
    stated = None
    if isinstance(accuracy, int | float) and not isinstance(accuracy, bool) and math.isfinite(accuracy):
        stated = accuracy / 100
    return details if isinstance(details, dict) else {}, stated


# Records as written, for an audit


def _opencompass(path: Path, document: Mapping[str, Any], _known: Known) -> list[Source]:
    remarks: list[str] = []
    nothing: tuple[Mapping[str, Any], float | None] = ({}, None)
    details, stated = read_beside(lambda: opencompass_results(path), nothing, remarks)
    records = _opencompass_records(document, details)
    return [Source(path, OPENCOMPASS, path.parent.name, path.stem, records, stated, remarks=remarks)]


def _opencompass_records(document: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
    for name, value in document.items():
        yield from record_of(f"prediction {name}", partial(_opencompass_record, name, value, details))


def _opencompass_record(name: str, value: Any, details: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
    prediction, detail, place = object_of(value), object_of(details.get(name)), f"prediction {name}"
    labels = {key.removeprefix(LABEL): object_of(item) for key, item in prediction.items() if key.startswith(LABEL)}
    prompts = [prompt_text(item.get("testing input")) for item in labels.values()]
    prompt = _common(prompts) if prompts else prompt_text(prediction.get("origin_prompt"))
    shown = listing(prompt)
    if shown is not None:
        options, text = shown.options, shown.question
    elif prompts:
        options = tuple(ending[len(prompt) :].strip() or name for ending, name in zip(prompts, labels, strict=True))
        text = prompt
    else:
        yield Unusable(place, "its prompt lists no options behind labels", NOT_MULTIPLE_CHOICE)
        return
    whole = prompt_text(next(iter(labels.values())).get("prompt")) if labels else prompt
    # The last place: an example may be the question itself, with its first label.
    sent = whole[: whole.rfind(prompts[0])] + prompt if prompts and prompts[0] in whole else whole
    names = list(labels)
    gold = prediction.get("gold")
    keyed = None if gold is None else _opencompass_label(gold, options, names)
    written = find_written(prediction)
    output = None if labels else text_of(written.get("prediction"))
    extracted = only(detail.get("predictions", detail.get("pred")))
    stated = number_of(only(detail.get("correct", detail.get("is_correct"))))
    if labels:
        answer = _opencompass_label(prediction.get("prediction"), options, names)
    elif detail:
        answer = answer_label(extracted, options, keyed, stated)
    else:
        answer = certain(output, final_reading(output or "", options))
    yield Seen(
        place,
        name,
        text,
        options,
        None,
        None,
        None,
        stated,
        sent,
        output,
        cut_off=object_of(written.get("rollout")).get("finish_reason") == "length",
        scored=bool(labels),
        listed=shown is not None,
        answer=answer,
        keyed=keyed,
        fields=_fields(prediction, detail),
    )


def _common(texts: Sequence[str]) -> str:
    """Return the longest common beginning."""
    first, last = min(texts), max(texts)
    end = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:end]


def _opencompass_label(value: Any, options: Sequence[str], names: Sequence[str]) -> Written:
    if isinstance(value, str) and value in names and len(names) == len(options):
        return certain(value, names.index(value))
    return read_label(only(value), options)


FORMAT: Final = Format(
    OPENCOMPASS,
    "OpenCompass",
    "document",
    frozenset({"0"}),
    {"0": {"origin_prompt": "…", "prediction": "B", "gold": "C"}},
    _opencompass,
    program="OpenCompass, a file in a run's `predictions/MODEL/`",
    recognised='predictions numbered from `"0"`',
    becomes="Variant 0, with the text if one was generated; probabilities only from log-likelihood runs",
    scores="keep predictions/ and results/ together, written with --dump-eval-details",
    paragraph=(
        "**OpenCompass.** Order and question are read from the prompt; if it lists no options, each label's "
        "prompt must end with its option. An answer from a generated text is in `results/` only, so keep "
        "`predictions/` and `results/` together, with `--dump-eval-details`, the default. A data set that was "
        "divided into several files is not read."
    ),
    read_log=read_opencompass,
)
