"""Texts that a model writes, which depend only on prompt, seed and parameters, not on the rest of the batch."""

import copy
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
import torch
from tokenizers import decoders
from transformers import GenerationConfig

from tests.engine.tiny import CONTEXT, as_loaded, random_model
from tests.engine.tokenizers import letters, tokenizer_of_kind
from workers.engine import (
    EngineError,
    Generated,
    GenerationPrompt,
    InterruptedScoringError,
    LoadedModel,
    effective_parameters,
)
from workers.engine.generation import SeededDraw, ThoughtLimit, generate_counted, gumbel_noise, split_mix_64

GREEDY = {
    "sampling": "greedy",
    "temperature": "0.6",
    "top_k": 20,
    "top_p": "0.95",
    "min_p": "0",
    "seed": 0,
    "max_tokens": 12,
    "stop": [],
}
# The temperature is high enough for a random model to write different texts.
GIVEN = GREEDY | {"sampling": "given", "temperature": "1.5"}
MODEL = GREEDY | {"sampling": "model", "temperature": "1.5"}
TYPES = ("llama", "gpt2", "opt", "gemma3_text", "mistral")
"""Models with rotary and learned positions, and with windows shorter than the prompts."""

LARGE = 10_000


def join_letters() -> Any:
    """Return a tokenizer of the tiny models' letters, which writes no spaces between them."""
    tokenizer = copy.deepcopy(letters())
    tokenizer.backend_tokenizer.decoder = decoders.Fuse()
    return tokenizer


def tiny(model_type: str = "llama", **generation_config: Any) -> LoadedModel:
    """Return a new model with the given options of its generation configuration."""
    model = random_model(model_type)
    model.config.eos_token_id = None  # random models meet any token soon
    model.generation_config = GenerationConfig(**generation_config)
    return as_loaded(model, join_letters())


def some_prompts(count: int = 9, seed: int = 0) -> list[GenerationPrompt]:
    rng = Random(seed)
    texts = ["".join(rng.choices("abcdexyz ", k=rng.randint(1, 40))) for _ in range(count)]
    return [GenerationPrompt(text, f"prompt {place}") for place, text in enumerate(texts)]


def generate(*given: Any, **named: Any) -> list[Generated]:
    return generate_counted(*given, **named)[0]


def write(
    loaded: LoadedModel, prompts: Sequence[GenerationPrompt], generation: Mapping[str, Any], budget: int = LARGE
) -> list[str]:
    return [generated.text for generated in generate(loaded, prompts, generation, budget_tokens=budget)]


def argmax_loop(loaded: LoadedModel, text: str, tokens: int, penalty: float = 1.0) -> str:
    """Generate with a slow reference: one prompt, no padding, no cache."""
    ids = loaded.tokenizer(text)["input_ids"]
    start = len(ids)
    for _ in range(tokens):
        with torch.no_grad():
            logits = loaded.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
        for token in set(ids):
            logits[token] = logits[token] * penalty if logits[token] < 0 else logits[token] / penalty
        ids.append(int(logits.argmax()))
    return str(loaded.tokenizer.decode(ids[start:], skip_special_tokens=True))


# Greedy


@pytest.mark.parametrize("model_type", TYPES)
def test_greedy_equals_a_loop_over_the_most_likely_tokens(model_type: str) -> None:
    loaded = tiny(model_type)
    prompts = some_prompts()
    expected = [argmax_loop(loaded, prompt.text, 12) for prompt in prompts]
    assert write(loaded, prompts, GREEDY) == expected
    assert write(loaded, prompts, GREEDY, budget=120) == expected
    assert len(set(expected)) > 1


def test_the_models_repetition_penalty_counts_the_prompt_without_padding() -> None:
    loaded = tiny(do_sample=False, repetition_penalty=1.7)
    prompts = some_prompts()
    expected = [argmax_loop(loaded, prompt.text, 12, 1.7) for prompt in prompts]
    assert write(loaded, prompts, MODEL) == expected
    assert write(loaded, prompts, GREEDY) != expected


