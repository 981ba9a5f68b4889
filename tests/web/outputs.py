"""A registry of imported outputs for the charts: moved answers, adversarial options, two models compared.

Benchmark `mixed`: 40 questions of two subjects; every fourth has 5 options, the others 4. Two models:

    leaning  likes the first place: right there, elsewhere right by a draw of its own
    steady   right or wrong by question, wherever the answer is

Both answer under answer-moving and two protocols, under cyclic, and under adversarial variants with the question and
without it. Some answers are not valid. `veiled` is the same and hidden. `parted` are 16 of the questions in four
subjects, under two shuffles, answered by `leaning` alone. The board `order` is of `mixed` under cyclic.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, update

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.prompting.variants import QuestionShape, VariantShown, number_inserted, parse_variants
from registry.revisions.store import RevisionRequest, add_revision
from registry.tables import BenchmarkVersion
from tests.support.population import write_lines
from tests.web.seed import question_ids

MODELS = ("leaning", "steady")
PROTOCOLS = ("symbols", "hybrid")
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": f"m{number}",
        "subject": "odd" if number % 2 else "even",
        "question": f"Which is number {number}?",
        "options": [f"choice {number}.{option}" for option in range(5 if number % 4 == 0 else 4)],
        "answer": number % 4,
    }
    for number in range(40)
]
HIDDEN = "veiled"
PARTED = "parted"
PARTED_QUESTIONS = [question | {"subject": f"part {number % 4}"} for number, question in enumerate(QUESTIONS[:16])]
BOARD = "order"
BOARD_COLUMNS = ("accuracy@cyclic", "worst_accuracy@cyclic")

Answer = Callable[[QuestionShape, VariantShown, random.Random], int | None]


def leaning(shape: QuestionShape, variant: VariantShown, draw: random.Random) -> int | None:
    """Return the position that `leaning` chooses; None for an invalid answer."""
    right = variant.order.index(shape.answer)
    return None if draw.random() < 0.05 else right if draw.random() < 0.45 else 0


def steady(shape: QuestionShape, variant: VariantShown, draw: random.Random) -> int | None:
    """Return the position that `steady` chooses."""
    knows_answer = int(shape.external_id[1:]) % 5 != 0
    return variant.order.index(shape.answer) if knows_answer or draw.random() < 0.1 else len(variant.order) - 1


ANSWERS: dict[str, Answer] = {"leaning": leaning, "steady": steady}


@dataclass
class Outputs:
    """Evaluation ids and imported lines by (model, kind, protocol), hidden evaluations by model, and question ids."""

    evaluations: dict[tuple[str, str, str], int] = field(default_factory=dict)
    lines: dict[tuple[str, str, str], list[dict[str, Any]]] = field(default_factory=dict)
    hidden: dict[str, int] = field(default_factory=dict)
    questions: dict[str, int] = field(default_factory=dict)
    parted: int = 0
    parted_lines: list[dict[str, Any]] = field(default_factory=list)


def output_lines(kind: str, answer: Answer, seed: str, questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a line for each prompt: the chosen position, and log-probabilities that match it."""
    names = {ordinal: name for name, ordinal in number_inserted(kind).items()}
    lines = []
    for question in questions:
        shape = QuestionShape(question["id"], len(question["options"]), question["answer"])
        for variant in parse_variants(kind).variants(shape):
            draw = random.Random(f"{seed}:{kind}:{question['id']}:{variant.ordinal}")
            position = answer(shape, variant, draw)
            if position is not None and kind == "adversarial" and draw.random() < 0.3 and min(variant.order) < 0:
                position = variant.order.index(min(variant.order))
            logprobs = [
                -3.0 - draw.random() + (2.5 if place == position else 0.0) for place in range(len(variant.order))
            ]
            lines.append(
                {
                    "question_id": question["id"],
                    "variant": variant.ordinal,
                    "order": [names.get(option, option) for option in variant.order],
                    "position": position,
                    "logprobs": logprobs,
                }
            )
    return lines


def fill(engine: Engine, folder: Path) -> Outputs:
    """Import everything into an empty registry."""
    outputs = Outputs()
    with write_session(engine) as session:
        for name in MODELS:
            add_revision(session, name, RevisionRequest("external"))
        for name, questions in (("mixed", QUESTIONS), (HIDDEN, QUESTIONS), (PARTED, PARTED_QUESTIONS)):
            content = read_benchmark(write_lines(folder / f"{name}.jsonl", questions))
            version, _ = import_benchmark(session, content, name=name)
            if name == "mixed":
                outputs.questions = question_ids(session, version)
    for name in MODELS:
        for kind, protocol in (
            *(("answer-moving", protocol) for protocol in PROTOCOLS),
            ("cyclic", "symbols"),
            ("adversarial", "symbols"),
        ):
            lines = output_lines(kind, ANSWERS[name], f"{name}:{protocol}", QUESTIONS)
            outputs.lines[name, kind, protocol] = lines
            outputs.evaluations[name, kind, protocol] = _import(engine, folder, name, "mixed", kind, protocol, lines)
        outputs.hidden[name] = _import(
            engine, folder, name, HIDDEN, "cyclic", "symbols", outputs.lines[name, "cyclic", "symbols"]
        )
    outputs.parted_lines = output_lines("shuffle", leaning, "leaning", PARTED_QUESTIONS)
    outputs.parted = _import(engine, folder, "leaning", PARTED, "shuffle", "symbols", outputs.parted_lines)
    with write_session(engine) as session:
        hidden = update(BenchmarkVersion).where(BenchmarkVersion.benchmark.has(name=HIDDEN))
        session.execute(hidden.values(visibility="hidden"))
        import_suite(
            session,
            SuiteDefinition.model_validate({"name": "orders", "variants": ["cyclic"], "tasks": [{"benchmark": "*"}]}),
        )
        import_board(session, BoardDefinition(name=BOARD, suite="orders", benchmarks=("mixed",), columns=BOARD_COLUMNS))
    refresh_boards(engine)
    return outputs


def _import(
    engine: Engine, folder: Path, model: str, benchmark: str, kind: str, protocol: str, lines: list[dict[str, Any]]
) -> int:
    path = write_lines(folder / "outputs.jsonl", lines)
    return import_outputs(engine, ImportRequest(path, model, benchmark, kind, protocol))
