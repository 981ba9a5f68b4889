"""A real vLLM on the CPU from .venv-vllm, which `make test-servers` installs, in a separate process."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

from tests.support.services import free_port

ROOT = Path(__file__).resolve().parents[2]
VLLM: Final = ROOT / ".venv-vllm" / "bin" / "vllm"
ENVIRONMENT: Final = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_SERVER_DEV_MODE": "1",  # enables requests to empty the prefix cache
}
OPTIONS: Final = (
    *("--max-model-len", "4096", "--enforce-eager", "--gpu-memory-utilization", "0.2"),
    # The smallest size on a CPU, where the default is 128; on a GPU it is 16.
    *("--block-size", "32"),
    "--enable-prompt-tokens-details",
)
START_SECONDS: Final = 900
"""Time limit of the start, which takes a minute on two idle cores."""


@dataclass(frozen=True)
class Vllm:
    """A running server.

    url: without a path. session: the session of its processes.
    """

    url: str
    session: int

    def forget_prefixes(self) -> None:
        """Empty the prefix cache."""
        httpx2.post(f"{self.url}/reset_prefix_cache", timeout=600).raise_for_status()

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server's processes so far, which other work affects less than elapsed time."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(fields[3]) == self.session:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def vllm_server(
    model: Path, name: str, log: Path, *, dtype: str = "float32", threads: int = 1, options: Sequence[str] = ()
) -> Iterator[Vllm]:
    """Start a server with a model's folder, and stop all of its processes at the end.

    options: additional options of its command line.
    threads: one unless the machine is idle, since OpenMP's threads wait by spinning, and on a busy machine two of them
    take a hundred times as long.
    """
    assert VLLM.exists(), f"{VLLM} is not there; run `make test-servers`"
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(VLLM), "serve", str(model), "--served-model-name", name, "--host", "127.0.0.1", "--port", str(port)]
    own = ENVIRONMENT | {"OMP_NUM_THREADS": str(threads)}
    path = f"{VLLM.parent}{os.pathsep}{os.environ['PATH']}"  # the server compiles with the tools of its environment
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "--dtype", dtype, *OPTIONS, *options],
            cwd=log.parent,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | own | {"PATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            _wait(url, process, log)
            yield Vllm(url, process.pid)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            httpx2.get(f"{url}/version", timeout=10).raise_for_status()
        except httpx2.HTTPError:
            time.sleep(1)
        else:
            return
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise AssertionError(f"vLLM did not start; it said:\n{tail}")
