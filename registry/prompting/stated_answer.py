"""Reading of one stated answer in a line: a label, a label with its option's text, or an option's text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from registry.prompting.answer_patterns import AROUND, find_pattern, load_file, normalize, plain

MAX_STATED: Final = 1_000
"""Only this many characters after a lead-in, or in a box or a tag, are read: a final answer is not longer."""

_LOOKALIKES: Final = dict(zip("ΑΒΕАС", "ABEAC", strict=True)), dict(zip("ВЕ", "BE", strict=True))
"""Greek and Cyrillic letters that look like Latin labels, to these labels.

The second map has Cyrillic letters that could also mean the third or the sixth option; they count only if the options
are Cyrillic.
"""


@dataclass(frozen=True)
class Shown:
    """Holds the displayed labels and options in forms for comparisons.

    labels, options: by position. own: the options in plain case-folded form. by_label, by_text: to the position; a key
    with NUL before it is case-folded, and a text that several options have maps to None. folded: the case-folded texts.
    label: matches any label. word: matches any label as a separate word.
    """

    labels: tuple[str, ...]
    options: tuple[str, ...]
    own: tuple[str, ...]
    by_label: Mapping[str, int] = field(hash=False)
    by_text: Mapping[str, int | None] = field(hash=False)
    folded: tuple[str, ...]
    label: re.Pattern[str]
    word: re.Pattern[str]

    def position_of_text(self, text: str, *, cut: bool = False) -> int | None:
        """Return the only option with this text, in any case; None if no option or several have it.

        cut: whether the text may be incomplete, so that it does not count if another option begins with it.
        """
        bare = normalize(text)
        folded = bare.casefold()
        if not bare or (cut and any(option.startswith(folded) and option != folded for option in self.folded)):
            return None
        return self.by_text[bare] if bare in self.by_text else self.by_text.get(f"\x00{folded}")

    def position_of_label(self, label: str) -> int | None:
        """Return the position of a label in any case; None if it is no label."""
        position = self.by_label.get(label)
        return self.by_label.get(f"\x00{label.casefold()}") if position is None else position


def _write_pattern(label: str) -> str:
    """Return a pattern for a label; letters of scripts with blanks between words count only as separate words."""
    inside = "[\u05d0-\u05ea\u0620-\u065f\u066e-\u06d3\u0900-\u0963\u0966-\u0dff\u0e01-\u0e4e\u0e81-\u0ecd]"
    return rf"(?<!{inside}){re.escape(label)}(?!{inside})" if re.match(inside, label) else re.escape(label)


@lru_cache(maxsize=1024)
def make_forms(labels: tuple[str, ...], options: tuple[str, ...]) -> Shown:
    """Return labels and options in their forms for comparisons. labels: empty if answers are only texts."""
    cores = tuple(plain(label).strip(AROUND) or label for label in labels)
    by_label: dict[str, int] = {core: position for position, core in enumerate(cores)}
    sure, cyrillic = _LOOKALIKES
    likes = sure | cyrillic if re.search("[Ѐ-ӿ]", "".join(options)) else sure
    if all(core.isascii() for core in cores):
        by_label |= {like: by_label[latin] for like, latin in likes.items() if latin in by_label}
    written = sorted(by_label, key=len, reverse=True)
    folded = [core.casefold() for core in cores]
    if len(set(folded)) == len(folded):
        by_label |= {f"\x00{core}": position for position, core in enumerate(folded)}
    by_text: dict[str, int | None] = {}
    own = tuple(normalize(plain(option)) or normalize(option) or option for option in options)
    for position, bare in enumerate(own):
        for key in (bare, f"\x00{bare.casefold()}"):
            by_text[key] = None if key in by_text else position
    some, word = "|".join(map(_write_pattern, written)) or "(?!)", load_file()[1]["word"]
    return Shown(
        cores,
        options,
        tuple(text.casefold() for text in own),
        by_label,
        by_text,
        tuple(key[1:] for key in by_text if key.startswith("\x00")),
        re.compile(rf"(?P<label>{some})", re.IGNORECASE),
        re.compile(rf"(?<![{word}'’&-])(?:{some})(?![{word}&+#°%]|['’][A-Za-z]|-[A-Za-z])", re.IGNORECASE),
    )


@dataclass(frozen=True)
class Claim:
    """One statement of an answer. position: None if it names no single option. text: X as written, without decoration.

    line: number of its line. explicit: whether its form is used only for final answers. to_match: whether the text
    names an option in other words and must be matched by its meaning. denies: whether it states that X is not the
    answer. turned: whether it is of the form "X is correct", which can be true of several options.
    """

    rule: str
    start: int
    line: int
    position: int | None
    text: str
    explicit: bool = True
    to_match: bool = False
    denies: bool = False
    turned: bool = False

    @property
    def says(self) -> int | str | None:
        """Return the value that is equal for claims of the same answer; None if the claim has no answer."""
        return normalize(self.text).casefold() if self.to_match else self.position


@dataclass(frozen=True)
class StatedAnswer:
    """The stated answer X of a match, with the fields of Claim."""

    position: int | None
    text: str
    to_match: bool = False

    def claim(self, rule: str, start: int, line: int, *, explicit: bool = True) -> Claim:
        """Return the claim that a rule makes with this answer."""
        return Claim(rule, start, line, self.position, self.text, explicit, self.to_match)


def _match_label(shown: Shown, text: str, at: int, end: int, *, cut: bool) -> tuple[int, int] | None:
    """Return (position, end of the label) if a label is a separate word at `at`, in a line that ends at `end`."""
    match = shown.label.match(text, at, end)
    position = None if match is None else shown.position_of_label(match[0])
    if match is None or position is None:
        return None
    after, own = match.end(), match_own_text(shown, position, text, match.end(), end)
    while text[after : after + 1] == "/" and text.startswith(match[0], after + 1):  # B/B
        after += 1 + len(match[0])
    same_case = match[0] == shown.labels[position] or f"\x00{match[0].casefold()}" not in shown.by_label
    if match[0].isalnum():
        inside = at > 0 and re.match(f"[{load_file()[1]['word']}]", text[at - 1])
        if inside or (find_pattern("part_of_word").match(text, after, end) and not own):
            return None
    if cut and not same_case and not text[after:].strip():
        return None
    if own:
        return position, after
    if find_pattern("close").match(text, after, end) or find_pattern("after").match(text, after, end):
        # A lower-case letter before more words, or at the end of a sentence, is a word ("a, b and c").
        lonely = not text[after:end].strip(AROUND + "?")
        return (position, after) if same_case or lonely or find_pattern("delimited").match(text, after, end) else None
    goes_on = find_pattern("goes_on").match(text, after, end) or not re.match(
        f"[{load_file()[1]['word']} ]", text[after : after + 1]
    )
    return (position, after) if same_case and goes_on else None


def match_own_text(shown: Shown, position: int, text: str, after: int, end: int) -> str:
    """Return the rest of the line after a label up to the end of its own option's text; empty if that does not follow.

    A sign before a number belongs to it: with the options 3 and -3, `-3` is not the first one.
    """
    own = shown.own[position]
    if not own:
        return ""
    lead = find_pattern("own_lead").match(text, after, end)
    start = after if lead is None else lead.end()
    for begin in sorted({start, start - (text[start - 1 : start] == "(")}):
        if text[begin:end].casefold().startswith(own) and not _goes_on_as_word(text[begin:end], own):
            return text[after : begin + len(own)]
    sign = find_pattern("own_sign").match(text, start, end)
    if sign is None or shown.position_of_text(sign[0].strip() + own) is not None:
        return ""
    body = text[sign.end() : end].lstrip("\"'( ")
    begin = end - len(body)
    signed = sign[0][-1] != " " and own[:1].isdigit()
    follows = not signed and body.casefold().startswith(own) and not _goes_on_as_word(body, own)
    return text[after : begin + len(own)] if follows else ""


def _goes_on_as_word(body: str, own: str) -> bool:
    return re.match(f"[{load_file()[1]['word']}]|[.,]\\d", body[len(own) : len(own) + 2]) is not None


def _names_another(shown: Shown, text: str, position: int, after: int, end: int) -> bool:
    """Return whether the line goes on to another answer: `A or B`, `A, B`, `A … actually B`, another option's text."""
    own = match_own_text(shown, position, text, after, end)
    start = after + len(own)
    # What follows a full stop, or gives a reason, is not of the statement.
    ending = "full_stop_after_option" if own else "full_stop"
    stop = find_pattern(ending).search(text, start, end) or find_pattern("reason_follows").match(text, start, end)
    end = end if stop is None else stop.start()
    rest = text[start:end]
    others = (shown.position_of_text(rest), shown.position_of_text(rest.lstrip(AROUND + "-–—=→")))
    if not own and (
        any(option not in (None, position) for option in others) or find_pattern("open_ended").search(rest)
    ):
        return True
    return any(
        shown.position_of_label(match[0]) not in (None, position)
        and (match[0] in shown.labels or not match[0].islower() or text[match.end() : match.end() + 1] == ")")
        and _is_named(shown, text, match, start, end)
        for match in shown.word.finditer(text, start, end)
    )


