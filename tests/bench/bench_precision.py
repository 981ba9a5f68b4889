"""Sampling to a precision, by replay: `python -m tests.bench.bench_precision [REPLAYS] [--only TEXT]`. Prints Markdown.

Real answers are asked again in thousands of drawn orders, as an evaluation with --precision would ask them, and each
run's last interval is compared with the value over all questions. Accuracy: 26 models on the 12,032 questions of
MMLU-Pro. Average and worst accuracy: two models' twelve orders of the 1,273 questions of MedQA; and, for history, the
26 models with three more orders simulated around their real answers.

With --registry URL the answers are those of a registry instead: of every sealed evaluation of all questions in all
rotations or all orders.
"""

import argparse
import gzip
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sqlalchemy import select

from registry.db import make_engine, read_session
from registry.scores.intervals import question_values
from registry.statistics.sequential import INFORMATION, MINIMUM_SAMPLE, critical_values, gathered, score_interval
from registry.statistics.stopping import (
    fluctuation_stopped,
    soonest_fluctuation,
    soonest_worst,
    worst_accuracy_stopped,
)
from registry.statistics.survey import (
    LEAST_REST,
    Frame,
    batch_of,
    due_order,
    estimates,
    frame_by_history,
    frame_by_subject,
    smallest_share,
)
from registry.tables import Evaluation, EvaluationQuestion, Question, VariantSet

Floats = NDArray[np.float64]
DATA = Path(__file__).resolve().parent.parent / "data"
REPLAYS = 2_080
PRECISIONS = (0.05, 0.02, 0.01)
CONFIDENCE = 0.95
NUMBERS_AT_ONCE = 20_000_000
"""Of the largest array; replays are run in groups that stay below."""


@dataclass(frozen=True)
class Answers:
    """scores: per question and model, in [0, 1]; subjects: of the questions."""

    scores: Floats
    subjects: Sequence[str | None]


@dataclass(frozen=True)
class Replayed:
    """Of one model: questions asked, whether the last interval holds the value, and whether all intervals did."""

    asked: NDArray[np.int64]
    covered: NDArray[np.bool_]
    covered_throughout: NDArray[np.bool_]


