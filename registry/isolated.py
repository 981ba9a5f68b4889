"""Untrusted work in a separate process with limits and a clean environment; input and output are JSON.

    run(Job("registry.exchange.uploads:benchmark"), {"file": "…"})

For the jobs of a module, a server process imports the module once and forks a process for each order, which starts in
milliseconds. The server ends after a while without orders. A job takes no locks of the caller's process and does not
block its threads. The operating system enforces the limits: a job is killed when its time is up, and gets no more
memory than allowed. A ShuffleboardError that a job raises is raised again in the caller.
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
"""Memory that a job may allocate, in addition to its memory when it starts."""
SECONDS: Final = 600.0
IDLE_SECONDS: Final = 300.0
"""Time without orders after which a server ends."""
NICENESS: Final = 10
"""Nice value of jobs, so that the website is served first."""
_GRACE_SECONDS: Final = 10.0
_STARTED: Final = b"+"
_PASSED_ON: Final = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ")
"""Environment variables that server processes inherit."""


@dataclass(frozen=True)
class Job:
    """A function to run in a separate process: `module:function`, which takes a JSON document and returns one.

    seconds: its time limit. memory_bytes: see MEMORY_BYTES. variables: environment variables to set for it.
    """

    function: str
    seconds: float = SECONDS
    memory_bytes: int = MEMORY_BYTES
    variables: Mapping[str, str] = field(default_factory=dict)


def run(job: Job, order: Any) -> Any:
    """Run the job on `order`, a JSON document, and return its result.

    Raises the job's own ShuffleboardError; OverLimitError if it took too much time or memory; RuntimeError with the
    job's traceback for any other exception.
    """
    message = json.dumps([job.function, job.seconds, job.memory_bytes, dict(job.variables), order]).encode()
    for _ in range(2):  # an idle server may end at this moment
        started = time.monotonic()
        with _find_server(job.function.partition(":")[0]).connect() as connection:
            answer = _exchange(connection, message, job.seconds + _GRACE_SECONDS)
        if answer.startswith(_STARTED):
            return _parse_answer(answer[1:], job, time.monotonic() - started)
    raise RuntimeError(f"no process could be started for {job.function}")


def is_limited() -> bool:
    """Return whether this process runs a job, so that the limits apply to it already."""
    return _is_limited


def _exchange(connection: socket.socket, message: bytes, seconds: float) -> bytes:
    connection.settimeout(seconds)
    parts = []
    with contextlib.suppress(OSError):  # the process may end before it has read or written everything
        connection.sendall(message)
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


# The caller's side of a server


class _Server:
    def __init__(self, module: str) -> None:
        self.process_id = os.getpid()
        self._control, theirs = socket.socketpair()
        with theirs:
            # It finds the same modules as this process, and inherits nothing else from it.
            text = (
                f"import sys; from importlib import import_module; sys.path[:] = {sys.path!r}; "
                f"import_module({__name__!r}).serve(0, {module!r})"
            )
            self._process = subprocess.Popen(  # noqa: S603 - our own code, by the Python that runs us
                [sys.executable, "-I", "-c", text],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=_make_environment(),
                start_new_session=True,
            )

    def connect(self) -> socket.socket:
        """Return a connection to a newly forked process; it is closed already if the server has ended."""
        ours, theirs = socket.socketpair()
        with theirs, contextlib.suppress(OSError):
            socket.send_fds(self._control, [b"?"], [theirs.fileno()])
        return ours

    def is_running(self) -> bool:
        return self.process_id == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        self._control.close()
        if self.process_id == os.getpid():
            self._process.wait()


_servers: Final[dict[str, _Server]] = {}
_lock: Final = threading.Lock()


def _find_server(module: str) -> _Server:
    """Return this process's server for the jobs of a module, started if none is running."""
    with _lock:
        server = _servers.get(module)
        if server is None or not server.is_running():
            if server is not None:
                server.close()
            server = _servers[module] = _Server(module)
        return server


@atexit.register
def _close_servers() -> None:
    for server in _servers.values():
        server.close()
    _servers.clear()


def _make_environment() -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # One thread: forking a process with running threads can hang. One arena: each maps 64 MiB that are never used up.
    # Arrow's own pool would reserve a gibibyte that is never used up.
    return inherited | {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }


# The server's side, and the processes that it forks


def serve(control_number: int, module: str) -> NoReturn:
    """Fork a process for each connection that arrives on the control socket, until the socket is closed or idle."""
    import_module(module)
    gc.freeze()  # garbage collection in a forked process then copies no memory of loaded modules
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies: the caller's connection shows that a process ended
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
                _handle_order(socket.socket(fileno=descriptor))
            os.close(descriptor)


def _handle_order(connection: socket.socket) -> NoReturn:
    """Run one order and send its result, then exit."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        connection.sendall(_STARTED)
        with connection.makefile("rb") as stream:
            function, seconds, memory, variables, order = json.load(stream)  # noqa: TID251 - our own process's
        os.environ.update(variables)
        _set_limits(seconds, memory)
        connection.sendall(json.dumps(_run_function(function, order)).encode())
    except BaseException:  # noqa: BLE001 - the caller notices that there is no answer
        os._exit(1)
    os._exit(0)


def _run_function(function: str, order: Any) -> dict[str, Any]:
    module, _, name = function.partition(":")
    try:
        return {"answer": getattr(import_module(module), name)(order)}
    except ShuffleboardError as error:
        kind = next(kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind)
        return {"kind": kind, "message": str(error), "details": error.details}
    except MemoryError:
        return {"kind": "OverLimitError", "message": "this takes more memory than it may; divide it"}
    except Exception:  # noqa: BLE001 - raised again in the caller
        return {"fault": traceback.format_exc()}


_is_limited = False


def _set_limits(seconds: float, memory: int) -> None:
    global _is_limited  # noqa: PLW0603
    _is_limited = True
    # The signal's default action ends the process even within C code.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bytes_at_start = _data_bytes()
    if bytes_at_start is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (bytes_at_start + memory, bytes_at_start + memory))


def _data_bytes() -> int | None:
    """Return the process's own mapped bytes, as RLIMIT_DATA counts them; None if the system does not state them."""
    try:
        lines: Sequence[str] = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:")), None)
