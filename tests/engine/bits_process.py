"""A program that computes numbers of a tiny model in its own process: `bits_process.py THREADS`.

Prints the engine's settings and the numbers; instruction sets come from the environment.
"""

import json
import sys

import torch

from tests.engine.tiny import random_prompts, tiny_model
from workers.engine import TrieEngine


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]))
    engine = TrieEngine(tiny_model("qwen3"))
    numbers = engine.score_tokens(random_prompts(11)).logprobs
    print(json.dumps({"settings": engine.settings(), "numbers": numbers}))


if __name__ == "__main__":
    main()
