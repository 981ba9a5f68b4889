"""Low-rank adapters, trained for a moment with PEFT."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXT = "Question: Which is the capital of France?\nA. Lyon\nB. Paris\nC. Nice\nAnswer: A"


def peft_itself(model: Any, folder: Path) -> Any:
    """A model, which is changed, with an adapter as PEFT loads it."""
    with _without_remarks():
        return PeftModel.from_pretrained(model, folder).eval()


def train_adapter(folder: Path, base: Path, *, steps: int = 4, rate: float = 0.02, **options: Any) -> Path:
    """Writes an adapter of the model in `base`, trained on one text, into `folder`."""
    tokens = torch.tensor([AutoTokenizer.from_pretrained(base)(TEXT)["input_ids"]])
    save_adapter(folder, AutoModelForCausalLM.from_pretrained(base), tokens, steps=steps, rate=rate, **options)
    return folder


def save_adapter(
    folder: Path, model: Any, tokens: torch.Tensor, *, steps: int = 4, rate: float = 0.02, **options: Any
) -> None:
    """Trains an adapter of a model, which is changed, on tokens (1, length) and writes it."""
    given: dict[str, Any] = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"]} | options
    with torch.random.fork_rng(), _without_remarks():
        torch.manual_seed(0)
        adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **given))
    adapted.train()
    trained = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=rate)
    for _ in range(steps):
        adapted(input_ids=tokens, labels=tokens).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    adapted.save_pretrained(folder)


@contextmanager
def _without_remarks() -> Iterator[None]:
    """PEFT still asks transformers for a property under its old name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        yield
