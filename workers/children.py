"""Processes that end with their parent."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Final
from uuid import uuid4

GUARD: Final = """\
import os, pathlib, signal, sys
sys.stdin.buffer.read()
found = True
while found:
    found = False
    for place in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if sys.argv[1].encode() in place.read_bytes() and int(place.parent.name) != os.getpid():
                os.kill(int(place.parent.name), signal.SIGKILL)
                found = True
        except OSError:
            pass  # it has ended, or is another user's
"""
"""A program that ends all processes that have a mark in their environment, once its standard input is closed."""


def guard_children() -> Callable[[], None]:
    """End the child processes of this process when it ends, even if it is killed (on Linux).

    vLLM's engine is a separate process that outlives a killed worker and keeps the GPU's memory, so that the next
    worker finds none free. Returns a function that ends the child processes now.
    """
    mark = f"SHUFFLEBOARD_CHILD_OF={uuid4()}"
    name, _, value = mark.partition("=")
    guard = subprocess.Popen(  # noqa: S603 - this program; in a session of its own, since Ctrl-C is for the worker
        [sys.executable, "-I", "-c", GUARD, mark], stdin=subprocess.PIPE, start_new_session=True
    )
    os.environ[name] = value

    def end() -> None:
        os.environ.pop(name, None)
        guard.communicate()

    return end
