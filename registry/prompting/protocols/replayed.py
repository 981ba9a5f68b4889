"""Protocols of replays: the prompts are one protocol's, and the stored texts are read by the rules of another."""

from collections.abc import Mapping
from typing import Any, Final

from registry.errors import ProtocolError

READ_BY: Final = "read_by"
"""The key of a definition with the other protocol's rules; without it a protocol reads by its own."""
_RULES: Final = ("name", "format", "version", "answer", "extraction", "matching", "thoughts", "markers")
_BETWEEN: Final = "-read-by-"


def read_by(asked: Mapping[str, Any], reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a protocol with the prompts of `asked` and the reading of `reading`.

    Everything that makes prompts stays, so that they can be built again. If both read in the same way, `asked` is
    returned.
    Raises ProtocolError for a protocol that writes no text.

    >>> select = {"name": "select-letter", "shots": 0, "format": "select-letter", "answer": "label"}
    >>> read_by(select, {"name": "final-answer", "format": "final-answer", "answer": "label"})["name"]
    'select-letter-read-by-final-answer'
    """
    reading = reading_rules(reading)
    if "answer" not in reading:
        raise ProtocolError(
            f"protocol {reading['name']} scores options, so it has no text to read; use one that generates, such as "
            "final-answer"
        )
    own = {key: value for key, value in asked.items() if key != READ_BY}
    own["name"] = asking_name(asked["name"])
    rules = {key: reading[key] for key in _RULES if key in reading}
    if rules == {key: own[key] for key in _RULES if key in own}:
        return own
    return {**own, "name": f"{own['name']}{_BETWEEN}{reading['name']}", READ_BY: rules}


def asking_name(name: str) -> str:
    """Return the name of the protocol that made the prompts, from the name of a replay's protocol."""
    return name.partition(_BETWEEN)[0]


def reading_rules(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the definition by whose rules texts are read: another protocol's, or the protocol's own."""
    rules: Mapping[str, Any] = definition.get(READ_BY, definition)
    return rules
