r"""The rules of `final-answer` and `final-answer-text`, which find the option that a chat model states.

    answer-line    `Answer: X`, "the answer is X", "X is the correct option", in any emphasis and in many languages
    boxed          `\boxed{X}`, `\boxed{\text{X}}`
    json           `{"answer": "X"}`
    tag            `<answer>X</answer>`
    label-alone    a first or last line that is nothing but a label, or a label with its own option's text
    option-alone   a last line that is nothing but one option's text

X is a label, a label with its option's text, or one option's text. A label counts only as a separate word, in capitals
unless nothing follows it. Each rule gives its last match. If the deciding line states two answers, or two rules
disagree, there is no answer, with one exception: a remark in a sentence ("at first sight the answer is A") is ignored
if a box, JSON, a tag or a last line follows it. Doubts are never resolved by a guess.

An answer that was cut off at a limit may lack its end: a match at the cut counts only if it must be complete. The
patterns are in `final_answer.toml`, by name.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from html import unescape
from importlib.resources import files
from typing import Any, Final

from registry.files.toml import parse_toml, read_definition

RULES: Final = ("answer-line", "boxed", "json", "tag", "label-alone", "option-alone")
TEXT_RULES: Final = ("answer-line", "boxed", "json", "tag", "option-alone")
MAX_READ: Final = 100_000
"""Only this many characters at the end of an answer are read. No model states its answer farther from the end."""
MAX_STATED: Final = 1_000
"""Only this many characters after a lead-in, or in a box or a tag, are read: a final answer is not longer."""
MAX_LEADS: Final = 200
"""Maximum number of lead-ins that are examined, from the last one backwards."""
LAST: Final = 20
"""Maximum number of matches of a rule, or in a line, that are examined: the last ones decide."""
MAX_LIST: Final = 100
"""Maximum number of lines before or after a label's line that are examined for more labels."""
MAX_HEADER: Final = 80
"""Maximum length of a line that only announces the answer, and of the words before a lead-in, in characters."""
_AROUND: Final = " \t\n✅✔☑✓\"'()[]{}<>«»「」『』【】《》:;.,!。、،।۔"
_SIGNS: Final = str.maketrans(dict.fromkeys("“”„‟", '"') | dict.fromkeys("‘’‚′", "'") | {"−": "-"})


# Patterns


@cache
def _load_file() -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return the content of the file of patterns, and its parts with all names replaced by their patterns."""
    data = parse_toml(read_definition(files(__package__) / "final_answer.toml"), "final_answer.toml")
    lists = {name: texts for name, texts in data.items() if name not in ("cleaning", "parts", "patterns", "languages")}
    parts = {name: "|".join(map(re.escape, sorted(texts, key=len, reverse=True))) for name, texts in lists.items()}
    for name, text in data["parts"].items():
        parts[name] = _fill(text, parts)
    return data, parts


def _fill(text: str, parts: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """Return the compiled pattern with this name in the file."""
    data, parts = _load_file()
    return re.compile(_fill(data["patterns"][name], parts), re.IGNORECASE if name not in _CASED else 0)


_CASED: Final = frozenset({"part_of_word", "unknown", "goes_on", "stated_of"})


@cache
def _load_cleaning() -> list[tuple[re.Pattern[str], str]]:
    data, parts = _load_file()
    return [(re.compile(_fill(find, parts), re.IGNORECASE | re.MULTILINE), put) for find, put in data["cleaning"]]


@dataclass(frozen=True)
class _Language:
    """The lead-ins of one language.

    explicit: `Answer:`. said: "the answer is". header: a line that only announces the answer. right: the words after X
    in "X is the correct answer". before: words that may precede that X. unsure: words before a lead-in that take it
    back. stems: an answer that contains none of them has none of these lead-ins.
    """

    stems: tuple[str, ...]
    explicit: re.Pattern[str]
    said: re.Pattern[str]
    header: re.Pattern[str]
    right: re.Pattern[str]
    before: re.Pattern[str]
    unsure: re.Pattern[str]


@cache
def _load_languages() -> list[_Language]:
    data, parts = _load_file()

    def compile_pattern(text: str) -> re.Pattern[str]:
        return re.compile(unicodedata.normalize("NFKC", _fill(text, parts)), re.IGNORECASE)

    languages = []
    for entry in data["languages"]:
        answer, never = entry["answer"], "(?!)"
        announcement = entry.get("said", f"(?:{answer})(?:{entry.get('is', never)}) ?:?")
        pick = f"|(?:{entry['pick']})(?: is)? ?:?" if "pick" in entry else ""
        languages.append(
            _Language(
                tuple(unicodedata.normalize("NFKC", stem).casefold() for stem in entry["stems"]),
                compile_pattern(rf"{{{{begin}}}}[\[【]?(?:{answer})(?:{{{{colon}}}}|[\]】] ?:?)"),
                compile_pattern(rf"{{{{begin}}}}(?:{announcement}{pick})"),
                compile_pattern(rf"[^\w\"'{{]*(?:{answer})[^\w\"'=]*"),
                compile_pattern(entry.get("right", never)),
                compile_pattern(entry.get("before", "")),
                compile_pattern(entry.get("unsure", never)),
            )
        )
    return languages


# Texts and options without their formatting


def plain(text: str) -> str:
    r"""Return the text without emphasis, mark-up and LaTeX around words, with compatibility characters replaced.

    Full-width A becomes A. Lines are kept, runs of blanks become one blank, and `\boxed` is kept.
    """
    text = re.sub(r"\r\n?|<br ?/?>", "\n", text)
    text = unicodedata.normalize("NFKC", unescape(text))[-MAX_READ:]
    text = _one_blank(_pattern("invisible").sub("", text).translate(_SIGNS))
    for pattern, put in _load_cleaning():
        text = pattern.sub(put, text)
    return _one_blank(text)


def _one_blank(text: str) -> str:
    text = re.sub(r"[^\S\n]+", " ", text)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" ?\n ?", "\n", text))


def _normalize(text: str) -> str:
    """Return a text in the form for comparisons: blanks joined, surrounding marks removed."""
    return " ".join(text.split()).strip(_AROUND)


_LOOKALIKES: Final = dict(zip("ΑΒΕАС", "ABEAC", strict=True)), dict(zip("ВЕ", "BE", strict=True))
"""Greek and Cyrillic letters that look like Latin labels, to these labels.

