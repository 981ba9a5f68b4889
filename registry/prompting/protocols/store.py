"""Look up protocols by name: presets, protocols that ship, and imported ones, which are in the table `protocol`."""

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db import one_at_a_time
from registry.digests import specification_digest
from registry.errors import ProtocolError
from registry.names import suggest_names
from registry.prompting.protocols.custom import load_shipped_definitions
from registry.prompting.protocols.presets import PRESETS, RECORDED
from registry.proposals import propose
from registry.tables import Protocol

MAX_SHOTS: Final = 100


@lru_cache(maxsize=1)
def load_known_definitions() -> Mapping[str, Mapping[str, Any]]:
    """Return the definitions in the code, by name: presets, `recorded`, then custom protocols that ship."""
    presets = {
        name: {"name": name, "shots": 0, **preset} for name, preset in {**PRESETS, RECORDED["format"]: RECORDED}.items()
    }
    return presets | load_shipped_definitions()


def protocol_definition(name: str, shots: int = 0) -> dict[str, Any]:
    """Return the definition of a preset, or of a protocol that ships, with `shots` examples.

    Raises ProtocolError for an unknown name or a number of shots out of range.
    """
    definitions = load_known_definitions()
    if name not in definitions:
        raise ProtocolError(f"unknown protocol {name!r}{suggest_names(name, definitions)}")
    return _with_shots(definitions[name], shots)


def find_definition(session: Session, name: str, shots: int = 0) -> dict[str, Any]:
    """Return the newest definition of this name, with `shots` examples.

    Raises ProtocolError in the same cases as protocol_definition.
    """
    if name in load_known_definitions():
        return protocol_definition(name, shots)
    row = session.scalar(select(Protocol).where(Protocol.name == name).order_by(Protocol.id.desc()).limit(1))
    if row is None:
        imported = session.scalars(select(Protocol.name).distinct().order_by(Protocol.name))
        known = dict.fromkeys([*load_known_definitions(), *imported])
        adding = f"to add it: {propose('protocols import', 'FILE')}"
        raise ProtocolError(f"unknown protocol {name!r}{suggest_names(name, known, remedy=adding)}")
    return _with_shots(row.definition, shots)


def _with_shots(definition: Mapping[str, Any], shots: int) -> dict[str, Any]:
    if not 0 <= shots <= MAX_SHOTS:
        raise ProtocolError(f"shots {shots}: give a number from 0 to {MAX_SHOTS}")
    # The copy is deep so that callers cannot change the definitions in the code.
    return {**deepcopy(dict(definition)), "shots": shots}


def store_protocol(session: Session, definition: Mapping[str, Any]) -> Protocol:
    """Return the row of a definition, and insert it if it is new."""
    digest = specification_digest(definition)
    row = session.scalar(select(Protocol).where(Protocol.digest == digest))
    if row is None:
        row = Protocol(digest=digest, name=definition["name"], shots=definition["shots"], definition=dict(definition))
        session.add(row)
        session.flush()
    return row


def import_protocol(session: Session, definition: Mapping[str, Any]) -> tuple[Protocol, bool]:
    """Store a custom protocol; return it, and whether it is new.

    Another definition of the same name is another protocol, and is used for that name from then on. Raises
    ProtocolError for the name of a definition in the code, which cannot be replaced.
    """
    if definition["name"] in load_known_definitions():
        raise ProtocolError(f"protocol {definition['name']} comes with Shuffleboard; choose another name")
    one_at_a_time(session, "protocols")
    digest = specification_digest(definition)
    existing = session.scalar(select(Protocol.id).where(Protocol.digest == digest))
    return store_protocol(session, definition), existing is None


MAX_TOKENS: Final = 1_000_000
_TOKENS_SUFFIX: Final = re.compile(r"-[0-9]+-tokens$")


def with_room(session: Session, name: str, max_tokens: int) -> str:
    """Store a copy of a protocol with this limit of tokens for thought and answer, and return its name.

    A separate limit for the thought is raised by the same number, so that the answer's part stays the same. Raises
    ProtocolError for a protocol that writes no text, or a limit that leaves no tokens for the answer.
    """
    definition = find_definition(session, name)
    if "generation" not in definition:
        raise ProtocolError(f"protocol {name} writes no text, so it has no limit of tokens; leave out --max-tokens")
    generation = definition["generation"]
    thought = generation.get("max_thought_tokens")
    answer = 0 if thought is None else generation["max_tokens"] - thought
    if not answer < max_tokens <= MAX_TOKENS:
        raise ProtocolError(f"max_tokens {max_tokens}: give {answer + 1} to {MAX_TOKENS}")
    if max_tokens == generation["max_tokens"]:
        return name
    changed = {**generation, "max_tokens": max_tokens}
    if thought is not None:
        changed["max_thought_tokens"] = max_tokens - answer
    copy_name = f"{_TOKENS_SUFFIX.sub('', name)}-{max_tokens}-tokens"
    import_protocol(session, {**definition, "name": copy_name, "generation": changed})
    return copy_name
