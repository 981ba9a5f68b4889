"""The trie engine, compared with the one-prompt reference on random tries, every type of model, and every setting.

In float64, the difference is due to another order of additions, 1e-12; float32 adds only rounding.
"""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.tiny import (
    CONTEXT,
    VOCABULARY,
    WINDOW,
    as_loaded,
    largest_difference,
    random_model,
    random_prompts,
    reference,
    tiny_model,
    unique_tokens,
)
from tests.support.marks import long_but
from workers.engine import (
    EngineError,
    InterruptedScoringError,
    TokenisedPrompt,
    TrieEngine,
    attention,
    open_engine,
    trie_engine,
)
from workers.engine.forward import HostedForward
from workers.engine.fused import FUSED_TYPES
from workers.engine.products import Products, onednn_serves
from workers.model_types import TRIE_TYPES

EXACT = 1e-9
ROUNDED = 1e-4
ONEDNN = onednn_serves(torch.device("cpu"), torch.float32)
NOT_IN_FLOAT64 = {"mixtral", "qwen3_moe", "gemma2"}
"""transformers has no experts in float64, and Gemma 2's own attention rounds its weights to float32."""

PROMPTS = st.lists(
    st.lists(st.integers(3, 6), min_size=1, max_size=20).map(lambda tokens: TokenisedPrompt(tokens, [0, 5, 90])),
    min_size=1,
    max_size=25,
)


@pytest.fixture(params=[4, 128])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Set the size of attention blocks, to the real size and to one far smaller than the tests' tries."""
    monkeypatch.setattr(attention, "BLOCK", request.param)
    monkeypatch.setattr(trie_engine, "BLOCK", request.param)
    return request.param


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("budget", long_but((7,), (1, 7, 1000)))
@settings(max_examples=15, deadline=None)
@given(PROMPTS)
def test_random_tries_equal_the_reference(budget: int, prompts: list[TokenisedPrompt]) -> None:
    loaded = tiny_model("llama", torch.float64)
    scored = TrieEngine(loaded, budget_tokens=budget).score_tokens(prompts)
    assert largest_difference(scored.logprobs, reference(loaded, prompts)) < EXACT
    assert scored.tokens_computed == unique_tokens(prompts)
    assert scored.tokens_naive == sum(len(prompt.context) for prompt in prompts)


@pytest.mark.parametrize(
    "prompts",
    [
        [TokenisedPrompt([5], [1])],
        [TokenisedPrompt([5], [1, 2]), TokenisedPrompt([5], [2, 1]), TokenisedPrompt([5], [2, 1])],
        [TokenisedPrompt([5, 6, 7][:length], [0, 9]) for length in (3, 1, 2)],
        [TokenisedPrompt([first, 6], [0, 9]) for first in range(10, 90)],
        [TokenisedPrompt([5] * 400, [5, 6])],
        [TokenisedPrompt([5] * 300 + [first] * 40, [5, 6]) for first in range(10, 20)],
    ],
    ids=[
        "one token",
        "duplicates",
        "prefixes of others",
        "nothing shared",
        "one long chain",
        "a long common beginning",
    ],
)
def test_shapes_of_tries_equal_the_reference(prompts: list[TokenisedPrompt]) -> None:
    loaded = tiny_model("llama", torch.float64)
    scored = TrieEngine(loaded).score_tokens(prompts)
    assert largest_difference(scored.logprobs, reference(loaded, prompts)) < EXACT
    assert scored.tokens_computed == unique_tokens(prompts)


# Types of models


