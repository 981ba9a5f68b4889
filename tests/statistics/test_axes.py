"""What moves an accuracy, by axis: against the textbook's analysis of variance, and over stored evaluations."""

import itertools
import math

import numpy as np
import pytest
from sqlalchemy import text

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.reading import snapshot_as_of
from registry.boards.snapshots import refresh_boards
from registry.boards.standings import board_standings
from registry.boards.store import import_board, import_suite
from registry.boards.unranked import unranked
from registry.db import read_session, write_session
from registry.errors import MetricInputError, UsageError
from registry.exchange.outputs.importer import ImportRequest, import_outputs
from registry.leaderboard.reports import evaluation_metrics
from registry.metrics import METRICS, VariantOutcome
from registry.prompting.variants import QuestionShape, parse_variants
from registry.scores.cells import STATED
from registry.statistics.axes import NO_ANSWER, component_sets, decompose
from registry.statistics.quantiles import LEVELS, quantile_of, wording_quantiles
from registry.studies.axes import axes_document
from registry.studies.wordings import consistency_document, wordings_document
from tests.outputs.conftest import four_options, registries, registry

__all__ = ["registries", "registry"]

QUESTIONS = four_options(40)


def design(questions=30, levels=(3, 4), seed=1):
    """Right answers and options of a balanced design in which everything moves something."""
    draw = np.random.default_rng(seed)
    shape = (questions, *levels)
    leaning = draw.normal(0, 1, (questions, *[1] * len(levels)))
    for axis, size in enumerate(levels, start=1):
        of_axis = [1] * (len(levels) + 1)
        of_axis[axis] = size
        leaning = leaning + draw.normal(0, 0.5, of_axis)
        of_axis[0] = questions
        leaning = leaning + draw.normal(0, 0.4, of_axis)
    correct = leaning + draw.normal(0, 0.4, shape) > 0
    return correct, np.where(correct, 0, draw.integers(1, 4, shape)).astype(np.int16)


def test_components_are_those_of_the_analysis_of_variance():
    """Two wordings of an independent reference: expected mean squares by hand, sums of squares by statsmodels."""
    from pandas import DataFrame
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    correct, answers = design(questions=6, levels=(3, 2, 2))
    rows = [
        {"q": q, "a": a, "b": b, "c": c, "y": float(correct[q, a, b, c])} for q, a, b, c in np.ndindex(correct.shape)
    ]
    # The interaction of all four is what is left over.
    terms = "(C(q) + C(a) + C(b) + C(c)) ** 3"
    table = anova_lm(ols(f"y ~ {terms}", DataFrame(rows)).fit())
    mean_squares = {
        frozenset("qabc" if name == "Residual" else name.replace("C(", "").replace(")", "").split(":")): row.mean_sq
        for name, row in table.iterrows()
    }
    sizes = dict(zip("qabc", correct.shape, strict=True))
    found = decompose(correct, answers, resamples=2).components
    for (chosen, with_questions), value in found.items():
        factors = frozenset("abc"[axis] for axis in chosen) | ({"q"} if with_questions else set())
        expected = sum(
            (-1) ** len(larger - factors) * mean_square
            for larger, mean_square in mean_squares.items()
            if factors <= larger
        ) / math.prod(size for name, size in sizes.items() if name not in factors)
        assert value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("levels", [(4,), (3, 4), (3, 2, 2)])
def test_the_arrays_say_of_an_axis_what_its_metrics_are_defined_as(levels):
    correct, answers = design(questions=7, levels=levels)
    answers[2, 1], correct[2, 1] = NO_ANSWER, False
    axes = ("order", "wording", "noise")[: len(levels)]
    questions = [
        [
            VariantOutcome(
                number,
                None if options[cell] == NO_ANSWER else int(options[cell]),
                0,
                levels=dict(zip(axes, cell, strict=True)),
            )
            for number, cell in enumerate(np.ndindex(levels))
        ]
        for options in answers
    ]
    effects = dict(zip(axes, decompose(correct, answers, resamples=0).effects, strict=True))
    for name, metric in METRICS.items():
        of = metric.over_cells
        if of is not None and of.axis in axes:
            attribute, factor = STATED[of.kind]
            value = factor * getattr(effects[of.axis], attribute).value
            assert metric.over_questions(questions) == (pytest.approx(value, abs=1e-9), 7), name
        elif of is not None:
            assert metric.over_questions(questions) == (None, 0), name
    # Questions in other cells do not count; a design that lacks a cell tells nothing.
    assert METRICS["order_moves"].over_questions([*questions, questions[0][:1]])[1] == 7
    if len(levels) > 1:
        assert METRICS["order_moves"].over_questions([question[1:] for question in questions]) == (None, 0)


