"""A model's text in its stored form: the answer as text, and the thought, compressed.

A thought within the text is cut off with its markers, so that thought and text together are the model's output, to the
character. A thought that was returned separately is stored as returned.
"""

import zlib
from typing import Any, Final, Protocol

from registry.digests import sha256_text
from registry.prompting.reading import Reading
from registry.prompting.thoughts import Finish, Output, divide, load_markers
from registry.proposals import propose
from registry.settings import get_settings

_COMPRESSION_LEVEL: Final = 6
MAX_THOUGHT: Final = 64 << 20
"""The most bytes that a thought may unpack to: more than a million tokens."""


class StoredText(Protocol):
    """A row of the table `generation`, or of a query that has these columns."""

    text: str
    finished: bool | None
    forced: bool | None
    thought: bytes | None
    thought_characters: int | None
    thought_apart: bool | None
    thought_opened: bool | None


def text_columns(
    output: Output,
    reading: Reading,
    *,
    tokens: int | None = None,
    thought_tokens: int | None = None,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Return the columns of `generation` for one output, without its keys.

    The thought itself is left out if SHUFFLEBOARD_KEEP_THOUGHTS is false; its digest and length are always kept.
    """
    apart = bool(output.reasoning and output.reasoning.strip())
    cut = 0 if apart else reading.divided.cut
    thought = output.reasoning if apart else output.text[:cut]
    columns: dict[str, Any] = {
        "text": storable(output.text[cut:]),
        "extracted": None if reading.text is None else storable(reading.text),
        "tokens": tokens,
        "finished": output.finish != "length",
        "seconds": seconds,
        "forced": output.forced or None,
        "thought": None,
        "thought_digest": None,
        "thought_characters": None,
        "thought_tokens": thought_tokens,
        "thought_apart": None,
        "thought_opened": output.opened or None,
    }
    if thought:
        columns["thought_digest"] = sha256_text(thought)
        columns["thought_characters"] = len(reading.divided.thought or "")
        columns["thought_apart"] = apart
        if get_settings().keep_thoughts:
            columns["thought"] = zlib.compress(thought.encode("utf-8", "surrogatepass"), _COMPRESSION_LEVEL)
    return columns


def build_imported_text(text: str, reasoning: str | None = None, *, opened: bool = False) -> dict[str, Any]:
    """Return the columns of an imported output; the reason why it ended and its cost are unknown."""
    output = Output(text, reasoning, opened=opened)
    columns = text_columns(output, Reading("unread", divide(output, load_markers())))
    return columns | {"finished": None}


def storable(text: str) -> str:
    """Return the text without NUL, which PostgreSQL's text cannot contain."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")


def thought_of(packed: bytes | None) -> str | None:
    """Return the text of a compressed thought; None if none is stored. Raises ValueError for a damaged one."""
    if packed is None:
        return None
    decompressor = zlib.decompressobj()
    try:
        content = decompressor.decompress(packed, MAX_THOUGHT)
    except zlib.error as error:
        message = f"a stored thought is damaged ({error}); see what is affected with: {propose('verify', '--all')}"
        raise ValueError(message) from None
    return content.decode("utf-8", "surrogatepass")


def digest_of(packed: bytes) -> str | None:
    """Return the digest of a compressed thought; None if it is damaged or missing."""
    try:
        thought = thought_of(packed)
    except ValueError:
        return None
    return None if thought is None else sha256_text(thought)


def rebuild_output(row: StoredText, state: str) -> Output:
    """Rebuild a model's output from its row and its prediction's state.

    If the thought was not kept, the text is read as an answer, or as a thought that did not end.
    """
    finish: Finish = "refused" if state == "refused" else "length" if row.finished is False else "stop"
    thought, forced = thought_of(row.thought), bool(row.forced)
    if thought is None:
        unended = state == "unfinished" and not row.text and bool(row.thought_characters)
        return Output(row.text, finish=finish, opened=unended, forced=forced)
    if row.thought_apart:
        return Output(row.text, thought, finish, forced=forced)
    return Output(thought + row.text, finish=finish, opened=bool(row.thought_opened), forced=forced)
