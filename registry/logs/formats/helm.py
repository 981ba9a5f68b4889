"""HELM's run folders: `scenario_state.json`, with `stats.json` and `per_instance_stats.json` next to it if they exist.

    {"adapter_spec": {"method": "multiple_choice_joint", …}, "request_states": [
        {"instance": {"id": "id5", "input": {"text": "…"},
                      "references": [{"output": {"text": "…"}, "tags": ["correct"]}, …]},
         "train_trial_index": 0, "output_mapping": {"A": "…", …},
         "result": {"success": true, "completions": [{"text": " C", "logprob": -0.3, "tokens": […]}]}}, …]}

`multiple_choice_joint` shows all options, and the model writes a letter. The `multiple_choice_separate` methods score
each option separately: the answer is the highest log-likelihood per token, or the highest difference to the
log-likelihood without the question. Variant 0 is the first training trial. The format is that of crfm-helm 0.5; answers
are checked against its `exact_match`.
"""

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place, quote, shorten
from registry.errors import IngestError
from registry.logs.documents import Log, load_json, members, objects, read_description
from registry.logs.files import read_beside, results_beside
from registry.logs.format import HELM, Format
from registry.logs.labels import Written, certain, read_label
from registry.logs.means import fields_of
from registry.logs.record import (
    NOT_MULTIPLE_CHOICE,
    Item,
    Known,
    KnownQuestion,
    QuestionFinder,
    Recorded,
    Seen,
    Source,
    Unusable,
    check_variant,
    match_options,
    optional_text,
    record_of,
    unusable,
    with_answer_at,
)
from registry.logs.values import object_of

JOINT: Final = "multiple_choice_joint"
SEPARATE: Final = "multiple_choice_separate_original"
CALIBRATED: Final = "multiple_choice_separate_calibrated"
METHODS: Final = (JOINT, SEPARATE, CALIBRATED)
METRIC: Final = "exact_match"
CORRECT: Final = "correct"
EQUAL_OPTIONS: Final = "HELM compares texts, and two options have the answer's text"
TIE: Final = "HELM shares the point between equally likely options; here the first counts"

_MOST_REPEATS: Final = 2
_ONE_ANSWER: Final = 16
"""A token limit up to this is meant to cut off the text after the letter."""
_REPEATED_GROUP: Final = re.compile(r"(?<!\\)\)[*+{]")
_REPEATS: Final = re.compile(r"[*+]|,\}")
_QUICK: Final = 500
"""Characters in which the search for any pattern is fast."""
_SECONDS: Final = 0.8
"""CPU time, in seconds, that the search for a pattern may take in one text."""

Request = tuple[Item, dict[str, Any]]
Stats = dict[tuple[str, int], dict[str, float]]
"""(instance id, training trial) → name of a statistic → its mean."""


