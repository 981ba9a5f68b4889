"""How sentences write numbers and name what was varied."""

from typing import Final

from registry.verdicts.facts import Asked, Facts, Number

_AXES: Final = {
    "order": ("order", "orders", "the order of the options"),
    "labels": ("set of labels", "sets of labels", "the labels of the options"),
    "wording": ("wording", "wordings", "the wording of the prompt"),
    "paraphrase": ("paraphrase", "paraphrases", "the paraphrase of the question"),
    "noise": ("version of the text", "versions of the text", "the spelling of the text"),
}
"""Axis to what one level of it is, several are, and what varies."""


def share(value: float) -> str:
    """A fraction in percent with one decimal."""
    return f"{100 * value:.1f}\u202f%"


def points(value: float) -> str:
    """A difference of fractions in percentage points."""
    return f"{_tenths(value)} {'point' if _tenths(value) in ('1.0', '−1.0') else 'points'}"


def _tenths(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:.1f}".replace("-", "−")


def points_between(low: float, high: float) -> str:
    """An interval of differences, in points."""
    return f"({_tenths(low)} to {_tenths(high)})"


def between(number: Number) -> str:
    """The interval of a share in parentheses, after a space; empty if none is stated."""
    if number.low is None or number.high is None:
        return ""
    return f" ({100 * number.low:.1f} to {share(number.high)})"


def count(number: int) -> str:
    """A whole number with thousands apart."""
    return f"{number:,}"


def _level(asked: Asked) -> tuple[str, str]:
    """One level of what was varied, and several."""
    known = [axis for axis in asked.axes if axis in _AXES]
    if len(known) == 1:
        return _AXES[known[0]][0], _AXES[known[0]][1]
    if not known:
        return "order", "orders"
    named = " and ".join(_AXES[axis][0] for axis in known)
    return f"combination of {named}", f"combinations of {named}"


def varied(asked: Asked) -> str:
    """What was varied, such as "the order of the options"."""
    known = [_AXES[axis][2] for axis in asked.axes if axis in _AXES]
    return " and ".join(known) if known else _AXES["order"][2]


def takes(asked: Asked) -> str:
    """The verb for what was varied."""
    return "take" if len(asked.axes) > 1 or asked.axes == ("labels",) else "takes"


def one_level(asked: Asked) -> str:
    """One level of what was varied, such as "order"."""
    return _level(asked)[0]


def several_levels(asked: Asked) -> str:
    """Several levels of what was varied, such as "orders"."""
    return _level(asked)[1]


def every_level(asked: Asked) -> str:
    """In which prompts worst accuracy is right, such as "every one of 4 orders" or "every one of 8 to 12 orders"."""
    one, several = _level(asked)
    if not asked.own_only:
        return f"every {one} of its own options"
    # It is over the questions that were asked in two or more.
    fewest = max(2, asked.fewest)
    number = f"{asked.most}" if fewest >= asked.most else f"{fewest} to {asked.most}"
    if asked.repeated:
        return f"every one of {number} {several}, by its first answer to each"
    if asked.mixed:
        return f"every answer, in {number} {several}"
    return f"every one of {number} {several}"


def missing(facts: Facts) -> str:
    """The missing answers, by state if there are several."""
    states = {state: number for state, number in facts.reading.missing.items() if number}
    if set(states) <= {"no valid answer"}:
        return "are missing"
    listed = ", ".join(
        f"{count(number)} {state}" for state, number in sorted(states.items(), key=lambda item: -item[1])
    )
    return f"are missing ({listed})"
