"""IBM/cat's released outputs, one answer per line.

`{"question_id", "variant_type", "variant_index", "options": [texts as shown], "correct", "chosen", "model_choice",
"raw"}`: `chosen` is the answered position, null if the output began with no label shown. Types are numbered in the
order `standard_MC`, `standard_MC_shuffled`, then by name; ordinals of variants continue from one selected type to the
next.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place, quote, read_lines, shorten
from registry.errors import UsageError
from registry.logs.files import records_of
from registry.logs.format import CAT, Format
from registry.logs.labels import certain
from registry.logs.record import (
    Known,
    KnownQuestion,
    Recorded,
    Seen,
    Source,
    Unusable,
    check_position,
    check_variant,
    find_question,
    match_options,
    optional_text,
    with_answer_at,
)
from registry.logs.values import text_of, texts_of

FIRST = ("standard_MC", "standard_MC_shuffled")
NOTA = "none of the above"
_INDEX = re.compile("[0-9]{1,5}")


def parse_selection(text: str | None) -> tuple[tuple[str, int | None], ...]:
    """Parse `standard_MC:0,standard_MC_shuffled` into types with an index, or None for all of a type."""
    if text is None:
        return ()
    selection: list[tuple[str, int | None]] = []
    for item in text.split(","):
        type_, colon, index = item.partition(":")
        if not type_ or (colon and not _INDEX.fullmatch(index)):
            raise UsageError(f"--select {item!r}: give a variant type, or a type and an index such as standard_MC:0")
        selection.append((type_, int(index) if colon else None))
    return tuple(selection)


def read_consistency(
    path: Path,
    questions: Mapping[str, KnownQuestion],
    selection: Sequence[tuple[str, int | None]] = (),
    *,
    by_content: bool = False,
) -> Iterator[Recorded]:
    """Yield the answers of the selected variant types (all by default).

    Ordinals continue from type to type. by_content: use the ordinals of `divergent` for the options that a line shows
    instead, in whatever order the types are selected.
    """
    first_ordinal = _first_ordinals(path, selection)
    seen: dict[tuple[str, int], str] = {}
    for place, line in read_lines(path):
        for key in FORMAT.keys:
            if key not in line:
                place.reject(f"key {key!r} is missing; lines of this layout need {', '.join(sorted(FORMAT.keys))}")
        index = check_variant(place, line["variant_index"])
        alone = first_ordinal.get((line["variant_type"], index))
        first_of_type = first_ordinal.get((line["variant_type"], None))
        if alone is not None:
            ordinal = alone
        elif first_of_type is not None:
            ordinal = first_of_type + index
        else:
            continue
        question = find_question(place, questions, line["question_id"])
        order = _match_order(place, question, line)
        if by_content:
            ordinal = _find_divergent_ordinal(place, question, str(line["variant_type"]), order)
            named = f"{line['variant_type']}:{index}"
            before = seen.setdefault((question.external_id, ordinal), named)
            if before != named:
                place.reject(
                    f"question {question.external_id}: {named} shows what {before} shows, variant {ordinal} of "
                    f"divergent; keep one with --select, such as {_drop_repeats(path, questions, first_ordinal)}"
                )
        position = check_position(place, line["chosen"], len(order))
        correct = line.get("correct")
        stated_key = None if correct is None else certain(correct, check_position(place, correct, len(order)))
        text = optional_text(place, line.get("raw"))
        yield Recorded(place, question, ordinal, order, True, position, text=text, key=stated_key)


def _drop_repeats(
    path: Path, questions: Mapping[str, KnownQuestion], selected: Mapping[tuple[str, int | None], int]
) -> str:
    """Return the selection without the indices whose variants an earlier index shows, too."""
    shown_by: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for place, line in read_lines(path):
        type_, index = str(line["variant_type"]), check_variant(place, line["variant_index"])
        if (type_, index) in selected or (type_, None) in selected:
            question = find_question(place, questions, line["question_id"])
            ordinal = _find_divergent_ordinal(place, question, type_, _match_order(place, question, line))
            shown_by.setdefault((type_, index), set()).add((question.external_id, ordinal))
    seen: set[tuple[str, int]] = set()
    kept: dict[str, list[int]] = {}
    for (type_, index), variants in shown_by.items():
        if not variants & seen:
            kept.setdefault(type_, []).append(index)
            seen |= variants
    every = {type_: sum(1 for other, _ in shown_by if other == type_) for type_ in kept}
    return ",".join(
        type_ if len(indices) == every[type_] else ",".join(f"{type_}:{index}" for index in indices)
        for type_, indices in kept.items()
    )


def _find_divergent_ordinal(place: Place, question: KnownQuestion, type_: str, order: tuple[int | str, ...]) -> int:
    """Return the ordinal of `divergent` that shows these items: original, shuffled, then each type for each distractor.

    The type's name decides only if the items do not: for shuffled items, and for questions of three or fewer options,
    which may be shown all or in part.
    """
    count = len(question.options)
    own = [item for item in order if isinstance(item, int)]
    distractors = [option for option in range(count) if option != question.answer]
    shuffled = "shuffled" in type_.lower()
    decoupled = len(own) == 2 and (count > 3 or "decoupled" in type_.lower() or len(order) + 1 == count)
    if len(order) == count and len(own) == count and not decoupled:
        return 1 if shuffled or list(order) != sorted(own) else 0
    if question.answer not in own:
        place.reject(f"question {question.external_id}: the options shown lack the right one, which divergent keeps")
    if decoupled and len(order) <= 3:
        shape = 1 if len(order) == 2 else 2
        distractor = next(option for option in own if option != question.answer)
    elif len(order) == count and len(own) == count - 1:
        shape = 0
        distractor = next(option for option in distractors if option not in own)
    else:
        place.reject(f"question {question.external_id}: {list(order)} is shown under no variant of divergent")
    return 2 + (2 * shape + shuffled) * len(distractors) + distractors.index(distractor)


def _match_order(place: Place, question: KnownQuestion, line: Mapping[str, Any]) -> tuple[int | str, ...]:
    texts = line["options"]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        place.reject(f"options {quote(texts)} is not a list of the texts shown")
    own = [text for text in texts if text.strip().lower().rstrip(".") != NOTA or text in question.options]
    matched = match_options(question, own)
    if matched is None:
        place.reject(f"options {quote(texts)} are not those of question {question.external_id}; check --benchmark")
    rest = iter(matched)
    order: tuple[int | str, ...] = tuple(next(rest) if text in own else "nota" for text in texts)
    correct = line.get("correct")
    if isinstance(correct, int) and not isinstance(correct, bool) and 0 <= correct < len(order):
        return with_answer_at(order, question, correct)
    return order


def _first_ordinals(path: Path, selection: Sequence[tuple[str, int | None]]) -> dict[tuple[str, int | None], int]:
    """Return the first ordinal of each selected type, or the ordinal of a single selected variant."""
    highest: dict[str, int] = {}
    for place, line in read_lines(path):
        if isinstance(line.get("variant_type"), str):
            index = check_variant(place, line.get("variant_index"))
            highest[line["variant_type"]] = max(highest.get(line["variant_type"], 0), index)
    types = sorted(highest, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    types_and_indices = selection or tuple((name, None) for name in types)
    ordinals: dict[tuple[str, int | None], int] = {}
    following = 0
    for type_, selected in types_and_indices:
        if type_ not in highest:
            raise UsageError(f"--select {type_!r}: {path.name} has the variant types {', '.join(types) or 'none'}")
        ordinals[type_, selected] = following
        following += 1 if selected is not None else highest[type_] + 1
    return ordinals


# Records as written, for an audit


def _list_sources(path: Path, _first_line: Mapping[str, Any], _known: Known) -> list[Source]:
    types: dict[str, int] = {}

    def record(place: str, line: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
        options = texts_of(line.get("options"))
        key, chosen = line.get("correct"), line.get("chosen")
        if not isinstance(key, int) or not 0 <= key < len(options):
            yield Unusable(place, f"its right option {shorten(key, 40)} is none of its {len(options)} options")
            return
        kind = types.setdefault(str(line.get("variant_type")), len(types))
        index = line.get("variant_index")
        yield Seen(
            place,
            str(line.get("question_id")),
            None,
            options,
            key,
            chosen if isinstance(chosen, int) and 0 <= chosen < len(options) else None,
            1000 * kind + index if isinstance(index, int) else None,
            output=text_of(line.get("raw")),
        )

    return [Source(path, CAT, path.name.split(".")[0], "outputs", records_of(path, record))]


FORMAT: Final = Format(
    CAT,
    "IBM/cat",
    "lines",
    frozenset({"chosen", "options", "question_id", "variant_index", "variant_type"}),
    {
        "question_id": "q1",
        "variant_type": "standard_MC",
        "variant_index": 0,
        "options": ["…", "…"],
        "correct": 0,
        "chosen": 1,
    },
    _list_sources,
    program="IBM/cat's layout",
    recognised="`question_id`, `variant_type`, `variant_index`, `options`, `chosen`",
    becomes="All variant types, or those of `--select`; import as `--variants imported` or `divergent`",
    paragraph=(
        "**IBM/cat.** Ordinals count on through the types: `standard_MC`, `standard_MC_shuffled`, then the others "
        "by name. `--select standard_MC:0,standard_MC_shuffled` keeps index 0 of the first type and all of the "
        'second. With `--variants divergent` each line is the variant whose options it shows. An inserted "None '
        'of the above" is the option `nota`.'
    ),
)