The second map has Cyrillic letters that could also mean the third or the sixth option; they count only if the options
are Cyrillic.
"""


@dataclass(frozen=True)
class Shown:
    """The labels and options that were shown, in forms for comparisons.

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
        bare = _normalize(text)
        folded = bare.casefold()
        if not bare or (cut and any(option.startswith(folded) and option != folded for option in self.folded)):
            return None
        return self.by_text[bare] if bare in self.by_text else self.by_text.get(f"\x00{folded}")

    def position_of_label(self, label: str) -> int | None:
        """Return the position of a label in any case; None if it is no label."""
        position = self.by_label.get(label)
        return self.by_label.get(f"\x00{label.casefold()}") if position is None else position


@lru_cache(maxsize=1024)
def make_forms(labels: tuple[str, ...], options: tuple[str, ...]) -> Shown:
    """Return labels and options in their forms for comparisons. labels: empty if answers are only texts."""
    cores = tuple(plain(label).strip(_AROUND) or label for label in labels)
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
    own = tuple(_normalize(plain(option)) or _normalize(option) or option for option in options)
    for position, bare in enumerate(own):
        for key in (bare, f"\x00{bare.casefold()}"):
            by_text[key] = None if key in by_text else position
    some, word = "|".join(map(re.escape, written)) or "(?!)", _load_file()[1]["word"]
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
    answer. turned: whether it is of the form "X is correct", which may be said of several options.
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
        return _normalize(self.text).casefold() if self.to_match else self.position


@dataclass(frozen=True)
class _StatedAnswer:
    """The stated answer X of a match, with the fields of Claim."""

    position: int | None
    text: str
    to_match: bool = False

    def claim(self, rule: str, start: int, line: int, *, explicit: bool = True) -> Claim:
        return Claim(rule, start, line, self.position, self.text, explicit, self.to_match)


# Reading one X


def _match_label(shown: Shown, text: str, at: int, end: int, *, cut: bool) -> tuple[int, int] | None:
    """Return (position, end of the label) if a label is a separate word at `at`, in a line that ends at `end`."""
    match = shown.label.match(text, at, end)
    position = None if match is None else shown.position_of_label(match[0])
    if match is None or position is None:
        return None
    after, own = match.end(), _match_own_text(shown, position, text, match.end(), end)
    while text[after : after + 1] == "/" and text.startswith(match[0], after + 1):  # B/B
        after += 1 + len(match[0])
    same_case = match[0] == shown.labels[position] or f"\x00{match[0].casefold()}" not in shown.by_label
    if match[0].isalnum():
        inside = at > 0 and re.match(f"[{_load_file()[1]['word']}]", text[at - 1])
        if inside or (_pattern("part_of_word").match(text, after, end) and not own):
            return None
    if cut and not same_case and not text[after:].strip():
        return None
    if own:
        return position, after
    if _pattern("close").match(text, after, end) or _pattern("after").match(text, after, end):
        # A lower-case letter before more words, or at the end of a sentence, is a word ("a, b and c").
        lonely = not text[after:end].strip(_AROUND + "?")
        return (position, after) if same_case or lonely or _pattern("delimited").match(text, after, end) else None
    goes_on = _pattern("goes_on").match(text, after, end) or not re.match(
        f"[{_load_file()[1]['word']} ]", text[after : after + 1]
    )
    return (position, after) if same_case and goes_on else None


