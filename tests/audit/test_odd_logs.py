"""Logs in forms that programs and people write, but no other test has: read correctly by both ways, or refused."""

import json
import math
import random
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.errors import IngestError
from registry.logs.audit.report import audit
from registry.prompting.labels import LETTERS
from tests.audit.both import Both, both, log_in
from tests.audit.logs import EVERY_WRITER, Log, clean

Lines = list[dict[str, Any]]
Change = Callable[[dict[str, Any]], Any]

COUNT = 60
SUBJECTS = ("law", "law", "law", "physics", "art")


def each(change: Change) -> Callable[[Lines, Log], Lines]:
    """Return a function that changes every record; `change` returns the record's new members."""
    return lambda lines, _: [line | change(line) for line in lines]


def some(change: Change, every: int = 7) -> Callable[[Lines, Log], Lines]:
    return lambda lines, _: [line | change(line) if n % every == 0 else line for n, line in enumerate(lines)]


def right_in(line: dict[str, Any]) -> int:
    return int(line["doc"]["answer"])


def chosen_in(line: dict[str, Any]) -> int:
    return LETTERS.index(line["filtered_resps"][0])


def doc(line: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"doc": line["doc"] | more}


def scores_of(line: dict[str, Any], low: Any, high: Any = -1.0) -> dict[str, Any]:
    """Return the members of a sample whose options were scored."""
    options, chosen = line["doc"]["choices"], chosen_in(line)
    values = [[high if at == chosen else low, at == chosen] for at in range(len(options))]
    prompt = line["arguments"]["gen_args_0"]["arg_0"]
    calls = {f"gen_args_{at}": {"arg_0": prompt, "arg_1": f" {text}"} for at, text in enumerate(options)}
    return {
        "resps": [[value] for value in values],
        "filtered_resps": values,
        "arguments": calls,
        "acc": line["exact_match"],
        "filter": "none",
        "target": right_in(line),
    }


def judged(line: dict[str, Any], score: float) -> dict[str, Any]:
    """Return a sample that is scored by a metric nobody knows."""
    return {key: value for key, value in line.items() if key != "exact_match"} | {
        "metrics": ["judged"],
        "judged": score,
    }


def shuffled(lines: Lines, _: Log) -> Lines:
    return random.Random(1).sample(lines, len(lines))


