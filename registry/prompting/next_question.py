"""Find the next question that a model asks itself, so that only the text before it is read as the answer."""

from dataclasses import replace
from itertools import islice

from registry.prompting.answer_patterns import find_pattern
from registry.prompting.answer_text import MAX_LINES, MAX_MATCHES, AnswerText
from registry.prompting.stated_answer import Shown, match_own_text


def find_next_question(shown: Shown, text: AnswerText) -> tuple[AnswerText | None, bool]:
    """Return the text before a question with which a model goes on that nothing stops, None if there is none.

    Also return whether it is another question, by its options. After a single line with an answer, the next question
    needs no heading such as `Question:`.
    """
    lone = text.lines[0][1] > 0 and len(text.lines) > 1 and not text.line(1).strip()
    for number in range(1, min(len(text.lines), MAX_LINES)):
        start, end = text.lines[number]
        heading = find_pattern("next_question").match(text.text, start, end)
        if heading is not None or (lone and number == 2 and text.text.endswith("?", start, end)):
            own, others = _count_options(shown, text, number + 1)
            if (heading is not None and own + others != 1) or others > max(own, 1):
                last = next((n for n in range(number - 1, -1, -1) if text.line(n).strip()), None)
                before = replace(text, text=text.text[:start], lines=text.lines[:number], cut=False, last_line=last)
                return before, others > 1 and others >= own
    return None, False


def _count_options(shown: Shown, text: AnswerText, first: int) -> tuple[int, int]:
    """Return how many labels on the following lines have their own option after them, and how many another text."""
    own = others = 0
    for number in range(first, min(first + MAX_MATCHES, len(text.lines))):
        start, end = text.lines[number]
        for match in islice(shown.word.finditer(text.text, start, end), MAX_MATCHES):
            position, after = shown.position_of_label(match[0]), match.end()
            if position is None or find_pattern("list_mark").match(text.text, after, end) is None:
                continue
            if text.text.startswith("A:", match.start()):  # of `Q:` and `A:`
                continue
            if match_own_text(shown, position, text.text, after, end):
                own += 1
            elif end - after > 2:  # more than a mark
                others += 1
    return own, others
