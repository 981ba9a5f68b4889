"""URLs from users that this machine connects to: never in its own network, unless a setting allows it.

A host name is resolved, every address it resolves to is checked, and the connection is made to a checked address, which
defeats DNS rebinding.
"""

import ipaddress
import socket
from typing import Final
from urllib.parse import SplitResult, urlsplit

from registry.errors import UsageError

MAX_URL: Final = 2000
_PORTS: Final = {"http": 80, "https": 443}

# Reachable from inside a cloud although it looks public.
_METADATA: Final = frozenset({"168.63.129.16"})
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_OTHERS: Final = tuple(map(ipaddress.ip_network, ("64:ff9b:1::/48", "192.88.99.0/24", "fec0::/10")))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_url(url: str) -> SplitResult:
    """An http or https URL, parsed. Raises UsageError for an invalid URL, or one with a user name or fragment."""
    if len(url) > MAX_URL or not all("!" <= character <= "~" for character in url) or "\\" in url:
        raise UsageError(
            f"a webhook URL of {len(url)} characters: give one of up to {MAX_URL:,} plain ASCII characters"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UsageError("not a valid webhook URL; give one such as https://host/path") from None
    if parts.scheme not in _PORTS:
        raise UsageError(f"scheme {parts.scheme[:20]!r}: give an http or https URL, such as https://host/path")
    if not parts.hostname or port == 0:
        raise UsageError("the webhook URL has no host; give one such as https://host/path")
    if "@" in parts.netloc or "#" in url:
        raise UsageError(f"webhook URL on {parts.hostname}: leave out user name, password and fragment (#…)")
    return parts


def port_of(parts: SplitResult) -> int:
    """The port of a URL, or the default of its scheme."""
    return parts.port or _PORTS[parts.scheme]


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet, however it is embedded in IPv6."""
    if isinstance(address, ipaddress.IPv6Address):
        inside = _embedded(address)
        if inside:
            return all(is_public(one) for one in inside)
    if str(address) in _METADATA or any(
        address in network for network in _OTHERS if network.version == address.version
    ):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _embedded(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that an IPv6 address stands for."""
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return []


def allowed_hosts(setting: str) -> frozenset[str]:
    """The hosts that a setting lists, separated by commas, in lower case."""
    return frozenset(filter(None, (host.strip().strip("[]").lower() for host in setting.split(","))))


def checked_addresses(parts: SplitResult, allowed: frozenset[str]) -> list[str]:
    """The addresses of a URL's host, all of them checked; the first may be connected to.

    allowed: hosts that may be private. Raises UsageError if the host is unknown or any of its addresses is not on the
    public internet.
    """
    host = parts.hostname or ""
    try:
        found = socket.getaddrinfo(host, port_of(parts), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UsageError(f"host {host!r} is unknown; check the URL") from None
    addresses = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))
    private = [address for address in addresses if not is_public(ipaddress.ip_address(address))]
    if private and host.lower() not in allowed:
        raise UsageError(
            f"host {host!r} resolves to an address that is not on the public internet; "
            "give a public one, or list the host in SHUFFLEBOARD_PRIVATE_WEBHOOKS"
        )
    return addresses
