"""A board's values recomputed from the rows beside it, by the definitions in Python: no view, no registry.

Values and ranks are. What a bootstrap draws, or what rests on more than the rows that are there, is said not to be.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from registry.boards.definition import canonical_variants
from registry.metrics import METRICS
from registry.metrics.averaging import MeanOverQuestions, mean_of_defined, over_tasks
from registry.metrics.entry import Metric
from registry.metrics.outcome import VariantOutcome, as_asked
from registry.prompting.prompts import PromptKeys
from registry.statistics.competition_ranks import ranks

TOLERANCE: Final = 1e-9
Values = dict[str, float | None]
"""Metric to a question's value."""


def base_of(metric: Metric) -> dict[str, Any]:
    """The metrics whose means a metric is made of, each with its function of a question; none for other metrics."""
    if isinstance(metric.averaging, MeanOverQuestions):
        return {metric.name: metric.averaging.function}
    two = metric.of_two_means
    return {} if two is None else dict(two.of)


def functions_of(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Every function of a question that the columns of a board need."""
    found: dict[str, Any] = {}
    for column in snapshot["columns"]:
        if column["metric"] in METRICS:
            found |= base_of(METRICS[column["metric"]])
    return found


def outcomes_of(
    rows: Iterable[Mapping[str, Any]], keys: PromptKeys, answer: int, lengths: Mapping[int, int], repeats: int | None
) -> list[VariantOutcome]:
    """The outcomes of a question's rows. lengths: option to bytes of its text. repeats: as for `as_asked`.

    What the rows say of which prompts are the same is not taken from them: no seal covers it, and it can be made again.
    """
    outcomes = [
        VariantOutcome(
            variant=row["variant"],
            option=row["chosen_option"],
            answer=answer,
            order=tuple(row["shown"]),
            probabilities=_tuple(row["label_probabilities"]),
            logprobs=_tuple(row["label_logprobs"]),
            logprobs_without_question=_tuple(row["logprobs_without_question"]),
            option_bytes=tuple(lengths.get(option, 1) for option in row["shown"]),
            original=row["unchanged"],
            question_shown=row["question_shown"],
            own_options=row["own_options"],
            prompt=keys.of(keys.recorded(row["variant"], tuple(row["shown"]))),
        )
        for row in rows
    ]
    return as_asked(outcomes, repeats)


def _tuple(values: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values)


def check_numbers(
    snapshot: Mapping[str, Any], values: Mapping[str, Sequence[Values]], documents: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], list[str], int]:
    """What is wrong with a board's values and ranks, what was not recomputed, and how many values were.

    values: seal of an evaluation to its questions' values. documents: seal to the evaluation's document.
    """
    problems: list[str] = []
    unchecked: dict[str, None] = {}
    checked = 0
    for column in snapshot["columns"]:
        metric = METRICS.get(column["metric"])
        why = _why_not(column, metric)
        if why is not None or metric is None:
            unchecked[f"column {column['name']}: {why}"] = None
            continue
        for row in snapshot["rows"]:
            standing = row["values"][column["name"]]
            if standing["value"] is None:
                continue
            found = _value(snapshot, column, row, metric, values, documents)
            if isinstance(found, str):
                unchecked[f"column {column['name']} of {row['model']}: {found}"] = None
                continue
            checked += 1
            if found[0] is None or abs(found[0] - standing["value"]) > TOLERANCE or found[1] != standing["n"]:
                problems.append(
                    f"the board says {column['name']} {standing['value']} over {standing['n']} questions of "
                    f"{row['model']}, and the rows give {found[0]} over {found[1]}"
                )
        problems += _check_ranks(snapshot, column, metric)
    return problems, list(unchecked), checked


def _why_not(column: Mapping[str, Any], metric: Metric | None) -> str | None:
    if metric is None:
        return "this version of the program does not know its metric"
    if column.get("errata") is not None:
        return "it is taken under errata"
    if metric.definition_version != column["definition_version"]:
        return "its metric was defined otherwise then"
    return None if base_of(metric) else "its metric is taken over all questions together"


def _value(
    snapshot: Mapping[str, Any],
    column: Mapping[str, Any],
    row: Mapping[str, Any],
    metric: Metric,
    values: Mapping[str, Sequence[Values]],
    documents: Mapping[str, Mapping[str, Any]],
) -> tuple[float | None, int] | str:
    """The value and its number of questions; or why it cannot be recomputed."""
    tasks: dict[str, list[Values]] = {}
    for entry, item in zip(snapshot["entries"], row["evaluations"], strict=True):
        if entry["variants"] != canonical_variants(column["variants"]):
            continue
        if column["protocol"] not in (None, entry["protocol"]):
            continue
        if item is None or item["seal"] not in documents:
            return "an evaluation of it is not there"
        document = documents[item["seal"]]
        if document["evaluation"].get("sampled_for") or document["evaluation"].get("stopped_for"):
            return "its questions were not all asked in full"
        if document["specification"]["questions"] != entry["question_filter"]:
            return "it counts a part of the questions that were asked"
        tasks.setdefault(entry["task"], []).extend(values[item["seal"]])
    means, names, count = [], list(base_of(metric)), 0
    for questions in tasks.values():
        both = [one for one in questions if all(one[name] is not None for name in names)]
        means.append([mean_of_defined(one[name] for one in both)[0] for name in names])
        count += len(both)
    if not means or any(mean is None for of_task in means for mean in of_task):
        return None, count
    weights = [snapshot.get("weights", {}).get(task, 1) for task in tasks]
    return over_tasks(metric.of_two_means, means, weights), count


def _check_ranks(snapshot: Mapping[str, Any], column: Mapping[str, Any], metric: Metric) -> list[str]:
    standings = [(row["model"], row["values"][column["name"]]) for row in snapshot["rows"] if row["complete"]]
    known = [(model, standing) for model, standing in standings if standing["value"] is not None]
    expected = ranks([standing["value"] for _, standing in known], metric.better)
    return [
        f"the board ranks {model} {standing['rank']} by {column['name']}, and its value makes it {rank}"
        for (model, standing), rank in zip(known, expected, strict=True)
        if standing["rank"] != rank
    ]
