"""The actions of the command line over the API with a token."""

import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine, select, update
from werkzeug.serving import make_server

from registry.db import read_session, write_session
from registry.errors import (
    AuthenticationError,
    ContradictionError,
    ForbiddenError,
    IngestError,
    NotFoundError,
    QueueError,
    UsageError,
)
from registry.settings import Settings
from registry.tables import BenchmarkVersion, Evaluation, ModelRevision
from shuffleboard import Client
from tests.submissions.conftest import FILES, HUB, actions, work
from tests.support.commands import shuffleboard
from tests.support.population import question, write_lines
from tests.web.accounts import token_of
from web import create_app
from web.api import uploads

pytestmark = pytest.mark.one_engine

Headers = Callable[[str], dict[str, str]]


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def light(lite: Engine, settings: Settings) -> FlaskClient:
    """Return a client of the website on SQLite."""
    return create_app(settings, database_url=lite.url.render_as_string(hide_password=False)).test_client()


def group_by(engine: Engine, name: str) -> dict[str, str]:
    """Return the request headers of an account's program."""
    return {"Authorization": f"Bearer {token_of(engine, name)}"}


@pytest.fixture
def address(lite: Engine, settings: Settings) -> Iterator[str]:
    """Yield the address of the registry on SQLite."""
    app = create_app(settings, database_url=lite.url.render_as_string(hide_password=False))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def remote(lite: Engine, address: str) -> Callable[[str], Client]:
    """Return a function that returns a client with the token of an account."""
    return lambda name: Client(address, token_of(lite, name))


def ready(engine: Engine) -> None:
    """Store the digests of every revision, as a worker does."""
    with write_session(engine) as session:
        for revision in session.scalars(select(ModelRevision).filter_by(state="registered")):
            FILES.record(revision)


def test_a_submission_goes_its_way_by_token(client: FlaskClient, headers: Headers, engine: Engine) -> None:
    submitter, maintainer = headers("submitter"), headers("maintainer")
    body = {"suite": "core", "hub": HUB, "note": "please"}
    created = client.post("/api/v1/submissions", json=body, headers=submitter)
    assert created.status_code == 201, created.text
    number = created.json["submission"]
    assert client.post("/api/v1/submissions", json=body, headers=submitter).status_code == 200
    where = f"/api/v1/submissions/{number}"
    assert client.get(where, headers=submitter).json["state"] == "requested"
    assert client.get(where, headers=headers("reader")).status_code == 403
    assert client.get(where).status_code == 401
    for role in (submitter, maintainer):
        assert client.get(f"{where}/estimate", headers=role).json["prompts"] == 30
    assert client.post(f"{where}/approve", json={}, headers=submitter).status_code == 403
    approved = client.post(f"{where}/approve", json={"queue": "gpu"}, headers=maintainer)
    assert approved.status_code == 200
    assert approved.json["revision"] == "small-model@1"
    late = client.post(f"{where}/reject", json={"reason": "no"}, headers=headers("admin"))
    assert late.status_code == 409
    assert "was approved by maintainer at" in late.json["detail"]
    listed = client.get("/api/v1/submissions?state=approved", headers=maintainer).json
    assert [item["submission"] for item in listed["items"]] == [number]
    assert ("submitter", "request", f"POST {where}/approve") in actions(engine, "refused")


def test_what_is_not_ones_own_is_not_there(client: FlaskClient, headers: Headers) -> None:
    body = {"suite": "core", "hub": HUB}
    number = client.post("/api/v1/submissions", json=body, headers=headers("admin")).json["submission"]
    assert client.get(f"/api/v1/submissions/{number}", headers=headers("submitter")).status_code == 404
    assert client.get("/api/v1/submissions", headers=headers("submitter")).json["total"] == 0


