"""BibTeX entries for records that never change: snapshots of boards and sealed evaluations."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from registry.exchange.tabular import latex_text

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def snapshot_entry(document: Mapping[str, Any], address: str | None, publisher: str) -> str:
    """Return the entry of a board's snapshot, from its document as the website shows it.

    address: its permanent URL; None leaves it out. publisher: the name of the registry's publisher.
    """
    models = sum(row["complete"] for row in document["rows"])
    note = (
        f"Board {document['board']}, version {document['board_version']}, as of {_moment(document['as_of'])}, "
        f"{models} complete {'model' if models == 1 else 'models'}. SHA-256 of the snapshot: {document['digest']}"
    )
    key = f"{document['board']}-{document['digest'][:12]}"
    return _entry(
        key, document["title"] or document["board"], publisher, document["as_of"], "Board snapshot", address, note
    )


def evaluation_entry(row: Mapping[str, Any], address: str | None, publisher: str) -> str:
    """Return the entry of a sealed evaluation, from its row as the website and the API report it."""
    title = (
        f"{row['model']} (revision {row['revision']}) on {row['benchmark']} (version {row['benchmark_version']}), "
        f"{row['variants']}, {row['protocol']}, {row['shots']}-shot"
    )
    note = (
        f"{row['questions']} questions, {row['prompts']} prompts, sealed {_moment(row['sealed_at'])}. "
        f"SHA-256 seal: {row['seal']}"
    )
    return _entry(
        f"evaluation-{row['seal'][:12]}", title, publisher, row["sealed_at"], "Sealed evaluation", address, note
    )


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _entry(key: str, title: str, publisher: str, at: datetime, kind: str, address: str | None, note: str) -> str:
    # Doubled braces keep the letters of names as they are.
    fields = {
        "title": f"{{{{{latex_text(title)}}}}}",
        "author": f"{{{{{latex_text(publisher)}}}}}",
        "year": f"{{{at.year}}}",
        "month": _MONTHS[at.month - 1],
        "howpublished": f"{{{kind}}}",
        # As it is: the packages that print it take it literally.
        **({} if address is None else {"url": f"{{{address}}}"}),
        "note": f"{{{latex_text(note)}}}",
    }
    lines = [f"  {name} = {value}," for name, value in fields.items()]
    return "\n".join([f"@misc{{shuffleboard-{key},", *lines, "}"]) + "\n"


def publisher_of(public_url: str) -> str:
    """Return the name of a registry's publisher, by the host of its public URL."""
    host = urlsplit(public_url).hostname
    return f"Shuffleboard at {host}" if host else "Shuffleboard"
