"""Models on endpoints: registered, checked for presence, and scored on a real llama.cpp server."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import select, update

from registry.benchmarks.contract import read_benchmark
from registry.db import get_engine, read_session, write_session
from registry.errors import ModelError, UsageError
from registry.prompting.prompts import Prompt, QuestionText, build_prompt
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.variants import QuestionShape, parse_variants
from registry.revisions.store import RevisionRequest, add_revision, model_identity
from registry.settings import Settings, get_settings
from registry.tables import ModelRevision
from tests.support.commands import shuffleboard, shuffleboard_json
from tests.support.fake_scorer import FakeScorer
from tests.support.llama_server import MODEL, llama_server, write_dequantised
from tests.support.scripted_server import Answer, Asked, serve_scripted_server
from workers.endpoint import EndpointEngine, EndpointPrompt, open_endpoint
from workers.errors import EngineError
from workers.loop import WorkerLoop

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-a-secret-of-the-tests-9876543210"
QUESTIONS = 2

TOLERANCE = 1e-3
"""Largest difference of a label's probability, ten times the largest difference in practice."""


@pytest.fixture(scope="module")
def server(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start SmolLM2 in float32 on a llama.cpp server that requires a key."""
    path = tmp_path_factory.mktemp("served") / "smollm2.gguf"
    write_dequantised(smollm2_gguf, path)
    with llama_server(path, "--exact", key=KEY) as url:
        yield url
    path.unlink()


def endpoints_of(folder: Path, url: str, key: str | None = KEY) -> str:
    path = folder / "endpoints.toml"
    entry = f'[served]\nurl_prefix = "{url}"\n'
    if key is not None:
        (folder / "key").write_text(key + "\n")
        entry += f'key_file = "{folder / "key"}"\n'
    path.write_text(entry)
    return str(path)


@pytest.fixture
def engine(server: str, tmp_path: Path) -> Iterator[EndpointEngine]:
    settings = Settings(endpoints=endpoints_of(tmp_path, server), endpoint_top_logprobs=2000, endpoint_in_flight=1)
    opened = open_endpoint(server, MODEL, "served", settings)
    yield opened
    opened.close()


def symbols_prompts() -> list[Prompt]:
    """Return every rotation of the first questions of the MMLU sample."""
    definition, kind = protocol_definition("symbols", 0), parse_variants("cyclic")
    prompts = []
    for record in read_benchmark(ROOT / "registry" / "benchmarks" / "samples" / "mmlu.jsonl").questions[:QUESTIONS]:
        question = QuestionText(
            record.external_id, record.subject, record.context, record.text, record.options, record.answer
        )
        shape = QuestionShape(question.external_id, len(question.options), question.answer)
        prompts += [build_prompt(definition, question, variant) for variant in kind.variants(shape)]
    return prompts


def test_label_probabilities_are_those_of_the_local_engine(engine: EndpointEngine, smollm2_folder: Path) -> None:
    from workers.engine import ScoringPrompt, load_model, open_engine

    prompts = symbols_prompts()
    assert len(prompts) == 4 * QUESTIONS
    local = open_engine(load_model(smollm2_folder, dtype="float32", quantisation=None, device="cpu"))
    expected = local.score([ScoringPrompt(prompt.text, prompt.continuations) for prompt in prompts]).logprobs
    scores = engine.score(prompts)
    pairs = [
        (math.exp(served), math.exp(own))
        for ours, theirs in zip(expected, scores.logprobs, strict=True)
        for own, served in zip(ours, theirs, strict=True)
        if served is not None
    ]
    # The server lists 2,000 of 49,152 tokens, among which nearly all labels are, and none is mistaken for another.
    assert len(pairs) >= 0.98 * 4 * len(prompts)
    assert max(own for _, own in pairs) > 0.2
    assert max(abs(served - own) for served, own in pairs) < TOLERANCE
    assert scores.tokens_naive > 0
    settings = engine.settings()
    assert (settings["server"], settings["served_model"], settings["leading_blanks"]) == ("llama.cpp", MODEL, "kept")
    assert settings["meta"]["n_vocab"] == 49152  # type: ignore[index]


def test_a_label_beyond_the_list_is_unknown(server: str, tmp_path: Path) -> None:
    settings = Settings(endpoints=endpoints_of(tmp_path, server), endpoint_top_logprobs=3, endpoint_in_flight=1)
    few = open_endpoint(server, MODEL, None, settings)
    logprobs = few.score(symbols_prompts()[:4]).logprobs
    few.close()
    listed = [value is not None for values in logprobs for value in values]
    assert 0 < sum(listed) < len(listed)


def test_this_server_does_not_repeat_prompts_and_that_is_said(engine: EndpointEngine) -> None:
    with pytest.raises(EngineError, match=r"NPSQ .* whole continuations, which this server does not give"):
        engine.score_continuations(symbols_prompts()[:1])


def test_texts_are_written_by_both_services(engine: EndpointEngine) -> None:
    generation = {"sampling": "greedy", "seed": 0, "max_tokens": 8, "stop": ["\n"]}
    question = "What is the capital of France? Answer in one word."
    plain, chat = engine.generate(
        [
            EndpointPrompt("France: Paris\nItaly: Rome\nFrance:", "a"),
            EndpointPrompt(question, "b", [{"role": "user", "content": question}]),
        ],
        {"generation": generation},
    ).written
    assert (plain.output.text.strip(), plain.output.finish) == ("Paris", "stop")
    assert "Paris" in chat.output.text
    assert chat.tokens is not None
    assert 1 <= chat.tokens <= 8


def test_the_server_refuses_another_key(server: str, tmp_path: Path) -> None:
    settings = Settings(endpoints=endpoints_of(tmp_path, server, key="sk-not-the-key-of-this-server"))
    with pytest.raises(EngineError, match=r"answers 401 \(.*\); check the key of endpoint served \(key_file\)"):
        open_endpoint(server, MODEL, None, settings)


# Registering


def test_a_model_is_registered_and_asked_for_on_the_command_line(server: str, tmp_path: Path) -> None:
    arguments = ("models", "add", "smol", "--kind", "openai", "--location", server + "/", "--revision", MODEL)
    settings = {"endpoints": endpoints_of(tmp_path, server), "home": tmp_path}
    added = shuffleboard_json(*arguments, "--key", "served", **settings)
    assert {key: added[key] for key in ("added", "state", "location", "served_model", "weights_digest", "error")} == {
        "added": True,
        "state": "ready",
        "location": server,
        "served_model": MODEL,
        "weights_digest": None,
        "error": None,
    }
    assert not shuffleboard_json(*arguments, **settings)["added"]
    absent = shuffleboard(*arguments[:-1], "absent", status=1, **settings)
    assert f"does not serve the model 'absent' (it lists: {MODEL})" in absent.stderr
    refused = shuffleboard(*arguments, status=1, home=tmp_path)
    assert "is not on an endpoint of this deployment; add a table" in refused.stderr
    assert KEY not in "".join((json.dumps(added), absent.stderr, refused.stderr))


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Add an endpoint to this process's settings; no test calls its server."""
    url = "http://127.0.0.1:9/v1"
    monkeypatch.setenv("SHUFFLEBOARD_ENDPOINTS", endpoints_of(tmp_path, url))
    return url


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"location": None}, "needs --location: the URL"),
        ({"revision": None}, "needs --revision: its name"),
        ({"adapter": "lora"}, "must be loaded by its server"),
        ({"kind": "gguf"}, "only models of kind openai have a key"),
    ],
)
def test_a_request_that_cannot_be_right_is_refused(environment: str, changes: dict[str, Any], problem: str) -> None:
    request = {"kind": "openai", "location": environment, "revision": "tiny", "key_reference": "served"} | changes
    with pytest.raises(UsageError, match=problem):
        RevisionRequest(**request).checked()