HARNESS: dict[str, Callable[[Lines, Log], Lines]] = {
    "the target is a letter in a list": each(lambda line: {"target": [line["target"]]}),
    "the target is an index in a list": each(lambda line: {"target": [right_in(line)]}),
    "the target is a decimal number": each(lambda line: {"target": float(right_in(line))}),
    "the target is an option's text in a list": each(lambda line: {"target": [line["doc"]["choices"][right_in(line)]]}),
    "the target is a letter in brackets": each(lambda line: {"target": f"({line['target']})"}),
    "the target has a blank before it": each(lambda line: {"target": f" {line['target']}"}),
    "the target is a small letter": each(lambda line: {"target": line["target"].lower()}),
    "the target counts from 1": each(lambda line: {"target": str(right_in(line) + 1)}),
    "answer and target count from 1": each(
        lambda line: {"target": str(right_in(line) + 1), "filtered_resps": [str(chosen_in(line) + 1)]}
    ),
    "answer and target count from 0": each(
        lambda line: {"target": str(right_in(line)), "filtered_resps": [str(chosen_in(line))]}
    ),
    "numbers for answers": each(lambda line: {"filtered_resps": [chosen_in(line)]}),
    "the filtered answer is a text": each(lambda line: {"filtered_resps": line["filtered_resps"][0]}),
    "the filtered answer is nested": each(lambda line: {"filtered_resps": [[line["filtered_resps"]]]}),
    "the score is a truth value": each(lambda line: {"exact_match": bool(line["exact_match"])}),
    "scores of two metrics": each(lambda line: {"acc": line["exact_match"], "acc_norm": 1 - line["exact_match"]}),
    "choices with labels": each(
        lambda line: doc(line, choices={"text": line["doc"]["choices"], "label": list("ABCDEFGHIJ")})
    ),
    "options under another name": each(
        lambda line: {"doc": {"query": line["doc"]["question"], "options": line["doc"]["choices"]}}
    ),
    "an id of the document": each(lambda line: doc(line, id=line["doc_id"]) | {"doc_id": 0}),
    "numbers for ids": lambda lines, _: [line | {"doc_id": n} for n, line in enumerate(lines)],
    "in another order": shuffled,
    "likelihoods": each(lambda line: scores_of(line, -7.5)),
    "likelihoods in texts": each(
        lambda line: (
            (found := scores_of(line, -7.5)) | {"filtered_resps": [str(tuple(v)) for v in found["filtered_resps"]]}
        )
    ),
    "minus infinity as a number": each(lambda line: scores_of(line, -math.inf)),
    "minus infinity as a text": each(lambda line: scores_of(line, "-inf")),
    "minus infinity in some": lambda lines, _: [
        line | scores_of(line, -math.inf if n % 9 == 0 else -3.25) for n, line in enumerate(lines)
    ],
    "all likelihoods minus infinity in one": lambda lines, _: [
        line | scores_of(line, -math.inf, -math.inf if n == 5 else -1.0) for n, line in enumerate(lines)
    ],
    "no number among likelihoods": lambda lines, _: [
        line | scores_of(line, math.nan if n == 5 else -3.0) for n, line in enumerate(lines)
    ],
    "equal likelihoods": each(lambda line: scores_of(line, -1.0)),
    "three filters": lambda lines, _: [
        line | {"filter": name, "filtered_resps": [answer(line)], "exact_match": score(line)}
        for line in lines
        for name, answer, score in (
            ("get_response", lambda line: line["filtered_resps"][0], lambda line: line["exact_match"]),
            ("strict", lambda _: "[invalid]", lambda _: 0.0),
            ("lenient", lambda line: LETTERS[right_in(line)], lambda _: 1.0),
        )
    ],
    "the other filter first": lambda lines, _: [
        line | change
        for line in lines
        for change in ({"filter": "strict", "filtered_resps": ["[invalid]"], "exact_match": 0.0}, {})
    ],
    "two filters without names": lambda lines, _: [
        {key: value for key, value in line.items() if key != "filter"} for line in lines for _ in range(2)
    ],
    # Its overall score counts them twice.
    "a sample twice": lambda lines, _: [*lines, *lines[3:8]],
    "a sample twice with another answer": lambda lines, _: [
        *lines,
        *(line | {"filtered_resps": [LETTERS[(chosen_in(line) + 1) % 4]]} for line in lines[3:8]),
    ],
    "every sample twice": lambda lines, _: [*lines, *lines],
    "another key in one": some(lambda line: {"target": LETTERS[(right_in(line) + 1) % 4]}, COUNT),
    "another score in one": some(lambda line: {"exact_match": 1 - line["exact_match"]}, COUNT),
    "half a point in one": some(lambda _: {"exact_match": 0.5}, COUNT),
    "scores as texts": each(lambda line: {"exact_match": str(line["exact_match"])}),
    "no scores": lambda lines, _: [
        {key: value for key, value in line.items() if key != "exact_match"} for line in lines
    ],
    "answers with marks": each(lambda line: {"filtered_resps": [f"**{line['filtered_resps'][0]}**."]}),
    "answers with other brackets": each(lambda line: {"filtered_resps": [f"【{line['filtered_resps'][0]}】"]}),
    "answers in Cyrillic": each(
        lambda line: {"filtered_resps": ["АВСD"[chosen_in(line)] if chosen_in(line) < 4 else "E"]}
    ),
    "nothing extracted in some": some(lambda _: {"filtered_resps": ["[invalid]"], "exact_match": 0.0}),
    "null extracted in some": some(lambda _: {"filtered_resps": [None], "exact_match": 0.0}),
    "several letters in some": some(lambda _: {"filtered_resps": ["A, B"], "exact_match": 0.0}),
    "a letter beyond the options": some(lambda _: {"filtered_resps": ["Z"], "exact_match": 0.0}),
    "several right options": some(lambda _: {"target": [0, 1]}),
    "no target": each(lambda _: {"target": None}),
    # Metrics of MMMU, PISA and BBQ search the whole text; `exact_match` compares it.
    "the metric searches the text": each(lambda line: {"filtered_resps": line["resps"][0], "filter": "none"}),
    "the metric compares the text": each(
        lambda line: {
            "filtered_resps": line["resps"][0],
            "exact_match": float(line["resps"][0][0] == line["target"]),
        }
    ),
    "the metric searches texts without an answer": lambda lines, _: [
        line | {"filtered_resps": ["I cannot choose any of these."] if n % 9 == 0 else line["resps"][0]}
        for n, line in enumerate(lines)
    ],
    "a metric of its own": lambda lines, _: [judged(line, line["exact_match"]) for line in lines],
    "a metric of its own contradicts": lambda lines, _: [judged(line, 1.0) for line in lines],
    "the question under GPQA's name": each(
        lambda line: {"doc": {"Question": line["doc"]["question"], "choices": line["doc"]["choices"]}}
    ),
    "every searched text is scored as right": each(
        lambda line: {"filtered_resps": line["resps"][0], "exact_match": 1.0}
    ),
}


