"""Continuations of many tokens on the trie, in batches and one by one, and the common behaviour of the engines."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.tiny import VOCABULARY, as_loaded, largest_difference, random_model
from tests.engine.tokenizers import letters, tokenizer_of_kind
from workers.engine import (
    ENGINES,
    EngineError,
    InterruptedScoringError,
    LoadedModel,
    ScoringPrompt,
    continuations_reference,
    open_engine,
    score_reference,
)
from workers.engine.reference import next_token_logprobs
from workers.tokens import encoder, tokenise, tokenise_continuations

EXACT = 1e-9


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return as_loaded(random_model("llama", torch.float64), letters())


TEXT = st.text("abcx", min_size=1, max_size=12)
PROMPT = st.builds(
    lambda text, options: ScoringPrompt(text, tuple(" " + option for option in options)),
    TEXT,
    st.lists(TEXT, min_size=1, max_size=5),
)


@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=20, deadline=None)
@given(st.lists(PROMPT, min_size=1, max_size=12))
def test_sums_equal_the_reference(loaded: LoadedModel, name: str, prompts: list[ScoringPrompt]) -> None:
    scored = open_engine(loaded, name).score_continuations(prompts)
    expected = continuations_reference(loaded, prompts)
    assert [len(values) for values in scored.logprobs] == [len(prompt.continuations) for prompt in prompts]
    assert largest_difference(scored.logprobs, expected.logprobs) < EXACT
    assert scored.tokens_naive == expected.tokens_naive
    assert scored.tokens_computed <= expected.tokens_computed


def test_a_sum_is_the_sum_over_the_continuation_s_tokens(loaded: LoadedModel) -> None:
    (values,) = continuations_reference(loaded, [ScoringPrompt("xyz", (" cd", " c"))]).logprobs
    context, tokens = encoder(loaded.tokenizer)("xyz"), encoder(loaded.tokenizer)(" cd")
    assert len(tokens) == 3
    logprobs = next_token_logprobs(loaded, context + tokens)
    by_hand = [logprobs[len(context) - 1 + place, token].item() for place, token in enumerate(tokens)]
    assert values == pytest.approx([sum(by_hand), sum(by_hand[:2])])


def test_shared_tokens_of_continuations_are_computed_once(loaded: LoadedModel) -> None:
    prompts = [ScoringPrompt("the question", (" one apple", " one pear", " one"))]
    scored = open_engine(loaded).score_continuations(prompts)
    # The last token of a continuation is only read. 12 of the question, 9 of " one appl", 4 of "pea" after " one ".
    assert scored.tokens_computed == len("the question") + len(" one appl") + len("pea")
    assert scored.tokens_naive == 3 * len("the question") + len(" one appl") + len(" one pea") + len(" on")


def test_equal_options_have_equal_sums(loaded: LoadedModel) -> None:
    (values,) = open_engine(loaded).score_continuations([ScoringPrompt("x", (" yes", " no", " yes"))]).logprobs
    assert values[0] == values[2] != values[1]


def test_a_continuation_that_merges_with_the_prompt_includes_the_merged_token(loaded: LoadedModel) -> None:
    # "ab" is one token: after "xa" the continuation "b" begins before the prompt ends, for all continuations.
    tokenised = tokenise_continuations(encoder(loaded.tokenizer), ScoringPrompt("xa", ("b", "c")))
    assert [len(tokenised.context), *map(len, tokenised.continuations)] == [1, 1, 2]
    (values,) = open_engine(loaded).score_continuations([ScoringPrompt("xa", ("b", "c"))]).logprobs
    assert values == pytest.approx(continuations_reference(loaded, [ScoringPrompt("xa", ("b", "c"))]).logprobs[0])


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("special", ["bos_token", "eos_token"])
def test_after_an_empty_text_a_continuation_begins_the_text(name: str, special: str) -> None:
    """Check a tokenizer that adds no special token, whose own special token represents the empty text."""
    loaded = as_loaded(random_model("llama", torch.float64), letters(**{special: "$"}))
    (values,) = open_engine(loaded, name).score_continuations([ScoringPrompt("", ("cd", "c"))]).logprobs
    (start,), tokens = encoder(loaded.tokenizer)("$"), encoder(loaded.tokenizer)("cd")
    logprobs = next_token_logprobs(loaded, [start, *tokens])
    by_hand = [logprobs[place, token].item() for place, token in enumerate(tokens)]
    assert values == pytest.approx([sum(by_hand), by_hand[0]])


def test_a_tokenizer_s_own_beginning_is_not_doubled() -> None:
    encode = encoder(tokenizer_of_kind("llama3"))
    assert encode("") == [1]
    tokenised = tokenise_continuations(encode, ScoringPrompt("", (" Paris", " London")))
    assert tokenised.context == [1]
    assert all(1 not in ids for ids in tokenised.continuations)


def test_after_an_empty_text_a_tokenizer_without_special_tokens_cannot_begin(loaded: LoadedModel) -> None:
    with pytest.raises(EngineError, match="gives 'cd' no token of its own"):
        open_engine(loaded).score_continuations([ScoringPrompt("", ("cd", "c"))])


def test_a_continuation_without_a_token_is_refused(loaded: LoadedModel) -> None:
    for continuations in (("",), (" a", "")):
        with pytest.raises(EngineError, match="gives '' no token of its own"):
            open_engine(loaded).score_continuations([ScoringPrompt("x", continuations)])
    with pytest.raises(EngineError, match="no continuation to score"):
        open_engine(loaded).score_continuations([ScoringPrompt("x", ())])


# First tokens


@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=10, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=12))
def test_first_tokens_equal_the_reference(loaded: LoadedModel, name: str, texts: list[str]) -> None:
    prompts = [ScoringPrompt(text, (" A", " B", " C")) for text in texts]
    scored = open_engine(loaded, name).score(prompts)
    assert largest_difference(scored.logprobs, score_reference(loaded, prompts).logprobs) < EXACT


def test_what_all_labels_begin_with_belongs_to_the_context(loaded: LoadedModel) -> None:
    tokenised = tokenise(encoder(loaded.tokenizer), ScoringPrompt("x", (" (A)", " (B)")))
    assert len(tokenised.context) == len("x (")
    assert len(set(tokenised.labels)) == 2


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_stops_when_asked(loaded: LoadedModel, name: str) -> None:
    prompts = [ScoringPrompt(f"{number}", (" A", " B")) for number in range(5)]
    for score in (open_engine(loaded, name).score, open_engine(loaded, name).score_continuations):
        with pytest.raises(InterruptedScoringError):
            score(prompts, should_stop=lambda: True)
        assert len(score(prompts, should_stop=lambda: False).logprobs) == 5


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_names_itself_in_its_settings(loaded: LoadedModel, name: str) -> None:
    assert open_engine(loaded, name).settings()["engine"] == f"transformers-{name}"


def test_probabilities_over_the_vocabulary_sum_to_1(loaded: LoadedModel) -> None:
    texts = [chr(33 + token) for token in range(VOCABULARY - 4)]
    prompt = ScoringPrompt("x", tuple(texts))
    (values,) = open_engine(loaded).score([prompt]).logprobs
    assert 0.5 < torch.tensor(values).exp().sum().item() < 1  # all tokens but four
