"""Checks of the settings themselves: their names, and the files and addresses that they give."""

import os
import stat
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from registry.errors import NotFoundError, ShuffleboardError
from registry.operations.doctor.findings import Context, Outcome, ok, problem, warning
from registry.proposals import propose
from registry.providers.prices import load_prices
from registry.sealed.signing import key_path, read_key
from registry.settings import ENVIRONMENT, Settings

ALSO: Final = frozenset(
    f"{ENVIRONMENT}{name}"
    for name in ("TOKEN", "URL", "BUILD_REVISION", "COMPLETE", "WEB_IMAGE", "WORKER_IMAGE", "WORKER_GPU_IMAGE")
)
"""Variables with the settings' prefix that belong to the Python client, builds, shells and Compose."""


def names(_context: Context) -> Outcome:
    """Report environment variables that look like settings but are none."""
    known_names = {f"{ENVIRONMENT}{field.upper()}" for field in Settings.model_fields}
    known_names |= {f"{name}_FILE" for name in known_names} | ALSO
    variables = sorted(name for name in os.environ if name.upper().startswith(ENVIRONMENT))
    unknown = [
        name for name in variables if name.upper() not in known_names and not name.startswith(f"{ENVIRONMENT}TEST_")
    ]
    if not unknown:
        return ok(f"{len(variables)} are set, and all are known")
    # Compare the names without their common prefix, which would make any two of them similar.
    ends = sorted(name.removeprefix(ENVIRONMENT) for name in known_names)
    near = [(name, get_close_matches(name.upper().removeprefix(ENVIRONMENT), ends, 1, 0.7)) for name in unknown]
    return warning(
        f"no such setting: {', '.join(unknown)}",
        "; ".join(f"write {ENVIRONMENT}{end[0]} instead of {name}" if end else f"unset {name}" for name, end in near),
    )


def addresses(context: Context) -> Outcome:
    """Check that the public address, which links for visitors contain, is complete and uses TLS."""
    url = context.settings.public_url
    if not url:
        return ok("none is set: links in feeds have the address of the request")
    parts = urlsplit(url)
    example = "such as https://board.example.org"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return problem(
            f"SHUFFLEBOARD_PUBLIC_URL={url} is no URL with a scheme and a host: links in feeds lead "
            "nowhere, and cookies are sent without https",
            f"write the whole URL, {example}",
        )
    if parts.query or parts.fragment:
        return problem(
            f"SHUFFLEBOARD_PUBLIC_URL={url} has a query or a fragment, to which no path can be added",
            f"write the URL without it, {example}",
        )
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        return warning(
            f"SHUFFLEBOARD_PUBLIC_URL={url} is without TLS, so passwords and cookies can be read on the way",
            "put a reverse proxy with a certificate in front, and set the https:// URL",
        )
    return ok(url)


def prices(context: Context) -> Outcome:
    """Check that the file of prices is readable and valid."""
    try:
        listed = load_prices(context.settings.prices)
    except ShuffleboardError as error:
        return problem(str(error), "correct SHUFFLEBOARD_PRICES or its file; without it no provider can be asked")
    count = sum(map(len, listed.prices.values()))
    return ok(f"{count} prices in {listed.currency}, as of {listed.as_of}")


def signing_key(context: Context) -> Outcome:
    """Check that the key that signs the chain is readable, by its owner alone."""
    path = key_path(context.settings)
    try:
        read_key(path)
    except NotFoundError:
        if context.settings.signing_key is None:
            return ok("none: the chain's head is not signed")
        return problem(
            f"SHUFFLEBOARD_SIGNING_KEY={path}: no such file, so the chain's head is not signed",
            f"put the key back, make a new one with `{propose('chain key new')}`, or unset the variable",
        )
    except ShuffleboardError as error:
        remedy = f"chmod 600 {path}" if "chmod" in str(error) else "put the right key back, from a backup"
        return problem(f"{error}; the chain's head is not signed", remedy)
    return ok(f"{path}, mode {stat.S_IMODE(path.stat().st_mode):o}")


def files(context: Context) -> Outcome:
    """Check that the files and programs that settings name exist."""
    missing = [
        f"{ENVIRONMENT}{name.upper()}={path}"
        for name, path, is_right in _list_named_files(context.settings)
        if not is_right(path)
    ]
    if missing:
        return problem(
            f"no such file: {', '.join(missing)}", "correct the path, put the file there, or unset the variable"
        )
    return ok("every file that a setting names is there")


def _list_named_files(settings: Settings) -> Iterator[tuple[str, Path, Callable[[Path], bool]]]:
    if settings.harness_python:
        yield "harness_python", Path(settings.harness_python), lambda path: os.access(path, os.X_OK)
    if settings.oidc_roles:
        yield "oidc_roles", Path(settings.oidc_roles).expanduser(), Path.is_file