def harness_log(folder: Path, change: Callable[[Lines, Log], Lines], log: Log) -> Path:
    found = EVERY_WRITER["lm-evaluation-harness"](log, folder)
    path = log_in(found)
    lines = change([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()], log)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (results,) = found.glob("results_*.json")
    document = json.loads(results.read_text(encoding="utf-8"))
    metric = "acc" if "acc" in lines[0] else "exact_match"
    scores = [line.get(metric) for line in lines if line.get("filter") == lines[0].get("filter")]
    mean_score = sum(map(float, scores)) / len(scores) if None not in scores else log.accuracy
    for found_scores in document["results"].values():
        found_scores |= {f"{metric},{lines[0].get('filter', 'none')}": mean_score}
    results.write_text(json.dumps(document), encoding="utf-8")
    return found


def read_or_refused(folder: Path, format_: str, log: Log) -> Both | None:
    """Return both readings of a log, or None if the import refused it."""
    try:
        return both(folder, format_, log)
    except IngestError:
        return None


REFUSED = (
    *("two filters without names", "a sample twice with another answer", "another key in one", "another score in one"),
    *("half a point in one", "several right options", "answers in Cyrillic", "equal likelihoods"),
    *("no number among likelihoods", "a sample twice", "all likelihoods minus infinity in one"),
    *("every searched text is scored as right", "a metric of its own contradicts"),
)


CHANGED = (
    *("the other filter first", "nothing extracted in some", "null extracted in some", "several letters in some"),
    *("a letter beyond the options", "all likelihoods minus infinity in one", "equal likelihoods"),
    "the metric compares the text",
)
"""Cases whose answers differ from the log's."""


@pytest.mark.parametrize("case", HARNESS)
def test_samples_in_odd_forms_are_read_alike_or_refused(tmp_path: Path, case: str) -> None:
    log = clean(len(case), "csqa", COUNT)
    folder = harness_log(tmp_path, HARNESS[case], log)
    read = read_or_refused(folder, "lm-evaluation-harness", log)
    if read is None:
        assert case in REFUSED
        return
    assert read.audited == read.imported
    assert read.audited_keys == read.imported_keys
    if case not in CHANGED:
        assert read.accuracy == pytest.approx(log.accuracy)


def rewritten(path: Path, change: Callable[[Any], Any]) -> None:
    """Change the only log at `path`, in whatever form its program stores it."""
    file = log_in(path)
    if file.suffix == ".eval":
        with zipfile.ZipFile(file) as archive:
            contents = {name: json.loads(archive.read(name)) for name in archive.namelist()}
        contents = change(contents)
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in contents.items():
                archive.writestr(name, json.dumps(content))
    elif file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(change(pq.read_table(file).to_pylist())), file)
    elif file.suffix == ".jsonl":
        lines = change([json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()])
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    else:
        file.write_text(json.dumps(change(json.loads(file.read_text(encoding="utf-8")))), encoding="utf-8")


