"""Slows down guessing of passwords, by name and address together, without locking anyone else out.

After some wrong passwords for a name from an address, each further one is followed by a wait, twice as long as the one
before, during which that address is refused for that name. After many wrong passwords for a name from anywhere, every
address has to wait from which the account has not signed in lately: guessing from a thousand addresses is slowed down,
and signing in from a usual place is not. Counts are in Redis if there is a broker, else in each process.
"""

import ipaddress
import re
import time
from typing import Final

from flask import current_app
from flask_limiter import Limiter
from limits.storage import Storage
from sqlalchemy.orm import Session

from registry.people import accounts

FREE: Final = 10
"""Wrong passwords for a name from an address before the first wait."""
FREE_WHERE_KNOWN: Final = 100
"""The same from an address that the account has signed in from, since most wrong passwords there are typing errors."""
FREE_FROM_ANYWHERE: Final = 100
"""Wrong passwords for a name from all addresses, within an hour, before unknown addresses have to wait."""
REMEMBERED_S: Final = 24 * 3600
HOUR_S: Final = 3600
FIRST_WAIT_S: Final = 30
LONGEST_WAIT_S: Final = 3600
KNOWN_DAYS: Final = 90
"""Days for which an address is known after the account signed in from it."""


_WITH_PORT: Final = re.compile(r"\[([^\]]*)\](?::\d+)?|([\d.]+):\d+")
"""Matches an address as some proxies forward it: with the port of the connection, IPv6 in brackets."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def network(address: str | None) -> str:
    """Return the network that an address is counted under: itself, or for IPv6 the /64 network of one subscriber.

    An IPv6 address that represents an IPv4 address, directly or through a tunnel, counts as the IPv4 address.
    """
    with_port = _WITH_PORT.fullmatch(address or "")
    text = (with_port[1] or with_port[2]) if with_port else address or ""
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    inner = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo or (None, None))[1]
    if parsed in _NAT64:
        inner = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
    return str(inner or ipaddress.ip_network((parsed, 64), strict=False))


def is_known(session: Session, name: str, address: str | None) -> bool:
    """Return whether the account with that name lately signed in from the address, or from its network."""
    used = accounts.signed_in_from(session, name, KNOWN_DAYS)
    return network(address) in map(network, used)


def wait_s(name: str, address: str | None, *, known: bool) -> int:
    """Return the seconds until the address may try the name again; 0 if it may try now."""
    storage = _storage()
    if storage is None:
        return 0
    pair = _key(name, address)
    if known and storage.get(pair) < FREE_WHERE_KNOWN:
        return 0
    waits = [f"{pair}:wait"] if known else [f"{pair}:wait", f"{_key(name)}:wait"]
    left = [storage.get_expiry(wait) - time.time() for wait in waits if storage.get(wait)]
    return max(1, round(max(left))) if left else 0


def count_wrong(name: str, address: str | None) -> None:
    """Count a wrong password."""
    storage = _storage()
    if storage is None:
        return
    for key, free, seconds in (
        (_key(name, address), FREE, REMEMBERED_S),
        (_key(name), FREE_FROM_ANYWHERE, HOUR_S),
    ):
        wrong = storage.incr(key, seconds)
        if wrong >= free:
            storage.incr(f"{key}:wait", min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(wrong - free, 16)))


def forget_wrong(name: str, address: str | None) -> None:
    """Forget the wrong passwords of an address after the right one."""
    storage = _storage()
    if storage is not None:
        storage.clear(_key(name, address))


def _key(name: str, address: str | None = None) -> str:
    return f"wrong-password:{network(address) if address else 'anywhere'}:{name}"


def _storage() -> Storage | None:
    limiter: Limiter = current_app.extensions["shuffleboard_limiter"]
    return limiter.limiter.storage if limiter.enabled else None
