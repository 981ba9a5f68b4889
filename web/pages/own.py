"""Visitors' own boards: tasks, weights, columns and models chosen from a board, recomputed on request."""

from typing import Annotated, Any, Final

from flask import Blueprint, current_app, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from pydantic import Field
from sqlalchemy import func, select
from sqlalchemy.orm.attributes import set_committed_value

from registry.boards.definition import BoardDefinition
from registry.boards.reading import rows_in_order, snapshot_as_of
from registry.boards.store import board_definition, import_board
from registry.boards.ways import FactsBehind, facts_behind, way_of, ways_of
from registry.db import write_session
from registry.errors import QueueError, UsageError
from registry.fields import Between, OneOf
from registry.metrics import METRICS
from registry.names import check_name
from registry.people import accounts
from registry.schema.selectables import Row
from registry.tables import Board, BoardSnapshot
from registry.tables.accounts import AuditEvent
from web.pages.boards import (
    addresses_of_tasks,
    find_shown_board,
    find_shown_snapshot,
    paging_of_models,
    standings_context,
)
from web.serving import page_cache
from web.serving.cache import OfSealed
from web.serving.responses import session
from web.urls import parameters
from web.urls.parameters import MAX_ID, Digest, Name, Query, Text, YesOrNo
from web.who.identity import engine, limit_rate, viewer

blueprint = Blueprint("own", __name__)

SELECTIONS: Final = "60 per minute"
"""Most selections that a client may have computed."""
MOST_SAVED: Final = 20
"""Most boards that an account may save without the right to maintain."""
SAVED: Final = "board.save"
KEPT_BYTES: Final = 200 * 2**20
"""Most memory for cached values and resamples of all boards; the last ones are always cached."""

_models: Final[OfSealed[Any]] = OfSealed(16)
_documents: Final[OfSealed[Row]] = OfSealed(16)
_values: Final[OfSealed[Any]] = OfSealed(KEPT_BYTES, lambda found: 16_000 * len(found.standings))
_facts: Final[OfSealed[FactsBehind]] = OfSealed(16)


class Chosen(Query):
    """A visitor's choices from a board; anything not chosen is as on the board."""

    column: Annotated[tuple[Text, ...], Field(max_length=20, description="Columns, such as accuracy@cyclic.")] = ()
    sort: Text | None = Field(None, description="The column that models are ranked by.")
    weight: Annotated[
        tuple[Text, ...], Field(max_length=1000, description="TASK:N, how much a task counts; 0 leaves it out.")
    ] = ()
    model: Annotated[tuple[Name, ...], Field(max_length=1000, description="Only these models.")] = ()
    family: Annotated[tuple[Text, ...], Field(max_length=100, description="Only of these families.")] = ()
    developer: Annotated[tuple[Text, ...], Field(max_length=100, description="Only by these developers.")] = ()
    licence: Annotated[tuple[Text, ...], Field(max_length=100, description="Only under these licences.")] = ()
    openness: Annotated[str, OneOf(("open", "closed"))] | None = Field(
        None, description="Only models whose weights anyone may download, or those whose weights nobody may."
    )
    parameters_from: Annotated[int, Between(0, MAX_ID)] | None = Field(None, description="Parameters, at least.")
    parameters_to: Annotated[int, Between(0, MAX_ID)] | None = Field(None, description="Parameters, at most.")
    released_from: Text | None = Field(None, description="Released on this day or later.")
    released_to: Text | None = Field(None, description="Released on this day or earlier.")
    cost_to: Text | None = Field(None, description="What all of a model's answers on the board cost, at most.")
    thinking: YesOrNo | None = Field(None, description="Only models whose answers have thoughts, or have none.")
    snapshot: Digest | None = Field(None, description="The snapshot to choose from; the newest without one.")

    @property
    def choice(self) -> Row:
        """Return the chosen keys of a board's definition."""
        plain = (
            "openness",
            "parameters_from",
            "parameters_to",
            "released_from",
            "released_to",
            "cost_to",
        )
        models: Row = {key: getattr(self, key) for key in plain}
        models |= {"names": self.model, "families": self.family, "developers": self.developer}
        models |= {"licences": self.licence, "thinking": None if self.thinking is None else self.thinking == "yes"}
        return {
            "columns": self.column,
            "sort": self.sort,
            "weights": dict(map(_weight, self.weight)),
            "models": {key: value for key, value in models.items() if value not in (None, ())},
        }

    @property
    def arguments(self) -> Row:
        """Return the query string's arguments for these choices."""
        return {key: value for key, value in self.model_dump(mode="json").items() if value not in (None, [])}


