"""The one drawing, of facts made for the purpose."""

from dataclasses import replace

import pytest

from registry.verdicts.facts import Asked, Facts, Number, Reading
from registry.verdicts.spans import CELLS, legend, line, mean_span, span_of
from tests.verdicts.generated import facts_of_raw, made
from web.charts.spans import span_legend, span_svg


def facts(
    samples: bool | None = False, missing: int = 0, orders: int = 4, chance: float = 0.25, **numbers: float
) -> Facts:
    """A model on 400 questions, with these metrics."""
    found = {name: Number(value, 400, value - 0.01, value + 0.01) for name, value in numbers.items()}
    asked = Asked(fewest=orders, most=orders, prompts=orders, samples=samples)
    reading = Reading(400 * orders, {"no valid answer": missing} if missing else {})
    return Facts("m", "b", 400, asked, reading, found, chance)


LOSES = {"accuracy": 0.6, "worst_accuracy": 0.4, "best_accuracy": 0.8}
REPEATED = LOSES | {"right_twice_same_order": 0.5, "right_twice_across_orders": 0.45, "order_loss": 0.05}


def parts(found: Facts) -> list[tuple[str, float, float]]:
    span = span_of(found)
    assert span is not None
    return [(part.kind, round(part.low, 3), round(part.high, 3)) for part in span.parts]


@pytest.mark.parametrize(
    ("given", "drawn"),
    [
        (facts(**LOSES), [("range", 0.4, 0.8), ("order", 0.4, 0.6)]),
        # Answers that are sampled, or may be, show no cost of the order without repeats; nor do those of a guesser.
        (facts(samples=True, **LOSES), [("range", 0.4, 0.8), ("either", 0.4, 0.6)]),
        (facts(samples=None, **LOSES), [("range", 0.4, 0.8), ("either", 0.4, 0.6)]),
        (facts(chance=0.6, **LOSES), [("range", 0.4, 0.8), ("either", 0.4, 0.6)]),
        # A missing answer may have spoilt one question: 40 of 400 here.
        (facts(missing=40, **LOSES), [("range", 0.4, 0.8), ("order", 0.5, 0.6), ("either", 0.4, 0.5)]),
        (facts(missing=160, **LOSES), [("range", 0.4, 0.8), ("either", 0.4, 0.6)]),
        # With repeats: the order loss of 5 points, then the 10 that two answers to the same prompt lose.
        (facts(samples=True, **REPEATED), [("range", 0.4, 0.8), ("order", 0.55, 0.6), ("chance", 0.45, 0.55)]),
        (
            facts(samples=True, **(REPEATED | {"order_loss": 0.005})),
            [("range", 0.4, 0.8), ("either", 0.595, 0.6), ("chance", 0.495, 0.595)],
        ),
        # All orders were repeated: repeats lose what two answers lose of one in them, not of the original order.
        (
            facts(samples=True, **REPEATED, average_accuracy=0.55, worst_order_low=0.4, worst_order_high=0.5),
            [("range", 0.4, 0.8), ("order", 0.55, 0.6), ("chance", 0.5, 0.55)],
        ),
        (facts(orders=1, accuracy=0.6), []),
    ],
)
def test_what_is_lost_is_drawn_as_what_it_is_owed_to(given: Facts, drawn: list[tuple[str, float, float]]) -> None:
    assert parts(given) == drawn


def test_one_order_has_a_dot_with_its_interval_and_no_span() -> None:
    span = span_of(facts(orders=1, accuracy=0.6))
    assert span is not None
    assert (span.dot, span.interval, span.parts) == (0.6, (0.59, 0.61), ())
    assert "asked in one order" in span.words


def test_nothing_is_drawn_of_answers_that_are_mostly_missing_and_their_share_from_five_percent_on() -> None:
    assert span_of(facts(missing=900, **LOSES)) is None
    span = span_of(facts(missing=160, **LOSES))
    assert span is not None
    assert span.missing == 0.1
    assert "10.0\u202f% of the answers are missing" in span.words
    few = span_of(facts(missing=16, **LOSES))
    assert few is not None
    assert few.missing == 0


