"""Ratios, geometric means and correlations over the tables of Nowak et al."""

import math

import numpy as np
import pytest

from registry.statistics.comparison import geometric_mean, kendall, r_squared, spearman, variance_ratio, wilcoxon
from tests.spec.published import Interval, by, printed, rows

TABLES = {"CommonsenseQA": "6", "ARC": "7", "GPQA": "8", "INCLUDE (es,fr,it,de)": "10", "MMLU-Pro": "9"}
BENCHMARKS = "geometric mean over benchmarks"
MODELS = "geometric mean over models"


def accuracies():
    """(table, model, protocol) to metric to what is printed."""
    return dict(by(rows("nowak_tables_5_11"), "table", "model", "protocol"))


def test_printed_ratios_are_ratios_of_the_printed_variances():
    tables = accuracies()
    compared = [(key, values["variance_ratio"]) for key, values in tables.items() if "variance_ratio" in values]
    assert len(compared) == 91
    for (table, model, _), ratio in compared:
        matched, lettered = (printed(tables[table, model, protocol]["variance"]) for protocol in ("M&D", "S&L"))
        least = variance_ratio(float(matched.low), float(lettered.high))
        most = variance_ratio(float(matched.high), float(lettered.low))
        assert Interval(least, most).meets(printed(ratio))


def table_1():
    return {(row["model"], row["benchmark"]): row["value"] for row in rows("nowak_table_1")}


def mean_of(cells):
    """The geometric mean grows with each of its values."""
    ends = [[float(getattr(printed(cell), end)) for cell in cells] for end in ("low", "high")]
    return Interval(*(0.0 if min(end) <= 0 else geometric_mean(end) for end in ends))


def test_the_last_column_of_table_1_is_the_geometric_mean_of_its_row():
    table = table_1()
    models = {model for model, _ in table} - {MODELS}
    assert len(models) == 13
    for model in models:
        assert mean_of([table[model, name] for name in TABLES]).meets(printed(table[model, BENCHMARKS]))


def test_the_last_row_of_table_1_is_the_geometric_mean_of_its_column():
    table = table_1()
    models = {model for model, _ in table} - {MODELS}
    for name in (*TABLES, BENCHMARKS):
        assert mean_of([table[model, name] for model in models]).meets(printed(table[MODELS, name]))


def mean_accuracy(table, protocol):
    """Model to the printed mean over all orders."""
    return {
        model: float(values["mean_accuracy"])
        for (number, model, asked), values in accuracies().items()
        if (number, asked) == (table, protocol)
    }


@pytest.mark.parametrize("protocol", ["S&L", "M&D"])
@pytest.mark.parametrize("table", ["6", "7", "8", "9", "10"])
def test_correlations_of_the_printed_accuracies_are_those_counted_pair_by_pair(table, protocol):
    first, second = mean_accuracy("11", protocol), mean_accuracy(table, protocol)
    models = sorted(first)
    assert sorted(second) == models
    x, y = [first[model] for model in models], [second[model] for model in models]
    assert len(models) == 13
    places = [[sum(b < a for b in v) + (v.count(a) + 1) / 2 for a in v] for v in (x, y)]
    assert spearman(x, y) == pytest.approx(np.corrcoef(*places)[0, 1])
    pairs = [(np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i in range(13) for j in range(i)]
    untied = [sum(pair[side] != 0 for pair in pairs) for side in (0, 1)]
    assert kendall(x, y) == pytest.approx(sum(a * b for a, b in pairs) / math.sqrt(untied[0] * untied[1]))
    assert 0 <= r_squared(x, y) <= 1


def test_matching_costs_accuracy_on_mmlu_pro_or_not_by_the_signed_ranks():
    # 13 pairs: the smallest p that they can have is 2 / 2^13.
    lettered, matched = mean_accuracy("9", "S&L"), mean_accuracy("9", "M&D")
    found = wilcoxon([matched[model] - lettered[model] for model in lettered])
    assert found.pairs == 13
    assert found.method == "exact"
    assert 2 / 2**13 <= found.p_value <= 1
    assert found.p_value * 2**12 == pytest.approx(round(found.p_value * 2**12))
