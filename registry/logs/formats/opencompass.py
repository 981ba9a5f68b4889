"""OpenCompass's predictions, `predictions/MODEL/DATASET.json`, and the results next to them, `results/MODEL/…`.

    {"0": {"origin_prompt": "…", "prediction": "B", "gold": "C",
           "label: A": {"testing input": "…", "prompt": "…", "PPL": 3.1}, …}, …}

A run by perplexity (`PPLInferencer`) or log-likelihood (`LLInferencer`) states the label it chose; for a run that
generates text (`GenInferencer`), only the results have the answer that the evaluator read from it. A perplexity is the
mean over a whole prompt, examples included, and no probability of an option, so none is imported. The order of the
options is read from the prompt. The format is that of OpenCompass 0.5.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

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
_NOT_A_GROUP: Final = ("origin_prompt", "prompt", "prediction", "predictions", "pred", "gold", "answer", "correct")
"""Members of a prediction or its details that cannot name a group of questions."""
NO_PROBABILITIES: Final = (
    "perplexities are means over whole prompts and not probabilities of the options, so that no probabilities are "
    "imported"
)


def read_opencompass(path: Path, document: Mapping[str, Any], questions: Mapping[str, KnownQuestion]) -> Log:
    """Return the answers of a data set. path: its file of predictions, whose content is `document`.

    Raises IngestError if a prompt has no known question or does not list its options; also for generated texts without
    results, which record the letter read from each.
    """
    finder = PromptFinder(questions)
    details, stated = opencompass_results(path)
    allowance = Allowance(path.name, kept=True)
    recorded = []
    perplexities = False
    for number in range(len(document)):
        place = Item(path, f"prediction {number}")
        prediction = members(place, document, str(number), dict)
        read = _read_prediction(prediction, details.get(str(number)))
        perplexities |= read.perplexities
        allowance.take(len(read.text or ""), records=1)
        recorded.append(_build_recorded(place, read, finder))
    about = read_description(path, {"model": path.parent.name, "dataset": path.stem})
    remarks = [NO_PROBABILITIES] if perplexities else []
    return Log(OPENCOMPASS, recorded, about, METRIC, stated, None, remarks)


@dataclass(frozen=True, slots=True)
class _Prediction:
    """A prediction as written, for audits and imports.

    labels: the labels that were scored; empty if a text was generated. prompts: the prompt up to each label's answer,
    or the only prompt. whole: the first prompt with its examples. chosen: the label that the program states or its
    evaluator extracted. text: the generated text. detailed: whether the results have the evaluator's reading of it.
    """

    labels: tuple[str, ...]
    prompts: tuple[Any, ...]
    whole: Any
    likelihoods: tuple[Any, ...]
    perplexities: bool
    chosen: Any
    gold: Any
    text: Any
    detailed: bool
    stated: float | None
    cut_off: bool
    fields: Mapping[str, str]

    def places(self, n_options: int, *, listed: bool) -> dict[str, int]:
        """Return the position of each label: from its letter if options are listed, else its place among labels."""
        named = [read_label(name, [""] * n_options).positions[0] for name in self.labels]
        if listed and None not in named and len(set(named)) == len(named):
            return {name: at for name, at in zip(self.labels, named, strict=True) if at is not None}
        return {name: at for at, name in enumerate(self.labels)}

    def key(self, options: Sequence[str], *, listed: bool) -> Written | None:
        """Return the right option as a label; None if the prediction has none."""
        if self.gold is None:
            return None
        at = self.places(len(options), listed=listed).get(str(self.gold))
        return read_label(only(self.gold), options) if at is None else certain(self.gold, at)

    def answer(self, options: Sequence[str], key: Written | None, *, listed: bool) -> Written:
        """Return the answer as a label."""
        at = self.places(len(options), listed=listed).get(str(self.chosen))
        return answer_label(self.chosen, options, key, self.stated) if at is None else certain(self.chosen, at)


def _read_prediction(prediction: Mapping[str, Any], detail: Any) -> _Prediction:
    """Read a prediction. detail: the results for it, if there are any."""
    labels = {key.removeprefix(LABEL): object_of(value) for key, value in prediction.items() if key.startswith(LABEL)}
    written = find_written(prediction)
    result = object_of(detail)
    stated = number_of(only(result.get("correct", result.get("is_correct"))))
    likelihoods = tuple(value.get("Loglikelihood") for value in labels.values())
    return _Prediction(
        tuple(labels),
        tuple(value.get("testing input") for value in labels.values()) or (prediction.get("origin_prompt"),),
        next((value.get("prompt") for value in labels.values()), prediction.get("origin_prompt")),
        () if None in likelihoods else likelihoods,
        any("PPL" in value for value in labels.values()),
        prediction.get("prediction") if labels else only(result.get("predictions", result.get("pred"))),
        prediction.get("gold"),
        None if labels else written.get("prediction"),
        bool(result),
        stated if stated is not None and 0 <= stated <= 1 else None,
        object_of(written.get("rollout")).get("finish_reason") == "length",
        _read_fields(prediction, detail),
    )


def _build_recorded(place: Place, read: _Prediction, finder: PromptFinder) -> Recorded:
    """Return a prediction's answer with its question, whose options are in the order that the prompt lists."""
    if not read.labels and not isinstance(read.text, str):
        place.reject(f"prediction {quote(read.text)} is not text; the log is damaged, or of another version")
    if not read.labels and not read.detailed:
        place.reject(
            "is a generated text, and no results next to the predictions (results/MODEL/DATASET.json) say which letter "
            "the evaluator read from it; run OpenCompass with --dump-eval-details, and import within its folder"
        )
    prompts = [_join_prompt(place, prompt) for prompt in read.prompts]
    question, following = finder.find(place, prompts[0])
    order = find_listed_order(question, following)
    listed = order is not None
    if order is None and read.labels:
        order = ending_order(question, prompts)  # the options are at the prompts' ends
    if order is None:
        place.reject(
            f'its prompt does not list the options of question {question.external_id} behind labels such as "A.", '
            "nor ends with them, so that their order is unknown; give the answers as JSON Lines"
        )
    options = [question.options[item] for item in order]
    key = read.key(options, listed=listed)
    answer = read.answer(options, key, listed=listed)
    problem = f"none of its labels: {quote(list(read.labels))}"
    if not read.labels:
        problem = f"not a label of its {len(order)} options"
    if key is not None and set(key.positions) == {None}:
        place.reject(f"gold {quote(read.gold)} is {problem}; a question has one right option")
    if read.labels and set(answer.positions) == {None}:
        place.reject(f"prediction {quote(read.chosen)} is {problem}")
    if not read.labels and not isinstance(read.chosen, str):
        place.reject(f"the results have no letter for it, but {quote(read.chosen)}; run OpenCompass again with details")
    return Recorded(
        place,
        question,
        0,
        order,
        True,
        answer.positions[0] if read.labels else None,
        logprobs=_read_logprobs(place, read, len(order), listed=listed),
        text=optional_text(place, read.text) or None,
        stated=read.stated,
        answer=None if read.labels else answer,
        key=key,
        fields=read.fields,
    )


