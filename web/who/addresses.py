"""Addresses on this website as others write them down: with scheme and host."""

from flask import request

from web.who.identity import settings_of


def base() -> str:
    """Return the website's public URL, without a slash at its end: the setting's, else the request's."""
    return (settings_of().public_url or request.host_url).rstrip("/")


def public(path: str) -> str:
    """Return the whole URL of a path of this website."""
    return base() + path
