"""Functions that prepare a page's registry before its first command, by the names in `<!-- setup: NAME -->`."""

import csv
import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sqlalchemy import Engine, select

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.recipes import recipe_named
from registry.benchmarks.store import import_benchmark
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.boards.submissions import ModelRequest, request_submission
from registry.db import write_session
from registry.digests import sha256_text
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.lookups import find_version
from registry.people.accounts import SCOPES, create_account, issue_token, viewer_of_account
from registry.prompting.variants import QuestionShape, parse_variants
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import ModelFiles, RevisionRequest, add_revision
from registry.schema.roles import RoleNames, apply_roles
from registry.settings import Settings
from registry.tables import Question
from tests.docs.pages import DOCS, ROOT, blocks
from tests.recipes.hub import stand_in
from tests.recipes.upstream import files, whole
from tests.support import services
from tests.support.fake_scorer import FakeScorer
from tests.support.population import MMLU, question, write_lines
from tests.support.scripted_server import serve_scripted_server
from tests.support.vllm_server import VllmServer
from workers.loop import WorkerLoop

if TYPE_CHECKING:
    from tests.docs.session import Session

DATA = ROOT / "tests" / "data"
ADDRESSES = ("http://127.0.0.1:8000", "https://board.example.org")
"""Addresses of the website that pages show."""
ON_THE_HUB = ("HuggingFaceTB/SmolLM2-135M", "HuggingFaceTB/SmolLM2-135M-Instruct")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def write_block(folder: Path, page: str, info: str, name: str) -> Path:
    """Write a page's only block with an info string to a file; return its path."""
    (block,) = blocks(DOCS / page, info)
    path = folder / name
    path.write_text(block.text, encoding="utf-8")
    return path


def fill(engine: Engine, folder: Path) -> list[int]:
    """Import the example benchmark, and the example outputs for two models; return the ids of the evaluations."""
    content = read_benchmark(write_block(folder, "benchmark-files.md", "jsonl benchmark", "capitals.jsonl"))
    outputs = write_block(folder, "importing-outputs.md", "jsonl outputs", "outputs.jsonl")
    models = ("their-model", "another-model")
    with write_session(engine) as session:
        import_benchmark(session, content, name="capitals")
        for model in models:
            add_revision(session, model, RevisionRequest("external"))
    return [import_outputs(engine, ImportRequest(outputs, model, "capitals", "cyclic")) for model in models]


def write_questions(folder: Path) -> Path:
    """Write twelve questions of MMLU to `questions.jsonl` with five examples, and to `questions.csv` without."""
    lines = [json.loads(line) for line in MMLU.read_text(encoding="utf-8").splitlines()]
    questions = [line for line in lines if line["split"] != "fewshot"][:12]
    examples = [line for line in lines if line["split"] == "fewshot" and line["subject"] == questions[0]["subject"]][:5]
    with (folder / "questions.csv").open("w", encoding="utf-8", newline="") as file:
        columns = ("id", "subject", "question", "options", "answer")
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(line | {"options": json.dumps(line["options"])} for line in questions)
    return write_lines(folder / "questions.jsonl", [*questions, *examples])


# Setups: files


def example_files(session: "Session") -> None:
    """Write the documentation's own examples as files: `capitals.jsonl` and `outputs.jsonl`."""
    write_block(session.folder, "benchmark-files.md", "jsonl benchmark", "capitals.jsonl")
    write_block(session.folder, "importing-outputs.md", "jsonl outputs", "outputs.jsonl")


def helm_run(session: "Session") -> None:
    """Copy a run folder of HELM, and a log of Inspect."""
    shutil.copytree(DATA / "helm" / "joint", session.folder / "runs" / "v1" / "mmlu:subject=anatomy,model=gpt2")
    (session.folder / "logs").mkdir()
    shutil.copyfile(DATA / "inspect" / "plain.eval", session.folder / "logs" / "arc.eval")


def my_questions(session: "Session") -> None:
    """Write twelve questions with five examples to `questions.jsonl`, and the questions to `questions.csv`."""
    write_questions(session.folder)