def test_what_repeats_lose_is_not_drawn_of_fewer_questions_than_accuracy() -> None:
    given = facts(samples=True, **REPEATED)
    some = given.numbers | {"right_twice_same_order": Number(0.5, 100)}
    assert parts(replace(given, numbers=some)) == [("range", 0.4, 0.8), ("order", 0.55, 0.6)]


def test_the_picture_has_its_words_as_text_and_marks_that_the_legend_names() -> None:
    span = span_of(facts(samples=True, **REPEATED))
    assert span is not None
    assert span.words == (
        "Accuracy 60.0\u202f% (59.0 to 61.0\u202f%); 40.0\u202f% right in every one of 4 orders; 80.0\u202f% in at least one; "
        "changing the order takes 5.0 points; repeats alone lose 10.0 points; guessing gives 25.0\u202f%."
    )
    svg = span_svg(span)
    assert f'role="img" aria-label="{span.words}"' in svg
    for mark in ('class="range" x="40.00%"', 'class="order" x="55.00%"', 'class="chance" x1="45.00%"', 'cx="60.00%"'):
        assert mark in svg
    said = [words for _, words in span_legend([span])]
    assert said == [
        "accuracy as printed",
        "lost to the order",
        "lost by asking again",
        "right in every order … in some order, chance included",
        "guessing",
    ]


def test_the_legend_names_what_was_varied() -> None:
    worded = replace(facts(**LOSES), asked=Asked("wording", 3, 3, 3))
    of_wording, of_order = span_of(worded), span_of(facts(**LOSES))
    assert of_wording is not None
    assert of_order is not None
    assert "right in every wording … in some wording" in [words for _, words in span_legend([of_wording])]
    assert "lost to the prompt" in [words for _, words in span_legend([of_wording, of_order])]


def test_a_terminal_has_the_same_marks() -> None:
    span = span_of(facts(samples=True, missing=160, **REPEATED))
    assert line(span).index("├") < line(span).index("▒") < line(span).index("█") < line(span).index("●")
    assert line(span).endswith("?" * 4)
    assert len(line(span)) <= CELLS
    assert line(None) == ""
    signs = set(legend([line(span)]).partition(":")[2]) & set("●·├┤┊█▒░?")
    assert signs == set(line(span)) & set("●·├┤┊█▒░?")


def test_means_over_tasks_are_drawn_where_every_task_has_them() -> None:
    one, other = facts(**LOSES), facts(**(LOSES | {"accuracy": 0.8}))
    span = mean_span([[one], [other]])
    assert span is not None
    assert span.dot == pytest.approx(0.7)
    assert [part.kind for part in span.parts] == ["range", "order"]
    lacking = mean_span([[one], [facts(accuracy=0.8, worst_accuracy=0.4)]])
    assert lacking is not None
    assert [(part.kind, round(part.high, 3)) for part in lacking.parts] == [("range", 0.7), ("order", 0.7)]
    assert mean_span([[one], [facts(missing=900, **LOSES)]]) is None


def test_no_drawing_of_a_random_evaluation_leaves_the_scale_or_blames_the_order_for_chance() -> None:
    for seed in range(60):
        given = facts_of_raw(made(seed), resamples=50)
        span = span_of(given)
        if span is None:
            continue
        for part in span.parts:
            assert 0 <= part.low <= part.high <= 1
        kinds = {part.kind for part in span.parts}
        if "order" in kinds:
            assert given.tested
            cost = given.number("order_loss")
            assert (cost is not None and cost.low is not None and cost.low > 0) if given.samples is not False else True
            (drawn,) = (part.high - part.low for part in span.parts if part.kind == "order")
            assert cost is not None or drawn <= (given.lost or 0) + 1e-9
        assert len(line(span)) <= CELLS
        assert span_svg(span).count("<svg") == 1
