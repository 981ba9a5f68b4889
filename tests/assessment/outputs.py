"""Outputs of made-up models in all orders: log-weights from knowledge and a preference for early positions."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import Engine

from registry.logs.imports.importer import ImportRequest, import_outputs
from tests.outputs.conftest import Registry

BENCHMARKS = {"four": (4,), "two": (2,), "mixed": (3, 4)}
"""Name of a benchmark → numbers of options, which alternate from question to question."""

QUESTIONS = 12


@dataclass(frozen=True)
class MadeUp:
    """A made-up model.

    skill: the margin of the right option if the model knows it.
    liking: the strength of its preference for early positions.
    stated: whether it states letters only, without probabilities.
    """

    skill: float
    liking: float
    stated: bool = False


MODELS = {
    "steady": MadeUp(4.0, 0.0),
    "good": MadeUp(3.0, 0.3),
    "fair": MadeUp(2.0, 0.8),
    "middling": MadeUp(1.5, 1.0),
    "swayed": MadeUp(1.0, 1.5),
    "lost": MadeUp(0.3, 3.0),
    "lettered": MadeUp(2.0, 0.6, stated=True),
}
"""Made-up models; `lettered` gives no probabilities and now and then no valid answer."""


def questions(name: str) -> list[dict[str, Any]]:
    """Return the lines of a benchmark file."""
    sizes = BENCHMARKS[name]
    documents = []
    for number in range(QUESTIONS):
        L = sizes[number % len(sizes)]
        documents.append(
            {
                "id": f"{name}-{number}",
                "subject": None,
                "question": f"Which is number {number} of {name}?",
                "options": [f"option {number}.{option}" for option in range(L)],
                "answer": (number * 7 // 3) % L,
            }
        )
    return documents


def lines(model: str, made_up: MadeUp, benchmark: Sequence[dict[str, Any]], seed: int = 0) -> list[dict[str, Any]]:
    """Return a line for each prompt, in every order of the options."""
    collected: list[dict[str, Any]] = []
    for question in benchmark:
        draw = Random(f"{seed}:{model}:{question['id']}")
        L = len(question["options"])
        content = [draw.gauss(0, 1) + made_up.skill * (option == question["answer"]) for option in range(L)]
        for variant, order in enumerate(itertools.permutations(range(L))):
            weights = [
                math.exp(content[option] - made_up.liking * position + draw.gauss(0, 0.4))
                for position, option in enumerate(order)
            ]
            line: dict[str, Any] = {"question_id": question["id"], "variant": variant, "order": list(order)}
            if made_up.stated:
                line["position"] = None if draw.random() < 0.05 else weights.index(max(weights))
            else:
                line["probabilities"] = weights
            collected.append(line)
    return collected


def import_full(
    registry: Registry, model: str, benchmark: str, made_up: MadeUp, *, seed: int = 0, shots: int = 0
) -> int:
    """Import a model's outputs under `full`; return the evaluation's id."""
    path = registry.file(f"{model}-{benchmark}.jsonl", lines(model, made_up, questions(benchmark), seed))
    return import_outputs(registry.engine, ImportRequest(path, model, benchmark, "full", shots=shots))


def fill(url: str, folder: Path) -> Engine:
    """Return a registry with every made-up model on every benchmark, and evaluations that must not count."""
    registry = Registry(url, folder)
    for benchmark in BENCHMARKS:
        registry.benchmark(benchmark, questions(benchmark))
    for model, made_up in MODELS.items():
        registry.model(model)
        for benchmark in BENCHMARKS:
            if (model, benchmark) == ("good", "four"):
                import_full(registry, model, benchmark, made_up, seed=1)  # an older replicate
            import_full(registry, model, benchmark, made_up)
    # Not all orders are included.
    cyclic = [
        {"question_id": question["id"], "variant": k, "order": [(p + k) % 4 for p in range(4)], "position": 0}
        for question in questions("four")
        for k in range(4)
    ]
    import_outputs(registry.engine, ImportRequest(registry.file("cyclic.jsonl", cyclic), "fair", "four", "cyclic"))
    return registry.engine
