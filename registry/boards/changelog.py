"""What happened to a board, in sentences for somebody who was not there: from its snapshots and the chain.

Two snapshots that follow one another are compared: models that came and went, evaluations that were withdrawn,
superseded or scored again, and how ranks moved. Nobody writes it, and so nobody can leave
anything out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.boards.reading import snapshots_of
from registry.lookups import find_board
from registry.metrics import METRICS
from registry.tables import (
    Board,
    BoardDeprecation,
    BoardEntry,
    BoardSnapshot,
    ChainLink,
    Evaluation,
    Withdrawal,
)

NAMED: Final = 5
"""Models that a sentence names; the rest are counted."""


@dataclass(frozen=True)
class Event:
    """Something that happened.

    kind: published, redefined, added, completed, removed, withdrawn, superseded, rescored, recomputed,
    deprecated, reinstated or moved. models: those that it is about.
    """

    kind: str
    text: str
    models: tuple[str, ...] = ()


@dataclass
class Change:
    """What a snapshot brought, or a deprecation, which needs no snapshot. link: its position in the chain."""

    at: datetime
    link: int | None
    snapshot: str | None
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True)
class _Why:
    """What was said of an evaluation that no longer counts."""

    kind: str
    reason: str


def changelog(session: Session, name: str) -> list[Change]:
    """The changes of a board over all of its versions, newest first. Raises NotFoundError for an unknown board.

    Snapshots in which a reader would see no difference, as those that repeat another after an upgrade, are left out.
    """
    board = find_board(session, name)
    snapshots = snapshots_of(session, board.name)[::-1]
    links = _links(session, [snapshot.digest for snapshot in snapshots], "snapshot")
    reasons = _reasons(session, board.name)
    found: list[Change] = []
    before: Mapping[str, Any] | None = None
    for snapshot in snapshots:
        # One after the other: together the documents of a large board may fill the memory.
        after = session.scalars(select(BoardSnapshot.document).filter_by(id=snapshot.id)).one()
        events = _published(after) if before is None else list(_events(before, after, reasons))
        if events:
            found.append(Change(snapshot.as_of, links.get(snapshot.digest), snapshot.digest, events))
        before = after
    found += _deprecations(session, board.name)
    return sorted(found, key=lambda change: (change.at, change.link or 0), reverse=True)


def changelog_document(session: Session, name: str) -> dict[str, Any]:
    """The same as plain JSON."""
    return {
        "board": find_board(session, name).name,
        "changes": [
            {
                "at": change.at,
                "link": change.link,
                "snapshot": change.snapshot,
                "events": [
                    {"kind": event.kind, "text": event.text, "models": list(event.models)} for event in change.events
                ],
            }
            for change in changelog(session, name)
        ],
    }


def _links(session: Session, subjects: Sequence[str], kind: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for start in range(0, len(subjects), 500):
        part = subjects[start : start + 500]
        query = select(ChainLink.subject, ChainLink.position).where(ChainLink.kind == kind, ChainLink.subject.in_(part))
        found |= {row.subject: row.position for row in session.execute(query)}
    return found


def _versions(name: str) -> Any:
    """The benchmark versions that any version of the board was ever on."""
    return (
        select(BoardEntry.benchmark_version_id).join(Board, Board.id == BoardEntry.board_id).where(Board.name == name)
    )


def _reasons(session: Session, name: str) -> dict[str, _Why]:
    """Seal of an evaluation on the board's benchmarks to why it no longer counts."""
    query = (
        select(Evaluation.seal, Withdrawal.kind, Withdrawal.reason)
        .join(Evaluation, Evaluation.id == Withdrawal.evaluation_id)
        .where(Evaluation.benchmark_version_id.in_(_versions(name)))
        .order_by(Withdrawal.id)
    )
    return {row.seal: _Why(row.kind, row.reason) for row in session.execute(query) if row.seal is not None}


def _deprecations(session: Session, name: str) -> Iterable[Change]:
    """When any version of the board was deprecated, and when that was taken back."""
    query = select(BoardDeprecation).join(Board, Board.id == BoardDeprecation.board_id).where(Board.name == name)
    for row in session.scalars(query.order_by(BoardDeprecation.id)):
        text = f"The board was deprecated: {_sentence(row.reason)}"
        yield Change(row.deprecated_at, None, None, [Event("deprecated", text)])
        if row.retracted_at is not None:
            yield Change(row.retracted_at, None, None, [Event("reinstated", "The deprecation was taken back.")])


# One snapshot after the other


def _published(after: Mapping[str, Any]) -> list[Event]:
    rows = after["rows"]
    ranked = [model for _, model in sorted((rank, model) for model, rank in _ranks(after).items())]
    text = f"The board was first published, with {_count(len(rows), 'model')}"
    if ranked:
        text += f"; first by {_sort_label(after)} was {ranked[0]}"
    return [Event("published", f"{text}.", tuple(ranked))]


