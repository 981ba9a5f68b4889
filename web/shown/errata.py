"""What is said of a benchmark's questions, as pages and the API state it."""

from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.errata.versions import is_newest, newest_errata, versions_of_errata
from registry.errors import NotFoundError
from registry.tables import ErrataVersion, Erratum

STATUSES: Final = {"disputed": "Disputed", "wrong-key": "Wrong key", "corrected-key": "Corrected key"}
"""What may be said of a question, as pages call it."""


def errata_of(session: Session, version_id: int, number: int | None = None) -> ErrataVersion | None:
    """A version of a benchmark version's errata, the newest without a number; None where there are none at all.

    Raises NotFoundError for a number that there is not.
    """
    if number is None:
        return newest_errata(session, version_id)
    known = versions_of_errata(session, version_id)
    found = next((one for one in known if one.number == number), None)
    if found is None:
        raise NotFoundError(f"errata {number}: {f'there are 1 to {known[0].number}' if known else 'there are none'}")
    return found


def said_of(session: Session, *question_ids: int) -> dict[int, dict[str, Any]]:
    """Question to what the newest errata of its benchmark say of it, of those of which something is said."""
    query = (
        select(Erratum)
        .join(ErrataVersion, ErrataVersion.id == Erratum.errata_version_id)
        .where(Erratum.question_id.in_(question_ids), is_newest())
    )
    return {
        one.question_id: {
            "label": STATUSES[one.status],
            **{name: getattr(one, name) for name in ("status", "answer", "note", "actor", "at")},
        }
        for one in session.scalars(query)
    }
