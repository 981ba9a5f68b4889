"""Reliability, difficulty and discrimination against other implementations and a published example."""

import csv
import gzip
import json
import random

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import pearsonr, t
from statsmodels.stats.proportion import proportion_confint

from registry.errors import MetricInputError
from registry.statistics.bootstrap import Floats
from registry.statistics.items import (
    alpha_interval,
    cronbach_alpha,
    difficulties,
    discriminations,
    latent_keys,
    rivals,
    suspicion,
    weighted_votes,
)
from tests.outputs.conftest import DATA

# Chatterjee and Price, *Regression Analysis by Example* (1977): seven ratings of 30 departments, in per cent.
ATTITUDE = """
    43 63 71 61 81 43 58 71 72 67 64 67 69 68 77 81 74 65 65 50 50 64 53 40 63 66 78 48 85 82
    51 64 70 63 78 55 67 75 82 61 53 60 62 83 77 90 85 60 70 58 40 61 66 37 54 77 75 57 85 82
    30 51 68 45 56 49 42 50 72 45 53 47 57 83 54 50 64 65 46 68 33 52 52 42 42 66 58 44 71 39
    39 54 69 47 66 44 56 55 67 47 58 39 42 45 72 72 69 75 57 54 34 62 50 58 48 63 74 45 71 59
    61 63 76 54 71 54 66 70 71 62 58 59 55 59 79 60 79 55 75 64 43 66 63 50 66 88 80 51 77 64
    92 73 86 84 83 49 68 66 83 80 67 74 63 77 77 54 79 80 85 78 64 80 80 57 75 76 78 83 74 78
    45 47 48 35 47 34 35 41 31 41 34 41 25 35 46 36 63 60 46 52 33 41 37 49 33 72 49 38 55 39
"""


def made_up(models, questions, seed):
    """Answers of models that differ in what they know, shares of three prompts."""
    draw = np.random.default_rng(seed)
    known = 1 / (1 + np.exp(-draw.normal(0, 1.2, (models, 1)) + draw.normal(0, 1, questions)))
    return draw.binomial(3, known) / 3


def test_alpha_of_a_published_example():
    scores = np.array([[int(one) for one in line.split()] for line in ATTITUDE.strip().splitlines()]).T / 100
    assert scores.shape == (30, 7)
    # As the manual of R's package psych prints it for these data.
    assert f"{cronbach_alpha(scores):.2f}" == "0.84"


@pytest.mark.parametrize("seed", range(3))
def test_every_number_is_what_another_implementation_gives(seed):
    scores = made_up(12, 9, seed)
    covariance = np.cov(scores, rowvar=False)
    alpha = 9 / 8 * (1 - np.trace(covariance) / covariance.sum())
    assert cronbach_alpha(scores) == pytest.approx(alpha)
    logs = [np.log(1 - cronbach_alpha(np.delete(scores, model, axis=0))) for model in range(12)]
    reach = t.ppf(0.975, 11) * np.sqrt(11 * np.var(logs))
    found = alpha_interval(scores)
    assert [found.low, found.high] == pytest.approx([1 - (1 - alpha) * np.exp(sign * reach) for sign in (1, -1)])
    for column, difficulty, discrimination in zip(scores.T, difficulties(scores), discriminations(scores), strict=True):
        wilson = proportion_confint(column.sum(), 12, method="wilson")
        assert [difficulty.value, difficulty.interval.low, difficulty.interval.high] == pytest.approx(
            [column.mean(), *wilson]
        )
        reference = pearsonr(column, scores.sum(axis=1) - column)
        assert discrimination.value == pytest.approx(reference.statistic)
        ends = [discrimination.interval.low, discrimination.interval.high]
        assert ends == pytest.approx(list(reference.confidence_interval()))


def test_kr20_is_alpha_of_rights_and_wrongs():
    scores = np.rint(made_up(20, 15, 1))
    p = scores.mean(axis=0)
    kr20 = 15 / 14 * (1 - (p * (1 - p)).sum() / scores.sum(axis=1).var())
    assert cronbach_alpha(scores) == pytest.approx(kr20)


