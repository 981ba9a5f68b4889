"""Errata: versions that say what is doubted, and metrics under them that are those of a file with the right keys."""

import json

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.reading import shown_document, snapshot_as_of
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import read_session, write_session
from registry.errata.marks import Mark, import_errata, mark, take_back
from registry.errata.rescoring import rescored
from registry.errata.versions import FORMAT, correction, errata_document, newest_errata
from registry.errors import IngestError, NotFoundError, UsageError
from registry.exchange.outputs.importer import ImportRequest, import_outputs
from registry.lookups import find_version
from registry.metrics import METRICS
from registry.schema.triggers import trigger_names
from registry.scores.computed import is_stored
from registry.scores.corrections import WITH_CORRECTED_KEYS, WITHOUT_DISPUTED, scope_of
from registry.tables import ChainLink, Evaluation, EvaluationMetric
from registry.verification import verify_all
from tests.boards.outputs import lines
from tests.outputs.conftest import four_options, registry

pytestmark = pytest.mark.long_on("postgresql")

__all__ = ["registry"]

QUESTIONS = four_options(36)
STORED = {name for name, metric in METRICS.items() if is_stored(metric, "all")}
CORRECTED = {"q1": 3, "q4": 2, "q6": 0}
DISPUTED, WRONG = "q9", "q11"


def corrected_file():
    """The questions with the right keys, without the one whose right key is not known."""
    return [one | {"answer": CORRECTED.get(one["id"], one["answer"])} for one in QUESTIONS if one["id"] != WRONG]


def undisputed_file():
    """The questions of which nothing is said."""
    return [one for one in QUESTIONS if one["id"] not in {*CORRECTED, DISPUTED, WRONG}]


def imported(registry, benchmark, kind, asked, outputs):
    """The evaluation of outputs of questions that are asked; answers are the same whatever the benchmark's keys are."""
    names = {one["id"] for one in asked}
    kept = [line for line in outputs if line["question_id"] in names]
    return import_outputs(
        registry.engine, ImportRequest(registry.file(f"{benchmark}.out.jsonl", kept), "m", benchmark, kind)
    )


MARKS = [
    *(Mark(name, "corrected-key", "Looked it up.", answer, "rita") for name, answer in CORRECTED.items()),
    Mark(DISPUTED, "disputed", "Two options are right.", actor="rita"),
    Mark(WRONG, "wrong-key", "None is right.", actor="rita"),
]


def said(session, benchmark="b"):
    """Says all of the errata above in one version."""
    version = find_version(session, benchmark)
    listed = [
        {"question": one.question, "status": one.status, "answer": one.answer, "note": one.note, "actor": one.actor}
        for one in MARKS
    ]
    document = {"format": FORMAT, "content_digest": version.content_digest, "errata": listed}
    return import_errata(session, benchmark, document)[0]


def stored(session, evaluation, scope):
    """Metric to value, n and interval, as stored over a scope."""
    of = EvaluationMetric
    query = select(of.metric, of.value, of.n, of.interval_low, of.interval_high)
    found = session.execute(query.where(of.evaluation_id == evaluation, of.scope == scope))
    return {name: rest for name, *rest in found}


ORDERS = (
    "choice-only",
    "cyclic*wording:templates=0-1",
    *(
        pytest.param(kind, marks=pytest.mark.long)
        for kind in ("original", "cyclic", "full", "randomL", "relabel", "shuffle")
    ),
)


@pytest.mark.one_engine
@pytest.mark.parametrize("kind", ORDERS)
def test_rescored_metrics_are_those_of_an_evaluation_of_the_corrected_file(registry, kind):
    outputs = lines(kind, QUESTIONS, skill=0.7, liking=0.4, seed=3)
    registry.benchmark("b", QUESTIONS)
    published = imported(registry, "b", kind, QUESTIONS, outputs)
    with write_session(registry.engine) as session:
        number = said(session).number
    for treatment, asked in ((WITH_CORRECTED_KEYS, corrected_file()), (WITHOUT_DISPUTED, undisputed_file())):
        registry.benchmark(treatment, asked)
        again = imported(registry, treatment, kind, asked, outputs)
        with read_session(registry.engine) as session:
            found = stored(session, published, scope_of(treatment, number))
            expected = stored(session, again, "all")
        assert found.keys() == expected.keys() == STORED
        for name, values in expected.items():
            assert found[name] == pytest.approx(values, abs=1e-12), (treatment, name)
        assert found != stored(session, published, "all")


