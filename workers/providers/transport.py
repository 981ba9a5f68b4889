"""The connection for the providers' libraries: to one endpoint, with its key, without retries and within a time limit.

The libraries would retry by themselves, follow redirects, read other keys from the environment, and wait without end
for an answer that arrives slowly.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx2

from registry.revisions.endpoints import Endpoint, is_loopback
from registry.settings import Settings
from registry.untrusted import decode_answer
from workers.endpoint.client import MAX_BYTES
from workers.providers.answers import RefusedRequestError

KEY_HEADERS: Final = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
LONGEST_BODY_SHOWN: Final = 1 << 16
Heed = Callable[[Mapping[str, str]], None]


class OneEndpoint(httpx2.BaseTransport):
    """Sends requests to one endpoint; raises RefusedRequestError for every response that is not an answer."""

    def __init__(self, endpoint: Endpoint, key: str | None, settings: Settings, heed: Heed | None) -> None:
        self._endpoint = endpoint
        self._heed = heed
        self._key = key
        self._read_s = settings.endpoint_read_seconds
        self._inner = httpx2.Client(
            limits=httpx2.Limits(max_connections=settings.endpoint_in_flight),
            # A redirect could lead away from the host that the key is bound to.
            follow_redirects=False,
            # A proxy from the environment is for other machines.
            trust_env=not is_loopback(endpoint.url_prefix),
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Make one attempt."""
        assert self._endpoint.covers(str(request.url.copy_with(query=None)).rstrip("/")), "a URL outside the endpoint"
        for name in KEY_HEADERS:
            if name in request.headers and (self._key is None or self._key not in request.headers[name]):
                del request.headers[name]
        deadline = time.monotonic() + self._read_s
        try:
            response = self._inner.send(request, stream=True)
            body = b""
            try:
                for chunk in response.iter_raw():
                    body += chunk
                    if time.monotonic() > deadline:
                        raise RefusedRequestError("does not finish its answer in time")
                    if len(body) > MAX_BYTES:
                        raise RefusedRequestError(f"sends an answer of more than {MAX_BYTES >> 20} MiB", 400)
            finally:
                response.close()
        except httpx2.TimeoutException as error:
            raise RefusedRequestError(f"does not answer in time ({type(error).__name__})") from None
        except httpx2.TransportError as error:
            raise RefusedRequestError(f"cannot be reached ({type(error).__name__}: {error})") from None
        if self._key is not None:
            body = body.replace(self._key.encode(), b"[key]")
        complete = httpx2.Response(
            response.status_code, headers=response.headers, stream=httpx2.ByteStream(body), request=request
        )
        if not complete.is_success:
            raise _refusal(complete)
        if self._heed is not None:
            self._heed(dict(complete.headers))
        return complete

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


def _refusal(response: httpx2.Response) -> RefusedRequestError:
    try:
        response.read()
        document = decode_answer(response.content)
    except (httpx2.DecodingError, ValueError):
        document = None
    message = (
        response.content[:LONGEST_BODY_SHOWN].decode(errors="replace") if document is None else message_of(document)
    )
    return RefusedRequestError(
        message or response.reason_phrase, response.status_code, dict(response.headers), document
    )


def message_of(document: Any) -> str:
    """Return the message in an error's body."""
    content = document[0] if isinstance(document, list) and document else document
    if not isinstance(content, Mapping):
        return str(content)
    error = content.get("error", content)
    if isinstance(error, Mapping):
        error = error.get("message") or error
    return str(error)


def connect(endpoint: Endpoint, key: str | None, settings: Settings, heed: Heed | None = None) -> httpx2.Client:
    """Return a client of one endpoint for a library. heed: receives the headers of every answer."""
    read_s = settings.endpoint_read_seconds
    return httpx2.Client(
        transport=OneEndpoint(endpoint, key, settings, heed),
        timeout=httpx2.Timeout(connect=settings.endpoint_connect_seconds, read=read_s, write=read_s, pool=None),
        follow_redirects=False,
    )