def test_what_an_axis_does_is_counted_while_all_else_stays():
    correct, answers = design()
    answers[correct & (np.arange(30)[:, None, None] == 3)] = 0
    answers[5, 1, 2], correct[5, 1, 2] = NO_ANSWER, False
    answers[6, :, 0], correct[6, :, 0] = NO_ANSWER, False
    effect = decompose(correct, answers, resamples=2).effects[0]
    columns = [[answers[q, :, b].tolist() for b in range(4)] for q in range(30)]
    accuracies = correct.mean(axis=0)
    assert effect.accuracies == pytest.approx(correct.mean(axis=(0, 2)))
    assert effect.moves.value == pytest.approx(math.sqrt(np.var(accuracies, axis=0, ddof=1).mean()))
    flips = [len(set(column)) > 1 or NO_ANSWER in column for of in columns for column in of]
    assert effect.fluctuation_rate.value == pytest.approx(np.mean(flips))
    assert effect.worst_accuracy.value == pytest.approx(correct.all(axis=1).mean())
    pairs = [
        one != other or one == NO_ANSWER
        for of in columns
        for column in of
        for one, other in itertools.combinations(column, 2)
    ]
    assert effect.disagreement.value == pytest.approx(np.mean(pairs))


def test_an_axis_that_does_nothing_moves_nothing_and_has_no_interval():
    correct, answers = design(levels=(3,))
    same = decompose(np.repeat(correct[..., None], 2, axis=2), np.repeat(answers[..., None], 2, axis=2), resamples=50)
    still = same.effects[1]
    assert (still.moves.value, still.moves.interval, still.fluctuation_rate.value) == (0.0, None, 0.0)
    assert same.effects[0].moves.value > 0
    assert set(same.components) == {(chosen, q) for chosen in component_sets(2) for q in (False, True) if chosen or q}


def test_fewer_than_two_levels_or_questions_are_refused():
    correct, answers = design()
    for shape in ((1, 3, 4), (30, 1, 12)):
        with pytest.raises(MetricInputError, match="two questions and two levels"):
            decompose(
                correct.reshape(-1)[: math.prod(shape)].reshape(shape),
                answers[: shape[0]].reshape(-1)[: math.prod(shape)].reshape(shape),
            )


# Quantiles


def test_quantiles_of_all_cells_are_exact():
    right = np.array([[1.0, 0, 1, 1], [1, 0, 0, 1], [1, 1, 0, 1]])
    accuracies, found = wording_quantiles(right, np.ones_like(right), 1)
    assert accuracies == pytest.approx([1, 1 / 3, 1 / 3, 1])
    assert [(quantile.value, quantile.standard_error) for quantile in found] == [
        (pytest.approx(1 / 3), None),
        (pytest.approx(1 / 3), None),
        (1.0, None),
    ]


def test_estimates_from_few_cells_are_nearer_than_what_was_asked_and_their_range_holds_the_truth():
    draw = np.random.default_rng(0)
    held, errors, naive = 0, [], []
    for replay in range(12):
        leaning = draw.normal(0, 1.5, (120, 1)) + draw.normal(0, 0.35, (1, 11)) + draw.normal(0, 0.4, (120, 11))
        right = (draw.random((120, 11)) < 1 / (1 + np.exp(-leaning))).astype(float)
        asked = np.argsort(draw.random((120, 11)), axis=1) < 3
        _, found = wording_quantiles(right * asked, asked.astype(float), 1, draws=200, seed=replay)
        alone = (right * asked).sum(axis=0) / asked.sum(axis=0)
        for level, quantile in zip(LEVELS, found, strict=True):
            true = float(quantile_of(right.mean(axis=0), level))
            held += quantile.low <= true <= quantile.high
            errors.append(quantile.value - true)
            naive.append(float(quantile_of(alone, level)) - true)
    assert held >= 30  # of 36; 95 % of which are 34
    assert np.mean(np.square(errors)) < 0.7 * np.mean(np.square(naive))


# Stored evaluations