def _weight(text: str) -> tuple[str, int]:
    task, colon, number = text.rpartition(":")
    if not colon or not number.isdecimal() or not number.isascii() or len(number) > 4:
        raise UsageError(f"weight={parameters.shorten(text)}: give TASK:N with a whole number, such as medqa:2")
    return task, int(number)


def build_selected(
    board: Board, chosen: Chosen, *, all_compared: bool = True
) -> tuple[Row, BoardSnapshot, BoardDefinition]:
    """Return a selection's document, its snapshot, and its definition.

    all_compared: compare models in every column, with tiers and neighbours. Otherwise only the ranks of the ranking
    column have intervals, as the page shows them.
    """
    # Imported here, since the website starts without numpy, and most of its pages never need it.
    from registry.boards import selected as computed

    database = session()
    newest = chosen.snapshot is None
    snapshot = snapshot_as_of(database, board.name) if newest else find_shown_snapshot(str(chosen.snapshot))
    if snapshot.board.name != board.name:
        raise UsageError(f"snapshot {chosen.snapshot} is of board {snapshot.board.name}, not of {board.name}")
    definition = computed.narrow_board(board_definition(snapshot.board), chosen.choice, "own")
    audience = f"{viewer().audience}:{snapshot.digest}"
    # It is a megabyte for hundreds of models, never changes and takes long to read.
    set_committed_value(snapshot, "document", _documents.get(audience, lambda: snapshot.document))
    with limit_rate(SELECTIONS, "selections"):
        models = _models_of(snapshot)
    document = computed.build_selection(
        snapshot,
        definition,
        models,
        lambda task, column: _values.get(
            f"{audience}:{task}:{column.name}", lambda: computed.values_of(database, snapshot, task, column)
        ),
        None if all_compared else (definition.sort_column,),
    )
    permanent = chosen.model_copy(update={"snapshot": snapshot.digest}).arguments
    url = url_for("own.own", name=board.name, **permanent)
    return document | {"rows": rows_in_order(document), "url": url}, snapshot, definition


def _models_of(snapshot: BoardSnapshot) -> Any:
    """Return the descriptions of a snapshot's models, cached until the database changes."""
    from registry.boards.selected import models_of

    key = None
    if "shuffleboard_state" in current_app.extensions:  # absent if the website caches no pages
        key = f"{viewer().audience}:{snapshot.digest}:{page_cache.database_state()}"
    return _models.get(key, lambda: models_of(session(), snapshot))


def _read_choices() -> Chosen:
    """Read the choices from the query string. The form has a field for each task's weight, `weight.TASK`."""
    arguments = request.args.copy()
    for key in [key for key in arguments if key.startswith("weight.")]:
        number = arguments.pop(key).strip()
        if number:
            arguments.add("weight", f"{key.removeprefix('weight.')}:{number}")
    return parameters.read(Chosen, arguments, others=True)


def _to_begin_with(board: Board) -> tuple[str, ...]:
    """Return the initial columns: empty for all, or only the ranking column if all would have too many values."""
    from registry.boards.selected import MOST_VALUES

    document = snapshot_as_of(session(), board.name).document
    tasks = {entry["task"] for entry in document["entries"]}
    values = len(document["rows"]) * len(tasks) * len(document["columns"])
    return () if values <= MOST_VALUES else (document["sort"],)


