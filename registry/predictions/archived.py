"""Location of a sealed evaluation's folder."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.errors import ArchiveError
from registry.files.stores import Store, store_at
from registry.predictions.archive_files import EVALUATION, PREDICTIONS
from registry.tables import Archive, Evaluation


def folder_name(seal: str, digest: str) -> str:
    """Return the name of a sealed evaluation's folder.

    digest: of its file EVALUATION, which differs for each folder.
    """
    return f"{seal}-{digest[:12]}"


def place_of(archive: Archive, seal: str) -> tuple[Store, str]:
    """Find an evaluation's folder in the store it was written to, else in the configured one; return store and name."""
    name = folder_name(seal, archive.digest)
    written, configured = store_at(archive.location), store_at()
    for store in (written, configured):
        if store.has(f"{name}/{EVALUATION}") and store.has(f"{name}/{PREDICTIONS}"):
            return store, name
    elsewhere = "" if configured.url == written.url else f", nor is it in {configured.url}"
    raise ArchiveError(
        f"evaluation {archive.evaluation_id} is archived, but {written.url_of(name)} is missing or not "
        f"whole{elsewhere}; bring the folder back, or set SHUFFLEBOARD_ARCHIVES to where it is"
    )


def archive_of(session: Session, evaluation_id: int) -> tuple[Store, str] | None:
    """Return the store and file name of an archived evaluation's predictions; None if they are still rows.

    Raises ArchiveError if the file is missing.
    """
    query = (
        select(Archive, Evaluation.seal)
        .join(Evaluation, Evaluation.id == Archive.evaluation_id)
        .where(Archive.evaluation_id == evaluation_id, Archive.state == "archived")
    )
    row = session.execute(query).one_or_none()
    if row is None:
        return None
    store, name = place_of(row.Archive, row.seal or "")
    return store, f"{name}/{PREDICTIONS}"