KEYLESS = {"fluctuation_rate", "score", "entropy"}
OF_ORDERS = {"average_accuracy", "worst_accuracy", "prob_mass", "brier_score", "accuracy_variance"}
OF_ALTERED = {"cora", "consistency_index", "bmca_50", "mcqa_plus"}


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("kind", "known", "unknown"),
    [
        # Its original and its shuffle are asked whatever is right; the altered options are not.
        ("divergent", {"accuracy", "pride_accuracy"} | OF_ORDERS | KEYLESS, OF_ALTERED),
        ("divergent:subset=original+shuffled", {"accuracy"} | OF_ORDERS | OF_ALTERED | KEYLESS, set()),
        ("answer-moving", {"accuracy"} | KEYLESS, OF_ORDERS | OF_ALTERED),
    ],
)
def test_what_the_corrected_file_would_have_asked_otherwise_is_undefined_with_a_reason(registry, kind, known, unknown):
    registry.benchmark("b", QUESTIONS)
    published = imported(registry, "b", kind, QUESTIONS, lines(kind, QUESTIONS, skill=0.7, liking=0.4, seed=3))
    with write_session(registry.engine) as session:
        errata = said(session)
        evaluation = session.get_one(Evaluation, published)
        found = rescored(session, evaluation, correction(errata, WITH_CORRECTED_KEYS))
        all_of = stored(session, published, "all")
        corrected = stored(session, published, scope_of(WITH_CORRECTED_KEYS, errata.number))
        undisputed = stored(session, published, scope_of(WITHOUT_DISPUTED, errata.number))
    for name in known:
        assert name not in found.unknown
        assert (corrected[name][0] is None) == (all_of[name][0] is None), name
    for name in unknown:
        assert "show other prompts, which the model was not asked (q1, q4, q6)" in found.unknown[name]
        assert corrected[name] == [None, 0, None, None], name
    # Leaving questions out asks nothing else of a model.
    assert all((undisputed[name][0] is None) == (all_of[name][0] is None) for name in STORED)


@pytest.mark.long_on("sqlite")
def test_errata_are_versions_in_the_chain_and_whatever_is_sealed_later_has_them(registry):
    registry.benchmark("b", QUESTIONS)
    outputs = lines("original", QUESTIONS, skill=0.7, liking=0.4, seed=3)
    imported(registry, "b", "original", QUESTIONS, outputs)
    with write_session(registry.engine) as session:
        newest = [mark(session, "b", one) for one in MARKS][-1]
        assert [newest.number, len(newest.errata)] == [5, 5]
        back = take_back(session, "b", DISPUTED, "It has one right option after all.", actor="sam")
        assert [back.number, len(back.errata)] == [6, 4]
        for wrong, problem in (
            (Mark("q1", "corrected-key", "same", 1), "B is the published key; nothing to correct"),
            (Mark("q1", "corrected-key", "none", 4), "has 4 options, A to D; E is none"),
            (Mark("q1", "corrected-key", "none"), "corrected-key lacks an answer; give the right option"),
            (Mark("q1", "disputed", "x", 2), "disputed has an answer; leave it out"),
            (Mark("q1", "disputed", " "), "a note is needed that says why"),
            (Mark("q1", "doubtful", "x"), "status 'doubtful': use one of disputed, wrong-key, corrected-key"),
        ):
            with pytest.raises(UsageError, match=problem):
                mark(session, "b", wrong)
        with pytest.raises(NotFoundError, match="no question 'q99'"):
            mark(session, "b", Mark("q99", "disputed", "x"))
        with pytest.raises(UsageError, match="nothing is said of it"):
            take_back(session, "b", DISPUTED, "again")
    registry.model("later")
    later = import_outputs(
        registry.engine, ImportRequest(registry.file("later.jsonl", outputs), "later", "b", "original")
    )
    with read_session(registry.engine) as session:
        assert stored(session, later, scope_of(WITH_CORRECTED_KEYS, 6)).keys() == STORED
        assert not stored(session, later, scope_of(WITH_CORRECTED_KEYS, 5))
        assert session.scalars(select(ChainLink.kind).where(ChainLink.kind == "errata")).all() == ["errata"] * 6
        rows = session.execute(text("SELECT external_id, status, answer, note, newest FROM errata ORDER BY 1, 5")).all()
        assert len(rows) == 1 + 2 + 3 + 4 + 5 + 4
        assert [row.external_id for row in rows if row.newest] == ["q1", WRONG, "q4", "q6"]
        report = verify_all(session)
        assert report["ok"], report