REFUSED = [
    ({"suite": "core", "hub": "../x"}, 400, "is not a model name on the hub"),
    ({"suite": "core", "hub": "/etc/passwd"}, 400, "is not a model name on the hub"),
    (
        {"suite": "core", "endpoint": "http://127.0.0.1:9/v1", "revision": "m"},
        422,
        "endpoint='http://127.0.0.1:9/v1': use up to 200 letters",
    ),
    ({"suite": "core", "location": "/etc/passwd"}, 422, "unknown key 'location'; known: suite, hub"),
    ({"suite": "core", "kind": "gguf", "hub": HUB}, 422, "unknown key 'kind'"),
    ({"suite": "core", "hub": HUB, "dtype": "int4"}, 422, "dtype='int4': use one of float32, bfloat16, float16"),
    ({"suite": "core", "hub": 7}, 422, "hub=7: Input should be a valid string"),
    ({"suite": "core", "hub": HUB, "note": "a\x00b"}, 422, "NUL"),
    ({"suite": "nothing", "hub": HUB}, 404, "no suite 'nothing'"),
    ([], 422, "the body: Input should be an object"),
]


def test_what_cannot_be_asked_for_is_refused(light: FlaskClient, lite: Engine) -> None:
    token = group_by(lite, "submitter")
    for body, status, detail in REFUSED:
        answer = light.post("/api/v1/submissions", json=body, headers=token)
        assert (answer.status_code, answer.mimetype) == (status, "application/problem+json"), body
        assert detail in answer.json["detail"]


def test_bodies_of_another_form_are_refused(light: FlaskClient, lite: Engine) -> None:
    token = group_by(lite, "submitter")

    def post(data: bytes, kind: str) -> int:
        return light.post("/api/v1/submissions", data=data, content_type=kind, headers=token).status_code

    assert post(b"suite=core", "application/x-www-form-urlencoded") == 415
    assert post(b"{", "application/json") == 400
    assert post(b"\xff\xfe", "application/json") == 400
    assert post(b'{"suite": NaN}', "application/json") == 400
    assert post(b"[" * 100_000, "application/json") == 400
    assert post(b'{"suite": ' + b"[" * 900 + b"]" * 900 + b"}", "application/json") in {400, 422}
    assert post(b'{"suite": "\\ud800", "hub": "a/b"}', "application/json") == 422
    assert post(b" " * (3 << 20), "application/json") == 413


def test_a_revision_is_refused_by_one_rule_through_every_door(light: FlaskClient, lite: Engine) -> None:
    maintainer, submitter = group_by(lite, "maintainer"), group_by(lite, "submitter")
    for revision in ("../../x", "a//b", "/etc", "a b", "-x", "x" * 129, "a\u202eb", "."):
        model = {"name": "m", "kind": "huggingface", "location": HUB, "revision": revision}
        submission = {"suite": "core", "hub": HUB, "revision": revision}
        adapter = {"name": "m", "kind": "huggingface", "location": HUB, "adapter": f"{HUB}@{revision}"}
        for path, body, token in (
            ("models", model, maintainer),
            ("models", adapter, maintainer),
            ("submissions", submission, submitter),
        ):
            answer = light.post(f"/api/v1/{path}", json=body, headers=token)
            assert answer.status_code == 400, (path, revision)
            assert "give a branch, a tag or a commit" in answer.json["detail"]
        options = ("--kind", "huggingface", "--location", HUB, f"--revision={revision}")
        outcome = shuffleboard("models", "add", "m", *options, status=2, database_url=str(lite.url))
        assert "give a branch, a tag or a commit" in outcome.stderr


def test_a_cookie_alone_changes_nothing(app: Flask, browser: Callable[[str], FlaskClient], client: FlaskClient) -> None:
    signed_in = browser("maintainer")
    assert signed_in.post("/api/v1/suites", json={}).status_code == 400
    assert "CSRF" in signed_in.post("/api/v1/suites", json={}).json["detail"]
    assert client.post("/api/v1/suites", json={}).status_code == 401


@pytest.mark.parametrize("name", ["maintainer", "admin"])
def test_a_path_is_no_location_for_anybody(light: FlaskClient, lite: Engine, name: str) -> None:
    token = group_by(lite, name)
    for location in ("/srv/models/x", "./x", "../x", "~/x", "C:\\x", "x", "file:///x", None):
        body = {"name": "m", "kind": "huggingface", "location": location}
        answer = light.post("/api/v1/models", json=body, headers=token)
        assert answer.status_code == 400
        assert "is not a model name on the hub" in answer.json["detail"]
        gguf = light.post("/api/v1/models", json=body | {"kind": "gguf"}, headers=token)
        assert gguf.status_code == 422


