"""A registry made from the documentation's own examples: what the pages tell readers to import is what they query."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from registry.benchmarks import import_benchmark, read_benchmark
from registry.db import get_engine, write_session
from registry.model_revisions import RevisionRequest, add_revision
from registry.outputs import ImportRequest, import_outputs
from tests.docs.pages import DOCS, blocks


def write_block(folder: Path, page: str, info: str, name: str) -> Path:
    """The only block of a kind on a page, as a file."""
    (block,) = blocks(DOCS / page, info)
    path = folder / name
    path.write_text(block.text, encoding="utf-8")
    return path


def fill(engine: Engine, folder: Path) -> list[int]:
    """Imports the example benchmark, and the example outputs for two models; returns the ids of the evaluations."""
    content = read_benchmark(write_block(folder, "benchmark-files.md", "jsonl benchmark", "capitals.jsonl"))
    outputs = write_block(folder, "importing-outputs.md", "jsonl outputs", "outputs.jsonl")
    models = ("their-model", "another-model")
    with write_session(engine) as session:
        import_benchmark(session, content, name="capitals")
        for model in models:
            add_revision(session, model, RevisionRequest("external"))
    return [import_outputs(engine, ImportRequest(outputs, model, "capitals", "cyclic")) for model in models]


@pytest.fixture
def filled(database: str, tmp_path: Path) -> str:
    """URL of a database of either engine with the examples in it."""
    fill(get_engine(database), tmp_path)
    return database