def test_nothing_of_the_model_s_generation_configuration_leaks_in() -> None:
    odd = {
        "repetition_penalty": 1.9,
        "no_repeat_ngram_size": 1,
        "forced_eos_token_id": 5,
        "suppress_tokens": list(range(6, 60)),
        "min_new_tokens": 7,
        "max_length": 5,
        "num_beams": 3,
        "do_sample": True,
        "temperature": 0.1,
        "top_k": 1,
        "top_p": 0.2,
    }
    plain, with_own = tiny(), tiny(**odd)
    kept = with_own.model.generation_config
    before = kept.to_dict()
    prompts = some_prompts(5)
    for generation in (GREEDY, GIVEN):
        assert write(with_own, prompts, generation) == write(plain, prompts, generation)
    assert with_own.model.generation_config is kept
    assert kept.to_dict() == before


# Sampling


@pytest.mark.parametrize("model_type", TYPES)
def test_a_sampled_text_is_the_same_in_any_batch_and_order(model_type: str) -> None:
    loaded = tiny(model_type)
    prompts = some_prompts()
    alone = [write(loaded, [prompt], GIVEN)[0] for prompt in prompts]
    assert write(loaded, prompts, GIVEN) == alone
    assert write(loaded, prompts, GIVEN, budget=150) == alone
    order = Random(1).sample(range(len(prompts)), len(prompts))
    assert write(loaded, [prompts[index] for index in order], GIVEN) == [alone[index] for index in order]


@pytest.mark.parametrize("model_type", TYPES)
def test_what_prompts_share_is_computed_once_and_changes_no_text(model_type: str) -> None:
    loaded = tiny(model_type)
    beginning = "the same instruction before every question "
    prompts = [GenerationPrompt(beginning + "abcde"[:n], f"{n}:{repeat}") for n in (1, 3, 5) for repeat in range(4)]
    alone = [write(loaded, [prompt], GIVEN)[0] for prompt in prompts]
    generated, counted = generate_counted(loaded, prompts, GIVEN, budget_tokens=LARGE)
    assert [output.text for output in generated] == alone
    assert len(set(alone)) == len(alone)
    lengths = [len(loaded.tokenizer(beginning + "abcde"[:n])["input_ids"]) for n in (1, 3, 5)]
    assert counted.prompts == 4 * sum(lengths)
    shared = model_type in ("llama", "gpt2", "opt")  # padding in the middle would move the windows of the others
    assert counted.computed == sum(lengths) - (2 * (lengths[0] - 1) if shared else 0)


def test_rows_that_no_longer_fit_wait_and_go_on_later() -> None:
    loaded = tiny()
    generation = GIVEN | {"max_tokens": 300}
    prompts = some_prompts(6)
    ended: list[int] = []
    texts = generate(loaded, prompts, generation, budget_tokens=1400, done=lambda index, _: ended.append(index))
    assert [output.text for output in texts] == write(loaded, prompts, generation)
    assert [output.tokens for output in texts] == [300] * 6
    assert sorted(ended) == list(range(6))


# Thoughts


@pytest.mark.parametrize("answers", [False, True])
def test_a_thought_at_its_limit_ends_the_text_or_gets_closed(answers: bool) -> None:
    loaded = tiny()
    prompts = some_prompts(4)
    wholes = write(loaded, prompts, GIVEN)
    thinks = {text[:5] for text in wholes[:2]}  # the other texts are answers by then
    limit = ThoughtLimit(5, lambda text: "xyz" if text in thinks else None, answers)
    limited = [GenerationPrompt(prompt.text, prompt.seed_text, limit=limit) for prompt in prompts]
    generated = generate(loaded, limited, GIVEN, budget_tokens=LARGE)
    assert [output.forced for output in generated] == [answers, answers, False, False]
    assert [output.text for output in generated[2:]] == wholes[2:]
    for output, complete in zip(generated[:2], wholes, strict=False):
        assert output.text[:8] == (complete[:5] + "xyz" if answers else complete[:5])
        assert (output.tokens, output.finished) == (12 if answers else 5, False)


