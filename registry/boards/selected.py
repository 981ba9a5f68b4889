"""A visitor's selection from a board: its tasks, weights, columns and models, with ranks of their own.

Values, intervals, ranks and tiers are the same as on a board made of the same selection: the same functions compute
them from the same draws. Only boards report changes that would rank their models differently.
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
"""Models × tasks × columns of a selection; each keeps its resamples, 16 KB."""
OF_A_SELECTION: Final = ("columns", "sort", "weights", "models", "complete")
"""Keys of a board's definition that select from its suite."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Models:
    """The rows of a snapshot. whole: for each entry, whether the row has an evaluation of all its questions.

    guessed: for each entry the result of `registry.boards.unranked.compute_guessing`.
    """

    revisions: Sequence[ModelRevision]
    facts: Sequence[ModelFacts]
    whole: Sequence[Sequence[bool]]
    guessed: Sequence[tuple[float, int]]


def models_of(session: Session, snapshot: BoardSnapshot) -> Models:
    """Return the facts about the rows of a snapshot. They change only if a model's description does."""
    evaluation = Evaluation
    columns = evaluation.tokens_per_answer, evaluation.thought_tokens_per_answer
    rows = _rows(session, snapshot, snapshot.board.entries, *columns)
    return Models(
        # Names alone, in no session: they are kept longer than one.
        [ModelRevision(number=row.revision.number, model=Model(name=row.revision.model.name)) for row in rows],
        facts_of_models(session, [(row.revision, row.evaluations) for row in rows]),
        [[one is not None for one in row.evaluations] for row in rows],
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

    columns: loads only these columns of evaluations, if any are given.
    """
    rows = snapshot.document["rows"]
    names = {row["model"] for row in rows}
    query = (
        select(ModelRevision)
        .join(ModelRevision.model)
        .options(contains_eager(ModelRevision.model))
        .where(Model.name.in_(names))
    )
    revisions = {(one.model.name, one.number): one for one in session.scalars(query)}
    places = [entry.ordinal for entry in entries]
    ids = [item["evaluation"] for row in rows for place in places if (item := row["evaluations"][place])]
    behind = select(Evaluation).where(is_in(Evaluation.id, ids))
    if columns:
        behind = behind.options(load_only(*columns, raiseload=True))
    known = {one.id: one for one in session.scalars(behind)}
    return [
        BoardRow(
            revisions[row["model"], row["revision"]],
            [None if item is None else known.get(item["evaluation"]) for item in row["evaluations"]],
        )
        for row in rows
    ]


def narrow_board(board: BoardDefinition, choice: Mapping[str, Any], name: str) -> BoardDefinition:
    """Return the definition of a board with the chosen values of OF_A_SELECTION, under another name.

    Raises UsageError for an invalid choice, or a choice of models on a board that has one itself.
    """
    given = {key: value for key, value in choice.items() if value}
    if board.models is not None and "models" in given:
        raise UsageError(f"board {board.name} takes only some models itself; choose from a board that takes all")
    if "weights" in given:
        out = {task: 0 for task, weight in board.weights.items() if weight == 0}
        given["weights"] = {task: times for task, times in (given["weights"] | out).items() if times != 1}
    if board.sort not in given.get("columns", board.columns) and "sort" not in given:
        given["sort"] = None
    kept = {key: value for key, value in as_document(board).items() if key not in ("submissions", "title", "text")}
    try:
        return BoardDefinition.model_validate(kept | given | {"name": name})
    except ValidationError as error:
        first = error.errors()[0]
        problem = first["msg"].removeprefix("Value error, ")
        place, value = ".".join(map(str, first["loc"])), str(first["input"])[:60]
        said = problem if first["loc"][:1] == ("columns",) or not place else f"{place}={value!r}: {problem}"
        raise UsageError(f"board {board.name}: {said}") from None


def selection_text(snapshot: BoardSnapshot, definition: BoardDefinition) -> str:
    """Return the text whose SHA-256 is a selection's digest: canonical JSON of the snapshot's digest and the choice."""
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
    """Return a selection in the form of a board's snapshot, with ranks, intervals and tiers of the selection alone.

    definition: from `narrow_board`. values: returns the result of `values_of`, perhaps cached. compared: as for
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
    asked = len(document["rows"]) * len(tasks) * len(columns)
    if asked > MOST_VALUES:
        raise UsageError(
            f"{len(document['rows'])} models × {len(tasks)} tasks × {len(columns)} columns are {asked} values; choose "
            f"fewer tasks or columns, so that there are at most {MOST_VALUES}"
        )
    chosen = [
        number
        for number, row in enumerate(document["rows"])
        if (definition.models is None or takes(definition.models, models.facts[number]))
        and any(row["evaluations"][place] is not None for place in places)
    ]
    by_task = [{column.name: values(task, column) for column in columns} for task in tasks]
    whole = [all(models.whole[number][place] for place in places) for number in chosen]
    found, together = standings_over(
        columns,
        [(number, models.revisions[number], complete) for number, complete in zip(chosen, whole, strict=True)],
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
        for number, complete, standings in zip(chosen, whole, found, strict=True)
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
    """Explain why rows have no rank, as `registry.boards.unranked` does for boards."""
    found = []
    for row in rows:
        who = {"model": row["model"], "revision": row["revision"], "commands": []}
        missing = [entry for entry, item in zip(entries, row["evaluations"], strict=True) if item is None]
        if missing:
            found.append(who | {"column": None, "reason": lacking(missing)})
            continue
        for column in columns:
            value = row["values"][column.name]
            if value["rank"] is None:
                found.append(who | {"column": column.name, "reason": "Undefined here"})
    return found
