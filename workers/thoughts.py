"""Thoughts in every engine: whether a template opened one, the text that closes it, and its tokens."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from registry.prompting.thoughts import TAIL, Divided, Family, Markers, Output, Thinking, divide, opens_thought

_TURN_END: Final = "<|end|>"
_NEXT_TURN: Final = "<|end|><|start|>assistant"
"""Text between two channels of GPT-OSS."""


def closing_of(text: str, *, opened: bool, markers: Markers, family: Family | None = None) -> str | None:
    """Return the text with which a model would end the thought at the end of `text`; None if there is no thought.

    family: the markers with which the template opened the thought.
    """
    if divide(Output(text, finish="length", opened=opened), markers).answer is not None:
        return None
    begun = [marker for marker in markers.find(text) if marker.role == "begin"]
    thinking = [candidate for candidate in markers.families if candidate.thinks]
    if begun:
        family = markers.families[begun[-1].family]
    elif family is None:
        family = thinking[0]
    if family.end:
        return f"\n{family.end[0]}\n\n"
    header = family.header_end[0] if family.header_end else ""
    turn = _NEXT_TURN if _TURN_END in family.answer_end else ""
    return f"{turn}{family.answer_begin[0]}{header}"


def family_opened(rendered: str, markers: Markers) -> Family | None:
    """Return the markers with which a template opened a thought; None if it opened none."""
    if not opens_thought(rendered, markers):
        return None
    begun = [marker for marker in markers.find(rendered[-TAIL:]) if marker.role == "begin"]
    return markers.families[begun[-1].family]


def marks_thoughts(special: str, markers: Markers) -> bool:
    """Return whether a special token is a marker of thoughts or answers, or part of one."""
    around = (
        text
        for family in markers.families
        for texts in (family.begin, family.end, family.answer_begin, family.answer_end, family.header_end)
        for text in texts
    )
    return any(special in text for text in around) or special == "<|start|>"


def template_arguments(thinking: Thinking) -> dict[str, Any]:
    """Return the arguments of a chat template: templates use one of two names for the switch, and ignore the other."""
    arguments: dict[str, Any] = {}
    if thinking.thinking != "default":
        arguments |= dict.fromkeys(("enable_thinking", "thinking"), thinking.thinking == "on")
    if isinstance(thinking.effort, str):
        arguments["reasoning_effort"] = thinking.effort
    elif thinking.effort is not None:
        arguments["thinking_budget"] = thinking.effort
    return arguments


def tokens_of_thought(text: str, divided: Divided, tokens: int, decoded: Callable[[int], str]) -> int:
    """Return the number of a text's tokens that are its thought, with the marker that ends it.

    decoded: returns the text of a number of first tokens.
    """
    if divided.thought is None:
        return 0
    if divided.answer is None:
        return tokens
    begins = text.rfind(divided.answer) if divided.answer else len(text.rstrip())
    low, high = 0, tokens
    while low < high:  # find the largest number of tokens whose text ends before the answer
        middle = (low + high + 1) // 2
        if len(decoded(middle)) <= begins:
            low = middle
        else:
            high = middle - 1
    return low


def runs_of_repeats(keys: Sequence[tuple[str, int]]) -> list[list[int]]:
    """Group places whose answers one request can draw: places of one prompt with consecutive repeats.

    keys: by place, the prompt's identity and the number of the repeat.

    >>> runs_of_repeats([("a", 0), ("b", 0), ("a", 1), ("b", 2)])
    [[0, 2], [1], [3]]
    """
    of_prompt: dict[str, list[int]] = {}
    for place, (prompt, _) in enumerate(keys):
        of_prompt.setdefault(prompt, []).append(place)
    runs: list[list[int]] = []
    for places in of_prompt.values():
        ordered = sorted(places, key=lambda place: keys[place][1])
        run = [ordered[0]]
        for place in ordered[1:]:
            if keys[place][1] == keys[run[-1]][1] + 1:
                run.append(place)
            else:
                runs.append(run)
                run = [place]
        runs.append(run)
    return runs