@pytest.mark.parametrize("model_type", long_but({*FUSED_TYPES, *NOT_IN_FLOAT64, "gpt2"}, TRIE_TYPES))
def test_every_type_of_model_equals_the_reference(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie_engine, "PIECE_TOKENS", 64)
    loaded = tiny_model(model_type)
    prompts = random_prompts(1)
    engine = TrieEngine(loaded, budget_tokens=50)
    assert engine.settings()["strategy"] == ("fused" if model_type in FUSED_TYPES and ONEDNN else "hosted")
    expected = reference(loaded, prompts)
    scored = engine.score_tokens(prompts)
    assert largest_difference(scored.logprobs, expected) < ROUNDED
    assert scored.tokens_computed == unique_tokens(prompts)
    # The random models differ from token to token, so that a token that is visible by mistake would be noticed.
    assert largest_difference(expected, [expected[0]] * len(expected)) > 0.1


@pytest.mark.parametrize("model_type", sorted(set(TRIE_TYPES) - NOT_IN_FLOAT64))
def test_every_type_of_model_equals_the_reference_in_float64(model_type: str) -> None:
    loaded = tiny_model(model_type, torch.float64)
    prompts = random_prompts(2, 20)
    scored = TrieEngine(loaded, budget_tokens=50).score_tokens(prompts)
    assert largest_difference(scored.logprobs, reference(loaded, prompts)) < EXACT


@pytest.mark.parametrize("model_type", ["mistral", "qwen2", "gemma3_text"])
def test_a_sliding_window_matters_in_these_tests(model_type: str) -> None:
    prompts = random_prompts(1)
    assert max(len(prompt.context) for prompt in prompts) > 2 * WINDOW
    windowed, unlimited = tiny_model(model_type), as_loaded(random_model(model_type, sliding_window=CONTEXT))
    unlimited.model.load_state_dict(windowed.model.state_dict())
    assert largest_difference(reference(windowed, prompts), reference(unlimited, prompts)) > 0.1


def test_int8_weights_are_scored_as_they_are() -> None:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    loaded = as_loaded(random_model("llama"))
    quantize_(loaded.model, Int8WeightOnlyConfig())
    prompts = random_prompts(3)
    engine = TrieEngine(loaded)
    assert engine.settings()["strategy"] == "hosted"
    assert largest_difference(engine.score_tokens(prompts).logprobs, reference(loaded, prompts)) < ROUNDED


def test_bfloat16_is_normalised_in_float32() -> None:
    narrow, wide = tiny_model("llama", torch.bfloat16), tiny_model("llama")
    prompts = random_prompts(4)
    scored = TrieEngine(narrow).score_tokens(prompts).logprobs
    assert largest_difference(scored, reference(wide, prompts)) < 0.5
    every_label = [TokenisedPrompt(prompts[0].context, list(range(VOCABULARY)))]
    (logprobs,) = TrieEngine(narrow).score_tokens(every_label).logprobs
    assert torch.tensor(logprobs, dtype=torch.float64).exp().sum().item() == pytest.approx(1, abs=1e-5)


# Settings that must change no number


def test_numbers_of_the_fast_mode_hardly_depend_on_budget_neighbours_or_order() -> None:
    loaded = tiny_model("llama")
    prompts = random_prompts(5, 40)

    def fast(budget: int | None = None) -> TrieEngine:
        return TrieEngine(loaded, budget_tokens=budget, canonical=False)

    together = fast().score_tokens(prompts).logprobs
    for budget in (3, 64, 200):
        cut = fast(budget).score_tokens(prompts).logprobs
        assert largest_difference(together, cut) < ROUNDED
    backwards = fast().score_tokens(prompts[::-1]).logprobs[::-1]
    assert largest_difference(together, backwards) < ROUNDED
    alone = [fast().score_tokens([prompt]).logprobs[0] for prompt in prompts[:8]]
    assert largest_difference(together[:8], alone) < ROUNDED


@pytest.mark.usefixtures("threads")
def test_the_number_of_threads_changes_no_bit_of_the_fast_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie_engine, "PIECE_TOKENS", 64)
    loaded = tiny_model("llama")
    prompts = random_prompts(6, 60)
    results = []
    for number in (1, 2, 5):
        torch.set_num_threads(number)
        results.append(TrieEngine(loaded, canonical=False).score_tokens(prompts))
        assert torch.get_num_threads() == number
    assert results[0] == results[1] == results[2]


