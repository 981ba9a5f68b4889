"""Small tokenizers of the kinds that common models have, trained here."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tests.engine.tiny import VOCABULARY

CORPUS = [
    "The following are multiple choice questions (with answers) about sociology.\n\nWhich of these is a unit of force?",
    "A. Newton\nB. Joule\nC. Watt\nD. Pascal\nAnswer: A\n\nWhat is the capital of France?\nA. Paris\nB. London",
    "Question: an apple costs 3.50 euros; how much do 12 cost?\nAnswer: 42.00\n\nWho wrote 'Faust'?\n\n\nIt wasn't me.",
]

# Llama 3's pattern: a word includes one sign before it, and signs include the line breaks after them.
LLAMA3 = Regex(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _bpe(tokenizer: Tokenizer, size: int, alphabet: list[str]) -> Tokenizer:
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<pad>", "<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def _gpt2(size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return _bpe(tokenizer, size, pre_tokenizers.ByteLevel.alphabet())


def _llama3(size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(LLAMA3, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer = _bpe(tokenizer, size, pre_tokenizers.ByteLevel.alphabet())
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def _gemma(size: int) -> Tokenizer:
    """Return a tokenizer that treats a whole text as one word, in which spaces are ordinary characters."""
    tokenizer = Tokenizer(models.BPE(unk_token="<pad>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Replace("▁", " ")
    tokenizer = _bpe(tokenizer, size, [])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def _llama2(size: int) -> Tokenizer:
    """Return a tokenizer that adds a space before the text."""
    tokenizer = Tokenizer(models.BPE(unk_token="<pad>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return _bpe(tokenizer, size, [])


def _sentencepiece(size: int) -> Tokenizer:
    """Return a tokenizer that adds a space before the text and each word, and separates line breaks."""
    tokenizer = Tokenizer(models.BPE(unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Split("\n", "isolated")]
    )
    tokenizer.decoder = decoders.Metaspace()
    return _bpe(tokenizer, size, [])


def _ending(size: int) -> Tokenizer:
    """Return a tokenizer that adds a token after every text."""
    tokenizer = _gpt2(size)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return tokenizer


KINDS: dict[str, Callable[[int], Tokenizer]] = {
    "gpt2": _gpt2,
    "llama3": _llama3,
    "gemma": _gemma,
    "llama2": _llama2,
    "sentencepiece": _sentencepiece,
    "ending": _ending,
}


@lru_cache
def tokenizer_of_kind(kind: str, size: int = 400) -> Any:
    tokenizer = KINDS[kind](size)
    tokenizer.add_special_tokens([AddedToken("<|user|>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")


@lru_cache
def letters(**special: str) -> Any:
    """Return a tokenizer with a token for each letter of the tiny models' vocabulary, which merges only the pair `ab`.

    special: letters for special tokens, such as bos_token; the tokenizer adds none to a text.
    """
    alphabet = {chr(33 + token): token for token in range(VOCABULARY - 4)}
    vocabulary = alphabet | {" ": VOCABULARY - 4, "\n": VOCABULARY - 3, "ab": VOCABULARY - 2, "?": alphabet["?"]}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE(vocabulary, [("a", "b")])), pad_token="!", **special
    )
