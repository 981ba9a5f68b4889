"""Coverage of the 95 % intervals of samples of questions, by replaying real answers: `python -m bench.bench_sample`.

Accuracy: models on the 12,032 questions of MMLU-Pro. Average and worst accuracy: two models' twelve orders of the 1,273
questions of MedQA. For each seed a sample is drawn as by --sample of an evaluation, and its interval is compared with
the value over all questions. Prints Markdown.
"""

import argparse
import gzip
import json
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from registry.digests import sha256_text
from registry.statistics.bootstrap import RESAMPLES, mean_intervals, sampling_factor
from registry.studies.comparing import metric_differences

Floats = NDArray[np.float64]
DATA: Final = Path(__file__).resolve().parent.parent / "tests" / "data"
EVERY_MODEL: Final = 5
"""One of this many of the 26 models on MMLU-Pro is replayed."""


@cache
def draw(questions: int, sample: int, seed: int) -> NDArray[np.intp]:
    """Return the indexes of a sample's questions, drawn as by `registry.queue.evaluations.draw_sample`."""
    hashes = [sha256_text(f"{seed}:q{number}") for number in range(questions)]
    return np.sort(np.argsort(np.array(hashes), kind="stable")[:sample])


def coverage(
    values: Floats, sample: int, seeds: Iterable[int], *, other: Floats | None = None, resamples: int = RESAMPLES
) -> float:
    """Return the share of samples whose interval covers the mean of all values, among samples with an interval.

    values: from 0 to 1, shape (questions,). other: a second model's values, for the interval of the difference.
    """
    truth = float(values.mean() if other is None else (values - other).mean())
    factor = sampling_factor(sample, len(values))
    metric = "accuracy" if np.isin(values, (0, 1)).all() else "average_accuracy"
    covers = []
    for seed in seeds:
        places = draw(len(values), sample, seed)
        if other is None:
            (interval,) = mean_intervals(values[places, np.newaxis], resamples=resamples, factor=factor)
            ends = None if interval is None else (interval.low, interval.high)
        else:
            sides = {metric: values[places]}, {metric: other[places]}
            ends = metric_differences(*sides, factor=factor)[metric]["interval"]
        if ends is not None:
            covers.append(ends[0] <= truth <= ends[1])
    return float(np.mean(covers))


@cache
def mmlu_pro() -> Floats:
    """Return the correctness of 26 models' answers on MMLU-Pro, shape (questions, models)."""
    table = pd.read_csv(DATA / "mmlu_pro_predictions.csv.gz", keep_default_na=False)
    right = table["correct"].to_numpy(dtype=object)[:, None]
    answers = table[list(table.columns[4:])].to_numpy(dtype=object)
    return (answers == right).astype(np.float64)


@cache
def medqa() -> Floats:
    """Return the correctness of two models in the original order and eleven shuffles, (questions, orders, models)."""
    names = ("medqa_mistral7b_cat.jsonl.gz", "medqa_medalpaca_cat.jsonl.gz")
    return np.stack([_orders(DATA / name) for name in names], axis=2)


def _orders(path: Path) -> Floats:
    by_question: dict[str, dict[tuple[str, int], bool]] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            key = (row["variant_type"], row["variant_index"])
            if row["variant_type"] == "standard_MC_shuffled" or key == ("standard_MC", 0):
                by_question.setdefault(row["question_id"], {})[key] = row["chosen"] == row["correct"]
    return np.array(
        [[answers[key] for key in sorted(answers)] for _, answers in sorted(by_question.items())], dtype=float
    )


def rows(sample: int, seeds: Iterable[int]) -> Iterable[tuple[str, int, str, float]]:
    """Yield metric, number of all questions, model or pair of models, and coverage."""
    accuracy, orders = mmlu_pro()[:, ::EVERY_MODEL], medqa()
    for name, values in (
        ("accuracy", accuracy),
        ("average accuracy", orders.mean(axis=1)),
        ("worst accuracy", orders.min(axis=1)),
    ):
        for model in range(values.shape[1]):
            column = values[:, model]
            yield name, len(values), f"{column.mean():.3f}", coverage(column, sample, seeds)
        for left, right in pairwise(range(values.shape[1])):
            first, second = values[:, left], values[:, right]
            pair = f"{first.mean():.3f} − {second.mean():.3f}"
            yield name, len(values), pair, coverage(first, sample, seeds, other=second)


def main() -> None:
    """Print the coverage of each metric for each model, and of the differences of neighbouring models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=200)
    options = parser.parse_args()
    print(f"| Metric | Sample | Value of all | Coverage, {options.seeds} seeds |\n|---|---|---|---|")
    for name, questions, values, covered in rows(options.sample, range(options.seeds)):
        print(f"| {name} | {options.sample} of {questions:,} | {values} | {covered:.1%} |", flush=True)


if __name__ == "__main__":
    main()
