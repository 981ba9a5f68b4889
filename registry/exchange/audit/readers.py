"""Every format that `evaluations import` reads, as an audit sees it: by the log's own questions, faults and all.

Where the import refuses a record or a line, an audit names it and goes on. Lines are streamed; a log that is one
document is held while it is read.
"""

import json
import math
import os
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from registry.benchmarks.lines import TABLES, is_table, raw_lines, read_cells, shorten
from registry.errors import IngestError
from registry.exchange.audit.rereading import final_reading
from registry.exchange.audit.seen import Source, digest, listing
from registry.exchange.outputs.beside import (
    METRICS,
    every_eval_ever_overall,
    every_eval_ever_results,
    harness_overall,
    harness_results,
    task_and_date,
)
from registry.exchange.outputs.every_eval_ever import named_answer
from registry.exchange.outputs.forms import (
    CAT,
    EVERY_EVAL_EVER,
    FORMS,
    HARNESS,
    HELM,
    INSPECT,
    KEYS,
    LIGHTEVAL,
    LINES,
    OPENCOMPASS,
    OUTPUTS,
    QUESTIONS,
    STATE_FILE,
    TABLE,
    form_of_document,
    form_of_line,
    is_archive,
    is_document,
)
from registry.exchange.outputs.harness import INVALID, extracted_of, target_label, texts_written
from registry.exchange.outputs.helm import (
    Stats,
    helm_overall,
    helm_seen,
    helm_splits,
    per_instance,
)
from registry.exchange.outputs.inspect_log import (
    inspect_archive,
    inspect_document,
    inspect_overall,
    inspect_seen,
)
from registry.exchange.outputs.labels import Written, certain, read_label
from registry.exchange.outputs.lighteval import SCORED, answer_of, metric_of
from registry.exchange.outputs.logs import load_json
from registry.exchange.outputs.opencompass import LABEL, opencompass_results, written_of
from registry.exchange.outputs.prompts import said
from registry.exchange.outputs.record import (
    NOT_MULTIPLE_CHOICE,
    SEVERAL_RIGHT,
    Seen,
    Unusable,
    one_index,
    only,
    record_of,
)
from registry.files.documents import as_written
from registry.prompting.labels import LETTERS
from registry.untrusted import decode_answer

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".json", ".eval", ".parquet", *TABLES)
MOST_FILES: Final = 10_000
"""Files of a folder that are looked at."""
DAMAGED: Final = "unreadable-file"

Found = TypeVar("Found")
Known = dict[str, tuple[str, tuple[str, ...], int]]
"""Question id to (text, options, right option) of the files of questions that were given."""


def files_of(path: Path) -> list[Path]:
    """The files at `path` that may be logs: itself, or those in a folder. Raises IngestError where there is none."""
    if not path.is_dir():
        if not path.exists():
            raise IngestError(f"{path}: no such file; check the path")
        return [path]
    found: list[Path] = []

    def refused(error: OSError) -> None:
        found.append(Path(error.filename))

    for folder, folders, names in os.walk(path, onerror=refused):
        folders.sort()
        if STATE_FILE in names:
            found.append(Path(folder, STATE_FILE))
            continue
        found += [Path(folder, name) for name in sorted(names) if name.endswith(SUFFIXES)]
        if len(found) > MOST_FILES:
            raise IngestError(f"{path}: holds more than {MOST_FILES:,} files; audit its folders one by one")
    if not found:
        raise IngestError(f"{path}: holds no log; logs end in {', '.join(SUFFIXES)}")
    return found


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raises IngestError where the system does not let a file be read."""
    try:
        yield
    except OSError as error:
        message = f"{path.name}: cannot be read ({error.strerror or error}); check the path and who may read it"
        raise IngestError(message) from None


def sources_of(path: Path, known: Known) -> list[Source]:
    """The logs in a file; none where it is of no format that is imported. Raises IngestError for a damaged file."""
    name = path.name
    if not path.is_file():
        path.stat()
        if path.is_dir():
            next(path.iterdir(), None)
        raise IngestError(f"{name}: is a pipe or a device; write what it gives to a file")
    if is_table(path):
        return _table(path, known)
    if name.endswith(".parquet"):
        return _lighteval(path)
    if is_archive(path):
        return [_inspect(path, *inspect_archive(path, storable=False))]
    if is_document(path):
        return _document(path)
    problem = "is empty; give a log with at least one answer"
    for number, line in lines_of(path):
        if isinstance(line, dict):
            form = form_of_line(line)
            return [] if form is None else _LINES[form](path, line, known)
        problem = f"line {number}: {line}"
        if number >= _UNREADABLE:
            break
    raise IngestError(f"{name} {problem}" if problem.startswith("line") else f"{name}: {problem}")


_UNREADABLE: Final = 100
"""Lines at the beginning of a file that may all be damaged before it is taken for none of lines."""


def lines_of(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Each line with its number: the object that it is, or what is wrong with it. Blank lines are passed over.

    Values that no database holds, such as NUL and half a surrogate pair, are in what models write, and are let in.
    """
    for place, raw in raw_lines(path):
        yield place.line, _object_of(raw.decode("utf-8", "replace"))


