"""What a protocol says of its answers: whether they are drawn at random, and whether options are listed."""

from collections.abc import Mapping
from typing import Any


def samples(definition: Mapping[str, Any]) -> bool:
    """Whether a model draws its answers under this protocol, so that asking again may give another one.

    True for generation at a temperature above 0, and by the model's own generation configuration.

    >>> samples({"format": "symbols"}), samples({"generation": {"sampling": "model", "temperature": "0.6"}})
    (False, True)
    >>> samples({"generation": {"sampling": "greedy", "temperature": "0.6"}})
    False
    """
    generation = definition.get("generation")
    if not generation or generation.get("sampling") == "greedy":
        return False
    return generation.get("sampling") == "model" or float(generation.get("temperature", 0)) > 0


def lists_options(definition: Mapping[str, Any]) -> bool:
    """Whether prompts list the options, so that a model sees their order.

    >>> lists_options({"format": "cloze"}), lists_options({"option": "{label}. {option}"})
    (False, True)
    """
    return bool(definition.get("option"))
