"""Two protocols compared over models and benchmarks: Nowak et al., *ABCD: All Biases Come Disguised*.

Does another protocol make accuracy depend less on the right option's position, and does it keep the ranking of the
models? `compare` computes it from values, `compare_protocols` takes the values from sealed evaluations.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from sqlalchemy import and_, bindparam, func, select, text
from sqlalchemy.orm import Session

from registry.digests import specification_digest
from registry.errors import NotFoundError, UsageError
from registry.lookups import NAMES, not_withdrawn, with_names
from registry.prompting.variants import parse_variants
from registry.statistics.comparison import cohens_d, geometric_mean, kendall, spearman, variance_ratio, wilcoxon
from registry.studies.choosing import choose_labelled, part_label
from registry.tables import (
    Evaluation,
    Protocol,
    VariantSet,
)

VALUES: Final = ("accuracy_mean_all", "accuracy_mean_moved", "accuracy_median_moved", "accuracy_variance", "score")
"""The metrics that a comparison consists of."""


@dataclass(frozen=True)
class Pair:
    """A model's values on a benchmark under both protocols.

    first, second: value by metric, None if undefined or unknown. Accuracies and score are in [0, 1], accuracy_variance
    in squared percentage points. evaluations: the sources of the values.
    """

    model: str
    benchmark: str
    first: Mapping[str, float | None]
    second: Mapping[str, float | None]
    evaluations: tuple[int, int] | None = None


def compare(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Compare two protocols; `pairs` has each model on a benchmark at most once.

    pairs: per model and benchmark the values under both; variance_ratio = variance under the second / under the first
    (Eq. 3 and 4; below 1: the second depends less on positions), score_difference = SCORE under the first − under the
    second (Eq. 5), in [−1, 1].
    models, benchmarks, overall: the geometric mean of the variance ratios (Table 1) over the benchmarks, the models,
    and both; None if any of them is None or 0. complete: whether every model has every benchmark, so that the means of
    two models are over the same benchmarks.
    accuracy_mean_moved, accuracy_median_moved, of benchmarks: the change of accuracy in the moved runs from the first
    to the second protocol, one difference per model, with Wilcoxon's signed-rank test (two-sided) and Cohen's d.
    benchmark_pairs: whether two benchmarks rank the models the same by accuracy_mean_all: Spearman's and Kendall's
    correlation under each protocol over the models that have both, and second − first. In [−1, 1]; None if a benchmark
    does not distinguish the models.
    """
    models = list(dict.fromkeys(pair.model for pair in pairs))
    benchmarks = list(dict.fromkeys(pair.benchmark for pair in pairs))
    ratios = {(pair.model, pair.benchmark): _variance_ratio(pair) for pair in pairs}
    by_benchmark = {name: [pair for pair in pairs if pair.benchmark == name] for name in benchmarks}
    return {
        "complete": len(pairs) == len(models) * len(benchmarks),
        "pairs": [_describe_pair(pair) for pair in pairs],
        "models": [
            {"model": name, "benchmarks": len(model_ratios), "variance_ratio": geometric_mean(model_ratios)}
            for name in models
            for model_ratios in [[ratio for (model, _), ratio in ratios.items() if model == name]]
        ],
        "benchmarks": [
            {
                "benchmark": name,
                "models": len(benchmark_pairs),
                "variance_ratio": geometric_mean([ratios[pair.model, name] for pair in benchmark_pairs]),
                "accuracy_mean_moved": _shift(benchmark_pairs, "accuracy_mean_moved"),
                "accuracy_median_moved": _shift(benchmark_pairs, "accuracy_median_moved"),
            }
            for name, benchmark_pairs in by_benchmark.items()
        ],
        "benchmark_pairs": [
            {"benchmarks": [one, other], **_agreement(by_benchmark[one], by_benchmark[other])}
            for one, other in combinations(benchmarks, 2)
        ],
        "overall": {"variance_ratio": geometric_mean(list(ratios.values()))},
    }


def _describe_pair(pair: Pair) -> dict[str, Any]:
    scores = _both(pair, "score")
    return {
        "model": pair.model,
        "benchmark": pair.benchmark,
        "evaluations": pair.evaluations and {"first": pair.evaluations[0], "second": pair.evaluations[1]},
        "first": {name: pair.first.get(name) for name in VALUES},
        "second": {name: pair.second.get(name) for name in VALUES},
        "variance_ratio": _variance_ratio(pair),
        "score_difference": None if scores is None else scores[0] - scores[1],
    }