def _match_own_text(shown: Shown, position: int, text: str, after: int, end: int) -> str:
    """Return the rest of the line after a label up to the end of its own option's text; empty if that does not follow.

    A sign before a number belongs to it: with the options 3 and -3, `-3` is not the first one.
    """
    own = shown.own[position]
    if not own:
        return ""
    lead = _pattern("own_lead").match(text, after, end)
    start = after if lead is None else lead.end()
    for begin in sorted({start, start - (text[start - 1 : start] == "(")}):
        if text[begin:end].casefold().startswith(own) and not _goes_on_as_word(text[begin:end], own):
            return text[after : begin + len(own)]
    sign = _pattern("own_sign").match(text, start, end)
    if sign is None or shown.position_of_text(sign[0].strip() + own) is not None:
        return ""
    body = text[sign.end() : end].lstrip("\"'( ")
    begin = end - len(body)
    signed = sign[0][-1] != " " and own[:1].isdigit()
    follows = not signed and body.casefold().startswith(own) and not _goes_on_as_word(body, own)
    return text[after : begin + len(own)] if follows else ""


def _goes_on_as_word(body: str, own: str) -> bool:
    return re.match(f"[{_load_file()[1]['word']}]|[.,]\\d", body[len(own) : len(own) + 2]) is not None


def _names_another(shown: Shown, text: str, position: int, after: int, end: int) -> bool:
    """Return whether the line goes on to another answer: `A or B`, `A, B`, `A … actually B`, another option's text."""
    own = _match_own_text(shown, position, text, after, end)
    start = after + len(own)
    rest = text[start:end]
    others = (shown.position_of_text(rest), shown.position_of_text(rest.lstrip(_AROUND + "-–—=→")))
    if not own and (any(option not in (None, position) for option in others) or _pattern("open_ended").search(rest)):
        return True
    return any(
        shown.position_of_label(match[0]) not in (None, position) and _is_named(shown, text, match, start, end)
        for match in shown.word.finditer(text, start, end)
    )


def _is_named(shown: Shown, text: str, match: re.Match[str], start: int, end: int) -> bool:
    """Return whether a label in text[start:end] is stated as an answer: not denied, in passing, or in a reason."""
    before, position = text[max(start, match.start() - 40) : match.start()], shown.position_of_label(match[0])
    if _pattern("negated").search(before):
        return False
    listing = not text[start : match.start()].strip(_AROUND)
    if listing and position is not None and _match_own_text(shown, position, text, match.end(), end):
        return True  # it is part of a list of the options
    if _pattern("also").match(text, match.end(), end):
        return True
    listed = _pattern("listed").search(before)
    if listed is None or _pattern("aside").search(before, 0, listed.start()):
        return False
    if _pattern("in_passing").match(listed[0]) and _pattern("new_sentence").search(text, start, match.start()):
        return False
    stated = _pattern("stated_of").match(text, match.end(), end)
    return stated is None or not (before[listed.start()] in ",;" or _pattern("denied").match(text, stated.end(), end))


def _read_option_text(shown: Shown, text: str, start: int, end: int, *, cut: bool) -> _StatedAnswer | None:
    """Return X in [start, end) if the options have no labels, so that X is in the words of an option."""
    full_text = text[start:end].strip()
    touches = cut and not text[end:].strip()
    for part in (full_text, _pattern("first_sentence").split(full_text, maxsplit=1)[0]):
        position = shown.position_of_text(part, cut=touches)
        if position is not None:
            return _StatedAnswer(position, _normalize(part))
    bare = _normalize(full_text)
    if len(bare) < 2 or touches or _pattern("unknown").match(bare):
        return _StatedAnswer(None, full_text) if bare else None
    named = {option for option in shown.folded if len(option) > 1 and option in bare.casefold()}
    longest = {option for option in named if not any(option != other and option in other for other in named)}
    return _StatedAnswer(None, full_text) if len(longest) > 1 else _StatedAnswer(None, bare, to_match=True)


