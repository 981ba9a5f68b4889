"""Requests to providers and their answers, in one form for all of them."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Protocol, runtime_checkable

from registry.untrusted import decode_answer

Outcome = Literal["complete", "cut-off", "refused", "filtered"]

MOST_STOPS: Final = 4
"""Number of stop sequences that every provider accepts. The text is also cut at all stop sequences here."""


@dataclass(frozen=True)
class Wanted:
    """The parameters of a text.

    max_tokens: limit of the visible text. reasoning_tokens: limit of the model's hidden thought; None if it does not
    reason: only then temperature, top_p, top_k and min_p are sent, since reasoning models refuse them. adaptive:
    whether the model decides how much it thinks. effort: amount of thinking in words. off: whether it must not think.
    """

    max_tokens: int
    reasoning_tokens: int | None
    temperature: float
    top_p: float | None
    top_k: int | None
    seed: int
    stop: tuple[str, ...]
    adaptive: bool = False
    effort: str | None = None
    off: bool = False

    @property
    def most_tokens(self) -> int:
        """Return the limit of the answer's tokens, hidden ones included."""
        return self.max_tokens + (self.reasoning_tokens or 0)

    @property
    def thinking(self) -> dict[str, Any]:
        """Return Anthropic's parameter for a model that reasons; some models accept only one of its two forms."""
        return {"type": "adaptive"} if self.adaptive else {"type": "enabled", "budget_tokens": self.reasoning_tokens}


@dataclass(frozen=True)
class Answer:
    """A provider's answer.

    outcome: `cut-off` at the limit of tokens, or for an unknown reason. stop_reason: the provider's own word.
    written_tokens: including the hidden ones, which are reasoning_tokens; None if they are not counted. cost: as the
    provider states it, or None. reasoning: the thought or its summary, if it is returned.
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
    reasoning: str | None = None

    def cut_at(self, stop: Sequence[str]) -> "Answer":
        """Return the answer with its text cut before the first stop sequence."""
        places = [place for place in (self.text.find(sequence) for sequence in stop) if place >= 0]
        return replace(self, text=self.text[: min(places)], outcome="complete") if places else self


class RefusedRequestError(Exception):
    """A request without an answer.

    status: the HTTP status; None if there was no response. headers: names in lower case. document: the error's body.
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


@contextmanager
def asking(*wrappers: type[Exception]) -> Iterator[None]:
    """Turn any failure of a request to a provider into a RefusedRequestError.

    wrappers: the library's errors that wrap an error of the connection. A response that does not have the form of an
    answer, such as a proxy's page, counts as no response, though it may have been paid for.
    """
    try:
        yield
    except wrappers as error:
        seen: BaseException | None = error
        while seen is not None:
            if isinstance(seen, RefusedRequestError):
                raise seen from None
            seen = seen.__cause__ or seen.__context__
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RefusedRequestError(f"gives an answer that cannot be read ({type(error).__name__})") from error


class Api(Protocol):
    """One provider's service. Threads may share it."""

    library: str
    """Name and version of the library."""

    def ask(self, model: str, messages: Sequence[Mapping[str, str]], wanted: Wanted) -> Answer:
        """Return the model's answer to a conversation. Raises RefusedRequestError."""
        ...

    def parameters(self, wanted: Wanted) -> dict[str, Any]:
        """Return a request's parameters other than the conversation."""
        ...

    def is_filtered(self, status: int | None, document: Any) -> bool:
        """Return whether a request was refused for its content."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


Conversation = tuple[Sequence[Mapping[str, str]], Wanted]
"""The turns of a conversation, and the parameters of the next one."""

NOT_EXECUTED: Final = 408
"""Status of a request that its batch did not execute."""
CLOCKS_DIFFER: Final = timedelta(minutes=10)
"""Largest assumed difference between a provider's clock and the database's."""


@dataclass(frozen=True)
class BatchStatus:
    """The state of a batch.

    unanswered: why requests without a result were not executed; None if unknown. full: whether the batch was refused
    because the key has too many requests in batches.
    """

    ended: bool
    unanswered: str | None = None
    full: bool = False


class UnsureError(Exception):
    """Whether a batch exists is unknown until one in progress has ended."""


@runtime_checkable
class BatchApi(Api, Protocol):
    """A provider with a batch service. All methods raise RefusedRequestError."""

    def upload(self, model: str, requests: Mapping[str, Conversation]) -> Any:
        """Return the argument for `create`; this costs nothing. requests: by name."""
        ...

    def create(self, tag: str, uploaded: Any) -> str:
        """Create a batch, which the provider then executes; return its name there."""
        ...

    def find(self, tag: str, requests: int, since: datetime, others: Container[str]) -> str | None:
        """Return the name of the batch with this tag and number of requests, created after a time; None without one.

        others: names of other batches. Raises UnsureError.
        """
        ...

    def status(self, batch: str) -> BatchStatus:
        """Return the state of a batch."""
        ...

    def results(self, batch: str) -> Sequence[tuple[str, Answer | RefusedRequestError]]:
        """Return the results of an ended batch, by the names of its requests; some may be missing."""
        ...

    def cancel(self, batch: str) -> None:
        """Cancel a batch."""
        ...


def parse_result(parse: Callable[[Mapping[str, Any]], Answer], line: Mapping[str, Any]) -> Answer | RefusedRequestError:
    """Return the parsed answer in a line of a batch's results, or the error."""
    try:
        with asking():
            return parse(line)
    except RefusedRequestError as error:
        return error


def lines_of(content: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the documents in a file of JSON lines, skipping invalid lines."""
    for line in content.splitlines():
        try:
            document = decode_answer(line)
        except ValueError:
            continue
        if isinstance(document, Mapping) and isinstance(document.get("custom_id"), str):
            yield document


@dataclass(frozen=True)
class Turns:
    """A conversation with its system texts separate from the other turns."""

    system: str
    others: list[Mapping[str, str]] = field(default_factory=list)


def turns_of(messages: Sequence[Mapping[str, str]]) -> Turns:
    """Return the system texts of a conversation, joined by blank lines, and its other turns."""
    return Turns(
        "\n\n".join(turn["content"] for turn in messages if turn["role"] == "system"),
        [turn for turn in messages if turn["role"] != "system"],
    )


def count(value: Any) -> int:
    """Return a number of tokens; 0 if the value is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
