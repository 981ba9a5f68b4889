"""Model outputs in a file, read by a protocol without running a model: for trying out its rules.

JSON Lines: `text`, `options` by position, and if known `finish` ("stop", "length" or "refused"), `reasoning` (a thought
that was returned separately) and `opened` (whether the template opened the thought). Other keys are ignored.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict, get_args

from registry.benchmarks.lines import Place, quote, read_lines
from registry.errors import ProtocolError
from registry.prompting.reading import Reading, State, read
from registry.prompting.thoughts import Finish, Output, divide, markers_of

MAX_OPTIONS: Final = 100
MIN_OPTIONS: Final = 2
FEW: Final = f"give {MIN_OPTIONS} to {MAX_OPTIONS} texts, by position"

Match = Callable[[str, Sequence[str]], int]
"""(an answer in free words, option texts by position) → position of the option that the answer means."""


class ReadingDocument(TypedDict):
    """A protocol's reading of one line.

    position: None if there is no answer. answer: the text that was read. remark: why there is no answer, if the state
    does not explain it.
    """

    position: int | None
    state: State
    rule: str | None
    thought_characters: int
    answer: str
    remark: str | None


def readings_of(definition: Mapping[str, Any], path: Path, match: Match) -> Iterator[ReadingDocument]:
    """Yield the reading of each line of a file, with one line in memory at a time.

    match: finds the option that an answer in free words means. A line with fewer than two options is unread.
    Raises ProtocolError for a protocol without generated text, IngestError naming file and line.
    """
    if "answer" not in definition:
        raise ProtocolError(
            f"protocol {definition['name']} scores options, so it has no text to read; use one that generates, such as "
            "final-answer"
        )
    for place, line in read_lines(path):
        options = _options(place, line, definition)
        answers = tuple(definition["labels"][: len(options)]) if definition["answer"] == "label" else options
        output = _output(place, line)
        if len(options) < MIN_OPTIONS:
            reading = Reading(
                "unread", divide(output, markers_of(definition)), remark=f"options {quote(list(options))}: {FEW}"
            )
        else:
            reading = read(definition, output, answers, options)
        yield _document(reading, options, match)


def _document(reading: Reading, options: Sequence[str], match: Match) -> ReadingDocument:
    position = reading.position
    if reading.to_match:
        assert reading.text is not None
        position = match(reading.text, options)
    thought, answer = reading.divided.thought, reading.divided.answer
    return {
        "position": position,
        "state": reading.state,
        "rule": reading.rule,
        "thought_characters": len(thought or ""),
        "answer": answer or "",
        "remark": reading.remark,
    }


def _options(place: Place, line: Mapping[str, Any], definition: Mapping[str, Any]) -> tuple[str, ...]:
    options = line.get("options")
    if not isinstance(options, list) or len(options) > MAX_OPTIONS:
        place.reject(f"options {quote(options)}: give a list of {MIN_OPTIONS} to {MAX_OPTIONS} texts, by position")
    for option in options:
        if not isinstance(option, str):
            place.reject(f"option {quote(option)} is not text; give its text")
    if len(options) > len(definition.get("labels", options)):
        place.reject(
            f"{len(options)} options, but protocol {definition['name']} has {len(definition['labels'])} labels; use "
            "one with more"
        )
    return tuple(options)


def _output(place: Place, line: Mapping[str, Any]) -> Output:
    for key, kind, expected in (
        ("text", str, "text"),
        ("reasoning", str, "text or null"),
        ("opened", bool, "true or false"),
    ):
        value = line.get(key)
        if value is not None and not isinstance(value, kind):
            place.reject(f"{key} {quote(value)}: give {expected}")
    if "text" not in line:
        place.reject("text is missing; give what the model wrote, or null where it wrote only a thought")
    finish: Any = line.get("finish") or "stop"
    if finish not in get_args(Finish):
        place.reject(f"finish {quote(finish)}: use one of {', '.join(get_args(Finish))}")
    return Output(line["text"] or "", line.get("reasoning"), finish, bool(line.get("opened")))
