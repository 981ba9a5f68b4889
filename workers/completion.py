"""Asks a model on this machine what it completes of a benchmark, for `shuffleboard statistics completion`."""

from typing import Any

from sqlalchemy import Engine

from registry.db import read_session
from registry.errors import ModelError
from registry.lookups import find_revision, find_version
from registry.settings import Settings
from registry.studies.completion import NGRAM, completion_document, texts_in_orders
from workers.artifacts import check_files
from workers.quiet import quiet_libraries
from workers.scorer import load_revision


def complete(
    engine: Engine, settings: Settings, model: str, benchmark: str, *, questions: int, device: str | None
) -> dict[str, Any]:
    """What `completion_document` says of a model revision on so many questions of a benchmark version, by references.

    Raises NotFoundError; ModelError where the model's files are not here, or not those that were registered.
    """
    quiet_libraries()
    with read_session(engine) as session:
        revision, version = find_revision(session, model), find_version(session, benchmark)
        if revision.kind not in ("gguf", "huggingface"):
            raise ModelError(
                f"model {revision.model.name} is of kind {revision.kind}: only a model whose files are on this machine "
                "can be asked what it completes"
            )
        named = {
            "model": f"{revision.model.name}@{revision.number}",
            "benchmark": f"{version.benchmark.name}@{version.version}",
        }
        texts = texts_in_orders(session, version, questions)
        check_files(revision, settings)
        loaded = load_revision(revision, settings.home.expanduser(), device)
    from workers.engine.completion import shares_completed

    return named | completion_document(texts, [shares_completed(loaded, orders, NGRAM) for orders in texts.orders])