def my_model_folder(session: "Session") -> None:
    """Copy the folder `my-model`: a random model of a real architecture that is small enough to score at once."""
    shutil.copytree(session.fixture("tiny_folder"), session.folder / "my-model")


def an_adapter(session: "Session") -> None:
    """Write the folder `my-model`, the folder `lora` with an adapter of that model, and `questions.jsonl`."""
    from tests.support.adapters import train_adapter

    my_model_folder(session)
    my_questions(session)
    train_adapter(session.folder / "lora", session.folder / "my-model")


def converted_model(session: "Session") -> None:
    """Put SmolLM2-135M-Instruct among the workers' converted models, so that nobody waits for its conversion."""
    session.fixture("put_smollm2")(session.home)


def models_and_benchmarks_on_a_hub(session: "Session") -> None:
    """Start a hub with SmolLM2, ARC-Challenge and WinoGrande, the benchmarks in full size with made-up questions."""
    hub = session.resources.enter_context(stand_in())
    for name in ("arc-challenge", "winogrande"):
        recipe = recipe_named(name)
        hub.add(recipe.repository, files(recipe, whole(recipe)))
    hub.add(ON_THE_HUB[1], {path.name: path.read_bytes() for path in session.fixture("smollm2_folder").iterdir()})
    session.environment |= {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(session.private / "huggingface"),
        "HF_HUB_OFFLINE": "0",
    }


def checkout(session: "Session") -> None:
    """Copy this checkout to the folder `shuffleboard`, for pages that change code."""
    leave = shutil.ignore_patterns("*.png", "data")
    for name in ("registry", "workers", "web", "migrations", "tests", "docs"):
        shutil.copytree(ROOT / name, session.folder / "shuffleboard" / name, ignore=leave)
    shutil.copy(ROOT / "pyproject.toml", session.folder / "shuffleboard")


def model_files(session: "Session") -> None:
    """Write the folder `my-model`, a GGUF file, and the folders `old-model` and `no-tokenizer`, which are refused."""
    my_model_folder(session)
    gguf = session.fixture("smollm2_gguf")
    (session.folder / gguf.name).symlink_to(gguf)
    for folder, names in {"old-model": ["pytorch_model.bin"], "no-tokenizer": ["config.json", "x.safetensors"]}.items():
        (session.folder / folder).mkdir()
        for name in names:
            (session.folder / folder / name).touch()


def hub(session: "Session") -> None:
    """Fill the cache with the hub's models and files that pages name; every model is the tiny model."""
    cache = session.private / "hub"
    for name in ON_THE_HUB:
        model = cache / f"models--{name.replace('/', '--')}"
        (model / "refs").mkdir(parents=True)
        (model / "refs" / "main").write_text(COMMIT)
        shutil.copytree(session.fixture("tiny_folder"), model / "snapshots" / COMMIT)
    session.environment["HF_HUB_CACHE"] = str(cache)


# Setups: registries


def documented_examples(session: "Session") -> None:
    """Store the documentation's own examples: the benchmark `capitals` and two models' evaluations, 1 and 2."""
    fill(session.engine, session.folder)


def a_board(session: "Session") -> None:
    """Store the documentation's own examples, and a board `main` with both models."""
    documented_examples(session)
    suite = SuiteDefinition(name="core", variants=("cyclic",), tasks=[{"benchmark": "capitals"}])
    board = BoardDefinition(
        name="main", title="Capitals", suite="core", columns=("worst_accuracy@cyclic",), sort="worst_accuracy@cyclic"
    )
    with write_session(session.engine) as transaction:
        import_suite(transaction, suite)
        import_board(transaction, board)
    refresh_boards(session.engine)


def capitals(session: "Session") -> None:
    """Store only the benchmark `capitals`."""
    example_files(session)
    _import(session, "capitals", session.folder / "capitals.jsonl")


def my_benchmark(session: "Session") -> None:
    """Store the benchmark `my-benchmark`, from `questions.jsonl`."""
    my_questions(session)
    _import(session, "my-benchmark", session.folder / "questions.jsonl")


