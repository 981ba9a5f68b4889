"""Makes a registry and writes down all that it states: `python -m tests.migration.make_reference`.

Run once, at commit f0726e4, before tables and views were squashed into one first schema; test_reference.py imports the
archives with today's code and compares. It is kept to say what the registry holds, and is not run again: its numbers are
those of the code of that time.

    mmlu     three subjects, 21 questions of which several are flagged, with a pool of examples
    medqa    24 questions of five options
    mmlu-pro 30 questions of up to ten options in three subjects

    mistral               real answers of Mistral-7B to medqa: 11 repeats and 11 shuffles of each question
    gemma-7b, jamba       real letters on mmlu-pro
    SmolLM2-135M-Instruct mmlu, scored by a worker with one example: `original`, then `cyclic`, which copies the original
    ada, bob, cleo        answers drawn with a seed: log-probabilities with and without the question, probabilities,
                          letters with invalid ones, texts

One evaluation of bob is withdrawn, one of ada superseded, and ada has a replicate; a board stands on a suite of two tasks.
"""

import csv
import gzip
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

from sqlalchemy import text

from registry.db import get_engine
from registry.prompting.variants import QuestionShape, inserted_ordinals, parse_variants
from shuffleboard.packaged import SMOLLM2, packaged_file
from tests.migration.reference import stated
from tests.population import MMLU, ROOT, write_lines
from tests.proof.commands import run

FOLDER: Final = ROOT / "tests" / "data" / "reference"
ARCHIVES: Final = FOLDER / "archives.tar.xz"
STATED: Final = FOLDER / "stated.json.gz"
SUITE_FILE: Final = FOLDER / "suite.toml"
BOARD_FILE: Final = FOLDER / "board.toml"
DATA: Final = ROOT / "tests" / "data"
HOST: Final = "reference-host"
SUBJECTS: Final = ("human_aging", "sociology", "global_facts")
PRO_SUBJECTS: Final = ("law", "physics", "psychology")
WORKER: Final = f"import socket; socket.gethostname = lambda: '{HOST}'; from shuffleboard.cli import cli; cli()"

Line = dict[str, Any]


def read(path: Path) -> list[Line]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def first_of(lines: Iterable[Line], subjects: Sequence[str], count: int) -> list[Line]:
    lines = list(lines)
    return [line for subject in subjects for line in [line for line in lines if line["subject"] == subject][:count]]


def drawn(
    kind: str,
    questions: Sequence[Line],
    answer: Callable[[list[float], random.Random], Line],
    *,
    skill: float,
    seed: int,
) -> list[Line]:
    """A line for each prompt: strengths of the positions are drawn, and `answer` says what of them was recorded."""
    names = {ordinal: name for name, ordinal in inserted_ordinals(kind).items()}
    lines = []
    for question in questions:
        shape = QuestionShape(question["id"], len(question["options"]), question["answer"])
        knows = random.Random(f"{seed}:{question['id']}").random() < skill
        for variant in parse_variants(kind).variants(shape):
            draw = random.Random(f"{seed}:{kind}:{question['id']}:{variant.ordinal}")
            strengths = [
                -5.0
                + (2.0 if option == shape.answer and knows and variant.question_shown else 0.0)
                + (0.6 if position == 0 else 0.0)
                - 1.5 * draw.random()
                for position, option in enumerate(variant.order)
            ]
            order = [names.get(option, option) for option in variant.order]
            lines.append(
                {"question_id": question["id"], "variant": variant.ordinal, "order": order} | answer(strengths, draw)
            )
    return lines


def _best(strengths: list[float]) -> int:
    return max(range(len(strengths)), key=lambda position: strengths[position])


def logprobs(strengths: list[float], draw: random.Random) -> Line:
    return {"logprobs": strengths}


def both_logprobs(strengths: list[float], draw: random.Random) -> Line:
    return {"logprobs": strengths, "logprobs_without_question": [value - draw.random() for value in strengths]}


