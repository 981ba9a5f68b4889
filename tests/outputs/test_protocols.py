"""Protocols in a registry: imported from a file, found by name, and named in imports of outputs."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from registry.db import read_session, write_session
from registry.errors import ProtocolError
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.lookups import find_evaluation
from registry.prompting.protocols.custom import custom_definition
from registry.prompting.protocols.presets import PRESETS
from registry.prompting.protocols.store import find_definition, import_protocol, protocol_definition, store_protocol
from registry.queue.evaluations import EvaluationRequest, submit
from registry.tables import Evaluation
from tests.outputs.conftest import Registry, four_options
from tests.support.commands import shuffleboard
from tests.support.population import add_model


def change(cue: str, name: str = "mine", base: str = "symbols") -> dict[str, object]:
    return custom_definition({"name": name, "base": base, "cue": cue}, "p.toml")


@pytest.mark.one_engine
@pytest.mark.parametrize("protocol", [*PRESETS, "recorded", "match-dash-dot"])
def test_outputs_of_every_way_of_asking_are_imported(registry: Registry, protocol: str) -> None:
    registry.benchmark("b", four_options(2))
    path = registry.file(
        "outputs.jsonl",
        [{"question_id": f"q{q}", "variant": 0, "order": [0, 1, 2, 3], "position": q} for q in range(2)],
    )
    evaluation_id = import_outputs(registry.engine, ImportRequest(path, "m", "b", "original", protocol, shots=3))
    with read_session(registry.engine) as session:
        evaluation = find_evaluation(session, evaluation_id)
        assert evaluation.seal is not None
        assert evaluation.protocol.definition == protocol_definition(protocol, 3)
        assert evaluation.specification["protocol"] == protocol_definition(protocol, 3)


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("name", "lines", "protocol"),
    [
        ("outputs.jsonl", ['{"question_id": "q0", "variant": 0, "order": [0, 1, 2, 3], "position": 0}'], "symbols"),
        ("letters.csv", ["question_id,m", "q0,A"], "recorded"),
        (
            "scored.jsonl",
            ['{"doc_id": 0, "doc": {"id": "q0"}, "target": 0, "resps": [[[-1, 0]], [[-2, 0]], [[-3, 0]], [[-4, 0]]]}'],
            "symbols",
        ),
        (
            "written.jsonl",
            [
                {
                    "doc_id": 0,
                    "doc": {"id": "q0", "always_same_option": "A", "options": ["a", "b", "c", "d"]},
                    "target": "A",
                    "resps": [["the best answer is A"]],
                }
            ],
            "recorded",
        ),
    ],
)
@pytest.mark.parametrize("told", [None, "select-letter"])
def test_letters_and_texts_are_recorded_unless_somebody_says_how_they_were_asked(
    registry: Registry, name: str, lines: list[Any], protocol: str, told: str | None
) -> None:
    registry.benchmark("b", four_options(1))
    evaluation_id = import_outputs(
        registry.engine, ImportRequest(registry.file(name, lines), "m", "b", "imported", protocol=told)
    )
    with read_session(registry.engine) as session:
        assert find_evaluation(session, evaluation_id).protocol.name == (told or protocol)


@pytest.mark.one_engine
def test_no_model_is_asked_by_the_protocol_that_says_nobody_knows(registry: Registry) -> None:
    registry.benchmark("b", four_options(2))
    with write_session(registry.engine) as session:
        add_model(session, "asked")
    request = EvaluationRequest("asked", "b", "cyclic", "recorded")
    with pytest.raises(ProtocolError, match="nobody knows"), write_session(registry.engine) as session:
        submit(session, request)
    shown = shuffleboard("protocols", "prompt", "recorded", "--benchmark", "b", database_url=registry.url, status=2)
    assert "recorded makes no prompts" in shown.stderr


@pytest.mark.parametrize(
    ("protocol", "variants", "problem"),
    [
        ("cloze", "relabel", "cloze does not list the options, so they have no labels"),
        ("symbols", "relabel:labels=dash", "the same for every option; symbols needs distinct"),
    ],
)
def test_variants_that_a_protocol_cannot_ask_under_are_refused_at_submitting(
    registry: Registry, protocol: str, variants: str, problem: str
) -> None:
    registry.benchmark("b", four_options(2))
    with write_session(registry.engine) as session:
        add_model(session, "asked")
    with pytest.raises(ProtocolError, match=problem), write_session(registry.engine) as session:
        submit(session, EvaluationRequest("asked", "b", variants, protocol))
    with read_session(registry.engine) as session:
        assert session.scalar(select(func.count()).select_from(Evaluation)) == 0


def test_a_changed_definition_is_a_new_protocol_under_its_name(registry: Registry) -> None:
    first, second = change("So:"), change("Thus:")
    with write_session(registry.engine) as session:
        row, new = import_protocol(session, first)
        assert (row.digest, new) == (import_protocol(session, first)[0].digest, True)
        assert find_definition(session, "mine", 2) == first | {"shots": 2}
        # It is used with examples, so that the table contains it twice.
        store_protocol(session, find_definition(session, "mine", 2))
        other, new = import_protocol(session, second)
        assert new
        assert other.digest != row.digest
        assert find_definition(session, "mine", 2) == second | {"shots": 2}
        # Importing the older one again adds nothing, and the name still means the newer one.
        assert import_protocol(session, first)[1] is False
        assert find_definition(session, "mine") == second


@pytest.mark.parametrize("shots", [-1, 101])
def test_the_number_of_examples_of_an_imported_protocol_has_bounds(registry: Registry, shots: int) -> None:
    with write_session(registry.engine) as session:
        import_protocol(session, change("So:"))
        with pytest.raises(ProtocolError, match=f"shots {shots}: give a number from 0 to 100"):
            find_definition(session, "mine", shots)


def test_an_unknown_name_is_told_what_there_is(registry: Registry) -> None:
    with write_session(registry.engine) as session:
        import_protocol(session, change("So:"))
        with pytest.raises(
            ProtocolError, match=r"unknown protocol 'guess'; to add it: .*; known: symbols, .* and \d+ more$"
        ):
            find_definition(session, "guess")


def test_a_name_that_comes_with_the_code_is_not_given_another_meaning(registry: Registry) -> None:
    with (
        write_session(registry.engine) as session,
        pytest.raises(ProtocolError, match="protocol match-x comes with Shuffleboard; choose another name"),
    ):
        import_protocol(session, change("So:", "match-x"))


# On the command line


def test_from_a_file_to_the_list(registry: Registry, tmp_path: Path) -> None:
    run = partial(shuffleboard, "protocols", database_url=registry.url)
    path = tmp_path / "p.toml"
    path.write_text('name = "mine"\nbase = "match-dash"\n[generation]\nmax_tokens = 64\n')
    document = json.loads(run("import", path, "--json").stdout)
    assert (document["protocol"], document["format"], document["new"]) == ("mine", "match-dash", True)
    assert run("import", path).stdout == f"protocol mine {document['digest'][:12]} already exists\n"
    listed = {row["protocol"]: row for row in json.loads(run("list", "--json").stdout)["protocols"]}
    assert {listed[name]["kind"] for name in PRESETS} == {"preset"}
    assert (listed["match-x"]["kind"], listed["mine"]["kind"]) == ("shipped", "imported")
    assert listed["mine"]["digest"] == document["digest"]
    shown = json.loads(run("show", "mine", "--shots", 5, "--json").stdout)
    assert shown["definition"]["generation"]["max_tokens"] == 64
    assert (shown["definition"]["shots"], shown["digest"] == document["digest"]) == (5, False)
    assert "generation.max_tokens  64\n" in run("show", "mine").stdout
    path.write_text('name = "mine"\nbase = "match-dash"\n[generation]\nmax_tokens = 65\n')
    assert run("import", path).stdout.endswith(" loaded\n")
    path.write_text('name = "mine"\nbase = "match-dash"\n[generation]\nmax_tokens = 64\n')
    assert "mine means a newer definition" in run("import", path).stderr
    assert "mine " in run("list").stdout
