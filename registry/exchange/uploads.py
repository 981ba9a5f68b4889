"""Work on uploads that runs in a separate process (`registry.isolated`), so that the website keeps answering.

Each function takes a JSON document and returns one. Paths are files that the caller has received.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

import registry.files.parquet  # noqa: F401 - loaded before processes are forked
from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import forget_engine, get_engine, pick, write_session
from registry.errors import DatabaseError, ProtocolError
from registry.files.storage import explain
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.logs.imports.stated import Comparison
from registry.people.accounts import Viewer, record
from registry.proposals import propose
from registry.sealed.replaying import ReplayRequest
from registry.sealed.replaying import replay as replay_evaluation
from registry.settings import get_settings

_Function = Callable[[dict[str, Any]], dict[str, Any]]


def _report_failures(function: _Function) -> _Function:
    """Decorate a function to report failures of the database or a disk as one-line errors."""

    @wraps(function)
    def report_failure(order: dict[str, Any]) -> dict[str, Any]:
        try:
            return function(order)
        except DBAPIError as error:
            raise explain(error) or DatabaseError(str(error).splitlines()[0]) from error
        finally:
            # Closing the last connection to SQLite merges the log into the file.
            forget_engine(get_engine(get_settings().resolve_database_url()))

    return report_failure


def _audit(session: Session, order: dict[str, Any], action: str, target: str, **details: Any) -> None:
    who = order["viewer"]
    viewer = Viewer(who["name"], frozenset(), who["account_id"], who["role"], who["token_id"])
    record(session, viewer, action, target, address=order["address"], details=details)


@_report_failures
def benchmark(order: dict[str, Any]) -> dict[str, Any]:
    """Import a benchmark; return its description, with `imported`: whether it is new.

    order: file, fewshot (or null), split, shuffle_options; name, version, language, licence, source, visibility; viewer
    and address for the audit trail.
    """
    few_shot = None if order["fewshot"] is None else Path(order["fewshot"])
    content = read_benchmark(
        Path(order["file"]), split=order["split"], few_shot=few_shot, shuffle_seed=order["shuffle_options"]
    )
    described = {key: order[key] for key in ("name", "version", "language", "licence", "source", "visibility")}
    with write_session(get_engine(get_settings().resolve_database_url())) as session:
        row, new = import_benchmark(session, content, **described)
        reference = f"{row.benchmark.name}@{row.version}"
        _audit(session, order, "benchmark.import", reference, visibility=row.visibility, imported=new)
        return {
            "benchmark": row.benchmark.name,
            **pick(row, ("version", "visibility", "questions", "few_shot_examples", "content_digest")),
            "imported": new,
        }


@_report_failures
def outputs(order: dict[str, Any]) -> dict[str, Any]:
    """Import recorded outputs; return the evaluation's id, and the file's score compared with the computed one.

    order: file; model, benchmark, variants, protocol, shots, select, column, stated, requester; viewer and address.
    """
    names = ("model", "benchmark", "variants", "protocol", "shots", "select", "column", "requester")
    arguments = {key: order[key] for key in names}
    request = ImportRequest(Path(order["file"]), **arguments, ignore_stated=order["stated"] == "ignore")
    engine = get_engine(get_settings().resolve_database_url())
    comparisons: list[Comparison] = []
    evaluation_id = import_outputs(engine, request, compared=comparisons.append)
    with write_session(engine) as session:
        _audit(
            session,
            order,
            "evaluation.import",
            str(evaluation_id),
            model=request.model,
            benchmark=request.benchmark,
        )
    return {"evaluation": evaluation_id, "stated": comparisons[0].document() if comparisons else None}


@_report_failures
def replay(order: dict[str, Any]) -> dict[str, Any]:
    """Create an evaluation from the stored answers of another; return both ids, and whether it is new.

    order: evaluation, benchmark, protocol, requester; viewer and address.
    """
    source = order["evaluation"]
    request = ReplayRequest(source, order["benchmark"], order["protocol"], order["requester"])

    def match(_text: str, _options: Sequence[str]) -> int:
        raise ProtocolError(
            f"protocol {request.protocol} matches answers with options by an embedder, which the website does not "
            f"load; run: {propose('evaluations replay', source, '--protocol', request.protocol)}"
        )

    engine = get_engine(get_settings().resolve_database_url())
    evaluation_id, new = replay_evaluation(engine, request, match)
    with write_session(engine) as session:
        changed = {key: order[key] for key in ("benchmark", "protocol") if order[key] is not None}
        _audit(session, order, "evaluation.replay", str(source), evaluation=evaluation_id, new=new, **changed)
    return {"evaluation": evaluation_id, "source": source, "new": new}
