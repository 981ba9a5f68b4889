"""Stored outputs read again by other rules: what changes, and whether the model or the reading made answers flip."""

import json
import random

import pytest
from sqlalchemy import select, text

from registry.db import read_session, write_session
from registry.errors import ProtocolError, UsageError
from registry.exchange.outputs.importer import ImportRequest, import_outputs
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.reading import read
from registry.prompting.thoughts import Output
from registry.scores.analyses import READING
from registry.sealed.exporting import export_evaluation
from registry.sealed.importing import import_evaluation
from registry.settings import get_settings
from registry.studies.rereading import reread, store_reading
from registry.tables import Analysis, ChainLink, Evaluation
from registry.verification import verify_all, verify_evaluation
from tests.commands import shuffleboard
from tests.outputs.conftest import four_options, registries, registry

__all__ = ["registries", "registry"]

LETTERS = "ABCD"
FINAL = protocol_definition("final-answer")
IN_TEXT = protocol_definition("select-letter") | {"thoughts": "in-text"}
COUNT = 1000
PLANTED = {"model": 0.25, "reading": 0.15}
"""Shares of questions that flip because of the model, and only because the first reading reads thoughts."""


def unasked(_text, _options):
    pytest.fail("labels need no matching")


def output(kind, right, variant):
    """What a model writes under one rotation: `right` is the position of the right option."""
    other = LETTERS[(right + 1) % 4]
    answer = other if kind == "model" and variant == 2 else LETTERS[right]
    if kind == "reading" and variant == 1:
        # The first reading takes the sentence in the thought for the answer.
        return f"<think>At first sight the answer is {other}. No.</think>\n\\boxed{{{answer}}}"
    return f"<think>The right one is {answer}.</think>\nThe answer is {answer}\n\nAnswer: {answer}"


def planted(count, seed=0):
    """(lines of outputs, how many questions were planted of each kind). The first reading is select-letter in-text."""
    generator, lines = random.Random(seed), []
    kinds = [
        "model" if share < PLANTED["model"] else "reading" if share < sum(PLANTED.values()) else "steady"
        for share in (generator.random() for _ in range(count))
    ]
    for number, kind in enumerate(kinds):
        for variant in range(4):
            order = [(position + variant) % 4 for position in range(4)]
            written = output(kind, order.index(number % 4), variant)
            found = read(IN_TEXT, Output(written), LETTERS, "abcd")
            line = {"question_id": f"q{number}", "variant": variant, "order": order}
            lines.append(line | {"position": found.position, "text": written})
    return lines, {kind: kinds.count(kind) for kind in PLANTED}


def evaluation_of(registry, lines, count, **asked):
    registry.benchmark("b", four_options(count))
    file = registry.file("outputs.jsonl", lines)
    return import_outputs(registry.engine, ImportRequest(file, "m", "b", "cyclic", **asked))


@pytest.mark.one_engine
def test_flips_are_split_into_the_models_and_the_readings_as_they_were_planted(registry):
    lines, counts = planted(COUNT)
    one = evaluation_of(registry, lines, COUNT, protocol="select-letter")
    with read_session(registry.engine) as session:
        seal = session.get_one(Evaluation, one).seal
        links = len(session.scalars(select(ChainLink)).all())
    document = json.loads(
        shuffleboard(
            "evaluations", "reread", one, "--protocol", "final-answer", "--json", database_url=registry.url
        ).stdout
    )
    questions = document["flips"]["questions"]
    assert (questions["of"], document["prompts"]) == (COUNT, 4 * COUNT)
    for kind in PLANTED:
        assert questions[kind] == counts[kind]
        assert questions[kind] / COUNT == pytest.approx(PLANTED[kind], abs=0.03)
    assert (questions["first_only"], questions["second_only"]) == (counts["reading"], 0)
    assert questions["model_share"] == counts["model"] / (counts["model"] + counts["reading"])
    # Of six pairs of orders, three differ where one answer does.
    assert [document["flips"]["pairs"][kind] for kind in PLANTED] == [3 * counts[kind] for kind in PLANTED]
    assert document["changed"] == document["changed_options"] == counts["reading"]
    assert document["metrics"]["fluctuation_rate"]["second"] == pytest.approx(counts["model"] / COUNT)
    assert document["metrics"]["worst_accuracy"]["second"] == pytest.approx(1 - counts["model"] / COUNT)
    with read_session(registry.engine) as session:
        assert session.get_one(Evaluation, one).seal == seal
        added = session.scalars(select(ChainLink.kind).order_by(ChainLink.position)).all()[links:]
        assert added == [READING]


@pytest.fixture
def few(registry):
    lines, _ = planted(40, seed=3)
    return registry, evaluation_of(registry, lines, 40, protocol="select-letter")


