"""Custom protocols: a preset with some of its keys changed by a TOML or JSON file, which is checked completely.

Only keys that the preset has can be changed, and never the keys that select its code (`format`, `version`, `score`,
`answer`). Settings for thoughts can be added to every preset that generates. Defaults are left out, so that definitions
without them keep their digests.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, NoReturn

from registry.errors import IngestError, UsageError
from registry.files.toml import parse_toml, read_definition
from registry.names import check_name
from registry.prompting.protocols.presets import PRESETS, SAMPLINGS, SIMILARITIES
from registry.prompting.thoughts import AT_LIMIT, EFFORTS, READINGS, THINKING, families_of
from registry.untrusted import RefusedError, decode, problem_of_text

MAX_TEXT: Final = 20_000
_PLACES: Final = 9
_QUOTED: Final = 200
FIXED: Final = ("format", "version", "score", "answer")

SHIPPED: Final = "shipped"
"""Folder of the custom protocols that ship, for suites that compare protocols."""


def read_protocol_file(path: Path | Traversable) -> dict[str, Any]:
    """Return the definition that a file makes of its base, without few-shot examples.

    Raises IngestError naming file, key, value and remedy.
    """
    return custom_definition(_parse_document(path.name, read_definition(path)), path.name)


def _parse_document(where: str, text: str) -> Mapping[str, Any]:
    """Parse the file's text; numbers with a decimal point become Decimal."""
    if where.lower().endswith(".toml"):
        return parse_toml(text, where, exactly=True)
    if not where.lower().endswith(".json"):
        raise IngestError(f"{where}: unknown kind of file; use .toml or .json")
    try:
        document = decode(text, exactly=True)
    except RefusedError as error:
        raise IngestError(f"{where}: {error}") from None
    except ValueError as error:
        raise IngestError(f"{where}: not valid JSON: {error}; correct the file") from None
    if not isinstance(document, dict):
        raise IngestError(f"{where}: not a JSON object; write {{'name': …, 'base': …}}")
    return document


