"""A run of 200 questions with our extension of Inspect AI: `inspect_run.py FOLDER VARIANTS`.

Runs in .venv-inspect (`make peer`), with the project and its dependencies on PYTHONPATH. The model is Inspect's mock;
its
answer depends on the question, the first option, and the repeat, and now and then it has none.

stdout, one JSON document: {"log": "…", "accuracy": 0.41}
"""

import hashlib
import json
import os
import sys
from collections import Counter
from pathlib import Path
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
    """Answer A in one half of the prompts, else by a draw; give no readable answer in one of sixteen."""
    prompt = messages[-1].text
    asked[prompt] += 1
    drawn = hashlib.sha256(f"{prompt} {asked[prompt]}".encode()).digest()
    letter = "A" if drawn[0] % 2 else "ABCD"[drawn[1] % 4]
    output = ModelOutput.from_content("mock", "no idea" if drawn[2] % 16 == 0 else f"ANSWER: {letter}")
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else the mock downloads a tokenizer
    return output


def main() -> None:
    """Run the task, and print the path of its log."""
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
    accuracy = log.results.scores[0].metrics["accuracy"].value
    print(json.dumps({"log": str(Path(log.location.removeprefix("file://"))), "accuracy": accuracy}))


if __name__ == "__main__":
    main()
