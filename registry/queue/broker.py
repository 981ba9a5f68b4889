"""Redis, as the settings name it: the one place that opens it and reports problems with its URL.

A URL `rediss://…` is Redis over TLS. The URL says what its certificate is checked against, in parameters that redis-py
and kombu share: `?ssl_cert_reqs=required&ssl_ca_certs=/etc/ssl/redis-ca.pem`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from registry.errors import UsageError
from registry.settings import Settings

if TYPE_CHECKING:  # what needs no broker does without it
    from redis import Redis

SOCKET_SECONDS: Final = 2.0
"""How long a submission waits for a broker that is down; the reconciler sends the hint later."""

BROKER_OPTIONS: Final = {"socket_timeout": SOCKET_SECONDS, "socket_connect_timeout": SOCKET_SECONDS}


def broker_shown(settings: Settings) -> str:
    """The broker as messages name it: without password and options."""
    parts = urlsplit(settings.broker_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def broker_address(settings: Settings) -> str:
    """The URL as Celery is given it: by default a certificate is checked.

    Otherwise kombu would check none, and send the password to any server.
    """
    url = settings.broker_url
    parts = urlsplit(url)
    if parts.scheme != "rediss" or "ssl_cert_reqs" in parse_qs(parts.query):
        return url
    return f"{url}{'&' if parts.query else '?'}ssl_cert_reqs=required"


def configuration(settings: Settings, patience: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    """What a Celery application on the broker is told, besides its own: JSON alone, no results.

    patience: how long the transport tries what fails.
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
    """A client that has not connected yet. Raises UsageError for an invalid URL, or one that names a missing file."""
    from redis import Redis

    for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        for path in parse_qs(urlsplit(settings.broker_url).query).get(name, ()):
            if not Path(path).is_file():
                raise UsageError(f"SHUFFLEBOARD_BROKER_URL: {name}={path}: no such file; correct the path")
    try:
        return Redis.from_url(broker_address(settings), **BROKER_OPTIONS)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"SHUFFLEBOARD_BROKER_URL: {broker_shown(settings)} is not a Redis URL ({error}); write "
            "redis://host:6379/0, or rediss:// for TLS"
        ) from None


def require_admission(settings: Settings) -> None:
    """Raises UsageError, on one line, for a broker that will never let this process in as it is set up.

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
