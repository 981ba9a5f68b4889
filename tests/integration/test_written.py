"""Written and partial answers of a model, through the queue, from a server with scripted replies."""

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import select, update
from sqlalchemy import text as sqlalchemy_text

from registry.db import database_now, get_engine, read_session, write_session
from registry.errors import ProtocolError
from registry.operations.migrate import upgrade
from registry.predictions.texts import rebuild_output, thought_of
from registry.prompting.protocols.custom import custom_definition
from registry.prompting.protocols.store import import_protocol, protocol_definition
from registry.prompting.reading import read
from registry.queue.evaluations import EvaluationRequest, submit
from registry.queue.thinking import Shown
from registry.revisions.store import RevisionRequest, add_revision
from registry.sealed.exporting import export_evaluation
from registry.sealed.importing import import_evaluation
from registry.sealed.manifest import GENERATION_COLUMNS
from registry.sealed.provenance import provenance_document
from registry.sealed.verification import verify_evaluation
from registry.settings import Settings, get_settings
from registry.tables import Evaluation, Generation, ModelRevision, Prediction, Shard
from registry.tables.drafts import Draft
from tests.support import provider_worker
from tests.support.commands import PATIENCE_S
from tests.support.forks import FORKS
from tests.support.population import add_benchmark, add_model, question
from tests.support.scripted_server import Answer, Asked, ScriptedServer, events, serve_scripted_server, stream
from workers.artifacts import inspect_files
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer

FINAL = protocol_definition("final-answer")
CHAT = custom_definition({"name": "select-chat", "base": "select-letter", "chat_template": True}, "here")
SCORED_CHAT = custom_definition({"name": "symbols-chat", "base": "symbols", "chat_template": True}, "here")


class Registry:
    """A model on a server, two questions of four options, and a worker."""

    def __init__(self, url: str, server: ScriptedServer, settings: Settings) -> None:
        self.engine = get_engine(url)
        self.server = server
        self.settings = settings

    def end_leases(self) -> None:
        """Release the shards of a killed worker, since a short lease could also expire on a slow machine."""
        with write_session(self.engine) as session:
            session.execute(update(Shard).where(Shard.state == "leased").values(lease_until=database_now(-1)))

    def submit(self, protocol: str, variants: str = "original", **request: Any) -> int:
        with write_session(self.engine) as session:
            return submit(session, EvaluationRequest("served", "bench", variants, protocol, **request))[0].id

    def submit_here(self, folder: Path, variants: str, *, max_tokens: int, **request: Any) -> int:
        """Submit the first question for the model in a folder, which samples."""
        protocol = {
            "name": "short",
            "base": "select-letter",
            "generation": {"sampling": "given", "max_tokens": max_tokens},
        }
        revision = RevisionRequest("huggingface", str(folder), dtype="float32").checked()
        with write_session(self.engine) as session:
            import_protocol(session, custom_definition(protocol, "here"))
            add_revision(session, "here", revision, files=inspect_files(revision, self.settings))
            fields = EvaluationRequest("here", "bench", variants, "short", limit=1, **request)
            return submit(session, fields)[0].id

    def work(self) -> None:
        """Run a worker until nothing is left."""
        scorer = TransformersScorer(self.settings.home)
        loop = WorkerLoop(self.engine, self.settings, scorer, ["cpu"])
        loop.start()
        try:
            loop.run(until_idle=True)
        finally:
            loop.stop()
            scorer.unload()

    def ask(self, protocol: str, variants: str = "original", **request: Any) -> int:
        """Submit an evaluation, run a worker until nothing is left, and return the evaluation's id."""
        evaluation_id = self.submit(protocol, variants, **request)
        self.work()
        with read_session(self.engine) as session:
            shard = session.scalars(select(Shard).where(Shard.evaluation_id == evaluation_id)).one()
            assert session.get_one(Evaluation, evaluation_id).state == "complete", shard.error
        return evaluation_id

    def stored(self, evaluation_id: int) -> list[tuple[Prediction, Generation | None]]:
        with read_session(self.engine) as session:
            query = (
                select(Prediction, Generation)
                .outerjoin(
                    Generation,
                    (Generation.evaluation_id == Prediction.evaluation_id)
                    & (Generation.question_id == Prediction.question_id),
                )
                .where(Prediction.evaluation_id == evaluation_id)
                .order_by(Prediction.question_id)
            )
            return [(row[0], row[1]) for row in session.execute(query)]