def _is_named(shown: Shown, text: str, match: re.Match[str], start: int, end: int) -> bool:
    """Return whether a label in text[start:end] is stated as an answer: not denied, in passing, or in a reason."""
    before, position = text[max(start, match.start() - 40) : match.start()], shown.position_of_label(match[0])
    if find_pattern("negated").search(before) or find_pattern("others_wrong").match(text, match.end(), end):
        return False
    between = text[start : match.start()]
    if find_pattern("new_sentence").search(between) and not find_pattern("corrects").search(between):
        return find_pattern("also").match(text, match.end(), end) is not None
    listing = not text[start : match.start()].strip(AROUND)
    if listing and position is not None and match_own_text(shown, position, text, match.end(), end):
        return True  # it is part of a list of the options
    if find_pattern("also").match(text, match.end(), end):
        return True
    listed = find_pattern("listed").search(before)
    if listed is None or find_pattern("aside").search(before, 0, listed.start()):
        return False
    if find_pattern("in_passing").match(listed[0]) and find_pattern("new_sentence").search(text, start, match.start()):
        return False
    stated = find_pattern("stated_of").match(text, match.end(), end)
    return stated is None or not (
        before[listed.start()] in ",;" or find_pattern("denied").match(text, stated.end(), end)
    )


def read_option_text(shown: Shown, text: str, start: int, end: int, *, cut: bool) -> StatedAnswer | None:
    """Return X in [start, end) if the options have no labels, so that X is in the words of an option."""
    full_text = text[start:end].strip()
    touches = cut and not text[end:].strip()
    for part in (full_text, find_pattern("first_sentence").split(full_text, maxsplit=1)[0]):
        position = shown.position_of_text(part, cut=touches)
        if position is not None:
            return StatedAnswer(position, normalize(part))
    bare = normalize(full_text)
    if len(bare) < 2 or touches or find_pattern("unknown").match(bare):
        return StatedAnswer(None, full_text) if bare else None
    named = {option for option in shown.folded if len(option) > 1 and option in bare.casefold()}
    longest = {option for option in named if not any(option != other and option in other for other in named)}
    return StatedAnswer(None, full_text) if len(longest) > 1 else StatedAnswer(None, bare, to_match=True)


