"""Presets, which must not change, and custom protocols, whose files are checked."""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from registry.boards.definition import evaluations_asked, read_suite_file
from registry.digests import specification_digest
from registry.errors import IngestError
from registry.prompting.protocols.custom import custom_definition, load_shipped_definitions, read_protocol_file
from registry.prompting.protocols.presets import PRESETS
from registry.prompting.protocols.store import load_known_definitions, protocol_definition

DIGESTS = {
    "symbols": "1db823e9a9449f569f8a0033e5812a47314a4cc9b7c56443454e8293fbffa904",
}


def custom(base: str, **changes: Any) -> dict[str, Any]:
    return custom_definition({"name": "mine", "base": base, **changes}, "p.toml")


# Presets


def test_the_preset_that_evaluations_were_made_with_keeps_its_digest() -> None:
    for shots, digest in (
        (0, DIGESTS["symbols"]),
        (5, "3fce5f48693f95940108f7621b0d5ae32fbbd594f5cc81fa7dcb59237d4a3ec9"),
    ):
        assert specification_digest(protocol_definition("symbols", shots)) == digest


def test_the_presets_differ() -> None:
    nowak = ("select-letter", "select-dash", "match-letter", "match-dash")
    names = ("symbols", "hybrid", "cloze", "first-letter", *nowak, "final-answer", "final-answer-text")
    assert tuple(PRESETS) == names
    assert len({specification_digest({**protocol_definition(name), "name": ""}) for name in names}) == len(names)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_with_examples_is_itself_with_their_number(name: str) -> None:
    assert protocol_definition(name, 5) == protocol_definition(name) | {"shots": 5}


def test_what_a_caller_does_to_a_definition_does_not_change_the_preset() -> None:
    protocol_definition("match-dash")["generation"]["stop"].append("!")
    assert protocol_definition("match-dash")["generation"]["stop"] == ["\nQuestion:"]


@pytest.mark.parametrize("name", ["select-letter", "select-dash", "match-letter", "match-dash"])
def test_generation_settings_are_the_models_own_or_the_papers(name: str) -> None:
    # Nowak et al., Table 4: temperature 0.6, top-k 20, top-p 0.95, min-p 0.
    assert protocol_definition(name)["generation"] == {
        "sampling": "model",
        "temperature": "0.6",
        "top_k": 20,
        "top_p": "0.95",
        "min_p": "0",
        "seed": 0,
        "max_tokens": 512,
        "stop": ["\nQuestion:"],
    }
    assert protocol_definition(name)["extraction"]["match"] == "last"


# Custom protocols


