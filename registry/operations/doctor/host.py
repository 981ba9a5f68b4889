"""Checks of this host: its data directory, the key that signs cookies, models' files, and its accelerator."""

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import select

from registry.db import read_session
from registry.errors import ModelError
from registry.operations.doctor.database import disk_space
from registry.operations.doctor.findings import Context, Outcome, ok, problem, warning
from registry.private import open_to_others
from registry.queue.claims import worker_is_live
from registry.revisions.store import check_location
from registry.tables import Model, ModelRevision, Worker
from registry.untrusted import MEMORY, decode

PROGRAM_SECONDS = 20.0


def data_directory(context: Context) -> Outcome:
    """Check that this account can write to the data directory, nobody else can read it, and its disk has space."""
    home = context.settings.home.expanduser()
    if not home.is_dir():
        return ok(f"{home}: will be created when first needed")
    if not os.access(home, os.W_OK):
        return problem(f"{home}: cannot be written to", "make it writable for this account, or set SHUFFLEBOARD_HOME")
    reachable = [str(path) for path in open_to_others(home, os.geteuid())]
    if reachable:
        more = f" and {len(reachable) - 3} more" if len(reachable) > 3 else ""
        return warning(
            f"others may read or change {', '.join(reachable[:3])}{more}, with hidden results among them",
            f"chmod -R go-rwx {home}",
        )
    return disk_space(context, home, str(home))


def secret_key(context: Context) -> Outcome:
    """Check that only its owner can read the key that signs cookies."""
    path = context.settings.secret_key_file or context.settings.home.expanduser() / "secret.key"
    if not path.exists():
        if context.settings.secret_key_file is not None:
            return problem(
                f"{path}: no such file", "write 32 random bytes into it, or unset SHUFFLEBOARD_SECRET_KEY_FILE"
            )
        return ok("none yet: the website creates it when it first starts")
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    if _is_open_to_others(status):
        return problem(
            f"{path}: others may read or change it (mode {mode:o}), and sign in as anyone",
            f"chmod 600 {path}; if someone may have read it, remove it and restart the website, which creates a new "
            "one",
        )
    return ok(f"{path}, mode {mode:o}")


def _is_open_to_others(status: os.stat_result) -> bool:
    """Return whether other users than this process's may read or change a file.

    A secret that an orchestrator mounts belongs to root and is readable by its process's group; this is no risk.
    """
    others = stat.S_IRWXG | stat.S_IRWXO
    if status.st_uid == 0 != os.geteuid() and status.st_gid == os.getegid():
        others &= ~stat.S_IRGRP
    return bool(status.st_mode & others)


def models(context: Context) -> Outcome:
    """Check that the files of locally stored models are complete."""
    query = (
        select(Model.name, ModelRevision.number, ModelRevision.kind, ModelRevision.location)
        .join(Model, Model.id == ModelRevision.model_id)
        .where(ModelRevision.state == "ready", ModelRevision.kind.in_(("huggingface", "gguf")))
        .order_by(Model.name, ModelRevision.number)
    )
    with read_session(context.engine) as session:
        revisions = [row for row in session.execute(query) if str(row.location).startswith("/")]
        hosts = set(session.scalars(select(Worker.host).where(worker_is_live())))
    faults = []
    for row in revisions:
        try:
            check_location(row.kind, row.location)
            faults += [f"{row.name} revision {row.number}: {fault}" for fault in _find_cut_off(Path(row.location))]
        except ModelError as error:
            faults.append(f"{row.name} revision {row.number}: {error}")
    if not faults:
        return ok(f"{len(revisions)} of local files, all present")
    listed = "; ".join(faults[:3]) + (f"; {len(faults) - 3} more" if len(faults) > 3 else "")
    remedy = "put the files back, on a path that every worker's host can read"
    if hosts and socket.gethostname() not in hosts:
        return warning(f"not on this host: {listed}", f"if workers cannot read them either, {remedy}")
    return problem(listed, remedy)


def _find_cut_off(folder: Path) -> Iterator[str]:
    """Yield files of weights whose length differs from their header. A worker also compares their digests."""
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            try:
                header = decode(stream.read(min(length, size, MEMORY)), items=sys.maxsize)
            except ValueError:
                header = None
        if not isinstance(header, dict):
            yield f"{path.name} is not a safetensors file"
            continue
        expected = (
            8 + length + max((item["data_offsets"][1] for name, item in header.items() if name[0] != "_"), default=0)
        )
        if size != expected:
            yield f"{path.name} has {size} bytes, not {expected}"


def accelerator(_context: Context) -> Outcome:
    """Report this host's GPUs; having none is not a problem."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ok("no GPU (nvidia-smi is not installed); workers score on the CPU")
    listed = _run_program(
        [program, "--query-gpu=name,driver_version,memory.total,memory.used", "--format=csv,noheader"]
    )
    if not listed:
        return warning("nvidia-smi is installed but lists no GPU", "check the driver: run nvidia-smi")
    state = "; ".join(listed.splitlines())
    slices = re.findall(r"MIG (\S+) .*(MIG-[^)\s]+)", _run_program([program, "-L"]))
    if slices:
        named = ", ".join(f"{size} {name}" for size, name in slices)
        state += f"; MIG slices, a worker for each, which CUDA_VISIBLE_DEVICES names: {named}"
    if find_spec("torch") is None:
        return ok(f"{state}; torch is not installed here")
    # Run torch in its own process: it takes seconds and memory, and a broken driver may end the process.
    output = _run_program([sys.executable, "-c", "import torch; print(torch.cuda.device_count(), torch.__version__)"])
    count, _, version = output.partition(" ")
    if count in ("", "0"):
        return warning(
            f"{state}; torch {version or '(which fails to load)'} sees none of them",
            "install a CUDA build of torch that the driver supports: see the README",
        )
    return ok(f"{state}; torch {version} sees {count}; {_engine()}")


def _engine() -> str:
    """Describe the engine for GPUs of this host."""
    with suppress(PackageNotFoundError):
        return f"vLLM {installed('vllm')} scores the models that it knows, transformers the others"
    return "transformers scores, since vLLM is not installed here (pip install vllm)"


def _run_program(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
