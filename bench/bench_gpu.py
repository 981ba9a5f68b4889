"""Rates of scoring and of writing with transformers on a GPU: `python -m bench.bench_gpu [OPTIONS]`.

A model of Llama's shape with random weights, created on the device, scores MMLU's sample as a worker does, with
SmolLM2's tokenizer. Reported: prompts per second, tokens of the prompts and tokens computed, their share of the rate of
a large matrix product in the same precision, and the highest memory use.

Options: --parameters 1|8 (billions)  --questions 12 (of a subject; a third as many where texts are long)
         --budget 16384 (tokens of a pass)  --written 64 (tokens of each text)  --tiny (a small shape, on the CPU)
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from bench.prompts import SAMPLES, make_case, read_questions, smollm2
from workers.engine import GenerationPrompt, LoadedModel, ScoringPrompt, cache_tokens, generate_counted, open_engine

SHAPES: Final[dict[str, dict[str, Any]]] = {
    "1": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "head_dim": 64},
    "8": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "head_dim": 128},
    "tiny": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 2},
}
SUBJECTS: Final = {"sociology": 1, "high_school_us_history": 3}
"""Subject → divisor of its number of questions: one of ordinary length, one with a passage before each question."""
GREEDY: Final = {
    "sampling": "greedy",
    "temperature": "1",
    "top_k": 0,
    "top_p": "1",
    "min_p": "0",
    "seed": 0,
    "stop": [],
}


def time_work(device: torch.device, work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a function, and the seconds that it took on the device."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    wait()
    began = time.perf_counter()
    result = work()
    wait()
    return result, time.perf_counter() - began


def make_model(shape: str, device: torch.device, tokenizer: Any) -> LoadedModel:
    common = {
        "vocab_size": 128256,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 8192,
    }
    config = AutoConfig.for_model("llama", **common, **SHAPES[shape], tie_word_embeddings=shape != "8")
    torch.manual_seed(0)
    with device:
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    model.generation_config, model.config.eos_token_id = GenerationConfig(), None
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)  # as in load_model
    return LoadedModel(model, tokenizer, device, "bfloat16", None, 8192)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", choices=("1", "8"), default="8")
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--budget", type=int, default=16384)
    parser.add_argument("--written", type=int, default=64)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    device = torch.device("cpu" if options.tiny else "cuda")
    with tempfile.TemporaryDirectory(prefix="bench-gpu-") as folder:
        tokenizer = AutoTokenizer.from_pretrained(smollm2(Path(folder) / "model"))
    loaded = make_model("tiny" if options.tiny else options.parameters, device, tokenizer)
    size = 256 if options.tiny else 8192
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        left @ right
    _, seconds = time_work(device, lambda: [left @ right for _ in range(10)])
    peak = 10 * 2 * size**3 / seconds
    inner = sum(weight.numel() for name, weight in loaded.model.named_parameters() if ".layers." in name)
    print(f"{inner / 1e9:.2f} thousand million weights in layers; products of {size}: {peak / 1e12:.0f} TFLOP/s")
    texts: list[str] = []
    for subject, fewer in SUBJECTS.items():
        questions, pool = read_questions(SAMPLES / "mmlu.jsonl", None, subject)
        for shots in (0, 5):
            case = make_case("mmlu", questions[: options.questions // fewer], pool, shots, "full")
            prompts = [ScoringPrompt(text, tuple(labels), group) for text, labels, group in case.prompts]
            texts += [prompt.text for prompt in prompts] if shots == 0 else []
            engine = open_engine(loaded, "batched", budget_tokens=options.budget)
            engine.score(prompts[:2])
            scored, seconds = time_work(device, lambda engine=engine, prompts=prompts: engine.score(prompts))
            used = torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else 0.0
            print(
                f"{subject}, {shots}-shot full: {len(prompts)} prompts, {len(prompts) / seconds:.0f} a second; tokens "
                f"{scored.tokens_naive}, computed {scored.tokens_computed}; "
                f"{2 * inner * scored.tokens_computed / seconds / peak:.2f} of the peak; {used:.1f} GB",
                flush=True,
            )
    for rows in (64, 256):
        writing = [GenerationPrompt(text, str(place)) for place, text in enumerate(texts[:rows])]
        (written, _), seconds = time_work(
            device,
            lambda asked=writing: generate_counted(
                loaded, asked, GREEDY | {"max_tokens": options.written}, budget_tokens=cache_tokens(loaded)
            ),
        )
        print(f"{len(writing)} texts: {sum(text.tokens for text in written) / seconds:.0f} tokens a second", flush=True)


if __name__ == "__main__":
    main()