def _object_of(text: str) -> dict[str, Any] | str:
    try:
        document = decode_answer(text)
    except ValueError as error:
        return f"is not JSON ({getattr(error, 'msg', error)}): {shorten(text.strip(), 40)!r}"
    return document if isinstance(document, dict) else f"{shorten(document, 40)!r} is not a JSON object"


def records_of(
    path: Path, read: Callable[[str, Mapping[str, Any]], Iterator[Seen | Unusable]]
) -> Iterator[Seen | Unusable]:
    """What `read` makes of each line, given its place; damaged lines are named."""
    for number, line in lines_of(path):
        if isinstance(line, str):
            yield Unusable(f"line {number}", line, DAMAGED)
        else:
            yield from record_of(f"line {number}", partial(read, f"line {number}", line))


def _document(path: Path) -> list[Source]:
    document = load_json(path, storable=False)
    form = form_of_document(document) if isinstance(document, dict) else None
    if form == HELM:
        return [_helm(path, document)]
    if form == INSPECT:
        return [_inspect(path, *inspect_document(path, document))]
    return [_opencompass(path, document)] if form == OPENCOMPASS else []


# Values as programs write them


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return float(value)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in value)


# lm-evaluation-harness


_GIVEN: Final = (
    *("passage", "flores_passage", "article", "context", "support", "premise", "hypothesis"),
    *("sentence1", "sentence2"),
)
"""Fields of a document that a question may be about."""
_ASKED: Final = ("question", "query", "question_stem", "Question", "input", "ctx", "sentence", "problem", "goal")
_SHORTEST_QUESTION: Final = 12
"""Characters below which a question that the prompt does not hold is a code, such as COPA's `cause`."""
_CHOICES: Final = ("choices", "options", "endings", "mc1_targets", "Choices")


