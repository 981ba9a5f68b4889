"""Protocol groups of a board: the ranked models of each group, and the spans drawn for every model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy.orm import Session

from registry.leaderboard.facts import facts_of
from registry.verdicts.facts import SAID_FIRST, Facts, Number, Pooled
from registry.verdicts.spans import Means, Span, mean_span
from registry.verdicts.subjects import BoardFacts, OnBoard
from registry.verdicts.table import Said, no_point, say

Row = Mapping[str, Any]
Revision = tuple[str, int]
"""The name of a model and the number of its revision."""


@dataclass(frozen=True)
class Way:
    """One protocol group: the evaluations under the same variants and perhaps the same protocol.

    models: the ranked models. spans: of every model that has one. missing: each model's share of missing answers.
    """

    models: list[OnBoard]
    spans: "Spans"
    missing: dict[Revision, float]

    @cached_property
    def sentences(self) -> tuple[Said, ...]:
        """Return the sentences about the ranked models, the same wherever the board is shown."""
        return say("board", self._facts)

    @cached_property
    def guessing(self) -> frozenset[str]:
        """Return the names of the ranked models that cannot be distinguished from guessing."""
        return frozenset(one.model for one in self._facts.guessing)

    @cached_property
    def _facts(self) -> BoardFacts:
        return BoardFacts(self.models)

    @cached_property
    def unread(self) -> dict[Revision, float]:
        """Return `missing` if it is above SAID_FIRST for any model; else nothing."""
        return self.missing if max(self.missing.values(), default=0.0) > SAID_FIRST else {}


class Spans(Mapping[Revision, Span]):
    """Spans by model. Each is computed when it is first read, because a page draws only some of hundreds of models."""

    def __init__(self) -> None:
        self._parts: dict[Revision, tuple[Pooled, Means, Sequence[int] | None]] = {}
        self._computed: dict[Revision, Span | None] = {}

    def add(self, model: Revision, tasks: Pooled, numbers: Means, weights: Sequence[int] | None) -> None:
        """Add a model. tasks, numbers, weights: see `mean_span`."""
        self._parts[model] = tasks, numbers, weights

    def __getitem__(self, model: Revision) -> Span:
        if model not in self._computed:
            self._computed[model] = mean_span(*self._parts[model])
        span = self._computed[model]
        if span is None:
            raise KeyError(model)
        return span

    def __iter__(self) -> Iterator[Revision]:
        return (model for model in self._parts if model in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return any(True for _ in self)


@dataclass(frozen=True)
class OrderEffect:
    """Accuracy and worst accuracy of the models in one protocol group.

    rows: the ranked models that have both, with `model` and `revision`. left_out: reason → the models left out for it.
    """

    asked: str
    rows: list[dict[str, Any]]
    left_out: dict[str, list[str]]


@dataclass(frozen=True)
class Ways:
    """The protocol groups of a board by name, and the order effect of each group that has columns for it."""

    groups: dict[str, Way]
    order_effects: list[OrderEffect]


class FactsBehind(dict[int, Facts]):
    """Maps evaluations to their facts, for a snapshot and the selections from it.

    pooled: for each protocol group, the tasks of the last selection, and the evaluations of each model on these.
    """

    def __init__(self, known: Mapping[int, Facts]) -> None:
        super().__init__(known)
        self.pooled: dict[str, tuple[list[str], dict[Revision, Pooled | None]]] = {}

    def pool(self, way: str, places: Mapping[str, Sequence[int]], row: Row) -> Pooled | None:
        """Return a row's evaluations of a protocol group; None if one is missing.

        places: for each task, the places of its evaluations in the row.
        """
        tasks, known = self.pooled.get(way, ([], {}))
        if tasks != list(places):
            tasks, known = self.pooled[way] = list(places), {}
        model = who(row)
        if model not in known:
            behind = [self.get(item["evaluation"]) if item else None for item in row["evaluations"]]
            of_tasks = [[facts for place in of_task if (facts := behind[place])] for of_task in places.values()]
            whole = 0 < sum(map(len, of_tasks)) == sum(map(len, places.values()))
            known[model] = Pooled(of_tasks) if whole else None
        return known[model]


def facts_behind(session: Session, document: Row) -> FactsBehind:
    """Return the facts about the evaluations that a snapshot names."""
    evaluations = [item["evaluation"] for row in document["rows"] for item in row["evaluations"] if item]
    return FactsBehind(facts_of(session, evaluations))


def ways_of(session: Session, document: Row, known: FactsBehind | None = None) -> Ways:
    """Return the protocol groups that a board shows, with the facts about their evaluations.

    document: the report of a snapshot, or a selection from it. known: the facts about its evaluations, if already read.
    """
    known = facts_behind(session, document) if known is None else known
    groups: dict[str, Way] = {}
    for variants, protocol in dict.fromkeys((item["variants"], item.get("protocol")) for item in document["columns"]):
        columns = {
            column["metric"]: column
            for column in reversed(document["columns"])
            if (column["variants"], column.get("protocol")) == (variants, protocol)
        }
        names = {metric: column["name"] for metric, column in columns.items()}
        # A column without a value for any model is not shown, so it excludes none of them.
        compared = [names[name] for name in ("accuracy", "worst_accuracy") if name in names]
        unranked = list_without_rank(document, [name for name in compared if _has_value(document, name)])
        places: dict[str, list[int]] = {}
        for place, entry in enumerate(document["entries"]):
            if entry["variants"] == variants and protocol in (None, entry["protocol"]):
                places.setdefault(entry["task"], []).append(place)
        weights = [document.get("weights", {}).get(task, 1) for task in places] or None
        key = way_key(variants, protocol)
        way = groups.setdefault(key, Way([], Spans(), {}))
        for row in document["rows"]:
            behind = known.pool(key, places, row)
            if behind is None:
                continue
            board_numbers = {
                metric: number for metric, name in names.items() if (number := _number(row["values"][name])) is not None
            }
            numbers = Means(behind, weights, board_numbers)
            way.missing[who(row)] = behind.missing
            way.spans.add(who(row), behind, numbers, weights)
            if row["complete"] and who(row) not in unranked:
                # A mean over several evaluations has no interval, and without one no sentence can state an order loss.
                stated = numbers if len(behind.parts) == 1 or "order_loss" in board_numbers else board_numbers
                way.models.append(
                    OnBoard(
                        model=row["model"],
                        numbers=stated,
                        chance=document["chance"].get(names.get("accuracy")),
                        behind=behind,
                    )
                )
    return Ways(groups, _order_effects(document, groups))


def way_of(ways: Ways, document: Row, column: str) -> Way:
    """Return the protocol group of a column, or the first group with spans if that one has none."""
    groups = ways.groups
    described = next(item for item in document["columns"] if item["name"] == column)
    group = groups[way_key(described["variants"], described.get("protocol"))]
    return group if group.spans else next((way for way in groups.values() if way.spans), group)


def _order_effects(document: Row, ways: Mapping[str, Way]) -> list[OrderEffect]:
    """Return the order effect of each protocol group with columns of accuracy and of worst accuracy.

    If there are several such columns, the first of each metric is used.
    """
    columns: dict[str, dict[str, str]] = {}
    for column in document["columns"]:
        if column["metric"] in ("accuracy", "worst_accuracy"):
            names = columns.setdefault(way_key(column["variants"], column.get("protocol")), {})
            names.setdefault(column["metric"], column["name"])
    effects = []
    for key, names in columns.items():
        if len(names) < 2:
            continue
        unclear = {
            model_row.model: next(filter(None, map(no_point, model_row.behind.parts)), None)
            for model_row in ways[key].models
        }
        missing = list_without_rank(document, list(names.values()))
        rows, left_out = [], dict[str, list[str]]()
        for row in document["rows"]:
            reason = unclear.get(row["model"]) or missing.get(who(row))
            values = {metric: row["values"][name]["value"] for metric, name in names.items()}
            if reason is not None:
                left_out.setdefault(reason, []).append(row["model"])
            elif None not in values.values():
                rows.append({"model": row["model"], "revision": row["revision"], **values})
        effects.append(OrderEffect(key, rows, left_out))
    return effects


def who(row: Row) -> Revision:
    """Return the model and the revision of a board's row."""
    return row["model"], row["revision"]


def way_key(variants: str, protocol: str | None) -> str:
    """Return the name of a protocol group: its variants, and the protocol if a board names it."""
    return variants if protocol is None else f"{variants}, {protocol}"


def list_without_rank(document: Row, columns: Sequence[str]) -> dict[Revision, str]:
    """Map each model that has no rank in one of these columns to the reason."""
    wanted = {None, *columns}
    return {
        (item["model"], item["revision"]): item["reason"] for item in document["unranked"] if item["column"] in wanted
    }


def _has_value(document: Row, column: str) -> bool:
    """Return whether a column of a board has a value for any model."""
    return any(row["values"][column]["value"] is not None for row in document["rows"])


def _number(value: Row) -> Number | None:
    if value["value"] is None:
        return None
    low, high = value["interval"] or (None, None)
    return Number(value["value"], value["n"], low, high)
