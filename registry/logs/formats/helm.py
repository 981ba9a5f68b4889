"""HELM's run folders: `scenario_state.json`, with `stats.json` and `per_instance_stats.json` next to it if they exist.

    {"adapter_spec": {"method": "multiple_choice_joint", …}, "request_states": [
        {"instance": {"id": "id5", "input": {"text": "…"},
                      "references": [{"output": {"text": "…"}, "tags": ["correct"]}, …]},
         "train_trial_index": 0, "output_mapping": {"A": "…", …},
         "result": {"success": true, "completions": [{"text": " C", "logprob": -0.3, "tokens": […]}]}}, …]}

`multiple_choice_joint` shows all options and has a letter written. The `multiple_choice_separate` methods score each
option by itself: the answer is the highest log-likelihood per token, or the highest difference to the log-likelihood
without the question. Variant 0 is the first training trial. Read as crfm-helm 0.5 writes it, and checked against its
`exact_match`.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place, quote, shorten
from registry.errors import IngestError
from registry.logs.documents import Log, load_json, members, objects, read_description
from registry.logs.files import read_beside, results_beside
from registry.logs.format import HELM, Format
from registry.logs.labels import certain, read_label
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

Request = tuple[Item, dict[str, Any]]
Stats = dict[tuple[str, int], dict[str, float]]
"""(instance id, training trial) to the means of its statistics."""


def read_helm(path: Path, document: Mapping[str, Any], questions: Mapping[str, KnownQuestion]) -> Log:
    """Return the answers of a run. path: its scenario_state.json, whose content is `document`.

    Perturbed instances are left out, since their texts are not the benchmark's.
    Raises IngestError for a method other than METHODS, a request that was not executed, and instances that are not
    questions of the benchmark.
    """
    whole = Item(path, "adapter_spec")
    specification = members(Place(path, 1), document, "adapter_spec", dict)
    method = specification.get("method")
    if method not in METHODS:
        whole.reject(f"method {quote(method)} cannot be imported; the multiple-choice methods are {', '.join(METHODS)}")
    finder = QuestionFinder(questions)
    stats = per_instance(path.with_name("per_instance_stats.json"))
    recorded: list[Recorded] = []
    left_out = shots = 0
    for requests in _answers(path, document, method):
        place, first = requests[0]
        instance = first["instance"]
        if instance.get("perturbation") is not None:
            left_out += 1
            continue
        shots = max(shots, _shots(place, first))
        texts, correct = references(place, instance)
        question = finder.find(place, instance_id(place, instance), _text(place, instance), texts)
        order = _order(question, texts, correct)
        scores = stats.get((instance_id(place, instance), _trial(place, first)), {})
        answer = _read_answer(requests, specification, question, order, texts, scores)
        recorded.append(replace(answer, key=certain(texts[correct], correct), fields=_fields(instance)))
    remarks = (
        [f"{left_out} perturbed instances are left out: their texts differ from the benchmark's"] if left_out else []
    )
    if not stats:
        remarks.append(
            f"no per_instance_stats.json next to {path.name}: single answers are not compared with their scores"
        )
    about = read_description(path, {"run": _run_name(path), "model": specification.get("model"), "adapter": method})
    stated = helm_overall(path, helm_splits(document))
    return Log(HELM, recorded, about, METRIC, stated, shots, remarks)


def helm_seen(path: Path, document: Mapping[str, Any], stats: Stats) -> Iterator[Seen | Unusable]:
    """Yield the answers of a run to its own questions, without a benchmark that confirms them; for an audit.

    stats: from `per_instance`, as far as they could be read.
    """
    specification = document["adapter_spec"]
    if not isinstance(specification, dict) or specification.get("method") not in METHODS:
        method = specification.get("method") if isinstance(specification, dict) else None
        yield Unusable("adapter_spec", f"method {shorten(method, 40)}", NOT_MULTIPLE_CHOICE)
        return
    damaged: list[Unusable] = []
    answers = list(_answers(path, document, specification["method"], damaged))
    yield from damaged
    for requests in answers:
        if requests[0][1]["instance"].get("perturbation") is None:
            yield from record_of(requests[0][0].name, partial(_read_seen, requests, specification, stats))


def _read_seen(requests: Sequence[Request], specification: Mapping[str, Any], stats: Stats) -> Iterator[Seen]:
    place, first = requests[0]
    instance = first["instance"]
    texts, correct = references(place, instance)
    name = instance_id(place, instance)
    question = KnownQuestion(0, name, 0, _text(place, instance), tuple(texts), correct)
    # If the answers contradict their scores, the audit reports it.
    stated = {key: value for key, value in stats.get((name, _trial(place, first)), {}).items() if key == METRIC}
    recorded = _read_answer(requests, specification, question, tuple(range(len(texts))), texts, stated)
    request = first.get("request")
    prompt = request.get("prompt") if isinstance(request, dict) else None
    finish = (_completion(place, first) or {}).get("finish_reason")
    reason = finish.get("reason") if isinstance(finish, dict) else None
    truncated = first.get("prompt_truncated") is True
    yield Seen(
        place.name,
        name,
        question.text,
        question.options,
        correct,
        recorded.position,
        recorded.variant,
        recorded.stated if recorded.excuse is None else None,
        prompt if isinstance(prompt, str) else None,
        recorded.text,
        cut_off=reason == "length" and specification.get("max_tokens", 0) > _ONE_ANSWER,
        scored=recorded.text is None,
        answer=recorded.answer,
        problems=(("truncated-prompt", "HELM says that it truncated it"),) if truncated else (),
        fields=_fields(instance),
    )


def _fields(instance: Mapping[str, Any]) -> dict[str, str]:
    return fields_of({name: instance.get(name) for name in ("split", "sub_split")})


def _read_answer(
    requests: Sequence[Request],
    specification: Mapping[str, Any],
    question: KnownQuestion,
    order: tuple[int | str, ...],
    texts: Sequence[str],
    stated: Mapping[str, float],
) -> Recorded:
    if specification["method"] == JOINT:
        return _joint(*requests[0], specification, question, order, texts, stated)
    return _separate(requests[0][0], requests, specification["method"], question, order, texts, stated)


def helm_questions(path: Path, document: Mapping[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the questions of a run as lines of a benchmark file: unperturbed instances, each once."""
    seen: set[str] = set()
    for requests in _trials(path, document):
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
                "question": _text(place, instance),
                "options": texts,
                "answer": correct,
                "split": instance.get("split"),
            },
        )