def with_subjects(format_: str) -> Callable[[Any], Any]:
    """Return a function that gives each record of a log a subject, the same one for three of five."""

    def change(document: Any) -> Any:
        if format_ == "inspect":
            names = [name for name in document if name.startswith("samples/")]
            for number, name in enumerate(names):
                document[name]["metadata"] = {"subject": SUBJECTS[number % 5], "level": number}
            return document
        records = document["request_states"] if format_ == "helm" else document
        records = list(records.values()) if isinstance(records, dict) else records
        for number, record in enumerate(records):
            subject = SUBJECTS[number % 5]
            if format_ == "helm":
                record["instance"]["sub_split"] = subject
            elif format_ == "lighteval":
                record["doc"]["specific"] = {"subject": subject}
            elif format_ == "every-eval-ever":
                record["metadata"]["subject"] = subject
            elif format_ == "opencompass":
                record["subject"] = subject
            else:
                record["doc"]["subject"] = subject
        return document

    return change


def macro(log: Log) -> float:
    """Return the mean over subjects of the mean accuracy."""
    groups: dict[str, list[float]] = {}
    for number, item in enumerate(log.items):
        groups.setdefault(SUBJECTS[number % 5], []).append(item.score)
    return sum(sum(scores) / len(scores) for scores in groups.values()) / len(groups)


SUBJECT_FORMATS = ("lm-evaluation-harness", "inspect", "helm", "lighteval", "opencompass", "every-eval-ever")
"""Formats to whose records `with_subjects` adds a subject."""


@pytest.mark.parametrize("decimals", [3, 17])
@pytest.mark.parametrize("format_", SUBJECT_FORMATS)
def test_a_mean_over_subjects_is_recognised(tmp_path: Path, format_: str, decimals: int) -> None:
    log = clean(5, "csqa", COUNT)
    assert abs(macro(log) - log.accuracy) > 0.005
    stated_log = replace(log, stated=round(macro(log), decimals))
    folder = EVERY_WRITER[format_](stated_log, tmp_path)
    rewritten(folder, with_subjects(format_))
    assert [finding.kind.name for finding in audit([folder]).findings if finding.severity == "error"] == []
    assert both(folder, format_, stated_log).accuracy == pytest.approx(log.accuracy)


@pytest.mark.parametrize("format_", SUBJECT_FORMATS)
def test_a_score_that_is_no_mean_over_a_field_is_refused(tmp_path: Path, format_: str) -> None:
    log = clean(5, "csqa", COUNT)
    stated_log = replace(log, stated=log.accuracy + 0.0125)
    folder = EVERY_WRITER[format_](stated_log, tmp_path)
    rewritten(folder, with_subjects(format_))
    assert "stated-accuracy-differs" in {finding.kind.name for finding in audit([folder]).findings}
    with pytest.raises(IngestError, match="as we read them give"):
        both(folder, format_, stated_log)


def extracted(value: Any) -> dict[str, Any]:
    return {"answer_attribution": [{"extracted_value": value, "is_terminal": True}]}


def letter_of(line: dict[str, Any]) -> str:
    return str(line["answer_attribution"][0]["extracted_value"])


def change_input(line: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"input": line["input"] | more}


