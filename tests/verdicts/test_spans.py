"""The drawing of a span of accuracies, from made-up facts."""

from dataclasses import replace

import pytest

from registry.verdicts.facts import Asked, Facts, Number, Pooled, Reading
from registry.verdicts.spans import CELLS, legend, line, mean_span, span_of
from registry.verdicts.table import conclude
from tests.verdicts.generated import facts_of_raw, make
from web.charts.spans import span_legend, span_svg


def facts(
    samples: bool | None = False, missing: int = 0, orders: int = 4, chance: float = 0.25, **numbers: float
) -> Facts:
    """Return a model on 400 questions, with these metrics."""
    by_name = {name: Number(value, 400, value - 0.01, value + 0.01) for name, value in numbers.items()}
    request = Asked(fewest=orders, most=orders, prompts=orders, samples=samples)
    reading = Reading(400 * orders, {"no valid answer": missing} if missing else {})
    return Facts("m", "b", 400, request, reading, by_name, chance)


LOSES = {"accuracy": 0.6, "worst_accuracy": 0.4, "best_accuracy": 0.8}
SCALE = {"average_accuracy": 0.6, "right_twice_across_orders": 0.45}
STEADY = LOSES | SCALE | {"right_twice_same_order": 0.6, "chance_loss": 0, "order_loss": 0.15}
REPEATED = LOSES | SCALE | {"right_twice_same_order": 0.5, "chance_loss": 0.1, "order_loss": 0.05}


@pytest.mark.parametrize(
    ("given", "drawn"),
    [
        # Nothing is lost to chance: the dot is at the share of questions with two right answers in one order.
        (facts(**STEADY), (0.45, 0.6, 0.6)),
        # With repeats: 5 points lost to the order, then 10 to chance.
        (facts(samples=True, **REPEATED), (0.45, 0.5, 0.6)),
        # Other orders ran once: the dot is over all of them.
        (facts(samples=True, **(REPEATED | {"average_accuracy": 0.55})), (0.45, 0.5, 0.55)),
        # A loss below 0 is due to chance only.
        (facts(samples=True, **(REPEATED | {"order_loss": -0.01})), (0.45, 0.45, 0.6)),
        # Answers that are sampled, or may be, do not separate chance from order without repeats.
        (facts(samples=True, **LOSES, **SCALE), (0.45, None, 0.6)),
        (facts(orders=1, accuracy=0.6), (None, None, 0.6)),
        (facts(orders=1, samples=None, **LOSES), (None, None, 0.6)),
    ],
)
def test_losses_are_drawn_from_right_in_two_orders_to_right(
    given: Facts, drawn: tuple[float | None, float | None, float]
) -> None:
    span = span_of(given)
    assert span is not None
    assert (span.two, span.same, span.right) == pytest.approx(drawn)


def test_one_order_has_a_dot_with_its_interval_and_nothing_else() -> None:
    span = span_of(facts(orders=1, accuracy=0.6))
    assert span is not None
    assert (span.right, span.interval, span.two) == (0.6, (0.59, 0.61), None)
    assert span.words == "Right 60.0\u202f% (59.0 to 61.0\u202f%); asked in one order. Guessing gives 25.0\u202f%."
    assert [words for _, words in span_legend([span])] == ["right", "guessing"]
    assert line(span).strip(" ┊") == "●"  # of a cell, 3⅓ points wide, the interval is a part


def test_mostly_missing_answers_are_described_in_words_and_not_drawn() -> None:
    assert span_of(facts(missing=900, **STEADY)) is None
    span, few = (span_of(facts(missing=missing, **STEADY)) for missing in (160, 16))
    assert span is not None
    assert few is not None
    assert span.words.endswith("10.0\u202f% of the answers are missing.")
    assert (replace(span, words="")) == replace(few, words="")
    assert "missing" not in few.words


def test_the_picture_has_its_words_as_text_and_four_words_of_legend() -> None:
    span = span_of(facts(samples=True, **REPEATED))
    assert span is not None
    assert span.words == (
        "Right twice in one order 50.0\u202f%, once in each of two orders 45.0\u202f%: the order costs 5.0 points of that, "
        "4.0 to 6.0. Right once 60.0\u202f%: chance costs 10.0 points. Right as printed 60.0\u202f%. "
        "Guessing gives 25.0\u202f%."
    )
    svg = span_svg(span)
    assert f'role="img" aria-label="{span.words}"' in svg
    for mark in ('class="order" x="45.00%"', 'class="chance" x="50.00%"', 'class="two" x1="45.00%"', 'cx="60.00%"'):
        assert mark in svg
    assert [words for _, words in span_legend([span])] == [
        "right, mean over orders",
        *("lost to chance", "lost to the order", "guessing, for the dot"),
    ]


def test_losses_that_are_not_told_apart_are_a_line_that_blames_neither() -> None:
    span = span_of(facts(samples=True, **LOSES, **SCALE))
    assert span is not None
    assert "chance and the order together cost 15.0 points of that" in span.words
    assert "▓" not in line(span)
    assert "░" not in line(span)
    assert "┃───●" in line(span)
    assert 'class="order"' not in span_svg(span)
    words = ["right, mean over orders", "lost to chance or the order", "guessing, for the dot"]
    assert [description for _, description in span_legend([span])] == words
    assert (
        legend([line(span)])
        == "● right, mean over orders (accuracy: as printed) · ─ lost to chance or the order · ┊ guessing, for ●"
    )


