"""How many planted wrong keys the review queue finds: `python -m tests.bench.bench_items`, for docs/decisions/0066.

Ten keys among 400 questions of MMLU-Pro are replaced by another option at random, and the recorded answers of 26 models
ranked: how many of the ten are among the first forty. "Known": only questions that at least half of the models have right.

What bounds it: a logistic regression on signs that the answers give, fitted to other draws, which is told what planted keys
look like; and the queue without the questions in which the answers speak against the published key anyway.
"""

import numpy as np
from numpy.typing import NDArray
from statsmodels.api import Logit

from registry.statistics.bootstrap import Floats
from registry.statistics.items import rivals, strongest
from tests.statistics.test_items import Recorded, among_forty, evidence, planted_among, read_recorded, suspicions

DRAWS = 200
SEED = 1000
FITTED = 400
"""Draws that the regression is fitted to; their seeds are others."""


def signs(recorded: Recorded) -> Floats:
    """What the answers say of each question's key, shape (questions, signs): what the queue weighs, and more."""
    letters, keys, _ = recorded
    leads, found, odds = evidence(recorded)
    votes, scores = (letters[:, :, np.newaxis] == np.arange(10)).astype(float), (letters == keys).astype(float)
    _, strong = rivals(votes[strongest(scores)].mean(axis=0), keys)
    share = scores.mean(axis=0)
    return np.stack([leads, found, odds, strong, share, share**2, np.tanh(odds / 4), np.ones(len(keys))], axis=1)


def queue(recorded: Recorded, *, latent: bool = True) -> Floats:
    """What the queue orders questions by; latent: whether the odds of another key count."""
    leads, found, odds = evidence(recorded)
    return suspicions(leads, found, odds if latent else np.zeros_like(odds))


def regression(recorded: Recorded) -> Floats:
    """The coefficients of `signs` that tell planted keys from published ones best, wherever they are planted."""
    drawn = [planted_among(recorded, FITTED + draw, known=False) for draw in range(FITTED)]
    of = np.concatenate([signs(questions) for questions, *_ in drawn])
    planted = np.concatenate([np.isin(np.arange(400), places) for _, _, places in drawn])
    found: Floats = Logit(planted, of).fit(disp=False).params
    return found


def report(name: str, found: NDArray[np.int64]) -> None:
    error = found.std(ddof=1) / len(found) ** 0.5
    print(f"{name}: mean {found.mean():.2f} (standard error {error:.2f}), least {found.min()}", flush=True)


def main() -> None:
    recorded = read_recorded()
    letters, keys, _ = recorded
    doubtful = queue(recorded) > 0
    coefficients = regression(recorded)
    for known in (True, False):
        found: dict[str, list[int]] = {}
        for draw in range(DRAWS):
            questions, chosen, places = planted_among(recorded, SEED + draw, known=known)
            ranked = queue(questions)
            others = np.where(doubtful[chosen] & ~np.isin(np.arange(400), places), -np.inf, ranked)
            for name, order in (
                ("without the odds of another key", queue(questions, latent=False)),
                ("the queue", ranked),
                ("regression fitted to other draws", signs(questions) @ coefficients),
                ("the queue without questions that are doubtful as published", others),
            ):
                found.setdefault(name, []).append(among_forty(places, order))
        for name, counts in found.items():
            report(f"{'known' if known else 'any'}, {name}", np.array(counts))
    print(f"questions in which the answers speak against the published key: {doubtful.mean():.1%}")
    right = (letters == keys).sum(axis=0)
    for most in (0, 1, 2, 3, 6):
        print(f"questions that at most {most} of {len(letters)} models have right: {(right <= most).mean():.1%}")


if __name__ == "__main__":
    main()