def read_helm(path: Path, document: Mapping[str, Any], questions: Mapping[str, KnownQuestion]) -> Log:
    """Return the answers of a run. path: its scenario_state.json, whose content is `document`.

    Perturbed instances are left out, since their texts are not the benchmark's.
    Raises IngestError for a method other than METHODS, a request that was not executed, and instances that are not
    questions of the benchmark.
    """
    adapter = Item(path, "adapter_spec")
    specification = members(Place(path, 1), document, "adapter_spec", dict)
    method = specification.get("method")
    if method not in METHODS:
        adapter.reject(
            f"method {quote(method)} cannot be imported; the multiple-choice methods are {', '.join(METHODS)}"
        )
    finder = QuestionFinder(questions)
    stats = per_instance(path.with_name("per_instance_stats.json"))
    recorded: list[Recorded] = []
    left_out = shots = 0
    for requests in _group_answers(path, document, method):
        if requests[0][1]["instance"].get("perturbation") is not None:
            left_out += 1
            continue
        answer = _read_answer(requests, specification, stats)
        if answer.contradiction is not None:
            requests[0][0].reject(answer.contradiction)
        shots = max(shots, answer.shots)
        recorded.append(_build_recorded(requests[0][0], answer, finder))
    remarks = (
        [f"{left_out} perturbed instances are left out: their texts differ from the benchmark's"] if left_out else []
    )
    if not stats:
        remarks.append(
            f"no per_instance_stats.json next to {path.name}: single answers are not compared with their scores"
        )
    about = read_description(
        path, {"run": _read_run_name(path), "model": specification.get("model"), "adapter": method}
    )
    stated = helm_overall(path, helm_splits(document))
    return Log(HELM, recorded, about, METRIC, stated, shots, remarks)


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer as written, for audits and imports. Sequences are indexed by position.

    correct: position of the right option. position: position of the answer; None if there is none, or if `answer` has
    its label. excuse: why its score may differ. contradiction: a contradiction between its log-likelihoods and the
    log's own prediction.
    """

    name: str
    question: str
    options: tuple[str, ...]
    correct: int
    variant: int
    stated: float | None
    shots: int
    fields: Mapping[str, str]
    position: int | None = None
    answer: Written | None = None
    excuse: str | None = None
    contradiction: str | None = None
    logprobs: tuple[float, ...] | None = None
    text: str | None = None
    reasoning: str | None = None


def _read_answer(requests: Sequence[Request], specification: Mapping[str, Any], stats: Stats) -> _Answer:
    """Read an answer from its requests. stats: from `per_instance`, as far as they could be read.

    Raises IngestError for a request that was not executed, or is damaged.
    """
    place, first = requests[0]
    instance = first["instance"]
    texts, correct = references(place, instance)
    name, variant = instance_id(place, instance), _read_trial(place, first)
    stated = stats.get((name, variant), {})
    answer = partial(
        _Answer,
        name,
        _read_text(place, instance),
        tuple(texts),
        correct,
        variant,
        stated.get(METRIC),
        _count_shots(place, first),
        fields_of({key: instance.get(key) for key in ("split", "sub_split")}),
    )
    if specification["method"] == JOINT:
        return _read_joint(place, first, specification, texts, correct, stated.get(METRIC), answer)
    return _read_separate(requests, specification["method"], texts, stated.get("predicted_index"), answer)


def _build_recorded(place: Place, answer: _Answer, finder: QuestionFinder) -> Recorded:
    """Return an answer with its question; reject an instance that the benchmark lacks."""
    question = finder.find(place, answer.name, answer.question, answer.options)
    return Recorded(
        place,
        question,
        answer.variant,
        _match_order(question, answer.options, answer.correct),
        True,
        answer.position,
        logprobs=answer.logprobs,
        text=answer.text,
        stated=answer.stated,
        excuse=answer.excuse,
        reasoning=answer.reasoning,
        answer=answer.answer,
        key=certain(answer.options[answer.correct], answer.correct),
        fields=answer.fields,
    )


def helm_questions(path: Path, document: Mapping[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the questions of a run as lines of a benchmark file: unperturbed instances, each once."""
    seen: set[str] = set()
    for requests in _group_trials(path, document):
        place, first = requests[0]
        instance = first["instance"]
        name = instance_id(place, instance)
        if instance.get("perturbation") is not None or name in seen:
            continue
        seen.add(name)
        texts, correct = references(place, instance)
        subject = instance.get("sub_split")
        yield (
            place,
            {
                "id": name,
                "subject": subject if isinstance(subject, str) else None,
                "question": _read_text(place, instance),
                "options": texts,
                "answer": correct,
                "split": instance.get("split"),
            },
        )


def _group_answers(
    path: Path, document: Mapping[str, Any], method: Any, damaged: list[Unusable] | None = None
) -> Iterator[list[Request]]:
    """Yield the requests of each answer. In a joint run each request is one answer, even if it occurs twice."""
    for requests in _group_trials(path, document, damaged):
        yield from [[request] for request in requests] if method == JOINT else [requests]


