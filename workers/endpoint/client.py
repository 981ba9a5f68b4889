"""Requests to one endpoint: its key, time-outs, rate, retries, and errors with their remedies.

The key is in the header of a request and nowhere else. Servers' texts are truncated, and the key is removed, before
they become part of a message or a result.
"""

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import httpx2
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from registry.errors import ModelError
from registry.revisions.endpoints import Endpoint, host_of, is_loopback
from registry.settings import Settings
from registry.untrusted import decode_answer
from workers.endpoint.outputs import BrokenOffError
from workers.endpoint.pacing import CHARACTERS_PER_TOKEN, NoPace, Pace, retry_after
from workers.errors import EngineError, InterruptedScoringError, PermanentError

FIRST_WAIT_SECONDS: Final = 0.5
"""The first wait is a random time up to this; the bound then doubles with each attempt, up to the longest wait."""
MAX_BYTES: Final = 32 << 20
"""A longer answer cannot be a valid one."""
HEAVIEST: Final = 1 << 30
"""Largest memory of a parsed answer, in bytes: lists of tokens need thirty times the size of their text."""
SIGNS_OF_LIFE: Final = 10
"""Factor of the read time-out for a stream that sends keep-alive events only."""
MAX_STREAM_BYTES: Final = 256 << 20
"""Longest stream in bytes, since its events are verbose."""
MAX_EVENT_BYTES: Final = 4 << 20
REASON_LENGTH: Final = 300
MINIMUM_KEY_LENGTH: Final = 16
"""A shorter key is not secret, and could be a word of an answer."""
_TRY_AGAIN: Final = frozenset({408, 425, 429})
_REFUSED: Final = frozenset({401, 403})
_STATED: Final = ("code", "status", "status_code", "type")
_NAMED: Final = {"authentication": 401, "permission": 403, "not_found": 404, "invalid": 400, "badrequest": 400}
"""The usual HTTP status of errors whose name contains a word. All other errors may be temporary."""


class _TryAgainError(Exception):
    """An attempt failed in a way that may be temporary. wait_s: seconds that the server requests to wait."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class RefusedError(PermanentError):
    """A server refused a request, and another try would fail too: the request, the key or the address is wrong.

    code: the error's code in OpenAI's form; None for other forms. of_all: whether every request for the model would be
    refused, as with a wrong key or address.
    """

    def __init__(self, message: str, code: object = None, *, of_all: bool = False) -> None:
        super().__init__(message, of_all=of_all)
        self.code = code


@dataclass(frozen=True)
class Reply:
    """A server's answer: a JSON object, and the name of its software if it gives one."""

    document: dict[str, Any]
    server: str | None


class Taking(Protocol):
    """An interface that receives the events of one stream."""

    @property
    def ended(self) -> bool:
        """Return whether the stream is complete."""
        ...

    def add(self, document: Mapping[str, Any], /) -> bool:
        """Add an event; return whether it contains text."""
        ...

    def close(self) -> None:
        """Record that the server closed the stream."""
        ...

    def check(self) -> None:
        """Raise BrokenOffError if the server ended a text before the model did."""
        ...


R = TypeVar("R")
S = TypeVar("S", bound=Taking)