@pytest.fixture
def torch_alone() -> Iterator[None]:
    torch.backends.mkldnn.set_flags(False)
    yield
    torch.backends.mkldnn.set_flags(True)


def settings_and_difference(
    model_type: str, *, packed: bool = True, canonical: bool | None = None
) -> tuple[dict[str, object], float]:
    loaded = tiny_model(model_type)
    prompts = random_prompts(7)
    expected = reference(loaded, prompts)
    engine = TrieEngine(loaded, canonical=canonical)
    if not packed:
        engine._forward = HostedForward(loaded.model, Products(loaded.model, 64, packed=False))
    difference = largest_difference(engine.score_tokens(prompts).logprobs, expected)
    # The model is unchanged: the engine has left nothing in it.
    assert reference(loaded, prompts) == expected
    return engine.settings() | {"packed_weights": engine.packed_weights}, difference


@pytest.mark.parametrize("canonical", [None, False])
def test_every_way_to_multiply_equals_the_reference(canonical: bool | None) -> None:
    for model_type, strategy in (("llama", "fused"), ("qwen3", "hosted")):
        engine_settings, difference = settings_and_difference(model_type, canonical=canonical)
        if ONEDNN:
            assert (engine_settings["strategy"], engine_settings["products"], engine_settings["packed_weights"]) == (
                strategy,
                "onednn",
                True,
            )
            assert engine_settings["canonical"] == (canonical is None)
        assert difference < ROUNDED
    _, difference = settings_and_difference("qwen3", packed=False, canonical=canonical)
    assert difference < ROUNDED


@pytest.mark.usefixtures("torch_alone")
def test_without_onednn_torch_multiplies() -> None:
    engine_settings, difference = settings_and_difference("llama")
    assert (engine_settings["strategy"], engine_settings["products"], engine_settings["packed_weights"]) == (
        "hosted",
        "torch",
        False,
    )
    assert difference < ROUNDED


# Caching between calls


def questions(number: int, first: int = 0) -> list[TokenisedPrompt]:
    """Return prompts of some questions with a common prefix of 60 tokens, two prompts for each question."""
    beginning = [5] * 60
    return [
        TokenisedPrompt([*beginning, 10 + question, 7, 8, variant, 9], [1, 2, 3], group=question)
        for question in range(first, first + number)
        for variant in (20, 21)
    ]


def test_what_questions_share_is_computed_once_for_all_calls() -> None:
    loaded = tiny_model("llama", torch.float64)
    engine = TrieEngine(loaded)
    first, second, third = questions(4), questions(4, first=4), questions(1, first=8)
    assert engine.score_tokens(first).tokens_computed == unique_tokens(first)
    for prompts in (second, third):
        scored = engine.score_tokens(prompts)
        assert scored.tokens_computed == unique_tokens(prompts) - 60
        assert largest_difference(scored.logprobs, reference(loaded, prompts)) < EXACT
    engine.forget()
    assert engine.score_tokens(second).tokens_computed == unique_tokens(second)


def test_one_question_after_another_shares_the_beginning_too() -> None:
    loaded = tiny_model("llama", torch.float64)
    engine = TrieEngine(loaded)
    engine.score_tokens(questions(1))
    scored = engine.score_tokens(questions(1, first=1))
    assert scored.tokens_computed == unique_tokens(questions(1, first=1)) - 60
    assert largest_difference(scored.logprobs, reference(loaded, questions(1, first=1))) < EXACT


def test_a_prompt_that_ends_within_a_kept_beginning_is_read_there() -> None:
    loaded = tiny_model("llama", torch.float64)
    engine = TrieEngine(loaded)
    engine.score_tokens(questions(3))
    prompts = [*questions(3, first=3), TokenisedPrompt([5] * 30, [1, 2]), TokenisedPrompt([5] * 60, [1, 2])]
    scored = engine.score_tokens(prompts)
    assert largest_difference(scored.logprobs, reference(loaded, prompts)) < EXACT
    assert scored.tokens_computed == unique_tokens(prompts) - 29


