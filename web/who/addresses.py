"""Complete addresses of this website, with scheme and host."""

from flask import request

from web.who.identity import settings_of


def base() -> str:
    """Return the website's public URL without a trailing slash: from the settings, else from the request."""
    return (settings_of().public_url or request.host_url).rstrip("/")


def public(path: str) -> str:
    """Return the complete URL for a path of this website."""
    return base() + path
