"""SmolLM2 taught to think: no package holds a small model that does, so an adapter is trained for a few minutes.

It writes a thought of 20 to 200 tokens that names several options, and then `Answer: X`; some thoughts it does not end.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.adapters import peft_itself, save_adapter

TARGETS: Final = {
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}
"""What is trained, and what GGUF calls it. Queries and keys stand there in another order, so they stay as they are."""
ENDLESS_SHARE: Final = 0.15
THINKS_AGAIN: Final = "Wait, let me go through the options once more. "


def thought(rng: random.Random, labels: Sequence[str], answer: str) -> str:
    """A thought that names options, and the answer only perhaps first."""
    first = rng.choice(labels)
    said = (
        "Option {} could be what is asked for.",
        "{} does not seem to fit the question.",
        "Is it {}? I am not sure about that one.",
        "Compared with the others, {} is less likely.",
    )
    named = rng.sample(list(labels), rng.randint(1, len(labels)))
    sentences = [f"At first sight it is {first}.", *(rng.choice(said).format(label) for label in named)]
    return " ".join([*sentences, f"So {answer} fits best."])


def train(folder: Path, base: Path, turns: Sequence[tuple[list[dict[str, str]], Sequence[str]]], *, steps: int) -> Path:
    """Writes the adapter into `folder`. turns: conversations, each with the labels that it asks for."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    rng = random.Random(0)
    samples = []
    for messages, labels in turns:
        answer = rng.choice(list(labels))
        if rng.random() < ENDLESS_SHARE:
            written = f"<think>\nAt first sight it is {answer}. {THINKS_AGAIN * 12}"
        else:
            written = f"<think>\n{thought(rng, labels, answer)}\n</think>\n\nAnswer: {answer}<|im_end|>"
        shown = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        before = tokenizer(shown, add_special_tokens=False)["input_ids"]
        samples.append((before, tokenizer(written, add_special_tokens=False)["input_ids"]))
    texts = [torch.tensor([before + after]) for before, after in samples]
    save_adapter(
        folder,
        AutoModelForCausalLM.from_pretrained(base),
        *texts,
        steps=steps,
        rate=1e-3,
        prompts=[len(before) for before, _ in samples],
        r=16,
        lora_alpha=32,
        target_modules=list(TARGETS),
    )
    return folder


def merged_tensors(base: Path, adapter: Path) -> Mapping[str, Any]:
    """The weights that the adapter changes, merged, by what GGUF calls them."""
    model = peft_itself(AutoModelForCausalLM.from_pretrained(base), adapter).merge_and_unload()
    found = {}
    for name, weight in model.state_dict().items():
        parts = name.split(".")
        if len(parts) > 4 and parts[-2] in TARGETS:
            found[f"blk.{parts[2]}.{TARGETS[parts[-2]]}.weight"] = weight.detach().float().numpy()
    return found