def _answers(
    path: Path, document: Mapping[str, Any], method: Any, damaged: list[Unusable] | None = None
) -> Iterator[list[Request]]:
    """Yield the requests of each answer. In a joint run each request is one by itself, even if it is there twice."""
    for requests in _trials(path, document, damaged):
        yield from [[request] for request in requests] if method == JOINT else [requests]


def _trials(path: Path, document: Mapping[str, Any], damaged: list[Unusable] | None = None) -> Iterator[list[Request]]:
    """Yield the requests of each instance in each training trial and perturbation, in file order.

    damaged: receives requests that cannot be read, in place of an error for the first.
    """
    groups: dict[tuple[str, int, str], list[Request]] = {}
    for number, request in enumerate(members(Item(path, "document"), document, "request_states", list)):
        place = Item(path, f"request {number}")
        try:
            if not isinstance(request, dict):
                place.reject(f"{quote(request)} is not an object; the log is damaged, or of another version")
            instance = members(place, request, "instance", dict)
            key = (instance_id(place, instance), _trial(place, request), str(instance.get("perturbation")))
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


def _trial(place: Place, request: Mapping[str, Any]) -> int:
    return check_variant(place, members(place, request, "train_trial_index", int))


def _shots(place: Place, request: Mapping[str, Any]) -> int:
    return members(place, request, "num_train_instances", int) if request.get("num_train_instances") else 0


def _text(place: Place, instance: Mapping[str, Any]) -> str:
    return members(place, members(place, instance, "input", dict), "text", str)


