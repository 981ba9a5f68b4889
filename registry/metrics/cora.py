"""Response consistency and CoRA: Cavalin et al., Eq. 1 to 10.

Paper: *Improving Score Reliability of Multiple Choice Benchmarks with Consistency Evaluation and Altered Answer
Choices*. Every variant that shows the question counts, the original among them. The released script computes CoRA from
MCQA+ and takes a plurality vote for MV; the printed tables follow the equations, and so do these functions.
Thresholds are compared on whole numbers, never on accumulated fractions. View: question_metrics, scope_metrics.
Example: two questions with hits 1111 and 1010, the original first.
"""

from collections.abc import Callable

from registry.metrics.outcome import Outcomes, shown_variants


def _hits(outcomes: Outcomes) -> tuple[int, int]:
    shown = shown_variants(outcomes)
    return sum(outcome.correct for outcome in shown), len(shown)


def mcqa_plus(outcomes: Outcomes) -> float | None:
    """RC: share of variants answered right, in [0, 1]; MCQA+ is its mean over questions. Example: .75."""
    hits, M = _hits(outcomes)
    return hits / M if M else None


def majority_vote(outcomes: Outcomes) -> float | None:
    """MV: 1 if more than half of the variants are answered right, strictly. Example: .5."""
    hits, M = _hits(outcomes)
    return float(2 * hits > M) if M else None


def bmca(percent: int) -> Callable[[Outcomes], float | None]:
    """BMCA(c): 1 if at least `percent` % of the variants are answered right. Example: BMCA(.5) 1, BMCA(1) .5."""

    def at_least(outcomes: Outcomes) -> float | None:
        hits, M = _hits(outcomes)
        return float(100 * hits >= percent * M) if M else None

    return at_least


def consistency_index(mcqa: float | None, bmca_100: float | None) -> float | None:
    """CI = 1 − (MCQA − BMCA(1)), in [0, 1]; both over the same questions. Example: .5."""
    return None if mcqa is None or bmca_100 is None else 1 - (mcqa - bmca_100)


def cora(mcqa: float | None, bmca_100: float | None) -> float | None:
    """CoRA = MCQA · CI, in [0, MCQA]. Example: .5."""
    index = consistency_index(mcqa, bmca_100)
    return None if mcqa is None or index is None else mcqa * index