def custom_definition(document: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the definition of the document's base with the document's keys in place of its own.

    `generation`, `extraction` and `matching` are changed key by key. Raises IngestError for invalid keys or values.
    """
    name, base = document.get("name"), document.get("base")
    if not isinstance(name, str) or not isinstance(base, str):
        key = "name" if not isinstance(name, str) else "base"
        raise IngestError(f"{where}: {key} is missing or not text; a protocol must give its name and base")
    try:
        check_name("protocol", name)
    except UsageError as error:
        raise IngestError(f"{where}: {error}") from None
    if name in PRESETS:
        raise IngestError(f"{where}: name {name!r} is a preset, and presets cannot be changed; choose another name")
    if base not in PRESETS:
        raise IngestError(f"{where}: base {_quote_value(base)} is not a preset; use one of {', '.join(PRESETS)}")
    preset = PRESETS[base]
    definition: dict[str, Any] = {"name": name, "shots": 0, **preset}
    for key, value in document.items():
        if key in ("name", "base"):
            continue
        if key == "shots":
            raise IngestError(f"{where}: shots belong to an evaluation; give them there: --shots {_quote_value(value)}")
        if "generation" in preset and key in _THOUGHT_KEYS:
            checked = _THOUGHT_KEYS[key](f"{where}: {key}", value, None)
            if checked is not None:
                definition[key] = checked
            continue
        if key not in preset or key in FIXED:
            changeable = [*preset, *(_THOUGHT_KEYS if "generation" in preset else ())]
            known = ", ".join(known for known in changeable if known not in FIXED)
            raise IngestError(
                f"{where}: {_quote_value(key)} is not a key that {base} lets you change; those are: {known}"
            )
        definition[key] = _check_value(f"{where}: {key}", key, value, preset)
    if "generation" in definition:
        _check_limits(f"{where}: generation", definition["generation"])
    return definition


def _check_limits(place: str, generation: Mapping[str, Any]) -> None:
    """Raise IngestError for limits of tokens that leave none for the answer, or contradict each other."""
    thought, total = generation.get("max_thought_tokens"), generation["max_tokens"]
    if thought is not None and thought >= total:
        _refuse(f"{place}.max_thought_tokens", thought, f"give less than max_tokens ({total}), which bounds both parts")
    if thought is None and generation.get("at_limit") == "answer":
        _refuse(f"{place}.at_limit", "answer", "give max_thought_tokens too, so that room for the answer is left")
    if generation.get("thinking") == "off" and (thought is not None or "effort" in generation):
        _refuse(f"{place}.thinking", "off", "without a thought, leave effort and max_thought_tokens out")


def _check_value(place: str, key: str, value: Any, preset: Mapping[str, Any]) -> Any:
    """Check a value of the file, and return it in the form of definitions."""
    inner = _TABLES.get(key)
    if inner is not None:
        if not isinstance(value, Mapping):
            raise IngestError(f"{place}: {_quote_value(value)} is not a table; write its keys below it")
        changed = dict(preset[key])
        added = _THINKING_KEYS if key == "generation" else {}
        for name, item in value.items():
            if name in added:
                if (checked := added[name](f"{place}.{name}", item, None)) is not None:
                    changed[name] = checked
                continue
            if name not in preset[key]:
                known = ", ".join([*preset[key], *added])
                raise IngestError(f"{place}: {name!r} is not one of its keys; it has: {known}")
            changed[name] = inner[name](f"{place}.{name}", item, preset[key][name])
        return changed
    if key == "labels":
        return _check_labels(place, value, preset)
    if key == "chat_template":
        if not isinstance(value, bool):
            raise IngestError(f"{place}: {_quote_value(value)} is neither true nor false")
        return value
    return _check_template(place, value, preset, key)


def _refuse(place: str, value: Any, remedy: str) -> NoReturn:
    raise IngestError(f"{place}: {_quote_value(value)}: {remedy}")


def _quote_value(value: Any) -> str:
    """Return a value in the form that messages use, at most _QUOTED characters."""
    text = repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def _check_text(place: str, value: Any) -> str:
    if not isinstance(value, str):
        _refuse(place, value, "give text")
    if len(value) > MAX_TEXT or problem_of_text(value) is not None:
        raise IngestError(f"{place}: give up to {MAX_TEXT:,} characters of text, none of them NUL or half a surrogate")
    return value


def _check_template(place: str, value: Any, preset: Mapping[str, Any], key: str) -> str:
    """Check that a text contains the preset's placeholders, except optional ones (_OPTIONAL), and no others."""
    default = preset[key]
    # If answers are labels, the options must still show them.
    shows_answers = key == "option" and "{label}" in preset["continuation"]
    text = _check_text(place, value)
    optional = _OPTIONAL.get(key, frozenset())
    allowed = _placeholders(place, default) | optional
    used = _placeholders(place, text)
    if shows_answers:
        optional -= {"label"}
    if unknown := sorted(used - allowed):
        listed = ", ".join(f"{{{name}}}" for name in sorted(allowed)) or "none"
        _refuse(place, value, f"{{{unknown[0]}}} cannot be used here (placeholders: {listed}); write a brace as {{{{")
    if missing := sorted(_placeholders(place, default) - optional - used):
        _refuse(place, value, f"{{{missing[0]}}} is missing; add it")
    return text


def _placeholders(place: str, text: str) -> frozenset[str]:
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        _refuse(place, text, f"{error}; write a brace as {{{{ or }}}}")
    for _, name, specification, conversion in parts:
        if name is not None and (specification or conversion or not name.isidentifier()):
            _refuse(place, text, "a placeholder is a name in braces, such as {option}")
    return frozenset(name for _, name, _, _ in parts if name is not None)


_OPTIONAL: Final[Mapping[str, frozenset[str]]] = {
    "header": frozenset({"subject"}),
    "instruction": frozenset({"label_word"}),
    "option": frozenset({"label"}),
}
"""Maps a key to the placeholders that its template may omit or add."""


def _check_labels(place: str, value: Any, preset: Mapping[str, Any]) -> str | list[str]:
    """Check the labels by position: the characters of one text, or a list of texts."""
    if not isinstance(value, (str, list)) or not 2 <= len(value) <= 100:
        _refuse(place, value, 'give 2 to 100 labels, as one text ("ABCD") or as a list of texts')
    labels = [_check_text(place, label) for label in value]
    if not all(label.split() == [label] for label in labels):
        _refuse(place, value, "a label must be text without spaces")
    if "{label}" in preset["continuation"] and len(set(labels)) != len(labels):
        _refuse(place, value, f"{preset['format']} answers with a label, so all must differ")
    if preset["format"] == "first-letter" and not all(len(label) == 1 and label.isalnum() for label in labels):
        _refuse(place, value, "first-letter reads one character, so each label is one letter or digit")
    return value


def _check_share(place: str, value: Any, _default: Any) -> str:
    number = _check_decimal(place, value)
    if not 0 <= number <= 1:
        _refuse(place, str(value), "give a number from 0 to 1")
    return _format_decimal(number)


def _check_temperature(place: str, value: Any, _default: Any) -> str:
    number = _check_decimal(place, value)
    if not 0 < number <= 100:
        _refuse(place, str(value), 'give a number above 0 and up to 100; without sampling: sampling = "greedy"')
    return _format_decimal(number)


def _check_decimal(place: str, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or not Decimal(value).is_finite():
        _refuse(place, str(value), "give a number")
    number = Decimal(value)
    if abs(number) > 10**6 or number != round(number, _PLACES):
        _refuse(place, str(value), f"give a number with up to {_PLACES} decimals")
    return number


def _format_decimal(number: Decimal) -> str:
    """Return the same text for equal numbers: 0.60 and 6e-1 are 0.6."""
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _integer_between(low: int, high: int) -> Callable[[str, Any, Any], int]:
    def check(place: str, value: Any, _default: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            _refuse(place, str(value), f"give {low} to {high}")
        return value

    return check


def _one_of(allowed: Sequence[str]) -> Callable[[str, Any, Any], str]:
    def check(place: str, value: Any, _default: Any) -> str:
        if value not in allowed:
            _refuse(place, value, f"use one of {', '.join(allowed)}")
        return str(value)

    return check


def _check_stops(place: str, value: Any, _default: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > 16:
        _refuse(place, value, "give a list of up to 16 texts")
    stops = [_check_text(place, stop) for stop in value]
    if "" in stops:
        _refuse(place, value, "an empty text would stop at once")
    return stops


def _check_rules(place: str, value: Any, default: Any) -> list[str]:
    """Check a selection of the preset's extraction rules, in the order in which they are tried."""
    if not isinstance(value, list) or not value or any(rule not in default or value.count(rule) > 1 for rule in value):
        _refuse(place, value, f"give a list of some of these, each once: {', '.join(default)}")
    return list(value)


def _unless_default(default: str, allowed: Sequence[str]) -> Callable[[str, Any, Any], str | None]:
    """Return a function that checks for one of `allowed`, and returns None for the default."""

    def check(place: str, value: Any, _default: Any) -> str | None:
        chosen = _one_of(allowed)(place, value, None)
        return None if chosen == default else chosen

    return check


def _check_effort(place: str, value: Any, _default: Any) -> str | int:
    """Check an effort: a word or a number of tokens."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer_between(1, 1_000_000)(place, value, None)
    if value not in EFFORTS:
        _refuse(place, value, f"use one of {', '.join(EFFORTS)}, or a number of tokens")
    return str(value)


def _check_markers(place: str, value: Any, _default: Any) -> list[dict[str, list[str]]]:
    """Check the protocol's own markers, and return them in the format of the file of markers."""
    return [family.document() for family in families_of(place, value)]


def _check_model_name(place: str, value: Any, _default: Any) -> str:
    if not _check_text(place, value).strip():
        _refuse(place, value, "give a model's name")
    return str(value)


_TABLES: Final[Mapping[str, Mapping[str, Callable[[str, Any, Any], Any]]]] = {
    "generation": {
        "sampling": _one_of(SAMPLINGS),
        "temperature": _check_temperature,
        "top_k": _integer_between(0, 1_000_000),
        "top_p": _check_share,
        "min_p": _check_share,
        "seed": _integer_between(0, 2**31 - 1),
        "max_tokens": _integer_between(1, 1_000_000),
        "stop": _check_stops,
    },
    "extraction": {"rules": _check_rules, "match": _one_of(("last", "first"))},
    "matching": {"embedder": _check_model_name, "similarity": _one_of(SIMILARITIES)},
}


_THINKING_KEYS: Final[Mapping[str, Callable[[str, Any, Any], Any]]] = {
    "thinking": _unless_default("default", THINKING),
    "effort": _check_effort,
    "max_thought_tokens": _integer_between(1, 1_000_000),
    "at_limit": _unless_default("stop", AT_LIMIT),
}
"""Keys that can be added to `generation` in every preset that generates."""

_THOUGHT_KEYS: Final[Mapping[str, Callable[[str, Any, Any], Any]]] = {
    "thoughts": _unless_default("apart", READINGS),
    "markers": _check_markers,
}
"""Keys that can be added to every preset that generates."""


def load_shipped_definitions() -> dict[str, dict[str, Any]]:
    """Map the name of each custom protocol that ships to its definition, by name."""
    folder = files(__package__) / SHIPPED
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=lambda path: path.name)
    definitions = [read_protocol_file(path) for path in paths]
    return {definition["name"]: definition for definition in definitions}