def _events(before: Mapping[str, Any], after: Mapping[str, Any], reasons: Mapping[str, _Why]) -> Iterable[Event]:
    yield from _redefined(before, after)
    old, new = _rows(before), _rows(after)
    ranks_before, ranks_after = _ranks(before), _ranks(after)
    added = [name for name in new if name not in old]
    for name in added:
        text = f"{name} was added"
        if name in ranks_after:
            text += f", in place {ranks_after[name]} by {_sort_label(after)}"
        elif not new[name]["complete"]:
            done = sum(item is not None for item in new[name]["evaluations"])
            text += f", without a rank: {done} of its {len(new[name]['evaluations'])} evaluations were there"
        yield Event("added", f"{text}.", (name,))
    gone = _withdrawn(before, after, reasons)
    yield from gone
    for name in old.keys() - new.keys() - {model for event in gone for model in event.models}:
        yield Event("removed", f"{name} was removed.", (name,))
    for name in new:
        if name not in old:
            continue
        if new[name]["complete"] and not old[name]["complete"]:
            place = f", in place {ranks_after[name]}" if name in ranks_after else ""
            yield Event("completed", f"{name} became complete{place}.", (name,))
        elif old[name]["complete"] and not new[name]["complete"]:
            yield Event("removed", f"{name} lost its rank: one of its evaluations no longer counts.", (name,))
    yield from _rescored(before, after, reasons)
    yield from _moved(ranks_before, ranks_after, _sort_label(after), before["sort"] == after["sort"])


def _redefined(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[Event]:
    if before["board_digest"] != after["board_digest"]:
        parts = [f"The board was redefined, as version {after['board_version']}"]
        old, new = ({column["name"] for column in document["columns"]} for document in (before, after))
        parts += [f"columns added: {', '.join(sorted(new - old))}"] if new - old else []
        parts += [f"columns removed: {', '.join(sorted(old - new))}"] if old - new else []
        asked, now = (
            {f"{entry['benchmark']}@{entry['version']}" for entry in document["entries"]}
            for document in (before, after)
        )
        parts += [f"benchmarks added: {', '.join(sorted(now - asked))}"] if now - asked else []
        parts += [f"benchmarks removed: {', '.join(sorted(asked - now))}"] if asked - now else []
        yield Event("redefined", "; ".join(parts) + ".")
    old_versions = {column["name"]: column["definition_version"] for column in before["columns"]}
    newer = [
        column["name"]
        for column in after["columns"]
        if old_versions.get(column["name"], column["definition_version"]) != column["definition_version"]
    ]
    if newer:
        yield Event("recomputed", f"A metric is defined anew, and was recomputed: {', '.join(newer)}.")


def _withdrawn(before: Mapping[str, Any], after: Mapping[str, Any], reasons: Mapping[str, _Why]) -> list[Event]:
    """Evaluations that the board rested on, and that were withdrawn or superseded since."""
    kept = {item["seal"] for row in after["rows"] for item in row["evaluations"] if item is not None}
    found = []
    for row in before["rows"]:
        for entry, item in zip(before["entries"], row["evaluations"], strict=True):
            if item is None or item["seal"] in kept or item["seal"] not in reasons:
                continue
            why, name = reasons[item["seal"]], _name(row)
            text = f"The evaluation of {name} on {entry['benchmark']} was {why.kind}: {_sentence(why.reason)}"
            if name not in _rows(after):
                text += f" {name} left the board."
            found.append(Event(why.kind, text, (name,)))
    return found


def _rescored(before: Mapping[str, Any], after: Mapping[str, Any], reasons: Mapping[str, _Why]) -> Iterable[Event]:
    """Models whose numbers rest on another evaluation than before, though nothing was said of the old one."""
    old = _rows(before)
    if before["entries"] != after["entries"]:
        return
    for name, row in _rows(after).items():
        if name not in old:
            continue
        benchmarks = [
            entry["benchmark"]
            for entry, one, other in zip(after["entries"], old[name]["evaluations"], row["evaluations"], strict=True)
            if one is not None and other is not None and one["seal"] != other["seal"] and one["seal"] not in reasons
        ]
        if benchmarks:
            asked = ", ".join(dict.fromkeys(benchmarks))
            yield Event("rescored", f"{name} was evaluated again on {asked}; the newer results count.", (name,))


def _moved(before: Mapping[str, int], after: Mapping[str, int], label: str, same_column: bool) -> Iterable[Event]:
    """How the ranks of models that had one and have one moved."""
    moved = [(rank, name) for name, rank in after.items() if name in before and before[name] != rank]
    if not moved:
        return
    named = [f"{name} {before[name]} → {rank}" for rank, name in sorted(moved)]
    more = f", and {len(named) - NAMED} more" if len(named) > NAMED else ""
    by = f"by {label}" if same_column else f"now by {label}"
    models = tuple(name for _, name in sorted(moved))
    yield Event("moved", f"Ranks moved {by}: {', '.join(named[:NAMED])}{more}.", models)


def _rows(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {_name(row): row for row in document["rows"]}


def _name(row: Mapping[str, Any]) -> str:
    return str(row["model"]) if row["revision"] == 1 else f"{row['model']} (revision {row['revision']})"


def _ranks(document: Mapping[str, Any]) -> dict[str, int]:
    """Model to its rank in the column that sorts the board."""
    ranks = {_name(row): row["values"][document["sort"]]["rank"] for row in document["rows"] if row["complete"]}
    return {name: rank for name, rank in ranks.items() if rank is not None}


def _sort_label(document: Mapping[str, Any]) -> str:
    column = next(column for column in document["columns"] if column["name"] == document["sort"])
    metric = METRICS.get(column["metric"])
    return f"{column['metric'] if metric is None else metric.label.lower()} ({column['variants']})"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
