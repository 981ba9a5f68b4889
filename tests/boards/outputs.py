"""Outputs of made-up models for boards: answers depend on a skill and on a preference for the first position."""

import random
from collections.abc import Sequence
from typing import Any

from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.prompting.variants import QuestionShape, number_inserted, parse_variants
from tests.outputs.conftest import Registry

HEADLINE = (
    "right_twice_across_orders@cyclic",
    "accuracy@cyclic",
    "order_loss@cyclic",
    "worst_accuracy@cyclic",
    "cora@divergent",
    "fluctuation_rate@cyclic",
    "npsq_accuracy@choice-only",
)
KINDS = ("cyclic", "divergent", "choice-only")


def lines(
    kind: str, questions: Sequence[dict[str, Any]], *, skill: float, liking: float, seed: int
) -> list[dict[str, Any]]:
    """Return a line for each prompt, with log-probabilities that favour the right option and the first position."""
    collected = []
    names = {ordinal: name for name, ordinal in number_inserted(kind.partition(":")[0]).items()}
    for question in questions:
        shape = QuestionShape(question["id"], len(question["options"]), question["answer"])
        draw = random.Random(f"{seed}:{question['id']}")
        knows = draw.random() < skill
        for variant in parse_variants(kind).variants(shape):
            noise = random.Random(f"{seed}:{question['id']}:{kind}:{variant.ordinal}")
            logprobs = [
                -5.0
                + (1.5 if option == shape.answer and knows and variant.question_shown else 0.0)
                + (liking if position == 0 else 0.0)
                - noise.random()
                for position, option in enumerate(variant.order)
            ]
            collected.append(
                {
                    "question_id": question["id"],
                    "variant": variant.ordinal,
                    "order": [names.get(option, option) for option in variant.order],
                    "logprobs": logprobs,
                }
            )
    return collected


def import_all(
    registry: Registry,
    model: str,
    benchmark: str,
    questions: Sequence[dict[str, Any]],
    kinds: Sequence[str] = KINDS,
    **how: Any,
) -> list[int]:
    """Import a model's outputs for every kind of variants; return the ids of the evaluations."""
    return [
        import_outputs(
            registry.engine,
            ImportRequest(
                registry.file(f"{model}-{benchmark}-{kind}.jsonl", lines(kind, questions, **how)),
                model,
                benchmark,
                kind,
            ),
        )
        for kind in kinds
    ]