def test_special_tokens_that_mark_thoughts_stay_in_the_text_and_others_go() -> None:
    tokenizer = join_letters()
    tokenizer.add_tokens(["<mark>", "<other>"], special_tokens=True)
    model = random_model("llama", vocab_size=len(tokenizer))
    model.generation_config = GenerationConfig()
    model.config.eos_token_id = None
    forced = GenerationPrompt("abc", "x", limit=ThoughtLimit(3, lambda _: "<mark><other>y", answers=True))
    texts = [
        generate(as_loaded(model, tokenizer), [forced], GREEDY, budget_tokens=LARGE, kept_special=kept)[0].text[3:]
        for kept in (lambda text: text == "<mark>", lambda _: False)
    ]
    assert texts[0].startswith("<mark>y")
    assert texts[0].removeprefix("<mark>") == texts[1]


def test_seed_and_seed_text_both_change_what_is_drawn() -> None:
    loaded = tiny()
    prompts = [GenerationPrompt("abc", f"prompt {place}") for place in range(6)]
    texts = write(loaded, prompts, GIVEN)
    assert len(set(texts)) == 6
    others = write(loaded, prompts, GIVEN | {"seed": 1})
    assert not set(texts) & set(others)
    assert write(loaded, prompts, GREEDY | {"seed": 1}) == write(loaded, prompts[:1], GREEDY) * 6


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    rows = 4000
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, -torch.inf, 0.5]).repeat(rows, 1)
    draw = SeededDraw([], 0, [str(row) for row in range(rows)], [3] * rows)
    chosen = Counter(draw(torch.zeros(rows, 3, dtype=torch.long), logits).argmax(dim=1).tolist())
    assert chosen[4] == 0
    for token, share in enumerate(logits[0].softmax(dim=0).tolist()):
        deviation = math.sqrt(rows * share * (1 - share))
        assert abs(chosen[token] - rows * share) <= 3 * deviation


def test_each_step_draws_anew() -> None:
    flat = torch.zeros(200, 50)
    draw = SeededDraw([], 0, [str(row) for row in range(200)], [0] * 200)
    first, second = (draw(torch.zeros(200, step, dtype=torch.long), flat).argmax(dim=1) for step in (0, 1))
    # 200 / 50 = 4 rows agree by chance.
    assert (first == second).sum() < 12


@pytest.mark.parametrize(
    ("parameter", "value", "allowed"), [("top_k", 3, 3), ("top_p", "0.000001", 1), ("min_p", "0.999999", 1)]
)
def test_tokens_outside_top_k_top_p_and_min_p_are_not_drawn(parameter: str, value: object, allowed: int) -> None:
    loaded = tiny()
    wide = GIVEN | {"top_k": 0, "top_p": "1", "min_p": "0", "temperature": "5", "max_tokens": 1}
    prompts = [GenerationPrompt("abc", str(place)) for place in range(60)]
    assert len(set(write(loaded, prompts, wide))) > 10
    texts = set(write(loaded, prompts, wide | {parameter: value}))
    with torch.no_grad():
        logits = loaded.model(input_ids=torch.tensor([loaded.tokenizer("abc")["input_ids"]])).logits[0, -1]
    assert texts == {loaded.tokenizer.decode([token]) for token in logits.topk(allowed).indices.tolist()}


def test_split_mix_64_gives_the_published_outputs() -> None:
    # The first outputs for the seed 1234567, from Rosetta Code's "Pseudo-random numbers/Splitmix64".
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    outputs = split_mix_64(torch.tensor([1234567]), torch.arange(5))
    assert [output % (1 << 64) for output in outputs.tolist()] == expected


def test_noise_is_standard_gumbel_and_finite() -> None:
    noise = gumbel_noise(torch.arange(50), torch.arange(2000).repeat(50, 1))
    assert noise.isfinite().all()
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.02)  # Euler's constant
    assert noise.std().item() == pytest.approx(math.pi / math.sqrt(6), abs=0.02)


# The end of a text


