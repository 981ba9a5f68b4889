"""SQL for the placeholders in views: columns of metrics from METRICS, and of predictions from the tables."""

# ruff: noqa: S608 - views are made of our own text alone

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from sqlalchemy import literal_column
from sqlalchemy.engine.default import DefaultDialect

from registry.metrics import METRICS
from registry.metrics.averaging import FunctionOfTwoMeans, MeanOverQuestions, OverEvaluation, OverRuns
from registry.metrics.catalogue import QUESTION_METRICS
from registry.tables import Generation, Prediction


def _question_metrics() -> Iterator[str]:
    for name in QUESTION_METRICS:
        averaging = METRICS[name].averaging
        assert isinstance(averaging, MeanOverQuestions | OverEvaluation)
        if isinstance(averaging, OverEvaluation) or averaging.where is None:
            yield f"{averaging.sql} as {name}"
        else:
            yield (
                "cast(case\n"
                "        when question_score.stored >= evaluation_question.n_variants "
                f"and {averaging.where}\n"
                f"            then {averaging.sql}\n"
                f"    end as double precision) as {name}"
            )


def _means() -> Iterator[str]:
    """Yield the mean of each question metric, and both means of each combined pair over questions that have both."""
    for name in QUESTION_METRICS:
        averaging = METRICS[name].averaging
        mean = f"avg(question_metrics.{name})"
        if isinstance(averaging, MeanOverQuestions) and averaging.compared_with is not None:
            other = averaging.compared_with[0]
            mean = f"case when count(question_metrics.{name}) >= count(question_metrics.{other}) then {mean} end"
        yield f"{mean} as {name}"
        yield f"count(question_metrics.{name}) as {name}_n"
    combined = [metric.of_two_means for metric in METRICS.values() if metric.of_two_means is not None]
    for first, second in dict.fromkeys((pair.first, pair.second) for pair in combined):
        for one, other in ((first, second), (second, first)):
            yield (
                f"avg(case when question_metrics.{other} is not null then question_metrics.{one} end) "
                f"as {one}_with_{other}"
            )
        yield (
            f"count(case when question_metrics.{second} is not null then question_metrics.{first} end) "
            f"as {first}_with_{second}_n"
        )


def _scope_metrics() -> Iterator[str]:
    for name in (name for name in METRICS if METRICS[name].view == "scope_metrics"):
        pair = METRICS[name].of_two_means
        if pair is None:
            yield f"averaged.{name}"
            yield f"averaged.{name}_n"
        else:
            means = (f"averaged.{pair.first}_with_{pair.second}", f"averaged.{pair.second}_with_{pair.first}")
            yield f"{_combine(pair, *means)} as {name}"
            yield f"averaged.{pair.first}_with_{pair.second}_n as {name}_n"


