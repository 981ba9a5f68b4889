"""NonsenseQA: questions and options of random words, so that answers depend only on labels and positions.

Nowak et al., *ABCD: All Biases Come Disguised*: chance is 25 %, and a higher score is a shortcut. The benchmark is
generated when it is needed, never stored in a file. Every random choice is a SHA-256 of its purpose, so the same seed
gives the same benchmark on every machine. The words are the lists of the package wonderwords (MIT), whose version is
pinned, since other lists would give another benchmark.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from typing import Final, TypeVar

from registry.benchmarks.contract import BenchmarkFile, QuestionRecord
from registry.db import MAX_INTEGER
from registry.digests import sha256_text, specification_digest
from registry.errors import UsageError

GENERATOR_VERSION: Final = 1
"""Raise it if a change gives other questions for the same seed."""

OPTIONS: Final = 4
QUESTION_WORDS: Final = (5, 20)
OPTION_WORDS: Final = (1, 6)
POOL: Final = 20
"""Number of few-shot examples."""

MAX_QUESTIONS: Final = 100_000
_WORD: Final = re.compile(r"[a-z]{3,12}")

T = TypeVar("T")


def generate_nonsenseqa(questions: int = 1000, seed: int = 0) -> BenchmarkFile:
    """Generate `questions` questions of four options, with a few-shot pool.

    A question has 5 to 20 words and an option 1 to 6, all of them different within a question. Of every four questions
    in a row, each has its answer at another position. A smaller benchmark is the start of a larger one.
    Raises UsageError for a number of questions or a seed out of range.
    """
    if not 1 <= questions <= MAX_QUESTIONS:
        raise UsageError(f"questions {questions}: give a number from 1 to {MAX_QUESTIONS:,}")
    if not 0 <= seed <= MAX_INTEGER:
        raise UsageError(f"seed {seed}: give a number from 0 to {MAX_INTEGER}")
    recipe = {
        "generator": "nonsenseqa",
        "version": GENERATOR_VERSION,
        "words": sha256_text("\n".join(words())),
        "questions": questions,
        "seed": seed,
    }
    return BenchmarkFile(
        tuple(_records("nonsense", questions, seed)),
        tuple(_records("example", POOL, seed)),
        "test",
        specification_digest(recipe),
    )


def nonsenseqa_source(seed: int) -> str:
    """Return the source of a generated benchmark in the form stored with its version."""
    package = f"wonderwords {version('wonderwords')}"
    return (
        f"shuffleboard benchmarks generate nonsenseqa --seed {seed} (generator {GENERATOR_VERSION}, words of {package})"
    )


@lru_cache(maxsize=1)
def words() -> tuple[str, ...]:
    """Return English nouns, adjectives and verbs of 3 to 12 letters, in alphabetical order; no swear words."""
    folder = files("wonderwords.assets")

    def lines(name: str) -> set[str]:
        return {line.strip() for line in (folder / f"{name}.txt").read_text(encoding="utf-8").split("\n")}

    listed = lines("nounlist") | lines("adjectivelist") | lines("verblist")
    return tuple(sorted(word for word in listed - lines("profanitylist") if _WORD.fullmatch(word)))


def _records(prefix: str, count: int, seed: int) -> Iterator[QuestionRecord]:
    for number in range(count):
        name = f"{prefix}-{number:04}"
        drawn = _different_words(f"{seed}:{name}")
        question = _take(drawn, QUESTION_WORDS, f"{seed}:{name}:question")
        options = tuple(_take(drawn, OPTION_WORDS, f"{seed}:{name}:option {place}") for place in range(OPTIONS))
        # A new order of the positions for every four questions.
        order = sorted(range(OPTIONS), key=_key(f"{seed}:{prefix}:{number // OPTIONS}:answer"))
        yield QuestionRecord(name, None, None, question, options, order[number % OPTIONS])


def _key(what: str) -> Callable[[int], str]:
    """Return a sort key that puts positions into a random order."""
    return lambda position: sha256_text(f"nonsenseqa:{what}:{position}")


def _different_words(what: str) -> Iterator[str]:
    """Yield random words, each of them once."""
    used: set[str] = set()
    attempt = 0
    while len(used) < len(words()):
        word = _draw(words(), f"{what}:word:{attempt}")
        attempt += 1
        if word not in used:
            used.add(word)
            yield word


def _take(drawn: Iterator[str], length: tuple[int, int], what: str) -> str:
    low, high = length
    return " ".join(next(drawn) for _ in range(_draw(range(low, high + 1), what)))


def _draw(choices: Sequence[T], what: str) -> T:
    """Return a random choice. The bias of the remainder is below the number of choices over 2^256."""
    return choices[int(sha256_text(f"nonsenseqa:{what}"), 16) % len(choices)]
