"""Writing an export: a folder with its files, `manifest.json` and `README.md`, which appears when it is complete."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from registry import formats
from registry.benchmarks.canary import canary, canary_id
from registry.db import read_session, utc_text
from registry.digests import sha256_file
from registry.errors import UsageError
from registry.exchange.exports.eval_results import eval_results
from registry.exchange.exports.every_eval_ever import every_eval_ever
from registry.exchange.exports.readme import readme
from registry.exchange.exports.relations import batches, choose_relations, columns_of
from registry.exchange.exports.selection import OF_PREDICTIONS, ExportRequest, Selection, select_rows
from registry.exchange.exports.tables import WRITERS, write_rows
from registry.files.manifests import MANIFEST
from registry.files.new_folder import new_folder, require_free
from registry.proposals import propose
from registry.schema.history import head
from registry.sealed.files import CHAIN, write_json
from registry.sealed.signing import newest_signature, signed_chain
from registry.tables import Benchmark, BenchmarkVersion

Report = Callable[[str, int, int | None], None]
"""Callback for progress: the file's name, the rows so far, and their number in all (None while it is unknown)."""
Entry = dict[str, Any]
"""The manifest's entry of one file: `file`, `rows`, and further keys of the format."""
Format = Callable[[Session, Selection, Path, Report], list[Entry]]
"""Writes an export's files into an empty folder and returns an entry for each. Digests are added afterwards."""

README: Final = "README.md"


def _tables(session: Session, selection: Selection, folder: Path, report: Report, *, format_: str) -> list[Entry]:
    """Write a file for each relation."""
    entries = []
    for relation in choose_relations(selection):
        columns = {column: relation.type_of(column) for column in columns_of(session, relation)}
        name = f"{relation.name}.{format_}"

        def count_rows(relation: Any = relation) -> Iterator[list[dict[str, Any]]]:
            written = 0
            for batch in batches(session, relation, selection):
                yield batch
                written += len(batch)
                report(relation.name, written, None)

        rows = write_rows(WRITERS[format_], folder / name, columns, count_rows())
        report(relation.name, rows, rows)
        entry: Entry = {
            "file": name,
            "relation": relation.name,
            "summary": relation.summary,
            "rows": rows,
            "columns": [{"name": column, "type": kind} for column, kind in columns.items()],
        }
        entries.append(entry | ({"view": relation.view} if relation.view else {}))
    return entries


FORMATS: Final[Mapping[str, Format]] = {
    **{name: partial(_tables, format_=name) for name in WRITERS},
    "every-eval-ever": every_eval_ever,
    "eval-results": eval_results,
}
"""Map the name of a format to its writer; a line here adds a format."""


def export(engine: Engine, request: ExportRequest, out: Path, report: Report | None = None) -> dict[str, Any]:
    """Write an export into the new folder `out` and return its manifest.

    Everything is read in one transaction. The folder is made next to `out` under another name and renamed when it is
    complete, so nothing half-written is ever there.
    Raises UsageError if `out` already has content or cannot be written, NotFoundError for a filter that names something
    unknown or something that the audience may not see.
    """
    writer = FORMATS.get(request.format)
    if writer is None:
        raise UsageError(f"format {request.format!r} is unknown; use {', '.join(FORMATS)}")
    require_free(out)
    with _snapshot(engine) as session:
        selection = select_rows(session, request, head())
        with new_folder(out) as folder:
            entries = writer(session, selection, folder, report or (lambda _what, _done, _total: None))
            for entry in entries:
                path = folder / entry["file"]
                entry |= {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
            manifest = _manifest(session, selection, entries)
            (folder / README).write_text(readme(manifest), encoding="utf-8")
            manifest["documents"] = _documents(session, folder, signed=request.format in WRITERS)
            text = json.dumps(manifest, ensure_ascii=False, indent=2, allow_nan=False)
            (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return manifest


@contextmanager
def _snapshot(engine: Engine) -> Iterator[Session]:
    """Open a session whose queries all see the registry as of the first query."""
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with read_session(engine) as session:
        yield session


def _documents(session: Session, folder: Path, *, signed: bool) -> list[Entry]:
    """Write the signed chain, if the format includes it and a signature exists; return the manifest's `documents`."""
    names = [README]
    if signed and newest_signature(session) is not None:
        write_json(folder / CHAIN, signed_chain(session))
        names.append(CHAIN)
    return [
        {"file": name, "bytes": (folder / name).stat().st_size, "sha256": sha256_file(folder / name)} for name in names
    ]


def _note_archived(selection: Selection, entries: list[Entry]) -> Entry | None:
    """Return the archived evaluations whose predictions are left out, and the command that restores them; else None."""
    relations = [name for name in OF_PREDICTIONS if any(one.get("relation") == name for one in entries)]
    if selection.request.format == "every-eval-ever":
        relations = ["samples"]
    if not selection.archived or not relations:
        return None
    restore = propose("evaluations restore", *selection.archived)
    return {"evaluations": list(selection.archived), "left_out": relations, "restore": restore}


def _manifest(session: Session, selection: Selection, entries: list[Entry]) -> dict[str, Any]:
    request = selection.request
    query = (
        select(Benchmark.name, BenchmarkVersion.version, BenchmarkVersion.content_digest, BenchmarkVersion.licence)
        .join(Benchmark, Benchmark.id == BenchmarkVersion.benchmark_id)
        .where(BenchmarkVersion.id.in_(selection.version_ids))
        .order_by(Benchmark.name, BenchmarkVersion.id)
    )
    return {
        "format": request.format,
        formats.NUMBER: formats.EXPORT,
        "audience": request.audience,
        "filters": request.filters(),
        "as_of": utc_text(selection.as_of),
        "schema_revision": selection.schema_revision,
        "code_version": request.code_version,
        "evaluations": len(selection.evaluation_ids),
        "archived": _note_archived(selection, entries),
        "benchmarks": [
            {
                "benchmark": row.name,
                "version": row.version,
                "content_digest": row.content_digest,
                "licence": row.licence,
                "canary_id": canary_id(row.content_digest),
                "canary": canary(row.content_digest),
            }
            for row in session.execute(query)
        ],
        "files": entries,
    }
