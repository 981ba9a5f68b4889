"""Scores questions of five options in all 120 orders, under several limits.

`memory_process.py MIB:THREADS:QUESTIONS[:fast] …` prints a line for each argument, with the peak memory of scoring in
MiB, without the loaded model, and the engine's weights and mode. Each run has its own forked process, since otherwise
it would reuse memory that another run freed.
"""

import json
import os
import sys
from itertools import permutations
from random import Random

import torch

from bench.scorer_process import peak_memory, resident_mb
from tests.engine.tiny import VOCABULARY, as_loaded, random_model
from workers.engine import LoadedModel, TokenisedPrompt, TrieEngine, open_engine

SIZES = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 8, "head_dim": 64}


def prompts(question: int) -> list[TokenisedPrompt]:
    """Return prompts with shared examples, a question's own tokens, and its options in all orders."""
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


def measure(loaded: LoadedModel, limit_mb: int, threads: int, questions: int, *, fast: bool) -> dict[str, float]:
    torch.set_num_threads(threads)
    open_engine(loaded, "trie").score_tokens(prompts(0)[:1])  # libraries take some memory when they first run
    engine = TrieEngine(loaded, memory_bytes=limit_mb << 20, canonical=False if fast else None)
    report: dict[str, float] = {}
    with peak_memory(report, resident_mb()):
        for question in range(questions):
            engine.score_tokens(prompts(question))
    return report | {"packed_weights": engine.packed_weights, "canonical": engine.canonical}


def main() -> None:
    torch.set_num_threads(1)  # no other threads may run when the process is forked
    loaded = as_loaded(random_model("llama", **SIZES))
    for specification in sys.argv[1:]:
        limit, threads, questions, *mode = specification.split(":")
        child = os.fork()
        if child == 0:
            report = measure(loaded, int(limit), int(threads), int(questions), fast=mode == ["fast"])
            print(json.dumps(report), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{specification} failed")


if __name__ == "__main__":
    main()