def _group_trials(
    path: Path, document: Mapping[str, Any], damaged: list[Unusable] | None = None
) -> Iterator[list[Request]]:
    """Yield the requests of each instance in each training trial and perturbation, in file order.

    damaged: a list for requests that cannot be read; None: raise an error for the first of them.
    """
    groups: dict[tuple[str, int, str], list[Request]] = {}
    for number, request in enumerate(members(Item(path, "document"), document, "request_states", list)):
        place = Item(path, f"request {number}")
        try:
            if not isinstance(request, dict):
                place.reject(f"{quote(request)} is not an object; the log is damaged, or of another version")
            instance = members(place, request, "instance", dict)
            key = (instance_id(place, instance), _read_trial(place, request), str(instance.get("perturbation")))
        except IngestError as error:
            if damaged is None:
                raise
            damaged.append(unusable(place.name, error))
            continue
        groups.setdefault(key, []).append((place, request))
    yield from groups.values()


def instance_id(place: Place, instance: Mapping[str, Any]) -> str:
    """Return HELM's own id of an instance, such as id5."""
    return members(place, instance, "id", str)


def _read_trial(place: Place, request: Mapping[str, Any]) -> int:
    return check_variant(place, members(place, request, "train_trial_index", int))


def _count_shots(place: Place, request: Mapping[str, Any]) -> int:
    return members(place, request, "num_train_instances", int) if request.get("num_train_instances") else 0


def _read_text(place: Place, instance: Mapping[str, Any]) -> str:
    return members(place, members(place, instance, "input", dict), "text", str)


