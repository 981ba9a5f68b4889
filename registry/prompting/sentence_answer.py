"""The answer in a sentence whose order of words no pattern knows, from the words around the only label in it.

`sentence_words.toml` has, for each language, words that say that the option near them is right, and words that deny or
doubt it. These sentences count only if no rule finds an answer, and only if all of them state the same one.
"""

import re
import unicodedata
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from registry.files.toml import parse_toml, read_definition
from registry.prompting.answer_patterns import AROUND, find_pattern
from registry.prompting.answer_text import AnswerText
from registry.prompting.stated_answer import Claim, Shown, match_own_text

MAX_SENTENCES_TEXT: Final = 5_000
"""Only this many characters at the end of an answer are divided into sentences."""
MAX_SENTENCES: Final = 60
"""Maximum number of sentences that are examined: the last ones."""
NEAR_WORDS: Final = 4
"""Maximum number of words between a label and the word that says that it is right."""
NEAR_CHARACTERS: Final = 12
"""The same in characters, for scripts without blanks between words."""

MIN_SENTENCE: Final = 3
"""Minimum length of a sentence in characters: a shorter text, as in "B. Paris", is the label of what follows."""

_JOINED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_EDGE: Final = r"\s\"'’()\[\]«»„“”,:;.!?…*/—–-"
_TOKEN: Final = re.compile(f"[^{_EDGE}]+")
_HAS_JOINED: Final = re.compile(f"[{_JOINED}]|n['’]t")
_ENGLISH: Final = 0
_SHORT_DENIALS: Final = frozenset({"ne", "nu", "no"})
_SENTENCE: Final = re.compile(r"[.] |[!?…]+ ?|\n|[。।۔።։] ?|; ")
_CLAUSE: Final = re.compile(
    r"(?<=[^\W\d])[,،、፣] ?|[，；;؛]| [—–-] (?=\S{4,})"
    r"|(?<=[^\W_]) (?:but|mais|aber|pero|mas|ma|но|а|men|maar|ale|tetapi|namun) "
)


@dataclass(frozen=True)
class _Word:
    """A known word in a sentence.

    language: number of the language in the file, from 1; 0 for English. kind: verdict, answer, denial or undecided.
    start, end: offsets in the sentence, in characters.
    """

    language: int
    kind: str
    start: int
    end: int


@dataclass(frozen=True)
class _Vocabulary:
    """The words of all languages: a word or the beginning of words, in plain case, to its (language, kind).

    whole: words, with the words that must follow. begins: beginnings of words. joined: words of scripts without blanks.
    not_denials: words that deny in one language, and are harmless in another.
    """

    whole: Mapping[str, Sequence[tuple[tuple[str, ...], int, str]]]
    begins: Mapping[str, Sequence[tuple[int, str]]]
    joined: Sequence[tuple[str, int, str]]
    not_denials: AbstractSet[str]


@dataclass(frozen=True)
class Mention:
    """A label in a sentence. position: index of its option. start, end: offsets in the sentence, in characters."""

    position: int
    start: int
    end: int


@cache
def _load_vocabulary() -> _Vocabulary:
    data: dict[str, Any] = parse_toml(
        read_definition(files(__package__) / "sentence_words.toml"), "sentence_words.toml"
    )
    listed = [(_ENGLISH, "denial", data["english"]), (_ENGLISH, "undecided", data["undecided"])]
    for language, entry in enumerate(data["sentences"], _ENGLISH + 1):
        listed += [(language, kind, entry[kind]) for kind in ("verdict", "answer", "denial")]
    whole, begins = defaultdict(list), defaultdict(list)
    joined = [("n't", _ENGLISH, "denial"), ("n’t", _ENGLISH, "denial")]
    for language, kind, text in listed:
        for word in unicodedata.normalize("NFKC", text).casefold().split():
            first, *more = re.split(f"[{_EDGE}]+", word.rstrip("*"))
            if re.match(f"[{_JOINED}]", word):
                joined.append((word.rstrip("*"), language, kind))
            elif word.endswith("*"):
                begins[first].append((language, kind))
            else:
                whole[first].append((tuple(more), language, kind))
    return _Vocabulary(whole, begins, joined, frozenset(data["not_denials"].split()))


