"""Recorded answers of real models, which ship with the package and which the demo imports. README.md lists sources."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, func, select, text
from sqlalchemy.orm import Session

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.boards.definition import BoardDefinition, SuiteDefinition, parse_definition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import read_session, write_session
from registry.digests import sha256_file
from registry.leaderboard.facts import facts_of, noise_facts
from registry.logs.imports.importer import ImportRequest, import_columns, import_outputs
from registry.lookups import not_withdrawn
from registry.metrics.catalogue import HEADLINES
from registry.revisions.store import RevisionRequest, add_revision
from registry.studies.noise import repeat_noise
from registry.tables import EngineFingerprint, Evaluation, Question, QuestionScore, Shard
from registry.verdicts.table import say

FOLDER: Final = Path(__file__).parent
BOARD: Final = "demo"
MEDQA: Final = "medqa"
MMLU_PRO: Final = "mmlu-pro-sample"
MISTRAL: Final = "Mistral-7B-Instruct"
MEDALPACA: Final = "medalpaca-7b"

# Name, file, licence, source.
BENCHMARKS: Final = (
    (MEDQA, "medqa.jsonl.gz", "MIT", "jind11/MedQA"),
    (MMLU_PRO, "mmlu-pro.jsonl.gz", "MIT", "TIGER-AI-Lab/MMLU-Pro"),
)
_LLAMA_2: Final = ("Llama 2", "Meta", "Llama 2 Community License", "2023-07-18")
_LLAMA_3: Final = ("Llama 3", "Meta", "Llama 3 Community License", "2024-04-18")
_LLAMA_3_1: Final = ("Llama 3.1", "Meta", "Llama 3.1 Community License", "2024-07-23")
_QWEN_1_5: Final = ("Qwen1.5", "Alibaba", "Tongyi Qianwen License", "2024-02-04")
_YI: Final = ("Yi", "01.AI", "Apache-2.0")
_MISTRAL: Final = ("Mistral", "Mistral AI", "Apache-2.0")
_MIXTRAL: Final = ("Mixtral", "Mistral AI", "Apache-2.0", "2023-12-11")
# Model → its parameters, family, developer, licence and release date, according to its card and its developer.
MODELS: Final[Mapping[str, tuple[int, str, str, str | None, str | None]]] = {
    MISTRAL: (7_241_732_096, *_MISTRAL, None),
    MEDALPACA: (6_738_415_616, "LLaMA", "medalpaca", None, None),
    "Llama-2-7b-hf": (6_738_415_616, *_LLAMA_2),
    "Llama-2-13b-hf": (13_015_864_320, *_LLAMA_2),
    "Llama-2-70b-hf": (68_976_648_192, *_LLAMA_2),
    "Meta-Llama-3-8B": (8_030_261_248, *_LLAMA_3),
    "Meta-Llama-3-70B": (70_553_706_496, *_LLAMA_3),
    "Meta-Llama-3_1-8B": (8_030_261_248, *_LLAMA_3_1),
    "Meta-Llama-3_1-8B-Instruct": (8_030_261_248, *_LLAMA_3_1),
    "Meta-Llama-3_1-70B": (70_553_706_496, *_LLAMA_3_1),
    "Meta-Llama-3_1-70B-Instruct": (70_553_706_496, *_LLAMA_3_1),
    "Mistral-7B-v0.1": (7_241_732_096, *_MISTRAL, "2023-09-27"),
    "Mistral-7B-Instruct-v0.1": (7_241_732_096, *_MISTRAL, "2023-09-27"),
    "Mistral-7B-Instruct-v0.2": (7_241_732_096, *_MISTRAL, "2023-12-11"),
    "Mistral-7B-v0.2-hf": (7_241_732_096, *_MISTRAL, "2024-03-23"),
    "mathstral-7B": (7_248_023_552, *_MISTRAL, "2024-07-16"),
    "Mixtral-8x7B-v0.1": (46_702_792_704, *_MIXTRAL),
    "Mixtral-8x7B-Instruct-v0.1": (46_702_792_704, *_MIXTRAL),
    "Qwen1.5-7B-Chat": (7_721_324_544, *_QWEN_1_5),
    "Qwen1.5-72B-Chat": (72_287_920_128, *_QWEN_1_5),
    "Qwen1.5-110B": (111_209_914_368, *_QWEN_1_5[:3], "2024-04-25"),
    "Yi-6B": (6_061_035_520, *_YI, "2023-11-02"),
    "Yi-34B": (34_388_917_248, *_YI, "2023-11-02"),
    "Yi-6b-Chat": (6_061_035_520, *_YI, "2023-11-23"),
    "Phi-3-mini-4k-instruct": (3_821_079_552, "Phi-3", "Microsoft", "MIT", "2024-04-23"),
    "c4ai-command-r-v01": (34_980_831_232, "Command R", "Cohere", "CC-BY-NC-4.0", "2024-03-11"),
    "gemma-7b": (8_537_680_896, "Gemma", "Google", "Gemma terms of use", "2024-02-21"),
    "jamba-1.5-large": (398_000_000_000, "Jamba", "AI21 Labs", "Jamba Open Model License", "2024-08-22"),
}


@dataclass(frozen=True)
class Answers:
    """A file with one model's answers to MedQA, and its kind of variants."""

    model: str
    file: str
    variants: str


