"""Servers' answers with a model's text: whole answers and streams, texts and messages, and thoughts in any field.

A message's thought is in `reasoning_content` (DeepSeek, SGLang, llama.cpp, older vLLM) or in `reasoning` (vLLM, Ollama,
OpenRouter); some servers send both with the same text. Content may be a list of parts; parts of the types `thinking`
and `reasoning` are thoughts (Mistral).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from registry.prompting.thoughts import Finish, Output
from workers.endpoint.answers import Usage, tokens_used
from workers.errors import EngineError

FINISHED: Final[Mapping[str, Finish]] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "content_filter": "refused",
    "refusal": "refused",
    "safety": "refused",
}
"""A server's reasons for the end of a text, in lower case.

Every other reason counts as a limit, so that a text that may be incomplete never counts as complete.
"""
BROKEN_OFF: Final = frozenset({"abort", "aborted", "error", "insufficient_system_resource"})
"""Reasons that are the server's, not the text's: another request may end differently."""
_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
_THOUGHTS: Final = frozenset({"thinking", "reasoning", "reasoning.text", "reasoning.summary"})


class BrokenOffError(Exception):
    """A server ended a text before the model did."""


@dataclass
class Choice:
    """One text while it arrives."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    reason: str | None = None
    refusal: bool = False
    usage: Usage | None = None

    def output(self) -> Output:
        """Return the output; call it once the text has ended."""
        finish = FINISHED.get((self.reason or "").lower(), "length")
        return Output("".join(self.text), "".join(self.reasoning) or None, "refused" if self.refusal else finish)


class Answered:
    """The texts of one request, assembled from one document or from the events of a stream."""

    def __init__(self) -> None:
        self.choices: dict[int, Choice] = {}
        self.usage: Usage | None = None
        self.reasoning_tokens: int | None = None
        self._closed = False

    def close(self) -> None:
        """Record that the server closed the stream."""
        self._closed = True

    def add(self, document: Mapping[str, Any]) -> bool:
        """Add a document or an event; return whether it contains text.

        Raises EngineError if the document does not have the form of an answer.
        """
        usage = document.get("usage")
        listed = document.get("choices")
        if not isinstance(listed, list) or (not listed and not isinstance(usage, dict)):
            raise EngineError("the server's answer has no choices; check that the URL is that of a completions API")
        wrote = False
        for entry in listed:
            if not isinstance(entry, dict):
                continue
            index = entry.get("index")
            choice = self.choices.setdefault(index if isinstance(index, int) else 0, Choice())
            wrote |= _add(choice, entry)
            if isinstance(usage, dict) and len(listed) == 1:
                choice.usage = tokens_used(document)
        if isinstance(usage, dict):
            self.usage = tokens_used(document)
            details = usage.get("completion_tokens_details")
            thought = (details if isinstance(details, dict) else usage).get("reasoning_tokens")
            if isinstance(thought, int) and not isinstance(thought, bool) and thought >= 0:
                self.reasoning_tokens = thought
        return wrote

    @property
    def ended(self) -> bool:
        """Return whether each text has ended."""
        return bool(self.choices) and (self._closed or all(choice.reason for choice in self.choices.values()))

    def check(self) -> None:
        """Raise BrokenOffError if the server, and not the model, ended a text."""
        for choice in self.choices.values():
            if (choice.reason or "").lower() in BROKEN_OFF:
                raise BrokenOffError(f"breaks an answer off ({choice.reason})")


def _add(choice: Choice, entry: Mapping[str, Any]) -> bool:
    if isinstance(entry.get("finish_reason"), str):
        choice.reason = entry["finish_reason"]
    message = entry.get("delta", entry.get("message"))
    before = len(choice.text) + len(choice.reasoning)
    if isinstance(message, dict):
        for thought, text in _parts(message):
            (choice.reasoning if thought else choice.text).append(text)
        if isinstance(message.get("refusal"), str) and message["refusal"]:
            choice.refusal = True
            choice.text.append(message["refusal"])
    elif isinstance(entry.get("text"), str):
        if entry["text"]:
            choice.text.append(entry["text"])
    elif message is None and "text" not in entry and entry.get("finish_reason") is None:
        raise EngineError("the server's answer has no text; check that the URL is that of a completions API")
    return len(choice.text) + len(choice.reasoning) > before


def _parts(said: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield the non-empty texts of a message or a delta, and whether each is a thought."""
    content = said.get("content")
    thought = next((said[name] for name in _FIELDS if isinstance(said.get(name), str) and said[name]), None)
    if thought is not None:
        yield True, thought
    elif isinstance(said.get("reasoning_details"), list):
        yield from ((True, text) for _, text in _list_texts(said["reasoning_details"], thoughts=True))
    if isinstance(content, str):
        if content:
            yield False, content
    elif isinstance(content, list):
        yield from _list_texts(content, thoughts=False)
    elif content is not None:
        raise EngineError("the server's answer has no text; check that the URL is that of a completions API")


def _list_texts(parts: list[Any], *, thoughts: bool) -> Iterator[tuple[bool, str]]:
    """Yield the texts of a list of parts. thoughts: whether all parts are thoughts, whatever their type."""
    for part in parts:
        if not isinstance(part, dict):
            continue
        thought = thoughts or part.get("type") in _THOUGHTS
        for name in ("text", "thinking", "reasoning", "summary", "content"):
            value = part.get(name)
            if isinstance(value, str) and value:
                yield thought, value
                break
            if isinstance(value, list):
                yield from ((thought, text) for _, text in _list_texts(value, thoughts=thought))
                break
