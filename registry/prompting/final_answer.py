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
if a box, JSON, a tag or a last line follows it. If a model goes on to another question, only the text before it counts.
Doubts are never resolved by a guess.

An answer that was cut off at a limit may lack its end: a match at the cut counts only if it must be complete. The
patterns are in `final_answer.toml`, by name.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from registry.prompting.answer_patterns import (
    AROUND,
    Language,
    find_pattern,
    normalize,
    plain,
)
from registry.prompting.answer_text import MAX_LINES, MAX_MATCHES, AnswerText, prepare_text
from registry.prompting.further_answers import read_further
from registry.prompting.next_question import find_next_question
from registry.prompting.stated_answer import (
    MAX_STATED,
    Claim,
    Shown,
    StatedAnswer,
    make_forms,
    match_first_label,
    match_labelled_option,
    match_option_with_label,
    match_own_text,
    name_labels,
    read_answer,
    read_option_text,
)

RULES: Final = ("answer-line", "boxed", "json", "tag", "label-alone", "option-alone")
TEXT_RULES: Final = ("answer-line", "boxed", "json", "tag", "option-alone")
MAX_LEADS: Final = 200
"""Maximum number of lead-ins that are examined, from the last one backwards."""
MAX_LIST: Final = 100
"""Maximum number of lines before or after a label's line that are examined for more labels."""
MIN_REASON: Final = 12
"""Minimum number of characters between words such as "wait, no" and the answer that replaces one before them."""
MIN_EXPLANATION: Final = 20
"""Minimum number of characters after a first line that is an answer, if the text was cut off."""
MAX_HEADER: Final = 80
"""Maximum length of a line that only announces the answer, and of the words before a lead-in, in characters."""