def recorded(registry, variants, answer):
    """The evaluation of answer(number of the question, variant) under a set of variants."""
    lines = [
        {"question_id": question["id"], "variant": variant.ordinal, "order": list(variant.order)} | given
        for number, question in enumerate(QUESTIONS)
        for variant in parse_variants(variants).variants(QuestionShape(question["id"], 4, question["answer"]))
        for given in [answer(number, variant)]
    ]
    return import_outputs(registry.engine, ImportRequest(registry.file("outputs.jsonl", lines), "m", "b", variants))


def by_wording(number, variant):
    """Wrong in the second wording of three on every second question, whatever the order."""
    right = QUESTIONS[number]["answer"]
    return {"option": (right + 1) % 4 if variant.ordinal % 3 == 1 and number % 2 else right}


@pytest.fixture
def product(registry):
    """An evaluation under four rotations and three wordings."""
    registry.benchmark("b", QUESTIONS)
    return recorded(registry, "cyclic*wording:templates=0-2", by_wording)


@pytest.mark.one_engine
def test_an_evaluation_under_a_product_has_the_axes_of_its_factors(registry, product):
    with read_session(registry.engine) as session:
        document = axes_document(session, product)
    order, wording = document["axes"]
    assert (order["axis"], order["kind"], len(order["levels"]), order["moves"]["value"]) == ("order", "cyclic", 4, 0.0)
    assert [(level["name"], level["accuracy"]) for level in wording["levels"]] == [
        ("own", 1.0),
        ("question first", 0.5),
        ("question first, subject", 1.0),
    ]
    # 0.5 below the two others: a sample variance of 1/12.
    assert wording["moves"]["value"] == pytest.approx(math.sqrt(1 / 12))
    assert wording["moves"]["interval"][0] < wording["moves"]["value"] < wording["moves"]["interval"][1]
    assert (wording["fluctuation_rate"]["value"], wording["worst_accuracy"]["value"]) == (0.5, 0.5)
    assert (document["questions"], document["left_out"], document["cells"]) == (40, 0, 12)
    with read_session(registry.engine) as session:
        report = evaluation_metrics(session, product)
        reasons = dict(
            session.execute(text("SELECT metric, reason FROM evaluation_metrics WHERE metric LIKE '%_moves'")).all()
        )
    assert report["metrics"]["wording_moves"] == pytest.approx(100 * wording["moves"]["value"])
    assert report["intervals"]["wording_moves"] == pytest.approx(
        [100 * end for end in wording["moves"]["interval"]], abs=1
    )
    assert report["metrics"]["order_moves"] == 0.0
    assert report["undefined"]["noise_moves"].startswith("Moved by noise needs variants that vary it")
    assert report["undefined"]["repeats_moves"].startswith("Moved by asking again is told by replicates")
    assert reasons == {
        "order_moves": None,
        "wording_moves": None,
        "noise_moves": "the variants do not vary it, or not in every combination with what else they vary",
    }


@pytest.mark.one_engine
def test_a_board_says_by_how_much_order_wording_and_asking_again_move_a_model(registry, product):
    variants = "cyclic*wording:templates=0-2"
    recorded(
        registry, variants, lambda number, variant: by_wording(number, variant) if number % 3 else {"position": None}
    )
    with write_session(registry.engine) as session:
        import_suite(session, SuiteDefinition(name="s", variants=(variants,), tasks=[{"benchmarks": ("b",)}]))
        columns = tuple(f"{axis}_moves@{variants}" for axis in ("order", "wording", "noise", "repeats"))
        board, _ = import_board(session, BoardDefinition(name="axes", suite="s", columns=columns))
        (row,) = board_standings(session, board).rows
        order, wording, noise, repeats = (row.standings[column] for column in columns)
        document = axes_document(session, product)
    refresh_boards(registry.engine)
    with read_session(registry.engine) as session:
        reasons = {item["column"]: item["reason"] for item in unranked(session, snapshot_as_of(session, "axes"))}
    assert (order.value, noise.value) == (0.0, None)
    assert reasons.keys() == {columns[2]}
    assert "needs variants that vary it" in reasons[columns[2]]
    # The newest replicate stands on the board; both of them tell what asking again does.
    assert repeats.value == pytest.approx(100 * document["axes"][-1]["moves"]["value"])
    assert repeats.interval[0] < repeats.value < repeats.interval[1]
    assert (wording.n, wording.rank) == (40, 1)
    assert wording.interval[0] < wording.value < wording.interval[1]


