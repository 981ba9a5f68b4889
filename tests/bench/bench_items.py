"""How many planted wrong keys the review queue finds: `python -m tests.bench.bench_items`, for docs/decisions/0066.

Ten keys among 400 questions of MMLU-Pro are replaced by another option at random, and the recorded answers of 26 models
ranked: how many of the ten are among the first forty. "Known": only questions that at least half of the models have right.
"""

import numpy as np

from tests.statistics.test_items import found_among_forty, read_recorded

DRAWS = 200
SEED = 1000


def main() -> None:
    recorded = read_recorded()
    for known in (True, False):
        for latent in (False, True):
            found = np.array(
                [found_among_forty(recorded, SEED + draw, known=known, latent=latent) for draw in range(DRAWS)]
            )
            error = found.std(ddof=1) / DRAWS**0.5
            name = f"{'known' if known else 'any'}{', with the odds of another key' if latent else ''}"
            print(f"{name}: mean {found.mean():.2f} (standard error {error:.2f}), least {found.min()}")
    letters, keys, _ = recorded
    right = (letters == keys).sum(axis=0)
    for most in (0, 1, 2, 3, 6):
        print(f"questions that at most {most} of {len(letters)} models have right: {(right <= most).mean():.1%}")


if __name__ == "__main__":
    main()