EVER: dict[str, Callable[[Lines, Log], Lines]] = {
    "the reference is a text": each(
        lambda line: change_input(
            line, reference=[line["input"]["choices"][LETTERS.index(line["input"]["reference"][0])]]
        )
    ),
    "the reference is in no list": each(lambda line: change_input(line, reference=line["input"]["reference"][0])),
    "numbers from 0": each(lambda line: extracted(LETTERS.index(letter_of(line)))),
    "two references of one option": each(
        lambda line: change_input(line, reference=[line["input"]["reference"][0], f"({line['input']['reference'][0]})"])
    ),
    "no reference": each(lambda line: change_input(line, reference=[])),
    "references of two options": some(lambda line: change_input(line, reference=["A", "B"])),
    "small letters": each(lambda line: extracted(letter_of(line).lower())),
    "digits from 0": each(lambda line: extracted(str(LETTERS.index(letter_of(line))))),
    "nothing extracted": some(
        lambda _: extracted("") | {"output": {"raw": ["B"]}, "evaluation": {"score": 0.0, "is_correct": False}}
    ),
    "no attribution": each(lambda line: {"answer_attribution": [], "output": {"raw": [letter_of(line)]}}),
    "the output is an option": each(
        lambda line: {
            "answer_attribution": None,
            "output": {"raw": [line["input"]["choices"][LETTERS.index(letter_of(line))]]},
        }
    ),
    "only a score": each(lambda line: {"evaluation": {"score": line["evaluation"]["score"]}}),
    "two texts": each(lambda line: {"output": {"raw": [line["output"]["raw"][0], "It depends."]}}),
    "no numbers of epochs": each(lambda _: {"metadata": {}}),
    "two results of each prompt": lambda lines, _: [
        line | {"evaluation_result_id": name} for line in lines for name in ("accuracy", "f1")
    ],
    "a result for each part": lambda lines, _: [
        line | {"evaluation_result_id": f"part {n % 3}"} for n, line in enumerate(lines)
    ],
    "a record twice": lambda lines, _: [*lines, *lines[3:8]],
    "a record twice with another answer": lambda lines, _: [
        *lines,
        *(line | extracted("ABCDE"[(LETTERS.index(letter_of(line)) + 1) % 5]) for line in lines[3:8]),
    ],
    "an unanswered prompt": some(lambda _: {"error": "no connection"}, COUNT),
    "another key in one": some(
        lambda line: change_input(line, reference=["ABCDE"[(LETTERS.index(line["input"]["reference"][0]) + 1) % 5]]),
        COUNT,
    ),
    "another score in one": some(
        lambda line: {"evaluation": {"score": 1 - line["evaluation"]["score"], "is_correct": None}}, COUNT
    ),
}
EVER_REFUSED = (
    *("references of two options", "a record twice with another answer", "another key in one", "another score in one"),
    *("a record twice", "nothing extracted"),
)


@pytest.mark.parametrize("case", EVER)
def test_records_in_odd_forms_are_read_alike_or_refused(tmp_path: Path, case: str) -> None:
    log = clean(len(case), "csqa", COUNT)
    folder = EVERY_WRITER["every-eval-ever"](log, tmp_path)
    rewritten(folder, lambda lines: EVER[case](lines, log))
    read = read_or_refused(folder, "every-eval-ever", log)
    if read is None:
        assert case in EVER_REFUSED
        return
    assert (read.audited, read.audited_keys) == (read.imported, read.imported_keys) or case == "no reference"
    if case != "an unanswered prompt":
        assert read.accuracy == pytest.approx(log.accuracy)


