"""Properties of a protocol's answers: whether they are drawn at random, and whether options are listed."""

from collections.abc import Mapping
from typing import Any


def samples(definition: Mapping[str, Any]) -> bool | None:
    """Return whether a model draws its answers at random under this protocol, so that repeats may differ.

    This is true for generation at a temperature above 0, or by the model's own generation configuration. None for
    `recorded`, whose prompts are unknown.

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


def are_drawn(definition: Mapping[str, Any], *, recorded: bool, probable: bool) -> bool | None:
    """Return whether an evaluation's answers were drawn at random; None if unknown.

    recorded: whether they were imported. probable: whether they have probabilities. The default protocol for imported
    answers scores probabilities, so for answers without probabilities it is no evidence.
    """
    sampled = samples(definition)
    if sampled is False and recorded and not probable and definition.get("generation") is None:
        return None
    return sampled


def lists_options(definition: Mapping[str, Any]) -> bool:
    """Return whether prompts list the options, so that a model sees their order; assumed for recorded answers.

    >>> lists_options({"format": "cloze"}), lists_options({"format": "symbols", "option": "{label}. {option}"})
    (False, True)
    """
    return definition["format"] == "recorded" or bool(definition.get("option"))