def read_answer(shown: Shown, text: str, start: int, end: int, *, cut: bool) -> StatedAnswer | None:
    """Return X in [start, end) of a line, without a position if it does not name exactly one option.

    None if it cannot be an answer, as in "The answer is in the text".
    """
    if not shown.labels:
        return read_option_text(shown, text, start, end, cut=cut)
    opening = find_pattern("open").match(text, start, end)
    at = start if opening is None else opening.end()
    full_text = text[start:end].strip()
    inside = find_pattern("whole_box").fullmatch(full_text)
    body = full_text.rstrip("?") if inside is None else inside[1]
    by_text = shown.position_of_text(body, cut=cut and not text[end:].strip())
    if by_text is not None and shown.position_of_label(normalize(body)) is None:
        return StatedAnswer(by_text, normalize(body))  # such as the option "A and B"
    named = _match_label(shown, text, at, end, cut=cut)
    if named is not None:
        position, after = named
        taken_back = find_pattern("if").match(text, after, end) or find_pattern("taken_back").match(text, after, end)
        ends_open = cut and re.match(r"\s*,\s*$", text[after:])
        if taken_back or ends_open or _names_another(shown, text, position, after, end):
            return StatedAnswer(None, full_text)
        return StatedAnswer(position, text[at:after])
    answer = match_option_with_label(shown, body, whole=True) or _match_option(shown, text, at, end)
    return answer or (StatedAnswer(None, full_text) if find_pattern("unknown").match(text, at, end) else None)