@pytest.mark.parametrize(
    ("loss", "ends", "said"),
    [
        (0.0, (0.0, 0.031), "the order costs at most 3.1 points of that."),
        (-0.01, (None, 0.02), "the order costs at most 2.0 points of that."),
        (0.05, (0.01, 0.09), "not clearly because of the order."),
        (0.05, (None, None), "not clearly because of the order."),
    ],
)
def test_a_loss_that_no_sentence_blames_on_the_order_is_a_line(
    loss: float, ends: tuple[float | None, float | None], said: str
) -> None:
    evaluation_facts = facts(samples=True, **(REPEATED | {"right_twice_same_order": 0.45 + loss}))
    span = span_of(
        replace(evaluation_facts, numbers={**evaluation_facts.numbers, "order_loss": Number(loss, 400, *ends)})
    )
    assert span is not None
    assert not span.clear
    assert said in span.words
    assert 'class="order"' not in span_svg(span)
    assert "▓" not in line(span)
    assert "░" in line(span)


@pytest.mark.parametrize(("loss", "named"), [(0.003, False), (0.03, True)])
def test_the_legend_names_a_line_that_can_be_seen(loss: float, named: bool) -> None:
    evaluation_facts = facts(samples=True, **(REPEATED | {"right_twice_same_order": 0.45 + loss}))
    unclear = {**evaluation_facts.numbers, "order_loss": Number(loss, 400, -0.01, 0.05)}
    span = span_of(replace(evaluation_facts, numbers=unclear))
    assert span is not None
    assert ("lost to chance or the order" in [words for _, words in span_legend([span])]) is named


def test_orders_that_were_asked_once_only_are_named() -> None:
    span = span_of(facts(samples=True, **(REPEATED | {"average_accuracy": 0.55})))
    assert span is not None
    assert "Other orders, asked once: −5.0 points, so that 55.0\u202f% are right in all." in span.words


def test_the_legend_names_what_was_varied() -> None:
    worded = replace(facts(**STEADY), asked=Asked("wording", 3, 3, 3))
    of_wording, of_order = span_of(worded), span_of(facts(**STEADY))
    assert of_wording is not None
    assert of_order is not None
    assert "the wording costs 15.0 points of that" in of_wording.words
    assert "lost to the wording" in [words for _, words in span_legend([of_wording])]
    assert "lost to the prompt" in [words for _, words in span_legend([of_wording, of_order])]


def test_the_legend_tells_a_dot_of_one_order_from_means() -> None:
    once = span_of(facts(orders=1, accuracy=0.6))
    mean = span_of(facts(**STEADY))
    assert [words for _, words in span_legend([mean, once])][:2] == [
        "right, mean over orders",
        "right, asked in one order",
    ]
    assert legend([line(mean), "", line(once)]).startswith(
        "● right, mean over orders (accuracy: as printed) · ·●· right, asked in one order · "
    )
    assert "one order" not in legend([line(mean), ""])


def test_a_terminal_has_the_same_marks() -> None:
    span = span_of(facts(samples=True, **(REPEATED | {"right_twice_across_orders": 0.35, "order_loss": 0.15})))
    assert line(span) == "        ┊ ┃▓▓▓▓┃░░●"
    assert len(line(span)) <= CELLS
    assert line(None) == ""
    assert legend([line(span)]) == (
        "● right, mean over orders (accuracy: as printed) · ░ lost to chance · ▓ lost to the order · ┊ guessing, for ●"
    )


def test_means_over_tasks_are_drawn_if_every_task_has_them() -> None:
    one, other = facts(**STEADY), facts(**(STEADY | {"average_accuracy": 0.8, "right_twice_across_orders": 0.65}))
    span = mean_span(Pooled([[one], [other]]))
    assert span is not None
    assert (span.two, span.same, span.right) == pytest.approx((0.55, 0.7, 0.7))
    lacking = mean_span(Pooled([[one], [facts(accuracy=0.8, **(SCALE | {"average_accuracy": 0.8}))]]))
    assert lacking is not None
    assert (lacking.two, lacking.same, lacking.right) == pytest.approx((0.45, None, 0.7))
    assert mean_span(Pooled([[one], [facts(missing=900, **STEADY)]])) is None


def test_drawings_of_random_evaluations_stay_on_scale_and_blame_chance_correctly() -> None:
    for seed in range(60):
        evaluation_facts = facts_of_raw(make(seed), resamples=50)
        span = span_of(evaluation_facts)
        if span is None:
            continue
        places = [place for place in (span.two, span.same, span.right) if place is not None]
        assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
        conclusion = conclude("evaluation", evaluation_facts)
        if span.clear and not evaluation_facts.guesses:
            assert conclusion is not None
            assert conclusion.name in ("order-costs", "same-answers")
        if span.same is not None:
            assert evaluation_facts.tested
            assert evaluation_facts.asked.samples is False or evaluation_facts.number("order_loss") is not None
        assert len(line(span)) <= CELLS
        assert span_svg(span).count("<svg") == 1