def _both(pair: Pair, metric: str) -> tuple[float, float] | None:
    """Return the values under the first and the second protocol; None unless both are known."""
    first, second = pair.first.get(metric), pair.second.get(metric)
    return None if first is None or second is None else (first, second)


def _variance_ratio(pair: Pair) -> float | None:
    return variance_ratio(pair.second.get("accuracy_variance"), pair.first.get("accuracy_variance"))


def _shift(pairs: Iterable[Pair], metric: str) -> dict[str, Any]:
    """Return how a metric changes from the first protocol to the second, one difference per model."""
    both = [values for pair in pairs if (values := _both(pair, metric)) is not None]
    differences = [second - first for first, second in both]
    test = wilcoxon(differences)
    return {
        "differences": len(differences),
        "wilcoxon": None
        if test is None
        else {"statistic": test.statistic, "p_value": test.p_value, "pairs": test.pairs, "method": test.method},
        "cohens_d": cohens_d(differences),
    }


def _agreement(first_benchmark: Iterable[Pair], second_benchmark: Iterable[Pair]) -> dict[str, Any]:
    """Return how similarly two benchmarks rank the models that have a mean accuracy under both protocols on each."""
    ones, others = (
        {pair.model: values for pair in pairs if (values := _both(pair, "accuracy_mean_all")) is not None}
        for pairs in (first_benchmark, second_benchmark)
    )
    shared = [model for model in ones if model in others]

    def correlate_both(correlation: Callable[[Sequence[float], Sequence[float]], float | None]) -> dict[str, Any]:
        first, second = (
            correlation([ones[model][protocol] for model in shared], [others[model][protocol] for model in shared])
            for protocol in (0, 1)
        )
        difference = None if first is None or second is None else second - first
        return {"first": first, "second": second, "difference": difference}

    return {"models": len(shared), "spearman": correlate_both(spearman), "kendall": correlate_both(kendall)}


# From a registry


def parse_protocol(reference: str) -> tuple[str, int]:
    """Parse `NAME` or `NAME:SHOTS` into (name, shots); SHOTS is 0 by default. Raises UsageError if it is invalid."""
    name, colon, shots = reference.partition(":")
    if not name or (colon and not (shots.isascii() and shots.isdecimal())):
        raise UsageError(f"protocol {reference!r}: write NAME or NAME:SHOTS, such as symbols:5")
    return name, int(shots) if colon else 0


def compare_protocols(
    session: Session,
    first: str,
    second: str,
    *,
    variants: str = "answer-moving",
    benchmarks: Sequence[str] = (),
    models: Sequence[str] = (),
) -> dict[str, Any]:
    """Compare two protocols, `NAME` or `NAME:SHOTS`, over everything that was evaluated under both.

    A model revision on a benchmark version counts if it has sealed evaluations under both protocols with the same set
    of variants and the same questions; of several, the newest. If a protocol's name has several definitions, the newest
    counts.
    benchmarks, models: only these; `NAME` for all versions or revisions, or `NAME@…` for one.
    Returns `compare`'s document with `first`, `second` and `variants`. Models are named NAME@REVISION, benchmarks
    NAME@VERSION, with the question filter behind it if only a part was evaluated.
    Raises UsageError for two equal protocols, VariantError for unknown variants, and NotFoundError, which lists the
    evaluated ones, if nothing was evaluated under both.
    """
    protocols = [parse_protocol(first), parse_protocol(second)]
    names = [f"{name}:{shots}" for name, shots in protocols]
    if protocols[0] == protocols[1]:
        raise UsageError(f"protocol {names[0]} is given twice; give two different ones")
    definition = parse_variants(variants)
    digest = specification_digest(definition.specification())
    ids = [_protocol_id(session, name, shots) for name, shots in protocols]
    evaluations = _evaluations(session, digest, ids)
    if not evaluations:
        raise NotFoundError(_nothing_to_compare(session, names, definition.name, digest))
    lacks = "has not been evaluated under both protocols"
    with_models = choose_labelled(list(evaluations.items()), lambda item: item[0][0], models, "model", lacks)
    chosen = dict(choose_labelled(with_models, lambda item: item[0][1], benchmarks, "benchmark", lacks))
    values = _values(session, [evaluation_id for pair in chosen.values() for evaluation_id in pair])
    pairs = [
        Pair(model, benchmark, values[first_id], values[second_id], (first_id, second_id))
        for (model, benchmark), (first_id, second_id) in sorted(chosen.items())
    ]
    return {"first": names[0], "second": names[1], "variants": definition.name, **compare(pairs)}