REPEATS: Final = Answers(MISTRAL, "medqa-mistral-7b-instruct-repeats.jsonl.gz", "imported")
ORDERS: Final = Answers(MISTRAL, "medqa-mistral-7b-instruct-orders.jsonl.gz", "imported")
# The repeats come first: if a board could show two evaluations, it shows the newer one.
ANSWERS: Final = (
    REPEATS,
    ORDERS,
    Answers(MEDALPACA, "medqa-medalpaca-7b-orders.jsonl.gz", "imported"),
    Answers(MEDALPACA, "medqa-medalpaca-7b-divergent.jsonl.gz", "imported"),
)
TABLE: Final = "mmlu-pro-answers.csv.gz"
"""Answers of 26 models in one order, a column for each model."""
PROTOCOL: Final = "select-letter"
SHOTS: Final = 5
"""Number of examples in the prompts of those 26 models, which answer with a chain of thought and a letter."""

COLUMNS: Final = HEADLINES[:-1]
"""Columns of the board; NPSQ is left out, since the answers include no prompt without the question."""


@dataclass(frozen=True)
class Story:
    """The demo's story, computed from stored results.

    sentence: conclusion about a model with several orders, from the evaluation `orders`. question: id of a question
    whose answer flips. once: model → accuracy on MMLU-Pro, on a sample of questions in one order; the best first.
    """

    sentence: str
    orders: int
    question: int
    once: Mapping[str, float]
    sampled: int


def import_recorded(engine: Engine) -> Story:
    """Import benchmarks, models and answers, and create the board; existing ones stay unchanged."""
    with read_session(engine) as session:
        imported = _evaluations_of_files(session)
    with write_session(engine) as session:
        for name, file, licence, source in BENCHMARKS:
            import_benchmark(session, read_benchmark(FOLDER / file), name=name, licence=licence, source=source)
        for model, facts in MODELS.items():
            described = dict(zip(("parameters", "family", "developer", "licence", "released"), facts, strict=True))
            add_revision(session, model, RevisionRequest("external"), described)
    for answers in ANSWERS:
        path = FOLDER / answers.file
        if sha256_file(path) not in imported:
            import_outputs(engine, ImportRequest(path, answers.model, MEDQA, answers.variants))
    if sha256_file(FOLDER / TABLE) not in imported:
        import_columns(engine, FOLDER / TABLE, benchmark=MMLU_PRO, protocol=PROTOCOL, shots=SHOTS)
    with read_session(engine) as session:
        story = tell_story(session)
    _make_boards(engine, story)
    return story


def _evaluations_of_files(session: Session) -> dict[str, int]:
    """Map the digest of an imported file to the newest sealed evaluation that was created from it."""
    query = (
        select(EngineFingerprint.document, Shard.evaluation_id)
        .join(Shard, Shard.engine_fingerprint_id == EngineFingerprint.id)
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(Evaluation.seal.is_not(None), not_withdrawn())
        .order_by(Evaluation.id)
    )
    return {row.document.get("file_digest", ""): row.evaluation_id for row in session.execute(query)}


def tell_story(session: Session) -> Story:
    """Return the story that the stored results tell."""
    evaluations = _evaluations_of_files(session)
    orders = evaluations[sha256_file(FOLDER / ORDERS.file)]
    facts = replace(facts_of(session, [orders])[orders], noise=noise_facts(repeat_noise(session, orders)))
    conclusions = " ".join(sentence.text for sentence in say("evaluation", facts))
    score = QuestionScore
    # The question whose answer is right as printed and in about half of all orders, with the fewest different prompts.
    flipping = (
        select(Question.id)
        .join(score, score.question_id == Question.id)
        .where(score.evaluation_id == orders, score.original_correct.is_(True), score.valid == score.stored)
        .order_by(func.abs(2 * score.correct - score.stored), score.agreeing, Question.ordinal)
        .limit(1)
    )
    once = session.execute(
        text(
            "SELECT model, accuracy, questions FROM leaderboard "
            "WHERE benchmark = :benchmark AND variants = 'original' ORDER BY accuracy DESC"
        ),
        {"benchmark": MMLU_PRO},
    ).all()
    return Story(
        sentence=f"{MISTRAL} on MedQA: {conclusions}",
        orders=orders,
        question=session.scalars(flipping).one(),
        once={row.model: row.accuracy for row in once},
        sampled=once[0].questions,
    )


def _make_boards(engine: Engine, story: Story) -> None:
    make_board(
        engine,
        {"name": BOARD, "variants": ["imported"], "tasks": [{"benchmark": MEDQA}]},
        {
            "title": "What the order of the options costs",
            "text": "Recorded answers of two models to MedQA, in the order that is printed and in other orders.",
            "columns": [f"{metric}@imported" for metric in COLUMNS],
        },
    )
    make_board(
        engine,
        {
            "name": MMLU_PRO,
            "protocols": [PROTOCOL],
            "shots": SHOTS,
            "variants": ["original"],
            "tasks": [{"benchmark": MMLU_PRO}],
        },
        {
            "title": "MMLU-Pro, asked once",
            "text": f"Recorded answers to {story.sampled} questions of MMLU-Pro, every 24th by id. Each was asked in "
            "one order, so nothing is known about other orders.",
            "columns": ["accuracy@original"],
        },
    )
    refresh_boards(engine)


def make_board(engine: Engine, suite: dict[str, Any], board: dict[str, Any]) -> None:
    """Store a suite and a board of the same name, unless they exist."""
    board = board | {"name": suite["name"], "suite": suite["name"]}
    with write_session(engine) as session:
        import_suite(session, parse_definition(suite, SuiteDefinition, suite["name"]))
        import_board(session, parse_definition(board, BoardDefinition, suite["name"]))
