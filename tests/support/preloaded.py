"""Programs as processes with their modules loaded: loading takes seconds, and tests start the programs dozens of times.

    python -I tests/support/preloaded.py shuffleboard SOCKET PROCESS   serves the command line
    python -I tests/support/preloaded.py harness SOCKET PROCESS        serves scripts that use lm-evaluation-harness
    python -IS tests/support/preloaded.py SOCKET …                     for `shuffleboard …` or `python [-I] SCRIPT …`

The first two return once their server is ready; the server ends soon after PROCESS. It forks for each call, with the
caller's files, arguments, folder and environment; each fork has its own process group. A caller that is killed takes
its process with it.
"""

import importlib
import json
import os
import select
import shlex
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

FILES = (0, 1, 2)
STAND_IN = "PRELOADED_PYTHON"
"""Environment variable with the path of the program that a preloaded process starts in place of Python."""
# The libraries read this when they are imported. A process hangs if it is forked while other threads run.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def write_stand_ins(folder: Path, program: str, python: Path) -> None:
    """Write `python` next to the server's socket, and `bin/shuffleboard` if the server runs that program.

    `python` uses the server if it is called with the program; otherwise it runs the real interpreter.
    """
    served = f'exec {shlex.join([sys.executable, "-IS", __file__, str(folder / "socket")])} "$@"'
    scripts = {"python": served}
    if program == "shuffleboard":
        condition = f'if [ "$1 $2" = "-m shuffleboard.cli" ]; then shift 2; {served}; fi'
        scripts = {"bin/shuffleboard": served, "python": f'{condition}\nexec {shlex.quote(str(python))} "$@"'}
    for name, script in scripts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (folder / name).chmod(0o755)


def call(path: str, arguments: list[str]) -> int:
    """Run the program in the server at a socket, as if in this process; return its exit status."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        request = {
            "arguments": arguments,
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


def load_shuffleboard() -> Callable[[], object]:
    """Load the command line and the modules of workers, and return the function to run."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
    import click
    import torch
    from sqlalchemy.orm import configure_mappers

    from shuffleboard.cli import COMMANDS, cli, main

    for name in ("workers.loop", "workers.scorer", "workers.engine", "transformers.models.llama.modeling_llama"):
        importlib.import_module(name)

    with click.Context(cli) as context:
        for name in COMMANDS:
            assert cli.get_command(context, name) is not None
    configure_mappers()

    def run() -> None:
        sys.argv.insert(0, "shuffleboard")
        main()

    torch.set_num_threads(1)
    return run


def load_harness() -> Callable[[], object]:
    """Load lm-evaluation-harness in its Python, without the project's code; return a function that runs scripts."""
    import runpy

    import torch

    for name in ("lm_eval.evaluator", "lm_eval.tasks", "lm_eval.models.huggingface"):
        importlib.import_module(name)

    def run() -> None:
        if sys.argv[0] == "-I":
            del sys.argv[0]
        runpy.run_path(sys.argv[0], run_name="__main__")

    torch.set_num_threads(1)
    return run


PROGRAMS = {"shuffleboard": load_shuffleboard, "harness": load_harness}


def serve(program: str, path: str, process: int) -> None:
    """Start a server that answers calls until `process` ends, and then removes the socket's folder."""
    import gc

    run = PROGRAMS[program]()
    assert threading.active_count() == 1, "a process that is forked while threads run may hang"
    gc.freeze()  # so that garbage collection in a fork does not copy the pages of the loaded modules
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        if os.fork():
            return
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the processes that serve calls
        while Path(f"/proc/{process}").exists():
            if not select.select([listener], [], [], 1.0)[0]:
                continue
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _attend(connection, run)
            connection.close()
    shutil.rmtree(Path(path).parent, ignore_errors=True)


def _attend(connection: socket.socket, run: Callable[[], object]) -> None:
    """Run a command in a fork, report its status to the caller, and end this process."""
    _, files, _, _ = socket.recv_fds(connection, 1, len(FILES))
    with connection.makefile("r") as lines:
        request = json.loads(lines.readline())
    process = os.fork()
    if process == 0:
        connection.close()
        _become(request, files, run)
    os.setpgid(process, process)
    ended, note = os.pipe()
    os.set_blocking(note, False)
    signal.set_wakeup_fd(note)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    connection.sendall(f"{process}\n".encode())
    while not (status := os.waitpid(process, os.WNOHANG))[0]:
        if connection in select.select([connection, ended], [], [])[0]:
            os.killpg(process, signal.SIGKILL)  # the caller sends nothing more, so it has ended
            os._exit(0)
        os.read(ended, 64)
    connection.sendall(f"{os.waitstatus_to_exitcode(status[1])}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], files: list[int], run: Callable[[], object]) -> NoReturn:
    """Run the command in this process and end it."""
    import atexit

    os.setpgid(0, 0)
    for file, number in zip(files, FILES, strict=True):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    sys.executable = os.environ.get(STAND_IN, sys.executable)
    importlib.reload(sys.modules["huggingface_hub.constants"])  # the constants come from the environment
    sys.modules["__main__"].__package__ = None  # otherwise click takes the program's name from it
    status: Any = 0
    try:
        run()
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
    if sys.argv[1] in PROGRAMS:
        serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(call(sys.argv[1], sys.argv[2:]))
