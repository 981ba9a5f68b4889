"""Answers that are read only if no rule finds one: what the whole text says, where no part of it has a known form."""

import re
from collections.abc import Iterator
from typing import Final

from registry.prompting.answer_patterns import find_pattern, normalize, plain
from registry.prompting.answer_text import AnswerText
from registry.prompting.sentence_answer import Mention, find_mentions, find_sentence_answers, is_denied, list_sentences
from registry.prompting.stated_answer import Claim, Shown, match_first_label, match_own_text, name_labels

MAX_MARKED: Final = 100
"""Maximum number of lines at the end of an answer in which a list with marks is looked for."""
MIN_LETTERS: Final = 3
"""Minimum number of letters of an option that a sentence can name by its text."""
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth")
_PLAIN_WORDS: Final = frozenset({"true", "false", "yes", "no", "none", "all", "both", "other", "never", "always"})


def read_further(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claims of all further ways to read an answer; they count only if they agree."""
    yield from _read_marked_list(shown, text)
    yield from find_sentence_answers(shown, text)
    if text.cut:
        return
    yield from _read_first_sentence(shown, text)
    yield from _read_ordinal(shown, text)
    yield from _read_arrow(shown, text)
    yield from _read_last_sentence(shown, text)


def _read_marked_list(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of a list of the options: one has a tick or is called correct, all others are the contrary."""
    marks: dict[int, set[bool]] = {}
    for line in text.raw.split("\n")[-MAX_MARKED:]:
        body = normalize(find_pattern("cross").sub(" ", find_pattern("tick").sub(" ", plain(line))))
        position, after = match_first_label(shown, body, 0, len(body))
        if position is None:
            position, after = shown.position_of_text(body), len(body)
        else:
            after += len(match_own_text(shown, position, body, after, len(body)))
        judged = find_pattern("judged").match(body, after)
        right = judged["right"] is not None if judged is not None else find_pattern("tick").search(line) is not None
        wrong = judged["wrong"] is not None if judged is not None else find_pattern("cross").search(line) is not None
        if position is not None and right != wrong:
            marks.setdefault(position, set()).add(right)
    right_ones = [position for position, seen in marks.items() if True in seen]
    if len(marks) == len(shown.options) and len(right_ones) == 1 and all(len(seen) == 1 for seen in marks.values()):
        yield _make_claim(right_ones[0], 0, text)


def _make_claim(position: int, start: int, text: AnswerText) -> Claim:
    return Claim("answer-line", start, text.line_at(start), position, "", explicit=False)


def _read_first_sentence(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of an answer in one line that begins with an option as a sentence, as in "False. Light is …" or "No, …"."""
    line = text.text.strip()
    first, _, reason = line.partition(". ")
    if shown.position_of_text(first) is None:
        first, _, reason = line.partition(", ")
    position = shown.position_of_text(first)
    if "\n" in line or not reason or position is None or line.endswith("?"):
        return
    folded = reason.casefold()
    others = any(option in folded for other, option in enumerate(shown.folded) if other != position and option)
    if not others and not name_labels(shown, reason) and find_pattern("corrects").search(reason) is None:
        yield _make_claim(position, 0, text)


def _read_ordinal(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of sentences such as "the second option is correct" or "I would go with the last one"."""
    found: dict[int, int] = {}
    for start, sentence, asks in list_sentences(text):
        for match in find_pattern("ordinal").finditer(sentence):
            which = match["which"].casefold()
            number = next((n for n, word in enumerate(_ORDINALS) if word == which or which[0] == str(n + 1)), None)
            position = len(shown.options) - 1 if which == "last" else number
            denied = is_denied(sentence.replace(match[0], "")) or asks
            if position is None or position >= len(shown.options) or denied or _names_other(shown, sentence, position):
                return
            found[position] = start
    if len(found) == 1:
        yield _make_claim(*found.popitem(), text)


def _names_other(shown: Shown, sentence: str, position: int) -> bool:
    labels = {mention.position for mention in find_mentions(shown, sentence)}
    return bool((labels | _find_options(shown, sentence)) - {position})


def _find_options(shown: Shown, sentence: str) -> set[int]:
    """Return the options whose text is in a sentence, without those that are part of a longer one there."""
    folded = sentence.casefold()
    places: list[tuple[int, int, int]] = []
    for option in shown.folded:
        position = shown.position_of_text(option)
        if option and position is not None:
            found = re.finditer(rf"(?<!\w){re.escape(option)}(?!\w)", folded)
            places.extend((match.start(), match.end(), position) for match in found)
    return {
        position
        for start, end, position in places
        if not any(first <= start and end <= last and (first, last) != (start, end) for first, last, _ in places)
    }


def _read_arrow(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of a last line that ends with an arrow and a label, if no other arrow leads to another one."""
    found: set[int] = set()
    last = 0
    for match in find_pattern("arrow").finditer(text.text):
        position = shown.position_of_label(match["label"])
        if position is None or match["label"] not in shown.labels:
            continue
        own = match_own_text(shown, position, text.text, match.end("label"), match.end())
        if normalize(match["rest"][len(own) :]):
            return
        found.add(position)
        last = match.start()
    if len(found) == 1 and text.line_at(last) == text.last_line:
        yield _make_claim(found.pop(), last, text)


def _read_last_sentence(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of a last sentence that names one option: by label and text, or by its text in a conclusion."""
    sentences = list(list_sentences(text))
    if not sentences:
        return
    start, sentence, asks = sentences[-1]
    mentions: list[Mention] = find_mentions(shown, sentence)
    options = _find_options(shown, sentence)
    named = {mention.position for mention in mentions} | options
    if asks or len(named) != 1 or is_denied(sentence) or find_pattern("corrects").search(sentence):
        return
    position = named.pop()
    own = shown.own[position]
    letters = sum(letter.isalpha() for letter in own)
    if letters < MIN_LETTERS or own.casefold() in _PLAIN_WORDS or not options:
        return
    bare = normalize(sentence).casefold()
    if match_first_label(shown, bare, 0, len(bare))[0] is not None or bare.startswith(own.casefold()):
        return  # "D. Madrid" ends a list, and "Paris is a city" is about an option
    begins = find_pattern("hence").search(sentence)
    bold = f"**{own}" in text.raw or f"**{shown.options[position]}" in text.raw
    if mentions or len(sentences) == 1 or bold or begins is not None:
        yield _make_claim(position, start, text)
