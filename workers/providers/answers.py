"""What is asked of a provider, and what comes back, in one form for all of them."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Protocol, runtime_checkable

from registry.untrusted import decode_answer

Outcome = Literal["complete", "cut-off", "refused", "filtered"]

MOST_STOPS: Final = 4
"""Stop sequences that every provider takes. The text is cut at all of them here as well."""


@dataclass(frozen=True)
class Wanted:
    """How a text is to be written.

    max_tokens: of what is shown. reasoning_tokens: what the model may think beside it; None: it does not reason. Then
    temperature, top_p, top_k and min_p are sent; a reasoning model refuses them. adaptive: it decides how much it
    thinks. effort: in words, how much it is to think. off: it is told not to.
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
        """The most that may be written, hidden tokens included."""
        return self.max_tokens + (self.reasoning_tokens or 0)

    @property
    def thinking(self) -> dict[str, Any]:
        """How a model of Anthropic that reasons is told to; some of them accept one form only."""
        return {"type": "adaptive"} if self.adaptive else {"type": "enabled", "budget_tokens": self.reasoning_tokens}


@dataclass(frozen=True)
class Answer:
    """What a provider answered.

    outcome: `cut-off` at the limit of tokens, or for any reason that is none of the others. stop_reason: in the
    provider's own word. written_tokens: with the hidden ones, which are reasoning_tokens; None where they are not
    counted. cost: where the provider states it. reasoning: the thought, or its summary, where it is handed over.
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


@contextmanager
def asking(*wrappers: type[Exception]) -> Iterator[None]:
    """Makes whatever goes wrong with a request to a provider a RefusedRequestError.

    wrappers: what the provider's library raises in the place of an error of the connection. What does not have the form
    of an answer, such as a proxy's page, is none; it was perhaps paid for.
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


Conversation = tuple[Sequence[Mapping[str, str]], Wanted]
"""Turns, and how the next is to be written."""

NOT_EXECUTED: Final = 408
"""Status of a request that its batch did not come to."""
CLOCKS_DIFFER: Final = timedelta(minutes=10)
"""By how much a provider's clock may be behind the database's."""


@dataclass(frozen=True)
class BatchStatus:
    """Whether a batch has ended.

    unanswered: why requests without a result were not executed; None: the provider does not say. full: it was refused
    because the key has too many requests in batches already.
    """

    ended: bool
    unanswered: str | None = None
    full: bool = False


class UnsureError(Exception):
    """Whether a batch is there is not known until one that is being worked on has ended."""


@runtime_checkable
class BatchApi(Api, Protocol):
    """A provider with a batch service. All methods raise RefusedRequestError."""

    def upload(self, model: str, requests: Mapping[str, Conversation]) -> Any:
        """Makes ready what `create` is given; requests: by name. It costs nothing."""
        ...

    def create(self, tag: str, uploaded: Any) -> str:
        """Makes a batch, which the provider then works on; returns its name there."""
        ...

    def find(self, tag: str, requests: int, since: datetime, others: Container[str]) -> str | None:
        """The batch with a tag and so many requests that was made after a time, by name; None where there is none.

        others: names of batches that it is not. Raises UnsureError.
        """
        ...

    def status(self, batch: str) -> BatchStatus:
        """How far a batch is."""
        ...

    def results(self, batch: str) -> Sequence[tuple[str, Answer | RefusedRequestError]]:
        """What came of the requests of a batch that has ended, by name; some may be missing."""
        ...

    def cancel(self, batch: str) -> None:
        """Stops a batch."""
        ...


def parsed(parse: Callable[[Mapping[str, Any]], Answer], line: Mapping[str, Any]) -> Answer | RefusedRequestError:
    """What a line of a batch's results says."""
    try:
        with asking():
            return parse(line)
    except RefusedRequestError as error:
        return error


def lines_of(content: bytes) -> Iterator[Mapping[str, Any]]:
    """The documents of a file of JSON lines, without those that are none."""
    for line in content.splitlines():
        try:
            document = decode_answer(line)
        except ValueError:
            continue
        if isinstance(document, Mapping) and isinstance(document.get("custom_id"), str):
            yield document


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
