"""How far a model's probabilities are from those in float64: `python -m tests.bench.bench_error [MODEL ...]`.

Each precision is compared with the same weights in float64, one prompt at a time: SmolLM2-135M on questions of MMLU's
sample by default, or `tiny:TYPE` for a random model of a type on random prompts. In bfloat16 the plain forward pass of
transformers is measured, too. A first choice counts as changed whenever it differs, ties included.

Options: --prompts 500  --dtypes float32,bfloat16
"""

import argparse
import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from tests.bench.figures import probabilities
from tests.bench.prompts import ROOT, SAMPLES, make_case, read_questions, smollm2
from tests.engine.tiny import as_loaded, random_model, random_prompts, reference
from workers.engine import LoadedModel, TrieEngine, load_model
from workers.tokens import ScoringPrompt, TokenisedPrompt, encoder, tokenise

Numbers = Sequence[Sequence[float]]


def in_float64(loaded: LoadedModel) -> LoadedModel:
    """The same weights, wider."""
    return replace(loaded, model=copy.deepcopy(loaded.model).double(), dtype="float64")


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


def sampled_prompts(loaded: LoadedModel, number: int) -> list[TokenisedPrompt]:
    """Questions of every subject of the sample in their four rotations, without examples, as tokens."""
    questions, pool = read_questions(SAMPLES / "mmlu.jsonl", None, None)
    spread = questions[:: max(1, 4 * len(questions) // number)]
    listed = make_case("MMLU", spread, pool, 0, "cyclic").prompts[:number]
    encode = encoder(loaded.tokenizer)
    return [tokenise(encode, ScoringPrompt(text, tuple(labels), question)) for text, labels, question in listed]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", default=["smollm2"], help="smollm2, tiny:TYPE or folders")
    parser.add_argument("--prompts", type=int, default=500)
    parser.add_argument("--dtypes", default="float32,bfloat16")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| model | precision | engine | prompts | largest difference of a probability | root mean square | first choices changed |"
    )
    print("|---" * 7 + "|")
    for name in arguments.models:
        for dtype in arguments.dtypes.split(","):
            if name.startswith("tiny:"):
                loaded = as_loaded(random_model(name.removeprefix("tiny:"), getattr(torch, dtype)))
                prompts = random_prompts(0, arguments.prompts, tokens=60)
            else:
                folder = smollm2(ROOT / "build" / "bench" / "smollm2") if name == "smollm2" else Path(name)
                loaded = load_model(folder, dtype=dtype, device="cpu")
                prompts = sampled_prompts(loaded, arguments.prompts)
            engine = TrieEngine(loaded)
            exact = reference(in_float64(loaded), prompts)
            ways: dict[str, Callable[[], Numbers]] = {
                f"token trie, {engine.settings()['strategy']}": lambda e=engine, p=prompts: e.score_tokens(p).logprobs,
                "transformers": lambda m=loaded, p=prompts: reference(m, p),
            }
            for engine_name, score in ways.items():
                largest, typical, changed = error(score(), exact)
                print(
                    f"| {name} | {dtype} | {engine_name} | {len(prompts)} | {largest:.1e} | {typical:.1e} | {changed} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
