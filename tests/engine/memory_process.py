"""Scores a question of five options in all 120 orders, in a process of its own: `memory_process.py MIB THREADS [fast]`.

Prints the MiB that scoring took beside the loaded model at its highest, and what the engine says of its weights and mode.
"""

import json
import sys
from itertools import permutations
from random import Random

import torch

from tests.bench.scorer_process import peak_memory, resident_mb
from tests.engine.tiny import VOCABULARY, as_loaded, random_model
from workers.engine import TokenisedPrompt, TrieEngine, open_engine

SIZES = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 8, "head_dim": 64}


def prompts(question: int) -> list[TokenisedPrompt]:
    """Examples that all questions share, then a question's own tokens and its options in all orders."""
    rng = Random(0)

    def tokens(count: int) -> list[int]:
        return [rng.randrange(3, VOCABULARY) for _ in range(count)]

    shared = tokens(200)
    rng.seed(1 + question)
    text, options = tokens(40), [tokens(12) for _ in range(5)]
    return [
        TokenisedPrompt([*shared, *text, *(token for place in order for token in options[place])], [1, 2], question)
        for order in permutations(range(5))
    ]


def main() -> None:
    limit, threads = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(threads)
    loaded = as_loaded(random_model("llama", **SIZES))
    open_engine(loaded, "trie").score_tokens(prompts(0)[:1])  # libraries take some memory when they first run
    canonical = None if sys.argv[3:] != ["fast"] else False
    engine = TrieEngine(loaded, memory_bytes=limit << 20, canonical=canonical)
    report: dict[str, float] = {}
    with peak_memory(report, resident_mb()):
        for question in range(2):
            engine.score_tokens(prompts(question))
    print(json.dumps(report | {"packed_weights": engine.packed_weights, "canonical": engine.canonical}))


if __name__ == "__main__":
    main()
