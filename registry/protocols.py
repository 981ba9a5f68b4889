"""Protocols: how a model is asked and how its answer is read.

A protocol is its definition, a JSON document; its digest names it for good. Presets are definitions that ship.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.digests import specification_digest
from registry.errors import ProtocolError
from registry.labels import LETTERS
from registry.models import Protocol

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    # Next-token label probabilities, as Goliakova et al. and Gupta et al. read them.
    "symbols": {
        "format": "symbols",
        "version": 1,
        "header": "The following are multiple choice questions (with answers) about {subject}.",
        "header_without_subject": "The following are multiple choice questions (with answers).",
        "labels": LETTERS,
        "option": "{label}. {option}",
        "cue": "Answer:",
        "continuation": " {label}",
        "score": "first-token",
        "chat_template": False,
    },
}


def protocol_definition(name: str, shots: int = 0) -> dict[str, Any]:
    """The definition of preset `name` with `shots` examples.

    Raises ProtocolError for an unknown preset or a negative number of shots.
    """
    if name not in PRESETS:
        raise ProtocolError(f"unknown protocol {name!r}; use one of {', '.join(PRESETS)}")
    if not 0 <= shots <= 100:
        raise ProtocolError(f"shots {shots}: give a number from 0 to 100")
    return {"name": name, "shots": shots, **PRESETS[name]}


def store_protocol(session: Session, definition: Mapping[str, Any]) -> Protocol:
    """The row of a definition, made when it is new."""
    digest = specification_digest(definition)
    row = session.scalar(select(Protocol).where(Protocol.digest == digest))
    if row is None:
        row = Protocol(digest=digest, name=definition["name"], shots=definition["shots"], definition=dict(definition))
        session.add(row)
        session.flush()
    return row
