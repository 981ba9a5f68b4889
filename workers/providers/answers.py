"""What is asked of a provider, and what comes back, in one form for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

Outcome = Literal["complete", "cut-off", "refused", "filtered"]

MOST_STOPS: Final = 4
"""Stop sequences that every provider takes. The text is cut at all of them here as well."""


@dataclass(frozen=True)
class Wanted:
    """How a text is to be written.

    max_tokens: of what is shown. reasoning_tokens: what the model may think beside it; None: it does not reason. Then
    temperature, top_p, top_k and min_p are sent; a reasoning model refuses them.
    """

    max_tokens: int
    reasoning_tokens: int | None
    temperature: float
    top_p: float | None
    top_k: int | None
    seed: int
    stop: tuple[str, ...]

    @property
    def most_tokens(self) -> int:
        """The most that may be written, hidden tokens included."""
        return self.max_tokens + (self.reasoning_tokens or 0)


@dataclass(frozen=True)
class Answer:
    """What a provider answered.

    outcome: `cut-off` at the limit of tokens, or for any reason that is none of the others. stop_reason: in the
    provider's own word. written_tokens: with the hidden ones, which are reasoning_tokens; None where they are not
    counted. cost: where the provider states it.
    """

    text: str
    outcome: Outcome
    stop_reason: str | None = None
    served_model: str | None = None
    system_fingerprint: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    written_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None

    def cut_at(self, stop: Sequence[str]) -> "Answer":
        """The same with its text ended before the first stop sequence."""
        places = [place for place in (self.text.find(one) for one in stop) if place >= 0]
        return replace(self, text=self.text[: min(places)], outcome="complete") if places else self


class RefusedRequestError(Exception):
    """A request that was not answered.

    status: of HTTP; None where no answer came. headers: names in lower case. document: what the error's body says.
    """

    def __init__(
        self,
        reason: str,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        document: Any = None,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers or {}
        self.document = document


class Api(Protocol):
    """One provider's service. Threads may share it."""

    library: str
    """Name and version of what speaks with it."""

    def ask(self, model: str, messages: Sequence[Mapping[str, str]], wanted: Wanted) -> Answer:
        """The model's answer to a conversation. Raises RefusedRequestError."""
        ...

    def parameters(self, wanted: Wanted) -> dict[str, Any]:
        """What a request says beside the conversation."""
        ...

    def is_filtered(self, status: int | None, document: Any) -> bool:
        """Whether a request that was refused was refused for its content."""
        ...

    def close(self) -> None:
        """Closes the connections."""
        ...


@dataclass(frozen=True)
class Turns:
    """A conversation whose system texts stand apart."""

    system: str
    others: list[Mapping[str, str]] = field(default_factory=list)


def turns_of(messages: Sequence[Mapping[str, str]]) -> Turns:
    """The system texts of a conversation, joined by blank lines, and its other turns."""
    return Turns(
        "\n\n".join(turn["content"] for turn in messages if turn["role"] == "system"),
        [turn for turn in messages if turn["role"] != "system"],
    )


def count(value: Any) -> int:
    """A number of tokens; 0 where there is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
