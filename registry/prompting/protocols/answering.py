"""What a protocol says of its answers: whether they are drawn at random, and whether options are listed."""

from collections.abc import Mapping
from typing import Any


def samples(definition: Mapping[str, Any]) -> bool | None:
    """Whether a model draws its answers under this protocol, so that asking again may give another one.

    True for generation at a temperature above 0, and by the model's own generation configuration. None for `recorded`:
    nobody knows how those answers were asked.

    >>> generated = {"format": "select-letter", "generation": {"sampling": "model", "temperature": "0.6"}}
    >>> samples({"format": "symbols"}), samples(generated), samples({"format": "recorded"})
    (False, True, None)
    """
    if definition["format"] == "recorded":
        return None
    generation = definition.get("generation")
    if not generation or generation.get("sampling") == "greedy":
        return False
    return generation.get("sampling") == "model" or float(generation.get("temperature", 0)) > 0


def drawn(definition: Mapping[str, Any], *, recorded: bool, probable: bool) -> bool | None:
    """Whether an evaluation's answers were drawn at random; None: nothing says so.

    recorded: imported. probable: with probabilities. Imported answers without probabilities are said to come from
    probabilities wherever nobody named another protocol.
    """
    said = samples(definition)
    if said is False and recorded and not probable and definition.get("generation") is None:
        return None
    return said


def lists_options(definition: Mapping[str, Any]) -> bool:
    """Whether prompts list the options, so that a model sees their order. Of recorded answers nobody says otherwise.

    >>> lists_options({"format": "cloze"}), lists_options({"format": "symbols", "option": "{label}. {option}"})
    (False, True)
    """
    return definition["format"] == "recorded" or bool(definition.get("option"))