def choice_of(sample: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = sample["scores"]["choice"]
    return found


def with_choice(sample: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {"scores": {"choice": choice_of(sample) | changed}}


def likely(row: dict[str, Any], low: float) -> dict[str, Any]:
    """Return the members of a row of lighteval whose choices were scored."""
    key, count = row["doc"]["gold_index"], len(row["doc"]["choices"])
    best = key if row["metric"]["em"] else (key + 1) % count
    values = [-1.0 if at == best else low for at in range(count)]
    response = row["model_response"] | {"logprobs": values, "text": [], "text_post_processed": []}
    return {"model_response": response, "metric": {"acc": row["metric"]["em"]}}


ONE = 3
"""The record that is changed if only one is."""

Record = dict[str, Any]
OTHERS: dict[tuple[str, str], Callable[[Record], Record]] = {
    ("inspect", "the target is in a list"): lambda at: {"target": [at["target"]]},
    ("inspect", "the target is a small letter"): lambda at: {"target": at["target"].lower()},
    ("inspect", "the target is a text"): lambda at: {"target": at["choices"][LETTERS.index(at["target"])]},
    ("inspect", "the answer is a small letter"): lambda at: with_choice(at, answer=choice_of(at)["answer"].lower()),
    ("inspect", "the answer is a text"): lambda at: with_choice(
        at, answer=at["choices"][LETTERS.index(choice_of(at)["answer"])]
    ),
    ("inspect", "scores are numbers"): lambda at: with_choice(at, value=float(choice_of(at)["value"] == "C")),
    ("inspect", "another scorer, too"): lambda at: {
        "scores": {"other": {"value": "I", "answer": "Z"}, "choice": choice_of(at)}
    },
    ("inspect", "the input is turns"): lambda at: {"input": [{"role": "user", "content": at["input"]}]},
    ("inspect", "one is cancelled"): lambda _: {"scores": {}},
    ("inspect", "one has two targets"): lambda _: {"target": ["A", "B"]},
    ("inspect", "one has no number as score"): lambda at: with_choice(at, value=math.nan),
    ("inspect", "one is scored otherwise"): lambda at: with_choice(at, value="CI"[choice_of(at)["value"] == "C"]),
    ("opencompass", "gold is in a list"): lambda at: {"gold": [at["gold"]]},
    ("opencompass", "gold is a small letter"): lambda at: {"gold": at["gold"].lower()},
    ("opencompass", "gold is an index"): lambda at: {"gold": LETTERS.index(at["gold"])},
    ("opencompass", "the prompt is turns"): lambda at: {
        "origin_prompt": [{"role": "HUMAN", "prompt": at["origin_prompt"]}]
    },
    ("opencompass", "texts are nested"): lambda at: {"prediction": {"prediction": at["prediction"], "rollout": {}}},
    ("opencompass", "one has another gold"): lambda at: {"gold": "AB"[at["gold"] == "A"]},
    ("lighteval", "gold is in a list"): lambda at: {"doc": at["doc"] | {"gold_index": [at["doc"]["gold_index"]]}},
    ("lighteval", "choices begin with blanks"): lambda at: {
        "doc": at["doc"] | {"choices": [f" {text}" for text in at["doc"]["choices"]]}
    },
    ("lighteval", "choices in brackets"): lambda at: {
        "doc": at["doc"] | {"choices": [f"({letter})" for letter in at["doc"]["choices"]]}
    },
    ("lighteval", "choices are small letters"): lambda at: {
        "doc": at["doc"] | {"choices": [letter.lower() for letter in at["doc"]["choices"]]}
    },
    ("lighteval", "letters are one text"): lambda at: {"doc": at["doc"] | {"choices": "".join(at["doc"]["choices"])}},
    ("lighteval", "log-probabilities"): lambda at: likely(at, -5.0),
    ("lighteval", "minus infinity"): lambda at: likely(at, -math.inf),
    ("lighteval", "one is scored otherwise"): lambda at: {"metric": {"em": 1 - at["metric"]["em"]}},
    ("helm", "one has two right options"): lambda at: {
        "instance": at["instance"]
        | {"references": [found | {"tags": ["correct"]} for found in at["instance"]["references"]]}
    },
    ("helm", "one has no completion"): lambda at: {"result": at["result"] | {"completions": []}},
    ("helm", "texts have blanks around"): lambda at: {
        "result": at["result"]
        | {"completions": [found | {"text": f" {found['text']}\n"} for found in at["result"]["completions"]]}
    },
}
REFUSED_OTHERS = ("two targets", "no number", "scored otherwise", "another gold", "two right options", "no completion")


@pytest.mark.parametrize(("format_", "case"), OTHERS)
def test_odd_records_of_other_formats_are_read_alike_or_refused(tmp_path: Path, format_: str, case: str) -> None:
    def change(document: Any) -> Any:
        found = document["request_states"] if format_ == "helm" else document
        keys = range(len(found)) if isinstance(found, list) else [key for key in found if key != "header.json"]
        for number, key in enumerate(keys):
            if number == ONE or not case.startswith("one "):
                found[key] |= OTHERS[format_, case](found[key])
        return document

    log = clean(7, "csqa", 24)
    folder = EVERY_WRITER[format_](log, tmp_path)
    rewritten(folder, change)
    read = read_or_refused(folder, format_, log)
    if read is None:
        assert case.removeprefix("one has ").removeprefix("one is ") in (*REFUSED_OTHERS, "no number as score")
        return
    assert (read.audited, read.audited_keys) == (read.imported, read.imported_keys)
    cancelled = case == "one is cancelled"
    scores = [item.score for number, item in enumerate(log.items) if not (cancelled and number == ONE)]
    assert read.accuracy == pytest.approx(sum(scores) / len(scores))


def test_the_same_request_of_helm_twice_counts_once(tmp_path: Path) -> None:
    log = clean(7, "csqa", 24)
    folder = EVERY_WRITER["helm"](log, tmp_path)
    rewritten(folder, lambda found: found | {"request_states": [*found["request_states"], found["request_states"][3]]})
    read = both(folder, "helm", log)
    assert read.audited == read.imported == [item.recorded for item in log.items]
