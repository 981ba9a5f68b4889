"""Replays: evaluations made from stored answers with other right options or another reading."""

import json
import random

import pytest
from sqlalchemy import select, text, update

from registry.db import read_session, write_session
from registry.errors import ArchivedError, NotFoundError, ProtocolError, QueueError, UsageError
from registry.logs.imports import importer
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.reading import read
from registry.prompting.thoughts import Output
from registry.scores.asked import as_specified
from registry.sealed.archiving import archive, restore
from registry.sealed.exporting import export_evaluation
from registry.sealed.importing import import_evaluation
from registry.sealed.provenance import provenance_document
from registry.sealed.replaying import ReplayRequest, replay
from registry.sealed.verification import verify_all
from registry.sealed.withdrawals import withdraw
from registry.settings import get_settings
from registry.tables import Evaluation, Generation, Model, Prediction, Question
from tests.outputs.conftest import Registry, registries, registry
from tests.proof.replays import lines_of, metrics, record, replayed, rotations, version
from tests.support.commands import shuffleboard, shuffleboard_json
from tests.support.population import queue_evaluation

pytestmark = pytest.mark.long_on("postgresql")

__all__ = ["registries", "registry"]

COUNT = 24
KEYS = [number % 4 for number in range(COUNT)]
CORRECTED = [(key + 1) % 4 if number % 5 == 0 else key for number, key in enumerate(KEYS)]
IN_TEXT = protocol_definition("select-letter") | {"thoughts": "in-text"}


def draw(generator):
    """Return log-probabilities of four options, with and without the question."""
    both = [[-generator.uniform(0.1, 9) for _ in range(4)] for _ in range(2)]
    return {"logprobs": both[0], "logprobs_without_question": both[1]}


@pytest.fixture
def scored(registry: Registry):
    """Return a registry with two versions of b that have different right options, and scored outputs on the first."""
    version(registry, "1", lines_of(KEYS))
    version(registry, "2", lines_of(CORRECTED))
    generator, outputs = random.Random(0), []
    for number in range(COUNT):
        for line in rotations(number, [0] * 4):
            del line["position"]
            outputs.append(line | draw(generator))
    return registry, outputs


def load_rows(registry, evaluation):
    """Return the predictions of an evaluation by external question id and variant, without the database's ids."""
    query = (
        select(Question.external_id, *Prediction.__table__.columns)
        .join(Question, Question.id == Prediction.question_id)
        .where(Prediction.evaluation_id == evaluation)
    )
    with read_session(registry.engine) as session:
        return {
            (row["external_id"], row["variant"]): {
                name: value for name, value in row.items() if name not in ("evaluation_id", "question_id")
            }
            for row in session.execute(query).mappings()
        }


def test_a_replay_under_another_key_equals_an_import_under_it(scored):
    registry, outputs = scored
    source = record(registry, outputs)
    before = metrics(registry, source)
    replay_id = replayed(registry, source, benchmark="b@2")
    imported = record(registry, outputs, at="2")
    assert load_rows(registry, replay_id) == load_rows(registry, imported)
    assert metrics(registry, replay_id) == metrics(registry, imported)
    assert metrics(registry, replay_id) != before == metrics(registry, source)
    with read_session(registry.engine) as session:
        assert verify_all(session)["ok"]


def test_a_replay_of_1_0_answers_counts_as_its_source_does(scored, monkeypatch):
    registry, outputs = scored
    with monkeypatch.context() as patched:
        patched.setattr(importer, "as_specified", lambda said: as_specified(said) | {"recorded": False})
        source = record(registry, outputs)
    replay_id = replayed(registry, source, benchmark="b@2")
    with read_session(registry.engine) as session:
        assert not session.get_one(Evaluation, replay_id).recorded


def test_a_replay_names_its_source_everywhere(scored):
    registry, outputs = scored
    source = record(registry, outputs)
    replay_id = replayed(registry, source, benchmark="b@2")
    with read_session(registry.engine) as session:
        seal = session.get_one(Evaluation, source).seal
        evaluation = session.get_one(Evaluation, replay_id)
        assert (evaluation.state, evaluation.replayed_from) == ("complete", seal)
        assert evaluation.specification["engine"] == {"name": "replay", "replayed_from": seal}
        rows = dict(session.execute(text("SELECT evaluation_id, replayed_from FROM leaderboard")).all())
        assert rows == {source: None, replay_id: source}
        document = provenance_document(session, replay_id)
        assert document["replayed_from"] == source
        assert document["replays"] == []
        assert document["copies"]["predictions"] == 4 * COUNT
        assert [item["evaluation"] for item in document["copies"]["sources"]] == [source]
        assert provenance_document(session, source)["replays"] == [replay_id]


