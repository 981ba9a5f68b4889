"""Connect to the Redis broker of the settings, and report problems with its URL.

`rediss://…` means Redis over TLS. A parameter that redis-py and kombu share gives the certificate authority:
`?ssl_cert_reqs=required&ssl_ca_certs=/etc/ssl/redis-ca.pem`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from registry.errors import UsageError
from registry.settings import Settings

if TYPE_CHECKING:  # only a registry with a broker needs redis-py
    from redis import Redis

SOCKET_SECONDS: Final = 2.0
"""Timeout of connections and commands; hints that get lost are sent later by the reconciler."""

BROKER_OPTIONS: Final = {"socket_timeout": SOCKET_SECONDS, "socket_connect_timeout": SOCKET_SECONDS}


def split_url(url: str) -> SplitResult:
    """Split and validate a Redis URL.

    Raises UsageError if it is invalid. The message leaves out everything after the scheme, since a password with an
    unencoded `/`, `#` or `?` ends up in the host, the port, the path or the options.
    """
    scheme = _scheme(url)
    if "sentinel" in scheme:
        raise UsageError(
            f"SHUFFLEBOARD_BROKER_URL: {scheme}://…: Sentinels are not supported; write redis://host:6379/0 with an "
            "address that always leads to the primary, such as HAProxy with a check of its role, or a Kubernetes "
            "Service"
        )
    try:
        parts = urlsplit(url)
        is_redis = (
            parts.scheme in ("redis", "rediss")
            and bool(parts.hostname)
            and parts.port != 0
            and re.fullmatch(r"(/\d*)?", parts.path) is not None
            and not parts.fragment
            and "@" not in parts.query
            and re.search(r"\s", url) is None
            and bool(parse_qs(parts.query, strict_parsing=True) or not parts.query)
        )
    except ValueError:
        is_redis = False
    if not is_redis:
        raise UsageError(
            f"SHUFFLEBOARD_BROKER_URL: {scheme}://… is not a Redis URL; write redis://:PASSWORD@host:6379/0, or "
            "rediss:// for TLS, and percent-encode the password: / is %2F, # is %23, ? is %3F, @ is %40"
        )
    return parts


def _scheme(url: str) -> str:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]{0,30})://", url)
    return match[1].lower() if match else "…"


def broker_shown(settings: Settings) -> str:
    """Return the broker's URL for messages, without password and options."""
    try:
        parts = split_url(settings.broker_url)
    except UsageError:
        return f"{_scheme(settings.broker_url)}://…"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def broker_address(settings: Settings) -> str:
    """Return the broker's URL for Celery; empty if there is no broker.

    For `rediss://` the URL requires a certificate check unless it states otherwise: by default kombu would check
    nothing, and send the password to any server. Raises UsageError for an invalid URL.
    """
    url = settings.broker_url
    if not url:
        return ""
    parts = split_url(url)
    if parts.scheme != "rediss" or "ssl_cert_reqs" in parse_qs(parts.query):
        return url
    return f"{url}{'&' if parts.query else '?'}ssl_cert_reqs=required"


def configuration(settings: Settings, patience: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    """Return the configuration of a Celery application on the broker: JSON messages only, no stored results.

    patience: transport options that limit how long it retries. own: further Celery settings. Raises UsageError for an
    invalid URL.
    """
    return {
        "broker_url": broker_address(settings) or None,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "broker_transport_options": {**BROKER_OPTIONS, **patience},
        **own,
    }


def open_broker(settings: Settings) -> "Redis":
    """Return a Redis client that has not connected yet.

    Raises UsageError if the URL is invalid or a file in it is missing.
    """
    from redis import Redis

    options = parse_qs(split_url(settings.broker_url).query)
    for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        for path in options.get(name, ()):
            if not Path(path).is_file():
                raise UsageError(f"SHUFFLEBOARD_BROKER_URL: {name}={path}: no such file; correct the path")
    try:
        return Redis.from_url(broker_address(settings), **BROKER_OPTIONS)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"SHUFFLEBOARD_BROKER_URL: {broker_shown(settings)}: its options are invalid ({error}); correct what "
            "follows the question mark"
        ) from None


def require_admission(settings: Settings) -> None:
    """Raise UsageError with a one-line message if the broker's password or certificate is wrong.

    A broker that is down is not an error, since it may come back.
    """
    from redis.exceptions import AuthenticationError, RedisError

    client = open_broker(settings)
    try:
        client.ping()
    except AuthenticationError as error:
        raise UsageError(
            f"{broker_shown(settings)} refuses the password ({_one_line(error)}); correct SHUFFLEBOARD_BROKER_URL"
        ) from None
    except (RedisError, OSError) as error:
        if "certificate" in str(error).lower():
            raise UsageError(
                f"{broker_shown(settings)} has an invalid certificate ({_one_line(error)}); give the file "
                "of the authority that signed it: SHUFFLEBOARD_BROKER_URL=rediss://…?ssl_ca_certs=FILE"
            ) from None
    finally:
        client.close()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
