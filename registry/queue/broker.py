"""Open Redis as the settings name it, and report problems with its URL.

A URL `rediss://…` is Redis over TLS. Its parameters, which redis-py and kombu share, name the certificate authority:
`?ssl_cert_reqs=required&ssl_ca_certs=/etc/ssl/redis-ca.pem`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from registry.errors import UsageError
from registry.settings import Settings

if TYPE_CHECKING:  # code without a broker runs without redis-py
    from redis import Redis

SOCKET_SECONDS: Final = 2.0
"""How long a submission waits for a broker that is down; the reconciler sends the hint later."""

BROKER_OPTIONS: Final = {"socket_timeout": SOCKET_SECONDS, "socket_connect_timeout": SOCKET_SECONDS}


def split_url(url: str) -> SplitResult:
    """Split the URL of a Redis.

    Raises UsageError for any other URL. Its message repeats nothing after the scheme, since a password with an
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
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]{0,30})://", url)
    return found[1].lower() if found else "…"


def broker_shown(settings: Settings) -> str:
    """Return the broker as messages name it: without password and options."""
    try:
        parts = split_url(settings.broker_url)
    except UsageError:
        return f"{_scheme(settings.broker_url)}://…"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def broker_address(settings: Settings) -> str:
    """Return the URL as Celery is given it: by default a certificate is checked. Empty if there is no broker.

    Otherwise kombu would check none, and send the password to any server. Raises UsageError for an invalid URL.
    """
    url = settings.broker_url
    if not url:
        return ""
    parts = split_url(url)
    if parts.scheme != "rediss" or "ssl_cert_reqs" in parse_qs(parts.query):
        return url
    return f"{url}{'&' if parts.query else '?'}ssl_cert_reqs=required"


def configuration(settings: Settings, patience: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    """Return the configuration of a Celery application on the broker, extended by `own`: JSON only, no results.

    patience: options of the transport that limit how long it retries. Raises UsageError for an invalid URL.
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
    """Return a client that has not connected yet. Raises UsageError for an invalid URL or a missing file in it."""
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
    """Raise UsageError, on one line, if the broker will never let this process in with these settings.

    That is a wrong password, or an invalid certificate. A broker that is down is not an error: it may come back.
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