class EndpointClient:
    """The client of one endpoint. Threads may share it; their requests wait for a free connection.

    pace: the limits of the endpoint's key, for all requests except lists of models.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings, pace: Pace | None = None) -> None:
        self.endpoint = endpoint
        self._pace = pace or NoPace()
        self._settings = settings
        self._key = read_key(endpoint)
        self._lock = threading.Lock()
        self._next_start = 0.0
        self._waits = wait_random_exponential(multiplier=FIRST_WAIT_SECONDS, max=settings.endpoint_wait_seconds)
        connect_s, read_s = settings.endpoint_connect_seconds, settings.endpoint_read_seconds
        self._http = httpx2.Client(
            headers={"Accept": "application/json"},
            timeout=httpx2.Timeout(connect=connect_s, read=read_s, write=read_s, pool=None),
            limits=httpx2.Limits(max_connections=1 + most_in_flight(settings)),  # one for the server's metrics
            # A redirect could lead away from the host that the key is bound to.
            follow_redirects=False,
            # A proxy from the environment is for other machines.
            trust_env=not is_loopback(endpoint.url_prefix),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, url: str, *, stop: threading.Event | None = None, attempts: int | None = None) -> Reply:
        """Return the JSON object at a URL."""
        return self._ask("GET", url, None, stop, attempts)

    def post(
        self,
        url: str,
        document: Mapping[str, Any],
        *,
        stop: threading.Event | None = None,
        attempts: int | None = None,
    ) -> Reply:
        """Post a JSON object; return the server's JSON object."""
        return self._ask("POST", url, document, stop, attempts)

    def stream(
        self, url: str, document: Mapping[str, Any], make: Callable[[], S], *, stop: threading.Event | None = None
    ) -> tuple[S, Reply]:
        """Send a document with `stream` set; return the object that received the events, and the last event.

        make: makes the receiver of an attempt's events, or of the one document from a server that does not stream. A
        stream may take any time while something is written: its time-out counts silence. If the stream is cut or the
        server falls silent, the request is sent once more.
        """
        stop = stop or threading.Event()

        def attempt(pause: Callable[[float], None]) -> tuple[S, Reply]:
            return self._stream(url, document, make(), stop, pause)

        return self._retry(attempt, url, stop, None)

    def text(self, url: str) -> str | None:
        """Return the text at a URL, requested once with a short time-out.

        None if there is no text, or if the URL is outside the endpoint.
        """
        if not self.endpoint.covers(url):
            return None
        longest = self._settings.endpoint_connect_seconds
        try:
            with self._http.stream("GET", url, headers=self._headers(), timeout=longest) as response:
                body = self._body(response)
        except (httpx2.HTTPError, _TryAgainError, EngineError):
            return None
        return body.decode(errors="replace") if response.status_code == httpx2.codes.OK else None

    def clean(self, text: str) -> str:
        """Return a server's message on one line, cut short, without the key."""
        line = " ".join(text.replace(self._key, "[key]").split() if self._key else text.split())
        shown = "".join(character for character in line if character.isprintable())
        return shown if len(shown) <= REASON_LENGTH else shown[:REASON_LENGTH] + "…"

    def _ask(
        self,
        method: str,
        url: str,
        document: Mapping[str, Any] | None,
        stop: threading.Event | None,
        attempts: int | None,
    ) -> Reply:
        """Send a request, again until there is an answer or an error that retrying does not fix.

        Raises EngineError naming the host and the reason, and InterruptedScoringError once `stop` is set.
        """
        return self._retry(partial(self._attempt, method, url, document), url, stop or threading.Event(), attempts)

    def _retry(
        self, attempt: Callable[[Callable[[float], None]], R], url: str, stop: threading.Event, attempts: int | None
    ) -> R:
        assert self.endpoint.covers(url), "a URL outside the endpoint"  # otherwise its key would be sent there
        attempts = attempts or self._settings.endpoint_attempts

        def pause(seconds: float) -> None:
            if stop.wait(seconds):
                raise InterruptedScoringError

        retrying = Retrying(
            retry=retry_if_exception_type(_TryAgainError),
            stop=stop_after_attempt(attempts),
            wait=self._wait,
            sleep=pause,
            reraise=True,
        )
        try:
            return retrying(attempt, pause)
        except _TryAgainError as error:
            times = "once" if attempts == 1 else f"{attempts} times"
            raise EngineError(f"{host_of(url)}: {error}; tried {times}: check the server, then retry") from None

    def _wait(self, state: RetryCallState) -> float:
        assert state.outcome is not None
        error = state.outcome.exception()
        assert isinstance(error, _TryAgainError)
        return self._waits(state) if error.wait_s is None else error.wait_s

    def _attempt(
        self, method: str, url: str, document: Mapping[str, Any] | None, pause: Callable[[float], None]
    ) -> Reply:
        pause(self._turn())
        reserved = 0 if document is None else _most_tokens(document)
        if document is not None:
            self._pace.turn(reserved, pause)
        with self._reaching(url), self._http.stream(method, url, json=document, headers=self._headers()) as response:
            body = self._remove_key(self._body(response))
        if response.status_code == httpx2.codes.OK:
            answered = self._document(url, body)
            self._check_document(url, answered, response.headers)
            if document is not None:
                self._pace.done(reserved, _tokens_used(answered), response.headers)
            return Reply(answered, response.headers.get("server"))
        raise self._refusal(url, response, body)

    def _stream(
        self, url: str, document: Mapping[str, Any], taking: S, stop: threading.Event, pause: Callable[[float], None]
    ) -> tuple[S, Reply]:
        pause(self._turn())
        reserved = _most_tokens(document)
        self._pace.turn(reserved, pause)
        headers = self._headers() | {"Accept": "text/event-stream, application/json"}
        last: dict[str, Any] = {}
        with self._reaching(url), self._http.stream("POST", url, json=document, headers=headers) as response:
            streamed = response.headers.get("content-type", "").startswith("text/event-stream")
            if response.status_code != httpx2.codes.OK:
                raise self._refusal(url, response, self._remove_key(self._body(response)))
            if streamed:
                for last in self._events(url, response, taking, stop):
                    self._check_event(url, last)
                if not taking.ended:
                    raise _TryAgainError("ends an answer before it is whole")
            else:
                last = self._document(url, self._remove_key(self._body(response)))
                self._check_document(url, last, response.headers)
                taking.add(last)
        try:
            taking.check()
        except BrokenOffError as error:
            raise _TryAgainError(str(error)) from None
        self._pace.done(reserved, _tokens_used(last), response.headers)
        return taking, Reply(last, response.headers.get("server"))

    def _events(
        self, url: str, response: httpx2.Response, taking: Taking, stop: threading.Event
    ) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects of a stream as they arrive, after adding each to its receiver."""
        longest = SIGNS_OF_LIFE * self._settings.endpoint_read_seconds
        heard, length, left = time.monotonic(), 0, b""
        for chunk in response.iter_bytes():
            if stop.is_set():
                raise InterruptedScoringError
            length += len(chunk)
            if length > MAX_STREAM_BYTES or len(left) > MAX_EVENT_BYTES:
                raise EngineError(f"{host_of(url)}: sends an answer without end; check the server")
            *lines, left = (left + chunk).split(b"\n")
            for line in lines:
                name, _, value = line.strip().partition(b":")
                if name != b"data":
                    continue
                if value.strip() == b"[DONE]":
                    taking.close()
                    return
                event = self._document(url, value.strip())
                if "error" not in event and taking.add(event):
                    heard = time.monotonic()
                yield event
            if time.monotonic() - heard > longest:
                raise _TryAgainError(f"says that it is there, but has written nothing for {longest:g} s")

    def _check_event(self, url: str, event: Mapping[str, Any]) -> None:
        """Raise an error if an event of a stream is one."""
        if event.get("error") is None:
            return
        status, reason = _status(event), self.clean(_reason(json.dumps(event).encode()))
        if status is not None and not _is_temporary(status):
            raise RefusedError(f"{host_of(url)}: answers {status} ({reason})")
        raise _TryAgainError(f"breaks off ({reason})")

    def _check_document(self, url: str, document: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Raise an error if a server, or a gateway in front of it, sent one with status 200."""
        if document.get("choices") or (document.get("error") is None and document.get("object") != "error"):
            return
        status, body = _status(document), json.dumps(document).encode()
        reason = f"sends an error with status 200 ({self.clean(_reason(body))})"
        if status is None or _is_temporary(status):
            raise self._later(reason, url, retry_after(headers))
        raise RefusedError(
            f"{host_of(url)}: {reason}{self._remedy(status, reason)}", _code(body), of_all=_concerns_all(status)
        )

    @contextmanager
    def _reaching(self, url: str) -> Iterator[None]:
        """Turn a connection error or a time-out into an error that names the cause."""
        try:
            yield
        except httpx2.TimeoutException as error:
            raise _TryAgainError(f"does not answer in time ({type(error).__name__})") from None
        except httpx2.TransportError as error:
            reason = self.clean(str(error)) or "connection lost"
            raise _TryAgainError(f"cannot be reached ({type(error).__name__}: {reason})") from None
        except httpx2.DecodingError:
            raise EngineError(
                f"{host_of(url)}: sends an answer that cannot be decompressed; check the server"
            ) from None

    def _remove_key(self, body: bytes) -> bytes:
        """Return a server's text without the key, since an echoed key would be stored."""
        is_secret = self._key and len(self._key) >= MINIMUM_KEY_LENGTH
        return body.replace(self._key.encode(), b"[key]") if self._key and is_secret else body

    def without_key(self, text: str) -> str:
        """Return the text of a stream without the key."""
        return self._remove_key(text.encode(errors="surrogatepass")).decode(errors="replace")

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def _turn(self) -> float:
        """Return the seconds until this request may begin, so that no more begin in a second than are configured."""
        rate = self._settings.endpoint_requests_per_second
        if not rate:
            return 0.0
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next_start)
            self._next_start = start + 1 / rate
        return start - now

    def _body(self, response: httpx2.Response) -> bytes:
        """Read the body within the limits of time and length."""
        deadline = time.monotonic() + self._settings.endpoint_read_seconds
        body = b""
        for chunk in response.iter_bytes():
            body += chunk
            if time.monotonic() > deadline:
                raise _TryAgainError("does not finish its answer in time")
            if len(body) > MAX_BYTES:
                raise EngineError(
                    f"{host_of(str(response.url))}: sends an answer of more than {MAX_BYTES >> 20} MiB; check the "
                    "URL, or request fewer log-probabilities"
                )
        return body

    def _document(self, url: str, body: bytes) -> dict[str, Any]:
        try:
            document = decode_answer(body, HEAVIEST)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            beginning = self.clean(body[: 1 << 16].decode(errors="replace"))
            raise RefusedError(
                f"{host_of(url)}: does not answer with a JSON object ({beginning!r}); check that {url} is its URL"
            )
        return document

    def _refusal(self, url: str, response: httpx2.Response, body: bytes) -> Exception:
        status = response.status_code
        reason = self.clean(_reason(body)) or response.reason_phrase
        if _is_temporary(status):
            return self._later(f"answers {status} ({reason})", url, retry_after(response.headers))
        if response.is_redirect:
            target = self.clean(response.headers.get("location", "another address"))
            return RefusedError(
                f"{host_of(url)}: answers {status} and redirects to {target}; redirects are not followed: register "
                "the model at its final URL"
            )
        message = f"{host_of(url)}: answers {status} ({reason}){self._remedy(status, reason)}"
        return RefusedError(message, _code(body), of_all=_concerns_all(status))

    def _remedy(self, status: int, reason: str) -> str:
        """Return the remedy for a refusal, as the end of its message; an empty text if none is known."""
        if status in _REFUSED:
            kept = _where_kept(self.endpoint) or "it has none: give it key_env"
            return f"; check the key of endpoint {self.endpoint.name} ({kept})"
        if status == httpx2.codes.BAD_REQUEST and "logprobs" in reason and "max" in reason:
            return (
                "; lower SHUFFLEBOARD_ENDPOINT_TOP_LOGPROBS, or top_logprobs of the endpoint, or let the server list "
                "more (vLLM: --max-logprobs)"
            )
        return ""

    def _later(self, reason: str, url: str, wait_s: float | None) -> Exception:
        longest = self._settings.endpoint_wait_seconds
        if wait_s is not None and wait_s > longest:
            return EngineError(
                f"{host_of(url)}: {reason} and asks to wait {wait_s:.0f} s, longer than "
                f"SHUFFLEBOARD_ENDPOINT_WAIT_SECONDS={longest:g}; retry then, or send fewer requests at a time"
            )
        if wait_s is not None:
            self._pace.hold(wait_s)
        return _TryAgainError(reason, wait_s)


