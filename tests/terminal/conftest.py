"""Fixtures for a registry with long names, which all tests of the command line's appearance share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from tests.outputs.conftest import Registry, four_options

BENCHMARK = "mmlu-professional-medicine-and-law"
LONG = "Mistral-7B-Instruct-v0.3-with-a-long-suffix"
MODELS = (LONG, "medalpaca-7b")
QUESTIONS = 8


@pytest.fixture(scope="session")
def _filled(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Registry:
    registry = Registry(lasting_sqlite(), tmp_path_factory.mktemp("terminal"))
    registry.benchmark(BENCHMARK, four_options(QUESTIONS))
    for skill, model in enumerate(MODELS, start=5):
        registry.model(model)
        lines = [
            {
                "question_id": f"q{q}",
                "variant": variant,
                "order": [(position + variant) % 4 for position in range(4)],
                "option": q % 4 if q < skill and variant < 3 else 0,
            }
            for q in range(QUESTIONS)
            for variant in range(4)
        ]
        path = registry.file(f"{model}.jsonl", lines)
        import_outputs(registry.engine, ImportRequest(path, model, BENCHMARK, "cyclic"))
    with write_session(registry.engine) as session:
        suite = {"name": "one", "title": "One", "variants": ["cyclic"], "tasks": [{"benchmark": BENCHMARK}]}
        import_suite(session, SuiteDefinition.model_validate(suite))
        columns = ["accuracy@cyclic", "worst_accuracy@cyclic", "fluctuation_rate@cyclic"]
        board = {"name": "main", "title": "How robust", "suite": "one", "columns": columns}
        import_board(session, BoardDefinition.model_validate(board))
    refresh_boards(registry.engine)
    return registry


@pytest.fixture
def filled(_filled: Registry, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Return two models on a benchmark, some with long names, and the board "main"; tests may only read it."""
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", _filled.url)
    return _filled


@pytest.fixture
def files(tmp_path: Path, _filled: Registry) -> Path:
    """Return a folder with a file of every kind, for commands that expect another kind."""
    import pandas as pd

    questions = four_options(2)
    registry = Registry(_filled.url, tmp_path)
    registry.file("benchmark.jsonl", questions)
    registry.file("outputs.jsonl", [{"question_id": "q0", "variant": 0, "order": [0, 1, 2, 3], "position": 1}])
    registry.file("samples.jsonl", [{"doc_id": 0, "doc": {}, "target": "0", "resps": []}])
    pd.DataFrame(questions).to_parquet(tmp_path / "benchmark.parquet")
    pd.DataFrame({"question_id": ["q0"], "gpt-4": ["A"]}).to_parquet(tmp_path / "letters.parquet")
    for name, content in {
        "letters.csv": b"question_id,gpt-4\nq0,A\n",
        "log.eval": b"PK\x03\x04",
        "suite.toml": b'name = "s"\nvariants = ["cyclic"]\n[[tasks]]\nbenchmark = "b"\n',
        "board.toml": b'name = "b"\nsuite = "one"\ncolumns = ["accuracy@cyclic"]\n',
        "column.toml": b'name = "b"\nsuite = "one"\ncolumns = ["acuracy@cyclic"]\n',
        "protocol.toml": b'name = "p"\nbase = "symbols"\n',
        "model.gguf": b"GGUF\x03\x00",
        "registry.db": b"SQLite format 3\x00",
        "empty.jsonl": b"",
        "notes.txt": b"hello\n",
        "model/config.json": b"{}",
        "model/model.safetensors": b"",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path