def test_the_same_reading_is_stored_once_and_another_one_beside_it(few):
    registry, one = few
    for thoughts, said in ((), "40 questions"), ((), "already stored"), (("--thoughts", "in-text"), "select"):
        protocol = "select-letter" if thoughts else "final-answer"
        done = shuffleboard(
            "evaluations", "reread", one, "--protocol", protocol, *thoughts, database_url=registry.url, width=100
        )
        assert said in done.stdout + done.stderr
    with read_session(registry.engine) as session:
        kept = session.scalars(select(Analysis).filter_by(kind=READING).order_by(Analysis.id)).all()
        assert verify_evaluation(session, one)["problems"] == []
        assert [row.parameters["protocol"] for row in kept] == ["final-answer", "select-letter-in-text"]
        # Read as it was read the first time, nothing changes.
        assert (kept[1].result["changed"], kept[1].result["differing"]) == (0, {})


def test_a_reading_that_was_changed_or_removed_is_found(few):
    registry, one = few
    shuffleboard("evaluations", "reread", one, "--protocol", "final-answer", database_url=registry.url)
    with registry.engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.execute(text("DROP TRIGGER sealed_analysis_update"))
            connection.execute(text("DROP TRIGGER sealed_analysis_delete"))
        else:
            connection.execute(text("ALTER TABLE analysis DISABLE TRIGGER USER"))
        rows = connection.execute(select(Analysis.id, Analysis.result).filter_by(kind=READING)).one()
        changed = rows.result | {"changed": rows.result["changed"] + 1}
        connection.execute(Analysis.__table__.update().where(Analysis.id == rows.id).values(result=changed))
    with read_session(registry.engine) as session:
        problems = verify_evaluation(session, one)["problems"]
        assert any("the chain does not contain it" in problem for problem in problems)
        assert any("recomputing it gives another result" in problem for problem in problems)
    with registry.engine.begin() as connection:
        connection.execute(Analysis.__table__.delete().where(Analysis.kind == READING))
    with read_session(registry.engine) as session:
        assert any("reading" in problem and "no longer" in problem for problem in verify_all(session)["problems"])


def test_a_reading_travels_with_its_evaluation(registries, tmp_path):
    one, other = registries
    one.model("m")
    lines, _ = planted(20, seed=5)
    evaluation = evaluation_of(one, lines, 20, protocol="select-letter")
    shuffleboard("evaluations", "reread", evaluation, "--protocol", "final-answer", database_url=one.url)
    export_evaluation(one.engine, get_settings(), evaluation, tmp_path / "exported")
    imported, _ = import_evaluation(other.engine, tmp_path / "exported")
    with read_session(other.engine) as session:
        assert verify_evaluation(session, imported)["problems"] == []
        assert verify_all(session)["ok"]
        assert len(session.scalars(select(Analysis).filter_by(kind=READING)).all()) == 1


@pytest.mark.one_engine
def test_answers_in_words_are_matched_and_missing_texts_leave_their_question_out(registry):
    lines, _ = planted(20, seed=7)
    for line in lines:
        line["text"] = f"<think>Hm.</think>Answer: {'abcd'[line['order'][0]]}"
    del lines[0]["text"]
    one = evaluation_of(registry, lines, 20, protocol="match-dash")
    asked = []

    def match(answer, options):
        asked.append(answer)
        return options.index(answer)

    with read_session(registry.engine) as session:
        definition = protocol_definition("match-dash-chat")
        parameters, result = reread(session, one, definition, match)
        assert len(asked) == 76
        assert (result["left_out"], result["prompts"]) == (["q0"], 76)
        # It always writes the first option: another one in each order.
        assert result["flips"]["questions"]["model"] + result["flips"]["questions"]["second_only"] == 19
        with pytest.raises(ProtocolError, match="shows no labels"):
            reread(session, one, FINAL, unasked)
        with pytest.raises(ProtocolError, match="scores options"):
            reread(session, one, protocol_definition("symbols"), unasked)
    with write_session(registry.engine) as session:
        assert store_reading(session, session.get_one(Evaluation, one), parameters, result)
    with read_session(registry.engine) as session:
        assert verify_evaluation(session, one)["problems"] == []


@pytest.mark.one_engine
def test_what_was_not_kept_is_not_read(registry, monkeypatch):
    monkeypatch.setenv("SHUFFLEBOARD_KEEP_THOUGHTS", "false")
    lines, _ = planted(4, seed=1)
    one = evaluation_of(registry, lines, 4, protocol="select-letter")
    with read_session(registry.engine) as session:
        with pytest.raises(UsageError, match="were not kept"):
            reread(session, one, IN_TEXT, unasked)
        assert reread(session, one, FINAL, unasked)[1]["states"][1]["answered"] == 16
    for line in lines:
        del line["text"]
    file = registry.file("silent.jsonl", lines)
    silent = import_outputs(registry.engine, ImportRequest(file, "m", "b", "cyclic"))
    with read_session(registry.engine) as session, pytest.raises(UsageError, match="nothing to read again"):
        reread(session, silent, FINAL, unasked)