def most_in_flight(settings: Settings) -> int:
    """Return the most requests that may be open to an endpoint at once."""
    return max(settings.endpoint_in_flight, settings.endpoint_in_flight_limit)


def read_key(endpoint: Endpoint) -> str | None:
    """Return the key of an endpoint; None if it needs none.

    Raises ModelError, without quoting the key, if the key is missing or is not a valid header.
    """
    where = _where_kept(endpoint)
    if endpoint.key_env is not None:
        key = os.environ.get(endpoint.key_env, "")
    elif endpoint.key_file is not None:
        try:
            key = endpoint.key_file.expanduser().read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ModelError(f"endpoint {endpoint.name}: its {where} cannot be read ({error.strerror})") from None
    else:
        return None
    key = key.strip()
    if not key:
        raise ModelError(f"endpoint {endpoint.name}: its {where} is empty or missing here; set it for every worker")
    if any(not "!" <= character <= "~" for character in key):
        raise ModelError(f"endpoint {endpoint.name}: its {where} contains spaces or characters that keys cannot have")
    return key


def _where_kept(endpoint: Endpoint) -> str | None:
    """Return where an endpoint's key is configured, for messages, without the path of a file."""
    if endpoint.key_env is not None:
        return f"key_env {endpoint.key_env}"
    return None if endpoint.key_file is None else "key_file"