def test_a_custom_protocol_is_its_base_with_some_keys_changed(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(
        'name = "mine"\nbase = "match-dash"\ncue = "So:"\n'
        "[generation]\ntemperature = 0.70\nmax_tokens = 64\n[extraction]\nmatch = 'first'\n[matching]\nsimilarity = "
        "'dot'\n"
    )
    base = protocol_definition("match-dash")
    assert read_protocol_file(path) == base | {
        "name": "mine",
        "cue": "So:",
        "generation": base["generation"] | {"temperature": "0.7", "max_tokens": 64},
        "extraction": base["extraction"] | {"match": "first"},
        "matching": base["matching"] | {"similarity": "dot"},
    }


def test_toml_and_json_of_the_same_protocol_have_one_digest(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('name = "mine"\nbase = "select-dash"\n[generation]\ntop_p = 0.90\n')
    (tmp_path / "p.json").write_text('{"base": "select-dash", "name": "mine", "generation": {"top_p": 9e-1}}')
    digests = {specification_digest(read_protocol_file(tmp_path / name)) for name in ("p.toml", "p.json")}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("given", "stored"),
    [("0.60", "0.6"), ("1", "1"), ("1.0", "1"), ("6E-1", "0.6"), ("10", "10"), ("1e-9", "0.000000001")],
)
def test_one_number_has_one_text(given: str, stored: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(f'{{"name": "mine", "base": "match-dash", "generation": {{"temperature": {given}}}}}')
    assert read_protocol_file(path)["generation"]["temperature"] == stored


@pytest.mark.parametrize("name", load_shipped_definitions())
def test_a_shipped_protocol_differs_from_its_base_and_names_its_file(name: str) -> None:
    definition = load_known_definitions()[name]
    preset = PRESETS[definition["format"]]
    assert {key for key in definition if key not in ("name", "shots") and definition[key] != preset.get(key)}
    assert name not in PRESETS


def test_labels_are_a_text_or_a_list() -> None:
    assert custom("match-letter", labels="12345")["labels"] == "12345"
    assert custom("match-letter", labels=["I", "II"])["labels"] == ["I", "II"]
    assert custom("match-letter", labels=["X", "X"])["labels"] == ["X", "X"]


REFUSED: Mapping[str, tuple[dict[str, Any], str]] = {
    "no base": ({"name": "mine"}, "base is missing or not text"),
    "no name": ({"base": "cloze"}, "name is missing or not text"),
    "an unknown base": ({"name": "mine", "base": "guess"}, "base 'guess' is not a preset; use one of symbols, hybrid"),
    "a preset's name": ({"name": "cloze", "base": "cloze"}, "name 'cloze' is a preset, and presets cannot be changed"),
    "a name with a blank": ({"name": "my own", "base": "cloze"}, "protocol name 'my own': use up to 200"),
    "an unknown key": (
        {"name": "mine", "base": "cloze", "tone": "kind"},
        "'tone' is not a key that cloze lets you change; those are: question, cue",
    ),
    "a key of another preset": ({"name": "mine", "base": "cloze", "labels": "AB"}, "'labels' is not a key that cloze"),
    "a fixed key": (
        {"name": "mine", "base": "cloze", "score": "sum"},
        "'score' is not a key that cloze lets you change",
    ),
    "shots": (
        {"name": "mine", "base": "cloze", "shots": 5},
        "shots belong to an evaluation; give them there: --shots 5",
    ),
    "a cue that is no text": ({"name": "mine", "base": "cloze", "cue": 1}, "cue: 1: give text"),
    "NUL": ({"name": "mine", "base": "cloze", "cue": "\0"}, "cue: give up to 20,000 characters"),
    "half a surrogate": ({"name": "mine", "base": "cloze", "cue": "\ud800"}, "cue: give up to 20,000 characters"),
    "a placeholder that does not belong there": (
        {"name": "mine", "base": "cloze", "cue": "{option}"},
        "cue: '{option}': {option} cannot be used here (placeholders: none); write a brace as {{",
    ),
    "a placeholder that lacks": (
        {"name": "mine", "base": "cloze", "question": "Why?"},
        "question: 'Why?': {question} is missing; add it",
    ),
    "an attribute": (
        {"name": "mine", "base": "cloze", "question": "{question.__class__}"},
        "a placeholder is a name in braces",
    ),
    "a format": ({"name": "mine", "base": "cloze", "question": "{question!r}"}, "a placeholder is a name in braces"),
    "a number in braces": ({"name": "mine", "base": "cloze", "question": "{0}"}, "a placeholder is a name in braces"),
    "a single brace": ({"name": "mine", "base": "cloze", "question": "{question"}, "write a brace as {{ or }}"),
    "labels hidden where they are answered": (
        {"name": "mine", "base": "select-letter", "option": "- {option}"},
        "option: '- {option}': {label} is missing; add it",
    ),
    "equal labels": (
        {"name": "mine", "base": "symbols", "labels": "AAB"},
        "symbols answers with a label, so all must differ",
    ),
    "one label": ({"name": "mine", "base": "symbols", "labels": "A"}, "give 2 to 100 labels"),
    "an empty label": ({"name": "mine", "base": "symbols", "labels": ["A", ""]}, "a label must be text without spaces"),
    "a label with a blank": (
        {"name": "mine", "base": "symbols", "labels": ["A", "B C"]},
        "a label must be text without spaces",
    ),
    "long labels that one letter is read of": (
        {"name": "mine", "base": "first-letter", "labels": ["A1", "A2"]},
        "each label is one letter or digit",
    ),
    "a template that is no flag": (
        {"name": "mine", "base": "cloze", "chat_template": 1},
        "chat_template: 1 is neither true nor false",
    ),
    "a value for a table": ({"name": "mine", "base": "match-dash", "generation": 1}, "generation: 1 is not a table"),
    "an unknown key of a table": (
        {"name": "mine", "base": "match-dash", "generation": {"beam": 1}},
        "generation: 'beam' is not one of its keys; it has: sampling, temperature",
    ),
    "an unknown sampling": (
        {"name": "mine", "base": "match-dash", "generation": {"sampling": "wild"}},
        "generation.sampling: 'wild': use one of model, given, greedy",
    ),
    "a temperature of zero": (
        {"name": "mine", "base": "match-dash", "generation": {"temperature": 0}},
        'sampling = "greedy"',
    ),
    "a share above one": (
        {"name": "mine", "base": "match-dash", "generation": {"top_p": 2}},
        "give a number from 0 to 1",
    ),
    "a flag for a number": ({"name": "mine", "base": "match-dash", "generation": {"top_p": True}}, "give a number"),
    "no token": ({"name": "mine", "base": "match-dash", "generation": {"max_tokens": 0}}, "give 1 to 1000000"),
    "an empty stop": (
        {"name": "mine", "base": "match-dash", "generation": {"stop": [""]}},
        "an empty text would stop at once",
    ),
    "a stop that is no list": (
        {"name": "mine", "base": "match-dash", "generation": {"stop": "a"}},
        "give a list of up to 16 texts",
    ),
    "a rule of another preset": (
        {"name": "mine", "base": "match-dash", "extraction": {"rules": ["letter"]}},
        "give a list of some of these, each once: answer-is, answer-colon, option, last-sentence",
    ),
    "no rule": ({"name": "mine", "base": "match-dash", "extraction": {"rules": []}}, "give a list of some of these"),
    "an unknown match": (
        {"name": "mine", "base": "match-dash", "extraction": {"match": "any"}},
        "use one of last, first",
    ),
    "an unknown similarity": (
        {"name": "mine", "base": "match-dash", "matching": {"similarity": "near"}},
        "use one of cosine, dot, euclidean, manhattan",
    ),
    "no embedder": ({"name": "mine", "base": "match-dash", "matching": {"embedder": " "}}, "give a model's name"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_breaks_a_rule_is_refused_by_its_place(case: str) -> None:
    document, message = REFUSED[case]
    with pytest.raises(IngestError) as refused:
        custom_definition(document, "p.toml")
    assert str(refused.value).startswith("p.toml: ")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.toml", b"name = ", "p.toml: not valid TOML"),
        ("p.json", b"{", "p.json: not valid JSON"),
        ("p.json", b"[]", "p.json: not a JSON object"),
        ("p.json", b'{"name": "a", "name": "b"}', "key 'name' is given twice"),
        ("p.yaml", b"", "p.yaml: unknown kind of file; use .toml or .json"),
        ("p.toml", b"\xff", "p.toml: is not UTF-8; save it as UTF-8"),
        ("p.toml", b"a" * 1_000_001, "p.toml: is larger than 1,000,000 bytes"),
        (
            "p.json",
            b'{"name": "mine", "base": "match-dash", "generation": {"temperature": NaN}}',
            "NaN is not a number",
        ),
        ("p.toml", b'name = "mine"\nbase = "match-dash"\ngeneration.temperature = inf', "give a number"),
        ("p.json", b'{"name": "mine", "base": "match-dash", "generation": {"top_p": 1e-999999}}', "up to 9 decimals"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(IngestError, match=message):
        read_protocol_file(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match=r"nothing\.toml: cannot be read"):
        read_protocol_file(tmp_path / "nothing.toml")


def test_a_definition_is_plain_json() -> None:
    for definition in load_known_definitions().values():
        assert json.loads(json.dumps(definition)) == definition


def suite_files() -> list[Path]:
    return sorted(Path(str(files("registry.boards") / "suites")).glob("*.toml"))


@pytest.mark.parametrize("path", suite_files(), ids=lambda path: path.stem)
def test_suites_that_ship_ask_with_protocols_that_there_are(path: Path) -> None:
    protocols = {evaluation.protocol for evaluation in evaluations_asked(read_suite_file(path), ["any"])}
    assert protocols <= set(load_known_definitions())
