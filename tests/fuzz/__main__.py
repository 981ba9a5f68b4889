"""Fuzzes every input of the website: `python -m tests.fuzz --engine postgresql --requests 20000`.

Exits with status 1 if a request was answered with a server error.
"""

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from pathlib import Path
from typing import Any
from unittest.mock import patch

from argon2 import PasswordHasher, profiles

from registry.db import get_engine
from registry.operations.migrate import upgrade
from registry.schema.audiences import dispose
from tests.fuzz.doors import Fuzz, fill, site
from tests.support import services


@contextmanager
def _registry(engine: str, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the URL of an empty registry, and the settings that its SQL page needs."""
    if engine == "sqlite":
        url = f"sqlite:///{folder / 'fuzz.db'}"
        upgrade(url)
        yield url, {}
        dispose(get_engine(url))
        return
    with services.PostgresServer() as server:
        services.postgres_execute(server.url, "CREATE DATABASE fuzz TEMPLATE template0")
        url = server.database_url("fuzz")
        upgrade(url)
        yield url, {}
        dispose(get_engine(url))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--engine", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    cheapest = {name: getattr(profiles.CHEAPEST, name) for name in ("time_cost", "memory_cost", "parallelism")}
    logging.disable()  # tracebacks of the faults would bury the table
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="shuffleboard-fuzz-") as name,
        _registry(arguments.engine, Path(name)) as (url, settings),
        patch.object(PasswordHasher, "__init__", partialmethod(PasswordHasher.__init__, **cheapest)),
    ):
        right = fill(get_engine(url), Path(name))
        fuzz = Fuzz(site(url, Path(name), **settings), right, arguments.seed)
        while fuzz.asked < arguments.requests:
            fuzz.run(min(arguments.requests, fuzz.asked + 1000))
            print(f"{fuzz.asked} requests, {len(fuzz.faults)} server errors", flush=True)
    for error, times in Counter(str(fault) for fault in fuzz.faults).most_common():
        print(f"{times} x {error}")
    print(
        f"{fuzz.asked} requests at {len(fuzz.doors)} doors of {len(fuzz.routes)} routes on {arguments.engine} in "
        f"{time.monotonic() - begun:.0f} s (seed {arguments.seed}): {len(fuzz.faults)} server errors"
    )
    return 1 if fuzz.faults else 0


if __name__ == "__main__":
    sys.exit(main())
