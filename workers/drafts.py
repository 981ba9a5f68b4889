"""Answers that are stored while a shard is in progress, so that the next worker can continue from them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Engine

from registry.db import read_session, write_session
from registry.predictions.prompts import ShardPrompt
from registry.prompting.thoughts import Output
from registry.queue import drafts
from registry.queue.claims import Claim
from workers.errors import InterruptedScoringError
from workers.pace import IDLE_SECONDS
from workers.written import Written

EVERY_SECONDS: Final = 1.0
"""Answers within this interval are stored together: commits must not delay short answers."""


class Drafts:
    """The drafts of one shard. fingerprint: digest of the engine that writes the answers."""

    def __init__(self, engine: Engine, claim: Claim, fingerprint: str) -> None:
        self._engine, self._claim, self._fingerprint = engine, claim, fingerprint
        self._waiting: list[tuple[drafts.Key, Mapping[str, Any]]] = []
        self._stored = time.monotonic()

    def load(self) -> dict[drafts.Key, Written]:
        """Return the answers stored by earlier workers, by question and variant."""
        with read_session(self._engine) as session:
            documents = drafts.load_drafts(session, self._claim, self._fingerprint)
        return {key: _read_written(document) for key, document in documents.items()}

    def keep(self, item: ShardPrompt, written: Written) -> None:
        """Store an answer, now or together with the next one. Raises InterruptedScoringError if the claim is lost."""
        self._waiting.append(((item.question_id, item.variant.ordinal), _document(written)))
        if time.monotonic() - self._stored >= EVERY_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Store the waiting answers."""
        if self._waiting:
            with write_session(self._engine, IDLE_SECONDS) as session:
                if not drafts.keep(session, self._claim, self._fingerprint, self._waiting):
                    raise InterruptedScoringError
        self._waiting = []
        self._stored = time.monotonic()


def storable(text: str) -> str:
    """Return the text without NUL, which PostgreSQL's text cannot contain."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")


def replace_nul(written: Sequence[Written]) -> list[Written]:
    """Return the texts with every NUL replaced, so that the database can store them."""
    return [
        replace(
            text,
            output=replace(
                text.output,
                text=storable(text.output.text),
                reasoning=None if text.output.reasoning is None else storable(text.output.reasoning),
            ),
        )
        for text in written
    ]


def _document(written: Written) -> dict[str, Any]:
    (cleaned,) = replace_nul([written])
    output = cleaned.output
    return {
        "text": output.text,
        "reasoning": output.reasoning,
        "finish": output.finish,
        "opened": output.opened,
        "forced": output.forced,
        "tokens": cleaned.tokens,
        "thought_tokens": cleaned.thought_tokens,
        "seconds": cleaned.seconds,
    }


def _read_written(document: Mapping[str, Any]) -> Written:
    output = Output(**{name: document[name] for name in ("text", "reasoning", "finish", "opened", "forced")})
    return Written(output, document["tokens"], document["thought_tokens"], document["seconds"])
