"""Texts that are tokenised in pieces, which must have the same tokens as the whole text."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from tests.engine.tokenizers import KINDS, tokenizer_of_kind
from workers.engine import encoding
from workers.engine.encoding import (
    ContinuationTokeniser,
    LabelTokeniser,
    OutOfStepError,
    PieceEncoder,
    encode_all,
    encode_continuations,
    encode_labels,
    is_cuttable,
)
from workers.errors import EngineError
from workers.tokens import ScoringPrompt, encoder, ending, tokenise, tokenise_continuations

WORDS = [
    "force",
    "Newton",
    "apple",
    "wasn't",
    "3.50",
    "12",
    "(with",
    "answers)",
    "größe",
    "日本語",
    "🙂",
    "a",
    "I",
    ".",
    "...",
    "--",
    "?!",
]
GAPS = [
    " ",
    " ",
    " ",
    "\n",
    "\nA. ",
    "\n(B) ",
    "\nC) ",
    " \n",
    "\n\n",
    "  ",
    "\t",
    "\n\n\n",
    "",
    ", ",
    ".\n",
    "<|user|>",
]

TEXT = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GAPS)), max_size=40).map(
    lambda pairs: "".join(word + gap for word, gap in pairs)
)


@st.composite
def texts_that_begin_alike(draw: st.DrawFn) -> list[str]:
    """Draw texts that each continue a part of the text before, cut at any character."""
    texts = [draw(TEXT)]
    for _ in range(draw(st.integers(1, 6))):
        kept = draw(st.integers(0, len(texts[-1])))
        texts.append(texts[-1][:kept] + draw(TEXT))
    return texts


def in_full(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    return [encoder(tokenizer)(text) for text in texts]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None)
@given(texts_that_begin_alike())
def test_pieces_give_the_tokens_of_the_whole_text(kind: str, texts: list[str]) -> None:
    tokenizer = tokenizer_of_kind(kind)
    assert encoded(tokenizer, texts) == in_full(tokenizer, texts)


def encoded(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    prompts = [ScoringPrompt(text, ()) for text in texts]
    return encode_all(tokenizer, prompts, lambda encode, prompt: encode(prompt.text))


EXAMPLES = "\n\n".join(
    f"Question number {number} about the unit of force?\nA. one\nB. two\nAnswer: A" for number in range(9)
)


def reading(read: list[str]) -> Callable[..., list[int]]:
    """Return a `PieceEncoder._read` that records the pieces it reads."""
    original = PieceEncoder._read

    def noting(self: PieceEncoder, piece: str, first: bool, last: bool) -> list[int]:
        read.append(piece)
        return original(self, piece, first, last)

    return noting


@pytest.mark.parametrize("kind", ["gpt2", "llama3", "sentencepiece"])
def test_what_texts_have_in_common_is_read_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of_kind(kind)
    orders = [(*WORDS[place:], *WORDS[:place]) for place in range(len(WORDS))]
    texts = [
        "\n".join([f"{EXAMPLES}\n\nWhich is it?", *map("{}. {}".format, "ABCD", order), "Answer:"]) for order in orders
    ]
    read: list[str] = []
    monkeypatch.setattr(PieceEncoder, "_read", reading(read))
    encode = PieceEncoder(tokenizer)
    assert [encode(text) for text in texts] == in_full(tokenizer, texts)
    assert len(read) == len(set(read))
    assert sum(map(len, read)) < 2 * len(texts[0])


def test_texts_are_not_cut_where_a_token_may_lie() -> None:
    assert {kind for kind in KINDS if not is_cuttable(tokenizer_of_kind(kind))} == {"llama2", "gemma"}


@pytest.mark.parametrize("kind", ["gemma", "ending"])
def test_where_reading_in_pieces_differs_texts_are_read_in_full(kind: str) -> None:
    tokenizer = tokenizer_of_kind(kind)
    texts = [f"{EXAMPLES}\n\nIs {word} a unit?\nAnswer:{label}" for word in WORDS for label in ("", " A", " B")]
    assert encoded(tokenizer, texts) == in_full(tokenizer, texts)


HABITS = {
    "neither": ("$A", [], []),
    "begins": ("<s> $A", [1], []),
    "ends": ("$A </s>", [], [2]),
    "both": ("<s> $A </s>", [1], [2]),
    "ends twice": ("$A </s> </s>", [], [2, 2]),
}
"""Special tokens that a tokenizer adds to a text: its template, the tokens before and the tokens after."""


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_special_token_after_a_text_is_scored_or_shown(kind: str, habit: str) -> None:
    template, before, after = HABITS[habit]
    plain, tokenizer = (copy.deepcopy(tokenizer_of_kind(kind)) for _ in range(2))
    for one, single in ((plain, "$A"), (tokenizer, template)):
        special = [("<s>", 1), ("</s>", 2)]
        one.backend_tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
    assert ending(tokenizer) == after
    options = labelled((" Newton", " apple wasn't", " 12"))
    for option, ours, wanted in zip(
        options, encode_continuations(tokenizer, options), encode_continuations(plain, options), strict=True
    ):
        assert ours.context == before + wanted.context, option.text
        assert ours.continuations == wanted.continuations
    letters = labelled()
    for ours, wanted in zip(encode_labels(tokenizer, letters), encode_labels(plain, letters), strict=True):
        assert (ours.context, ours.labels) == (before + wanted.context, wanted.labels)
    chat = [ScoringPrompt(prompt.text, prompt.continuations, chat=True) for prompt in options[:3]]
    for ours, wanted in zip(encode_continuations(tokenizer, chat), encode_continuations(plain, chat), strict=True):
        assert (ours.context, ours.continuations) == (before + wanted.context, wanted.continuations)


def test_a_label_that_the_vocabulary_does_not_have_is_refused() -> None:
    words = Tokenizer(models.WordLevel({"<unk>": 0, "Answer": 1, ":": 2, "A": 3, "B": 4}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")
    with pytest.raises(EngineError, match="does not know the label ' C', which it reads as <unk>"):
        encode_labels(tokenizer, [ScoringPrompt("Answer:", (" A", " B", " C"))])


def test_a_tokenizer_that_looks_far_back_is_found_out_by_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of_kind("gpt2")
    texts = [f"{EXAMPLES}\n\nIs {word} a unit?\nA. {word}\nAnswer:" for word in WORDS * 10]
    expected = in_full(tokenizer, texts)
    monkeypatch.setattr(encoding, "CHECK_EVERY", 8)

    class Wrong(PieceEncoder):
        def _read(self, piece: str, first: bool, last: bool) -> list[int]:
            return [token + (piece.strip() in WORDS) for token in super()._read(piece, first, last)]

    wrong = Wrong(tokenizer)
    with pytest.raises(OutOfStepError):
        [wrong(text) for text in texts]
    monkeypatch.setattr(encoding, "PieceEncoder", Wrong)

    assert encoded(tokenizer, texts) == expected


def labelled(labels: Sequence[str] = (" A", " B")) -> list[ScoringPrompt]:
    texts = [f"{EXAMPLES}\n\nIs {word} a unit?\n{end}" for word in WORDS for end in ("Answer:", "Answer: (", "x")]
    return [ScoringPrompt(text, tuple(labels)) for text in texts]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [(" A", " B"), ("A)", "B)"), (" (A)", " (B)")])
def test_labels_encoded_after_the_last_line_equal_those_after_all(kind: str, labels: list[str]) -> None:
    tokenizer = tokenizer_of_kind(kind)

    prompts = labelled(labels)
    expected = find(lambda: [tokenise(encoder(tokenizer), prompt) for prompt in prompts])
    assert find(lambda: encode_labels(tokenizer, prompts)) == expected


def find(tokenise_all: Callable[[], Any]) -> Any:
    """Return the result, or the text of the error."""
    try:
        return tokenise_all()
    except EngineError as error:
        return str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["Answer:", "Answer: ", "\n", ""])
def test_continuations_encoded_after_the_last_line_equal_those_after_all(kind: str, end: str) -> None:
    tokenizer = tokenizer_of_kind(kind)
    turns = [WORDS[place:] + WORDS[:place] for place in range(len(WORDS))]
    prompts = [ScoringPrompt(f"{EXAMPLES}\n\n{' '.join(turn)}?\n{end}", tuple(turn[:9])) for turn in turns]
    prompts.insert(3, ScoringPrompt("", tuple(WORDS[:9])))
    expected = find(lambda: [tokenise_continuations(encoder(tokenizer), prompt) for prompt in prompts])
    assert find(lambda: encode_continuations(tokenizer, prompts)) == expected


def test_a_prompt_is_read_once_where_its_last_line_is_known() -> None:
    tokenizer = tokenizer_of_kind("gpt2")
    read: list[str] = []
    tokenise_label = LabelTokeniser()

    def encode(text: str) -> list[int]:
        read.append(text)
        return encoder(tokenizer)(text)

    prompts = [prompt for prompt in labelled() if prompt.text.endswith("Answer:")]
    tokenised = [tokenise_label(encode, prompt) for prompt in prompts]
    assert len(read) == len(prompts) + 3  # the first with each label, and the texts read to compare
    assert tokenised == [tokenise(encoder(tokenizer), prompt) for prompt in prompts]


def test_continuations_of_another_order_are_not_read_again() -> None:
    tokenizer = tokenizer_of_kind("gpt2")
    read: list[str] = []
    tokenise_all = ContinuationTokeniser()

    def encode(text: str) -> list[int]:
        read.append(text)
        return encoder(tokenizer)(text)

    options = [" a force", " an apple", " 3.50"]
    orders = [(*options[place:], *options[:place]) for place in range(3)]
    prompts = [ScoringPrompt(f"{' '.join(order)}\nAnswer:", order) for order in orders]
    tokenised = [tokenise_all(encode, prompt) for prompt in prompts]
    assert len(read) == len(prompts) + 3
    assert tokenised == [tokenise_continuations(encoder(tokenizer), prompt) for prompt in prompts]


@pytest.mark.parametrize("tokeniser", [LabelTokeniser, ContinuationTokeniser])
def test_what_differs_after_the_same_line_are_found_out_by_the_checks(
    tokeniser: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "CHECK_EVERY", 2)
    tokenise_label = tokeniser()
    ids = {" A": [2], " B": [3]}

    one, two = (ScoringPrompt(f"{number}\nAnswer:", (" A", " B")) for number in ("one", "two"))
    tokenise_label(lambda text: [0, *ids.get(text[-2:], [])], one)
    with pytest.raises(OutOfStepError):
        tokenise_label(lambda text: [0, *(token + 1 for token in ids.get(text[-2:], []))], two)