def _read_answer_lines(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    """Yield the claims of the lead-ins in the text, from its end up to the last explicit one."""
    leads = 0
    for number in reversed(range(max(0, len(text.lines) - MAX_LINES), len(text.lines))):
        claims, count = _read_line(shown, text, number)
        yield from claims
        leads += count
        explicit = any(claim.explicit for claim in claims)
        if explicit and _lists_answers(shown, text, number):
            yield Claim("answer-line", text.lines[number][0], number, None, "")
        if explicit or leads > MAX_LEADS:
            return  # nothing before the last `Answer:` counts


def _lists_answers(shown: Shown, text: AnswerText, last: int) -> bool:
    """Return whether lines such as `Answer: A` up to the last one, with nothing between, state different answers."""
    answers: set[int | None] = set()
    heads: set[str] = set()
    for number in range(last, max(-1, last - 2 * len(shown.options)), -1):
        line = text.line(number)
        if line.strip():
            explicit = [claim for claim in _read_line(shown, text, number)[0] if claim.explicit]
            if not explicit:
                break
            answers |= {claim.position for claim in explicit}
            stated = explicit[-1].text
            heads.add(line[: line.rfind(stated)] if line.rstrip(AROUND).endswith(stated) else line)
    return len(answers) > 2 or (len(answers - {None}) == 2 and len(heads) == 1)


def _read_line(shown: Shown, text: AnswerText, number: int) -> tuple[list[Claim], int]:
    """Return the claims in a line, and the number of lead-ins and announcements of an answer in it."""
    start, end = text.lines[number]
    claims = list(_read_named(shown, text, number))
    count = 0
    for language in text.languages if start < end else ():
        leads = [(match, True) for match in deque(language.explicit.finditer(text.text, start, end), MAX_MATCHES)]
        leads += [(match, False) for match in deque(language.said.finditer(text.text, start, end), MAX_MATCHES)]
        count += len(leads)
        for match, explicit in leads:
            before = text.text[max(start, match.start() - MAX_HEADER) : match.start()]
            lead = find_pattern("lead").search(before) if "praised" in match.re.groupindex else None
            whole, before = before, before if lead is None else before[: lead.start()]
            supposed = "would" in match[0].casefold() and find_pattern("condition").search(before)
            foreign = "praised" in match.re.groupindex and _has_owner(shown, before, lead, match)
            unsure = any(language.unsure.search(words) for words in (before, whole))
            if not supposed and not foreign and not unsure:
                claims += _read_claims(shown, text, number, match, explicit=explicit)
        claims += _read_turned_round(language, shown, text, number)
        if not leads and end - start < MAX_HEADER:
            header = language.header.match(text.text, start, end)
            count += header is not None
            if header is not None and header.end() == end:
                claims += _read_below(shown, text, number, end, header=True)
            elif header is not None:
                label = normalize(text.text[header.end() : end])
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
    return match_first_label(shown, text, 0, len(text))[0] is not None


def _read_turned_round(language: Language, shown: Shown, text: AnswerText, number: int) -> Iterator[Claim]:
    """Yield claims of the form `B is the correct answer` that are complete sentences."""
    start, end = text.lines[number]
    for match in deque(language.right.finditer(text.text, start, end), MAX_MATCHES):
        before = text.text[max(start, match.start() - MAX_STATED) : match.start()]
        subject = normalize(find_pattern("sentence").split(before)[-1])
        subject = normalize(subject[language.before.match(subject).end() :])  # type: ignore[union-attr]
        label, option = shown.position_of_label(subject), shown.position_of_text(subject)
        position = match_labelled_option(shown, subject) if label is None and option is None else label
        position = option if position is None else position
        if position is not None and (label is None or subject == shown.labels[label]):
            yield Claim("answer-line", match.start(), number, position, subject, explicit=False, turned=True)


def _read_named(shown: Shown, text: AnswerText, number: int) -> Iterator[Claim]:
    """Yield claims of the forms `the capital is B. Paris` and `the capital is Paris (B)`."""
    start, end = text.lines[number]
    for match in deque(find_pattern("copula").finditer(text.text, start, end), MAX_MATCHES if shown.labels else 0):
        at, until = match.end(), min(end, match.end() + MAX_STATED)
        position, after = match_first_label(shown, text.text, at, until)
        if position is None or not match_own_text(shown, position, text.text, after, until):
            stated = find_pattern("named").match(text.text, at, until)
            answer = None if stated is None else match_option_with_label(shown, stated[0])
            position = None if answer is None else answer.position
        if position is None and text.text.strip() == text.line(number).strip():
            words = text.text[at:until]
            position = shown.position_of_text(words) if shown.position_of_label(normalize(words)) is None else None
        if position is None or name_labels(shown, text.line(number)) - {shown.labels[position]}:
            continue  # "The options are A. Rome, B. Paris"
        denied = find_pattern("not_the_answer").search(text.text, max(start, at - MAX_HEADER), at)
        if denied is None and find_pattern("corrects").search(text.text, at) is None:
            yield Claim("answer-line", at, number, position, shown.labels[position], explicit=False, turned=True)


def _has_owner(shown: Shown, before: str, lead: re.Match[str] | None, match: re.Match[str]) -> bool:
    """Return whether the words before a lead-in attribute the answer to someone else, or call it wrong."""
    owner = find_pattern("owner").search(before)
    if owner is None or owner["word"] in shown.labels or not match[0][0].isascii():
        return False
    own = re.split(r"[,:] ?(?=\w)", (lead[0] if lead is not None else "") + (match["praised"] or ""))[-1]
    own = "" if own.rstrip().endswith((",", ":")) else own  # another clause
    return not find_pattern("determined").match(own or match[0]) and owner["word"].casefold() not in {
        "is",
        "one",
        "was",
        "are",
        "your",
    }


def _read_claims(
    shown: Shown, text: AnswerText, number: int, match: re.Match[str], *, explicit: bool
) -> Iterator[Claim]:
    """Yield the claim that follows a lead-in."""
    start, end = match.end(), min(text.lines[number][1], match.end() + MAX_STATED)
    if find_pattern("asks_for_false").search(match[0]):  # what follows calls the others true
        stop = find_pattern("clause_end").search(text.text, start + 1, end)
        end = end if stop is None else stop.start()
    for language in text.languages:  # Answer: Answer: B; Answer: I think it is B
        skipped = find_pattern("again").match(text.text, start, end)
        at = start if skipped is None else skipped.end()
        again = language.explicit.match(text.text, at, end) or language.said.match(text.text, at, end)
        if again is not None and (shown.word.match(again[0]) is None or find_pattern("no_label").match(again[0])):
            start = again.end()
    if not text.text[start:end].strip(AROUND):
        yield from _read_below(shown, text, number, start, header=False)
        return
    negation = None if explicit else find_pattern("not").match(text.text, start, end)
    if negation is not None:
        denied = read_answer(shown, text.text, negation.end(), end, cut=text.cut)
        rather = find_pattern("but_rather").search(text.text, negation.end(), end)
        instead = None if rather is None else read_answer(shown, text.text, rather.end(), end, cut=text.cut)
        if instead is not None and instead.position is not None:
            yield instead.claim("answer-line", match.start(), number, explicit=False)
        elif denied is not None and denied.position is not None:
            yield replace(denied.claim("answer-line", match.start(), number, explicit=False), denies=True)
        return
    answer = read_answer(shown, text.text, start, end, cut=text.cut)
    if answer is not None:
        stated = text.text[start:end]
        place = stated.find(answer.text)
        if not explicit and place >= 0 and find_pattern("question").match(stated, place + len(answer.text)):
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


def _begins_options(shown: Shown, text: AnswerText, number: int, said: str) -> bool:
    """Return whether a label and its option begin a list of the options, which the next line continues."""
    first = match_labelled_option(shown, said)
    following = match_labelled_option(shown, text.line(number + 1)) if number + 1 < len(text.lines) else None
    return first is not None and following is not None and first != following


def _read_below(shown: Shown, text: AnswerText, number: int, start: int, *, header: bool) -> Iterator[Claim]:
    """Yield the claim on the line below a lead-in that ends its line."""
    following = next((n for n in range(number + 1, min(number + 4, len(text.lines))) if text.line(n).strip()), None)
    if following is None:
        if not header and not (text.cut and _is_repeated(text, number)):
            yield Claim("answer-line", start, number, None, "")
        return
    named = (
        None
        if _begins_options(shown, text, following, text.line(following))
        else _read_lone_answer(shown, text, following)
    )
    if named is None and not shown.labels and not header:
        named = read_option_text(shown, text.text, *text.lines[following], cut=text.cut)
    if named is not None:
        yield named.claim("answer-line", start, following)


def _is_repeated(text: AnswerText, number: int) -> bool:
    """Return whether a line ends as the sentence before began, as in a loop that a limit cut off."""
    lines = (text.line(n).strip() for n in range(max(0, number - 3), number + 1))
    sentences = [part for line in lines for part in line.split(". ") if part]
    return len(sentences) > 1 and sentences[-2].startswith(sentences[-1])


def _read_boxes(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    for match in deque(find_pattern("boxed").finditer(text.text), MAX_MATCHES):
        end: int | None = match.end() + 1
        if match[0].endswith("{"):
            end = _find_closing_brace(text.text, match.end())
            if end is None and text.cut:
                continue
            end = end or min(text.lines[text.line_at(match.start())][1], match.end() + MAX_STATED)
        if not find_pattern("rejected").match(text.text, end or 0):
            inner = text.text[match.end() : end]
            claim = _make_claim("boxed", shown, text, match.start(), inner)
            if claim.says is not None or _names_labels(shown, inner):
                yield claim


def _names_labels(shown: Shown, inner: str) -> bool:
    """Return whether a box without an answer is empty or contains labels; other content takes no answer back."""
    return not inner.strip() or find_pattern("label_like").match(inner) is not None or bool(name_labels(shown, inner))


def _find_closing_brace(text: str, start: int) -> int | None:
    """Return the index of the brace that closes the one before `start`; None if it is too far away."""
    depth = 1
    for at in range(start, min(len(text), start + MAX_STATED)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return None


def _read_json(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    for match in deque(find_pattern("json").finditer(text.text), MAX_MATCHES):
        value = match["value"]
        touches = text.cut and not text.text[match.end() :].strip() and value[-1] not in "\"']"
        if touches or find_pattern("rejected").match(text.text, match.end()):
            continue
        items = [item.strip() for item in value[1:-1].split(",") if item.strip()] if value[0] == "[" else [value]
        value = items[0].strip("\"'") if len(items) == 1 else ""
        yield _make_claim("json", shown, text, match.start(), re.sub(r"\\[ntr]", " ", value).replace("\\", ""))


def _read_tags(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    if text.marked:
        claim = _make_claim("tag", shown, text, 0, text.text)
        if claim.says is not None:
            yield claim
        return
    for match in deque(find_pattern("tag").finditer(text.text), MAX_MATCHES):
        touches = text.cut and match.end() == len(text.text) and not text.text.endswith(">")
        if touches or find_pattern("rejected").match(text.text, match.end()):
            continue
        claim = _make_claim("tag", shown, text, match.start(), match["inner"])
        inner = prepare_text(match["inner"], cut=False, marked=False)
        if claim.says is not None or (
            match["formal"]
            and not any(list(find(shown, inner)) for find in (_read_answer_lines, _read_boxes, _read_json))
        ):
            yield claim


def _make_claim(rule: str, shown: Shown, text: AnswerText, start: int, inner: str) -> Claim:
    """Return the claim of a box, a JSON value or a tag that contains a label, an option or both."""
    stated = " ".join(plain(inner[:MAX_STATED]).split())
    skipped = find_pattern("again").match(stated)
    stated = stated if skipped is None else stated[skipped.end() :]
    # It may contain a lead-in, as in \boxed{\text{Answer: B}}.
    leads = (language.explicit.match(stated) or language.said.match(stated) for language in text.languages)
    lead = next((match for match in leads if match is not None), None)
    body = stated if lead is None else stated[lead.end() :]
    answer = read_answer(shown, body, 0, len(body), cut=False) or StatedAnswer(None, stated)
    return answer.claim(rule, start, text.line_at(start))


def _read_lone_answer(shown: Shown, text: AnswerText, number: int) -> StatedAnswer | None:
    """Return the answer on a line with nothing but a label, a label with its own option, or an option; else None."""
    line = text.line(number)
    for stated in dict.fromkeys((line, find_pattern("last_sentence").split(line)[-1])):
        bare = normalize(stated)
        lead = find_pattern("lone_lead").match(bare)
        bare = find_pattern("lone_tail").sub("", bare[lead.end() :] if lead is not None else bare)
        bare = normalize(bare) or stated.strip()
        label, option = shown.position_of_label(bare), shown.position_of_text(stated)
        option = shown.position_of_text(bare) if option is None else option
        if label is not None:
            return StatedAnswer(label, bare)
        if option is not None:
            return StatedAnswer(option, bare)
    whole = len(text.text.strip()) == len(line.strip())
    named = match_labelled_option(shown, line, whole=whole)
    if named is not None:
        return StatedAnswer(named, shown.labels[named])
    return match_option_with_label(shown, line, whole=whole)


def _find_last_line(shown: Shown, text: AnswerText) -> str | None:
    """Return the last line; None if it belongs to a list or may have been cut off."""
    number = text.last_line
    if number is None or (text.cut and not _is_closed(text.raw)):
        return None
    line = text.line(number)
    others = [text.line(other) for other in range(max(0, number - MAX_LIST), number) if text.line(other).strip()]
    label, listed = (
        _find_lone_label(shown, line),
        [match_first_label(shown, other, 0, len(other))[0] for other in others],
    )
    if label is not None and label in listed[-len(shown.options) :] and listed[-1] == len(shown.options) - 1:
        return line  # a complete list precedes it, with an item of its own with this label
    return None if any(_begins_as_list(shown, other, line) for other in others) else line


def _find_lone_label(shown: Shown, line: str) -> int | None:
    """Return the position of the label that is all of a line; None if there is more."""
    return shown.position_of_label(normalize(line))


def _is_closed(raw: str) -> bool:
    """Return whether a last line that was cut off is complete, because everything opened on it is closed."""
    line = raw.rstrip(" \t")[-MAX_STATED:]
    return line.endswith("\n") or find_pattern("closed").fullmatch(line.rsplit("\n", 1)[-1].strip()) is not None


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


def _read_lone_label(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    if _find_last_line(shown, text) is not None and text.last_line is not None:
        named = _read_lone_answer(shown, text, text.last_line)
        if named is not None and shown.position_of_label(named.text) is not None:
            yield named.claim("label-alone", text.lines[text.last_line][0], text.last_line)
            return
    lines = {normalize(text.line(number)) for number in range(min(MAX_LIST, len(text.lines)))} - {""}
    repeated = shown.position_of_label(next(iter(lines))) if len(lines) == 1 else None
    if repeated is not None and text.cut and len(text.lines) > 1:  # B, B, B
        yield Claim("label-alone", 0, 0, repeated, next(iter(lines)))
        return
    first = next((number for number in range(min(MAX_MATCHES, len(text.lines))) if text.line(number).strip()), None)
    if first is None or find_pattern("corrects").search(text.text):
        return
    bold = _read_bold_label(shown, text)
    named = bold if bold is not None or first == text.last_line else _read_lone_answer(shown, text, first)
    if text.cut and (first == text.last_line or len(text.text) < text.lines[first][1] + MIN_EXPLANATION):
        return
    position = None if named is None else shown.position_of_label(named.text)
    if named is None or position is None:
        return
    others = (text.line(other) for other in range(first + 1, min(len(text.lines), first + MAX_LIST)))
    listed = next((other for other in others if _begins_as_list(shown, other, text.line(first))), None)
    # An explanation follows; it may begin with an option before this one.
    label = -1 if listed is None else match_first_label(shown, listed, 0, len(listed))[0]
    if label is not None and label < position:
        yield named.claim("label-alone", text.lines[first][0], first)


def _read_bold_label(shown: Shown, text: AnswerText) -> StatedAnswer | None:
    """Return the label with which an answer begins, in bold or before a dash, if its explanation names no other one."""
    dashed = find_pattern("dashed").match(text.raw) if "\n" not in text.raw.strip() else None
    match = find_pattern("bold").match(text.raw) or dashed
    position = None if match is None else shown.position_of_label(normalize(match["label"]))
    if match is None or position is None or name_labels(shown, text.text) - {shown.labels[position]}:
        return None
    own = normalize(plain(match.groupdict().get("own") or ""))
    return StatedAnswer(position, shown.labels[position]) if own in ("", shown.own[position]) else None


def _read_lone_option(shown: Shown, text: AnswerText) -> Iterator[Claim]:
    line = _find_last_line(shown, text)
    if line is None or text.last_line is None or shown.position_of_label(normalize(line)) is not None:
        return
    option = shown.position_of_text(line)
    if option is not None:
        yield Claim("option-alone", text.lines[text.last_line][0], text.last_line, option, normalize(line))


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
    text = prepare_text(answer, cut=cut, marked=marked)
    whole = _decide(rules, shown, text)
    before, is_other = find_next_question(shown, text)
    first = "" if before is None else _decide(rules, shown, before)
    if not isinstance(first, Claim):
        return whole
    if is_other or not isinstance(whole, Claim) or whole.says == first.says:
        return first
    return "it answers, asks the question again and answers something else"


def _decide(rules: Sequence[str], shown: Shown, text: AnswerText) -> Claim | str:
    stated = [
        claim for rule in rules if (claim := _choose_claim(list(_FINDERS[rule](shown, text)), shown, text)) is not None
    ]
    formal = [claim for claim in stated if claim.explicit]
    if formal:  # a remark before the last of them is ignored unless it agrees
        last = max(claim.start for claim in formal)
        agree = {claim.says for claim in formal}
        stated = [claim for claim in stated if claim.explicit or claim.start > last or agree == {claim.says}]
    if not stated:
        further = list(read_further(shown, text)) if "answer-line" in rules else []
        agreed = len({claim.position for claim in further}) == 1 and not _is_doubted(shown, text, further[0])
        return further[0] if agreed else "no rule found an answer"
    if len({claim.says for claim in stated}) > 1:
        return "its rules find answers that differ"
    return stated[0] if stated[0].says is not None else "the answer names no single option"


def _choose_claim(claims: list[Claim], shown: Shown, text: AnswerText) -> Claim | None:
    """Return the last claim of a rule; without a position if its line states two answers.

    None if all claims are denials. Claims before words such as "wait, no" do not count if another one follows these.
    A remark that differs from an earlier explicit answer also removes the position, and so does a denial of the answer.
    """
    denied = {claim.position for claim in claims if claim.denies}
    claims = [claim for claim in claims if not claim.denies]
    if not claims:
        return None
    last = max(claims, key=lambda claim: claim.start)
    if len({claim.says for claim in claims}) > 1 and last.position is not None:
        claims = [claim for claim in claims if claim is last or not _is_corrected(text, claim, last)]
    if _is_doubted(shown, text, last) or find_pattern("withdrawn").search(text.text, last.start):
        return replace(last, position=None, to_match=False)
    stated = {
        claim.says
        for claim in claims
        if claim.line == last.line or (claim.explicit and not last.explicit) or (claim.turned and last.turned)
    }
    return last if len(stated) == 1 and last.position not in denied else replace(last, position=None, to_match=False)


def _is_corrected(text: AnswerText, claim: Claim, last: Claim) -> bool:
    """Return whether words between two claims take the first one back, and a reason follows these."""
    return (
        find_pattern("corrected").search(text.text, claim.start, max(claim.start, last.start - MIN_REASON)) is not None
    )


def _is_doubted(shown: Shown, text: AnswerText, last: Claim) -> bool:
    """Return whether words such as "wait, no" follow the last claim, and the answer was cut off or names another label.

    A formal answer stands if the words are on a later line, as a remark.
    """
    if last.position is None:
        return False
    waver = find_pattern("wavers").search(text.text, last.start)
    if (
        waver is not None
        and shown.labels
        and name_labels(shown, text.text[waver.end() :]) - {shown.labels[last.position]}
    ):
        return True
    doubt = find_pattern("corrected").search(text.text, last.start)
    if doubt is None:
        return False
    after = text.text[doubt.end() + MIN_REASON :]
    others = name_labels(shown, after) - {shown.labels[last.position]} if shown.labels else set()
    same_line = text.line_at(doubt.start()) == last.line and not find_pattern("mere_no").search(doubt[0])
    return text.cut or (bool(others) and (same_line or not last.explicit))
