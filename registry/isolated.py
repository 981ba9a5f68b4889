"""Work that strangers decide, in a process of its own: with limits, without our environment, JSON in and out.

    run(Job("registry.exchange.uploads:benchmark"), {"file": "…"})

A process is forked for each order from one that has loaded what the job needs, so that it starts in milliseconds, and
that ends by itself when nothing was ordered for a while. It takes no lock of ours, and its work does not hold the
threads of the process that waits for it. Its limits are the system's: whatever it does, it is gone when its time is up,
and gets no more memory than it may have. Errors that a user can cause are raised as they were there.
"""

import atexit
import contextlib
import gc
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

from registry import errors
from registry.errors import OverLimitError, ShuffleboardError

MEMORY_BYTES: Final = 1 << 30
"""Memory of a process in addition to the part it shares with the others."""
SECONDS: Final = 600.0
IDLE_SECONDS: Final = 300.0
"""How long a server waits for the next order."""
NICENESS: Final = 10
"""Lower priority than pages if both need the processor."""
_GRACE_SECONDS: Final = 10.0
_STARTED: Final = b"+"
_PASSED_ON: Final = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ")
"""Variables that every process has."""


@dataclass(frozen=True)
class Job:
    """The function of a job: `module:function`, which takes a JSON document and returns one.

    seconds: the most it may take. memory_bytes: see MEMORY_BYTES. variables: of the environment, named by the order.
    """

    function: str
    seconds: float = SECONDS
    memory_bytes: int = MEMORY_BYTES
    variables: Mapping[str, str] = field(default_factory=dict)


def run(job: Job, order: Any) -> Any:
    """Return the job's result for the order, as JSON.

    Raises the job's ShuffleboardError; OverLimitError if it took too much time or memory; RuntimeError, with its
    traceback, for a fault of ours.
    """
    sent = json.dumps([job.function, job.seconds, job.memory_bytes, dict(job.variables), order]).encode()
    for _ in range(2):  # an idle server may end at this moment
        begun = time.monotonic()
        with _server_of(job.function.partition(":")[0]).ask() as connection:
            answer = _exchange(connection, sent, job.seconds + _GRACE_SECONDS)
        if answer.startswith(_STARTED):
            return _parse_answer(answer[1:], job, time.monotonic() - begun)
    raise RuntimeError(f"no process could be started for {job.function}")


def is_limited() -> bool:
    """Return whether this process was forked for an order, under its limits."""
    return _is_limited


def _exchange(connection: socket.socket, sent: bytes, seconds: float) -> bytes:
    connection.settimeout(seconds)
    parts = []
    with contextlib.suppress(OSError):  # it ended before it had read or written all
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def _parse_answer(answer: bytes, job: Job, elapsed_s: float) -> Any:
    try:
        document = json.loads(answer)  # noqa: TID251 - our own process's
    except ValueError:
        if elapsed_s >= job.seconds:
            raise OverLimitError(f"this takes longer than {job.seconds:g} s; divide it") from None
        raise OverLimitError(f"this takes more than {job.memory_bytes >> 20} MiB of memory; divide it") from None
    if "answer" in document:
        return document["answer"]
    if "fault" in document:
        raise RuntimeError(document["fault"])
    error = getattr(errors, document["kind"], OverLimitError)(document["message"])
    error.details = document.get("details")
    raise error


# The server, as the process sees it that orders


class _Server:
    def __init__(self, module: str) -> None:
        self.process_id = os.getpid()
        self._control, theirs = socket.socketpair()
        with theirs:
            # Its path for modules is ours, and all else of it is new.
            text = (
                f"import sys; from importlib import import_module; sys.path[:] = {sys.path!r}; "
                f"import_module({__name__!r}).serve(0, {module!r})"
            )
            self._process = subprocess.Popen(  # noqa: S603 - our own code, by the Python that runs us
                [sys.executable, "-I", "-c", text],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
            )

    def ask(self) -> socket.socket:
        """Return a connection to a process forked for this order; it is closed at once if the server has ended."""
        ours, theirs = socket.socketpair()
        with theirs, contextlib.suppress(OSError):
            socket.send_fds(self._control, [b"?"], [theirs.fileno()])
        return ours

    def lives(self) -> bool:
        return self.process_id == os.getpid() and self._process.poll() is None

    def end(self) -> None:
        self._control.close()
        if self.process_id == os.getpid():
            self._process.wait()


_servers: Final[dict[str, _Server]] = {}
_lock: Final = threading.Lock()


def _server_of(module: str) -> _Server:
    """Return the process's server for the jobs of a module."""
    with _lock:
        found = _servers.get(module)
        if found is None or not found.lives():
            if found is not None:
                found.end()
            found = _servers[module] = _Server(module)
        return found


@atexit.register
def _end() -> None:
    for server in _servers.values():
        server.end()
    _servers.clear()


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # One thread: a process that is forked while others run hangs. One arena: each maps 64 MiB that it never fills.
    # Arrow's own pool reserves a gibibyte that it never fills.
    return kept | {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }


# The server itself, and the processes that it forks


def serve(control_number: int, module: str) -> NoReturn:
    """Fork a process for each connection that comes through the control socket, until that is closed or idle."""
    import_module(module)
    gc.freeze()  # loaded modules stay unchanged: the garbage collector of a forked process copies nothing
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the caller learns a process's fate from its connection
    control = socket.socket(fileno=control_number)
    control.settimeout(IDLE_SECONDS)
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        except OSError:
            os._exit(0)
        if not message:
            os._exit(0)
        for descriptor in descriptors:
            if os.fork() == 0:
                control.close()
                _work(socket.socket(fileno=descriptor))
            os.close(descriptor)


def _work(connection: socket.socket) -> NoReturn:
    """Answer one order, then exit."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        connection.sendall(_STARTED)
        with connection.makefile("rb") as stream:
            function, seconds, memory, variables, order = json.load(stream)  # noqa: TID251 - our own process's
        os.environ.update(variables)
        _limit(seconds, memory)
        connection.sendall(json.dumps(_outcome(function, order)).encode())
    except BaseException:  # noqa: BLE001 - who ordered finds no answer
        os._exit(1)
    os._exit(0)


def _outcome(function: str, order: Any) -> dict[str, Any]:
    module, _, name = function.partition(":")
    try:
        return {"answer": getattr(import_module(module), name)(order)}
    except ShuffleboardError as error:
        kind = next(kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind)
        return {"kind": kind, "message": str(error), "details": error.details}
    except MemoryError:
        return {"kind": "OverLimitError", "message": "this takes more memory than it may; divide it"}
    except Exception:  # noqa: BLE001 - raised again where it was ordered
        return {"fault": traceback.format_exc()}


_is_limited = False


def _limit(seconds: float, memory: int) -> None:
    global _is_limited  # noqa: PLW0603
    _is_limited = True
    # Its default action ends the process whatever it is doing, in C as well.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    held = _data_bytes()
    if held is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (held + memory, held + memory))


def _data_bytes() -> int | None:
    """Return the process's own mapped bytes, as RLIMIT_DATA counts them; None if the system does not state them."""
    try:
        lines: Sequence[str] = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:")), None)
