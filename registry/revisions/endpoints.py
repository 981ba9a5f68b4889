"""Endpoints: the servers that may serve models, and the limits of their answers.

A deployment lists them in a TOML file that SHUFFLEBOARD_ENDPOINTS names, one table for each:

    [local]
    url_prefix = "http://127.0.0.1:8000/v1"

    [hosted]
    url_prefix = "https://api.example.org/v1"
    key_env = "EXAMPLE_API_KEY"

The location of a model of kind `openai` must belong to one of them. The registry stores an endpoint's name and URL but
never its key: only a worker reads the key, and sends it only to URLs of that endpoint.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from registry.errors import IngestError, ModelError, UsageError
from registry.files.toml import read_toml
from registry.names import check_name, list_first
from registry.settings import Settings

BATCH_PROVIDERS: Final = ("openai", "anthropic")
"""Providers whose batch service is supported."""
_PORTS: Final = {"http": 80, "https": 443}
_AMBIGUOUS: Final = frozenset('%\\"<>^`{|}')
"""Characters that servers and proxies read differently, so that a prefix with them would be ambiguous."""


class Endpoint(BaseModel):
    """An endpoint, as one table of the file describes it.

    url_prefix: scheme, host, port and beginning of the path; a location below it belongs to this endpoint. key_env,
    key_file: the environment variable or file with the key, if there is one. allow_http: allow plain HTTP to other
    machines. top_logprobs: number of log-probabilities to request, instead of the setting's. openai_parameters_only:
    leave out parameters that OpenAI's own service refuses: top_k, min_p, and requests for chosen tokens.
    requests_per_minute, tokens_per_minute: limits of its key, over all workers; None: no limit. provider: the provider
    whose own library is used, for written answers alone. reasoning_models: names, or patterns such as o3*, of models
    that think before they answer; reasoning_tokens: tokens that they may use in addition to the protocol's;
    adaptive_thinking: names or patterns of reasoning models that decide themselves how long to think (Anthropic's).
    batch: use the provider's batch service, which is cheaper and answers within a day.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    url_prefix: str
    key_env: str | None = None
    key_file: Path | None = None
    allow_http: bool = False
    top_logprobs: int | None = Field(None, ge=1)
    openai_parameters_only: bool = False
    requests_per_minute: int | None = Field(None, ge=1)
    tokens_per_minute: int | None = Field(None, ge=1)
    provider: Literal["openai", "azure", "openrouter", "anthropic"] | None = None
    reasoning_models: tuple[str, ...] = ()
    reasoning_tokens: int = Field(16_384, ge=1024)
    adaptive_thinking: tuple[str, ...] = ()
    batch: bool = False

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.key_env is not None and self.key_file is not None:
            message = "has both key_env and key_file; keep one"
            raise ValueError(message)
        if self.batch and self.provider not in BATCH_PROVIDERS:
            message = f"batch = true needs provider = {' or '.join(BATCH_PROVIDERS)}; remove it"
            raise ValueError(message)
        return self

    def limits_key(self) -> str:
        """Return the key of its rate limits: the source of its API key, or the endpoint if it has none."""
        if self.key_env is not None:
            return f"env:{self.key_env}"
        return f"endpoint:{self.name}" if self.key_file is None else f"file:{self.key_file}"

    def thinking_tokens(self, model: str) -> int | None:
        """Return the number of tokens that a model may use to think; None if it is not a reasoning model."""
        reasons = any(fnmatchcase(model, pattern) for pattern in self.reasoning_models)
        return self.reasoning_tokens if reasons else None

    def thinks_adaptively(self, model: str) -> bool:
        """Return whether a reasoning model decides by itself how much it thinks."""
        return any(fnmatchcase(model, pattern) for pattern in self.adaptive_thinking)

    def covers(self, url: str) -> bool:
        """Return whether a canonical URL is the prefix or lies below it; whole path segments count."""
        return url == self.url_prefix or url.startswith(self.url_prefix + "/")


def load_endpoints(path: str) -> dict[str, Endpoint]:
    """Return the endpoints of a file, by name; empty if no file is named.

    Raises UsageError that names the file, the table and the problem, and never a value: it may be a key.
    """
    if not path:
        return {}
    file = Path(path).expanduser()
    try:
        tables = read_toml(file)
    except IngestError as error:  # its message has a line number and no content
        raise UsageError(f"SHUFFLEBOARD_ENDPOINTS: {error}") from None
    endpoints = {name: _parse_endpoint(name, table, path) for name, table in tables.items()}
    owners: dict[str, str] = {}
    for name, endpoint in endpoints.items():
        other = owners.setdefault(endpoint.url_prefix, name)
        if other != name:
            raise UsageError(
                f"SHUFFLEBOARD_ENDPOINTS={path}: {other} and {name} have the same url_prefix, so it is ambiguous "
                "which key to send; keep one"
            )
    return endpoints


def _parse_endpoint(name: str, table: Any, path: str) -> Endpoint:
    where = f"SHUFFLEBOARD_ENDPOINTS={path}, [{name}]"
    check_name("endpoint", name)
    if not isinstance(table, dict):
        raise UsageError(f"{where}: is not a table; write each endpoint as a table with a url_prefix")
    if "key" in table:
        raise UsageError(f"{where}: a key does not belong in this file; give key_env or key_file instead of key")
    try:
        endpoint = Endpoint(name=name, **{key: value for key, value in table.items() if key != "name"})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        entry = ".".join(map(str, first["loc"]))
        raise UsageError(f"{where}: {f'{entry}: ' if entry else ''}{first['msg']}; correct the file") from None
    try:
        prefix = canonical_url(endpoint.url_prefix)
    except ModelError as error:
        raise UsageError(f"{where}: url_prefix {error}") from None
    return endpoint.model_copy(update={"url_prefix": prefix})


def canonical_url(url: str) -> str:
    """Return a URL in the single form for storing and comparing: lower-case host, no default port, no slash at the end.

    Raises ModelError for anything but http and https, and for user names, queries, fragments, escapes and dots in the
    path, with which one URL could pass for another.
    """
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.lower() not in _PORTS:
        raise ModelError(f"{scheme.split(':')[0][:20]!r}: not an http or https URL; give one such as https://host/v1")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ModelError("not a valid URL; give one such as https://host/v1") from None
    # Until these are ruled out the URL may contain a secret, so it is not shown.
    if "@" in parts.netloc:
        raise ModelError(f"URL on {parts.hostname}: contains a user name or password; use a named key instead")
    if "?" in url or "#" in url:
        raise ModelError(f"URL on {parts.hostname}: has a query or fragment; leave out what follows ? or #")
    if not parts.hostname or any(not "!" <= character <= "~" or character in _AMBIGUOUS for character in url):
        raise ModelError(f"{url!r}: has no host, or characters that a URL cannot have; correct it")
    path = parts.path.rstrip("/")
    if any(segment in ("", ".", "..") for segment in path.split("/")[1:]):
        raise ModelError(f"{url}: has empty segments or dots in its path; remove them")
    return f"{parts.scheme}://{_format_host(parts, port)}{path}"


def _format_host(parts: SplitResult, port: int | None) -> str:
    host = str(parts.hostname)
    shown = f"[{host}]" if ":" in host else host
    return shown if port in (None, _PORTS[parts.scheme]) else f"{shown}:{port}"


def host_of(url: str) -> str:
    """Return the host of an address for messages and fingerprints, with a port other than the default."""
    return urlsplit(url).netloc


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_endpoint(endpoints: Mapping[str, Endpoint], location: str, reference: str | None = None) -> Endpoint:
    """Return the endpoint of a canonical location: the one with the longest prefix.

    reference: its expected name. Raises ModelError if no endpoint or another one covers the location, and for plain
    HTTP to another machine.
    """
    covering = [endpoint for endpoint in endpoints.values() if endpoint.covers(location)]
    if not covering:
        raise ModelError(
            f"{location}: is not on an endpoint of this deployment; add a table with "
            f'url_prefix = "{location}" to the file that SHUFFLEBOARD_ENDPOINTS names, for every process; known: '
            f"{list_first(sorted(endpoints)) or 'none'}"
        )
    closest = max(covering, key=lambda endpoint: len(endpoint.url_prefix))
    if reference is not None and reference != closest.name:
        known = "is not in the file" if reference not in endpoints else f"is for {endpoints[reference].url_prefix}"
        raise ModelError(
            f"key {reference!r} {known}; {location} belongs to endpoint {closest.name}: give its name, or none"
        )
    if location.startswith("http:") and not (is_loopback(location) or closest.allow_http):
        raise ModelError(
            f"{location}: is plain HTTP, which exposes prompts and keys to the network; use https, or set "
            f"allow_http = true for endpoint {closest.name}"
        )
    return closest


def endpoint_of(location: str, settings: Settings) -> Endpoint | None:
    """Return the endpoint of a stored location; None if this process knows none for it."""
    try:
        return find_endpoint(load_endpoints(settings.endpoints), location)
    except ModelError:
        return None


def provider_of(location: str, settings: Settings) -> str | None:
    """Return the provider of a stored location; None if its endpoint names none, or is unknown to this process."""
    endpoint = endpoint_of(location, settings)
    return None if endpoint is None else endpoint.provider


def choose_from_partial(logprobs: Sequence[float | None]) -> tuple[int | None, bool]:
    """Return the most probable position, None if unknown, and whether all log-probabilities are known.

    logprobs: by position; None if a label is not among the most probable tokens that an endpoint lists. Such a label is
    no more probable than any listed one, so the highest known value decides; on a tie, the lowest position.
    """
    known = [(value, position) for position, value in enumerate(logprobs) if value is not None]
    if not known:
        return None, False
    highest = max(value for value, _ in known)
    return min(position for value, position in known if value == highest), len(known) == len(logprobs)
