"""Results that lm-evaluation-harness and Every Eval Ever write to a file next to a log."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import read_lines
from registry.logs.documents import load_json
from registry.logs.format import EVERY_EVAL_EVER, HARNESS

RESULT: Final = "evaluation_result_id"
METRICS: Final = ("acc", "exact_match", "em", "score")
"""Metrics of lm-evaluation-harness that mark an answer as right or wrong."""


def score_of_sample(sample: Mapping[str, Any]) -> tuple[str, float | None]:
    """Return the metric that marks a sample's answer as right or wrong, and its value; None without such a value.

    It is a known metric, or else the sample's only one, provided that it does not normalise log-likelihoods.
    """
    for name in METRICS:
        value = sample.get(name)
        if isinstance(value, int | float) and 0 <= value <= 1:
            return name, float(value)
    known = next((name for name in METRICS if name in sample), "")
    named = sample.get("metrics")
    only = named[0] if isinstance(named, list) and len(named) == 1 else None
    if known or not isinstance(only, str) or "norm" in only or only.startswith("acc_"):
        return known, None
    value = sample.get(only)
    return only, float(value) if isinstance(value, int | float) and value in (0, 1) else None


def task_and_date(path: Path) -> tuple[str, str]:
    """Return the task and the date in the name of a samples file of lm-evaluation-harness."""
    name = path.name.removesuffix(".gz").removesuffix(".jsonl").removeprefix("samples_")
    task, _, date = name.rpartition("_")
    return task or date, date


def harness_results(path: Path) -> Path:
    """Return the path of the results that belong to a samples file."""
    return path.with_name(f"results_{task_and_date(path)[1]}.json")


def harness_overall(path: Path, results: Any, first: Mapping[str, Any]) -> float | None:
    """Return a task's score in its results, by the metric and the filter of a sample; None if it is missing."""
    scores = members_of(members_of(results, "results"), task_and_date(path)[0])
    metric, _ = score_of_sample(first)
    return finite(scores.get(f"{metric},{first.get('filter', 'none')}"))


def every_eval_ever_results(path: Path) -> Path | None:
    """Return the path of the evaluation to which a file of single answers belongs; None if its name gives none."""
    sibling = path.with_name(path.name.removesuffix(".gz").replace("_samples.jsonl", ".json"))
    return None if sibling == path else sibling


def every_eval_ever_overall(results: Any, first: Mapping[str, Any]) -> float | None:
    """Return the score of the result to which a record belongs; None if it is missing."""
    listed = results.get("evaluation_results") if isinstance(results, dict) else None
    for result in listed if isinstance(listed, list) else []:
        if isinstance(result, dict) and result.get(RESULT) == first.get(RESULT):
            return finite(members_of(result, "score_details").get("score"))
    return None


def overall_beside(path: Path, form: str) -> float | None:
    """Return the overall score in a file next to a log of lines; None if there is none, or it has several results."""
    if form == HARNESS:
        file: Path | None = harness_results(path)
    else:
        file = every_eval_ever_results(path) if form == EVERY_EVAL_EVER else None
    if file is None or not file.is_file():
        return None
    results, lines = load_json(file, storable=False), read_lines(path, constants=True)
    _, first = next(lines)
    if form == HARNESS:
        overall = harness_overall(path, results, first)
    elif any(line.get(RESULT) != first.get(RESULT) or line.get("error") for _, line in lines) or first.get("error"):
        return None  # the score is over other answers: one of several results, or prompts without an answer
    else:
        overall = every_eval_ever_overall(results, first)
    return overall if overall is not None and 0 <= overall <= 1 else None


def members_of(value: Any, key: str) -> Mapping[str, Any]:
    """Return the object value[key]; empty if there is none."""
    member = value.get(key) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}


def finite(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