def _protocol_id(session: Session, name: str, shots: int) -> int | None:
    """Return the id of the newest protocol with this name and number of shots; None if there is none."""
    return session.scalar(select(func.max(Protocol.id)).where(Protocol.name == name, Protocol.shots == shots))


_EvaluationPairs = Mapping[tuple[str, str], tuple[int, int]]
"""The evaluations under the first and the second protocol, by (model, benchmark) as a comparison names them."""


def _evaluations(session: Session, variant_set_digest: str, protocol_ids: Sequence[int | None]) -> _EvaluationPairs:
    """Return the newest sealed evaluations under each protocol, for models and benchmarks that have both."""
    query = (
        with_names(
            select(
                Evaluation.id,
                Evaluation.protocol_id,
                Evaluation.specification,
                *NAMES,
            )
        )
        .where(
            Evaluation.seal.is_not(None),
            not_withdrawn(),
            VariantSet.digest == variant_set_digest,
            Evaluation.protocol_id.in_([protocol_id for protocol_id in protocol_ids if protocol_id is not None]),
        )
        .order_by(Evaluation.id)
    )
    newest: dict[tuple[str, str], dict[int, int]] = {}
    for row in session.execute(query):
        questions = row.specification["questions"]
        key = (f"{row.model}@{row.revision}", f"{row.benchmark}@{row.benchmark_version}{part_label(questions)}")
        newest.setdefault(key, {})[row.protocol_id] = row.id
    first, second = protocol_ids
    return {
        key: (by_protocol[first], by_protocol[second])
        for key, by_protocol in newest.items()
        if first is not None and second is not None and first in by_protocol and second in by_protocol
    }


def _values(session: Session, evaluation_ids: Sequence[int]) -> dict[int, dict[str, float | None]]:
    """Return the values of each evaluation's metrics over all of its questions."""
    query = text(
        "SELECT evaluation_id, metric, value FROM evaluation_metrics"
        " WHERE scope = 'all' AND evaluation_id IN :ids AND metric IN :metrics"
    ).bindparams(bindparam("ids", expanding=True), bindparam("metrics", expanding=True))
    values: dict[int, dict[str, float | None]] = {evaluation_id: {} for evaluation_id in evaluation_ids}
    for row in session.execute(query, {"ids": list(evaluation_ids), "metrics": VALUES}):
        values[row.evaluation_id][row.metric] = row.value
    return values


def _nothing_to_compare(session: Session, names: Sequence[str], variants: str, variant_set_digest: str) -> str:
    """Return why there is nothing to compare, and the protocols that could be compared instead."""
    sealed = and_(Evaluation.seal.is_not(None), not_withdrawn())
    counts = (
        select(Protocol.name, Protocol.shots, func.count())
        .join(Evaluation, Evaluation.protocol_id == Protocol.id)
        .join(VariantSet, VariantSet.id == Evaluation.variant_set_id)
        .where(sealed, VariantSet.digest == variant_set_digest)
        .group_by(Protocol.name, Protocol.shots)
        .order_by(Protocol.name, Protocol.shots)
    )
    protocols = [f"{name}:{shots} ({count})" for name, shots, count in session.execute(counts)]
    problem = f"no model has sealed evaluations of one benchmark under both {names[0]} and {names[1]} with {variants}"
    if protocols:
        return f"{problem}; with these variants there are: {', '.join(protocols)}"
    others = session.scalars(
        select(VariantSet.name)
        .join(Evaluation, Evaluation.variant_set_id == VariantSet.id)
        .where(sealed)
        .distinct()
        .order_by(VariantSet.name)
    ).all()
    if others:
        return f"{problem}; no evaluation with these variants is sealed, there are: {', '.join(others)}"
    return f"{problem}; no evaluation is sealed yet"
