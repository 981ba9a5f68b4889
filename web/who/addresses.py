"""Addresses on this website as others write them down: with scheme and host."""

from flask import request

from web.who.identity import settings_of


def base() -> str:
    """The website's public URL, without a slash at its end: the setting's, else what the request names."""
    return (settings_of().public_url or request.host_url).rstrip("/")


def public(path: str) -> str:
    """The whole URL of a path of this website."""
    return base() + path