@blueprint.get("/boards/<name>/own")
def own(name: str) -> ResponseReturnValue:
    """Show a visitor's own board, chosen from a board, and the form for the choices."""
    board = find_shown_board(name)
    chosen = _read_choices()
    if not chosen.arguments:
        chosen = chosen.model_copy(update={"column": _to_begin_with(board)})
    document, snapshot, definition = build_selected(board, chosen, all_compared=False)
    facts = _facts.get(f"{viewer().audience}:{snapshot.digest}", lambda: facts_behind(session(), snapshot.document))
    way = way_of(ways_of(session(), document, facts), document, document["sort"])
    facts_of_models = _models_of(snapshot).facts
    paging = paging_of_models(len(document["rows"]))
    shown = document["rows"][paging.offset : paging.offset + paging.per_page]
    return render_template(
        "own_board.html",
        board=board,
        title=board_definition(snapshot.board).title or board.name,
        document=document,
        rows=shown,
        paging=paging,
        chosen=chosen,
        columns=_columns(snapshot),
        tasks={
            task: definition.weights.get(task, 1)
            for task in dict.fromkeys(entry["task"] for entry in snapshot.document["entries"])
        },
        choices={
            key: sorted(
                {value for model in facts_of_models if (value := getattr(model, column)) is not None}, key=str.casefold
            )
            for key, column in (
                ("model", "name"),
                ("family", "family"),
                ("developer", "developer"),
                ("licence", "licence"),
            )
        },
        addresses=addresses_of_tasks(snapshot.document, board.name),
        has={
            key: any(getattr(model, key) is not None for model in facts_of_models)
            for key in ("parameters", "released", "cost", "thinking", "openness")
        },
        may_save=viewer().may("submit") or viewer().may("maintain"),
        **standings_context(document, way, document["rows"], paging),
    )


def _columns(snapshot: BoardSnapshot) -> list[Row]:
    """Return the columns to choose from: the board's, and the usual metrics under the board's ways of prompting."""
    labels = {item["name"]: METRICS[item["metric"]].label for item in snapshot.document["columns"]}
    listed: Row = {}
    for item in snapshot.document["columns"]:
        for metric in (item["metric"], *parameters.DEFAULT_METRICS):
            suffix = item["name"].partition("@")[2].partition(" (")[0]
            listed.setdefault(f"{metric}@{suffix}", METRICS[metric].label)
    several = len({name.partition("@")[2] for name in labels}) > 1
    return [
        {"name": name, "label": f"{label} ({name.partition('@')[2]})" if several else label}
        for name, label in listed.items()
    ]


@blueprint.post("/boards/<name>/own")
def save(name: str) -> ResponseReturnValue:
    """Save the selection in the query string as a board, under a name that no board has."""
    if not viewer().may("maintain"):
        viewer().require("submit")
    board = find_shown_board(name)
    _, _, definition = build_selected(board, _read_choices(), all_compared=False)
    wanted = check_name("board", request.form.get("name", "").strip())
    title = request.form.get("title", "").strip()[:500]
    with write_session(engine()) as database:
        if database.scalar(select(Board.id).where(Board.name == wanted).limit(1)) is not None:
            raise QueueError(f"board {wanted} exists already; choose another name")
        count = select(func.count()).where(AuditEvent.account_id == viewer().account_id, AuditEvent.action == SAVED)
        if not viewer().may("maintain") and (database.scalar(count) or 0) >= MOST_SAVED:
            raise QueueError(f"{viewer().name} has saved {MOST_SAVED} boards; ask a maintainer for more")
        import_board(database, definition.model_copy(update={"name": wanted, "title": title}))
        accounts.record(database, viewer(), SAVED, wanted, address=request.remote_addr, details={"of": board.name})
    from registry.boards.snapshots import refresh_boards

    refresh_boards(engine())
    return redirect(url_for("boards.board", name=wanted))
