"""The outputs contract: `{"question_id": "…", "variant": 0, "order": [2, 0, 1], "position": 1}`, one prompt per line.

`order[p]` is the option ordinal shown at position p, or a name for an inserted option. `position` is the answered
position, null for no valid answer; `option` (an ordinal or an inserted name) may replace it. If both are absent, the
answer is the highest probability. Optional are, by position, `probabilities`, `logprobs` and
`logprobs_without_question`, and `text`.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place, quote, read_lines, shorten
from registry.logs.files import records_of
from registry.logs.format import OUTPUTS, Format
from registry.logs.record import (
    Known,
    KnownQuestion,
    Recorded,
    Seen,
    Source,
    Unusable,
    check_numbers,
    check_order,
    check_position,
    check_variant,
    find_question,
    optional_text,
)
from registry.logs.values import text_of

REQUIRED = ("question_id", "variant", "order")


def read_contract(path: Path, questions: Mapping[str, KnownQuestion]) -> Iterator[Recorded]:
    """Yield the answer on each line of a file in the outputs contract.

    Raises IngestError with file, line, value and remedy.
    """
    for place, line in read_lines(path):
        for key in REQUIRED:
            if key not in line:
                place.reject(f"key {key!r} is missing; a line needs question_id, variant and order")
        question = find_question(place, questions, line["question_id"])
        order = check_order(place, question, line["order"])
        n_shown = len(order)
        answered, position = _read_stated_answer(place, line, order)
        recorded = Recorded(
            place,
            question,
            check_variant(place, line["variant"]),
            order,
            answered,
            position,
            check_numbers(place, "probabilities", line.get("probabilities"), n_shown, low=0.0, high=math.inf),
            check_numbers(place, "logprobs", line.get("logprobs"), n_shown, low=-math.inf, high=0.0),
            check_numbers(
                place,
                "logprobs_without_question",
                line.get("logprobs_without_question"),
                n_shown,
                low=-math.inf,
                high=0.0,
            ),
            optional_text(place, line.get("text")),
            reasoning=optional_text(place, line.get("reasoning")),
        )
        if not answered and recorded.weights is None and recorded.logprobs is None:
            place.reject("no answer: give position (null for no valid answer), option, probabilities or logprobs")
        yield recorded


def _read_stated_answer(place: Place, line: Mapping[str, Any], order: tuple[int | str, ...]) -> tuple[bool, int | None]:
    """Return (whether an answer is stated, its position)."""
    if "position" in line:
        position = check_position(place, line["position"], len(order))
        option = line.get("option")
        if option is not None and (position is None or order[position] != option):
            place.reject(f"position {position} and option {quote(option)} contradict each other; keep one")
        return True, position
    if "option" not in line:
        return False, None
    option = line["option"]
    if option is None:
        return True, None
    if isinstance(option, bool) or option not in order:
        place.reject(f"option {quote(option)} is not among those shown: {list(order)}")
    return True, order.index(option)


# Records as written, for an audit


def _list_sources(path: Path, _first_line: Mapping[str, Any], known: Known) -> list[Source]:
    def record(place: str, line: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
        name, order = str(line.get("question_id")), line.get("order")
        if not isinstance(order, list) or not order:
            yield Unusable(place, f"its order {shorten(order, 40)} is not a list of options")
            return
        text, all_options, answer = known.get(name, (None, (), None))
        options = tuple(
            all_options[item] if isinstance(item, int) and 0 <= item < len(all_options) else str(item) for item in order
        )
        weights = line.get("probabilities") or line.get("logprobs")
        if "position" in line or "option" in line:
            at, option = line.get("position"), line.get("option")
            position = at if at is not None else order.index(option) if option in order else None
        else:
            position = weights.index(max(weights)) if isinstance(weights, list) and weights else None
        variant = line.get("variant")
        yield Seen(
            place,
            name,
            text,
            options,
            order.index(answer) if answer in order else None,
            position,
            variant if isinstance(variant, int) else None,
            output=text_of(line.get("text")),
            reasoning=text_of(line.get("reasoning")),
            texts=bool(all_options),
            scored=weights is not None,
        )

    return [
        Source(path, "shuffleboard", path.name.split(".")[0], path.parent.name or "outputs", records_of(path, record))
    ]


FORMAT: Final = Format(
    OUTPUTS,
    "your own answers",
    "lines",
    frozenset({"order", "question_id", "variant"}),
    {"question_id": "q1", "variant": 0, "order": [2, 0, 1], "position": 1},
    _list_sources,
    read_lines=read_contract,
)
