"""Calls of the hub's client that always end: when nothing arrives, in a trickle, in refusals or endless redirects.

The client waits without limit for some answers, retries for minutes in silence, and reads answers of any size into
memory. So each call runs in a thread, hooks on its requests count the bytes received, and the caller gives up on too
few or too many.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from registry.process_log import log
from registry.untrusted import TooDeepError, TooHeavyError, decode_answer

if TYPE_CHECKING:
    import httpx2

PASSING: Final = (408, 429, 500, 502, 503, 504)
"""Statuses after which a request is repeated."""
WINDOWS: Final = 3
"""A call is given up after so many times HF_HUB_DOWNLOAD_TIMEOUT in which less than SLOWEST came."""
SLOWEST: Final = 1024
"""Bytes a second."""
MOST_REQUESTS: Final = 60
"""Of one call: the client follows redirects and resumes, and does neither forever."""
DOCUMENT: Final = 64 << 20
"""Bytes of a document: a repository of a hundred thousand files has half as many."""
DOCUMENT_MEMORY: Final = 384 << 20
"""Bytes that it may take once it is read."""
_TICK: Final = 0.1

T = TypeVar("T")

_tell: Callable[[str], None] | None = None


def tell_to(tell: Callable[[str], None] | None) -> None:
    """Set the receiver of lines about waiting: a command's stderr; None: the log."""
    global _tell  # noqa: PLW0603
    _tell = tell


def say(message: str) -> None:
    """Report the reason for waiting."""
    if _tell is None:
        log.info("hub", message=message)
    else:
        _tell(message)


class HubError(Exception):
    """A failure of the hub that retries by the client would not fix; the text names it."""


class RefusedError(HubError):
    """A status of PASSING. wait: seconds that the hub requests; None if it gives none."""

    def __init__(self, status: int, wait: float | None) -> None:
        super().__init__(f"the hub answered with status {status}")
        self.status, self.wait = status, wait


@dataclass
class _Call:
    """The state of a call for its hooks. most: bytes that it may receive. waiting: since when, and for whose answer."""

    named: str
    patience: float
    most: int
    requests: int = 0
    received: int = 0
    waiting: tuple[float, str] | None = None
    abandoned: bool = False
    done: threading.Event = field(default_factory=threading.Event)


_current = threading.local()
_hooked = threading.Lock()
_is_hooked = False


def attend(named: str, ask: Callable[[], T], most: int = DOCUMENT) -> T:
    """Return or raise the outcome of `ask`, a call of the hub's client.

    named: its name in lines and errors. most: bytes that it may receive.
    Raises HubError if the hub is silent, too slow, refuses for now, redirects in a loop, sends too much, or returns a
    web page in place of a document.
    """
    from huggingface_hub import constants

    _hook_client()
    call = _Call(named, float(constants.HF_HUB_DOWNLOAD_TIMEOUT), most)
    outcome: list[Any] = []

    def run() -> None:
        _current.call = call
        try:
            outcome.append((ask(), None))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            outcome.append((None, error))
        finally:
            call.done.set()

    threading.Thread(target=run, name="hub", daemon=True).start()
    try:
        _watch(call)
    finally:
        call.abandoned = True
    value, error = outcome[0]
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]


def _watch(call: _Call) -> None:
    """Return when the call is done. Raises HubError if too little arrived for too long."""
    window = WINDOWS * call.patience
    silent, received, last = 0.0, 0, time.monotonic()
    told = False
    while not call.done.wait(_TICK):
        now = time.monotonic()
        # A wait for another process that downloads the same file is no fault of the hub's.
        waiting = call.waiting
        silent += now - last if waiting is not None else 0.0
        last = now
        if call.received - received >= SLOWEST * max(silent, 1.0):
            silent, received, told = 0.0, call.received, False
        host = "the hub" if waiting is None else waiting[1]
        if silent >= call.patience and not told:
            told = True
            what = f"only {call.received - received} bytes" if call.received > received else "nothing"
            say(f"{call.named}: waiting for {host}, which has sent {what} for {silent:.0f} s")
        if silent >= window:
            got = call.received - received
            raise HubError(
                f"{host} sent {f'only {got} bytes' if got else 'nothing'} in {silent:.0f} s (if it is slow, set "
                "HF_HUB_DOWNLOAD_TIMEOUT to more seconds)"
            )


def _hook_client() -> None:
    """Add the hooks to every HTTP client that the hub's library makes, after its own."""
    global _is_hooked  # noqa: PLW0603
    with _hooked:
        if _is_hooked:
            return
        import httpx2
        from huggingface_hub import constants, get_session, set_client_factory

        theirs = get_session().event_hooks["request"]

        def client() -> httpx2.Client:
            return httpx2.Client(
                event_hooks={"request": [*theirs, _check_request], "response": [_check_response]},
                follow_redirects=True,
                timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
            )

        set_client_factory(client)
        # To name the program that runs it, the client keeps a list of the hub's in a file for a day. A list that is
        # not one breaks every call of that day.
        constants.HF_HUB_DISABLE_TELEMETRY = True
        _is_hooked = True


def _check_request(request: "httpx2.Request") -> None:
    """Count a request against its call, and give it a time-out, so that no call goes on forever."""
    call: _Call | None = getattr(_current, "call", None)
    if call is None:
        return
    if call.abandoned:
        raise HubError("given up")
    call.requests += 1
    if call.requests > MOST_REQUESTS:
        raise HubError(f"{request.url.host} redirects or breaks off without end ({MOST_REQUESTS} requests)")
    request.headers["Accept-Encoding"] = "identity"  # a little may unpack to anything
    request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), call.patience)
    call.waiting = (time.monotonic(), request.url.netloc.decode("ascii", "replace"))


def _check_response(response: "httpx2.Response") -> None:
    """Count the bytes of an answer and report its problems, called after its headers."""
    call: _Call | None = getattr(_current, "call", None)
    if call is None:
        return
    if response.status_code in PASSING:
        call.waiting = None
        asked = response.headers.get("Retry-After", "")
        raise RefusedError(response.status_code, float(asked) if asked.isascii() and asked.isdigit() else None)
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    host, is_document = response.request.url.host, response.is_success and "/api/" in response.request.url.path
    if is_document and kind == "text/html":
        raise HubError(f"{host} answers with a web page (text/html) instead of JSON")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise HubError(f"{host} sends a packed answer, which was not asked for")
    if response.request.method == "HEAD" or response.is_redirect:
        call.waiting = None
        return
    response.stream = _count_stream(response.stream, call, host, is_document=is_document)


def _count_stream(stream: Any, call: _Call, host: str, *, is_document: bool) -> Any:
    import httpx2

    def weigh(parts: Iterator[bytes]) -> Iterator[bytes]:
        content = b"".join(parts)
        try:
            decode_answer(content, DOCUMENT_MEMORY)
        except (TooDeepError, TooHeavyError) as error:
            raise HubError(f"{host} sends a document that is refused: {error}") from None
        except ValueError:
            pass  # the client raises an error about it
        yield content

    class Counted(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return weigh(self._parts()) if is_document else self._parts()

        def _parts(self) -> Iterator[bytes]:
            try:
                for part in stream:
                    if call.abandoned:
                        raise HubError("given up")
                    call.received += len(part)
                    if call.received > call.most:
                        raise HubError(f"{host} sends without end (more than {call.most:,} bytes)")
                    yield part
            finally:
                call.waiting = None

        def close(self) -> None:
            call.waiting = None
            stream.close()

    return Counted()
