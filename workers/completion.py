"""Asks a model on this machine what it completes of a benchmark, for `shuffleboard statistics completion`."""

from typing import Any

from sqlalchemy import Engine

from registry.db import read_session
from registry.errors import ModelError
from registry.lookups import find_revision, find_version
from registry.settings import Settings
from registry.studies.completion import NGRAM, Texts, completion_document, texts_in_orders
from registry.tables import ModelRevision
from workers.artifacts import check_files
from workers.quiet import quiet_libraries
from workers.scorer import load_revision


def complete(
    engine: Engine,
    settings: Settings,
    model: str,
    benchmark: str,
    *,
    reference: str | None,
    questions: int,
    device: str | None,
) -> dict[str, Any]:
    """What `completion_document` says of a model revision on so many questions of a benchmark version, by references.

    reference: a model revision of its kind. Raises NotFoundError; ModelError where a model's files are not here, or not
    those that were registered.
    """
    quiet_libraries()
    with read_session(engine) as session:
        version = find_version(session, benchmark)
        revisions = [find_revision(session, name) for name in (model, reference) if name is not None]
        for revision in revisions:
            if revision.kind not in ("gguf", "huggingface"):
                raise ModelError(
                    f"model {revision.model.name} is of kind {revision.kind}: only a model whose files are on this "
                    "machine can be asked what it completes"
                )
        names = [f"{revision.model.name}@{revision.number}" for revision in revisions]
        asked = f"{version.benchmark.name}@{version.version}"
        texts = texts_in_orders(session, version, questions)
        found = [_shares(revision, texts, settings, device) for revision in revisions]
    document = completion_document(texts, *found)
    if reference is not None:
        document["reference"] = {"model": names[1], **(document["reference"] or {})}
    return {"model": names[0], "benchmark": asked, **document}


def _shares(revision: ModelRevision, texts: Texts, settings: Settings, device: str | None) -> list[list[float] | None]:
    """What a model completes of each text. It is loaded for that alone."""
    from workers.engine.completion import shares_completed

    check_files(revision, settings)
    loaded = load_revision(revision, settings.home.expanduser(), device)
    return [shares_completed(loaded, orders, NGRAM) for orders in texts.orders]
