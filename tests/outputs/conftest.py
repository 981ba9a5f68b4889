"""Fixtures for registries into which tests import outputs."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, write_session
from registry.revisions.store import RevisionRequest, add_revision

DATA = Path(__file__).parent.parent / "data"


class Registry:
    """A migrated database with helper methods for tests of imports."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.engine: Engine = get_engine(url)
        self.folder = folder

    def benchmark(self, name: str, source: Path | Sequence[dict[str, Any]]) -> None:
        path = source if isinstance(source, Path) else self.file(f"{name}.jsonl", source)
        content = read_benchmark(path)
        with write_session(self.engine) as session:
            import_benchmark(session, content, name=name)

    def model(self, name: str) -> None:
        with write_session(self.engine) as session:
            add_revision(session, name, RevisionRequest("external"))

    def file(self, name: str, lines: Sequence[dict[str, Any] | str]) -> Path:
        path = self.folder / name
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        return path


def four_options(count: int, **more: Any) -> list[dict[str, Any]]:
    """Return questions q0, q1, … with options a to d; the answer is the question's number modulo 4."""
    return [
        {"id": f"q{q}", "subject": None, "question": f"Question {q}?", "options": list("abcd"), "answer": q % 4, **more}
        for q in range(count)
    ]


@pytest.fixture
def registry(database: str, tmp_path: Path) -> Registry:
    """Return an empty registry on each engine in turn, with the external model "m"."""
    registry_of_test = Registry(database, tmp_path)
    registry_of_test.model("m")
    return registry_of_test


@pytest.fixture
def registries(sqlite_database: str, postgresql_database: str, tmp_path: Path) -> list[Registry]:
    """Return a registry on SQLite and one on PostgreSQL."""
    return [Registry(url, tmp_path) for url in (sqlite_database, postgresql_database)]


ImportLines = Callable[..., int]