def _read_logprobs(place: Place, read: _Prediction, n_options: int, *, listed: bool) -> tuple[float, ...] | None:
    """Return the labels' log-likelihoods by position; None unless each position has one."""
    if len(read.likelihoods) != n_options:
        return None
    values = list(read.likelihoods)
    numbers = check_numbers(place, "Loglikelihood", values, n_options, low=-math.inf, high=math.inf)
    assert numbers is not None
    places = read.places(n_options, listed=listed)
    by_position = {places[name]: min(0.0, number) for name, number in zip(read.labels, numbers, strict=True)}
    return tuple(by_position[at] for at in range(n_options)) if len(by_position) == n_options else None


def _read_fields(prediction: Mapping[str, Any], detail: Any) -> dict[str, str]:
    fields = fields_of(prediction, object_of(detail))
    return {name: value for name, value in fields.items() if name not in _NOT_A_GROUP}


def find_written(prediction: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object with a prediction's text: models that count tokens nest it, next to `rollout`."""
    nested = prediction.get("prediction")
    return nested if isinstance(nested, dict) else prediction


def _join_prompt(place: Place, value: Any) -> str:
    """Return the text of a prompt, which is one text or a list of turns."""
    if isinstance(value, str):
        return value
    turns = value if isinstance(value, list) else []
    contents = [turn.get("prompt", turn.get("content")) for turn in turns if isinstance(turn, dict)]
    parts = [text for text in contents if isinstance(text, str)]
    if not parts or len(parts) < len(turns):
        place.reject(f"prompt {quote(value)} is neither a text nor a list of turns; the file is damaged")
    return "\n".join(parts)


def opencompass_results(path: Path) -> tuple[Mapping[str, Any], float | None]:
    """Return (details by number, accuracy from 0 to 1) from the results next to predictions; empty without results."""
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


def _list_sources(path: Path, document: Mapping[str, Any], _known: Known) -> list[Source]:
    remarks: list[str] = []
    nothing: tuple[Mapping[str, Any], float | None] = ({}, None)
    details, stated = read_beside(lambda: opencompass_results(path), nothing, remarks)
    records = _read_records(document, details)
    return [Source(path, OPENCOMPASS, path.parent.name, path.stem, records, stated, remarks=remarks)]


def _read_records(document: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
    for name, value in document.items():
        yield from record_of(f"prediction {name}", partial(_build_seen, name, value, details))


def _build_seen(name: str, value: Any, details: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
    read, place = _read_prediction(object_of(value), details.get(name)), f"prediction {name}"
    prompts = [prompt_text(prompt) for prompt in read.prompts]
    prompt = _common_beginning(prompts)
    shown = listing(prompt)
    if shown is not None:
        options, text = shown.options, shown.question
    elif read.labels:
        endings = zip(prompts, read.labels, strict=True)
        options, text = tuple(ending[len(prompt) :].strip() or label for ending, label in endings), prompt
    else:
        yield Unusable(place, "its prompt lists no options behind labels", NOT_MULTIPLE_CHOICE)
        return
    full_prompt = prompt_text(read.whole)
    # Search for the last occurrence: an example may be the question itself, with its first label.
    sent = (
        full_prompt[: full_prompt.rfind(prompts[0])] + prompt
        if read.labels and prompts[0] in full_prompt
        else full_prompt
    )
    listed = shown is not None
    key = read.key(options, listed=listed)
    output = text_of(read.text)
    if read.labels or read.detailed:
        answer = read.answer(options, key, listed=listed)
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
        read.stated,
        sent,
        output,
        cut_off=read.cut_off,
        scored=bool(read.labels),
        listed=listed,
        answer=answer,
        keyed=key,
        fields=read.fields,
    )


def _common_beginning(texts: Sequence[str]) -> str:
    """Return the longest common beginning of some texts."""
    first, last = min(texts), max(texts)
    alike, end = 0, len(first)
    while alike < end:
        middle = (alike + end + 1) // 2
        if last.startswith(first[alike:middle], alike):
            alike = middle
        else:
            end = middle - 1
    return first[:alike]


FORMAT: Final = Format(
    OPENCOMPASS,
    "OpenCompass",
    "document",
    frozenset({"0"}),
    {"0": {"origin_prompt": "…", "prediction": "B", "gold": "C"}},
    _list_sources,
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