def _harness(path: Path, first: Mapping[str, Any], _known: Known) -> list[Source]:
    filters = _filters(path, first)
    task, _ = task_and_date(path)
    # Before samples named their filter, each filter of a task wrote all samples again, in the task's order.
    unnamed = 1 if "filter" in first else _unnamed_filters(path)
    filters = filters if unnamed == 1 else [f"filter {number}" for number in range(1, unnamed + 1)]
    remarks: list[str] = []
    results = _results(harness_results(path), remarks)
    sizes = _object(_object(results.get("n-samples")).get(task))
    metric = next((name for name in METRICS if name in first), None)
    declared = _object(results.get("config")).get("limit") is not None or sizes.get("original") != sizes.get(
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


def _results(path: Path, remarks: list[str]) -> Mapping[str, Any]:
    """What is in a file beside a log, if it is there; a remark where it cannot be read."""
    return _object(_beside(lambda: load_json(path, storable=False), {}, remarks)) if path.is_file() else {}


def _beside(read: Callable[[], Found], otherwise: Found, remarks: list[str]) -> Found:
    try:
        with as_written("a file next to the log", AGAIN):
            return read()
    except IngestError as error:
        remarks.append(str(error))
        return otherwise


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
    doc = _object(line.get("doc"))
    options: tuple[str, ...] = ()
    for name in _CHOICES:
        value = doc.get(name)
        if isinstance(value, dict):
            value = value.get("text", value.get("choices"))
        if isinstance(value, list) and value:
            options = _texts(value)
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
    likelihoods = [_loglikelihood(item) for item in responses]
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
        # WinoGrande: each option is put into the sentence, and what follows it is scored.
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
    stated = None if metric is None else _number(line.get(metric))
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
            (text, _written(answer, options, keyed, stated))
            for text, answer in zip([*written] or [None], read, strict=False)
        ]
    variant = doc.get("prompt_id")
    if isinstance(doc.get("always_same_option"), str):
        variant = LETTERS.find(doc["always_same_option"][:1])
    number = variant if isinstance(variant, int) else None
    for at, (output, answer) in enumerate(answers):
        yield Seen(
            place,
            str(line.get("doc_id")),
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
    """What a document asks, behind the texts that it asks of."""
    asked = next((doc[key] for key in _ASKED if isinstance(doc.get(key), str)), None)
    if asked is not None and len(asked) < _SHORTEST_QUESTION and asked not in prompt.split():
        asked = None
    given = [doc[key] for key in _GIVEN if isinstance(doc.get(key), str) and doc[key]]
    return "\n".join(given if asked is None else [*given, asked]) or None


def _loglikelihood(value: Any) -> float | None:
    value = only(value)
    value = value[0] if isinstance(value, list) and value else value
    if isinstance(value, str):
        try:
            value = float(value.strip("()[] ").split(",")[0].strip("' "))
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _written(value: Any, options: Sequence[str], keyed: Written | None = None, stated: float | None = None) -> Written:
    """Return an answer as a label; of equal options it means the right one if it is scored as right."""
    value = only(value)
    right = keyed.positions[0] if keyed is not None and stated == 1 else None
    return read_label(None if value == INVALID else value, options, right=right)


# Inspect


def _inspect(path: Path, header: Mapping[str, Any], samples: Any) -> Source:
    about = _object(header.get("eval"))
    dataset, config = _object(about.get("dataset")), _object(about.get("config"))
    asked, whole = len(dataset.get("sample_ids") or ()), dataset.get("samples")
    declared = config.get("limit") is not None or config.get("sample_id") is not None
    declared = declared or (isinstance(whole, int) and 0 < asked < whole)
    return Source(
        path,
        INSPECT,
        str(about.get("model") or "model"),
        str(about.get("task") or path.stem),
        _inspect_records(path.name, samples),
        inspect_overall(header),
        declared,
    )


def _inspect_records(file: str, samples: Any) -> Iterator[Seen | Unusable]:
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
        yield from record_of(place.name, partial(inspect_seen, place, sample))


# HELM


def _helm(path: Path, document: Mapping[str, Any]) -> Source:
    about = _object(document["adapter_spec"])
    remarks: list[str] = []
    run = _results(path.with_name("run_spec.json"), remarks).get("name") or path.parent.name
    splits = helm_splits(document)

    def records() -> Iterator[Seen | Unusable]:
        stats: Stats = _beside(lambda: per_instance(path.with_name("per_instance_stats.json")), {}, remarks)
        yield from helm_seen(path, document, stats)

    return Source(
        path,
        HELM,
        str(about.get("model") or "model"),
        str(run).split(",model=")[0],
        records(),
        _beside(lambda: helm_overall(path, splits), None, remarks),
        len(splits) > 0 and about.get("max_eval_instances") == splits.total(),
        remarks=remarks,
    )


# lighteval


def _lighteval(path: Path) -> list[Source]:
    from registry.files.parquet import parquet_columns, parquet_rows

    columns = parquet_columns(path)
    if not columns:
        raise IngestError(f"{path.name}: is no Parquet file, or a damaged one; fetch it again")
    if not KEYS[LIGHTEVAL].issubset(columns):
        return []
    remarks: list[str] = []
    task = path.stem.removeprefix("details_").rsplit("_", 1)[0]
    folder = next((parent for parent in path.parents if parent.name == "details"), None)
    model, scores = path.parent.parent.name, {}
    declared = False
    if folder is not None:
        relative = path.parent.parent.relative_to(folder)
        results = _results(folder.with_name("results") / relative / f"results_{path.parent.name}.json", remarks)
        scores = dict(_object(_object(results.get("results")).get(task)))
        about = _object(results.get("config_general"))
        model = str(about.get("model_name") or relative)
        declared = about.get("max_samples") is not None
    stated = metric_of(scores)[1]
    records = _lighteval_records(parquet_rows(path))
    return [Source(path, LIGHTEVAL, model, task, records, stated, declared, remarks=remarks)]


def _lighteval_records(rows: Iterator[dict[str, Any]]) -> Iterator[Seen | Unusable]:
    for number, row in enumerate(rows, start=1):
        yield from record_of(f"row {number}", partial(_lighteval_record, f"row {number}", number, row))


def _lighteval_record(place: str, number: int, row: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
    doc, response, metric = _object(row.get("doc")), _object(row.get("model_response")), _object(row.get("metric"))
    letters = doc.get("choices")
    # MMLU-Pro has its letters in one text, for all questions alike.
    choices = tuple(letters) if isinstance(letters, str) else tuple(choice.strip() for choice in _texts(letters))
    if len(choices) < 2:
        yield Unusable(place, "has no choices", NOT_MULTIPLE_CHOICE)
        return
    query = str(doc.get("query") or "")
    instruction = str(doc.get("instruction") or "")
    shots = [_object(shot) for shot in doc.get("fewshot_samples") or ()]
    shown = listing(query)
    labelled = all(len(choice) == 1 and choice in LETTERS for choice in choices)
    options = shown.options if labelled and shown is not None else choices
    gold = only(doc.get("gold_index"))
    if len(options) != len(choices) and not isinstance(letters, str):
        name = "truncated-prompt" if len(options) < len(choices) else "unusable-answer"
        yield Unusable(place, f"shows {len(options)} options and scores {len(choices)}", name)
        return
    if isinstance(gold, bool) or not isinstance(gold, int) or not 0 <= gold < len(options):
        yield Unusable(place, f"its gold_index {shorten(gold, 40)} names none of its {len(options)} options")
        return
    if shown is None or (instruction.strip() and query.startswith(instruction)):
        text = (query if shown is None else shown.before).removeprefix(instruction)
    else:
        text = shown.question
    text = text.strip().removeprefix("Question:").strip()
    text = re.sub(r"\s*(?:Answer|Options|Choices):$", "", text)
    examples = [f"{shot.get('query', '')} {_example_answer(shot)}" for shot in shots]
    body = query.removeprefix(instruction)
    prompt = _text(response.get("input")) or "\n\n".join(
        part for part in (instruction.strip(), *(e.removeprefix(instruction) for e in examples), body) if part
    )
    tokens = list(response.get("input_tokens") or ())
    doubled = len(tokens) > 1 and tokens[0] == tokens[1] and tokens[0] in (0, 1, 2, 128000)
    problems = (("doubled-begin-token", f"token {tokens[0]} begins the prompt twice"),) if doubled else ()
    logprobs = [_loglikelihood(value) for value in response.get("logprobs") or ()][: len(options)]
    written = _texts(response.get("text_post_processed") or response.get("text"))
    raw = _texts(response.get("text"))
    numbers = [value for value in logprobs if value is not None and not math.isnan(value)]
    scored = len(numbers) == len(options)
    named, stated = metric_of(metric)
    answers = [None] if scored else list(range(len(written)))
    if scored and not named.startswith(SCORED):
        stated = None
    for at in answers:
        position, label, contradictions = None, None, ()
        if at is None:
            position = numbers.index(max(numbers))
        else:
            score = stated if len(answers) < 2 else None
            label, doubt = answer_of(written[at], options, gold, named, score)
            if doubt is not None:
                detail = f"reads as {LETTERS[doubt]}, {LETTERS[gold]} is right, and its score is {score:g}"
                contradictions = (("score-contradicts-answer", detail),)
        yield Seen(
            place,
            str(doc.get("id") if doc.get("id") is not None else number),
            text,
            options,
            gold,
            position,
            None if len(answers) < 2 else at,
            stated if len(answers) < 2 else None,
            prompt,
            None if at is None else raw[at] if at < len(raw) else written[at],
            scored=at is None,
            problems=problems + contradictions,
            answer=label,
        )
    if not answers:
        yield Unusable(place, "has neither log-probabilities nor a text")


def _example_answer(shot: Mapping[str, Any]) -> str:
    choices, gold = _texts(shot.get("choices")), only(shot.get("gold_index"))
    return choices[gold].strip() if isinstance(gold, int) and 0 <= gold < len(choices) else ""


# OpenCompass


def _opencompass(path: Path, document: Mapping[str, Any]) -> Source:
    remarks: list[str] = []
    nothing: tuple[Mapping[str, Any], float | None] = ({}, None)
    details, stated = _beside(lambda: opencompass_results(path), nothing, remarks)
    records = _opencompass_records(document, details)
    return Source(path, OPENCOMPASS, path.parent.name, path.stem, records, stated, remarks=remarks)


def _opencompass_records(document: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
    for name, value in document.items():
        yield from record_of(f"prediction {name}", partial(_opencompass_record, name, value, details))


def _opencompass_record(name: str, value: Any, details: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
    prediction, detail, place = _object(value), _object(details.get(name)), f"prediction {name}"
    labels = {key.removeprefix(LABEL): _object(item) for key, item in prediction.items() if key.startswith(LABEL)}
    prompts = [said(item.get("testing input")) for item in labels.values()]
    prompt = _common(prompts) if prompts else said(prediction.get("origin_prompt"))
    shown = listing(prompt)
    if shown is not None:
        options, text = shown.options, shown.question
    elif prompts:
        options = tuple(ending[len(prompt) :].strip() or name for ending, name in zip(prompts, labels, strict=True))
        text = prompt
    else:
        yield Unusable(place, "its prompt lists no options behind labels", NOT_MULTIPLE_CHOICE)
        return
    whole = said(next(iter(labels.values())).get("prompt")) if labels else prompt
    # The last place: an example may be the question itself, with its first label.
    sent = whole[: whole.rfind(prompts[0])] + prompt if prompts and prompts[0] in whole else whole
    names = list(labels)
    keyed = _opencompass_label(prediction.get("gold"), options, names)
    written = written_of(prediction)
    output = None if labels else _text(written.get("prediction"))
    extracted = only(detail.get("predictions", detail.get("pred")))
    stated = _number(only(detail.get("correct", detail.get("is_correct"))))
    if labels:
        answer = _opencompass_label(prediction.get("prediction"), options, names)
    elif detail:
        answer = _written(extracted, options, keyed, stated)
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
        cut_off=_object(written.get("rollout")).get("finish_reason") == "length",
        scored=bool(labels),
        listed=shown is not None,
        answer=answer,
        keyed=keyed,
    )


def _common(texts: Sequence[str]) -> str:
    """What all begin with."""
    first, last = min(texts), max(texts)
    end = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:end]


def _opencompass_label(value: Any, options: Sequence[str], names: Sequence[str]) -> Written:
    if isinstance(value, str) and value in names and len(names) == len(options):
        return certain(value, names.index(value))
    return read_label(only(value), options)


# Every Eval Ever


def _every_eval_ever(path: Path, first: Mapping[str, Any], _known: Known) -> list[Source]:
    remarks: list[str] = []
    beside = every_eval_ever_results(path)
    whole = {} if beside is None else _results(beside, remarks)
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
    asked, output = _object(record.get("input")), _object(record.get("output"))
    scored, metadata = _object(record.get("evaluation")), _object(record.get("metadata"))
    options = _texts(asked.get("choices"))
    text = said(asked.get("raw"))
    if not options and (shown := listing(text)) is not None:
        options, text = shown.options, shown.question
    if len(options) < 2:
        yield Unusable(place, "lists no choices", NOT_MULTIPLE_CHOICE)
        return
    references = _texts(asked.get("reference"))
    if len(references) != 1:
        yield Unusable(place, f"it has {len(references)} references: several options are right, or none", SEVERAL_RIGHT)
        return
    keyed = read_label(references[0], options)
    raw = only(output.get("raw"))
    named = named_answer(record)
    variant = metadata.get("variant", metadata.get("epoch"))
    trace = output.get("reasoning_trace")
    is_correct = scored.get("is_correct")
    stated = _number(is_correct) if isinstance(is_correct, bool) else _number(scored.get("score"))
    yield Seen(
        place,
        str(record.get("sample_id")),
        text,
        options,
        None,
        None,
        int(variant) if isinstance(variant, str) and variant.isdecimal() else None,
        stated,
        _text(asked.get("formatted")) or (said(record.get("messages")) or None),
        _text(raw) if raw not in options else None,
        "\n".join(_texts(trace)) if isinstance(trace, list) else _text(trace),
        metadata.get("stop_reason") in ("length", "max_tokens"),
        metadata.get("stop_reason") == "content_filter",
        answer=_written(raw if named is None else named, options, keyed, stated),
        keyed=keyed,
    )


# Our own formats, IBM/cat's, and tables


def _questions(path: Path, _first_line: Mapping[str, Any], known: Known) -> list[Source]:
    def record(place: str, line: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
        if line.get("split") == "fewshot":
            return
        options, key = _texts(line.get("options")), line.get("answer")
        if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < len(options):
            yield Unusable(place, f"its answer {shorten(key, 40)} names none of its {len(options)} options")
            return
        text = "\n".join(str(part) for part in (line.get("context", line.get("passage")), line.get("question")) if part)
        known[str(line.get("id"))] = (text, options, key)
        yield Seen(place, str(line.get("id")), text, options, key, None)

    return [Source(path, QUESTIONS, "", path.name.split(".")[0], records_of(path, record))]


def _contract(path: Path, _first_line: Mapping[str, Any], known: Known) -> list[Source]:
    def record(place: str, line: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
        name, order = str(line.get("question_id")), line.get("order")
        if not isinstance(order, list) or not order:
            yield Unusable(place, f"its order {shorten(order, 40)} is not a list of options")
            return
        text, all_options, answer = known.get(name, (None, (), None))
        options = tuple(
            all_options[item] if isinstance(item, int) and 0 <= item < len(all_options) else str(item) for item in order
        )
        weights = line.get("probabilities") or line.get("logprobs")
        if "position" in line or "option" in line:
            at, option = line.get("position"), line.get("option")
            position = at if at is not None else order.index(option) if option in order else None
        else:
            position = weights.index(max(weights)) if isinstance(weights, list) and weights else None
        variant = line.get("variant")
        yield Seen(
            place,
            name,
            text,
            options,
            order.index(answer) if answer in order else None,
            position,
            variant if isinstance(variant, int) else None,
            output=_text(line.get("text")),
            reasoning=_text(line.get("reasoning")),
            texts=bool(all_options),
            scored=weights is not None,
        )

    return [
        Source(path, "shuffleboard", path.name.split(".")[0], path.parent.name or "outputs", records_of(path, record))
    ]


def _cat(path: Path, _first_line: Mapping[str, Any], _known: Known) -> list[Source]:
    types: dict[str, int] = {}

    def record(place: str, line: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
        options = _texts(line.get("options"))
        key, chosen = line.get("correct"), line.get("chosen")
        if not isinstance(key, int) or not 0 <= key < len(options):
            yield Unusable(place, f"its right option {shorten(key, 40)} is none of its {len(options)} options")
            return
        kind = types.setdefault(str(line.get("variant_type")), len(types))
        index = line.get("variant_index")
        yield Seen(
            place,
            str(line.get("question_id")),
            None,
            options,
            key,
            chosen if isinstance(chosen, int) and 0 <= chosen < len(options) else None,
            1000 * kind + index if isinstance(index, int) else None,
            output=_text(line.get("raw")),
        )

    return [Source(path, CAT, path.name.split(".")[0], "outputs", records_of(path, record))]


def _table(path: Path, known: Known) -> list[Source]:
    """A column of letters for each model, the question's in `correct`, else in a file of questions."""
    lines = read_cells(path)
    heading = [name.strip() for name in next(lines, (None, [""]))[1]]
    if heading[0] != "question_id":
        return []
    about = {
        name: heading.index(name) for name in ("question_id", "subject", "n_options", "correct") if name in heading
    }
    rows: list[_Row] = []
    columns: dict[str, list[str]] = {name: [] for name in heading if name not in about}
    places = {name: heading.index(name) for name in columns}
    for where, cells in lines:
        if len(cells) != len(heading):
            raise IngestError(f"{path.name} line {where.line}: {len(cells)} cells under {len(heading)} headings")
        text, options, key = known.get(cells[0], (None, (), None))
        count = cells[about["n_options"]].strip() if "n_options" in about else ""
        if not options and count.isdecimal() and int(count) < len(LETTERS):
            options = tuple(LETTERS[: int(count)])
        correct = cells[about["correct"]].strip() if "correct" in about else ""
        rows.append(_Row(where.line, cells[0], text, options, correct, key))
        for column, at in places.items():
            columns[column].append(sys.intern(cells[at].strip()))
    task = path.name.split(".")[0]
    width = _width(rows, columns.values())
    return [
        Source(path, TABLE, name, task, _column(name, rows, column, width), part=name)
        for name, column in columns.items()
    ]


class _Row(NamedTuple):
    """A row of a table; correct: its key as written, key: its question's position of the right option."""

    line: int
    name: str
    text: str | None
    options: tuple[str, ...]
    correct: str
    key: int | None


def _width(rows: Sequence[_Row], columns: Iterable[Sequence[str]]) -> int:
    """Return the number of options that labels of a table without options can name: at least four."""
    values = {row.correct for row in rows}.union(*columns)
    letters = [LETTERS.find(unicodedata.normalize("NFKC", value).upper()) for value in values if len(value) == 1]
    numbers = [int(value) for value in values if value.isdecimal() and len(value) < _LONG_NUMBER]
    return min(max([4, *(at + 1 for at in letters), *numbers]), len(LETTERS))


_LONG_NUMBER: Final = 3


def _column(name: str, rows: Sequence[_Row], column: Sequence[str], width: int) -> Iterator[Seen | Unusable]:
    for row, cell in zip(rows, column, strict=True):
        shown = row.options or tuple(LETTERS[:width])
        answer = read_label(cell, shown)
        beyond = len(cell) == 1 and cell.upper() in LETTERS
        if cell and not beyond and set(answer.positions) == {None}:
            yield Unusable(f"line {row.line}", f"column {shorten(name, 40)}: {shorten(cell, 40)!r} is no label")
            continue
        keyed = read_label(row.correct, shown) if row.correct else None
        yield Seen(
            f"line {row.line}",
            row.name,
            row.text,
            shown,
            row.key,
            None,
            texts=row.text is not None,
            answer=answer,
            keyed=keyed,
        )


_Lines = Callable[[Path, Mapping[str, Any], Known], list[Source]]
_LINES: Final[Mapping[str, _Lines]] = {
    CAT: _cat,
    HARNESS: _harness,
    EVERY_EVAL_EVER: _every_eval_ever,
    OUTPUTS: _contract,
    QUESTIONS: _questions,
}


def _keys(form: str) -> str:
    return f"{', '.join(sorted(KEYS[form]))} ({FORMS[form].title})"


AGAIN: Final = "fetch it again"
"""What an error of a file that is read here ends with; a finding of it has a remedy of its own."""

READ_FORMATS: Final = (
    f"give JSON Lines with the keys {', or '.join(map(_keys, LINES))}; JSON with {_keys(HELM)}, {_keys(INSPECT)} or "
    "predictions numbered from 0 (OpenCompass); an archive .eval (Inspect); Parquet with the columns "
    f"{_keys(LIGHTEVAL)}; or CSV whose first column is question_id"
)
"""What tells each format, for whoever gave another."""