def _most_tokens(document: Mapping[str, Any]) -> int:
    """Return an upper bound of a request's tokens: its text, estimated generously, and the longest answer."""
    return len(json.dumps(document)) // CHARACTERS_PER_TOKEN + int(document.get("max_tokens", 0))


def _tokens_used(answered: Mapping[str, Any]) -> int | None:
    usage = answered.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) and total >= 0 else None


def _reason(body: bytes) -> str:
    """Return the reason from an error's body in OpenAI's, FastAPI's or llama.cpp's form, else the whole body."""
    text = body[: 1 << 16].decode(errors="replace")
    try:
        document = decode_answer(text.encode())
    except ValueError:
        return text
    return next((message for message in _find_messages(document) if isinstance(message, str) and message), text)


def _code(body: bytes) -> object:
    """Return the code of an error in OpenAI's form."""
    try:
        document = decode_answer(body[: 1 << 16])
    except ValueError:
        return None
    error = document.get("error") if isinstance(document, dict) else None
    return error.get("code") if isinstance(error, dict) else None


def _is_temporary(status: int) -> bool:
    return status in _TRY_AGAIN or status >= httpx2.codes.INTERNAL_SERVER_ERROR


def _concerns_all(status: int) -> bool:
    return status in _REFUSED or status == httpx2.codes.NOT_FOUND


def _status(document: Mapping[str, Any]) -> int | None:
    """Return the HTTP status that an error in a document states, as a number or by name; None if it states none."""
    error = document.get("error")
    stated = [part.get(name) for part in (error, document) if isinstance(part, dict) for name in _STATED]
    for value in stated:
        if isinstance(value, int) and not isinstance(value, bool) and value in range(400, 600):
            return value
        if isinstance(value, str) and re.fullmatch("[45][0-9][0-9]", value):
            return int(value)
    names = " ".join(value for value in stated if isinstance(value, str)).lower()
    return next((status for part, status in _NAMED.items() if part in names), None)


def _find_messages(document: Any) -> Iterator[Any]:
    if isinstance(document, dict):
        error = document.get("error")
        if isinstance(error, dict):
            yield error.get("message")
        yield from (error, document.get("message"), document.get("detail"))
