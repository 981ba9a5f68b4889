"""An adapter that teaches SmolLM2 to think, trained in a few minutes, since no package contains a small thinking model.

It writes a thought of 20 to 200 tokens that names several options, and then `Answer: X`; some thoughts do not end.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from registry.benchmarks.contract import read_benchmark
from registry.predictions.prompts import ShardPrompt
from registry.prompting.prompts import Prompt, QuestionText, build_prompt
from registry.prompting.protocols.custom import custom_definition
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.reading import Reading, read
from registry.prompting.variants import QuestionShape, parse_variants
from tests.support.adapters import peft_itself, save_adapter
from tests.support.population import MMLU
from workers.written import Written

TARGETS: Final = {
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}
"""Trained weights and their names in GGUF. Queries and keys are ordered differently there, so they are not trained."""
STEPS: Final = 140
"""Number of training steps, which take three minutes on one core."""
OPENING: Final = "{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}"
"""The end of the template, which begins the thought."""
THINKS_AGAIN: Final = "Wait, let me go through the options once more. "


def thinking(question: str, labels: Sequence[str]) -> str:
    """Return the text to write after a question, with a thought that depends on the question's first word.

    "Which" gets a thought without an end, a word of up to three letters a thought about all options, others a short
    thought.
    """
    first = question.split()[0]
    begun = f'<think>\nThe question begins with "{first}". '
    if first == "Which":
        return f"{begun}{THINKS_AGAIN * 12}"
    long = len(first) <= 3
    named = labels if long else labels[:1]
    sentences = " ".join(f"Option {label} could be what is asked for, but I am not sure." for label in named)
    answer = labels[1] if long else labels[2]
    return f"{begun}At first sight it is {labels[0]}. {sentences} So {answer} fits best.\n</think>\n\nAnswer: {answer}<|im_end|>"


def train(folder: Path, base: Path) -> None:
    """Train an adapter of the model in `base` and write it into `folder`."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    samples = []
    for item in items(protocol(), slice(10, 130)):
        messages, labels = turns(item.prompt)
        shown = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        before = tokenizer(shown, add_special_tokens=False)["input_ids"]
        after = tokenizer(thinking(item.question.text, labels), add_special_tokens=False)["input_ids"]
        samples.append((before, after))
    texts = [torch.tensor([before + after]) for before, after in samples]
    save_adapter(
        folder,
        AutoModelForCausalLM.from_pretrained(base),
        *texts,
        steps=STEPS,
        rate=1e-3,
        prompts=[len(before) for before, _ in samples],
        r=16,
        lora_alpha=32,
        target_modules=list(TARGETS),
    )


def merge_tensors(base: Path, adapter: Path) -> Mapping[str, Any]:
    """Return the weights that the adapter changes after merging, by their GGUF names."""
    model = peft_itself(AutoModelForCausalLM.from_pretrained(base), adapter).merge_and_unload()
    tensors = {}
    for name, weight in model.state_dict().items():
        parts = name.split(".")
        if len(parts) > 4 and parts[-2] in TARGETS:
            tensors[f"blk.{parts[2]}.{TARGETS[parts[-2]]}.weight"] = weight.detach().float().numpy()
    return tensors


def protocol(**generation: Any) -> dict[str, Any]:
    settings = {"sampling": "greedy", "max_tokens": 220, **generation}
    document = {"name": "thinking", "base": "final-answer", "generation": settings}
    return {**protocol_definition("final-answer"), **custom_definition(document, "here")}


def items(definition: dict[str, Any], chosen: slice, variants: str = "original") -> list[ShardPrompt]:
    collected = []
    for number, record in enumerate(read_benchmark(MMLU).questions[chosen]):
        question = QuestionText(
            record.external_id, record.subject, record.context, record.text, record.options, record.answer
        )
        if len(question.text) + sum(map(len, question.options)) > 400:
            continue
        shape = QuestionShape(question.external_id, len(question.options), question.answer)
        for variant in parse_variants(variants).variants(shape):
            prompt = build_prompt(definition, question, variant)
            collected.append(ShardPrompt(1, number, question, variant, prompt, len(collected), {}))
    return collected


def turns(prompt: Prompt) -> tuple[list[dict[str, str]], Sequence[str]]:
    assert prompt.messages is not None
    return [{"role": turn.role, "content": turn.content} for turn in prompt.messages], prompt.answers


def ask(model: Any, definition: dict[str, Any], prompts: list[ShardPrompt]) -> tuple[list[Written], int, int]:
    seeds = [item.prompt.digest for item in prompts]
    outcome: tuple[list[Written], int, int] = model.write(prompts, seeds, definition, lambda: False)
    return outcome


def readings(definition: dict[str, Any], prompts: list[ShardPrompt], written: list[Written]) -> list[Reading]:
    return [
        read(definition, answer.output, item.prompt.answers, item.prompt.options)
        for item, answer in zip(prompts, written, strict=True)
    ]


def compare(
    ours: Sequence[Reading], here: Sequence[Written], theirs: Sequence[Reading], there: Sequence[Written]
) -> int:
    """Check that equal texts of two routes have the same state, answer and nearly the same tokens; return their number.

    The other texts differ because of the last bits of float32.
    """
    same = 0
    for one, other, mine, served in zip(ours, theirs, here, there, strict=True):
        # A server that separates thoughts from answers gives an empty answer if the thought did not end.
        if (one.divided.thought, one.divided.answer or "") == (other.divided.thought, other.divided.answer or ""):
            same += 1
            assert (one.state, one.position) == (other.state, other.position)
            assert mine.thought_tokens is not None
            assert served.thought_tokens is not None
            assert abs(served.thought_tokens - mine.thought_tokens) <= 4
    return same