def replayed(frame: Frame, values: Floats, precision: float, replays: int, seed: int) -> Replayed:
    """Runs of an evaluation with a stated precision, each in an order of its own."""
    questions = len(values)
    truth = values.mean()
    batch = batch_of(questions, precision, CONFIDENCE)
    generator = np.random.default_rng(seed)
    critical = np.array([np.inf, *critical_values(CONFIDENCE)])
    levels = np.array(INFORMATION)
    widest = max(len(frame.rates), frame.history.shape[1], 1)
    at_once = max(1, NUMBERS_AT_ONCE // (questions * widest // 4))
    asked, covered, throughout = [], [], []
    for start in range(0, replays, at_once):
        number = min(at_once, replays - start)
        orders = np.stack([due_order(frame, generator.permutation(questions)) for _ in range(number)])
        stopped_at, last_holds = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.bool_)
        all_hold, seen = np.ones(number, dtype=np.bool_), np.zeros(number, dtype=np.int64)
        running = np.arange(number)
        n = batch * -(-MINIMUM_SAMPLE // batch)
        while running.size:
            n = min(n, questions) if questions - n >= LEAST_REST else questions
            drawn = orders[running, :n]
            mean, error = estimates(frame, drawn, values[drawn])
            share = gathered(mean, error, n, precision, CONFIDENCE)
            level = np.searchsorted(levels, share, side="right")
            finished = (level == len(levels)) | (n == questions)
            low, high = score_interval(mean, error, n, np.where(level > 0, critical[level], 1e9))
            inside = ((low <= truth) & (truth <= high)) | (n == questions)
            all_hold[running[level > seen[running]]] &= inside[level > seen[running]]
            all_hold[running[finished]] &= inside[finished]
            stopped_at[running[finished]], last_holds[running[finished]] = n, inside[finished]
            seen[running] = np.maximum(seen[running], level)
            running = running[~finished]
            n = max(n + batch, _next(n, share[~finished], level[~finished], questions) // batch * batch)
        asked.append(stopped_at)
        covered.append(last_holds)
        throughout.append(all_hold)
    return Replayed(np.concatenate(asked), np.concatenate(covered), np.concatenate(throughout))


def _next(n: int, share: Floats, level: NDArray[np.int64], questions: int) -> int:
    """How many questions any of the runs needs for its next look, less 3 %: batches before it need no estimate."""
    if not share.size:
        return 0
    information = 0.97 * np.array(INFORMATION)[level] / share / (1 / n - 1 / questions)
    return int((1 / (1 / information + 1 / questions)).min())


def fixed_sample(values: Floats, precision: float) -> float:
    """Share of the questions that a simple random sample of fixed size needs, its variance known beforehand."""
    needed = values.var() * (1.959964 / precision) ** 2
    return float(needed / (1 + needed / len(values)) / len(values))


def betting_share(values: Floats, precision: float, seed: int) -> float:
    """Share of the questions that the hedged betting sequence without replacement needs, of a simple random sample.

    It holds at every number of questions for every sample size. Bets are sized for the sample that is expected, which
    favours it.
    Source: Waudby-Smith and Ramdas, *Estimating means of bounded random variables by betting* (2024), section 5.
    """
    questions = len(values)
    drawn = values[np.random.default_rng(seed).permutation(questions)]
    candidates = np.linspace(0.0005, 0.9995, 1000)
    up, down = np.zeros(1000), np.zeros(1000)
    expected = 2 * fixed_sample(values, precision) * questions
    total, squares, mean, variance = 0.0, 0.25, 0.5, 0.25
    threshold = np.log(2 / (1 - CONFIDENCE))
    for t, x in enumerate(drawn, start=1):
        left = (questions * candidates - total) / (questions - t + 1)
        possible = (left > 0) & (left < 1)
        rate = np.sqrt(2 * threshold / (variance * expected))
        centre = np.clip(left, 1e-6, 1 - 1e-6)
        up += np.log1p(np.minimum(rate, 0.5 / centre) * (x - centre))
        down += np.log1p(-np.minimum(rate, 0.5 / (1 - centre)) * (x - centre))
        total += x
        mean = (0.5 + total) / (t + 1)
        squares += (x - mean) ** 2
        variance = squares / (t + 1)
        if t % 20 == 0:
            kept = candidates[possible & (np.maximum(up, down) < threshold)]
            if not kept.size or kept.max() - kept.min() <= 2 * precision:
                return t / questions
    return 1.0


@cache
def mmlu_pro() -> Answers:
    """Right or wrong of 26 models on MMLU-Pro."""
    table = pd.read_csv(DATA / "mmlu_pro_predictions.csv.gz", keep_default_na=False)
    right = table["correct"].to_numpy(dtype=object)[:, None]
    given = table[list(table.columns[4:])].to_numpy(dtype=object)
    return Answers((given == right).astype(np.float64), table["subject"].tolist())


@cache
def medqa_answers() -> list[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Of two models on MedQA: the options chosen, -1 where there is none, and whether they are right.

    Each of shape (questions, 12): the original order and eleven shuffles.
    """
    return [_variants(name) for name in ("medqa_mistral7b_cat.jsonl.gz", "medqa_medalpaca_cat.jsonl.gz")]


def _variants(name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    found: dict[str, dict[tuple[str, int], tuple[str | None, str]]] = {}
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            key = (row["variant_type"], row["variant_index"])
            if row["variant_type"] == "standard_MC_shuffled" or key == ("standard_MC", 0):
                said = None if row["chosen"] is None else row["options"][row["chosen"]]
                found.setdefault(row["question_id"], {})[key] = (said, row["options"][row["correct"]])
    chosen = []
    for _, answers in sorted(found.items()):
        numbers: dict[str | None, int] = {None: -1}
        chosen.append([numbers.setdefault(answers[key][0], len(numbers) - 1) for key in sorted(answers)])
    right = [[said == best for _, (said, best) in sorted(answers.items())] for _, answers in sorted(found.items())]
    return np.array(chosen), np.array(right)


@cache
def medqa(metric: str) -> Answers:
    """Average or worst accuracy of two models on MedQA."""
    models = [right.astype(np.float64) for _, right in medqa_answers()]
    values = [right.mean(axis=1) if metric == "average_accuracy" else right.min(axis=1) for right in models]
    return Answers(np.stack(values, axis=1), [None] * len(values[0]))


@cache
def simulated_orders(metric: str) -> Answers:
    """Average or worst accuracy of the 26 models: the real answers, and three orders simulated around them."""
    real = mmlu_pro()
    easy = real.scores.mean(axis=1, keepdims=True)
    again = real.scores * (0.6 + 0.4 * easy) + (1 - real.scores) * 0.5 * easy
    generator = np.random.default_rng(0)
    orders = np.stack([real.scores, *(generator.random((3, *again.shape)) < again)])
    return Answers(orders.mean(axis=0) if metric == "average_accuracy" else orders.min(axis=0), real.subjects)


def frames(answers: Answers, precision: float, *, history: bool) -> Iterator[tuple[Frame, Floats]]:
    """Each model's values with the frame that they are sampled by; with history: all other models'."""
    for model, values in enumerate(answers.scores.T):
        if history:
            yield frame_by_history(np.delete(answers.scores, model, axis=1)), values
        else:
            smallest = smallest_share(len(values), precision, CONFIDENCE)
            yield frame_by_subject(answers.subjects, smallest), values


def row(answers: Answers, precision: float, replays: int, *, history: bool) -> str:
    """Columns of the table for one setting; replays are divided among the models."""
    models = answers.scores.shape[1]
    each = -(-replays // models)
    runs = [
        replayed(frame, values, precision, each, seed)
        for seed, (frame, values) in enumerate(frames(answers, precision, history=history))
    ]
    share = np.array([np.median(run.asked) for run in runs]) / len(answers.scores)
    fixed = np.median([fixed_sample(values, precision) for values in answers.scores.T])
    return (
        f"| {each * models:,} | {fixed:.1%} | {np.median(share):.1%} | {share.min():.1%} to {share.max():.1%} "
        f"| {np.concatenate([run.covered for run in runs]).mean():.2%} "
        f"| {np.concatenate([run.covered_throughout for run in runs]).mean():.2%} |"
    )


def of_registry(url: str) -> Iterator[tuple[str, Answers]]:
    """What is replayed, and the values of every question, of each sealed evaluation in all rotations or orders."""
    engine = make_engine(url)
    with read_session(engine) as session:
        query = (
            select(Evaluation)
            .join(VariantSet, VariantSet.id == Evaluation.variant_set_id)
            .where(Evaluation.seal.is_not(None), VariantSet.kind.in_(("cyclic", "full")))
            .where(Evaluation.sampled_for.is_(None), Evaluation.stopped_for.is_(None))
        )
        for evaluation in session.scalars(query.order_by(Evaluation.id)):
            of_evaluation = select(Question.id, Question.subject).join(
                EvaluationQuestion, EvaluationQuestion.question_id == Question.id
            )
            asked = session.execute(of_evaluation.where(EvaluationQuestion.evaluation_id == evaluation.id)).all()
            values = question_values(session, evaluation.id, [row.id for row in asked])
            name = f"{evaluation.model_revision.model.name}, {evaluation.variant_set.name}, {len(asked)} questions"
            for metric in ("accuracy", *_ORDERS):
                yield f"{name}, {metric}", Answers(values[metric][:, None], [row.subject for row in asked])


def stopping() -> Iterator[str]:
    """Prompts that exact stopping asks of two models' twelve orders, each in the order learnt from the other."""
    names = ("Mistral-7B-Instruct", "medalpaca-7b")
    for place, (name, (chosen, right)) in enumerate(zip(names, medqa_answers(), strict=True)):
        others = medqa_answers()[1 - place]
        worst, asked = worst_accuracy_stopped(right, soonest_worst(others[1][None]))
        differing, asked_twice = fluctuation_stopped(chosen, soonest_fluctuation(others[0][None]))
        prompts = right.size
        yield f"| {name} | {prompts:,} | {worst.mean():.4f} | {asked.sum() / prompts:.1%} | {differing.mean():.4f} "
        yield f"| {asked_twice.sum() / prompts:.1%} |\n"


def main() -> None:
    """Prints the table, a line as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("replays", type=int, nargs="?", default=REPLAYS)
    parser.add_argument("--only", default="", help="only settings whose line begins with this text")
    parser.add_argument("--registry", help="database whose evaluations are replayed instead")
    given = parser.parse_args()
    print("| Answers | History | Precision | Replays | Fixed sample | Asked | Models | Covered | At every look |")
    print("|---|---|---|---|---|---|---|---|---|")
    if given.registry is not None:
        for name, answers in of_registry(given.registry):
            for precision in PRECISIONS:
                print(
                    f"| {name} | no | {precision:g} {row(answers, precision, given.replays, history=False)}", flush=True
                )
        return
    settings = [
        ("MMLU-Pro, accuracy", mmlu_pro, True),
        *((f"MedQA, {metric}", lambda metric=metric: medqa(metric), False) for metric in _ORDERS),
        *((f"simulated, {metric}", lambda metric=metric: simulated_orders(metric), True) for metric in _ORDERS),
    ]
    for name, answers, has_history in settings:
        for history in (False, True) if has_history else (False,):
            for precision in PRECISIONS:
                line = f"{name} | {'yes' if history else 'no'} | {precision:g} "
                if line.startswith(given.only):
                    begun = time.process_time()
                    found = row(answers(), precision, given.replays, history=history)
                    print(f"| {line}{found} <!-- {time.process_time() - begun:.0f} s -->", flush=True)
    if "stopping".startswith(given.only):
        print("\n| MedQA, 12 orders | Prompts | Worst accuracy | Asked | Fluctuation rate | Asked |")
        print("|---|---|---|---|---|---|\n" + "".join(stopping()), end="")
    if "betting".startswith(given.only):
        shares = [betting_share(values, 0.02, seed) for seed, values in enumerate(mmlu_pro().scores.T)]
        print(f"\nBetting, precision 0.02, without strata: {np.median(shares):.1%} of MMLU-Pro (median over models).")


_ORDERS = ("average_accuracy", "worst_accuracy")

if __name__ == "__main__":
    main()