@settings(max_examples=15, deadline=None)
@given(st.lists(PROMPTS, min_size=2, max_size=4))
def test_kept_beginnings_change_no_number(calls: list[list[TokenisedPrompt]]) -> None:
    loaded = tiny_model("llama", torch.float64)
    engine = TrieEngine(loaded, budget_tokens=40)
    beginning = [8] * 20
    for prompts in calls:
        longer = [
            replace(prompt, context=beginning + prompt.context, group=number % 3)
            for number, prompt in enumerate(prompts)
        ]
        scored = engine.score_tokens(longer)
        assert largest_difference(scored.logprobs, reference(loaded, longer)) < EXACT


def test_kept_beginnings_stay_within_their_memory() -> None:
    loaded = tiny_model("llama")
    engine = TrieEngine(loaded)
    engine.score_tokens(questions(2))
    kept_bytes = engine._kept.bytes
    assert kept_bytes == 60 * 2 * 3 * 2 * 8 * 4  # tokens × (keys and values) × layers × key heads × head size × bytes
    engine._kept.limit_bytes = 3 * kept_bytes
    for token in range(10, 20):
        prompts = [replace(p, context=[token] * 60 + p.context[60:]) for p in questions(2)]
        engine.score_tokens(prompts)
        assert engine._kept.bytes <= 3 * kept_bytes
    assert engine.score_tokens(prompts).tokens_computed == unique_tokens(prompts) - 60


# Limits


def test_scoring_stops_between_passes_when_asked() -> None:
    calls: list[int] = []

    def should_stop() -> bool:
        calls.append(threading.get_ident())
        return len(calls) == 3

    engine = TrieEngine(tiny_model("llama"), budget_tokens=10)
    with pytest.raises(InterruptedScoringError):
        engine.score_tokens(random_prompts(9), should_stop=should_stop)
    assert len(calls) == 3


def test_a_prompt_longer_than_the_model_s_context_is_refused() -> None:
    with pytest.raises(EngineError, match=rf"a prompt has {CONTEXT + 1} tokens, but the model's context is {CONTEXT}"):
        TrieEngine(tiny_model("llama")).score_tokens([TokenisedPrompt([5] * (CONTEXT + 1), [1])])


def test_memory_too_small_for_a_pass_is_refused_with_the_needed_size() -> None:
    engine = TrieEngine(tiny_model("llama"), memory_bytes=1 << 20)
    with pytest.raises(EngineError, match=r"takes about \d+ MiB besides the model, but 1 MiB are allowed"):
        engine.score_tokens(random_prompts(9))


def test_no_prompts_have_no_scores() -> None:
    assert TrieEngine(tiny_model("llama")).score_tokens([]).logprobs == []


REFUSED = {
    "other type": ("bloom", {"n_head": 4, "n_layer": 2}, "models of type 'bloom' have not been compared"),
    "long rotary embedding": (
        "phi3",
        {
            "original_max_position_embeddings": 64,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "short_factor": [1.0] * 4,
                "long_factor": [2.0] * 4,
                "original_max_position_embeddings": 64,
            },
        },
        "its rotary embedding depends on the length of the text",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_unverified_model_type_is_refused_and_scored_in_batches(case: str) -> None:
    model_type, own, reason = REFUSED[case]
    loaded = as_loaded(random_model(model_type, **own))
    with pytest.raises(EngineError, match=reason):
        TrieEngine(loaded)
    engine = open_engine(loaded)
    assert engine.settings()["engine"] == "transformers-batched"
    assert reason in str(engine.settings()["because"])


def test_an_unknown_engine_is_refused_by_name() -> None:
    with pytest.raises(EngineError, match="unknown engine 'fast'; use one of trie, batched, reference"):
        open_engine(tiny_model("llama"), "fast")
