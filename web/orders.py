"""Work in separate processes, because it takes long or reads untrusted files."""

import os
from collections.abc import Mapping
from typing import Any, Final

from flask import request
from werkzeug.exceptions import TooManyRequests

from registry import exchange, isolated
from registry.places import BusyError, Places, count_places
from registry.settings import ENVIRONMENT
from web.who.identity import client, engine, settings_of, viewer

WAIT_SECONDS: Final = 30.0
"""Longest wait of an order for other orders, in seconds."""

_PLACES: Final = Places("files", at_once=count_places(), of_a_client=2, of_all=2 * count_places())
"""Limits how many orders wait, since each occupies a thread of the server."""


def run_order(function: str, order: Mapping[str, Any]) -> Any:
    """Run a function of `registry.exchange.uploads` in a separate process and return its answer.

    Raises that function's errors, OverLimitError, and TooManyRequests if other uploads take too long.
    """
    asking, settings = viewer(), settings_of()
    variables = {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}
    variables.pop(f"{ENVIRONMENT}DATABASE_URL_FILE", None)
    variables |= {
        f"{ENVIRONMENT}DATABASE_URL": engine().url.render_as_string(hide_password=False),
        f"{ENVIRONMENT}HOME": str(settings.home),
    }
    who = {"name": asking.name, "account_id": asking.account_id, "role": asking.role, "token_id": asking.token_id}
    job = isolated.Job(f"{exchange.__name__}.uploads:{function}", variables=variables)
    try:
        with _PLACES.take(client(), WAIT_SECONDS):
            return isolated.run(job, {**order, "viewer": who, "address": request.remote_addr})
    except BusyError as error:
        raise TooManyRequests(str(error), retry_after=10) from None