@pytest.mark.one_engine
def test_replicates_are_an_axis_of_their_own(registry, product):
    recorded(
        registry,
        "cyclic*wording:templates=0-2",
        lambda number, variant: by_wording(number, variant) if number else {"position": None},
    )
    with read_session(registry.engine) as session:
        document = axes_document(session, product)
    repeats = document["axes"][-1]
    assert (repeats["axis"], len(repeats["levels"])) == ("repeats", 2)
    # One question of 40, right in 12 cells before.
    assert repeats["moves"]["value"] == pytest.approx(math.sqrt((1 / 40) ** 2 / 2))


def test_other_words_make_other_prompts_so_that_wordings_are_tested(registry):
    registry.benchmark("b", QUESTIONS)
    evaluation_id = recorded(registry, "wording:templates=0-2", by_wording)
    with read_session(registry.engine) as session:
        document = evaluation_metrics(session, evaluation_id)
        assert document["distinct_prompts"] == {"min": 3, "max": 3}
        assert document["metrics"]["worst_accuracy"] == 0.5
        assert document["metrics"]["accuracy"] == 1.0


@pytest.mark.one_engine
def test_quantiles_over_the_wordings_of_an_evaluation(registry, product):
    sampled = recorded(registry, "cyclic*wording:templates=0-2*sample:cells=6", by_wording)
    with read_session(registry.engine) as session:
        document = wordings_document(session, product)
        estimated = wordings_document(session, sampled)
        with pytest.raises(UsageError, match="sample of the cells"):
            axes_document(session, sampled)
        with pytest.raises(UsageError, match=r"has no axis noise of several levels \(it has: order, wording\)"):
            wordings_document(session, product, "noise")
    assert document["exact"]
    assert [quantile["value"] for quantile in document["quantiles"]] == [0.5, 1.0, 1.0]
    assert (estimated["exact"], estimated["asked_share"]) == (False, 0.5)
    low = estimated["quantiles"][0]
    assert low["low"] <= 0.5 <= low["high"]
    assert low["standard_error"] > 0


@pytest.mark.one_engine
def test_the_consistency_rate_is_the_metric_score_and_the_harness_s_is_pooled(registry):
    """Of 40 questions 20 have 1 equal pair of 3; the others 3. Without an answer nothing is equal, but texts may be."""
    registry.benchmark("b", QUESTIONS)

    def silent(number, variant):
        return {"position": None, "text": "I do not know."} if number == 0 else by_wording(number, variant)

    evaluation_id = recorded(registry, "wording:templates=0-2", silent)
    with read_session(registry.engine) as session:
        document = consistency_document(session, evaluation_id)
    assert document["consistency_rate"] == pytest.approx((0 + 19 * 1 + 20 / 3) / 40)
    assert document["printed"] == pytest.approx(2 * document["consistency_rate"])
    assert document["harness"] == pytest.approx((3 + 19 * 3 + 20) / 120)
    assert document["harness_options"] is None


def test_an_axis_without_effect_moves_the_accuracy_by_what_dealing_answers_anew_does():
    correct, answers = design(questions=40, levels=(3, 2))
    draw = np.random.default_rng(7)
    effect = decompose(correct, answers, resamples=0).effects[0]
    dealt = [
        decompose(draw.permuted(correct, axis=1), answers, resamples=0).effects[0].moves.value ** 2 for _ in range(600)
    ]
    assert effect.moves_without_effect == pytest.approx(math.sqrt(np.mean(dealt)), rel=0.05)
    assert effect.moves.value > 2 * effect.moves_without_effect


@pytest.mark.one_engine
@pytest.mark.parametrize(("kind", "defined"), [("cyclic", False), ("cyclic*repeat:k=2", True)])
def test_where_answers_may_be_drawn_chance_is_in_the_questions_component_without_repeats(registry, kind, defined):
    registry.benchmark("b", QUESTIONS)
    number = recorded(registry, kind, lambda number, variant: {"option": (number * variant.ordinal) % 4})
    with read_session(registry.engine) as session:
        report, document = evaluation_metrics(session, number), axes_document(session, number)
        reasons = dict(
            session.execute(
                text("SELECT metric, reason FROM evaluation_metrics WHERE metric = 'order_question_variance'")
            ).all()
        )
    assert (report["metrics"]["order_question_variance"] is not None) is defined
    assert document["chance_inside"] is not defined
    assert (document["components"]["question × order"] is not None) is defined
    assert (document["axes"][0]["by_question"]["value"] is not None) is defined
    assert report["metrics"]["order_variance"] is not None
    if not defined:
        assert "holds chance, too" in report["undefined"]["order_question_variance"]
        assert "chance is in it, too" in reasons["order_question_variance"]