def probabilities(strengths: list[float], draw: random.Random) -> Line:
    weights = [2.0**value for value in strengths]
    return {
        "position": _best(strengths),
        "probabilities": [weight if draw.random() > 0.05 else 0.0 for weight in weights],
    }


def letters(strengths: list[float], draw: random.Random) -> Line:
    return {"position": None if draw.random() < 0.08 else _best(strengths)}


def texts(strengths: list[float], draw: random.Random) -> Line:
    position = letters(strengths, draw)["position"]
    said = "I cannot say." if position is None else f"{'ABCDEFGHIJ'[position]}. That is what I think."
    return {"position": position, "text": said}


class Registry:
    """The registry that is filled, through its command line."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.files = 0

    def __call__(self, *arguments: object) -> Any:
        outcome = run(get_engine(self.url), *arguments, "--json")
        assert outcome.code == 0, f"{arguments}: {outcome.stdout}{outcome.stderr}"
        return outcome.document

    def benchmark(self, name: str, lines: list[Line], *more: str) -> None:
        self("benchmarks", "import", write_lines(self.folder / f"{name}.jsonl", lines), "--name", name, *more)

    def outputs(self, model: str, benchmark: str, kind: str, lines: list[Line], *more: str) -> int:
        self.files += 1
        path = write_lines(self.folder / f"outputs-{self.files}.jsonl", lines)
        found = self(
            "evaluations", "import", path, "--model", model, "--benchmark", benchmark, "--variants", kind, *more
        )
        return int(found["evaluation"])


def fill(made: Registry) -> None:
    """Everything that the module's docstring lists."""
    mmlu = read(MMLU)
    asked = first_of([line for line in mmlu if line["split"] == "test"], SUBJECTS, 7)
    pool = first_of([line for line in mmlu if line["split"] == "fewshot"], SUBJECTS, 5)
    medqa = read(DATA / "medqa_usmle5.jsonl.gz")[:24]
    pro = first_of(read(DATA / "mmlu_pro.jsonl.gz"), PRO_SUBJECTS, 10)
    made.benchmark("mmlu", asked + pool, "--version", "reference", "--licence", "MIT", "--source", "hendrycks/test")
    made.benchmark("medqa", medqa, "--licence", "MIT", "--source", "jind11/MedQA")
    made.benchmark("mmlu-pro", pro, "--licence", "MIT", "--source", "TIGER-AI-Lab/MMLU-Pro")
    for name in ("ada", "bob", "cleo", "mistral", "gemma-7b", "jamba"):
        made("models", "add", name, "--kind", "external", "--family", name.partition("-")[0])
    _score(made)
    _import_real(made, medqa, pro)
    _import_drawn(made, asked, medqa)
    # Last, so that there is one snapshot, of all of it.
    made("suites", "import", SUITE_FILE)
    made("boards", "import", BOARD_FILE)


def _score(made: Registry) -> None:
    """By a real model, with a worker: prompts, digests, copies and fingerprints come with it."""
    model = Path("/tmp/reference/SmolLM2-135M-Instruct.Q4_1.gguf")
    model.parent.mkdir(exist_ok=True)
    shutil.copy(packaged_file(SMOLLM2, made.folder), model)
    made("models", "add", "SmolLM2-135M-Instruct", "--kind", "gguf", "--location", model, "--family", "SmolLM2")
    for kind in ("original", "cyclic"):
        made(
            "evaluations", "submit", "--model", "SmolLM2-135M-Instruct", "--benchmark", "mmlu", "--variants", kind,
            "--shots", 1,
        )  # fmt: skip
        # A process of its own: a worker ends the one it runs in.
        subprocess.run(
            [sys.executable, "-c", WORKER, "worker", "--until-idle", "--device", "cpu", "--queues", "cpu"],
            env=os.environ | {"SHUFFLEBOARD_DATABASE_URL": made.url},
            check=True,
        )


