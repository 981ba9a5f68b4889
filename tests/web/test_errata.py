"""Errata on the website: who may say them, what pages, the API, the leaderboard and a board make of them."""

import json

import pytest
from sqlalchemy import select

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.boards.definition import BoardDefinition, SuiteDefinition, as_document
from registry.boards.reading import snapshot_as_of
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import get_engine, read_session, write_session
from registry.tables import Question
from registry.tables.accounts import AuditEvent
from registry.verification import verify_all
from tests.commands import shuffleboard, shuffleboard_json
from tests.outputs.conftest import four_options
from tests.population import write_lines
from tests.web.accounts import add_account, csrf_of, signed_in
from tests.web.answered import ANSWERED, answered
from tests.web.test_pages import text_of
from web import create_app

MODELS = [f"m{number}" for number in range(10)]
BOTH = BoardDefinition(
    name="both",
    suite="asked-once",
    columns=("accuracy@original",),
    errata=("as published", "with corrected keys"),
    sort="accuracy@original (with corrected keys)",
)


@pytest.fixture(scope="module")
def marked(lasting_sqlite, tmp_path_factory):
    """Ten models, a board by two sets of keys, and a maintainer who says on the page that q0's key is D, not A."""
    url = lasting_sqlite()
    engine = get_engine(url)
    answered(engine, tmp_path_factory.mktemp("answered"), questions=12, models=MODELS)
    for role in ("submitter", "maintainer"):
        add_account(engine, role, role)
    with write_session(engine) as session:
        suite = {
            "name": "asked-once",
            "protocols": ["recorded"],
            "variants": ["original"],
            "tasks": [{"benchmark": ANSWERED}],
        }
        import_suite(session, SuiteDefinition.model_validate(suite))
        import_board(session, BOTH)
        question = session.scalars(select(Question.id).where(Question.external_id == "q0", ~Question.few_shot)).one()
    refresh_boards(engine)
    app = create_app(database_url=url)
    page = f"/questions/{question}"
    client = signed_in(app, "maintainer")
    form = {"status": "corrected-key", "answer": "3", "note": "The table on page 4 says so."}
    assert client.post(f"{page}/errata", data=form).status_code == 400  # no token of the form
    form["csrf_token"] = csrf_of(client, page)
    refused = client.post(f"{page}/errata", data=form | {"answer": "0"})
    assert refused.status_code == 400
    assert "A is the published key; nothing to correct" in refused.text
    submitter = signed_in(app, "submitter")
    assert (
        submitter.post(f"{page}/errata", data=form | {"csrf_token": csrf_of(submitter, "/account")}).status_code == 403
    )
    assert client.post(f"{page}/errata", data=form).status_code == 303
    return engine, url, app.test_client(), page


def test_what_a_maintainer_says_is_on_every_page_and_in_the_audit_trail(marked):
    engine, _, client, page = marked
    said = text_of(client.get(page))
    assert "Corrected key: D is right, not A. The table on page 4 says so. maintainer" in said
    assert "csrf_token" not in client.get(page).text
    listed = text_of(client.get(f"/benchmarks/{ANSWERED}/errata"))
    assert "1 question that reviewers dispute or correct: errata 1" in listed
    assert "No model was asked again" in listed
    assert "q0 Corrected key A D The table on page 4 says so. maintainer" in listed
    assert "Corrected key: D" in text_of(client.get(f"/benchmarks/{ANSWERED}/items"))
    found = client.get(f"/api/v1/benchmarks/{ANSWERED}/errata").json
    assert (found["versions"], found["errata"]["errata"][0]["answer"]) == ([1], 3)
    assert client.get(f"/benchmarks/{ANSWERED}/errata?number=2").status_code == 404
    with read_session(engine) as session:
        of_page = (AuditEvent.action == "errata.mark", AuditEvent.actor == "maintainer")
        events = session.scalars(select(AuditEvent).where(*of_page)).all()
    assert [event.details["question"] for event in events] == ["q0"]


