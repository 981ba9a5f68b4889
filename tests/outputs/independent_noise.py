"""Repeat noise and order effect of recorded outputs in IBM/cat's layout, without any code of the registry.

    python -m tests.outputs.independent_noise tests/data/medqa_mistral7b_cat.jsonl.gz

Of each question: the share of pairs of its repeats (`standard_MC`, one prompt) that have different answers; the share of
pairs among the original (the first repeat) and the shuffles that differ in their order and have different answers; and
the difference. Answers are the option itself, found again in the original's list; an answer that is no label shown
differs from everything. Intervals are 1.96 standard errors of the mean over questions.
"""

import gzip
import json
import sys
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev


def differ(one, other):
    """Return whether two answers differ; an invalid answer, None, differs from every answer."""
    return one is None or one != other


def estimate(values):
    """Return the mean and its 95 % interval."""
    mean, half = fmean(values), 1.96 * stdev(values) / sqrt(len(values))
    return mean, (mean - half, mean + half)


def record(path):
    """Return repeats and shuffles: question → (order, answer) pairs, as indices into the original options."""
    lines = {}
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for text in stream:
            line = json.loads(text)
            lines.setdefault(line["question_id"], {}).setdefault(line["variant_type"], []).append(line)
    recorded = {}
    for question, by_type in lines.items():
        original = by_type["standard_MC"][0]["options"]
        assert len(set(original)) == len(original)
        for kind, shown in by_type.items():
            for line in sorted(shown, key=lambda line: line["variant_index"]):
                order = tuple(original.index(option) for option in line["options"])
                answer = None if line["chosen"] is None else order[line["chosen"]]
                recorded.setdefault(kind, {}).setdefault(question, []).append((order, answer))
    return recorded["standard_MC"], recorded["standard_MC_shuffled"]


def noise(path):
    """Return means and intervals of the share of pairs that differ, for repeats and for orders, and of the effect."""
    repeats, shuffles = record(path)
    same, moved = [], []
    for question, outcomes in repeats.items():
        assert len({order for order, _ in outcomes}) == 1
        same.append(fmean(differ(one, other) for (_, one), (_, other) in combinations(outcomes, 2)))
        orders = [outcomes[0], *shuffles[question]]
        moved.append(fmean(differ(one, other) for (p, one), (q, other) in combinations(orders, 2) if p != q))
    effect = [after - before for before, after in zip(same, moved, strict=True)]
    return {"repeats": estimate(same), "orders": estimate(moved), "effect": estimate(effect)}


if __name__ == "__main__":
    for name, (mean, (low, high)) in noise(Path(sys.argv[1])).items():
        print(f"{name:8} {mean:.10f}  [{low:.4f}, {high:.4f}]")
