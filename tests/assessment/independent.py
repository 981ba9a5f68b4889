"""A second implementation of the assessment protocol, computed from rows of `prediction` with separate formulas.

It follows the contract's text question by question and uses no function of the registry, so that a mistake in either
implementation shows.
"""

import hashlib
import itertools
import json
import math
from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
from sqlalchemy import Engine, text

RANDOM = {2: [1, 0], 3: [3, 5, 0], 4: [12, 13, 1, 8]}
METRICS = ("AAcc", "SAcc", "WAcc", "BAcc", "SensG", "FR", "Prob", "BS", "EN", "retest")

ROWS = """
    SELECT prediction.question_id, question.external_id, question.n_options, question.answer, prediction.shown,
        prediction.chosen_option, prediction.label_probabilities
    FROM prediction JOIN question ON question.id = prediction.question_id
    WHERE prediction.evaluation_id = :id
    ORDER BY prediction.question_id, prediction.variant
"""

NEWEST = """
    SELECT max(evaluation.id) FROM evaluation
    JOIN model_revision ON model_revision.id = evaluation.model_revision_id
    JOIN model ON model.id = model_revision.model_id
    JOIN benchmark_version ON benchmark_version.id = evaluation.benchmark_version_id
    JOIN benchmark ON benchmark.id = benchmark_version.benchmark_id
    JOIN variant_set ON variant_set.id = evaluation.variant_set_id
    WHERE model.name = :model AND benchmark.name = :benchmark AND variant_set.kind = 'full'
        AND evaluation.seal IS NOT NULL
"""

Asked = dict[tuple[int, ...], tuple[int | None, list[float] | None]]


class Answers:
    """The answers to one question: order → (chosen option, probabilities by position)."""

    def __init__(self, name: str, L: int, answer: int) -> None:
        self.name, self.L, self.answer = name, L, answer
        self.asked: Asked = {}


def newest(engine: Engine, model: str, benchmark: str) -> int:
    """Return the newest evaluation, which the protocol uses."""
    with engine.connect() as connection:
        evaluation_id = connection.scalar(text(NEWEST), {"model": model, "benchmark": benchmark})
    assert isinstance(evaluation_id, int)
    return evaluation_id


def read(engine: Engine, evaluation_id: int) -> list[Answers]:
    """Return the answers to every question of an evaluation."""
    by_question: dict[int, Answers] = {}
    with engine.connect() as connection:
        for row in connection.execute(text(ROWS), {"id": evaluation_id}):
            question = by_question.setdefault(row.question_id, Answers(row.external_id, row.n_options, row.answer))
            order, probabilities = _array(row.shown), _array(row.label_probabilities)
            question.asked[tuple(order or ())] = (row.chosen_option, probabilities)
    return list(by_question.values())