def _read_answer(shown: Shown, text: str, start: int, end: int, *, cut: bool) -> _StatedAnswer | None:
    """Return X in [start, end) of a line, without a position if it does not name exactly one option.

    None if it cannot be an answer, as in "The answer is in the text".
    """
    if not shown.labels:
        return _read_option_text(shown, text, start, end, cut=cut)
    opening = _pattern("open").match(text, start, end)
    at = start if opening is None else opening.end()
    full_text = text[start:end].strip()
    body = full_text.rstrip("?")
    by_text = shown.position_of_text(body, cut=cut and not text[end:].strip())
    if by_text is not None and shown.position_of_label(_normalize(body)) is None:
        return _StatedAnswer(by_text, _normalize(body))  # such as the option "A and B"
    named = _match_label(shown, text, at, end, cut=cut)
    if named is not None:
        position, after = named
        taken_back = _pattern("if").match(text, after, end) or _pattern("taken_back").match(text, after, end)
        ends_open = cut and re.match(r"\s*,\s*$", text[after:])
        if taken_back or ends_open or _names_another(shown, text, position, after, end):
            return _StatedAnswer(None, full_text)
        return _StatedAnswer(position, text[at:after])
    answer = _match_option_with_label(shown, body, whole=True) or _match_option(shown, text, at, end)
    return answer or (_StatedAnswer(None, full_text) if _pattern("unknown").match(text, at, end) else None)


def _match_option_with_label(shown: Shown, body: str, *, whole: bool = False) -> _StatedAnswer | None:
    """Return X that is an option's text and a label, `Paris (B)`, without a position if they differ; else None.

    whole: whether words may precede the option's text.
    """
    match = _pattern("with_label").fullmatch(body[-MAX_STATED:])
    label = None if match is None else shown.position_of_label(match[2])
    if match is None or label is None:
        return None
    option = shown.position_of_text(match[1])
    if option is None and whole and not _pattern("not_the_answer").search(match[1]):
        others = _name_labels(shown, match[1]) - {shown.labels[label]}
        option = label if not others and _normalize(match[1]).casefold().endswith(shown.own[label]) else None
    return None if option is None else _StatedAnswer(option if option == label else None, match[2])


def _name_labels(shown: Shown, text: str) -> set[str]:
    return {match[0] for match in shown.word.finditer(text)} & set(shown.labels)


def _match_option(shown: Shown, text: str, at: int, end: int) -> _StatedAnswer | None:
    """Return X that is an option's text with a reason; without a position if the reason names another; else None."""
    folded = text[at:end].casefold()
    begun = max((option for option in shown.folded if folded.startswith(option)), key=len, default="")
    position = shown.position_of_text(begun)
    if position is None or not _pattern("says_why").match(folded, len(begun)):
        return None
    rest, word = folded[len(begun) :], _load_file()[1]["word"]
    for other in shown.folded:
        named = re.search(rf"(?<![{word}]){re.escape(other)}(?![{word}])", rest) if other in rest else None
        if named is not None and other != begun and not _pattern("negated").search(rest[: named.start()][-40:]):
            return _StatedAnswer(None, text[at:end].strip())
    labels = shown.label.finditer(text, at + len(begun), end)
    own = shown.labels[position]
    if any(match[0] != own and _match_label(shown, text, match.start(), end, cut=False) for match in labels):
        return _StatedAnswer(None, text[at:end].strip())
    return _StatedAnswer(position, _normalize(text[at : at + len(begun)]))


# The rules


@dataclass(frozen=True)
class _Text:
    """A plain answer with the start and end of each line. cut, marked: see final_answer.

    raw: the end of the answer with its formatting. languages: the languages with a stem in the answer. last_line:
    number of the last line that is not blank.
    """

    text: str
    lines: tuple[tuple[int, int], ...]
    cut: bool
    marked: bool
    raw: str
    languages: tuple[_Language, ...]
    last_line: int | None

    def line_at(self, offset: int) -> int:
        return bisect_right(self.lines, (offset, len(self.text) + 1)) - 1

    def line(self, number: int) -> str:
        start, end = self.lines[number]
        return self.text[start:end]


def _prepare_text(answer: str, *, cut: bool, marked: bool) -> _Text:
    if len(answer) > MAX_READ:
        answer = answer[-MAX_READ:].partition("\n")[2]
    text = plain(answer)
    lines, start = [], 0
    for line in text.split("\n"):
        lines.append((start, start + len(line)))
        start += len(line) + 1
    folded = text.casefold()
    languages = tuple(language for language in _load_languages() if any(stem in folded for stem in language.stems))
    last = next((n for n in range(len(lines) - 1, -1, -1) if text[slice(*lines[n])].strip()), None)
    return _Text(text, tuple(lines), cut, marked, answer, languages, last)


def _read_answer_lines(shown: Shown, text: _Text) -> Iterator[Claim]:
    """Yield the claims of the lead-ins in the text, from its end up to the last explicit one."""
    leads = 0
    for number in range(len(text.lines) - 1, -1, -1):
        claims, count = _read_line(shown, text, number)
        yield from claims
        leads += count
        if leads > MAX_LEADS or any(claim.explicit for claim in claims):
            return  # nothing before the last `Answer:` counts


