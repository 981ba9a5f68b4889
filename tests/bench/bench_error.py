"""How far a model's probabilities are from those in float64: `python -m tests.bench.bench_error [MODEL ...]`.

Every precision has the same weights, rounded to bfloat16: SmolLM2-135M on questions of MMLU's sample by default, or
`tiny:TYPE`, a random model of a type on random prompts. transformers' own forward pass, one prompt after the other, is
compared, too, and with --vllm a real vLLM in the same precision, asked for exactly the labels. The numbers in float64
are those of the token trie, of which a few are compared with transformers'.

A first choice counts as changed whenever it differs, ties included. SmolLM2 takes about 2 GiB, vLLM another 3.

Options: --prompts 500  --dtypes float32,bfloat16  --vllm (not for tiny models)
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from tests.bench.bench_peers import vllm
from tests.bench.figures import probabilities
from tests.bench.prompts import ROOT, SAMPLES, Prompt, make_case, read_questions, smollm2
from tests.engine.tiny import as_loaded, largest_difference, random_model, random_prompts
from workers.engine import LoadedModel, TrieEngine, load_model
from workers.tokens import ScoringPrompt, TokenisedPrompt, encoder, tokenise

MEMORY_BYTES = 2 << 30
"""What the token trie may use beside the model."""

CHECKED = 5
"""Prompts whose numbers in float64 are computed in two ways."""

Numbers = Sequence[Sequence[float]]


def is_tiny(name: str) -> bool:
    """Whether it names a random model, which has neither files nor a tokenizer."""
    return name.startswith("tiny:")


def folder_of(name: str) -> Path:
    """The files of a model that has any."""
    return smollm2(ROOT / "build" / "bench" / "smollm2") if name == "smollm2" else Path(name)


def opened(name: str, dtype: str) -> LoadedModel:
    """A model with weights rounded to bfloat16 that computes in some precision."""
    if is_tiny(name):
        loaded = as_loaded(random_model(name.removeprefix("tiny:"), torch.bfloat16))
    else:
        loaded = load_model(folder_of(name), dtype="bfloat16", device="cpu")
    loaded.model.to(getattr(torch, dtype))  # in place
    return replace(loaded, dtype=dtype)


def texts(number: int) -> list[Prompt]:
    """Questions of every subject of the sample in their four rotations, without examples."""
    questions, pool = read_questions(SAMPLES / "mmlu.jsonl", None, None)
    spread = questions[:: max(1, 4 * len(questions) // number)]
    return make_case("MMLU", spread, pool, 0, "cyclic").prompts[:number]


def prompts_for(name: str, number: int) -> list[TokenisedPrompt]:
    """Random ones for a tiny model, those of `texts` for others."""
    if is_tiny(name):
        return random_prompts(0, number, tokens=60)
    encode = encoder(opened(name, "bfloat16").tokenizer)
    return [tokenise(encode, ScoringPrompt(text, tuple(labels), question)) for text, labels, question in texts(number)]


def by_transformers(loaded: LoadedModel, prompts: Sequence[TokenisedPrompt]) -> list[list[float]]:
    """Log-probabilities from one forward pass per prompt, which computes logits of the last token only."""
    found = []
    for prompt in prompts:
        with torch.no_grad():
            logits = loaded.model(torch.tensor([prompt.context]), use_cache=False, logits_to_keep=1).logits
        found.append(logits[0, -1].double().log_softmax(dim=-1)[list(prompt.labels)].tolist())
    return found


def by_vllm(name: str, dtype: str, prompts: Sequence[Prompt]) -> tuple[Numbers, float]:
    """(log-probabilities from a server with one thread and the same rounded weights, seconds of CPU time)."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        opened(name, "bfloat16").model.save_pretrained(folder)
        for file in folder_of(name).glob("tokenizer*"):
            shutil.copy(file, folder)
        with vllm(folder, Path(scratch), 1, dtype) as ask:
            answer = ask(prompts, 1)
    return answer["logprobs"], answer["cpu_s"]


def in_float64(name: str, prompts: Sequence[TokenisedPrompt]) -> Numbers:
    """Numbers without rounding to speak of."""
    loaded = opened(name, "float64")
    exact = TrieEngine(loaded, memory_bytes=MEMORY_BYTES).score_tokens(prompts).logprobs
    difference = largest_difference(exact[:CHECKED], by_transformers(loaded, prompts[:CHECKED]))
    if difference > 1e-9:
        raise SystemExit(f"{name}: the token trie in float64 differs from transformers by {difference:.1e}")
    return exact


def error(found: Numbers, exact: Numbers) -> tuple[float, float, int]:
    """(largest and root mean square difference of a probability over the labels, first choices that differ)."""
    largest, squares, number, changed = 0.0, 0.0, 0, 0
    for ours, theirs in zip(map(probabilities, found), map(probabilities, exact), strict=True):
        differences = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
        largest = max(largest, *differences)
        squares += sum(value * value for value in differences)
        number += len(differences)
        changed += ours.index(max(ours)) != theirs.index(max(theirs))
    return largest, (squares / number) ** 0.5, changed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", default=["smollm2"], help="smollm2, tiny:TYPE or folders")
    parser.add_argument("--prompts", type=int, default=500)
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--vllm", action="store_true", help="ask a real vLLM, too")
    arguments = parser.parse_args()
    if arguments.vllm and any(map(is_tiny, arguments.models)):
        parser.error("--vllm: it loads models from files; leave tiny ones out")
    torch.set_num_threads(1)
    print(
        "| model | precision | engine | prompts | largest difference of a probability | root mean square "
        "| first choices changed | CPU, s |"
    )
    print("|---" * 8 + "|", flush=True)
    for name in arguments.models:
        prompts = prompts_for(name, arguments.prompts)
        exact = in_float64(name, prompts)
        for dtype in arguments.dtypes.split(","):
            loaded = opened(name, dtype)
            engine = TrieEngine(loaded, memory_bytes=MEMORY_BYTES)
            started = time.process_time()
            by_trie = engine.score_tokens(prompts).logprobs
            between = time.process_time()
            ways = {
                f"token trie, {engine.settings()['strategy']}": (by_trie, between - started),
                "transformers": (by_transformers(loaded, prompts), time.process_time() - between),
            }
            if arguments.vllm:
                ways["vLLM"] = by_vllm(name, dtype, texts(arguments.prompts))
            for way, (found, taken) in ways.items():
                largest, typical, changed = error(found, exact)
                print(
                    f"| {name} | {dtype} | {way} | {len(prompts)} | {largest:.1e} | {typical:.1e} | {changed} | {taken:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