def thinking(kind, right, variant):
    """Return a model's text in one rotation, where `right` is the position of the right option."""
    label, other = "ABCD"[right], "ABCD"[(right + 1) % 4]
    if kind == "thought" and variant == 1:
        return f"<think>At first sight the answer is {other}. No.</think>\n\\boxed{{{label}}}"
    return f"<think>The right one is {label}.</think>\nThe answer is {label}\n\nAnswer: {label}"


def write(count, every=3):
    """Return outputs of a model that is always right; a third of them mislead rules that read thoughts."""
    outputs = []
    for number in range(count):
        for line in rotations(number, [KEYS[number]] * 4):
            kind = "thought" if number % every == 0 else "plain"
            output = thinking(kind, line["order"].index(KEYS[number]), line["variant"])
            reading = read(IN_TEXT, Output(output), "ABCD", "abcd")
            outputs.append(line | {"position": reading.position, "text": output})
    return outputs


@pytest.fixture
def read_in_text(registry: Registry):
    """Return a registry with texts that were read including their thoughts, and the evaluation's id."""
    version(registry, "1", lines_of(KEYS))
    version(registry, "2", lines_of(CORRECTED))
    return registry, record(registry, write(COUNT), protocol="select-letter")


def test_another_reading_is_stored_with_its_rules_and_the_same_texts(read_in_text):
    registry, source = read_in_text
    document = shuffleboard_json(
        "evaluations", "replay", source, "--protocol", "final-answer", database_url=registry.url
    )
    replay_id = document["evaluation"]
    assert document == {"evaluation": replay_id, "source": source}
    rows, before = load_rows(registry, replay_id), load_rows(registry, source)
    changed = {key for key in rows if rows[key]["chosen_option"] != before[key]["chosen_option"]}
    assert changed == {(f"q{number}", 1) for number in range(0, COUNT, 3)}
    assert all(row["correct"] for row in rows.values())
    assert {row["extraction_rule"] for row in rows.values()} == {"answer-line", "boxed"}
    with read_session(registry.engine) as session:
        texts = [
            session.execute(
                select(Generation.text, Generation.thought_digest)
                .where(Generation.evaluation_id == number)
                .order_by(Generation.question_id, Generation.variant)
            ).all()
            for number in (source, replay_id)
        ]
        assert texts[0] == texts[1]
        protocol = session.get_one(Evaluation, replay_id).protocol
        assert protocol.name == "select-letter-read-by-final-answer"
        assert protocol.definition["read_by"]["name"] == "final-answer"
        assert verify_all(session)["ok"]


def test_key_and_reading_change_together_or_one_after_the_other(read_in_text):
    registry, source = read_in_text
    both = replayed(registry, source, benchmark="b@2", protocol="final-answer")
    read_again = replayed(registry, source, protocol="final-answer")
    after = replayed(registry, read_again, benchmark="b@2")
    assert after != both
    assert load_rows(registry, both) == load_rows(registry, after)
    # With its own rules and the first right options, a replay equals its source.
    with read_session(registry.engine) as session:
        protocol_id = session.get_one(Evaluation, source).protocol_id
    back = replayed(registry, replayed(registry, both, benchmark="b@1"), protocol="select-letter")
    with read_session(registry.engine) as session:
        assert session.get_one(Evaluation, back).protocol_id == protocol_id


def test_the_same_replay_is_made_once_until_it_is_withdrawn(scored):
    registry, outputs = scored
    source = record(registry, outputs)
    replay_id = replayed(registry, source, benchmark="b@2")
    done = shuffleboard("evaluations", "replay", source, "--benchmark", "b@2", database_url=registry.url)
    assert json.loads(done.stdout) == {"evaluation": replay_id, "source": source}
    assert "is that replay already" in done.stderr
    with write_session(registry.engine) as session:
        withdraw(session, replay_id, "wrong")
    again = replayed(registry, source, benchmark="b@2")
    with read_session(registry.engine) as session:
        assert session.get_one(Evaluation, again).replicate == 1
        assert verify_all(session)["ok"]


