"""What may be concluded of an evaluation or a model, in sentences made from its numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.results.asked import asked_how, one_order
from registry.results.chance import no_better_than_guessing
from registry.results.selectables import Row
from web.formats import chosen_questions, count, percent, plural, points
from web.pages.luck import mostly_lost


@dataclass(frozen=True)
class Verdict:
    """conclusion: what may be concluded. found: the numbers behind it, as sentences. asked: what was asked."""

    conclusion: str
    found: tuple[str, ...]
    asked: str


def of_evaluation(row: Row, metrics: Mapping[str, Row], noise: Mapping[str, Any] | None) -> Verdict:
    """The verdict on a complete evaluation.

    row: with the columns of `registry.results.asked`; metrics: over all questions, with `value`, `n` and interval;
    noise: of `web.noise`, None where nothing was repeated. Noise without an interval is not spoken of.
    """
    noise = noise if noise and noise["repeat_interval"] else None
    accuracy, worst = metrics.get("accuracy", {}), metrics.get("worst_accuracy", {})
    found = [*_right(row, accuracy, worst, metrics.get("average_accuracy", {}))]
    guessing = no_better_than_guessing(row["chance"], accuracy.get("interval_low"))
    no_better = f"Its accuracy is no better than guessing, which gives {percent(row['chance'])}."
    both = _value(accuracy) is not None and _value(worst) is not None
    lost = accuracy["value"] - worst["value"] if both else None
    if lost is not None and lost > 0 and not guessing:
        if noise:
            found.append(f"The order of the options and repeat noise decide the other {points(lost)}.")
        else:
            found.append(f"The other {points(lost)} are lost when the options move; repeat noise was not measured.")
    if flips := _value(metrics.get("fluctuation_rate", {})):
        found.append(f"Its answer changes with the order on {percent(flips)} of them.")
    if noise is not None:
        found.append(_net_of_noise(noise))
    if row["distinct_prompts_max"] == 0:
        conclusion = "Asked without the question: it shows what the options alone give away."
    elif one_order(row):
        conclusion = _nothing_known(row)
        if guessing:
            found.append(no_better)
    elif guessing:
        conclusion = no_better
    elif lost is None:
        conclusion = "Whether its accuracy holds in every order is undefined here."
    elif noise is not None and noise["interval"] and noise["interval"][0] <= 0:
        conclusion = "Its answers change no more with the order than they do when the same prompt is repeated."
    elif flips == 0:
        conclusion = "Its answers are the same in every order tried."
    elif lost <= 0:
        conclusion = "Its accuracy holds in every order tried."
    elif accuracy["n"] == worst["n"] and _lost(accuracy, worst):
        conclusion = "Most of its accuracy does not hold in every order."
    else:
        conclusion = f"{percent(worst['value'] / accuracy['value'])} of its accuracy holds in every order tried."
    return Verdict(conclusion, tuple(found), _asked(row))


def _value(found: Mapping[str, Any]) -> float | None:
    value: float | None = found.get("value")
    return value


def _lost(accuracy: Row, worst: Row) -> bool:
    return mostly_lost(*(round(found["value"] * found["n"]) for found in (accuracy, worst)))


def _right(row: Row, accuracy: Row, worst: Row, average: Row) -> Sequence[str]:
    if _value(accuracy) is None:
        parts = []
        if _value(average) is not None:
            parts.append(f"{percent(average['value'])} of the prompts")
    else:
        parts = [f"{percent(accuracy['value'])} of the questions"]
        if not one_order(row):
            parts[0] += " in the benchmark's own order"
    if _value(worst) is not None:
        parts.append(f"{percent(worst['value'])} in {every_order(row)}")
    return [f"Right on {' and on '.join(parts)}."] if parts else []


def every_order(row: Row) -> str:
    """In how many orders worst accuracy is over. Where other variants were asked, they are not among them."""
    return f"every one of {asked_how(row)}" if row["orders_only"] else "every order of its own options"


def _nothing_known(row: Row) -> str:
    how = asked_how(row)
    told = f"{how}, never in another order" if how and "repeats" in how else how
    return f"{str(told)[:1].upper()}{str(told)[1:]}: nothing is known of how its answers hold up when the options move."


def _net_of_noise(noise: Mapping[str, Any]) -> str:
    repeated = f"Asked the same again, it answers differently in {percent(noise['repeat_disagreement'])} of pairs"
    if noise["order_effect"] is None:
        return f"{repeated}: that is repeat noise, which no order explains."
    interval = noise["interval"]
    between = f" ({100 * interval[0]:.1f} to {points(interval[1])})" if interval else ""
    return (
        f"{repeated}; in another order, in {percent(noise['order_disagreement'])}. Net of that noise, the effect of "
        f"the order is {points(noise['order_effect'])}{between}."
    )


def _asked(row: Row) -> str:
    part = chosen_questions(row["specification"]["questions"])
    of = f"{plural(row['questions'], 'question')} of {row['benchmark']}{f' ({part})' if part else ''}"
    how = asked_how(row) or plural(row["prompts"], "prompt")
    how = how if how.startswith("asked") else f"each in {how}"
    return f"{of}, {how} ({row['variants']}); {row['protocol']}, {row['shots']}-shot; {count(row['prompts'])} prompts."


# A model


def of_model(rows: Sequence[Row]) -> str:
    """The verdict on a model, from its complete rows of the leaderboard; robust ones are those of several orders."""
    if not rows:
        return "Not evaluated yet: nothing is known of it."
    known = [row for row in rows if row["accuracy"] is not None and row["worst_accuracy"] is not None]
    guessing = [row for row in known if _guesses(row)]
    kept = sorted((row for row in known if row not in guessing and row["accuracy"]), key=kept_share)
    if not known:
        return "Asked in one order only: nothing is known of how its answers hold up when the options move."
    if not kept:
        where = ", ".join(dict.fromkeys(row["benchmark"] for row in guessing))
        return f"Its accuracy is no better than guessing on {where}."
    worst, best = kept[0], kept[-1]
    if worst["benchmark"] == best["benchmark"]:
        if kept_share(worst) == 1:
            return f"Its accuracy holds in every order tried: {percent(worst['accuracy'])} {_where(worst)}."
        fall = f"{percent(worst['accuracy'])} falls to {percent(worst['worst_accuracy'])}"
        return f"{percent(kept_share(worst))} of its accuracy holds in every order: {fall} {_where(worst)}."
    least, most = (f"{percent(kept_share(row))} {_where(row)}" for row in (worst, best))
    return f"Of its accuracy, {least} to {most} holds in every order."


def _where(row: Row) -> str:
    return f"on {row['benchmark']} ({asked_how(row) if row['orders_only'] else 'orders of its own options'})"


def kept_share(row: Row) -> float:
    """The share of a row's accuracy that holds in every order: at most all of it."""
    return min(1.0, float(row["worst_accuracy"] / row["accuracy"]))


def _guesses(row: Row) -> bool:
    return no_better_than_guessing(row["chance"], row["counts"].get("accuracy", {}).get("interval_low"))
