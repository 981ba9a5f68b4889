"""A visitor's selection of tasks, weights, columns and models from a board, ranked separately.

A board that is defined by the same selection has the same values, intervals, ranks and tiers: the same functions
compute them from the same draws. Only a selection has no report of the changes that would rank its models differently.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute, Session, contains_eager, load_only

from registry.boards.chosen import ModelFacts, facts_of_models, takes
from registry.boards.definition import BoardDefinition, Column, as_document
from registry.boards.snapshots import columns_document
from registry.boards.standings import (
    BoardRow,
    TaskColumn,
    standings_over,
    task_numbers,
    task_standings,
    weights_of,
)
from registry.boards.store import column_entries
from registry.boards.unranked import column_chances, compute_guessing, lacking
from registry.db import is_in
from registry.digests import canonical_json, sha256_text
from registry.errors import UsageError
from registry.statistics.bootstrap import SEED
from registry.tables import BoardEntry, BoardSnapshot, Evaluation, Model, ModelRevision

MOST_VALUES: Final = 12_000
"""Maximum of models × tasks × columns in a selection; the resamples of each take 16 KB."""
OF_A_SELECTION: Final = ("columns", "sort", "weights", "models", "complete")
"""Keys of a board's definition that a selection can change."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Models:
    """The rows of a snapshot.

    whole: for each row and entry, whether the row has an evaluation of all the entry's questions.
    guessed: the result of `registry.boards.unranked.compute_guessing` for each entry.
    """

    revisions: Sequence[ModelRevision]
    facts: Sequence[ModelFacts]
    whole: Sequence[Sequence[bool]]
    guessed: Sequence[tuple[float, int]]


def models_of(session: Session, snapshot: BoardSnapshot) -> Models:
    """Return the facts about the rows of a snapshot, which change only if a model's description does."""
    evaluation = Evaluation
    columns = evaluation.tokens_per_answer, evaluation.thought_tokens_per_answer
    rows = _rows(session, snapshot, snapshot.board.entries, *columns)
    return Models(
        # Only the names, without a session, because they are cached for longer than a session.
        [ModelRevision(number=row.revision.number, model=Model(name=row.revision.model.name)) for row in rows],
        facts_of_models(session, [(row.revision, row.evaluations) for row in rows]),
        [[item is not None for item in row.evaluations] for row in rows],
        [compute_guessing(session, entry) for entry in snapshot.board.entries],
    )


def values_of(session: Session, snapshot: BoardSnapshot, task: str, column: Column) -> TaskColumn:
    """Return a column's values on one task with their resamples, for every row of a snapshot. They never change."""
    entries = [entry for entry in snapshot.board.entries if entry.task == task]
    seed = SEED + task_numbers(snapshot.board)[task]
    return task_standings(session, entries, [column], _rows(session, snapshot, entries), seed)[column.name]


def _rows(
    session: Session, snapshot: BoardSnapshot, entries: Sequence[BoardEntry], *columns: InstrumentedAttribute[Any]
) -> list[BoardRow]:
    """Return the rows with the evaluations that the snapshot names for these entries.

    columns: the only columns of evaluations to load; all by default.
    """
    rows = snapshot.document["rows"]
    names = {row["model"] for row in rows}
    query = (
        select(ModelRevision)
        .join(ModelRevision.model)
        .options(contains_eager(ModelRevision.model))
        .where(Model.name.in_(names))
    )
    revisions = {(record.model.name, record.number): record for record in session.scalars(query)}
    places = [entry.ordinal for entry in entries]
    ids = [item["evaluation"] for row in rows for place in places if (item := row["evaluations"][place])]
    query_evaluations = select(Evaluation).where(is_in(Evaluation.id, ids))
    if columns:
        query_evaluations = query_evaluations.options(load_only(*columns, raiseload=True))
    evaluations = {record.id: record for record in session.scalars(query_evaluations)}
    return [
        BoardRow(
            revisions[row["model"], row["revision"]],
            [None if item is None else evaluations.get(item["evaluation"]) for item in row["evaluations"]],
        )
        for row in rows
    ]


def narrow_board(board: BoardDefinition, choice: Mapping[str, Any], name: str) -> BoardDefinition:
    """Return the definition of a board with the chosen values for the keys in OF_A_SELECTION, under another name.

    Raises UsageError for an invalid choice, or if models are chosen on a board that sets conditions on models itself.
    """
    chosen = {key: value for key, value in choice.items() if value}
    if board.models is not None and "models" in chosen:
        raise UsageError(f"board {board.name} takes only some models itself; choose from a board that takes all")
    if "weights" in chosen:
        left_out = {task: 0 for task, weight in board.weights.items() if weight == 0}
        chosen["weights"] = {task: times for task, times in (chosen["weights"] | left_out).items() if times != 1}
    if board.sort not in chosen.get("columns", board.columns) and "sort" not in chosen:
        chosen["sort"] = None
    unchanged = {key: value for key, value in as_document(board).items() if key not in ("submissions", "title", "text")}
    try:
        return BoardDefinition.model_validate(unchanged | chosen | {"name": name})
    except ValidationError as error:
        first = error.errors()[0]
        problem = first["msg"].removeprefix("Value error, ")
        place, value = ".".join(map(str, first["loc"])), str(first["input"])[:60]
        message = problem if first["loc"][:1] == ("columns",) or not place else f"{place}={value!r}: {problem}"
        raise UsageError(f"board {board.name}: {message}") from None