def _find_words(sentence: str) -> list[_Word]:
    """Return the words of a sentence that a language knows."""
    vocabulary = _load_vocabulary()
    tokens = [(match.start(), match.end(), match[0].casefold()) for match in _TOKEN.finditer(sentence)]
    found = []
    for number, (start, end, token) in enumerate(tokens):
        for more, language, kind in vocabulary.whole.get(token, ()):
            following = tokens[number + 1 : number + 1 + len(more)]
            if tuple(text for _, _, text in following) == more:
                found.append(_Word(language, kind, start, following[-1][1] if more else end))
        for length in range(1, len(token) + 1):
            found += [_Word(language, kind, start, end) for language, kind in vocabulary.begins.get(token[:length], ())]
    for word, language, kind in vocabulary.joined if _HAS_JOINED.search(sentence) else ():
        at = sentence.find(word)
        while at >= 0:
            found.append(_Word(language, kind, at, at + len(word)))
            at = sentence.find(word, at + 1)
    return found


def is_denied(sentence: str) -> bool:
    """Return whether a word of any language denies or doubts what a sentence says."""
    vocabulary = _load_vocabulary()
    return any(
        word.language == _ENGLISH
        or (text := sentence[word.start : word.end].casefold()) in _SHORT_DENIALS
        or ((len(text) > 2 or not text.isascii()) and text not in vocabulary.not_denials)
        for word in _find_words(sentence)
        if word.kind in ("denial", "undecided")
    )