def test_a_text_ends_before_the_first_stop_sequence() -> None:
    loaded = tiny()
    (prompt,) = some_prompts(1)
    (complete,) = generate(loaded, [prompt], GIVEN, budget_tokens=LARGE)
    assert (complete.tokens, complete.finished) == (12, False)
    assert len(complete.text) == 12  # a letter is a token
    stops = [complete.text[8:10], complete.text[4:7]]
    place = min(complete.text.find(stop) for stop in stops)
    (cut,) = generate(loaded, [prompt], GIVEN | {"stop": stops}, budget_tokens=LARGE)
    assert cut.text == complete.text[:place]
    assert (cut.tokens, cut.finished) == (place + len(stops[1]), True)


def test_an_end_of_text_token_ends_only_its_own_row() -> None:
    loaded = tiny()
    prompts = some_prompts()
    wholes = write(loaded, prompts, GIVEN)
    letter = next(letter for letter in wholes[0] if not all(letter in complete for complete in wholes))
    loaded.model.generation_config.eos_token_id = loaded.tokenizer(letter)["input_ids"]
    expected = [
        (complete.partition(letter)[0], complete.find(letter) + 1 or 12, letter in complete) for complete in wholes
    ]
    assert {finished for _, _, finished in expected} == {True, False}
    generated = generate(loaded, prompts, GIVEN, budget_tokens=LARGE)
    assert [(output.text, output.tokens, output.finished) for output in generated] == expected


def test_a_stop_sequence_in_the_prompt_stops_nothing() -> None:
    loaded = tiny()
    stop = "\nQ"
    prompts = [GenerationPrompt("\nQ ab\nQ", "x"), GenerationPrompt("a\n", "y")]
    assert write(loaded, prompts, GIVEN | {"stop": [stop]}) == [
        text.partition(stop)[0] for text in write(loaded, prompts, GIVEN)
    ]


def test_every_end_that_is_known_is_an_end() -> None:
    loaded = tiny(eos_token_id=[7, 5])
    loaded.model.config.eos_token_id = 9
    assert effective_parameters(loaded, GREEDY)["end_tokens"] == [5, 7, 9]


# Parameters


GIVEN_VALUES = {"temperature": "0.6", "top_k": 20, "top_p": "0.95", "min_p": "0", "seed": 0, "from_model": []}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, {"do_sample": True, **GIVEN_VALUES}),
        (
            {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "repetition_penalty": 1.05},
            {
                "do_sample": True,
                **GIVEN_VALUES,
                "temperature": "0.7",
                "top_p": "0.8",
                "from_model": ["temperature", "top_p"],
            }
            | {"repetition_penalty": "1.05"},
        ),
        ({"top_k": 0}, {"do_sample": True, **GIVEN_VALUES, "top_k": 0, "from_model": ["top_k"]}),
        ({"do_sample": False, "repetition_penalty": 1.2}, {"do_sample": False, "repetition_penalty": "1.2"}),
        ({"temperature": 0.0}, {"do_sample": False}),
    ],
)
def test_the_model_s_own_values_stand_where_it_has_them(own: dict[str, Any], expected: dict[str, object]) -> None:
    always = {"sampling": "model", "repetition_penalty": "1.0", "max_tokens": 12, "stop": [], "end_tokens": []}
    assert effective_parameters(tiny(**own), GREEDY | {"sampling": "model"}) == always | expected


def test_given_and_greedy_take_nothing_from_the_model() -> None:
    loaded = tiny(do_sample=False, temperature=0.3, repetition_penalty=1.5)
    effective = effective_parameters(loaded, GREEDY | {"sampling": "given", "stop": ["\nQuestion:"]})
    assert effective == GIVEN_VALUES | {
        "sampling": "given",
        "do_sample": True,
        "repetition_penalty": "1.0",
        "max_tokens": 12,
        "stop": ["\nQuestion:"],
        "end_tokens": [],
    }
    assert effective_parameters(loaded, GREEDY) == {
        "sampling": "greedy",
        "do_sample": False,
        "repetition_penalty": "1.0",
        "max_tokens": 12,
        "stop": [],
        "end_tokens": [],
    }


def test_what_was_used_comes_with_each_text() -> None:
    loaded = tiny()
    (generated,) = generate(loaded, some_prompts(1), GIVEN, budget_tokens=LARGE)
    assert generated.parameters == effective_parameters(loaded, GIVEN)


