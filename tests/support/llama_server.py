"""A llama.cpp server in its own process, from the package xllamacpp, for tests with a real endpoint.

    python -m tests.support.llama_server FILE.gguf [--exact] [--context 2048] [--threads 1] [--template FILE]

It prints its address to stdout once it answers. `--exact` computes with a float32 cache and without fused attention,
so that only the weights' precision makes a difference. LLAMA_SERVER_KEY is the key that requests must carry, if any.
It uses one thread unless the machine is idle: threads wait by spinning, and on a busy machine two take a hundred
times as long.
"""

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.support.services import with_library

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = "SmolLM2-135M-Instruct"
"""The name under which the server lists any file."""


def main() -> None:
    import xllamacpp

    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--template", help="a chat template's file, used instead of the model's own")
    options = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = options.path
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = options.context
    params.cache_ram_mib = 0  # cache no prompts of earlier requests, apart from the states in use
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    if options.template is not None:
        params.chat_template = Path(options.template).read_text(encoding="utf-8")
        params.use_jinja = True
    if options.exact:
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if "LLAMA_SERVER_KEY" in os.environ:
        params.api_keys = [os.environ["LLAMA_SERVER_KEY"]]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


@contextmanager
def llama_server(path: Path, *flags: str, key: str | None = None) -> Iterator[str]:
    """Yield the address of a new server, with the path /v1; the server is killed at the end."""
    with llama_process(path, *flags, key=key) as (url, _):
        yield url


@contextmanager
def llama_process(path: Path, *flags: str, key: str | None = None) -> Iterator[tuple[str, int]]:
    """Yield the address and process id of a new server; the server is killed at the end."""
    environment = os.environ | with_library("gomp") | ({"LLAMA_SERVER_KEY": key} if key else {})
    command = [sys.executable, "-m", "tests.support.llama_server", str(path), *flags]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, f"the server did not start; run it by hand: {' '.join(command)}"
            yield f"{address}/v1", process.pid
        finally:
            process.kill()


def write_dequantised(
    source: Path, target: Path, dtype: str = "float32", replaced: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Write a copy of a GGUF file with dequantised tensors, as the local engine computes with them.

    replaced: tensors that replace the tensors of the same names.
    dtype: `float32`, or `bfloat16` for matrices; vectors remain float32, since llama.cpp supports no other type.
    """
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, arch=reader.fields["general.architecture"].contents())
    for name, entry in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            kind = entry.types[0]
            items = entry.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, entry.contents(), kind, items)
    narrow = dtype == "bfloat16"
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16 if narrow else gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        wide = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if tensor.name in replaced:
            assert replaced[tensor.name].shape == wide.shape
            wide = replaced[tensor.name]
        if narrow and wide.ndim > 1:
            kind = gguf.GGMLQuantizationType.BF16
            writer.add_tensor(tensor.name, gguf.quants.quantize(wide, kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, wide)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
