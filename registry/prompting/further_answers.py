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
    yield from _read_conclusion(shown, text)
    yield from _read_after_colon(shown, text)
    yield from _read_bold_end(shown, text)
    yield from _read_not_but(shown, text)
    yield from _read_last_sentence(shown, text)


def _read_marked_list(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of a list of all options in which one has a tick or is called correct.

    All others have a cross or are called incorrect, or none of them has a mark.
    """
    lines = text.raw.split("\n")[-MAX_MARKED:]
    if not any(find_pattern("tick").search(line) or find_pattern("judgement").search(line) for line in lines):
        return
    marks: dict[int, set[bool | None]] = {}
    for line in lines:
        body = normalize(find_pattern("cross").sub(" ", find_pattern("tick").sub(" ", plain(line))).replace("|", " "))
        position, after = match_first_label(shown, body, 0, len(body))
        own = "" if position is None else match_own_text(shown, position, body, after, len(body))
        if position is None:
            position, own = shown.position_of_text(body), body
        judged = find_pattern("judged").match(body, after + len(own))
        right = judged["right"] is not None if judged is not None else find_pattern("tick").search(line) is not None
        wrong = judged["wrong"] is not None if judged is not None else find_pattern("cross").search(line) is not None
        if position is not None and (right != wrong or own):
            marks.setdefault(position, set()).add(right if right != wrong else None)
    right_ones = [position for position, seen in marks.items() if True in seen]
    others = {mark for seen in marks.values() for mark in seen} - {True}
    complete = len(marks) == len(shown.options) and len(others) == 1
    if complete and len(right_ones) == 1 and marks[right_ones[0]] == {True}:
        yield _make_claim(shown, right_ones[0], 0, text)


def _make_claim(shown: Shown, position: int, start: int, text: AnswerText) -> Claim:
    stated = shown.labels[position] if shown.labels else shown.options[position]
    return Claim("answer-line", start, text.line_at(start), position, stated, explicit=False)


def _read_first_sentence(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of an answer in one line that begins with an option, as in "False. Light is …" or "No, …"."""
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
        yield _make_claim(shown, position, 0, text)


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
        position, start = found.popitem()
        yield _make_claim(shown, position, start, text)


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
        yield _make_claim(shown, found.pop(), last, text)


def _read_conclusion(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of a last sentence that is only a word such as "hence" and a label."""
    sentences = list(list_sentences(text))
    start, sentence, asks = sentences[-1] if sentences else (0, "", True)
    match = find_pattern("conclusion").match(sentence)
    position = None if match is None else shown.position_of_label(match["label"])
    if match is not None and position is not None and match["label"] in shown.labels and not asks:
        yield _make_claim(shown, position, start, text)


def _read_after_colon(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of a last line that ends with a colon and an option, as in "After checking all: B"."""
    line = "" if text.last_line is None else text.line(text.last_line)
    before, colon, stated = line.rpartition(": ")
    last = re.split(r"[.!?] ", before)[-1]
    before = find_pattern("forced").sub("my choice", last if find_pattern("hence").match(last) else before)
    bare = normalize(stated)
    position = shown.position_of_label(bare) if bare in shown.labels else shown.position_of_text(stated)
    if position is None:
        first, after = match_first_label(shown, stated, 0, len(stated))
        own = "" if first is None else match_own_text(shown, first, stated, after, len(stated))
        position = first if own and not normalize(stated[after + len(own) :]) else None
    announced = len(before.split()) > 1 and not find_pattern("no_announcement").search(before)
    if colon and announced and position is not None and not line.endswith("?") and not is_denied(before):
        others = {mention.position for mention in find_mentions(shown, before)} - {position}
        if not others:
            yield _make_claim(shown, position, text.lines[text.last_line or 0][0], text)


def _read_bold_end(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of a last line in which one label is in bold, and no other label is."""
    last = text.raw.rstrip().rpartition("\n")[2]
    labels = {match["label"] for match in find_pattern("bold_label").finditer(last)}
    label = labels.pop() if len(labels) == 1 else ""
    position = shown.position_of_label(label)
    line = plain(last).rstrip()
    only = {mention.position for mention in find_mentions(shown, line)} == {position}
    if label in shown.labels and position is not None and only and not line.endswith("?") and not is_denied(line):
        yield _make_claim(shown, position, text.lines[text.last_line or 0][0], text)


def _read_not_but(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claim of "not A, but B" in any of twenty languages, if no sentence names an option after it."""
    found = list(find_pattern("not_but").finditer(text.text))
    label = next((group for group in reversed(found[-1].groups()) if group), "") if found else ""
    position = shown.position_of_label(label)
    if position is None or label not in shown.labels or find_pattern("corrects").search(text.text, found[-1].end()):
        return
    if not name_labels(shown, text.text[found[-1].end() :]) - {label}:
        yield _make_claim(shown, position, found[-1].start(), text)


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
        yield _make_claim(shown, position, start, text)
