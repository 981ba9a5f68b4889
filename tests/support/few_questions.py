"""A few questions and a tokenizer for them, for tests of measuring and rescoring."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import decoders

from tests.engine.tokenizers import tokenizer_of_kind


@cache
def tokenizer() -> Any:
    """Return a small tokenizer with a token for each label."""
    extended = copy.deepcopy(tokenizer_of_kind("llama3"))
    extended.backend_tokenizer.decoder = decoders.ByteLevel()
    extended.add_tokens([f" {label}" for label in "ABCD"])
    return extended


def questions(path: Path, options: int) -> Path:
    """Write two questions and a pool of five."""
    lines = [
        {
            "id": f"q{number}",
            "subject": "force",
            "split": "fewshot" if number < 5 else "test",
            "question": f"What is {number}?",
            "options": [f"{number}{letter}" for letter in "NJWP"[:options]],
            "answer": 0,
        }
        for number in range(7)
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path
