"""The command line as a process that has its modules loaded: a page has dozens of commands, and each takes a second to load.

    python -m tests.docs.preloaded SOCKET                  the server; a line goes to stdout once it listens
    PRELOADED=SOCKET python -IS tests/docs/preloaded.py    stands for `shuffleboard`

The server forks for each command, with the caller's files, arguments, folder and environment; what runs is
`shuffleboard.cli.main`, in a process and group of its own. A caller that is killed takes its command with it, and the server
ends with whoever started it. Nothing of torch is loaded before the fork.
"""

import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

FILES = (0, 1, 2)


def call() -> int:
    """Has the server run `shuffleboard` with this process's arguments; returns its exit status."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["PRELOADED"])
        request = {
            "arguments": ["shuffleboard", *sys.argv[1:]],
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
        }
        socket.send_fds(connection, [b"f"], FILES)
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("r") as answers:
            process = int(answers.readline())

            def pass_on(number: int, _frame: FrameType | None) -> None:
                with suppress(ProcessLookupError):
                    os.kill(process, number)

            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, pass_on)
            status = int(answers.readline())
    return status if status >= 0 else 128 - status


def serve(path: str) -> None:
    """Answers until it is killed."""
    import gc

    import click
    from sqlalchemy.orm import configure_mappers

    from shuffleboard.cli import COMMANDS, cli

    with click.Context(cli) as context:
        for name in COMMANDS:
            assert cli.get_command(context, name) is not None
    configure_mappers()
    gc.freeze()  # what is loaded stays as it is: nothing is copied for a fork that looks for garbage
    assert "torch" not in sys.modules, "a process forked after importing torch hangs"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that attend to a call
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("listening", flush=True)
        while select.select([listener, sys.stdin], [], [])[0] == [listener]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _attend(connection)
            connection.close()


def _attend(connection: socket.socket) -> None:
    """Runs a command in a fork and says how it ended. Returns in the command's process alone."""
    _, files, _, _ = socket.recv_fds(connection, 1, len(FILES))
    with connection.makefile("r") as lines:
        request = json.loads(lines.readline())
    process = os.fork()
    if process == 0:
        connection.close()
        _become(request, files)
    os.setpgid(process, process)
    ended, note = os.pipe()
    os.set_blocking(note, False)
    signal.set_wakeup_fd(note)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    connection.sendall(f"{process}\n".encode())
    while not (status := os.waitpid(process, os.WNOHANG))[0]:
        if connection in select.select([connection, ended], [], [])[0]:
            os.killpg(process, signal.SIGKILL)  # the caller sends nothing more: it is gone
            os._exit(0)
        os.read(ended, 64)
    connection.sendall(f"{os.waitstatus_to_exitcode(status[1])}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], files: list[int]) -> NoReturn:
    """Runs the command in this process and ends it."""
    import atexit
    import threading

    from shuffleboard.cli import main

    os.setpgid(0, 0)
    for file, number in zip(files, FILES, strict=True):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    sys.modules["__main__"].__package__ = None  # else click takes the program's name from it
    status: Any = 0
    try:
        main()
    except SystemExit as ended:
        status = ended.code
    except BaseException:  # noqa: BLE001 - whatever it is, it is shown as Python shows it
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))  # the rest of a shutdown takes 0.3 s


if __name__ == "__main__":
    if len(sys.argv) == 2 and "PRELOADED" not in os.environ:
        serve(sys.argv[1])
    else:
        sys.exit(call())
