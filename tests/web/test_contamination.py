"""Signs of contamination: what is said of an evaluation and of a board, on pages, in the API and by the command."""

import math
from random import Random

import pytest

from registry.boards.definition import BoardDefinition, SuiteDefinition, as_document
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import get_engine, write_session
from registry.exchange.outputs.importer import ImportRequest, import_outputs
from registry.prompting.variants import QuestionShape, parse_variants
from tests.commands import shuffleboard, shuffleboard_json
from tests.outputs.conftest import Registry, four_options
from tests.web.test_pages import text_of
from web import create_app

WORDS = Random(5).sample([a * length for a in "abcdefghijklmnopqrstuvwxyz" for length in range(2, 9)], 160)
QUESTIONS = [
    question | {"options": ["1", "2", "3", "4"] if number == 39 else WORDS[4 * number : 4 * number + 4]}
    for number, question in enumerate(four_options(40))
]
"""Options in no order, but for the last question's."""
COLUMN = "accuracy@cyclic"


def answers(kind, *, seen):
    """Of a model that likes the first position; `seen`, it knows the published order by heart."""
    for number, question in enumerate(QUESTIONS):
        shape = QuestionShape(question["id"], 4, question["answer"])
        for variant in parse_variants(kind).variants(shape):
            known = seen and variant.order == (0, 1, 2, 3)
            logprobs = [
                -3.0 + (position == 0) + 0.1 * ((number + option) % 3) for position, option in enumerate(variant.order)
            ]
            if known:
                logprobs[variant.order.index(question["answer"])] = math.log(0.9)
            yield {
                "question_id": question["id"],
                "variant": variant.ordinal,
                "order": list(variant.order),
                "logprobs": logprobs,
            }


@pytest.fixture(scope="module")
def asked(lasting_sqlite, tmp_path_factory):
    """A registry with a model that saw the benchmark, and one that did not; evaluations by (model, kind)."""
    registry = Registry(lasting_sqlite(), tmp_path_factory.mktemp("contaminated"))
    registry.benchmark("b", QUESTIONS)
    evaluations = {}
    for model, seen in (("saw", True), ("untouched", False)):
        registry.model(model)
        for kind in ("cyclic", "full", "original"):
            file = registry.file(f"{model}-{kind}.jsonl", list(answers(kind, seen=seen)))
            evaluations[model, kind] = import_outputs(registry.engine, ImportRequest(file, model, "b", kind))
    return registry, evaluations, create_app(database_url=registry.url).test_client()


@pytest.mark.parametrize("kind", ["cyclic", "full"])
def test_who_saw_the_published_order_is_an_outlier_and_who_likes_a_position_is_none(asked, kind):
    registry, evaluations, client = asked
    for model, outlier in (("saw", True), ("untouched", False)):
        number = evaluations[model, kind]
        found = client.get(f"/api/v1/evaluations/{number}/contamination").json
        assert found == shuffleboard_json("statistics", "contamination", number, database_url=registry.url)
        assert found["outlier"] is outlier, found
        assert (found["questions"], found["flagged"], found["other"]) == (39, 1, 0)
        assert set(found["measures"]) == {"accuracy", "key_log_odds"}
        page = text_of(client.get(f"/evaluations/{number}/contamination"))
        assert ("It is an outlier" in page) is outlier
        assert "evidence, not a verdict" in page
        assert f'href="/evaluations/{number}/contamination"' in client.get(f"/evaluations/{number}").text
        printed = shuffleboard("statistics", "contamination", number, database_url=registry.url).stdout
        assert ("is an outlier" in printed) is outlier


def test_one_order_tells_nothing_and_says_which_would(asked):
    registry, evaluations, client = asked
    number = evaluations["saw", "original"]
    found = client.get(f"/api/v1/evaluations/{number}/contamination").json
    assert (found["p_value"], found["outlier"], found["other"]) == (None, None, 40)
    assert "use the variants cyclic or full" in text_of(client.get(f"/evaluations/{number}/contamination"))
    printed = shuffleboard("statistics", "contamination", number, database_url=registry.url).stdout
    assert "nothing can be told, since no question was asked in all rotations" in printed
    assert "/contamination" not in client.get(f"/evaluations/{number}").text
    assert client.get("/api/v1/evaluations/999/contamination").status_code == 404