def test_models_are_registered_once(remote: Callable[[str], Client], lite: Engine) -> None:
    maintainer = remote("maintainer")
    first = maintainer.add_model("small", "huggingface", location=HUB, dtype="bfloat16", family="toy", parameters=7)
    assert (first["revision"], first["state"], first["added"]) == (1, "registered", True)
    assert maintainer.add_model("small", "huggingface", location=HUB, dtype="bfloat16")["added"] is False
    assert maintainer.add_model("small", "external")["revision"] == 2
    with pytest.raises(UsageError, match="has no location"):
        maintainer.add_model("small", "external", location="/etc/passwd")
    with pytest.raises(UsageError, match="is not on an endpoint"):
        maintainer.add_model("small", "openai", location="http://127.0.0.1:1/v1", revision="m")
    assert ("maintainer", "model.add", "small@1") in actions(lite)


def test_benchmarks_are_sent_and_hidden(remote: Callable[[str], Client], tmp_path: Path, lite: Engine) -> None:
    maintainer, reader = remote("maintainer"), remote("reader")
    file = write_lines(tmp_path / "new.jsonl", [question(number) for number in range(3)])
    imported = maintainer.import_benchmark(file, "new", version="1", licence="MIT", visibility="members")
    assert (imported["imported"], imported["questions"], imported["visibility"]) == (True, 3, "members")
    assert maintainer.import_benchmark(file, "new")["imported"] is False
    with pytest.raises(IngestError, match="already exists and is members"):
        maintainer.import_benchmark(file, "new", visibility="public")
    assert "new" in {row["benchmark"] for row in reader.benchmarks()}
    assert maintainer.set_visibility("new", "hidden")["versions"] == ["1"]
    assert "new" not in {row["benchmark"] for row in reader.benchmarks()}
    assert {row["benchmark"]: row["visibility"] for row in maintainer.benchmarks()}["new"] == "hidden"
    with pytest.raises(NotFoundError, match="no benchmark 'nowhere'"):
        maintainer.set_visibility("nowhere", "public")
    with pytest.raises(ForbiddenError):
        reader.import_benchmark(file, "mine")
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"id": "q"}\n', encoding="utf-8")
    with pytest.raises(IngestError, match=r"upload\.jsonl line 1: key 'question' is missing"):
        maintainer.import_benchmark(broken, "broken")
    with pytest.raises(UsageError, match="unknown kind of file"):
        maintainer.import_benchmark(tmp_path / "x.zip", "broken")
    done = [target for _, action, target in actions(lite) if action.startswith("benchmark.")]
    assert done == ["new@1", "new@1", "new"]


def test_a_form_may_hold_the_file_and_its_examples(lite: Engine, light: FlaskClient) -> None:
    token = group_by(lite, "maintainer")

    def send(query: str = "name=form", **fields: tuple[bytes, str] | str) -> Any:
        data = {
            key: (io.BytesIO(value[0]), value[1]) if isinstance(value, tuple) else value
            for key, value in fields.items()
        }
        return light.post(f"/api/v1/benchmarks?{query}", data=data, headers=token)

    lines = b"".join(json.dumps(question(number)).encode() + b"\n" for number in range(2))
    created = send(file=(lines, "../../evil/../q.jsonl"), fewshot=(lines.replace(b'"id": "q', b'"id": "e'), "q.jsonl"))
    assert created.status_code == 201, created.text
    assert created.json["few_shot_examples"] == 2
    assert send(file=(lines, "q.pickle")).status_code == 422
    assert send(file=(lines, "")).status_code == 422
    assert send(other=(lines, "q.jsonl")).status_code == 422
    assert send(file=(lines, "q.jsonl"), name="x").status_code == 422
    assert send(query="", file=(lines, "q.jsonl")).status_code == 400
    assert send(query="name=a/b", file=(lines, "q.jsonl")).status_code == 400
    assert send(query="name=x&kind=y", file=(lines, "q.jsonl")).status_code == 400
    csv = b'id,subject,question,options,answer\nq1,,?,"[""NA"", ""None""]",0\n'
    table = light.post("/api/v1/benchmarks?name=table", data=csv, content_type="text/csv", headers=token)
    assert table.json["questions"] == 1
    assert (
        light.post("/api/v1/benchmarks?name=x", data=b"x", content_type="text/html", headers=token).status_code == 415
    )