def find_sentence_answers(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of the sentences that state an answer, if it is one and the same and no later one doubts it."""
    found: Claim | None = None
    for start, sentence, asks in list_sentences(text):
        mentions = find_mentions(shown, sentence)
        if not mentions:
            if found is not None and find_pattern("corrects").search(sentence):
                return
            continue
        unfinished = text.cut and start + len(sentence) == len(text.text)
        stated = None if asks or unfinished else _read_sentence(shown, sentence, mentions)
        if stated is not None:
            if found is not None and found.position != stated.position:
                return
            label = sentence[stated.start : stated.end]
            found = Claim(
                "answer-line", start + stated.start, text.line_at(start), stated.position, label, explicit=False
            )
        elif found is not None and _takes_back(sentence, mentions, found, asks=asks):
            return
    if found is not None:
        yield found


def list_sentences(text: AnswerText) -> Iterator[tuple[int, str, bool]]:
    """Yield the offset of each of the last sentences of the answer, its text, and whether it asks."""
    yield from deque(_divide_text(text), MAX_SENTENCES)


def _divide_text(text: AnswerText) -> Iterator[tuple[int, str, bool]]:
    begin = max(0, len(text.text) - MAX_SENTENCES_TEXT)
    for match in [*_SENTENCE.finditer(text.text, begin), None]:
        end = len(text.text) if match is None else match.start()
        sentence = text.text[begin:end]
        if match is not None and match[0] == ". " and len(sentence.strip(AROUND)) < MIN_SENTENCE:
            continue  # "B. Paris"
        if sentence.strip():
            yield begin, sentence, match is not None and "?" in match[0]
        begin = end if match is None else match.end()


def find_mentions(shown: Shown, sentence: str) -> list[Mention]:
    """Return the labels in a sentence, without letters that are words and those in an option's own text."""
    folded = sentence.casefold()
    own = [
        (match.start(), match.end())
        for option in shown.folded
        if len(option) > 1 and option in folded
        for match in re.finditer(re.escape(option), folded)
    ]
    mentions = []
    for match in shown.word.finditer(sentence):
        position = shown.position_of_label(match[0])
        inside = any(
            start <= match.start() and match.end() <= end and end - start > len(match[0]) for start, end in own
        )
        if position is not None and not inside and _is_label(shown, sentence, match, position):
            mentions.append(Mention(position, match.start(), match.end()))
    return mentions


def _is_label(shown: Shown, sentence: str, match: re.Match[str], position: int) -> bool:
    """Return whether a label in a sentence is more than a word or a letter of one."""
    label, before, after = match[0], sentence[: match.start()], sentence[match.end() :]
    enclosed = before.endswith(tuple("([\"'«「『“‘„")) and after.startswith(tuple(")]\"'»」』”’“"))
    delimited = enclosed or re.match(r"[)\]]|[.:,] ?$|$", after) is not None
    if not label.isascii():
        neighbours = {unicodedata.category(other)[0] for other in (before[-1:], after[:1]) if other}
        return not neighbours & {"L", "M", "N"}
    if label.isalpha() and label.islower():
        return enclosed or after.startswith(")")
    if label != shown.labels[position] or (label == "I" and not delimited):
        return False
    if delimited or before.strip(AROUND):
        return True
    # At the beginning of a sentence, it may be an article, as in "A mineral is", but not in "A and B are".
    another = re.match(r" [^\W\d_]{1,4} [(\[\"']?", after)
    if another is not None and shown.word.match(sentence, match.end() + another.end()):
        return True
    return re.match(r" [a-z\u00c0-\u024f]", after) is None


def _read_sentence(shown: Shown, sentence: str, mentions: list[Mention]) -> Mention | None:
    """Return the mention that a sentence states as the answer; None if there is none, or doubt."""
    words = _choose_languages(_find_words(sentence))
    hence = max((match.start() for match in find_pattern("hence").finditer(sentence)), default=0)
    clauses = [clause for clause in _divide(sentence, mentions) if clause[1] > hence]
    denied = {
        clause: any(word.kind == "denial" and clause[0] <= word.start < clause[1] for word in words)
        for clause in clauses
    }
    of_clause = {
        clause: [mention for mention in mentions if clause[0] <= mention.start < clause[1]] for clause in clauses
    }
    stated: Mention | None = None
    for number, clause in enumerate(clauses):
        here = of_clause[clause]
        others = any(stated is not None and mention.position != stated.position for mention in here)
        if stated is not None and find_pattern("reason").match(sentence, *clause):
            break
        if denied[clause]:
            if stated is not None and not others:
                return None  # a doubt after the answer
        elif len({mention.position for mention in here}) > 1:
            following = clauses[number + 1] if number + 1 < len(clauses) else None
            if following is None or not denied[following] or not of_clause[following]:
                return None  # else it is a list of wrong options: "A, C, and D are wrong"
        elif others:
            return None
        elif stated is None:
            stated = next((mention for mention in here if _is_near(words, sentence, clause, mention, shown)), None)
    return stated


def _choose_languages(words: list[_Word]) -> list[_Word]:
    """Return the words of the languages that have most of them, since languages share some, and those of English."""
    starts: defaultdict[int, set[int]] = defaultdict(set)
    for word in words:
        if word.kind in ("verdict", "answer"):
            starts[word.language].add(word.start)
    most = max(map(len, starts.values()), default=0)
    return [word for word in words if word.language == _ENGLISH or len(starts[word.language]) == most > 0]


def _divide(sentence: str, mentions: list[Mention]) -> list[tuple[int, int]]:
    """Return where the clauses of a sentence begin and end; a list such as "both A, and B" is not divided."""
    clauses, begin = [], 0
    ends = {mention.end for mention in mentions}
    for match in _CLAUSE.finditer(sentence):
        clause = sentence[begin : match.start()]
        length = len(clause) if re.search(f"[{_JOINED}]", clause) else len(clause.split())
        if match.start() not in ends or length > NEAR_WORDS:
            clauses.append((begin, match.start()))
            begin = match.end()
    return [*clauses, (begin, len(sentence))]


def _is_near(words: list[_Word], sentence: str, clause: tuple[int, int], mention: Mention, shown: Shown) -> bool:
    """Return whether a word that says that an option is right stands near the label, in its clause.

    A word that only names the answer counts if no more than a word or the option's text follows the label.
    """
    rest = sentence[mention.end : clause[1]].strip(AROUND + "-–—=")
    own = match_own_text(shown, mention.position, sentence, mention.end, clause[1])
    if own and not sentence[: mention.start].strip(AROUND):
        return False  # the item of a list
    ends = len(rest.split()) <= 1 or rest.casefold().startswith(shown.own[mention.position])
    kinds = ("verdict", "answer") if ends else ("verdict",)
    for word in words:
        if word.kind in kinds and clause[0] <= word.start < clause[1]:
            first, last = sorted(((word.start, word.end), (mention.start, mention.end)))
            between = sentence[first[1] : last[0]]
            joined = re.match(f"[{_JOINED}]", sentence[word.start]) is not None
            if (len(between) if joined else len(between.split())) <= (NEAR_CHARACTERS if joined else NEAR_WORDS):
                return True
    return False


def _takes_back(sentence: str, mentions: list[Mention], found: Claim, *, asks: bool) -> bool:
    """Return whether a sentence after the answer names another option, or denies the answer."""
    denied = is_denied(sentence)
    own = {mention.position for mention in mentions} == {found.position}
    return asks or (own and denied) or (not own and not denied)
