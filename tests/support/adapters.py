"""Low-rank adapters, which are trained for a few steps with PEFT."""

import itertools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from sqlalchemy import Engine, select
from transformers import AutoModelForCausalLM, AutoTokenizer

from registry.db import read_session
from registry.predictions.prompts import prompts_of
from registry.tables import Evaluation, EvaluationQuestion, Prediction, Question

TEXT = "Question: Which is the capital of France?\nA. Lyon\nB. Paris\nC. Nice\nAnswer: A"


def peft_itself(model: Any, folder: Path) -> Any:
    """Return the model with an adapter as PEFT loads it; this changes the model."""
    with omit_remarks():
        return PeftModel.from_pretrained(model, folder).eval()


def train_adapter(
    folder: Path, base: Path, texts: Sequence[str] = (TEXT,), *, steps: int = 4, rate: float = 0.02, **options: Any
) -> Path:
    """Train an adapter of the model in `base` on each text in turn, and write it into `folder`."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokens = [torch.tensor([tokenizer(text)["input_ids"]]) for text in texts]
    save_adapter(folder, AutoModelForCausalLM.from_pretrained(base), *tokens, steps=steps, rate=rate, **options)
    return folder


def save_adapter(
    folder: Path,
    model: Any,
    *texts: torch.Tensor,
    steps: int = 4,
    rate: float = 0.02,
    prompts: Sequence[int] = (),
    **options: Any,
) -> None:
    """Train an adapter of a model, which this changes, on tokens (1, length) of a text per step, and write it.

    prompts: how many tokens at the beginning of each text are not learned; empty if all are learned.
    """
    configuration: dict[str, Any] = {
        "r": 4,
        "lora_alpha": 8,
        "target_modules": ["q_proj", "v_proj", "down_proj"],
    } | options
    with torch.random.fork_rng(), omit_remarks():
        torch.manual_seed(0)
        adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **configuration))
    adapted.train()
    trained = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=rate)
    samples = zip(texts, prompts or [0] * len(texts), strict=True)
    for tokens, prompt in itertools.islice(itertools.cycle(list(samples)), steps):
        labels = tokens.clone()
        labels[:, :prompt] = -100
        adapted(input_ids=tokens, labels=labels).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    adapted.save_pretrained(folder)


def check_against_peft(engine: Engine, evaluation_id: int, base: Path, adapter: Path, tolerance: float) -> int:
    """Compare each label's stored value with PEFT's forward pass; return the number of prompts."""
    model = peft_itself(AutoModelForCausalLM.from_pretrained(base), adapter)
    tokenizer = AutoTokenizer.from_pretrained(base)
    with read_session(engine) as session:
        evaluation = session.get_one(Evaluation, evaluation_id)
        question_ids = select(EvaluationQuestion.question_id).filter_by(evaluation_id=evaluation_id)
        questions = session.scalars(select(Question).where(Question.id.in_(question_ids))).all()
        items = list(prompts_of(session, evaluation, list(questions)))
        stored_logprobs = {
            (row.question_id, row.variant): row.label_logprobs
            for row in session.scalars(select(Prediction).where(Prediction.evaluation_id == evaluation_id))
        }
    assert len(items) == len(stored_logprobs)
    for item in items:
        context = tokenizer(item.prompt.text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logprobs = model(context).logits[0, -1].log_softmax(-1)
        labels = [tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in item.prompt.continuations]
        stored = stored_logprobs[item.question_id, item.variant.ordinal]
        assert stored == pytest.approx(logprobs[labels].tolist(), abs=tolerance)
    return len(items)


@contextmanager
def omit_remarks() -> Iterator[None]:
    """Suppress a warning of PEFT, which uses a deprecated name of transformers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        yield