def my_model(session: "Session") -> None:
    """Add the model `my-model`, ready to be scored, but without files, so that only `work_done` can score it."""
    _add_model(session, "my-model")


def scored(session: "Session") -> None:
    """Copy a registry in which a real worker scored `my-model` on `my-benchmark`, on SQLite only.

    Evaluations 1 to 3 are replicates under `cyclic`. The session's folder has `my-model` and `questions.jsonl`.
    """
    assert session.engine_name == "sqlite", "a scored registry is copied as a file"
    my_questions(session)
    my_model_folder(session)
    shutil.copyfile(session.fixture("scored_template"), session.home / "shuffleboard.db")


def real_model(session: "Session") -> None:
    """Check that the package with SmolLM2 is installed, as `make setup` does it."""
    assert session.fixture("smollm2_gguf").exists()


def asked_twice(session: "Session") -> None:
    """Store the benchmark `capitals` and another model's answers to it under the two protocols that a page compares."""
    capitals(session)
    _store_right_answers(session, "capitals", (("symbols", 0), ("symbols", 5)))


# Setups: later events


def work_done(session: "Session") -> None:
    """Score and seal all queued evaluations with a worker that has no model."""
    settings = Settings(home=session.home, poll_seconds=0.05)
    loop = WorkerLoop(session.engine, settings, FakeScorer(), ["cpu", "gpu"])
    loop.start()
    try:
        loop.run(until_idle=True)
    finally:
        loop.stop()


def nonsenseqa_answered(session: "Session") -> None:
    """Store another model's answers to `nonsenseqa`, all right, under the two protocols that pages compare."""
    _store_right_answers(session, "nonsenseqa", (("select-letter", 5), ("match-dash", 5)))


def queued(session: "Session") -> None:
    """Queue an evaluation of `my-model` on `capitals`."""
    with write_session(session.engine) as transaction:
        submit(transaction, EvaluationRequest("my-model", "capitals", "cyclic"))


def stopped(session: "Session") -> None:
    """Stop all background processes."""
    session.stop()


def hosted_model(session: "Session") -> None:
    """Start the service that pages call api.example.org, which has the model llama-3.1-8b and requires a key."""
    key = "key-of-the-tests"
    server = session.resources.enter_context(serve_scripted_server(VllmServer("llama-3.1-8b", api_key=key)))
    session.ports["https://api.example.org"] = urlsplit(server.url).port or 0
    session.environment["EXAMPLE_API_KEY"] = key


def empty_postgresql(session: "Session") -> None:
    """Make an empty database `shuffleboard` on db.example.org, and the role that will own it."""
    if session.engine_name == "sqlite":
        services.postgres_execute(
            session.here("postgresql://postgres@db.example.org/postgres"),
            "DROP DATABASE shuffleboard WITH (FORCE)",
            "DO $$ BEGIN CREATE ROLE shuffleboard_owner; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
            "ALTER ROLE shuffleboard_owner LOGIN",
            "CREATE DATABASE shuffleboard OWNER shuffleboard_owner TEMPLATE template0",
        )


def token(session: "Session") -> None:
    """Set the variable TOKEN to an admin's token with all scopes."""
    with write_session(session.engine) as transaction:
        ada = create_account(transaction, "ada", "admin")
        _, session.environment["TOKEN"] = issue_token(transaction, ada, "documentation", SCOPES)


def my_suite(session: "Session") -> None:
    """Store a suite `my-suite` over the benchmark `my-benchmark`."""
    my_benchmark(session)
    tasks = [{"benchmark": "my-benchmark"}]
    with write_session(session.engine) as transaction:
        import_suite(transaction, SuiteDefinition(name="my-suite", variants=("cyclic",), tasks=tasks))


def asked_before(session: "Session") -> None:
    """Make submission 1, from another account."""
    with write_session(session.engine) as transaction:
        grace = viewer_of_account(create_account(transaction, "grace", "submitter"))
        request_submission(
            transaction, transaction, grace, ModelRequest("somebody/custom-code"), "my-suite", None, Settings()
        )


def served(session: "Session") -> None:
    """Start the website at the pages' addresses."""
    session.serve(*ADDRESSES)