def test_withdrawing_a_source_flags_its_replays(scored):
    registry, outputs = scored
    source = record(registry, outputs)
    replay_id = replayed(registry, source, benchmark="b@2")
    document = shuffleboard_json(
        "evaluations", "withdraw", source, "--reason", "the wrong model", database_url=registry.url
    )
    assert document["copied_by"] == [replay_id]
    with read_session(registry.engine) as session:
        query = text("SELECT copies_withdrawn FROM leaderboard WHERE evaluation_id = :id")
        assert session.scalar(query, {"id": replay_id})
    with pytest.raises(QueueError, match=r"was withdrawn \(the wrong model\).*evaluations submit"):
        replayed(registry, source, benchmark="b@2")


CHANGED = {
    "2 questions missing from it: q4, q5": lines_of(KEYS[:4]),
    "1 question that the evaluation did not ask: q6": lines_of([*KEYS[:6], 0]),
    "6 questions with another subject, context or text: q0, q1, q2, q3, q4 and 1 more": lines_of(
        KEYS[:6], context="New."
    ),
    "1 question with other options: q1": [
        line | {"options": ["a", "b", "c", "e"]} if line["id"] == "q1" else line for line in lines_of(KEYS[:6])
    ],
    "1 question with options in another order: q2": [
        line | {"options": ["b", "a", "c", "d"]} if line["id"] == "q2" else line for line in lines_of(KEYS[:6])
    ],
}


@pytest.mark.parametrize("reason", CHANGED)
def test_other_questions_are_refused_by_name(registry: Registry, reason):
    version(registry, "1", lines_of(KEYS[:6]))
    version(registry, "2", CHANGED[reason])
    source = record(registry, [line for number in range(6) for line in rotations(number, [0] * 4)])
    with pytest.raises(UsageError, match=f"evaluation {source} cannot be replayed on b@2: {reason}; give a version"):
        replayed(registry, source, benchmark="b@2")
    with read_session(registry.engine) as session:
        assert session.scalars(select(Evaluation.id)).all() == [source]


@pytest.mark.one_engine
def test_orders_that_follow_the_key_are_refused(registry: Registry):
    version(registry, "1", lines_of(KEYS[:4]))
    version(registry, "2", lines_of([*KEYS[:3], 0]))
    outputs = []
    for number, key in enumerate(KEYS[:4]):
        orders = [[0, 1, 2, 3]]
        for place in range(4):
            order = [0, 1, 2, 3]
            order[place], order[key] = order[key], order[place]
            orders.append(order)
        outputs += [
            {"question_id": f"q{number}", "variant": variant, "order": order, "position": 0}
            for variant, order in enumerate(orders)
        ]
    source = record(registry, outputs, variants="answer-moving")
    with pytest.raises(UsageError, match="1 question whose orders follow the key: q3"):
        replayed(registry, source, benchmark="b@2")


@pytest.mark.one_engine
def test_another_few_shot_pool_is_refused_if_examples_were_shown(registry: Registry):
    pool = lines_of([0, 1])
    version(registry, "1", lines_of(KEYS[:4]), pool)
    version(registry, "2", lines_of([1, *KEYS[1:4]]), [pool[0], pool[1] | {"answer": 0}])
    outputs = [line for number in range(4) for line in rotations(number, [0] * 4)]
    source = record(registry, outputs, shots=2)
    with pytest.raises(UsageError, match="the few-shot pool is another one"):
        replayed(registry, source, benchmark="b@2")
    unshown = record(registry, outputs)
    assert replayed(registry, unshown, benchmark="b@2")


@pytest.mark.one_engine
def test_rules_that_cannot_read_the_source_are_refused(scored):
    registry, outputs = scored
    source = record(registry, outputs)
    with pytest.raises(UsageError, match=r"lacks the texts of answers to 24 questions, such as q0.*--protocol final-"):
        replayed(registry, source, protocol="final-answer")
    with pytest.raises(ProtocolError, match="symbols scores options, so it has no text to read"):
        replayed(registry, source, protocol="symbols")
    for changes in ({}, {"benchmark": "b@1"}):
        with pytest.raises(UsageError, match="is on b@1 and read by symbols already, so nothing would differ"):
            replayed(registry, source, **changes)
    with pytest.raises(NotFoundError, match="has no version '3'"):
        replayed(registry, source, benchmark="b@3")
    with pytest.raises(NotFoundError, match="no evaluation 99"):
        replayed(registry, 99, benchmark="b@2")


