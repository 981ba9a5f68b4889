"""Explain why models have no rank on a board, and compute the accuracy of guessing on it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from sqlalchemy import Double, cast, func, select, type_coerce
from sqlalchemy.orm import Session

from registry.boards.definition import BoardDefinition, canonical_variants
from registry.boards.store import column_entries
from registry.lookups import revisions_named
from registry.metrics import METRICS
from registry.proposals import propose
from registry.queue.evaluations import choose_again
from registry.scores.asked import ASKED, PROPOSED, asking, describe_orders, one_order, why_undefined
from registry.tables import BoardEntry, BoardSnapshot, Evaluation, Question

_ANY_ORDERS: Final = ("imported",)
"""Kinds of variants made of recorded orders: another import of the same set may have more orders."""


def list_unranked(session: Session, snapshot: BoardSnapshot) -> list[dict[str, Any]]:
    """Return the models of a snapshot that have no rank in some column, with the reason and commands that help.

    Each has `model`, `revision`, `column` (None for all columns), `reason` and `commands`, which may be empty. A model
    that lacks a part of the suite is in no ranking; a model with a single order is not ranked by metrics that need two.
    """
    document = snapshot.document
    kinds = _read_kinds(session, document)
    prompting = _read_prompting(session, document)
    unranked: list[dict[str, Any]] = []
    for row in sorted(document["rows"], key=lambda row: (row["model"].casefold(), row["revision"])):
        name, number = row["model"], row["revision"]
        who = {"model": name, "revision": number, "kind": kinds.get((name, number))}
        evaluations = row["evaluations"]
        missing = [entry for entry, item in zip(document["entries"], evaluations, strict=True) if item is None]
        if missing:
            unranked.append(_describe(who, None, lacking(missing), _propose_commands(document, who, missing)))
            continue
        for column in document["columns"]:
            behind = list(_list_entries(document, column, evaluations))
            in_one = [
                (entry, prompting[item]) for entry, item in behind if item in prompting and one_order(prompting[item])
            ]
            if METRICS[column["metric"]].needs_two_prompts and in_one:
                entry, facts = in_one[0]
                any_orders = entry["variants"].partition(":")[0] in _ANY_ORDERS
                where = f"; {describe_orders(facts)} of {entry['benchmark']} ({entry['variants']})"
                reason = why_undefined(column["metric"], facts).partition(";")[0] + where
                proposed = entry["variants"] if any_orders else PROPOSED
                unranked.append(
                    _describe(
                        who,
                        column["name"],
                        reason,
                        [asking(who | entry | {"lists_options": facts["lists_options"]}, proposed)],
                    )
                )
            elif row["values"][column["name"]]["value"] is None:
                unranked.append(_describe(who, column["name"], "Undefined on part of the suite", []))
    return unranked


def _describe(who: Mapping[str, Any], column: str | None, reason: str, commands: list[str]) -> dict[str, Any]:
    kept = {"model": who["model"], "revision": who["revision"]}
    return kept | {"column": column, "reason": reason, "commands": commands}


def lacking(missing: Iterable[Mapping[str, Any]]) -> str:
    """Return the reason why a model that lacks these entries of a board has no rank."""
    parts = [f"{entry['benchmark']} ({entry['variants']}, {entry['protocol']})" for entry in missing]
    return f"Not asked: {', '.join(dict.fromkeys(parts))}"


def _propose_commands(document: Mapping[str, Any], who: dict[str, Any], missing: Iterable[dict[str, Any]]) -> list[str]:
    if who["kind"] == "external":
        return list(dict.fromkeys(asking(who | entry, entry["variants"]) for entry in missing))
    return [propose("evaluations submit", "--model", f"{who['model']}@{who['revision']}", "--board", document["board"])]


def _list_entries(
    document: Mapping[str, Any], column: Mapping[str, Any], evaluations: Iterable[Mapping[str, Any] | None]
) -> Iterable[tuple[dict[str, Any], int]]:
    """Yield the entries that a column covers, each with the number of the evaluation that covers it."""
    wanted = canonical_variants(column["variants"])
    for entry, item in zip(document["entries"], evaluations, strict=True):
        if item and entry["variants"] == wanted and column.get("protocol") in (None, entry["protocol"]):
            yield entry, item["evaluation"]


def _read_kinds(session: Session, document: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    names = {row["model"] for row in document["rows"]}
    return {key: row.kind for key, row in revisions_named(session, names).items()}


def _read_prompting(session: Session, document: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Map each evaluation to the columns that describe its protocol and variants."""
    ids = {item["evaluation"] for row in document["rows"] for item in row["evaluations"] if item}
    query = select(Evaluation.id, *(getattr(Evaluation, name) for name in ASKED)).where(Evaluation.id.in_(ids))
    return {row["id"]: dict(row) for row in session.execute(query).mappings()}


# Guessing


def column_chances(
    definition: BoardDefinition, entries: Sequence[BoardEntry], guessed_of: Callable[[BoardEntry], tuple[float, int]]
) -> dict[str, float]:
    """Map each column of accuracy to the accuracy of guessing: the mean over tasks, with each task's questions pooled.

    guessed_of: returns `compute_guessing` for an entry.
    """
    columns = [item for item in definition.parsed_columns if item.metric == "accuracy"]
    chances = {}
    for column in columns:
        entries_by_task = column_entries("", column, entries)
        tasks = [_pool_chances(map(guessed_of, task_entries)) for task_entries in entries_by_task.values()]
        times = [definition.weights.get(task, 1) for task in entries_by_task]
        if all(task is not None for task in tasks):
            pairs = zip(times, tasks, strict=True)
            chances[column.name] = sum(weight * task for weight, task in pairs if task is not None) / sum(times)
    return chances


def _pool_chances(parts: Iterable[tuple[float, int]]) -> float | None:
    listed = list(parts)
    questions = sum(n for _, n in listed)
    return sum(chance * n for chance, n in listed) / questions if questions else None


def compute_guessing(session: Session, entry: BoardEntry) -> tuple[float, int]:
    """Return the mean of 1 / number of options over an entry's questions, and the number of questions."""
    question_filter = entry.question_filter
    if question_filter.get("sample") is not None:
        questions, _ = choose_again(session, entry.benchmark_version, question_filter)
        return fmean(1 / question.n_options for question in questions), len(questions)
    query = (
        select(Question.n_options)
        .where(Question.benchmark_version_id == entry.benchmark_version_id, ~Question.few_shot)
        .order_by(Question.ordinal)
    )
    if question_filter.get("subjects"):
        query = query.where(Question.subject.in_(question_filter["subjects"]))
    if question_filter.get("options") is not None:
        query = query.where(Question.n_options == question_filter["options"])
    if question_filter.get("limit") is not None:
        query = query.limit(question_filter["limit"])
    options = query.subquery().c.n_options
    mean: Any = select(type_coerce(func.avg(cast(1.0, Double) / options), Double()), func.count(options))
    row = session.execute(mean).one()
    return row[0] or 0.0, row[1]