def _combine(pair: FunctionOfTwoMeans, first: str, second: str) -> str:
    """Return a function of two means as SQL over two columns."""
    dialect = DefaultDialect()
    dialect.div_is_floordiv = False  # means are not integers, so division needs no cast
    value = pair.function(literal_column(first), literal_column(second))
    sql = str(value.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    return f"case when {first} > 0 then {sql} end" if pair.share_of_first else sql


def _run_metrics() -> Iterator[str]:
    for name, metric in METRICS.items():
        if isinstance(metric.averaging, OverRuns):
            yield f"{metric.averaging.sql} as {name}"


def _values() -> Iterator[str]:
    for name in METRICS:
        yield f"max(case when evaluation_metrics.metric = '{name}' then evaluation_metrics.value end) as {name}"


def _shares(column: Callable[[FunctionOfTwoMeans], str]) -> Callable[[], Iterator[str]]:
    """Return a function that yields CASE branches for the metrics that are shares of another metric's mean."""
    pairs = {name: metric.of_two_means for name, metric in METRICS.items()}
    return lambda: (
        f"when '{name}' then {column(pair)}" for name, pair in pairs.items() if pair is not None and pair.share_of_first
    )


_DRAWN: Final = """select
                    own_answer.prompt,
                    min(own_answer.variant) as variant,
                    min(2 * own_answer.variant + own_answer.correct) % 2 as correct
                from (
                    select
                        own.prompt_key as prompt,
                        own.variant,
                        case when counted.recorded then own.variant else own.variant % counted.times end as draw,
                        case when own.correct then 1 else 0 end as correct
                    from prediction as own
                    where
                        own.evaluation_id = counted.evaluation_id
                        and own.question_id = counted.question_id
                        and own.question_shown
                        and own.own_options
                ) as own_answer
                group by own_answer.prompt, own_answer.draw"""
"""The answers that were drawn independently: of several variants with one draw, the lowest. correct: 1 or 0."""

_BY_PROMPT: Final = f"""select drawn.prompt, sum(drawn.correct) as correct, count(*) as times
            from (
                {_DRAWN}
            ) as drawn
            group by drawn.prompt"""

_OVER_PROMPTS: Final = """select {value}
        from (
            {source}
        ) as asked"""

_HELD_OUT: Final = f"""select avg(held_out.correct)
        from (
            select avg(case when ranked.others = ranked.fewest then ranked.correct * 1.0 end) as correct
            from (
                select
                    placed.repeat,
                    placed.correct,
                    placed.others,
                    min(placed.others) over (partition by placed.repeat) as fewest
                from (
                    select
                        drawn.correct,
                        row_number() over (partition by drawn.prompt order by drawn.variant) as repeat,
                        sum(drawn.correct) over (partition by drawn.prompt) - drawn.correct as others
                    from (
                        {_DRAWN}
                    ) as drawn
                ) as placed
            ) as ranked
            group by ranked.repeat
        ) as held_out"""

_ACROSS_ORDERS: Final = """case when counted.own_prompts > 1 then case
        when counted.own_answers = counted.own_prompts then {once}
        else (
        {repeated}
    ) end end"""
"""A value over orders: from the question's counts if every prompt was answered once, else computed over prompts."""

_PAIRS: Final = (
    "(sum(asked.correct * 1.0 / asked.times) * sum(asked.correct * 1.0 / asked.times) "
    "- sum(asked.correct * asked.correct * 1.0 / (asked.times * asked.times))) / (count(*) * (count(*) - 1))"
)
"""The mean of products over pairs of prompts: the squared sum minus the sum of squares, over the number of pairs."""

_IN_ORDERS: Final[Mapping[str, tuple[str, str]]] = {
    "average_accuracy": (
        "counted.correct * 1.0 / counted.variants",
        "avg(asked.correct * 1.0 / asked.times)",
    ),
    "right_twice_across_orders": (
        "counted.correct * (counted.correct - 1) * 1.0 / (counted.variants * (counted.variants - 1))",
        _PAIRS,
    ),
}
"""Column of question_statistics → its value if every prompt was answered once, and its value over prompts otherwise."""

_REPEATS: Final[Mapping[str, str]] = {
    "repeated_prompts": "sum(case when asked.times > 1 then 1 else 0 end)",
    "repeated_accuracy": "avg(case when asked.times > 1 then asked.correct * 1.0 / asked.times end)",
    "right_in_every_order": "case when min(asked.correct) = 0 then 0.0 else "
    "exp(sum(ln(case when asked.correct = 0 then 1.0 else asked.correct * 1.0 / asked.times end))) end",
    "right_twice_same_order": "avg(case when asked.times > 1 then "
    "asked.correct * (asked.correct - 1) * 1.0 / (asked.times * (asked.times - 1)) end)",
    "worst_order_low": "case when min(asked.times) = max(asked.times) then min(asked.correct * 1.0 / asked.times) end",
}
"""Column of question_statistics → its value over prompts, from the counts of their answers and right answers.

Defined if a prompt was answered several times.
"""


def _repeats() -> Iterator[str]:
    for name, (once, repeated) in _IN_ORDERS.items():
        over = _OVER_PROMPTS.format(value=repeated, source=_BY_PROMPT)
        yield f"cast({_ACROSS_ORDERS.format(once=once, repeated=over)} as double precision) as {name}"
    several = (
        "counted.own_prompts > 1 and counted.own_answers > counted.own_prompts\n"
        "        and (counted.recorded or counted.times > 1)"
    )
    answered = f"{_OVER_PROMPTS}\n        having max(asked.times) > 1"
    for name, value in _REPEATS.items():
        over = answered.format(value=value, source=_BY_PROMPT)
        kind = "integer" if name == "repeated_prompts" else "double precision"
        yield f"cast(case when {several} then (\n        {over}\n    ) end as {kind}) as {name}"
    equally = f"(\n        {answered.format(value='min(asked.times) = max(asked.times)', source=_BY_PROMPT)}\n    )"
    held_out = f"case when {several} and {equally} then (\n        {_HELD_OUT}\n    ) end"
    yield f"cast({held_out} as double precision) as worst_order_high"


def _lines(columns: Callable[[], Iterable[str]], indent: int, separator: str = ",") -> Callable[[], str]:
    return lambda: (separator + "\n" + " " * indent).join(columns())


def _prediction() -> Iterator[str]:
    """Yield the columns of predictions, without their sources and without the state, which the view completes."""
    for column in Prediction.__table__.columns:
        if column.name != "state" and not column.name.startswith("reused_from_"):
            yield f"prediction.{column.name}"


def _generation() -> Iterator[str]:
    """Yield the columns of generations, without the thought and without the text, which the view names itself."""
    for column in Generation.__table__.columns:
        if column.name.startswith(("thought_", "extracted")):
            yield f"generation.{column.name}"
        elif column.name not in ("text", "thought", "evaluation_id", "question_id", "variant"):
            yield f"generation.{column.name} as generation_{column.name}"


_SHOWN: Final = "prediction.question_shown and prediction.variant % coalesce(evaluation.repeats, 1) = 0"

FILLED: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "question_statistics": {
        "shown": lambda: _SHOWN,
        "own": lambda: f"{_SHOWN} and prediction.own_options",
        "repeats": _lines(_repeats, 4),
    },
    "question_metrics": {"metrics": _lines(_question_metrics, 4)},
    "scope_metrics": {"means": _lines(_means, 8), "metrics": _lines(_scope_metrics, 4)},
    "run_metrics": {"metrics": _lines(_run_metrics, 4)},
    "leaderboard": {
        "values": _lines(_values, 8),
        "metrics": _lines(lambda: (f"metrics.{name}" for name in METRICS), 4),
    },
    "prediction_detail": {"prediction": _lines(_prediction, 4), "generation": _lines(_generation, 4)},
    "metrics_over_benchmarks": {
        "shares": _lines(_shares(lambda pair: _combine(pair, "first_mean.macro", "second_mean.macro")), 8, ""),
        "not_means": _lines(lambda: (f"'{name}'" for name, metric in METRICS.items() if not metric.of_questions), 16),
        "firsts": _lines(_shares(lambda pair: f"'{pair.first}'"), 4, ""),
        "seconds": _lines(_shares(lambda pair: f"'{pair.second}'"), 4, ""),
    },
}
"""View → name of a placeholder in its file → function that returns its SQL."""