def test_a_board_states_it_only_where_its_file_asks_for_it(asked):
    registry, evaluations, client = asked
    definition = BoardDefinition(name="quiet", suite="s", columns=(COLUMN,))
    assert "contamination" not in as_document(definition)  # so that boards stored before keep their digests
    stating = definition.model_copy(update={"name": "stating", "contamination": True})
    with write_session(get_engine(registry.url)) as session:
        import_suite(session, SuiteDefinition(name="s", variants=("cyclic",), tasks=({"benchmark": "b"},)))
        for board in (definition, stating):
            import_board(session, board)
    refresh_boards(registry.engine)
    assert "contamination" not in client.get("/api/v1/boards/quiet").json
    assert "Signs of contamination" not in text_of(client.get("/boards/quiet/scrutiny"))
    first, second = client.get("/api/v1/boards/stating").json["contamination"]
    assert (first["model"], first["outlier"], first["evaluation"]) == ("saw", True, evaluations["saw", "cyclic"])
    assert (second["model"], second["outlier"]) == ("untouched", False)
    assert first["p_holm"] == pytest.approx(2 * first["p_value"])
    page = text_of(client.get("/boards/stating/scrutiny"))
    assert "1 of 2 evaluations" in page
    assert "clears nobody" in page


def test_nothing_is_said_of_a_benchmark_whose_published_order_is_regular(lasting_sqlite, tmp_path):
    registry = Registry(lasting_sqlite(), tmp_path)
    registry.benchmark("b", [question | {"options": sorted(question["options"])} for question in QUESTIONS])
    registry.model("saw")
    file = registry.file("saw.jsonl", list(answers("cyclic", seen=True)))
    number = import_outputs(registry.engine, ImportRequest(file, "saw", "b", "cyclic"))
    document = (
        create_app(database_url=registry.url).test_client().get(f"/api/v1/evaluations/{number}/contamination").json
    )
    assert (document["outlier"], document["p_value"]) == (None, None)
    assert "stand by alphabet, sorted in 100.0 % of the questions (8.3 % in any order)" in document["why"]
    assert document["regularities"]["alphabet"]["sorted"] == 1
    page = text_of(create_app(database_url=registry.url).test_client().get(f"/evaluations/{number}/contamination"))
    printed = shuffleboard("statistics", "contamination", number, database_url=registry.url).stdout
    for text in (page, printed):
        assert "Options by alphabet" in text
        assert "Keys by subject or place in the file" in text


def test_nothing_is_said_where_the_published_order_cannot_be_tested_or_was_not_shown(lasting_sqlite, tmp_path):
    registry = Registry(lasting_sqlite(), tmp_path)
    registry.model("saw")
    client = create_app(database_url=registry.url).test_client()
    for number, protocol, why in ((20, None, "fewer than 30 questions"), (40, "cloze", "does not list the options")):
        registry.benchmark(f"b{number}", QUESTIONS[:number])
        ids = {question["id"] for question in QUESTIONS[:number]}
        lines = [line for line in answers("cyclic", seen=True) if line["question_id"] in ids]
        named = {} if protocol is None else {"protocol": protocol}
        request = ImportRequest(registry.file("lines.jsonl", lines), "saw", f"b{number}", "cyclic", **named)
        evaluation = import_outputs(registry.engine, request)
        document = client.get(f"/api/v1/evaluations/{evaluation}/contamination").json
        assert (document["outlier"], document["p_value"], document["measures"]) == (None, None, {})
        assert why in document["why"]
        assert f"Nothing can be said here: {document['why']}" in text_of(
            client.get(f"/evaluations/{evaluation}/contamination")
        )
