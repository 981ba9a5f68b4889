"""What exact stopping saves, in prompts and in tokens: `python -m tests.bench.bench_stopping TOKENIZER.json MEDQA.jsonl`.

Recorded answers of two models to the twelve orders of MedQA's questions, and a strong model simulated, each asked in the
order learnt from the others. Tokens are those that the trie computes of a question's prompts, the shared header left
out: orders that are asked together share the question and the options they begin with, and each later round computes
these again. Prints Markdown.
"""

import argparse
import gzip
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from registry.queue.estimate import shared_tokens
from registry.results.stopped import ends_of
from registry.statistics.stopping import (
    fluctuation_stopped,
    soonest_fluctuation,
    soonest_worst,
    worst_accuracy_stopped,
)
from tests.bench.bench_precision import DATA, medqa_answers

SAMPLED = 300
"""Questions whose prompts are tokenised."""
STRONG = 0.9
"""Questions that the simulated strong model gets right in every order; half of its answers to the others are right."""


def orders_shown() -> dict[str, list[list[str]]]:
    """Question to its options as each of the twelve orders shows them, in the order of `medqa_answers`."""
    found: dict[str, dict[tuple[str, int], list[str]]] = {}
    with gzip.open(DATA / "medqa_mistral7b_cat.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            key = (row["variant_type"], row["variant_index"])
            if row["variant_type"] == "standard_MC_shuffled" or key == ("standard_MC", 0):
                found.setdefault(row["question_id"], {})[key] = row["options"]
    return {name: [orders[key] for key in sorted(orders)] for name, orders in sorted(found.items())}


def computed(sequences: list[list[int]], order: list[int], ends: list[int], asked: int) -> int:
    """Tokens that the trie computes of a question's prompts, round by round, until `asked` prompts have been asked."""
    total, begun = 0, 0
    for end in ends:
        if begun >= asked:
            break
        total += shared_tokens([sequences[place] for place in order[begun:end]])
        begun = end
    return total


def rounded(asked: NDArray[np.int64], ends: list[int]) -> NDArray[np.int64]:
    """Prompts that are asked where a question is looked at only at the ends of rounds."""
    return np.array(ends)[np.searchsorted(ends, asked)]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("benchmark", type=Path)
    given = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(given.tokenizer))
    texts = {}
    with given.benchmark.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            texts[row["id"]] = row["question"]
    shown = orders_shown()
    places = [place for place, name in enumerate(shown) if name in texts]
    kept = places[:: max(1, len(places) // SAMPLED)]
    names = list(shown)
    sequences = {
        place: [
            tokenizer.encode(
                "\n".join(
                    [texts[names[place]], *(f"{'ABCDE'[at]}. {text}" for at, text in enumerate(options)), "Answer:"]
                )
            ).ids
            for options in shown[names[place]]
        ]
        for place in kept
    }
    together = sum(shared_tokens(listed) for listed in sequences.values())
    generator = np.random.default_rng(0)
    (mistral, mistral_right), (medalpaca, medalpaca_right) = medqa_answers()
    steady = generator.random(len(mistral)) < STRONG
    strong_right = steady[:, None] | (generator.random(mistral_right.shape) < 0.5)
    strong = np.where(strong_right, 0, generator.integers(1, 5, mistral.shape))
    models = [
        ("medalpaca-7b", medalpaca, medalpaca_right),
        ("Mistral-7B-Instruct", mistral, mistral_right),
        ("strong, simulated", strong, strong_right),
    ]
    print("| Model | Until decided | Value | Rounds | Prompts | Tokens computed |\n|---|---|---|---|---|---|")
    for number, (name, chosen, right) in enumerate(models):
        others = [model for place, model in enumerate(models) if place != number]
        ways = {
            "worst_accuracy": (
                worst_accuracy_stopped,
                right,
                soonest_worst(np.stack([other[2] for other in others])),
            ),
            "fluctuation_rate": (
                fluctuation_stopped,
                chosen,
                soonest_fluctuation(np.stack([other[1] for other in others])),
            ),
        }
        for metric, (stopped, answers, order) in ways.items():
            values, asked = stopped(answers, order)
            for rounds, ends in (
                ("of one", list(range(2 if metric == "fluctuation_rate" else 1, 13))),
                ("that double", list(ends_of(metric, 12, shared=False))),
                ("first, then the rest", list(ends_of(metric, 12, shared=True))),
            ):
                prompts = rounded(np.maximum(asked, ends[0]), ends)
                tokens = sum(computed(sequences[place], order, ends, int(prompts[place])) for place in kept)
                print(
                    f"| {name} | {metric} | {values.mean():.3f} | {rounds} | {prompts.mean() / 12:.1%} "
                    f"| {tokens / together:.1%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