def _read_line(shown: Shown, text: _Text, number: int) -> tuple[list[Claim], int]:
    """Return the claims in a line, and the number of lead-ins and announcements of an answer in it."""
    start, end = text.lines[number]
    claims = list(_read_named(shown, text, number))
    count = 0
    for language in text.languages if start < end else ():
        leads = [(match, True) for match in deque(language.explicit.finditer(text.text, start, end), LAST)]
        leads += [(match, False) for match in deque(language.said.finditer(text.text, start, end), LAST)]
        count += len(leads)
        for match, explicit in leads:
            before = text.text[max(start, match.start() - MAX_HEADER) : match.start()]
            lead = _pattern("lead").search(before) if "praised" in match.re.groupindex else None
            before = before if lead is None else before[: lead.start()]
            supposed = "would" in match[0].casefold() and _pattern("condition").search(before)
            foreign = "praised" in match.re.groupindex and _has_owner(shown, before, lead, match)
            if not supposed and not foreign and not language.unsure.search(before):
                claims += _read_claims(shown, text, number, match, explicit=explicit)
        claims += _read_turned_round(language, shown, text, number)
        if not leads and end - start < MAX_HEADER:
            header = language.header.match(text.text, start, end)
            count += header is not None
            if header is not None and header.end() == end:
                claims += _read_below(shown, text, number, end, header=True)
            elif header is not None:
                label = _normalize(text.text[header.end() : end])
                if (position := shown.position_of_label(label)) is not None:
                    claims.append(Claim("answer-line", start, number, position, label))
    if any(claim.turned for claim in claims):  # in "B is the answer", nothing follows "the answer"
        claims = [claim for claim in claims if claim.says is not None or claim.text]
    # In "The closest value is 2.5, which is answer B", the number takes nothing back.
    last = max((claim.start for claim in claims if claim.says is not None), default=-1)
    claims = [
        claim
        for claim in claims
        if claim.says is not None or claim.explicit or claim.start > last or _begins_with_label(shown, claim.text)
    ]
    return claims, count


def _begins_with_label(shown: Shown, text: str) -> bool:
    return _match_first_label(shown, text, 0, len(text))[0] is not None


def _read_turned_round(language: _Language, shown: Shown, text: _Text, number: int) -> Iterator[Claim]:
    """Yield claims of the form `B is the correct answer` that are complete sentences."""
    start, end = text.lines[number]
    for match in deque(language.right.finditer(text.text, start, end), LAST):
        before = text.text[max(start, match.start() - MAX_STATED) : match.start()]
        subject = _normalize(_pattern("sentence").split(before)[-1])
        subject = _normalize(subject[language.before.match(subject).end() :])  # type: ignore[union-attr]
        label, option = shown.position_of_label(subject), shown.position_of_text(subject)
        position = _match_labelled_option(shown, subject) if label is None and option is None else label
        position = option if position is None else position
        if position is not None and (label is None or subject == shown.labels[label]):
            yield Claim("answer-line", match.start(), number, position, subject, explicit=False, turned=True)


def _read_named(shown: Shown, text: _Text, number: int) -> Iterator[Claim]:
    """Yield claims of the forms `the capital is B. Paris` and `the capital is Paris (B)`."""
    start, end = text.lines[number]
    for match in deque(_pattern("copula").finditer(text.text, start, end), LAST if shown.labels else 0):
        at, until = match.end(), min(end, match.end() + MAX_STATED)
        position, after = _match_first_label(shown, text.text, at, until)
        if position is None or not _match_own_text(shown, position, text.text, after, until):
            stated = _pattern("named").match(text.text, at, until)
            answer = None if stated is None else _match_option_with_label(shown, stated[0])
            position = None if answer is None else answer.position
        if position is None and text.text.strip() == text.line(number).strip():
            words = text.text[at:until]
            position = shown.position_of_text(words) if shown.position_of_label(_normalize(words)) is None else None
        if position is None or _name_labels(shown, text.line(number)) - {shown.labels[position]}:
            continue  # "The options are A. Rome, B. Paris"
        denied = _pattern("not_the_answer").search(text.text, max(start, at - MAX_HEADER), at)
        if denied is None and _pattern("corrects").search(text.text, at) is None:
            yield Claim("answer-line", at, number, position, shown.labels[position], explicit=False, turned=True)