def test_what_does_not_vary_has_no_number():
    alike = np.ones((12, 3))
    assert cronbach_alpha(alike) is None
    assert alpha_interval(alike) is None
    assert discriminations(alike) == [None, None, None]
    assert difficulties(alike)[0].interval.high == 1
    assert difficulties(alike)[0].interval.low < 1
    same = np.repeat(np.arange(12)[:, np.newaxis] % 2, 3, axis=1)
    assert cronbach_alpha(same) == pytest.approx(1)
    assert alpha_interval(same) is None
    assert alpha_interval(made_up(9, 20, 0)) is None


def test_scores_that_are_none_are_refused():
    for wrong in (np.array([[np.nan, 1.0]]), np.array([[2.0, 1.0]]), np.ones(3)):
        with pytest.raises(MetricInputError, match="score"):
            cronbach_alpha(wrong)


def test_models_that_only_guess_have_no_vote():
    votes = np.zeros((2, 1, 4))
    votes[0, 0, 2] = votes[1, 0, 0] = 1
    shares = weighted_votes(votes, np.array([[0.25], [0.75]]), [4])
    assert shares.tolist() == [[1, 0, 0, 0]]
    assert weighted_votes(votes, np.array([[0.25], [0.1]]), [4]).tolist() == [[0, 0, 0, 0]]


Recorded = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Letters as (models, questions), -1 for none; the key and the number of options of each question."""


def read_recorded() -> Recorded:
    """The recorded letters of 26 models on MMLU-Pro."""
    with gzip.open(DATA / "mmlu_pro_predictions.csv.gz", "rt", encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    with gzip.open(DATA / "mmlu_pro.jsonl.gz", "rt", encoding="utf-8") as stream:
        options = {question["id"]: len(question["options"]) for question in map(json.loads, stream)}
    letters = np.array([["ABCDEFGHIJ".find(cell) if cell else -1 for cell in row[4:]] for row in rows]).T
    keys = np.array(["ABCDEFGHIJ".index(row[3]) for row in rows])
    return letters, keys, np.array([options[row[0]] for row in rows])


@pytest.fixture(scope="module")
def recorded():
    return read_recorded()


def planted_among(recorded: Recorded, seed: int, *, known: bool) -> tuple[Recorded, list[int], list[int]]:
    """400 questions with ten planted wrong keys; which questions they are, and the places of the ten among them.

    known: only questions that at least half of the models have right are given a wrong key.
    """
    letters, all_keys, all_options = recorded
    draw = random.Random(seed)
    chosen = draw.sample(range(len(all_keys)), 400)
    letters, keys, options = letters[:, chosen], all_keys[chosen], all_options[chosen]
    easy = np.flatnonzero((letters == keys).mean(axis=0) >= 0.5).tolist()
    planted = draw.sample(easy if known else range(400), 10)
    for place in planted:
        keys[place] = (keys[place] + draw.randrange(1, options[place])) % options[place]
    return (letters, keys, options), chosen, planted


def evidence(recorded: Recorded) -> tuple[Floats, Floats, Floats]:
    """What the queue weighs of each question: leads, discriminations (0 for none), log odds of another key."""
    letters, keys, options = recorded
    votes, scores = (letters[:, :, np.newaxis] == np.arange(10)).astype(float), (letters == keys).astype(float)
    _, leads = rivals(weighted_votes(votes, scores, options), keys)
    found = np.array([0.0 if one is None else one.value for one in discriminations(scores)])
    return leads, found, latent_keys(votes, scores, keys, options)[1]


def suspicions(leads: Floats, found: Floats, odds: Floats) -> Floats:
    """What the queue orders questions by."""
    return np.array([suspicion(*one) for one in zip(leads, found, odds, strict=True)])


def among_forty(planted: list[int], order: Floats) -> int:
    """How many of the planted wrong keys are among the first forty of this order."""
    return len(set(planted) & set(np.argsort(-order, kind="stable")[:40].tolist()))


def found_among_forty(recorded, seed, *, known):
    """How many of ten planted wrong keys are among the first forty of 400 questions."""
    questions, _, planted = planted_among(recorded, seed, known=known)
    return among_forty(planted, suspicions(*evidence(questions)))


def test_wrong_keys_planted_among_real_questions_are_found(recorded):
    known = [found_among_forty(recorded, seed, known=True) for seed in range(20)]
    assert np.mean(known) >= 9.3
    assert min(known) >= 8
    # Where the models did not know the answer either, nothing in their answers tells of a wrong key.
    anywhere = [found_among_forty(recorded, seed, known=False) for seed in range(20)]
    assert np.mean(anywhere) >= 4.5