def test_two_names_or_two_addresses_are_two_models(environment: str, sqlite_database: str) -> None:
    with write_session(get_engine(sqlite_database)) as session:
        models = [("tiny", environment), ("big", environment), ("tiny", environment + "/other"), ("tiny", environment)]
        rows = [add_revision(session, "smol", RevisionRequest("openai", url, name)) for name, url in models]
        assert [(row.number, new) for row, new in rows] == [(1, True), (2, True), (3, True), (1, False)]
        identities = [model_identity(row) for row, _ in rows[:3]]
        assert identities[0]["weights_digest"] is None
        assert len({json.dumps(identity, sort_keys=True) for identity in identities}) == 3


def run_worker(database: str, settings: Settings) -> None:
    loop = WorkerLoop(get_engine(database), settings, FakeScorer(), ["cpu"])
    loop.start()
    loop.stop()


def revision_of(database: str) -> ModelRevision:
    with read_session(get_engine(database)) as session:
        return session.scalars(select(ModelRevision)).one()


def test_a_worker_looks_up_a_served_model_again_when_added_again(
    sqlite_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[dict[str, str]] = []
    with serve_scripted_server(lambda _: Answer({"data": served})) as server:
        monkeypatch.setenv("SHUFFLEBOARD_ENDPOINTS", endpoints_of(tmp_path, server.url))
        states = []
        for present in ([], [{"id": "tiny"}]):
            served[:] = present
            with write_session(get_engine(sqlite_database)) as session:
                add_revision(session, "smol", RevisionRequest("openai", server.url, "tiny"))
            run_worker(sqlite_database, get_settings())
            revision = revision_of(sqlite_database)
            states.append((revision.state, (revision.error or "").partition(": ")[2]))
        assert states == [
            ("failed", "does not serve the model 'tiny' (it lists: none); correct --revision"),
            ("ready", ""),
        ]
        assert (revision.weights_digest, revision.requested_revision) == (None, "tiny")


def test_a_worker_does_not_trust_an_address_in_the_database(
    environment: str, sqlite_database: str, tmp_path: Path
) -> None:
    with write_session(get_engine(sqlite_database)) as session:
        add_revision(session, "smol", RevisionRequest("openai", environment, "tiny"))
    with serve_scripted_server(lambda _: Answer({"data": [{"id": "tiny"}]})) as evil:
        with write_session(get_engine(sqlite_database)) as session:
            session.execute(update(ModelRevision).values(location=evil.url))
        run_worker(sqlite_database, get_settings())
        assert evil.asked == []
    revision = revision_of(sqlite_database)
    assert revision.state == "failed"
    assert "is not on an endpoint of this deployment" in (revision.error or "")


def test_a_worker_without_a_readable_endpoints_file_reports_it_and_continues(
    environment: str, sqlite_database: str
) -> None:
    with write_session(get_engine(sqlite_database)) as session:
        add_revision(session, "smol", RevisionRequest("openai", environment, "tiny"))
    run_worker(sqlite_database, Settings(endpoints="/nowhere/endpoints.toml"))
    assert "SHUFFLEBOARD_ENDPOINTS: /nowhere/endpoints.toml: cannot be read" in (
        revision_of(sqlite_database).error or ""
    )


def test_a_key_stands_nowhere_but_in_requests(
    sqlite_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Check with a server that repeats the key wherever it can."""
    structlog.reset_defaults()

    def repeat(asked: Asked) -> Answer:
        key = asked.headers["authorization"]
        if asked.path == "/v1/completions":
            return Answer({"error": {"message": key}}, 401)
        return Answer({"data": [{"id": f"not tiny, {key}", "meta": {"key": key}}]}, headers={"Server": key})

    with serve_scripted_server(repeat) as server:
        monkeypatch.setenv("SHUFFLEBOARD_ENDPOINTS", endpoints_of(tmp_path, server.url))
        with write_session(get_engine(sqlite_database)) as session:
            add_revision(session, "smol", RevisionRequest("openai", server.url, "tiny", key_reference="served"))
        run_worker(sqlite_database, get_settings())
        with pytest.raises(EngineError) as refused:
            open_endpoint(server.url, "tiny", None, get_settings())
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    revision = revision_of(sqlite_database)
    assert "not tiny, Bearer [key]" in (revision.error or "")
    logged = capfd.readouterr()
    assert "model_unusable" in logged.out + logged.err
    database = Path(sqlite_database.removeprefix("sqlite:///"))
    stored = b"".join(path.read_bytes() for path in database.parent.glob(f"{database.name}*"))
    assert b"not tiny" in stored
    for text in (stored, os.fsencode(logged.out + logged.err), str(refused.value).encode(), repr(refused).encode()):
        assert KEY.encode() not in text


def test_an_address_with_a_password_is_refused_without_showing_it(environment: str) -> None:
    with pytest.raises(ModelError, match="contains a user name or password") as refused:
        RevisionRequest("openai", f"http://me:{KEY}@127.0.0.1:9/v1", "tiny").checked()
    assert KEY not in str(refused.value)