def _has_owner(shown: Shown, before: str, lead: re.Match[str] | None, match: re.Match[str]) -> bool:
    """Return whether the words before a lead-in attribute the answer to someone else, or call it wrong."""
    owner = _pattern("owner").search(before)
    if owner is None or owner["word"] in shown.labels or not match[0][0].isascii():
        return False
    own = re.split(r"[,:] ?(?=\w)", (lead[0] if lead is not None else "") + (match["praised"] or ""))[-1]
    return not _pattern("determined").match(own or match[0]) and owner["word"].casefold() not in {"is", "was", "are"}


def _read_claims(shown: Shown, text: _Text, number: int, match: re.Match[str], *, explicit: bool) -> Iterator[Claim]:
    """Yield the claim that follows a lead-in."""
    start, end = match.end(), min(text.lines[number][1], match.end() + MAX_STATED)
    for language in text.languages:  # Answer: Answer: B; Answer: I think it is B
        skipped = _pattern("again").match(text.text, start, end)
        at = start if skipped is None else skipped.end()
        again = language.explicit.match(text.text, at, end) or language.said.match(text.text, at, end)
        if again is not None and (shown.word.match(again[0]) is None or _pattern("no_label").match(again[0])):
            start = again.end()
    if not text.text[start:end].strip(_AROUND):
        yield from _read_below(shown, text, number, start, header=False)
        return
    negation = None if explicit else _pattern("not").match(text.text, start, end)
    if negation is not None:
        denied = _read_answer(shown, text.text, negation.end(), end, cut=text.cut)
        rather = _pattern("but_rather").search(text.text, negation.end(), end)
        instead = None if rather is None else _read_answer(shown, text.text, rather.end(), end, cut=text.cut)
        if instead is not None and instead.position is not None:
            yield instead.claim("answer-line", match.start(), number, explicit=False)
        elif denied is not None and denied.position is not None:
            yield replace(denied.claim("answer-line", match.start(), number, explicit=False), denies=True)
        return
    answer = _read_answer(shown, text.text, start, end, cut=text.cut)
    if answer is not None:
        stated = text.text[start:end]
        place = stated.find(answer.text)
        if not explicit and place >= 0 and _pattern("question").match(stated, place + len(answer.text)):
            return
        if not _begins_options(shown, text, number, stated):
            yield answer.claim("answer-line", match.start(), number, explicit=explicit)
    elif (
        explicit
        and number == text.last_line
        and not any(language.said.search(text.text, start, end) for language in text.languages)
    ):
        # `Answer: it depends` at the end takes back an earlier answer.
        yield Claim("answer-line", match.start(), number, None, text.text[start:end].strip(), explicit)


def _begins_options(shown: Shown, text: _Text, number: int, said: str) -> bool:
    """Return whether a label and its option begin a list of the options, which the next line continues."""
    first = _match_labelled_option(shown, said)
    following = _match_labelled_option(shown, text.line(number + 1)) if number + 1 < len(text.lines) else None
    return first is not None and following is not None and first != following


def _read_below(shown: Shown, text: _Text, number: int, start: int, *, header: bool) -> Iterator[Claim]:
    """Yield the claim on the line below a lead-in that ends its line."""
    following = next((n for n in range(number + 1, min(number + 4, len(text.lines))) if text.line(n).strip()), None)
    if following is None:
        if not header:
            yield Claim("answer-line", start, number, None, "")
        return
    named = (
        None
        if _begins_options(shown, text, following, text.line(following))
        else _read_lone_answer(shown, text, following)
    )
    if named is None and not shown.labels and not header:
        named = _read_option_text(shown, text.text, *text.lines[following], cut=text.cut)
    if named is not None:
        yield named.claim("answer-line", start, following)


def _read_boxes(shown: Shown, text: _Text) -> Iterator[Claim]:
    for match in deque(_pattern("boxed").finditer(text.text), LAST):
        end: int | None = match.end() + 1
        if match[0].endswith("{"):
            end = _find_closing_brace(text.text, match.end())
            if end is None and text.cut:
                continue
            end = end or min(text.lines[text.line_at(match.start())][1], match.end() + MAX_STATED)
        if not _pattern("rejected").match(text.text, end or 0):
            inner = text.text[match.end() : end]
            claim = _make_claim("boxed", shown, text, match.start(), inner)
            if claim.says is not None or _names_labels(shown, inner):
                yield claim


def _names_labels(shown: Shown, inner: str) -> bool:
    """Return whether a box without an answer is empty or contains labels; other content takes no answer back."""
    return not inner.strip() or _pattern("label_like").match(inner) is not None or shown.word.search(inner) is not None