@pytest.mark.one_engine
def test_changed_errata_are_found(registry):
    registry.benchmark("b", QUESTIONS)
    imported(registry, "b", "original", QUESTIONS, lines("original", QUESTIONS, skill=0.7, liking=0.4, seed=3))
    with write_session(registry.engine) as session:
        said(session)
    scope = "scope = 'with-corrected-keys@1' AND metric = 'accuracy'"
    changes = {
        "UPDATE erratum SET answer = 0 WHERE answer = 3": "what they say does not match their digest",
        "UPDATE erratum SET note = 'Nothing.' WHERE status = 'disputed'": "what they say does not match their digest",
        "UPDATE errata_version SET actor = 'nobody' WHERE number = 1": "it does not contain errata 1 of b@",
        f"UPDATE evaluation_metric SET value = 1 WHERE {scope}": "metric accuracy (with-corrected-keys@1): value stored 1",
    }
    for statement, problem in changes.items():
        with pytest.raises(DBAPIError, match=r"never changed|sealed"), registry.engine.begin() as connection:
            connection.exec_driver_sql(statement)
        with registry.engine.connect() as connection, connection.begin() as transaction:
            for name in trigger_names("sqlite"):
                connection.exec_driver_sql(f"DROP TRIGGER {name}")
            connection.exec_driver_sql(statement)
            report = json.dumps(verify_all(Session(connection)))
            transaction.rollback()
        assert problem in report


@pytest.mark.one_engine
def test_a_file_carries_errata_to_a_registry_with_the_same_content(registry):
    for name in ("b", "again"):
        registry.benchmark(name, QUESTIONS)
    registry.benchmark("other", four_options(3))
    with write_session(registry.engine) as session:
        errata = said(session)
        document = json.loads(json.dumps(errata_document(errata)))
        there, new = import_errata(session, "again", document)
        assert new
        assert [there.number, there.digest] == [1, errata.digest]
        assert import_errata(session, "again", document)[1] is False
        by_hand = {key: document[key] for key in ("format", "content_digest")}
        by_hand["errata"] = [{"question": "q1", "status": "disputed", "note": "Unclear."}]
        assert import_errata(session, "again", by_hand)[0].number == 2
        assert import_errata(session, "again", by_hand)[1] is False
        assert [one.question.external_id for one in newest_errata(session, there.benchmark_version_id).errata] == ["q1"]
        for changed, problem in (
            (document | {"errata": document["errata"][:1]}, "it was changed"),
            (by_hand | {"format": "x"}, "it holds no errata"),
            (
                by_hand | {"errata": [{"question": "q1", "status": "disputed"}]},
                "erratum 1: give question, status and note",
            ),
            (by_hand | {"errata": by_hand["errata"] * 2}, "question 'q1' is listed twice"),
            (by_hand | {"errata": [by_hand["errata"][0] | {"answer": 1.5}]}, "answer 1.5"),
            (by_hand | {"errata": [by_hand["errata"][0] | {"at": "noon"}]}, "at 'noon' is no time"),
            (by_hand | {"errata": [by_hand["errata"][0] | {"status": "corrected-key"}]}, "lacks an answer"),
            ([], "it holds no errata"),
        ):
            with pytest.raises(IngestError, match=problem):
                import_errata(session, "again", changed)
        with pytest.raises(IngestError, match="it is about questions with the digest"):
            import_errata(session, "other", document)


@pytest.mark.one_engine
def test_a_board_says_why_a_model_has_no_value_by_other_keys(registry):
    registry.benchmark("b", QUESTIONS)
    imported(registry, "b", "divergent", QUESTIONS, lines("divergent", QUESTIONS, skill=0.7, liking=0.4, seed=3))
    with write_session(registry.engine) as session:
        suite = {"name": "altered", "variants": ["divergent"], "tasks": [{"benchmark": "b"}]}
        import_suite(session, SuiteDefinition.model_validate(suite))
        columns, keys = ("accuracy@divergent", "cora@divergent"), ("as published", "with corrected keys")
        import_board(session, BoardDefinition(name="board", suite="altered", columns=columns, errata=keys))
    refresh_boards(registry.engine)
    with write_session(registry.engine) as session:
        errata = said(session)
        digest = errata.digest
    assert refresh_boards(registry.engine) == ["board"]
    assert refresh_boards(registry.engine) == []
    with read_session(registry.engine) as session:
        snapshot = snapshot_as_of(session, "board")
        values, document = snapshot.document["rows"][0]["values"], shown_document(session, snapshot)
        assert snapshot.document["errata"][0]["digest"] == digest
        assert values["cora@divergent"]["value"] is not None
        assert values["accuracy@divergent (with corrected keys)"]["n"] == len(QUESTIONS) - 1
        assert values["cora@divergent (with corrected keys)"]["value"] is None
        (unranked,) = document["unranked"]
        assert unranked["column"] == "cora@divergent (with corrected keys)"
        assert "Not rescored: with the corrected key, variants divergent show other prompts" in unranked["reason"]
