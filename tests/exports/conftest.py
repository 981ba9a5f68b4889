"""Fixtures for a registry with texts that readers of files often misinterpret, and with something for each audience."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, update

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.lookups import find_version
from registry.revisions.store import RevisionRequest, add_revision
from registry.tables import BenchmarkVersion
from tests.outputs.conftest import Registry

ODD: list[dict[str, Any]] = [
    {"id": "q1", "subject": "NA", "question": "Which is =1+1?", "options": ["None", "NA", "=1+1"], "answer": 2},
    {"id": "q2", "subject": None, "question": 'Say "hello",\nthen go.', "options": ["null", "", "nan"], "answer": 0},
    {
        "id": "007",
        "subject": "spies",
        "question": "Line\u2028end?",
        "options": ["true", "1.0", "-"],
        "answer": 1,
        "extra": [1],
    },
]
ODD[1]["options"][1] = "\\N"
TEXTS = ["NA", "=1+1", "", "None", "a,b", 'say "x"\nthen', "true", "0012", "\u00e9\u2028"]


@dataclass(frozen=True)
class Filled:
    """A registry with evaluations: `odd` of models m (cyclic) and n, `club` for members only, and `secret`, hidden."""

    url: str
    engine: Engine
    odd: int
    other: int
    club: int
    secret: int


def _lines(*, weights: bool) -> list[dict[str, Any]]:
    """Return answers in the three cyclic orders of the three questions, a different one each time."""
    lines: list[dict[str, Any]] = []
    for question in ODD:
        for variant in range(3):
            line: dict[str, Any] = {
                "question_id": question["id"],
                "variant": variant,
                "order": [(position + variant) % 3 for position in range(3)],
                "text": TEXTS[len(lines)],
            }
            if len(lines) == 4:
                line["position"] = None
            elif weights:
                line["probabilities"] = [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [1 / 3, 0.5, 1 / 6]][variant]
            else:
                line["position"] = 0
            lines.append(line)
    return lines


def fill(url: str, folder: Path) -> Filled:
    """Fill the registry at `url` and return it; files are written into `folder`."""
    engine = get_engine(url)

    def file(name: str, lines: list[dict[str, Any]]) -> Path:
        path = folder / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return path

    with write_session(engine) as session:
        for model in ("m", "n"):
            add_revision(session, model, RevisionRequest("external"))
        for name, visibility in (("odd", "public"), ("club", "members"), ("secret", "hidden")):
            content = read_benchmark(file(f"{name}.jsonl", [{**line, "from": name} for line in ODD]))
            source = "https://example.org/odd" if name == "odd" else None
            import_benchmark(session, content, name=name, licence="MIT", source=source)
            session.flush()
            version = find_version(session, name)
            values = {"visibility": visibility}
            session.execute(update(BenchmarkVersion).where(BenchmarkVersion.id == version.id).values(values))
    with_weights, without = file("weights.jsonl", _lines(weights=True)), file("letters.jsonl", _lines(weights=False))
    evaluations = [("m", "odd", with_weights), ("n", "odd", without), ("m", "club", without), ("n", "secret", without)]
    ids = [
        import_outputs(engine, ImportRequest(path, model, benchmark, "cyclic"))
        for model, benchmark, path in evaluations
    ]
    return Filled(url, engine, *ids)


def many_evaluations(url: str, folder: Path, number: int) -> Registry:
    """Return a registry with evaluations of this number of models on three questions, in cyclic orders."""
    registry = Registry(url, folder)
    registry.benchmark("odd", ODD)
    for model in range(number):
        registry.model(f"m{model}")
        lines = [
            {
                "question_id": question["id"],
                "variant": variant,
                "order": [(position + variant // 2) % 3 for position in range(3)],
                # The digits of the model's number decide its answer to each question.
                "position": (model // 3**place + variant * (model % 2)) % 3,
            }
            for place, question in enumerate(ODD)
            for variant in range(6)
        ]
        file = registry.file(f"m{model}.jsonl", lines)
        import_outputs(registry.engine, ImportRequest(file, f"m{model}", "odd", "cyclic:repeats=2"))
    return registry


@pytest.fixture(scope="session")
def sqlite_filled(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Return the registry on SQLite, for tests that only read."""
    return fill(lasting_sqlite(), tmp_path_factory.mktemp("filled"))


@pytest.fixture(scope="session")
def postgresql_filled(lasting_postgresql: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Return the registry on PostgreSQL, for tests that only read."""
    return fill(lasting_postgresql(), tmp_path_factory.mktemp("filled"))


@pytest.fixture(params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest) -> Filled:
    """Return the registry on each engine in turn, for tests that only read."""
    population: Filled = request.getfixturevalue(f"{request.param}_filled")
    return population