def _find_closing_brace(text: str, start: int) -> int | None:
    """Return the index of the brace that closes the one before `start`; None if it is too far away."""
    depth = 1
    for at in range(start, min(len(text), start + MAX_STATED)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return None


def _read_json(shown: Shown, text: _Text) -> Iterator[Claim]:
    for match in deque(_pattern("json").finditer(text.text), LAST):
        value = match["value"]
        touches = text.cut and not text.text[match.end() :].strip() and value[-1] not in "\"']"
        if touches or _pattern("rejected").match(text.text, match.end()):
            continue
        items = [item.strip() for item in value[1:-1].split(",") if item.strip()] if value[0] == "[" else [value]
        value = items[0].strip("\"'") if len(items) == 1 else ""
        yield _make_claim("json", shown, text, match.start(), re.sub(r"\\[ntr]", " ", value).replace("\\", ""))


def _read_tags(shown: Shown, text: _Text) -> Iterator[Claim]:
    if text.marked:
        claim = _make_claim("tag", shown, text, 0, text.text)
        if claim.says is not None:
            yield claim
        return
    for match in deque(_pattern("tag").finditer(text.text), LAST):
        touches = text.cut and match.end() == len(text.text) and not text.text.endswith(">")
        if touches or _pattern("rejected").match(text.text, match.end()):
            continue
        claim = _make_claim("tag", shown, text, match.start(), match["inner"])
        inner = _prepare_text(match["inner"], cut=False, marked=False)
        if claim.says is not None or (
            match["formal"]
            and not any(list(find(shown, inner)) for find in (_read_answer_lines, _read_boxes, _read_json))
        ):
            yield claim


def _make_claim(rule: str, shown: Shown, text: _Text, start: int, inner: str) -> Claim:
    """Return the claim of a box, a JSON value or a tag that contains a label, an option or both."""
    stated = " ".join(plain(inner[:MAX_STATED]).split())
    skipped = _pattern("again").match(stated)
    stated = stated if skipped is None else stated[skipped.end() :]
    # It may contain a lead-in, as in \boxed{\text{Answer: B}}.
    leads = (language.explicit.match(stated) or language.said.match(stated) for language in text.languages)
    lead = next((match for match in leads if match is not None), None)
    body = stated if lead is None else stated[lead.end() :]
    answer = _read_answer(shown, body, 0, len(body), cut=False) or _StatedAnswer(None, stated)
    return answer.claim(rule, start, text.line_at(start))


def _read_lone_answer(shown: Shown, text: _Text, number: int) -> _StatedAnswer | None:
    """Return the answer on a line with nothing but a label, a label with its own option, or an option; else None."""
    line = text.line(number)
    for stated in dict.fromkeys((line, _pattern("last_sentence").split(line)[-1])):
        bare = _normalize(stated)
        lead = _pattern("lone_lead").match(bare)
        bare = _pattern("lone_tail").sub("", bare[lead.end() :] if lead is not None else bare)
        bare = _normalize(bare) or stated.strip()
        label, option = shown.position_of_label(bare), shown.position_of_text(stated)
        option = shown.position_of_text(bare) if option is None else option
        if label is not None:
            return _StatedAnswer(label, bare)
        if option is not None:
            return _StatedAnswer(option, bare)
    whole = len(text.text.strip()) == len(line.strip())
    named = _match_labelled_option(shown, line, whole=whole)
    if named is not None:
        return _StatedAnswer(named, shown.labels[named])
    return _match_option_with_label(shown, line, whole=whole)


def _match_first_label(shown: Shown, text: str, start: int, end: int) -> tuple[int | None, int]:
    """Return the position of the label with which text[start:end] begins, None for none; and the label's end."""
    opening = _pattern("label_start").match(text, start, end)
    match = shown.label.match(text, start if opening is None else opening.end(), end)
    return (None, start) if match is None else (shown.position_of_label(match[0]), match.end())


def _match_labelled_option(shown: Shown, line: str, *, whole: bool = False) -> int | None:
    """Return the position of a label that is alone on a line with its option's text, and perhaps a remark.

    whole: whether the line is the whole answer, so that a sentence that names no other label may follow.
    """
    position, after = _match_first_label(shown, line, 0, len(line))
    if position is None:
        return None
    own = _match_own_text(shown, position, line, after, len(line))
    rest = line[after + len(own) :]
    explains = _pattern("explains").match(line, after) if whole else None
    if explains is not None and (own or explains["why"]):
        return (
            None
            if _name_labels(shown, rest) - {shown.labels[position]} or _pattern("corrects").search(rest)
            else position
        )
    return position if own and (not rest.strip(_AROUND) or re.fullmatch(r" \([^()]*\)\.?", rest)) else None


def _find_last_line(shown: Shown, text: _Text) -> str | None:
    """Return the last line; None if it belongs to a list or may have been cut off."""
    number = text.last_line
    if number is None or (text.cut and not _is_closed(text.raw)):
        return None
    line = text.line(number)
    others = (text.line(other) for other in range(max(0, number - MAX_LIST), number) if text.line(other).strip())
    return None if any(_begins_as_list(shown, other, line) for other in others) else line


def _is_closed(raw: str) -> bool:
    """Return whether a last line that was cut off is complete, because everything opened on it is closed."""
    line = raw.rstrip(" \t")[-MAX_STATED:]
    return line.endswith("\n") or _pattern("closed").fullmatch(line.rsplit("\n", 1)[-1].strip()) is not None


def _begins_as_list(shown: Shown, other: str, last: str) -> bool:
    """Return whether two lines may belong to a list: the other one begins with another label or is another option."""
    other_bare, last_bare = (line.lstrip(" \t\"'([{<") for line in (other, last))
    match, here = shown.label.match(other_bare), shown.label.match(last_bare)
    if match is not None and (here is None or match[0].casefold() != here[0].casefold()):
        after = other_bare[match.end() :]
        if not after.strip() or re.match(r" ?[).:\]]", after):
            return True
    option = shown.position_of_text(other)
    return option is not None and option != shown.position_of_text(last)


def _read_lone_label(shown: Shown, text: _Text) -> Iterator[Claim]:
    if _find_last_line(shown, text) is not None and text.last_line is not None:
        named = _read_lone_answer(shown, text, text.last_line)
        if named is not None and shown.position_of_label(named.text) is not None:
            yield named.claim("label-alone", text.lines[text.last_line][0], text.last_line)
            return
    first = next((number for number in range(min(LAST, len(text.lines))) if text.line(number).strip()), None)
    if first is None or first == text.last_line or text.cut or _pattern("corrects").search(text.text):
        return
    named = _read_lone_answer(shown, text, first)
    position = None if named is None else shown.position_of_label(named.text)
    if named is None or position is None:
        return
    others = (text.line(other) for other in range(first + 1, min(len(text.lines), first + MAX_LIST)))
    listed = next((other for other in others if _begins_as_list(shown, other, text.line(first))), None)
    # An explanation follows; it may begin with an option before this one.
    label = -1 if listed is None else _match_first_label(shown, listed, 0, len(listed))[0]
    if label is not None and label < position:
        yield named.claim("label-alone", text.lines[first][0], first)


def _read_lone_option(shown: Shown, text: _Text) -> Iterator[Claim]:
    line = _find_last_line(shown, text)
    if line is None or text.last_line is None or shown.position_of_label(_normalize(line)) is not None:
        return
    option = shown.position_of_text(line)
    if option is not None:
        yield Claim("option-alone", text.lines[text.last_line][0], text.last_line, option, _normalize(line))


_FINDERS: Final = dict(
    zip(
        RULES,
        (_read_answer_lines, _read_boxes, _read_json, _read_tags, _read_lone_label, _read_lone_option),
        strict=True,
    )
)


def final_answer(
    rules: Sequence[str], answer: str, labels: Sequence[str], options: Sequence[str], *, cut: bool, marked: bool
) -> Claim | str:
    """Return the answer's deciding claim by the given rules, or the reason why there is none.

    cut: whether the answer was cut off at a limit. marked: whether it was between markers of its own, which count as a
    tag.
    """
    shown = make_forms(tuple(labels), tuple(options))
    text = _prepare_text(answer, cut=cut, marked=marked)
    stated = [claim for rule in rules if (claim := _choose_claim(list(_FINDERS[rule](shown, text)))) is not None]
    formal = [claim for claim in stated if claim.explicit]
    if formal:  # a remark before the last of them is ignored unless it agrees
        last = max(claim.start for claim in formal)
        agree = {claim.says for claim in formal}
        stated = [claim for claim in stated if claim.explicit or claim.start > last or agree == {claim.says}]
    if not stated:
        return "no rule found an answer"
    if len({claim.says for claim in stated}) > 1:
        return "its rules find answers that differ"
    return stated[0] if stated[0].says is not None else "the answer names no single option"


def _choose_claim(claims: list[Claim]) -> Claim | None:
    """Return the last claim of a rule; without a position if its line states two answers.

    None if all claims are denials.
    A remark that differs from an earlier explicit answer also removes the position, and so does a denial of the answer.
    """
    denied = {claim.position for claim in claims if claim.denies}
    claims = [claim for claim in claims if not claim.denies]
    if not claims:
        return None
    last = max(claims, key=lambda claim: claim.start)
    stated = {
        claim.says
        for claim in claims
        if claim.line == last.line or (claim.explicit and not last.explicit) or (claim.turned and last.turned)
    }
    return last if len(stated) == 1 and last.position not in denied else replace(last, position=None, to_match=False)
