"""Where the trie engine's time goes: `python -m tests.bench.profile_scoring`.

One question of five options in all orders and a subject's questions under `full`, on one thread, by torch's profiler.
The profiler itself slows small operations down, so their share is overstated.
"""

import argparse
from collections import Counter
from pathlib import Path

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile

from tests.bench.prompts import ROOT, SAMPLES, SUBJECT, make_case, read_questions, smollm2
from workers.engine import ScoringPrompt, TrieEngine, load_model

KINDS = {
    "matrix products, those of attention too": ("mkldnn::_linear_pointwise", "mkldnn::_linear"),
    "softmax of attention": ("aten::_softmax", "aten::amax", "aten::sub_", "aten::exp2_", "aten::maximum"),
    "gathering and copying": ("aten::index_select", "aten::cat", "aten::copy_", "aten::index", "aten::clone"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--questions", type=Path, default=SAMPLES / "mmlu.jsonl")
    parser.add_argument("--fewshot", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    all_threads = _ExperimentalConfig(profile_all_threads=True)  # the engine computes in threads of its own
    questions, pool = read_questions(arguments.questions, arguments.fewshot, SUBJECT)
    engine = TrieEngine(load_model(smollm2(ROOT / "build" / "bench" / "smollm2"), device="cpu"))
    for shots, count in ((0, 12), (5, 16)):
        case = make_case("", questions[:count], pool, shots, "full")
        prompts = [ScoringPrompt(text, tuple(labels), question) for text, labels, question in case.prompts]
        engine.score(prompts)
        engine.forget()
        with profile(activities=[ProfilerActivity.CPU], experimental_config=all_threads) as measured:
            engine.score(prompts)
        spent: Counter[str] = Counter()
        for event in measured.key_averages():
            kind = next((kind for kind, names in KINDS.items() if event.key in names), "everything else")
            spent[kind if kind != "everything else" else f"everything else ({event.key})"] += event.self_cpu_time_total
        total = sum(spent.values())
        print(f"\n{shots}-shot, `full`, {count} questions, {len(prompts)} prompts: {total / 1e6:.1f} s in torch")
        for kind, microseconds in spent.most_common(14):
            print(f"{microseconds / total:6.1%}  {kind}")


if __name__ == "__main__":
    main()