@pytest.mark.parametrize(("parameter", "value"), [("temperature", "-1"), ("top_p", "1.5"), ("min_p", "2")])
def test_parameters_that_cannot_be_used_are_named(parameter: str, value: str) -> None:
    with pytest.raises(
        EngineError, match=rf"generation parameters cannot be used: .*{parameter}.*correct the protocol"
    ):
        generate(tiny(), some_prompts(1), GIVEN | {parameter: value}, budget_tokens=LARGE)
    with pytest.raises(EngineError, match="unknown sampling 'beam'; use model, given or greedy"):
        effective_parameters(tiny(), GREEDY | {"sampling": "beam"})


# Prompts


def test_a_prompt_that_does_not_fit_with_what_may_follow_is_refused() -> None:
    loaded = tiny()
    long = GenerationPrompt("a" * (CONTEXT - 12), "x")
    assert generate(loaded, [long], GREEDY, budget_tokens=LARGE)[0].tokens == 12
    with pytest.raises(
        EngineError, match=rf"{CONTEXT - 12} tokens and up to 13 may follow, .* is {CONTEXT}; use fewer"
    ):
        generate(loaded, [long], GREEDY | {"max_tokens": 13}, budget_tokens=LARGE)
    with pytest.raises(EngineError, match="no tokens to continue"):
        generate(loaded, [GenerationPrompt("", "x")], GREEDY, budget_tokens=LARGE)


def test_a_text_ends_where_the_context_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.engine.generation.LEAST_ROOM", 20)
    prompts = [GenerationPrompt("a" * (CONTEXT - 30), "x"), GenerationPrompt("a", "y")]
    ended = generate(tiny(), prompts, GREEDY | {"max_tokens": 40}, budget_tokens=LARGE)
    assert [(output.tokens, output.finished) for output in ended] == [(30, False), (40, False)]


@pytest.mark.parametrize(
    ("kind", "chat", "text", "first"),
    [
        ("llama3", False, "Answer: A", [1]),
        ("llama3", True, "Answer: A", [1]),
        ("llama3", True, "<s>Answer: A", [1]),
        ("gpt2", True, "Answer: A", []),
        ("ending", False, "Answer: A", []),  # its token for the end of a text is left out
    ],
)
def test_special_tokens_of_a_prompt(kind: str, chat: bool, text: str, first: list[int]) -> None:
    tokenizer = tokenizer_of_kind(kind)
    shown: list[list[int]] = []
    loaded = as_loaded(random_model("llama", vocab_size=len(tokenizer)), tokenizer)
    loaded.model.register_forward_pre_hook(
        lambda _module, _args, kwargs: shown.append(kwargs["input_ids"][0].tolist()), with_kwargs=True
    )
    generate(loaded, [GenerationPrompt(text, "x", chat)], GREEDY | {"max_tokens": 1}, budget_tokens=LARGE)
    assert shown == [first + tokenizer("Answer: A", add_special_tokens=False)["input_ids"]]


def test_no_prompts_give_no_texts() -> None:
    assert generate(tiny(), [], GREEDY, budget_tokens=LARGE) == []


def test_stopping_is_asked_after_each_step() -> None:
    loaded = tiny()
    asked = 0

    def at_the_fifth() -> bool:
        nonlocal asked
        asked += 1
        return asked == 5

    with pytest.raises(InterruptedScoringError):
        generate(loaded, some_prompts(2), GREEDY, budget_tokens=LARGE, should_stop=at_the_fifth)
    assert asked == 5
    generated = generate(loaded, some_prompts(2), GREEDY, budget_tokens=LARGE, should_stop=lambda: False)
    assert [type(output) for output in generated] == [Generated, Generated]


def test_logits_that_are_no_numbers_are_refused() -> None:
    loaded = tiny()
    with torch.no_grad():
        loaded.model.get_output_embeddings().weight[3] = torch.nan
    for generation in (GREEDY, GIVEN):
        with pytest.raises(EngineError, match="not numbers, so no token can be chosen; load it with a wider dtype"):
            generate(loaded, some_prompts(2), generation, budget_tokens=LARGE)
