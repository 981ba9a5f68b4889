"""Calls of the hub's client that always end, even if the hub is silent, slow, busy or redirects endlessly.

The client waits without limit for some answers, retries for minutes in silence, and reads answers of any size into
memory. So each call runs in a thread, hooks on its requests count the bytes received, and the caller gives up if too
few or too many arrive.
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
"""A call is given up after this many times HF_HUB_DOWNLOAD_TIMEOUT with less than SLOWEST bytes a second."""
SLOWEST: Final = 1024
"""Slowest accepted download, in bytes per second."""
MOST_REQUESTS: Final = 60
"""Most requests of one call, which follows redirects and resumes downloads."""
DOCUMENT: Final = 64 << 20
"""Most bytes of a document; that of a repository with a hundred thousand files has half as many."""
DOCUMENT_MEMORY: Final = 384 << 20
"""Most bytes of memory for a parsed document."""
_TICK: Final = 0.1

T = TypeVar("T")

_tell: Callable[[str], None] | None = None


def tell_to(tell: Callable[[str], None] | None) -> None:
    """Set the function that prints messages about waiting, such as a command's stderr; None: write them to the log."""
    global _tell  # noqa: PLW0603
    _tell = tell


def say(message: str) -> None:
    """Report why a call is waiting."""
    if _tell is None:
        log.info("hub", message=message)
    else:
        _tell(message)


class HubError(Exception):
    """A failure of the hub that retries by the client would not fix; the message names it."""


class RefusedError(HubError):
    """The hub answered with a status of PASSING. wait: seconds that it requests; None if it requests none."""

    def __init__(self, status: int, wait: float | None) -> None:
        super().__init__(f"the hub answered with status {status}")
        self.status, self.wait = status, wait


@dataclass
class _Call:
    """The state of a call, which its hooks update.

    named: its name in messages. patience: HF_HUB_DOWNLOAD_TIMEOUT, in seconds. most: bytes that it may receive.
    waiting: start and host of the request whose answer is awaited; None if there is none.
    """

    named: str
    patience: float
    most: int
    requests: int = 0
    received: int = 0
    waiting: tuple[float, str] | None = None
    abandoned: bool = False
    done: threading.Event = field(default_factory=threading.Event)


_current = threading.local()
_hook_lock = threading.Lock()
_is_hooked = False


def attend(named: str, ask: Callable[[], T], most: int = DOCUMENT) -> T:
    """Run `ask`, a call of the hub's client, and return its result or raise its error.

    named: the call's name in messages. most: bytes that it may receive.
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
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
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
    """Wait until the call is done. Raises HubError if too little arrived for too long."""
    window = WINDOWS * call.patience
    silent, received, last = 0.0, 0, time.monotonic()
    reported = False
    while not call.done.wait(_TICK):
        now = time.monotonic()
        # Only time with a pending request counts: the client may wait for another process that downloads the same file.
        waiting = call.waiting
        silent += now - last if waiting is not None else 0.0
        last = now
        if call.received - received >= SLOWEST * max(silent, 1.0):
            silent, received, reported = 0.0, call.received, False
        host = "the hub" if waiting is None else waiting[1]
        if silent >= call.patience and not reported:
            reported = True
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
    with _hook_lock:
        if _is_hooked:
            return
        import httpx2
        from huggingface_hub import constants, get_session, set_client_factory

        hub_hooks = get_session().event_hooks["request"]

        def client() -> httpx2.Client:
            return httpx2.Client(
                event_hooks={"request": [*hub_hooks, _check_request], "response": [_check_response]},
                follow_redirects=True,
                timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
            )

        set_client_factory(client)
        # For its user agent the client caches a list from the hub for a day; if the list is broken, every call of that
        # day fails.
        constants.HF_HUB_DISABLE_TELEMETRY = True
        _is_hooked = True


def _check_request(request: "httpx2.Request") -> None:
    """Count a request against its call and give it a time-out, so that no call goes on forever."""
    call: _Call | None = getattr(_current, "call", None)
    if call is None:
        return
    if call.abandoned:
        raise HubError("given up")
    call.requests += 1
    if call.requests > MOST_REQUESTS:
        raise HubError(f"{request.url.host} redirects or breaks off without end ({MOST_REQUESTS} requests)")
    request.headers["Accept-Encoding"] = "identity"  # a small compressed answer could unpack to any size
    request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), call.patience)
    call.waiting = (time.monotonic(), request.url.netloc.decode("ascii", "replace"))


def _check_response(response: "httpx2.Response") -> None:
    """Check the headers of an answer, and count its bytes while they are read."""
    call: _Call | None = getattr(_current, "call", None)
    if call is None:
        return
    if response.status_code in PASSING:
        call.waiting = None
        retry_after = response.headers.get("Retry-After", "")
        raise RefusedError(
            response.status_code, float(retry_after) if retry_after.isascii() and retry_after.isdigit() else None
        )
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

    def check_document(parts: Iterator[bytes]) -> Iterator[bytes]:
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
            return check_document(self._parts()) if is_document else self._parts()

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