def _import_real(made: Registry, medqa: list[Line], pro: list[Line]) -> None:
    known = {line["id"] for line in medqa}
    recorded = [line for line in read(DATA / "medqa_mistral7b_cat.jsonl.gz") if line["question_id"] in known]
    for select in ("standard_MC:0,standard_MC_shuffled", "standard_MC"):
        made.outputs("mistral", "medqa", "imported", recorded, "--protocol", "first-letter", "--select", select)
    known = {line["id"] for line in pro}
    with gzip.open(DATA / "mmlu_pro_predictions.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [row for number, row in enumerate(csv.reader(file)) if number == 0 or row[0] in known]
    path = made.folder / "letters.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    for model, column in (("gemma-7b", "gemma-7b"), ("jamba", "jamba-1.5-large")):
        made(
            "evaluations", "import", path, "--model", model, "--benchmark", "mmlu-pro", "--variants", "original",
            "--protocol", "first-letter", "--column", column,
        )  # fmt: skip


def _import_drawn(made: Registry, mmlu: list[Line], medqa: list[Line]) -> None:
    for benchmark, questions in (("mmlu", mmlu), ("medqa", medqa)):
        for kind in ("cyclic", "divergent", "choice-only"):
            how = logprobs if kind == "choice-only" else both_logprobs
            made.outputs("ada", benchmark, kind, drawn(kind, questions, how, skill=0.75, seed=1))
        for kind in ("cyclic", "divergent", "choice-only"):
            how = logprobs if kind == "choice-only" else probabilities
            made.outputs("bob", benchmark, kind, drawn(kind, questions, how, skill=0.55, seed=2))
    for kind in ("cyclic", "answer-moving", "shuffle", "original-inverse"):
        made.outputs("cleo", "mmlu", kind, drawn(kind, mmlu, letters, skill=0.6, seed=3))
    made.outputs(
        "cleo", "mmlu", "cyclic", drawn("cyclic", mmlu, texts, skill=0.6, seed=4), "--protocol", "first-letter"
    )
    made.outputs("bob", "mmlu", "adversarial", drawn("adversarial", mmlu, both_logprobs, skill=0.7, seed=5))
    again = made.outputs("ada", "mmlu", "cyclic", drawn("cyclic", mmlu, both_logprobs, skill=0.7, seed=6))
    first = made.outputs("ada", "medqa", "random2", drawn("random2", medqa, probabilities, skill=0.3, seed=7))
    second = made.outputs("ada", "medqa", "random2", drawn("random2", medqa, probabilities, skill=0.8, seed=8))
    wrong = made.outputs("bob", "mmlu", "original", drawn("original", mmlu, letters, skill=0.1, seed=9))
    made("statistics", "pride", again, "--alpha", 0.2)
    made("evaluations", "supersede", first, "--by", second, "--reason", "answers were read at the wrong place")
    made("evaluations", "withdraw", wrong, "--reason", "another model's file")


def archive(made: Registry) -> bytes:
    """The archives of all sealed evaluations, in the order in which they were sealed, as one file."""
    with get_engine(made.url).connect() as connection:
        numbers = connection.execute(text("SELECT id FROM evaluation WHERE seal IS NOT NULL ORDER BY sealed_at, id"))
        sealed = [int(row.id) for row in numbers]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=9) as packed:
        for place, number in enumerate(sealed, start=1):
            folder = made.folder / f"{place:02}"
            made("evaluations", "export", number, "--out", folder)
            packed.add(folder, arcname=folder.name)
    return buffer.getvalue()


def main() -> None:
    with tempfile.TemporaryDirectory() as name, mock.patch("socket.gethostname", return_value=HOST):
        made = Registry(f"sqlite:///{name}/reference.db", Path(name))
        outcome = run(get_engine(made.url), "db", "upgrade")
        assert outcome.code == 0, outcome.stderr
        fill(made)
        ARCHIVES.write_bytes(archive(made))
        found = json.dumps(stated(made.url), ensure_ascii=False, sort_keys=True)
    STATED.write_bytes(gzip.compress(found.encode(), mtime=0))
    for path in (ARCHIVES, STATED):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