def _array(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def orders(subset: str, L: int) -> list[tuple[int, ...]]:
    """Return the orders of a variant set, as the contract defines them."""
    every = list(itertools.permutations(range(L)))
    return {
        "original": [tuple(range(L))],
        "original-inverse": [tuple(range(L)), tuple(reversed(range(L)))],
        "cyclic": [tuple((p + k) % L for p in range(L)) for k in range(L)],
        "random2": [every[rank] for rank in RANDOM[L][:2]],
        "randomL": [every[rank] for rank in RANDOM[L]],
        "full": every,
    }[subset]


def compute_question(question: Answers, R: list[tuple[int, ...]]) -> dict[str, float]:
    """Return every metric that is defined for a question on the orders R."""
    m = [question.asked[order][0] for order in R]
    a, size = question.answer, len(R)
    hits = [int(answer == a) for answer in m]
    same = [int(answer is not None and answer == m[0]) for answer in m]
    # One order cannot show whether an answer is stable.
    metrics = {"AAcc": sum(hits) / size}
    if size > 1:
        metrics |= {
            "SAcc": hits[0] * sum(same) / size,
            "WAcc": float(min(hits)),
            "BAcc": float(max(hits)),
            "SensG": float(max(hits) - min(hits)),
            "FR": 1.0 - math.prod(same),
        }
    probabilities = [question.asked[order][1] for order in R]
    if all(p is not None for p in probabilities):
        prob, brier, entropy = [], [], []
        for order, p in zip(R, probabilities, strict=True):
            assert p is not None
            right = order.index(a)
            prob.append(p[right])
            brier.append(sum(((position == right) - value) ** 2 for position, value in enumerate(p)))
            entropy.append(-sum(value * math.log(value, question.L) for value in p if value > 0))
        metrics |= {"Prob": sum(prob) / size, "BS": sum(brier) / size, "EN": sum(entropy) / size}
    identity = tuple(range(question.L))
    if identity in R and size > 1:
        others = [question.asked[order][0] == a for order in R if order != identity]
        metrics["retest"] = (question.asked[identity][0] == a) * sum(others) / len(others)
    return metrics


def compute_benchmark(questions: list[Answers], R_of: dict[int, list[tuple[int, ...]]]) -> dict[str, float | None]:
    """Return the plain mean of each metric over the questions that have a value."""
    values = defaultdict(list)
    for question in questions:
        for name, value in compute_question(question, R_of[question.L]).items():
            values[name].append(value)
    return {name: sum(values[name]) / len(values[name]) if values[name] else None for name in METRICS}


def pride(questions: list[Answers], subset: str) -> float | None:
    """Return PriDe with the prior over a subset's orders, for questions whose subset has the original order."""
    right: list[bool] = []
    for L in {question.L for question in questions}:
        R, identity = orders(subset, L), tuple(range(L))
        group = [question for question in questions if question.L == L]
        if identity not in R or len(R) < 2:
            continue
        group.sort(key=lambda question: hashlib.sha256(f"0:{question.name}".encode()).hexdigest())
        K = max(1, len(group) * 5 // 100)
        if any(question.asked[order][1] is None for question in group for order in R):
            continue
        priors = []
        for question in group[:K]:
            logs = np.mean([np.log(np.array(question.asked[order][1]) + 1e-10) for order in R], axis=0)
            priors.append(np.exp(logs) / np.exp(logs).sum())
            content = [sum(question.asked[order][1][order.index(option)] for order in R) for option in range(L)]  # type: ignore[index]
            right.append(int(np.argmax(content)) == question.answer)
        prior = np.mean(priors, axis=0)
        for question in group[K:]:
            p = np.array(question.asked[identity][1])
            right.append(int(np.argmax(np.log(p + 1e-10) - np.log(prior + 1e-10))) == question.answer)
    return sum(right) / len(right) if right else None


def stability(questions: list[Answers], *, pairs: bool) -> dict[str, float | None]:
    """Return the standard deviation over 100 draws, which are made once for each number of options."""
    sizes = {question.L for question in questions}
    drawn = {}
    for L in sizes:
        every, random = list(itertools.permutations(range(L))), Random(0)
        drawn[L] = [
            [every[rank] for rank in random.sample(range(math.factorial(L)), 2 if pairs else L)] for _ in range(100)
        ]
    values = [compute_benchmark(questions, {L: drawn[L][draw] for L in sizes}) for draw in range(100)]
    return {
        name: None if values[0][name] is None else float(np.std([value[name] for value in values]))
        for name in METRICS
        if name != "retest"
    }


def r_squared(x: list[float], y: list[float]) -> float | None:
    """Return the squared Pearson correlation by its definition."""
    if max(x) == min(x) or max(y) == min(y):
        return None
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def compute_left_out_error(x: list[float], y: list[float]) -> float:
    """Return the root mean squared error of straight lines that are each fitted to all points but one."""
    errors = []
    for i in range(len(x)):
        slope, intercept = np.polyfit(x[:i] + x[i + 1 :], y[:i] + y[i + 1 :], 1)
        errors.append((y[i] - intercept - slope * x[i]) ** 2)
    return float(np.sqrt(np.mean(errors)))
