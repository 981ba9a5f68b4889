"""Attention on a GPU is compiled a few times for a model, whatever passes it meets.

torch compiles anew for each combination of layouts and sizes that it cannot treat as one, and after some of them goes
on with a form that holds the scores of all pairs. What is compiled here is not run on a GPU, and need not be.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

from tests.engine.tiny import random_prompts, tiny_model
from workers.engine import TokenisedPrompt, TrieEngine, flex
from workers.engine.attention import BLOCK
from workers.engine.forward import HostedForward


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Everything that is compiled, as it is compiled."""
    compiled: list[Any] = []

    def keep(graph: Any, _inputs: Any) -> Any:
        compiled.append(graph)
        return graph

    torch._dynamo.reset()
    monkeypatch.setattr(flex, "flex_attention", torch.compile(flex_attention, backend=keep, fullgraph=True))
    yield compiled
    torch._dynamo.reset()


def test_one_form_of_attention_serves_all_passes_and_windows(forms: list[Any]) -> None:
    # One token; passes as long as a block, longer, and off its multiples, after no path, a short one and a long one.
    chain = [TokenisedPrompt([5] * (2 * BLOCK + 44), [1, 2])]
    calls = [(chain, BLOCK), (chain, 1000), ([TokenisedPrompt([5], [1])], 1000), (random_prompts(3, 30), 2 * BLOCK + 9)]
    for model_type in ("gemma3_text", "llama"):  # layers with a window and without one
        loaded = tiny_model(model_type)
        for prompts, budget in calls:
            engine = TrieEngine(loaded, budget_tokens=budget)
            engine._forward = HostedForward(loaded.model, None, by_flex=True)
            engine.score_tokens(prompts)
    # The first is for the sizes that came first, and then sizes are left open.
    assert len(forms) <= 3