def test_leaderboard_evaluation_and_board_show_both_keys(marked):
    engine, url, client, _ = marked
    rows = {
        errata: {row["model"]: row for row in client.get(f"/api/v1/leaderboard?errata={errata}").json["rows"]}
        for errata in ("as-published", "with-corrected-keys", "without-disputed")
    }
    published, corrected = (rows[key]["m0"]["accuracy"] for key in ("as-published", "with-corrected-keys"))
    assert corrected == pytest.approx(published + 1 / 12)  # m0 answered D
    assert rows["with-corrected-keys"]["m9"]["accuracy"] == pytest.approx(
        rows["as-published"]["m9"]["accuracy"] - 1 / 12
    )
    assert rows["without-disputed"]["m0"]["n"]["accuracy"] == 11
    assert "Stored answers scored with corrected keys" in text_of(client.get("/?errata=with-corrected-keys"))
    assert client.get("/api/v1/leaderboard?errata=with-corrected-keys&subject=x").status_code == 400
    assert "with-corrected-keys" in client.get("/leaderboard.csv?errata=with-corrected-keys").text
    evaluation = rows["as-published"]["m0"]["evaluation_id"]
    page = text_of(client.get(f"/evaluations/{evaluation}"))
    assert "By other answer keys" in page
    assert "It does not say that the errata are right" in page
    one = client.get(f"/api/v1/evaluations/{evaluation}/metrics?errata=with-corrected-keys&per_question=yes").json
    assert one["metrics"]["accuracy"] == pytest.approx(corrected)
    assert (one["errata"]["errata_version"], one["per_question"]["q0"]["accuracy"]) == (1, 1)
    told = shuffleboard("metrics", evaluation, "--errata", "with-corrected-keys", database_url=url).stdout
    assert "with corrected keys, errata 1: digest " in told
    board = text_of(client.get("/boards/both"))
    assert "original, as published" in board
    assert "original, with corrected keys" in board
    assert f"Answer keys: errata 1 of {ANSWERED}" in board
    with read_session(engine) as session:
        document = snapshot_as_of(session, "both").document
        assert document["errata"][0]["errata_version"] == 1
        values = next(row["values"] for row in document["rows"] if row["model"] == "m0")
        assert values["accuracy@original"]["value"] == pytest.approx(published)
        assert values["accuracy@original (with corrected keys)"]["value"] == pytest.approx(corrected)
        report = verify_all(session)
        assert report["ok"], report


def test_the_commands_say_list_export_import_and_cite(marked, tmp_path):
    engine, url, _, _ = marked
    with write_session(engine) as session:
        import_benchmark(session, read_benchmark(write_lines(tmp_path / "quiz.jsonl", four_options(3))), name="quiz")

    def errata(*arguments, **options):
        return shuffleboard("benchmarks", "errata", *arguments, database_url=url, **options)

    assert "quiz has no errata" in errata("list", "quiz").stdout
    said = errata("mark", "quiz", "q1", "corrected-key", "--answer", "d", "--note", "x")
    assert "errata 1 of quiz@" in said.stdout
    wrong = errata("mark", "quiz", "q1", "corrected-key", "--answer", "9", "--note", "x", status=2)
    assert "give the letter of the right option" in wrong.stderr
    file = tmp_path / "errata.json"
    errata("export", "quiz", "--out", file)
    document = json.loads(file.read_text())
    assert document == shuffleboard_json("benchmarks", "errata", "list", "quiz", database_url=url)["errata"]
    assert "it is there already" in errata("export", "quiz", "--out", file, status=2).stderr
    errata("take-back", "quiz", "q1", "--note", "y")
    assert "q1" not in errata("list", "quiz").stdout
    assert "errata 3 of quiz@" in errata("import", "quiz", file).stdout
    assert "already says the same" in errata("import", "quiz", file).stdout
    cited = errata("cite", "quiz").stdout
    assert document["digest"] in cited
    assert "Errata 3 of quiz" in cited


def test_a_board_file_names_the_keys_and_boards_without_them_are_as_they_were():
    assert "errata" not in as_document(BOTH.model_copy(update={"errata": ("as-published",), "sort": None}))
    assert as_document(BOTH)["errata"] == ["as-published", "with-corrected-keys"]
    for wrong, problem in (
        ({"errata": "fixed"}, "errata 'fixed'"),
        ({"errata": ["as published", "as-published"]}, "is listed twice"),
        ({"columns": ["accuracy@original (with corrected keys)"]}, "say by which keys columns are taken with errata"),
        ({"errata": "without disputed"}, "is not a column"),
    ):
        with pytest.raises(ValueError, match=problem):
            BoardDefinition.model_validate(BOTH.model_dump() | wrong)
