"""How sentences write numbers and name what was varied."""

from typing import Final

from registry.verdicts.facts import Asked, Facts, Number

_VARIED: Final = {
    "order": ("order", "orders", "the order of the options"),
    "labels": ("set of labels", "sets of labels", "the labels of the options"),
    "wording": ("wording", "wordings", "the wording of the prompt"),
}
"""Part of the prompt to its name in one prompt, in several, and as the thing that is varied."""


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


def _named(asked: Asked) -> tuple[str, str, str]:
    return _VARIED.get(asked.varied or "", _VARIED["order"])


def varied(asked: Asked) -> str:
    """Name what was varied, such as "the order of the options"."""
    return _named(asked)[2]


def takes(asked: Asked) -> str:
    """Return the verb for what was varied."""
    return "take" if asked.varied == "labels" else "takes"


def one_level(asked: Asked) -> str:
    """Name what one prompt has, such as "order"."""
    return _named(asked)[0]


def several_levels(asked: Asked) -> str:
    """Name what several prompts have, such as "orders"."""
    return _named(asked)[1]


def every_level(asked: Asked) -> str:
    """In which prompts worst accuracy is right, such as "every one of 4 orders" or "every one of 8 to 12 orders"."""
    one, several, _ = _named(asked)
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