@pytest.mark.one_engine
def test_thoughts_that_were_dropped_are_not_read(registry: Registry, monkeypatch):
    monkeypatch.setenv("SHUFFLEBOARD_KEEP_THOUGHTS", "false")
    version(registry, "1", lines_of(KEYS))
    source = record(registry, write(COUNT), protocol="select-letter")
    path = registry.folder / "reads-thoughts.toml"
    path.write_text('name = "reads-thoughts"\nbase = "select-letter"\nthoughts = "in-text"\n')
    shuffleboard("protocols", "import", path, database_url=registry.url)
    with pytest.raises(UsageError, match=r"lacks the thoughts of answers to 24 questions, such as q0.*reads-thoughts"):
        replayed(registry, source, protocol="reads-thoughts")
    assert replayed(registry, source, protocol="final-answer")


def test_an_archived_source_is_replayed_once_it_is_restored(scored, tmp_path):
    registry, outputs = scored
    source = record(registry, outputs)
    archive(registry.engine, source, (tmp_path / "archives").as_uri())
    with pytest.raises(ArchivedError, match=f"shuffleboard evaluations restore {source}"):
        replayed(registry, source, benchmark="b@2")
    restore(registry.engine, source)
    replay_id = replayed(registry, source, benchmark="b@2")
    archive(registry.engine, source, (tmp_path / "archives").as_uri())
    with read_session(registry.engine) as session:
        assert verify_all(session)["ok"]
        assert session.scalar(select(Evaluation.replayed_from).filter_by(id=replay_id)) is not None


@pytest.mark.one_engine
def test_an_evaluation_that_is_not_sealed_is_refused(registry: Registry):
    source = queue_evaluation(registry.engine, registry.folder)
    with pytest.raises(QueueError, match=f"evaluation {source} is queued"):
        replayed(registry, source, protocol="final-answer")


def test_others_write_while_texts_are_read(registry: Registry):
    version(registry, "1", lines_of(KEYS[:2]))
    outputs = [line | {"text": "the answer is bee"} for number in range(2) for line in rotations(number, [0] * 4)]
    source = record(registry, outputs, protocol="final-answer-text")
    seen = []

    def match(answer, options):
        with write_session(registry.engine) as session:
            session.execute(update(Model).values(family=f"family {len(seen)}"))
        seen.append(answer)
        return list(options).index("c")

    replay_id, _ = replay(registry.engine, ReplayRequest(source, protocol="match-dash"), match)
    assert len(seen) == 8
    assert {row["chosen_option"] for row in load_rows(registry, replay_id).values()} == {2}


def test_an_exported_replay_keeps_its_seal_and_its_source(read_in_text, registries, tmp_path):
    registry, source = read_in_text
    replay_id = replayed(registry, source, benchmark="b@2", protocol="final-answer")
    with read_session(registry.engine) as session:
        seals = [session.get_one(Evaluation, number).seal for number in (source, replay_id)]
    for number in (source, replay_id):
        export_evaluation(registry.engine, get_settings(), number, tmp_path / str(number), "public")
    for other in registries:
        if other.url == registry.url:
            continue
        # The replay is imported first; it names its source by the seal.
        imported = [import_evaluation(other.engine, tmp_path / str(number))[0] for number in (replay_id, source)]
        with read_session(other.engine) as session:
            rows = [session.get_one(Evaluation, number) for number in imported]
            assert [row.seal for row in rows] == seals[::-1]
            assert provenance_document(session, imported[0])["replayed_from"] == imported[1]
            assert verify_all(session)["ok"]


@pytest.mark.one_engine
def test_a_replay_is_not_scored_again(scored):
    registry, outputs = scored
    source = record(registry, outputs)
    replay_id = replayed(registry, source, benchmark="b@2")
    done = shuffleboard("verify", replay_id, "--rescore", 2, database_url=registry.url, status=2)
    assert f"made from the stored answers of evaluation {source}" in done.stderr