def references(place: Place, instance: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return the options of an instance as shown, and the index of the right one.

    Rejects an instance with no right option or several.
    """
    texts, correct = [], []
    for index, reference in enumerate(objects(place, instance, "references")):
        texts.append(members(place, members(place, reference, "output", dict), "text", str))
        if CORRECT in members(place, reference, "tags", list):
            correct.append(index)
    if len(correct) != 1:
        place.reject(
            f"{len(correct)} of the {len(texts)} references are tagged correct; a question has one right option"
        )
    return texts, correct[0]


def _match_order(question: KnownQuestion, texts: Sequence[str], correct: int) -> tuple[int | str, ...]:
    matched = match_options(question, texts)
    assert matched is not None  # the finder compared them
    return with_answer_at(matched, question, correct)


def _find_completion(place: Place, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the most probable completion; None if the model refused to give one."""
    result = request.get("result")
    if not isinstance(result, dict):
        place.reject("was not executed: it has no result; import a finished run, not a dry run")
    completions = list(objects(place, result, "completions"))
    if not completions:
        return None
    return max(completions, key=lambda completion: _read_logprob(place, completion))


def _read_logprob(place: Place, document: Mapping[str, Any]) -> float:
    value = document.get("logprob")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        place.reject(f"logprob {quote(value)} is not a finite number; the log is damaged")
    return min(0.0, float(value))


def _read_joint(
    place: Place,
    request: Mapping[str, Any],
    specification: Mapping[str, Any],
    texts: Sequence[str],
    correct: int,
    stated: float | None,
    answer: Callable[..., _Answer],
) -> _Answer:
    """Read a written letter as HELM does: the text without blanks is a label, or no answer."""
    mapping = members(place, request, "output_mapping", dict)
    if list(mapping.values()) != list(texts):
        place.reject(f"output_mapping {quote(mapping)} does not name the references in their order; the log is damaged")
    labels = list(mapping)
    completion = _find_completion(place, request)
    if completion is None:
        return answer()
    text = members(place, completion, "text", str)
    written = _extract(place, specification.get("output_mapping_pattern"), text.strip())
    position = labels.index(written) if written in labels else None
    equal = position not in (None, correct) and texts[position or 0].strip() == texts[correct].strip()
    return answer(
        position=position,
        # HELM compares a text that is no label with the right option's text, so the score shows how it was read.
        answer=None if position is not None or stated is None else read_label(written, texts),
        excuse=EQUAL_OPTIONS if equal else None,
        logprobs=_read_label_logprobs(place, completion, labels),
        text=text,
        reasoning=_read_thinking(place, completion),
    )


def _read_thinking(place: Place, completion: Mapping[str, Any]) -> str | None:
    """Return the thought that a completion stores apart from its text; None if it has none."""
    thinking = completion.get("thinking")
    text = thinking.get("text") if isinstance(thinking, dict) else None
    return optional_text(place, text)


def _extract(place: Place, pattern: Any, text: str) -> str:
    if not pattern:
        return text
    if (
        not isinstance(pattern, str)
        or _REPEATED_GROUP.search(pattern)
        or len(_REPEATS.findall(pattern)) > _MOST_REPEATS
    ):
        place.reject(
            f"output_mapping_pattern {quote(pattern)} may take for ever: it repeats a group, or has more than "
            f"{_MOST_REPEATS} repeats without end; give the answers as JSON Lines"
        )
    try:
        searched = re.compile(pattern)
    except re.error as error:
        place.reject(f"output_mapping_pattern {quote(pattern)} is not a regular expression ({error})")
    if _REPEATS.search(pattern):
        _require_quick(place, searched, text)
    match = searched.search(text)
    if match is None:
        return ""
    return str(match.group(1) if match.groups() else match.group(0))


def _require_quick(place: Place, pattern: re.Pattern[str], text: str) -> None:
    """Reject a text in which the search for a pattern takes too long.

    With two repeats the time may grow with the cube of the length: twice the text takes eight times as long.
    """
    length = _QUICK
    while length < len(text):
        began = time.thread_time()
        pattern.search(text, 0, length)
        if (time.thread_time() - began) * 2 ** (_MOST_REPEATS + 1) > _SECONDS:
            place.reject(
                f"output_mapping_pattern {quote(pattern.pattern)} takes too long in its text of {len(text):,} "
                "characters; give the answers as JSON Lines"
            )
        length *= 2


def _read_label_logprobs(
    place: Place, completion: Mapping[str, Any], labels: Sequence[str]
) -> tuple[float, ...] | None:
    """Return log-probabilities of labels from the first token's alternatives, which HELM wrote until version 0.5.

    None unless every label is among them: a missing label is unknown, not improbable.
    """
    tokens = list(objects(place, completion, "tokens"))
    top = tokens[0].get("top_logprobs") if tokens else None
    if not isinstance(top, dict):
        return None
    written = members(place, tokens[0], "text", str)
    blank = written[: len(written) - len(written.lstrip())]
    if not all(isinstance(top.get(blank + label), int | float) for label in labels):
        return None
    return tuple(_read_logprob(place, {"logprob": top[blank + label]}) for label in labels)


def _read_separate(
    requests: Sequence[Request],
    method: str,
    texts: Sequence[str],
    predicted: float | None,
    answer: Callable[..., _Answer],
) -> _Answer:
    """Read each option's log-likelihood; the answer is the highest as HELM chooses it, the first on a tie.

    predicted: the option that the log states as chosen.
    """
    place = requests[0][0]
    spans: dict[tuple[int, str], tuple[float, int] | None] = {}
    for request_place, request in requests:
        index = members(request_place, request, "reference_index", int)
        mode = members(request_place, request, "request_mode", str)
        if not 0 <= index < len(texts):
            request_place.reject(f"reference_index {index} is outside 0 … {len(texts) - 1}; the log is damaged")
        spans[index, mode] = _measure_reference(request_place, request, texts[index])
    modes = ("original", "calibration") if method == CALIBRATED else ("original",)
    for index in range(len(texts)):
        for mode in modes:
            if (index, mode) not in spans:
                name = instance_id(place, requests[0][1]["instance"])
                place.reject(f"no {mode} request for reference {index} of instance {name}; import a whole run")
    measured = [spans[index, "original"] for index in range(len(texts))]
    calibration = [spans.get((index, "calibration")) for index in range(len(texts))]
    known = [span for span in measured if span is not None]
    if len(known) < len(texts) or (method == CALIBRATED and None in calibration):
        if predicted is None or not 0 <= predicted < len(texts):
            place.reject(
                "its tokens do not spell the reference, so that its log-likelihood cannot be told from the prompt's, "
                "and no per_instance_stats.json says which one was predicted; import the whole run folder"
            )
        return answer(position=int(predicted), excuse=TIE)
    if method == CALIBRATED:
        scores = [span[0] - base[0] for span, base in zip(known, calibration, strict=True) if base is not None]
    else:
        scores = [total / tokens for total, tokens in known]
    position = scores.index(max(scores))
    contradiction = (
        None
        if predicted is None or int(predicted) == position
        else f"per_instance_stats.json says that reference {int(predicted)} was predicted, its log-likelihoods say "
        f"{position}; the files in the folder are from different runs"
    )
    return answer(
        position=position,
        excuse=TIE if scores.count(max(scores)) > 1 else None,
        contradiction=contradiction,
        logprobs=tuple(total for total, _ in known),
    )


def _measure_reference(place: Place, request: Mapping[str, Any], reference: str) -> tuple[float, int] | None:
    """Return (log-likelihood, number of tokens) of the reference at the end of the echoed prompt.

    HELM counts the tokens with the model's tokenizer; here the last tokens that spell the reference are taken. Returns
    None if no tokens do, such as tokens that are parts of a character.
    """
    completion = _find_completion(place, request)
    if completion is None:
        return None
    tokens = list(objects(place, completion, "tokens"))
    spelt = ""
    for length, token in enumerate(reversed(tokens), start=1):
        spelt = members(place, token, "text", str) + spelt
        if spelt.strip() == reference.strip():
            return sum(_read_logprob(place, token) for token in tokens[-length:]), length
        if len(spelt.strip()) > len(reference.strip()):
            return None
    return None


def per_instance(path: Path) -> Stats:
    """Return HELM's statistics for each unperturbed instance; empty if the file does not exist."""
    if not path.is_file():
        return {}
    stats: Stats = {}
    document = load_json(path)
    for number, item in enumerate(objects(Item(path, "document"), {"instances": document}, "instances")):
        place = Item(path, f"instance {number}")
        if item.get("perturbation") is not None:
            continue
        means = {}
        for stat in objects(place, item, "stats"):
            name = members(place, stat, "name", dict)
            if stat.get("count") and isinstance(stat.get("mean"), int | float) and name.get("perturbation") is None:
                means[str(name.get("name"))] = float(stat["mean"])
        stats[members(place, item, "instance_id", str), _read_trial(place, item)] = means
    return stats


def helm_splits(document: Mapping[str, Any]) -> Counter[str]:
    """Count the unperturbed instances, in each training trial, by split; empty if one is damaged."""
    splits: dict[tuple[str, str], str] = {}
    requests = document["request_states"]
    for request in requests if isinstance(requests, list) else []:
        state = request if isinstance(request, dict) else {}
        instance = state["instance"] if isinstance(state.get("instance"), dict) else {}
        if instance.get("perturbation") is None:
            key = str(instance.get("id")), str(state.get("train_trial_index"))
            splits.setdefault(key, str(instance.get("split")))
    return Counter(splits.values())


def helm_overall(path: Path, splits: Mapping[str, int]) -> float | None:
    """Return the exact_match that a run states: the mean of its splits' means, weighted by their sizes.

    path: its scenario_state.json. Returns None if there is no stats.json next to it, or it lacks one of the splits.
    """
    path = path.with_name("stats.json")
    if not path.is_file():
        return None
    means: dict[str, float] = {}
    for number, stat in enumerate(objects(Item(path, "document"), {"stats": load_json(path)}, "stats")):
        name = members(Item(path, f"statistic {number}"), stat, "name", dict)
        if name.get("name") == METRIC and name.get("perturbation") is None and name.get("sub_split") is None:
            if not isinstance(stat.get("mean"), int | float) or not math.isfinite(stat["mean"]):
                raise IngestError(
                    f"{path.name} statistic {number}: mean {quote(stat.get('mean'))} is not a number; remove the file"
                )
            means[str(name.get("split"))] = float(stat["mean"])
    if not splits or not splits.keys() <= means.keys():
        return None
    return sum(means[split] * count for split, count in splits.items()) / sum(splits.values())


def _read_run_name(path: Path) -> str | None:
    specification = path.with_name("run_spec.json")
    if not specification.is_file():
        return None
    document = load_json(specification)
    return str(document.get("name")) if isinstance(document, dict) else None


# Records as written, for an audit


def _list_sources(path: Path, document: Mapping[str, Any], _known: Known) -> list[Source]:
    about = object_of(document["adapter_spec"])
    remarks: list[str] = []
    run = results_beside(path.with_name("run_spec.json"), remarks).get("name") or path.parent.name
    splits = helm_splits(document)

    def records() -> Iterator[Seen | Unusable]:
        stats: Stats = read_beside(lambda: per_instance(path.with_name("per_instance_stats.json")), {}, remarks)
        yield from _read_records(path, document, stats)

    return [
        Source(
            path,
            HELM,
            str(about.get("model") or "model"),
            str(run).split(",model=")[0],
            records(),
            read_beside(lambda: helm_overall(path, splits), None, remarks),
            len(splits) > 0 and about.get("max_eval_instances") == splits.total(),
            remarks=remarks,
        )
    ]


def _read_records(path: Path, document: Mapping[str, Any], stats: Stats) -> Iterator[Seen | Unusable]:
    specification = object_of(document["adapter_spec"])
    if specification.get("method") not in METHODS:
        yield Unusable("adapter_spec", f"method {shorten(specification.get('method'), 40)}", NOT_MULTIPLE_CHOICE)
        return
    damaged: list[Unusable] = []
    answers = list(_group_answers(path, document, specification["method"], damaged))
    yield from damaged
    for requests in answers:
        if requests[0][1]["instance"].get("perturbation") is None:
            yield from record_of(requests[0][0].name, partial(_build_seen, requests, specification, stats))


def _build_seen(requests: Sequence[Request], specification: Mapping[str, Any], stats: Stats) -> Iterator[Seen]:
    place, first = requests[0]
    answer = _read_answer(requests, specification, stats)
    prompt = object_of(first.get("request")).get("prompt")
    reason = object_of((_find_completion(place, first) or {}).get("finish_reason")).get("reason")
    problems = []
    if first.get("prompt_truncated") is True:
        problems.append(("truncated-prompt", "HELM says that it truncated it"))
    if answer.contradiction is not None:
        problems.append(("score-contradicts-answer", answer.contradiction))
    yield Seen(
        place.name,
        answer.name,
        answer.question,
        answer.options,
        answer.correct,
        answer.position,
        answer.variant,
        answer.stated if answer.excuse is None else None,
        prompt if isinstance(prompt, str) else None,
        answer.text,
        answer.reasoning,
        cut_off=reason == "length" and specification.get("max_tokens", 0) > _ONE_ANSWER,
        scored=answer.text is None,
        problems=tuple(problems),
        answer=answer.answer,
        fields=answer.fields,
    )


FORMAT: Final = Format(
    HELM,
    "HELM",
    "document",
    frozenset({"adapter_spec", "request_states"}),
    {"adapter_spec": {"method": "multiple_choice_joint"}, "request_states": []},
    _list_sources,
    program="HELM, a run folder or its `scenario_state.json`",
    recognised="`adapter_spec`, `request_states`",
    becomes=(
        "A variant for each training trial, with the generated text, and log-likelihoods if options were scored "
        "separately"
    ),
    scores="keep stats.json and per_instance_stats.json next to scenario_state.json",
    paragraph=(
        "**HELM.** You can import the methods `multiple_choice_joint`, `multiple_choice_separate_original` and "
        "`multiple_choice_separate_calibrated`. In a joint run the letter is mapped as HELM does it, by "
        "`output_mapping_pattern`. A separate run scores each option on its own; import it with `--protocol "
        "cloze`. Perturbed instances are left out."
    ),
    read_log=read_helm,
    questions=helm_questions,
)