Open = Callable[[Callable[[Asked], Answer]], Registry]


@pytest.fixture
def opened(sqlite_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Yield a function that opens the registry with a server that gives these answers."""
    servers = []

    def open_on(answer: Callable[[Asked], Answer]) -> Registry:
        server = serve_scripted_server(
            lambda asked: Answer({"data": [{"id": "m"}]}) if "models" in asked.path else answer(asked)
        )
        script = server.__enter__()
        servers.append(server)
        path = tmp_path / "endpoints.toml"
        path.write_text(f'[here]\nurl_prefix = "{script.url}"\n')
        monkeypatch.setenv("SHUFFLEBOARD_ENDPOINTS", str(path))
        with write_session(get_engine(sqlite_database)) as session:
            add_benchmark(session, tmp_path, [question(number) for number in (1, 2)])
            revision = add_revision(session, "served", RevisionRequest("openai", script.url, "m").checked())[0]
            revision.state = "ready"
            import_protocol(session, CHAT)
            import_protocol(session, SCORED_CHAT)
        return Registry(sqlite_database, script, Settings(home=tmp_path, poll_seconds=0.05, endpoints=str(path)))

    yield open_on
    for server in servers:
        server.__exit__(None, None, None)


def listing(top: dict[str, float]) -> Answer:
    """Return the most probable tokens, as completions list them."""
    first = max(top, key=lambda token: top[token])
    logprobs = {"tokens": [first], "token_logprobs": [top[first]], "top_logprobs": [top]}
    return Answer({"choices": [{"text": first, "finish_reason": "length", "logprobs": logprobs}]})


def writing(text: str, finish: str = "stop") -> Answer:
    usage = {"prompt_tokens": 20, "completion_tokens": 5}
    return Answer({"choices": [{"text": text, "finish_reason": finish}], "usage": usage})


def test_labels_that_a_server_does_not_list_stay_unknown(opened: Open) -> None:
    def answer(asked: Asked) -> Answer:
        if "number 1" in asked.document["prompt"]:
            return listing({" A": -3.0, " B": -0.5, " C": -1.5, " D": -4.0})
        return listing({" C": -0.25, " the": -1.0, " B": -1.75})

    registry = opened(answer)
    evaluation_id = registry.ask("symbols")
    (complete, _), (partial, _) = registry.stored(evaluation_id)
    assert (complete.chosen_position, complete.label_logprobs) == (1, [-3.0, -0.5, -1.5, -4.0])
    assert sum(complete.label_probabilities or ()) == pytest.approx(1)
    assert (partial.chosen_position, partial.correct, partial.tied) == (2, True, False)
    nothing = (partial.label_logprobs, partial.label_probabilities, partial.label_mass, partial.brier_score)
    assert nothing == (None, None, None, None)


def test_a_written_answer_is_stored_with_the_rule_that_found_it(opened: Open) -> None:
    def answer(asked: Asked) -> Answer:
        if "number 1" in asked.document["prompt"]:
            return writing("It is not A.\nThe answer is (B).")
        return writing("I cannot say\x00", "length")

    registry = opened(answer)
    evaluation_id = registry.ask("select-letter")
    (scored, text), (nothing, cut) = registry.stored(evaluation_id)
    assert text is not None
    assert cut is not None
    assert (scored.chosen_position, scored.correct, scored.extraction_rule) == (1, True, "answer-is")
    assert (text.extracted, text.tokens, text.finished) == ("B", 5, True)
    assert (nothing.chosen_position, nothing.correct, nothing.extraction_rule) == (None, False, None)
    assert (cut.text, cut.extracted, cut.finished) == ("I cannot say\N{REPLACEMENT CHARACTER}", None, False)


def thinking(asked: Asked) -> Answer:
    """Answer with a thought that names another option; the second thought does not end."""
    if "number 1" in asked.document["messages"][-1]["content"]:
        return talking("Answer: B", "Perhaps the answer is A.")
    return talking("<think>The answer is A, or", None, "length")


def talking(content: str, reasoning: str | None, finish: str = "stop") -> Answer:
    message = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    usage = {"prompt_tokens": 20, "completion_tokens": 9}
    return Answer({"choices": [{"message": message, "finish_reason": finish}], "usage": usage})


@pytest.mark.parametrize("kept", [True, False])
def test_thoughts_are_stored_beside_their_answers_and_sealed_by_their_digests(
    opened: Open, kept: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_KEEP_THOUGHTS", str(kept))
    registry = opened(thinking)
    evaluation_id = registry.ask("final-answer")
    (answered, text), (unfinished, cut) = registry.stored(evaluation_id)
    assert text is not None
    assert cut is not None
    assert (answered.chosen_position, answered.extraction_rule, answered.state) == (1, "answer-line", None)
    assert (unfinished.chosen_position, unfinished.extraction_rule, unfinished.state) == (None, None, "unfinished")
    assert (text.text, text.thought_apart, text.thought_characters) == ("Answer: B", True, 24)
    assert (cut.text, cut.thought_apart, cut.finished) == ("", False, False)
    assert text.seconds is not None
    thoughts = [thought_of(row.thought) for row in (text, cut)]
    assert thoughts == (["Perhaps the answer is A.", "<think>The answer is A, or"] if kept else [None, None])
    # Reading the stored text again gives the same result.
    for prediction, row in ((answered, text), (unfinished, cut)):
        again = read(FINAL, rebuild_output(row, prediction.state or "answered"), "ABCD", ("a", "b", "c", "d"))
        assert (again.position, again.state) == (prediction.chosen_position, prediction.state or "answered")
    assert {"thought_digest", "thought_tokens", "seconds", "forced"} <= set(GENERATION_COLUMNS)
    with read_session(registry.engine) as session:
        assert verify_evaluation(session, evaluation_id)["problems"] == []
        detail = session.execute(
            sqlalchemy_text("SELECT state, thought_characters, generation_seconds FROM prediction_detail ORDER BY 1")
        ).all()
    folder = tmp_path / "exported"
    export_evaluation(registry.engine, get_settings(), evaluation_id, folder, "all")
    assert [(row.state, row.thought_characters) for row in detail] == [("answered", 24), ("unfinished", 19)]
    in_folder = pq.read_table(folder / "predictions.parquet").column("generation_thought")
    assert in_folder.null_count == (0 if kept else 2)
    # A registry that stores no texts stores none of an exported evaluation either.
    monkeypatch.setenv("SHUFFLEBOARD_KEEP_THOUGHTS", "false")
    upgrade(url := f"sqlite:///{tmp_path / 'other.db'}")
    other, _ = import_evaluation(get_engine(url), folder)
    with read_session(get_engine(url)) as session:
        assert list(session.scalars(select(Generation.thought))) == [None, None]
        assert verify_evaluation(session, other)["problems"] == []


def test_a_replicate_draws_anew_and_the_same_prompt_the_same(opened: Open) -> None:
    registry = opened(lambda _: writing("The answer is A"))
    registry.ask("select-letter")
    registry.ask("select-letter", new_replicate=True)
    seeds = [request.document["seed"] for request in registry.server.asked if "completions" in request.path]
    assert len(seeds) == len(set(seeds)) == 4


def test_repeats_have_own_seeds_and_the_first_equals_a_single_answer(opened: Open) -> None:
    registry = opened(lambda asked: writing(f"The answer is {'ABCD'[asked.document['seed'] % 4]}"))
    registry.ask("select-letter", limit=1)
    registry.ask("select-letter", "cyclic:repeats=3", limit=1)
    asked = [request.document for request in registry.server.asked if "completions" in request.path]
    seeds: dict[str, list[int]] = {}
    for document in asked[1:]:
        seeds.setdefault(document["prompt"], []).append(document["seed"])
    assert [len(set(of_order)) for of_order in seeds.values()] == [3, 3, 3, 3]
    assert min(seeds[asked[0]["prompt"]]) == asked[0]["seed"]
    assert len({seed for of_order in seeds.values() for seed in of_order}) == 12


@pytest.mark.parametrize(
    ("protocol", "reason"),
    [
        ("symbols", "protocol symbols reads log-probabilities"),
        ("first-letter", "protocol first-letter does not sample"),
    ],
)
def test_repeats_are_refused_where_the_same_prompt_gives_the_same_answer(
    opened: Open, protocol: str, reason: str
) -> None:
    registry = opened(lambda _: writing(""))
    for variants in ("original:repeats=2", "cyclic:repeats=4"):
        with pytest.raises(ProtocolError, match=f"variants {re.escape(variants)}.*: {reason}.*; leave out repeats"):
            registry.submit(protocol, variants)


def test_after_a_kill_only_unfinished_thoughts_are_requested_again(opened: Open, tmp_path: Path) -> None:
    requests: Counter[int] = Counter()
    at_once = 2

    def thinking(seed: int) -> Iterator[bytes]:
        for _ in range(5):
            time.sleep(0.02)
            yield events({"choices": [{"index": 0, "text": "Hm. ", "finish_reason": None}]}, end=False)[0]
        text = f"</think>The answer is {'ABCD'[seed % 4]}."
        yield from events({"choices": [{"index": 0, "text": text, "finish_reason": "stop"}]})

    def answer(one: Asked) -> Answer:
        requests[one.document["seed"]] += 1
        return stream(thinking(one.document["seed"]))

    registry = opened(answer)
    evaluation_id = registry.submit("select-letter", "cyclic:repeats=3", shard_prompts=24)
    environment = {
        "SHUFFLEBOARD_DATABASE_URL": str(registry.engine.url),
        "SHUFFLEBOARD_HOME": str(tmp_path),
        "SHUFFLEBOARD_ENDPOINTS": registry.settings.endpoints,
        "SHUFFLEBOARD_ENDPOINT_IN_FLIGHT": str(at_once),
        "SHUFFLEBOARD_ENDPOINT_IN_FLIGHT_LIMIT": str(at_once),
        "SHUFFLEBOARD_POLL_SECONDS": "0.05",
        "SHUFFLEBOARD_RECONCILE_SECONDS": "0.2",
    }
    trips = ("kept:3", "kept:5", "finished:1")
    for trip in (*trips, None):
        process = FORKS.Process(target=provider_worker.main, args=(environment, trip, tmp_path / "log"))
        process.start()
        process.join(PATIENCE_S)
        assert process.exitcode == (0 if trip is None else -signal.SIGKILL), (tmp_path / "log").read_text()
        registry.end_leases()
    assert len(requests) == 24
    assert sum(requests.values()) - 24 <= at_once * len(trips)
    with read_session(registry.engine) as session:
        assert session.get_one(Evaluation, evaluation_id).state == "complete"
        assert verify_evaluation(session, evaluation_id)["problems"] == []
        thoughts = session.scalars(select(Generation.thought).filter_by(evaluation_id=evaluation_id))
        assert {thought_of(thought) for thought in thoughts} == {"Hm. " * 5 + "</think>"}
        assert session.scalars(select(Draft)).all() == []


@pytest.mark.long
def test_a_local_model_does_not_rewrite_thoughts_stored_before_a_kill(
    opened: Open, tmp_path: Path, tiny_folder: Path
) -> None:
    registry = opened(lambda _: writing(""))
    evaluation_id = registry.submit_here(tiny_folder, "cyclic:repeats=3", max_tokens=12)
    environment = {
        "SHUFFLEBOARD_DATABASE_URL": str(registry.engine.url),
        "SHUFFLEBOARD_HOME": str(tmp_path),
        "SHUFFLEBOARD_POLL_SECONDS": "0.05",
        "SHUFFLEBOARD_RECONCILE_SECONDS": "0.2",
    }
    log = tmp_path / "log"
    kept = 0
    for trip in ("kept:3", "kept:4", "finished:1", None):
        process = FORKS.Process(target=provider_worker.main, args=(environment, trip, log), kwargs={"torch": True})
        process.start()
        process.join(PATIENCE_S)
        assert process.exitcode == (0 if trip is None else -signal.SIGKILL), log.read_text()
        registry.end_leases()
        if trip is not None and trip.startswith("kept"):
            kept += int(trip[-1])
            with read_session(registry.engine) as session:
                assert len(session.scalars(select(Draft.variant)).all()) == kept
    # Stored answers were not requested again; when all are stored, no request is sent.
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    counts = [(line["kept"], line["left"]) for line in lines if line["event"] == "answers_kept"]
    assert counts == [(3, 9), (7, 5), (12, 0)]
    with read_session(registry.engine) as session:
        assert session.get_one(Evaluation, evaluation_id).state == "complete"
        assert verify_evaluation(session, evaluation_id)["problems"] == []


def test_what_cannot_be_honoured_of_thoughts_is_refused_when_it_is_submitted(opened: Open) -> None:
    registry = opened(lambda _: writing(""))
    off = {"name": "off", "base": "select-letter", "chat_template": True, "generation": {"thinking": "off"}}
    with write_session(registry.engine) as session:
        import_protocol(session, custom_definition(off, "here"))
    with pytest.raises(ProtocolError, match="protocol off: model served revision 1: its server does not show what"):
        registry.submit("off")
    with write_session(registry.engine) as session:
        session.execute(update(ModelRevision).values(thinking=Shown(True, False, False, True).document()))
    assert registry.submit("off")


def test_a_conversation_is_sent_as_turns(opened: Open) -> None:
    registry = opened(lambda _: writing_in_chat("The answer is A"))
    evaluation_id = registry.ask("select-chat")
    conversations = [
        request.document["messages"] for request in registry.server.asked if request.path.endswith("/chat/completions")
    ]
    for system, user in conversations:
        assert (system["role"], user["role"]) == ("system", "user")
        assert system["content"].startswith("Answer the multiple choice question.")
    # Two requests run at once, so either may be first.
    beginning = "Question: Which is number 1?\nOptions:\nA. option 1.0\n"
    assert [user["content"].startswith(beginning) for _, user in conversations].count(True) == 1
    assert [row.chosen_position for row, _ in registry.stored(evaluation_id)] == [0, 0]


def writing_in_chat(text: str) -> Answer:
    return Answer({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})


def test_the_seal_covers_what_was_written(opened: Open) -> None:
    registry = opened(lambda _: writing("The answer is A"))
    evaluation_id = registry.ask("select-letter")
    with read_session(registry.engine) as session:
        assert verify_evaluation(session, evaluation_id)["problems"] == []
    with registry.engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER sealed_generation_update")
        connection.execute(update(Generation).values(text="The answer is B"))
    with read_session(registry.engine) as session:
        verified = verify_evaluation(session, evaluation_id)
    assert any(problem.startswith("seal: ") for problem in verified["problems"]), verified["problems"]
    # Every question's text was changed, and each of them is named.
    assert len(verified["questions"]) == len({row.question_id for row, _ in registry.stored(evaluation_id)})


def test_a_server_s_results_are_never_taken_for_others(opened: Open) -> None:
    registry = opened(lambda _: listing({" A": -0.1, " B": -2.0, " C": -3.0, " D": -4.0}))
    registry.ask("symbols")
    evaluation_id = registry.ask("symbols", limit=1)
    ((row, _),) = registry.stored(evaluation_id)
    assert row.reused_from_evaluation_id is None
    with read_session(registry.engine) as session:
        (shard,) = provenance_document(session, evaluation_id)["shards"]
    assert shard["engine_fingerprint"]["engine"] == "openai-endpoint"


def test_a_server_is_not_asked_for_log_probabilities_after_a_conversation(opened: Open) -> None:
    registry = opened(lambda _: writing(""))
    with pytest.raises(ProtocolError, match="protocol symbols-chat: model served revision 1 is on an endpoint"):
        registry.submit("symbols-chat")


def test_a_model_without_a_chat_template_is_not_asked_for_a_conversation(opened: Open) -> None:
    registry = opened(lambda _: writing(""))
    with write_session(registry.engine) as session:
        add_model(session, "plain")
        with pytest.raises(ProtocolError, match="model plain revision 1 has no chat template; use a protocol without"):
            submit(session, EvaluationRequest("plain", "bench", "original", "select-chat"))
        assert session.scalars(select(Evaluation)).all() == []


def test_a_local_model_reads_a_prompt_once_for_all_repeats(opened: Open, tiny_folder: Path) -> None:
    registry = opened(lambda _: writing(""))
    evaluation_id = registry.submit_here(tiny_folder, "cyclic:repeats=4", max_tokens=6)
    registry.work()
    with read_session(registry.engine) as session:
        shard = session.scalars(select(Shard).where(Shard.evaluation_id == evaluation_id)).one()
        assert session.get_one(Evaluation, evaluation_id).state == "complete", shard.error
        texts = session.scalars(select(Generation).where(Generation.evaluation_id == evaluation_id)).all()
        written = sum(text.tokens or 0 for text in texts)
        assert len(texts) == 16
        assert shard.tokens_naive is not None
        assert shard.tokens_computed is not None
        assert 4 * (shard.tokens_computed - written) <= shard.tokens_naive - written
        assert session.scalars(select(Draft)).all() == []
