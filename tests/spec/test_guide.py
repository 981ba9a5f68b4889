"""Chapter 7: the guide to the metrics agrees with the definitions."""

import math
import re
from fractions import Fraction
from xml.etree import ElementTree as ET

import pytest
from latex2mathml.converter import convert

from registry.metrics import METRICS
from registry.metrics.catalogue import FAMILIES
from registry.metrics.examples import DATASETS
from registry.metrics.guide import BETWEEN, BETWEEN_TEXT, GUESSING, INTERVALS, NOTATION
from registry.metrics.papers import PAPERS
from registry.prompting.variants import VARIANT_KINDS
from registry.statistics.guessing import at_least, guessing_table
from registry.studies.protocol_comparison import Pair, compare

COMPARISONS = {comparison.name: comparison for comparison in BETWEEN}
ENTRIES = {**METRICS, **COMPARISONS}
FORMULAS = [
    *(formula for entry in ENTRIES.values() for formula in entry.formulas),
    *GUESSING.formulas,
    *(symbol for symbol, _ in NOTATION),
]


def print_value(value, like):
    """Return a value with the same number of digits as a printed number."""
    digits = len(like.partition(".")[2])
    return f"{value:.{digits}f}".replace("-", "−")


def test_every_metric_stands_in_one_chapter():
    assert sorted(metric.name for family in FAMILIES for metric in family.metrics) == sorted(METRICS)
    assert not set(COMPARISONS) & set(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_the_worked_example_of_a_metric_has_the_printed_value(name):
    example = METRICS[name].example
    value, n = METRICS[name].over_questions(example.dataset.questions)
    assert print_value(value, example.value) == example.value
    assert n == len(example.dataset.questions)


@pytest.mark.parametrize("name", METRICS)
def test_the_worked_example_lies_within_the_range(name):
    low, high = METRICS[name].low, METRICS[name].high
    assert (
        (-math.inf if low is None else low)
        <= float(METRICS[name].example.value)
        <= (math.inf if high is None else high)
    )


@pytest.mark.parametrize("name", COMPARISONS)
def test_the_worked_example_of_a_comparison_has_the_printed_value(name):
    metric, example = COMPARISONS[name].metric, COMPARISONS[name].example
    first, second = (
        {metric: METRICS[metric].over_questions(data.questions)[0]} for data in (example.against, example.dataset)
    )
    (compared,) = compare([Pair("model", "benchmark", first, second)])["pairs"]
    assert print_value(compared[name], example.value) == example.value


def test_the_guessing_examples_are_right():
    assert at_least(2, 3, Fraction(1, 2)) == 0.5
    assert guessing_table(10, 5)[1].shown == 0.54
    assert [print_value(at_least(1, 10, rate), "0.12345") for rate in (0.53, 0.54)] == ["0.99947", "0.99958"]
    for number in ("½³ = 0.5", "0.54", ".99958", ".99947"):
        assert number in GUESSING.text[-1]


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_formula_becomes_mathml_with_nothing_left_of_the_latex(formula):
    drawn = convert(formula, display="block")
    assert ET.fromstring(drawn).tag == "{http://www.w3.org/1998/Math/MathML}math"
    assert "\\" not in drawn


@pytest.mark.parametrize("formula", FORMULAS)
def test_markdown_leaves_every_formula_alone(formula):
    assert not re.search(r"\\[!-/:-@\[-`{-~]", formula), "a backslash before punctuation is eaten"
    assert not set("*`$\n") & set(formula)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_comes_from_papers_that_the_guide_lists(name):
    assert METRICS[name].sources
    assert {source.paper for source in METRICS[name].sources} <= PAPERS.keys()


def test_what_stands_in_backticks_exists():
    texts = [
        INTERVALS,
        BETWEEN_TEXT,
        *GUESSING.text,
        *(family.text for family in FAMILIES),
        *(data.text for data in DATASETS),
    ]
    for entry in ENTRIES.values():
        texts += [entry.needs, entry.differs or "", entry.example.arithmetic]
    ids = {outcomes[0].question for data in DATASETS for outcomes in data.questions}
    entries = {*ENTRIES, *VARIANT_KINDS, *ids, "0:<id>"}
    words = {word for text in texts for word in re.findall(r"`([^`]+)`", text)}
    assert all(word in entries or word.partition(":")[0] in VARIANT_KINDS for word in words)


def test_every_data_set_serves_an_example():
    used = {data.key for entry in ENTRIES.values() for data in (entry.example.dataset, entry.example.against) if data}
    assert used == {data.key for data in DATASETS}
    assert len(used) == len(DATASETS)


def test_what_a_formula_is_for_follows_from_the_definition():
    kinds = {name: METRICS[name].formula_is_for for name in ("accuracy", "pride_accuracy", "cora", "accuracy_range")}
    assert kinds == {
        "accuracy": "each question",
        "pride_accuracy": "each question",
        "cora": "the whole benchmark",
        "accuracy_range": "the runs",
    }
