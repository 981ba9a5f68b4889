"""Protocols of replays: the prompts are made by one protocol, and the stored texts are read by another's rules."""

from collections.abc import Mapping
from typing import Any, Final

from registry.errors import ProtocolError

READ_BY: Final = "read_by"
"""Key of a definition with the rules of the other protocol; without it a protocol reads by its own rules."""
_RULES: Final = ("name", "format", "version", "answer", "extraction", "matching", "thoughts", "markers")
_INFIX: Final = "-read-by-"


def read_by(asked: Mapping[str, Any], reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a protocol with the prompts of `asked` and the rules of `reading`.

    All keys that affect prompts are kept, so that the prompts can be rebuilt. If both have the same rules, `asked` is
    returned. Raises ProtocolError for a protocol that writes no text.

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
    prompting = {key: value for key, value in asked.items() if key != READ_BY}
    prompting["name"] = asking_name(asked["name"])
    rules = {key: reading[key] for key in _RULES if key in reading}
    if rules == {key: prompting[key] for key in _RULES if key in prompting}:
        return prompting
    return {**prompting, "name": f"{prompting['name']}{_INFIX}{reading['name']}", READ_BY: rules}


def asking_name(name: str) -> str:
    """Return the name of the protocol that made a replay's prompts, from the name of the replay's protocol."""
    return name.partition(_INFIX)[0]


def reading_rules(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rules by which texts are read: another protocol's, or the definition itself."""
    rules: Mapping[str, Any] = definition.get(READ_BY, definition)
    return rules