def test_what_is_too_large_is_refused(lite: Engine, light: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_UPLOAD", 3000)
    monkeypatch.setattr(uploads, "MULTIPART_ROOM", 1000)
    token = group_by(lite, "maintainer")
    where = "/api/v1/benchmarks?name=large"
    plain = light.post(where, data=b" " * 3001, content_type="text/csv", headers=token)
    form = light.post(where, data={"file": (io.BytesIO(b" " * 4001), "q.jsonl")}, headers=token)
    assert (plain.status_code, form.status_code) == (413, 413)
    # Accounts without the right to send are refused before the body is read.
    reader = group_by(lite, "reader")
    assert light.post(where, data=b" " * 3001, content_type="text/csv", headers=reader).status_code == 403


def test_evaluations_are_queued_moved_and_estimated(remote: Callable[[str], Client], lite: Engine) -> None:
    maintainer = remote("maintainer")
    maintainer.add_model("small", "huggingface", location=HUB)
    with pytest.raises(QueueError, match="is not ready"):
        maintainer.submit_evaluations("small", suite="core")
    ready(lite)
    assert maintainer.estimate_evaluations("small", suite="core")["prompts"] == 30
    submitted = maintainer.submit_evaluations("small", suite="core", priority=3)
    assert len(submitted["evaluations"]) == len(submitted["new"]) == 2
    assert maintainer.submit_evaluations("small", board="main")["new"] == []
    single = maintainer.submit_evaluations("small", benchmark="bench", variants="full", subjects=["physics"], limit=1)
    number = single["new"][0]
    with read_session(lite) as session:
        row = session.get_one(Evaluation, number)
        assert (row.requester, row.prompts) == ("maintainer", 24)
    assert maintainer.move_evaluation(number, "pause")["state"] == "paused"
    assert maintainer.move_evaluation(number, "resume")["state"] == "queued"
    assert maintainer.move_evaluation(number, "cancel")["state"] == "cancelled"
    with pytest.raises(QueueError, match="is cancelled; pause works on"):
        maintainer.move_evaluation(number, "pause")
    assert maintainer.move_evaluation(number, "retry")["state"] == "queued"
    with pytest.raises(NotFoundError, match="no evaluation 999"):
        maintainer.move_evaluation(999, "pause")
    for wrong in ({"suite": "core", "board": "main"}, {"suite": "core", "shots": 3}, {"benchmark": "bench"}, {}):
        with pytest.raises(UsageError):
            maintainer.submit_evaluations("small", **wrong)
    sampled = maintainer.submit_evaluations("small", benchmark="bench", variants="full", sample=2, seed=1)["new"]
    with read_session(lite) as session:
        kept = session.get_one(Evaluation, sampled[0]).specification["questions"]["sample"]
        questions = session.get_one(Evaluation, sampled[0]).benchmark_version.questions
        assert kept == {"questions": 2, "of": questions, "seed": 1}
    for wrong, why in (
        ({"sample": 9_999}, f"sample 9999: bench has {questions} questions"),
        ({"seed": 1}, "seed draws a sample"),
    ):
        with pytest.raises(UsageError, match=why):
            maintainer.submit_evaluations("small", benchmark="bench", variants="original", **wrong)
    needed = maintainer.estimate_evaluations("small", benchmark="bench", variants="original", precision=0.2)
    assert (needed["sample"], needed["of"], needed["pilot"]) == (questions, questions, None)
    assert needed["prompts"] == questions
    with pytest.raises(ForbiddenError):
        remote("submitter").submit_evaluations("small", suite="core")
    with pytest.raises(AuthenticationError):
        Client(maintainer._base).submit_evaluations("small", suite="core")


def _score(number: int, score: float) -> dict[str, object]:
    """Return a sample of lm-evaluation-harness whose answer is A."""
    asked_question = question(number)
    doc = {"question": asked_question["question"], "choices": asked_question["options"]}
    target = asked_question["answer"]
    return {"doc_id": number, "doc": doc, "target": target, "resps": [["A"]], "filtered_resps": ["A"], "acc": score}


def test_outputs_suites_and_boards_are_sent(remote: Callable[[str], Client], tmp_path: Path, lite: Engine) -> None:
    maintainer = remote("maintainer")
    suite = tmp_path / "suite.toml"
    suite.write_text('name = "one"\nvariants = ["original"]\n[[tasks]]\nbenchmark = "bench"\n', encoding="utf-8")
    assert maintainer.import_suite(suite)["new"] is True
    assert maintainer.import_suite(suite)["new"] is False
    board = maintainer.import_board({"name": "one", "suite": "one", "columns": ["accuracy@original"]})
    assert (board["board"], board["version"], board["new"]) == ("one", 1, True)
    assert maintainer.board("one")["rows"] == []
    with pytest.raises(UsageError, match=r"columns: Value error|no metric"):
        maintainer.import_board({"name": "one", "suite": "one", "columns": ["luck@original"]})
    maintainer.add_model("theirs", "external")
    lines = [{"question_id": f"q{number}", "variant": 0, "order": [0, 1, 2, 3], "position": 0} for number in range(6)]
    outputs = write_lines(tmp_path / "outputs.jsonl", lines)
    imported = maintainer.import_outputs(outputs, "theirs", "bench", "original")
    assert maintainer.import_outputs(outputs, "theirs", "bench", "original")["evaluation"] != imported["evaluation"]
    write_lines(outputs, [lines[0], {**lines[0], "position": 1}])
    with pytest.raises(IngestError, match=r"upload\.jsonl line 2"):
        maintainer.import_outputs(outputs, "theirs", "bench", "original")
    scored = [_score(number, 1.0) for number in range(6)]
    with pytest.raises(ContradictionError, match=r"4 of 6 answers contradict the log's own scores") as refused:
        maintainer.import_outputs(write_lines(outputs, scored), "theirs", "bench", "original")
    assert refused.value.details is not None
    assert len(refused.value.details["contradictions"]) == 4
    ignored = maintainer.import_outputs(outputs, "theirs", "bench", "original", stated="ignore")
    assert ignored["stated"]["contradicted"] == 4
    metrics = maintainer._get(f"evaluations/{imported['evaluation']}/metrics", {"per_question": "yes"})
    assert metrics["metrics"]["accuracy"] == pytest.approx(2 / 6)
    assert set(metrics["per_question"]) == {f"q{number}" for number in range(6)}
    with read_session(lite) as session:
        assert session.get_one(Evaluation, imported["evaluation"]).requester == "maintainer"
    verified = maintainer.verify(imported["evaluation"])
    assert (verified["ok"], verified["problems"]) == (True, [])
    with pytest.raises(ForbiddenError):
        remote("reader").verify(imported["evaluation"])


def test_hidden_things_are_not_found_by_those_who_may_not_see_them(
    remote: Callable[[str], Client], lite: Engine, tmp_path: Path
) -> None:
    maintainer, submitter = remote("maintainer"), remote("submitter")
    maintainer.add_model("small", "huggingface", location=HUB)
    ready(lite)
    number = maintainer.submit_evaluations("small", suite="core")["new"][0]
    assert submitter._get(f"evaluations/{number}/metrics")["scored"] == 0
    with write_session(lite) as session:
        session.execute(update(BenchmarkVersion).values(visibility="hidden"))
    for path in (f"evaluations/{number}/metrics", f"evaluations/{number}", "benchmarks/bench", "suites/core"):
        with pytest.raises(NotFoundError):
            submitter._get(path)
    with pytest.raises(NotFoundError, match="no suite 'core'"):
        submitter.submit_model("core", hub=HUB)
    assert maintainer._get(f"evaluations/{number}")["evaluation_id"] == number


def test_the_client_follows_a_submission(
    remote: Callable[[str], Client], lite: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitter, maintainer = remote("submitter"), remote("maintainer")
    number = submitter.submit_model("core", hub=HUB, note="please")["submission"]
    assert maintainer.estimate_submission(number)["prompts"] == 30
    maintainer.approve_submission(number, reason="welcome")
    work(lite, settings, monkeypatch)
    done = submitter.submission(number)
    assert done["finished_at"] is not None
    assert [submitter.evaluation(evaluation)["complete"] for evaluation in done["evaluations"]] == [True, True]
    second_submission = submitter.submit_model("core", hub=HUB, dtype="float16")["submission"]
    assert submitter.withdraw_submission(second_submission)["state"] == "withdrawn"
    third = submitter.submit_model("core", hub=HUB, revision="v2")["submission"]
    assert maintainer.reject_submission(third, "too new")["reason"] == "too new"
    assert [row["submission"] for row in submitter.submissions(mine=True)] == [third, second_submission, number]