def roles(session: "Session") -> None:
    """Make the roles of PostgreSQL, as `db roles` does; the tests' server requires no password."""
    if session.engine_name == "postgresql":
        apply_roles(session.engine, RoleNames(), {})


def files_of_suites(session: "Session") -> None:
    """Store small benchmarks under the names of the suites' benchmarks, and write the files that imports read."""

    def write(name: str, subjects: Sequence[str] = ("physics",), options: int = 4, examples: int = 5) -> Path:
        lines = [
            question(number, subject=subject, options=options, id=f"{subject}{number}")
            for subject in subjects
            for number in range(4)
        ]
        lines += [question(number, options=options, id=f"e{number}", split="fewshot") for number in range(examples)]
        return write_lines(session.folder / f"{name}.jsonl", lines)

    for name in ("arc-challenge", "aqua-rat", "sat-math", "hellaswag"):
        _import(session, name, write(name))
    _import(session, "mmlu", write("mmlu", ("anatomy", "clinical_knowledge", "physics")))
    write("csqa_dev", options=5, examples=0)
    write("csqa_train", ("a", "b"), options=5, examples=0)
    for language in ("eng", "afr", "xho", "zul"):
        write(f"belebele_{language}", examples=0)


def asked_in_all_orders(session: "Session") -> None:
    """Store two models' answers under `full`, with five examples: the input of the assessment protocol."""
    lines = [question(number) for number in range(3)]
    examples = [question(number, split="fewshot") for number in range(10, 15)]
    _import(session, "ARC-Challenge", write_lines(session.private / "arc.jsonl", [*lines, *examples]))
    for model in ("SmolLM2-135M-Instruct", "Gemma-3-270M"):
        _add_model(session, model)
        with write_session(session.engine) as transaction:
            submit(transaction, EvaluationRequest(model, "ARC-Challenge", "full", shots=5))
    work_done(session)


def files_of_the_measured_run(session: "Session") -> None:
    """Write a few questions to each file that the measured run names."""

    def write(name: str, options: int = 4, **changes: Any) -> Path:
        return write_lines(session.folder / name, [question(number, options=options, **changes) for number in range(6)])

    for name in ("arc_challenge_test", "arc_challenge_dev", "mmlu_dev"):
        write(f"{name}.jsonl")
    for name in ("winogrande_dev", "winogrande_train_s", "truthfulqa_mc1_v1_test"):
        write(f"{name}.jsonl", options=2)
    plain = write("mmlu_test.jsonl")
    (session.folder / "mmlu_test.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))


def _store_right_answers(session: "Session", benchmark: str, protocols: Sequence[tuple[str, int]]) -> None:
    """Store right answers of the model `their-model` under `answer-moving` to every question of a benchmark."""
    with write_session(session.engine) as transaction:
        add_revision(transaction, "their-model", RevisionRequest("external"))
        version = find_version(transaction, benchmark)
        query = select(Question).where(Question.benchmark_version_id == version.id, ~Question.few_shot)
        lines = [
            {"question_id": question.external_id, "variant": variant.ordinal, "order": list(variant.order)}
            | {"option": question.answer}
            for question in transaction.scalars(query)
            for variant in parse_variants("answer-moving").variants(
                QuestionShape(question.external_id, question.n_options, question.answer)
            )
        ]
    outputs = write_lines(session.private / "answers.jsonl", lines)
    for protocol, shots in protocols:
        request = ImportRequest(outputs, "their-model", benchmark, "answer-moving", protocol=protocol, shots=shots)
        import_outputs(session.engine, request)


def _add_model(session: "Session", name: str) -> None:
    files = ModelFiles(sha256_text(f"weights of {name}"), sha256_text("tokenizer"), None, "0" * 40)
    with write_session(session.engine) as transaction:
        add_revision(transaction, name, RevisionRequest("huggingface", f"tests/{name}"), files=files)


def _import(session: "Session", name: str, path: Path, **options: Any) -> None:
    content = read_benchmark(path)
    with write_session(session.engine) as transaction:
        import_benchmark(transaction, content, name=name, **options)