def selection_text(snapshot: BoardSnapshot, definition: BoardDefinition) -> str:
    """Return the canonical JSON of the snapshot's digest and the choice; its SHA-256 is the selection's digest."""
    document = as_document(definition)
    chosen = {key: document[key] for key in OF_A_SELECTION if document.get(key)}
    return canonical_json({"snapshot": snapshot.digest} | chosen)


def build_selection(
    snapshot: BoardSnapshot,
    definition: BoardDefinition,
    models: Models,
    values: Callable[[str, Column], TaskColumn],
    compared: Collection[str] | None = None,
) -> Row:
    """Return a selection in the form of a board's snapshot, with ranks, intervals and tiers within the selection.

    definition: from `narrow_board`. values: returns the result of `values_of`, perhaps cached. compared: see
    `standings_over`.
    Raises UsageError if a column is not available on all tasks, no task or model is left, or the selection has more
    values than MOST_VALUES.
    """
    document = snapshot.document
    named = list(dict.fromkeys(entry.task for entry in snapshot.board.entries))
    tasks = [task for task in named if definition.weights.get(task, 1)]
    if unknown := [task for task in definition.weights if task not in task_numbers(snapshot.board)]:
        raise UsageError(f"board {snapshot.board.name} has no task {unknown[0][:60]!r}; it has: {', '.join(named)}")
    if not tasks:
        raise UsageError("no task is left; give one of them a weight of 1")
    places = [place for place, entry in enumerate(snapshot.board.entries) if entry.task in tasks]
    entries = [snapshot.board.entries[place] for place in places]
    columns = definition.parsed_columns
    for column in columns:
        column_entries(snapshot.board.name, column, entries)
    needed = len(document["rows"]) * len(tasks) * len(columns)
    if needed > MOST_VALUES:
        raise UsageError(
            f"{len(document['rows'])} models × {len(tasks)} tasks × {len(columns)} columns are {needed} values; choose "
            f"fewer tasks or columns, so that there are at most {MOST_VALUES}"
        )
    chosen = [
        number
        for number, row in enumerate(document["rows"])
        if (definition.models is None or takes(definition.models, models.facts[number]))
        and any(row["evaluations"][place] is not None for place in places)
    ]
    by_task = [{column.name: values(task, column) for column in columns} for task in tasks]
    complete_rows = [all(models.whole[number][place] for place in places) for number in chosen]
    standings_by_row, together = standings_over(
        columns,
        [(number, models.revisions[number], complete) for number, complete in zip(chosen, complete_rows, strict=True)],
        by_task,
        weights_of(definition, tasks),
        compared,
    )
    rows = [
        document["rows"][number]
        | {
            "complete": complete,
            "evaluations": [document["rows"][number]["evaluations"][place] for place in places],
            "values": {name: standing.document() for name, standing in standings.items()},
        }
        for number, complete, standings in zip(chosen, complete_rows, standings_by_row, strict=True)
    ]
    text = selection_text(snapshot, definition)
    return {
        "board": snapshot.board.name,
        "snapshot": snapshot.digest,
        "as_of": snapshot.as_of,
        "selection": text,
        "digest": sha256_text(text),
        "sort": definition.sort_column,
        "columns": columns_document(definition),
        "entries": [document["entries"][place] for place in places],
        "weights": {task: definition.weights.get(task, 1) for task in tasks},
        "bootstrap": document["bootstrap"] | {"confidence": float(document["bootstrap"]["confidence"])},
        "together": {name: one.document() for name, one in together.items()},
        "rows": rows,
        "chance": column_chances(definition, entries, lambda entry: models.guessed[entry.ordinal]),
        "unranked": _explain_unranked(rows, [document["entries"][place] for place in places], columns),
    }


def _explain_unranked(rows: Sequence[Row], entries: Sequence[Row], columns: Sequence[Column]) -> list[Row]:
    """Explain why rows have no rank, in the form of `registry.boards.unranked.list_unranked`."""
    unranked = []
    for row in rows:
        who = {"model": row["model"], "revision": row["revision"], "commands": []}
        missing = [entry for entry, item in zip(entries, row["evaluations"], strict=True) if item is None]
        if missing:
            unranked.append(who | {"column": None, "reason": lacking(missing)})
            continue
        for column in columns:
            value = row["values"][column.name]
            if value["rank"] is None:
                unranked.append(who | {"column": column.name, "reason": "Undefined here"})
    return unranked
