"""A run of 200 questions with our extension of Inspect AI: `inspect_run.py FOLDER VARIANTS`.

Runs in .venv-inspect (`make peer`), with the project and its dependencies on PYTHONPATH. The model is Inspect's mock; its
answer depends on the question, the order and the repeat, and now and then it has none.

stdout, one JSON document: the log's place, its accuracy as the log viewer shows it, and from the scores of its samples
the accuracy of the first order, and how often two answers are right, in one order and in two.
"""

import hashlib
import json
import os
import re
import sys
from collections import Counter
from itertools import combinations, product
from pathlib import Path
from statistics import fmean
from typing import Any

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import choice
from inspect_ai.solver import multiple_choice

from shuffleboard.inspect_extension import permuted

QUESTIONS = int(os.environ.get("SHUFFLEBOARD_TEST_QUESTIONS", "200"))
asked: Counter[str] = Counter()


def answer(messages: list[Any], *_: Any) -> ModelOutput:
    """Answer easy questions right and hard orders with A, otherwise at random; now and then give no answer."""
    prompt = messages[-1].text
    asked[prompt] += 1
    question = prompt[prompt.index("How much") : prompt.index("?")]
    numbers = [int(digits) for digits in re.findall(r"[0-9]+", question)]
    right = next(letter for letter in "ABCD" if f"{letter}) {sum(numbers)}\n" in f"{prompt}\n")
    drawn = hashlib.sha256(f"{prompt} {asked[prompt]}".encode()).digest()
    letter = "ABCD"[drawn[1] % 4]
    if numbers[0] % 3 == 0 and drawn[0] % 8:
        letter = right
    elif drawn[0] % 2:
        letter = "A"
    output = ModelOutput.from_content("mock", "no idea" if drawn[2] % 16 == 0 else f"ANSWER: {letter}")
    # Without a usage, the mock downloads a tokenizer.
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def main() -> None:
    """Run the task, and print a summary of its log."""
    samples = [
        Sample(
            id=f"q{number}",
            input=f"How much is {number} + {number + 1}?",
            choices=[str(2 * number + 1 + more) for more in range(4)],
            target="A",
        )
        for number in range(QUESTIONS)
    ]
    task = Task(name="sums", dataset=MemoryDataset(samples), solver=multiple_choice(), scorer=choice())
    (log,) = inspect_ai.eval(
        permuted(task, variants=sys.argv[2]),
        model=get_model("mockllm/model", custom_outputs=answer),
        log_dir=sys.argv[1],
        display="none",
    )
    assert log.results is not None
    report = {
        "log": str(Path(log.location.removeprefix("file://"))),
        "accuracy": log.results.scores[0].metrics["accuracy"].value,
        **by_hand(log.samples),
    }
    print(json.dumps(report))


def by_hand(samples: list[Any]) -> dict[str, float]:
    """Return shares of right answers, each a mean over questions."""
    right: dict[str, dict[int, list[int]]] = {}
    for sample in sorted(samples, key=lambda sample: (sample.epoch, sample.metadata["shuffleboard"]["variant"])):
        named = sample.metadata["shuffleboard"]
        scored = right.setdefault(named["question"], {}).setdefault(named["variant"], [])
        scored.append(int(sample.scores["choice"].value == "C"))
    orders = [list(of_question.values()) for of_question in right.values()]
    return {
        "first_order": fmean(of_question[0][0] for of_question in orders),
        "right_twice_same_order": fmean(
            fmean(a * b for answers in of_question for a, b in combinations(answers, 2))
            if len(of_question[0]) > 1
            else 0
            for of_question in orders
        ),
        "right_twice_across_orders": fmean(
            fmean(a * b for one, other in combinations(of_question, 2) for a, b in product(one, other))
            for of_question in orders
        ),
    }


if __name__ == "__main__":
    main()