def match_option_with_label(shown: Shown, body: str, *, whole: bool = False) -> StatedAnswer | None:
    """Return X that is an option's text and a label, `Paris (B)`, without a position if they differ; else None.

    whole: whether words may precede the option's text.
    """
    match = find_pattern("with_label").fullmatch(body[-MAX_STATED:])
    label = None if match is None else shown.position_of_label(match[2])
    if match is None or label is None:
        return None
    option = shown.position_of_text(match[1])
    if option is None and whole and not find_pattern("not_the_answer").search(match[1]):
        others = name_labels(shown, match[1]) - {shown.labels[label]}
        option = label if not others and normalize(match[1]).casefold().endswith(shown.own[label]) else None
    return None if option is None else StatedAnswer(option if option == label else None, match[2])


def name_labels(shown: Shown, text: str) -> set[str]:
    """Return the labels in a text, as separate words in their own case."""
    return {match[0] for match in shown.word.finditer(text)} & set(shown.labels)


def _match_option(shown: Shown, text: str, at: int, end: int) -> StatedAnswer | None:
    """Return X that is an option's text with a reason; without a position if the reason names another; else None."""
    folded = text[at:end].casefold()
    begun = max((option for option in shown.folded if folded.startswith(option)), key=len, default="")
    position = shown.position_of_text(begun)
    if position is None or not find_pattern("says_why").match(folded, len(begun)):
        return None
    rest, word = folded[len(begun) :], load_file()[1]["word"]
    for other in shown.folded:
        named = re.search(rf"(?<![{word}]){re.escape(other)}(?![{word}])", rest) if other in rest else None
        if named is not None and other != begun and not find_pattern("negated").search(rest[: named.start()][-40:]):
            return StatedAnswer(None, text[at:end].strip())
    labels = shown.label.finditer(text, at + len(begun), end)
    own = shown.labels[position]
    if any(match[0] != own and _match_label(shown, text, match.start(), end, cut=False) for match in labels):
        return StatedAnswer(None, text[at:end].strip())
    return StatedAnswer(position, normalize(text[at : at + len(begun)]))


def match_first_label(shown: Shown, text: str, start: int, end: int) -> tuple[int | None, int]:
    """Return the position of the label with which text[start:end] begins, None for none; and the label's end."""
    opening = find_pattern("label_start").match(text, start, end)
    match = shown.label.match(text, start if opening is None else opening.end(), end)
    return (None, start) if match is None else (shown.position_of_label(match[0]), match.end())


def match_labelled_option(shown: Shown, line: str, *, whole: bool = False) -> int | None:
    """Return the position of a label that is alone on a line with its option's text, and perhaps a remark.

    whole: whether the line is the whole answer, so that a sentence that names no other label may follow.
    """
    position, after = match_first_label(shown, line, 0, len(line))
    if position is None:
        return None
    own = match_own_text(shown, position, line, after, len(line))
    rest = line[after + len(own) :]
    explains = find_pattern("explains").match(line, after) if whole else None
    if explains is not None and (own or explains["why"]):
        return (
            None
            if name_labels(shown, rest) - {shown.labels[position]} or find_pattern("corrects").search(rest)
            else position
        )
    return position if own and (not rest.strip(AROUND) or re.fullmatch(r" \([^()]*\)\.?", rest)) else None