def references(place: Place, instance: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return the options of an instance as shown, and the index of the right one.

    Rejects several right ones, and none.
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


def _order(question: KnownQuestion, texts: Sequence[str], correct: int) -> tuple[int | str, ...]:
    matched = match_options(question, texts)
    assert matched is not None  # the finder compared them
    return with_answer_at(matched, question, correct)


def _completion(place: Place, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the most probable completion; None if the model refused to give one."""
    result = request.get("result")
    if not isinstance(result, dict):
        place.reject("was not executed: it has no result; import a finished run, not a dry run")
    completions = list(objects(place, result, "completions"))
    if not completions:
        return None
    return max(completions, key=lambda completion: _logprob(place, completion))


def _logprob(place: Place, document: Mapping[str, Any]) -> float:
    value = document.get("logprob")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        place.reject(f"logprob {quote(value)} is not a finite number; the log is damaged")
    return min(0.0, float(value))


def _joint(
    place: Place,
    request: Mapping[str, Any],
    specification: Mapping[str, Any],
    question: KnownQuestion,
    order: tuple[int | str, ...],
    texts: Sequence[str],
    stated: Mapping[str, float],
) -> Recorded:
    """Map a written letter to its option as HELM does: the text without blanks is a label, or nothing."""
    mapping = members(place, request, "output_mapping", dict)
    if list(mapping.values()) != list(texts):
        place.reject(f"output_mapping {quote(mapping)} does not name the references in their order; the log is damaged")
    labels = list(mapping)
    completion = _completion(place, request)
    variant = _trial(place, request)
    score = stated.get(METRIC)
    if completion is None:
        return Recorded(place, question, variant, order, True, None, stated=score)
    text = members(place, completion, "text", str)
    written = _extract(place, specification.get("output_mapping_pattern"), text.strip())
    position = labels.index(written) if written in labels else None
    # A text that is no label is compared with the right option's text, so the score shows how it was read.
    label = None if position is not None or score is None else read_label(written, texts)
    equal = (
        position is not None
        and order[position] != question.answer
        and texts[position].strip() == question.options[question.answer].strip()
    )
    return Recorded(
        place,
        question,
        variant,
        order,
        True,
        position,
        answer=label,
        logprobs=_label_logprobs(place, completion, labels),
        text=text,
        stated=score,
        excuse=EQUAL_OPTIONS if equal else None,
        reasoning=_thinking(place, completion),
    )


def _thinking(place: Place, completion: Mapping[str, Any]) -> str | None:
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
        match = re.search(pattern, text)
    except (re.error, TypeError) as error:
        place.reject(f"output_mapping_pattern {quote(pattern)} is not a regular expression ({error})")
    if match is None:
        return ""
    return str(match.group(1) if match.groups() else match.group(0))


def _label_logprobs(place: Place, completion: Mapping[str, Any], labels: Sequence[str]) -> tuple[float, ...] | None:
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
    return tuple(_logprob(place, {"logprob": top[blank + label]}) for label in labels)


def _separate(
    place: Place,
    requests: Sequence[Request],
    method: str,
    question: KnownQuestion,
    order: tuple[int | str, ...],
    texts: Sequence[str],
    stated: Mapping[str, float],
) -> Recorded:
    """Read each option's log-likelihood; the answer is chosen as HELM does, the first of equals."""
    spans: dict[tuple[int, str], tuple[float, int] | None] = {}
    for request_place, request in requests:
        index = members(request_place, request, "reference_index", int)
        mode = members(request_place, request, "request_mode", str)
        if not 0 <= index < len(texts):
            request_place.reject(f"reference_index {index} is outside 0 … {len(texts) - 1}; the log is damaged")
        spans[index, mode] = _span(request_place, request, texts[index])
    modes = ("original", "calibration") if method == CALIBRATED else ("original",)
    for index in range(len(texts)):
        for mode in modes:
            if (index, mode) not in spans:
                place.reject(
                    f"no {mode} request for reference {index} of question {question.external_id}; import a whole run"
                )
    predicted = stated.get("predicted_index")
    trial = _trial(place, requests[0][1])
    recorded = partial(Recorded, place, question, trial, order, True, stated=stated.get(METRIC))
    found = [spans[index, "original"] for index in range(len(texts))]
    calibration = [spans.get((index, "calibration")) for index in range(len(texts))]
    known = [span for span in found if span is not None]
    if len(known) < len(texts) or (method == CALIBRATED and None in calibration):
        if predicted is None or not 0 <= predicted < len(texts):
            place.reject(
                "its tokens do not spell the reference, so that its log-likelihood cannot be told from the prompt's, "
                "and no per_instance_stats.json says which one was predicted; import the whole run folder"
            )
        return recorded(int(predicted), excuse=TIE)
    if method == CALIBRATED:
        scores = [span[0] - base[0] for span, base in zip(known, calibration, strict=True) if base is not None]
    else:
        scores = [total / tokens for total, tokens in known]
    position = scores.index(max(scores))
    if predicted is not None and int(predicted) != position:
        place.reject(
            f"per_instance_stats.json says that reference {int(predicted)} was predicted, its log-likelihoods say "
            f"{position}; the files in the folder are from different runs"
        )
    tied = TIE if scores.count(max(scores)) > 1 else None
    return recorded(position, logprobs=tuple(total for total, _ in known), excuse=tied)


def _span(place: Place, request: Mapping[str, Any], reference: str) -> tuple[float, int] | None:
    """Return (log-likelihood, number of tokens) of the reference at the end of the echoed prompt.

    HELM counts the tokens with the model's tokenizer; here the last tokens that spell the reference are taken. None if
    no tokens do, as with tokens that are parts of a character.
    """
    completion = _completion(place, request)
    if completion is None:
        return None
    tokens = list(objects(place, completion, "tokens"))
    spelt = ""
    for length, token in enumerate(reversed(tokens), start=1):
        spelt = members(place, token, "text", str) + spelt
        if spelt.strip() == reference.strip():
            return sum(_logprob(place, token) for token in tokens[-length:]), length
        if len(spelt.strip()) > len(reference.strip()):
            return None
    return None


def per_instance(path: Path) -> Stats:
    """Return HELM's results for each unperturbed instance; nothing if the file does not exist."""
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
        stats[members(place, item, "instance_id", str), _trial(place, item)] = means
    return stats


def helm_splits(document: Mapping[str, Any]) -> Counter[str]:
    """Count the unperturbed instances, in each training trial, by split; empty if one is damaged."""
    found: dict[tuple[str, str], str] = {}
    requests = document["request_states"]
    for request in requests if isinstance(requests, list) else []:
        whole = request if isinstance(request, dict) else {}
        instance = whole["instance"] if isinstance(whole.get("instance"), dict) else {}
        if instance.get("perturbation") is None:
            key = str(instance.get("id")), str(whole.get("train_trial_index"))
            found.setdefault(key, str(instance.get("split")))
    return Counter(found.values())


def helm_overall(path: Path, splits: Mapping[str, int]) -> float | None:
    """Return the exact_match stated by this scenario_state.json's run: the mean of its splits' means, by their sizes.

    None if no stats.json is next to it, or it lacks one of the splits.
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


def _run_name(path: Path) -> str | None:
    specification = path.with_name("run_spec.json")
    if not specification.is_file():
        return None
    document = load_json(specification)
    return str(document.get("name")) if isinstance(document, dict) else None


# Records as written, for an audit


def _helm(path: Path, document: Mapping[str, Any], _known: Known) -> list[Source]:
    about = object_of(document["adapter_spec"])
    remarks: list[str] = []
    run = results_beside(path.with_name("run_spec.json"), remarks).get("name") or path.parent.name
    splits = helm_splits(document)

    def records() -> Iterator[Seen | Unusable]:
        stats: Stats = read_beside(lambda: per_instance(path.with_name("per_instance_stats.json")), {}, remarks)
        yield from helm_seen(path, document, stats)

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


FORMAT: Final = Format(
    HELM,
    "HELM",
    "document",
    frozenset({"adapter_spec", "request_states"}),
    {"adapter_spec": {"method": "multiple_choice_joint"}, "request_states": []},
    _helm,
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
