"""The chain: every seal, folder, withdrawal and snapshot of a registry, each link's digest covering the one before.

Anyone who can write the database can change rows and recompute their seal. The chain then lacks the new seal; and a
recomputed chain ends in another digest than the published one. So publish its head now and then: `shuffleboard chain`
prints it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from registry.db import database_now, one_at_a_time, pick
from registry.digests import DIGEST_LENGTH, specification_digest
from registry.tables import ChainLink

BEGINNING: Final = "0" * DIGEST_LENGTH
"""The previous digest of the first link."""


def append(session: Session, kind: str, subject: str, *, labels: str | None = None) -> ChainLink:
    """Add a link at the end, in the caller's transaction; other transactions that add one wait for its end."""
    one_at_a_time(session, "chain")
    last = session.execute(
        select(ChainLink.position, ChainLink.digest).order_by(ChainLink.position.desc()).limit(1)
    ).first()
    position, previous = (1, BEGINNING) if last is None else (last.position + 1, last.digest)
    at = session.scalar(select(database_now()))
    assert at is not None
    link = ChainLink(position=position, kind=kind, subject=subject, labels=labels, at=at, previous=previous)
    link.digest = link_digest(link)
    session.add(link)
    session.flush()
    return link


LINK: Final = ("position", "kind", "subject", "labels", "at", "previous", "digest")
"""Columns of a link in documents."""


def link_digest(link: Any) -> str:
    """Return the SHA-256 over a link: its position, subject and time, and the digest of the link before."""
    return specification_digest(pick(link, LINK[:-1]) | {"at": link.at.isoformat()})


def links(session: Session, *, limit: int | None = None, offset: int = 0) -> Sequence[ChainLink]:
    """Return links by position; with a limit only the newest, newest first."""
    query = select(ChainLink).order_by(ChainLink.position)
    if limit is not None:
        query = select(ChainLink).order_by(ChainLink.position.desc()).limit(limit).offset(offset)
    return session.scalars(query).all()


def head(session: Session) -> ChainLink | None:
    """Return the last link, whose digest identifies the whole chain; None while nothing is sealed."""
    return session.scalar(select(ChainLink).order_by(ChainLink.position.desc()).limit(1))


@dataclass
class ChainReport:
    """The problems of a chain, in words; length and head: of the stored chain."""

    length: int
    head: str | None
    problems: list[str]


def check_chain(session: Session, published: str | None = None) -> ChainReport:
    """Recompute every link. published: a head that was noted elsewhere, which the chain must still contain."""
    with session.execute(_stream_links()) as rows:  # closed before the caller returns to a savepoint
        return check_links(rows, published)


def check_links(rows: Iterable[Any], published: str | None = None) -> ChainReport:
    """Check links from any source, by position: objects with the columns of a link."""
    problems: list[str] = []
    previous, position, held = BEGINNING, 0, False
    for link in rows:
        position += 1
        if link.position != position:
            problems.append(f"chain: link {position} is missing, the next one is {link.position}")
            position = link.position
        if link.previous != previous:
            problems.append(f"chain: link {link.position} does not follow the link before it")
        if link_digest(link) != link.digest:
            problems.append(f"chain: link {link.position} does not match its digest")
        previous, held = link.digest, held or link.digest == published
    if published is not None and not held:
        problems.append(
            f"chain: {published} is not among its {position} digests; the chain was rewritten since that head was "
            "published, or the head is another registry's"
        )
    return ChainReport(position, previous if position else None, problems)


def _stream_links() -> Select[Any]:
    columns = ChainLink.__table__.columns
    return select(*columns).order_by(ChainLink.position).execution_options(yield_per=5000)


def is_linked(session: Session, kind: str, subject: str, labels: str | None = None) -> tuple[bool, bool]:
    """Return whether the chain has a link about this subject, and whether one has these labels."""
    found = session.scalars(select(ChainLink.labels).filter_by(kind=kind, subject=subject)).all()
    return bool(found), labels in found
