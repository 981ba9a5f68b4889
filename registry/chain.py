"""The chain of a registry's seals, folders, withdrawals and snapshots: each link's digest covers the previous link.

Anyone who can write the database can change rows and recompute their seal. But then the chain lacks the new seal, and
a recomputed chain ends in a different digest than the published one. So publish its head now and then:
`shuffleboard chain` prints it.
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
    """Append a link in the caller's transaction; other transactions that append wait until it has ended."""
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
"""The columns of a link, in the order in which documents list them."""


def link_digest(link: Any) -> str:
    """Return the SHA-256 of a link's columns, which include the digest of the previous link."""
    return specification_digest(pick(link, LINK[:-1]) | {"at": link.at.isoformat()})


def links(session: Session, *, limit: int | None = None, offset: int = 0) -> Sequence[ChainLink]:
    """Return all links by position; with a limit, only the newest ones, newest first."""
    query = select(ChainLink).order_by(ChainLink.position)
    if limit is not None:
        query = select(ChainLink).order_by(ChainLink.position.desc()).limit(limit).offset(offset)
    return session.scalars(query).all()


def head(session: Session) -> ChainLink | None:
    """Return the last link, whose digest identifies the whole chain; None while nothing is sealed."""
    return session.scalar(select(ChainLink).order_by(ChainLink.position.desc()).limit(1))


@dataclass
class ChainReport:
    """The result of checking a chain: its length, its last digest, and a sentence for each problem.

    head: None for an empty chain.
    """

    length: int
    head: str | None
    problems: list[str]


def check_chain(session: Session, published: str | None = None) -> ChainReport:
    """Recompute every stored link and report the problems.

    published: a head that was published earlier, which the chain must still contain.
    """
    with session.execute(_stream_links()) as rows:  # closed before the caller returns to a savepoint
        return check_links(rows, published)


def check_links(rows: Iterable[Any], published: str | None = None) -> ChainReport:
    """Check links from any source, such as a file.

    rows: objects with the columns of a link, by position. published: as for `check_chain`.
    """
    problems: list[str] = []
    previous, position, contains_published = BEGINNING, 0, False
    for link in rows:
        position += 1
        if link.position != position:
            problems.append(f"chain: link {position} is missing, the next one is {link.position}")
            position = link.position
        if link.previous != previous:
            problems.append(f"chain: link {link.position} does not follow the link before it")
        if link_digest(link) != link.digest:
            problems.append(f"chain: link {link.position} does not match its digest")
        previous, contains_published = link.digest, contains_published or link.digest == published
    if published is not None and not contains_published:
        problems.append(
            f"chain: {published} is not among its {position} digests; the chain was rewritten since that head was "
            "published, or the head is another registry's"
        )
    return ChainReport(position, previous if position else None, problems)


def _stream_links() -> Select[Any]:
    columns = ChainLink.__table__.columns
    return select(*columns).order_by(ChainLink.position).execution_options(yield_per=5000)


def is_linked(session: Session, kind: str, subject: str, labels: str | None = None) -> tuple[bool, bool]:
    """Return whether the chain has a link for this subject, and whether such a link has these labels."""
    stored_labels = session.scalars(select(ChainLink.labels).filter_by(kind=kind, subject=subject)).all()
    return bool(stored_labels), labels in stored_labels
