"""The endpoint engine with fake servers of vLLM and SGLang: labels, whole continuations, limits, faults."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from registry.prompting.prompts import Prompt
from registry.settings import Settings
from tests.support.commands import eventually
from tests.support.scripted_server import Answer, Asked, ScriptedServer, serve_scripted_server
from tests.support.sglang_server import VERSION, SglangServer
from tests.support.sglang_server import figures as sglang_figures
from tests.support.vllm_server import MOST_CHOSEN, VOCABULARY, VllmServer, Words, later
from workers.endpoint import EndpointEngine, open_endpoint
from workers.endpoint import backpressure as backpressure_module
from workers.endpoint import exact as exact_module
from workers.endpoint.backpressure import SECONDS, Backpressure
from workers.errors import EngineError

LABELS = (" A", " B", " C", " D")
KEY = "sk-of-the-tests-0123456789"

Open = Callable[..., tuple[EndpointEngine, ScriptedServer]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Yield a function that opens an engine on a fake server with the given options and settings."""
    ends: list[Callable[[], object]] = []

    def open_on(
        vllm: VllmServer | SglangServer, entry: str = "", *, path: str = "", **settings: Any
    ) -> tuple[EndpointEngine, ScriptedServer]:
        context = serve_scripted_server(vllm)
        server = context.__enter__()
        ends.append(lambda: context.__exit__(None, None, None))
        file = tmp_path / "endpoints.toml"
        file.write_text(f'[vllm]\nurl_prefix = "{server.url.removesuffix("/v1")}{path}"\n{entry}')
        fields = {"endpoints": str(file), "endpoint_in_flight": 2, "endpoint_wait_seconds": 0.01} | settings
        engine = open_endpoint(server.url, "tiny", None, Settings(**fields))
        ends.append(engine.close)
        return engine, server

    yield open_on
    for end in reversed(ends):
        end()


def prompts(count: int = 6) -> list[Prompt]:
    return [Prompt(f"Question {n}\nAnswer:", LABELS) for n in range(count)]


def expect(asked: Sequence[Prompt]) -> list[Any]:
    return [[pytest.approx(Words.logprob(prompt.text, label)) for label in LABELS] for prompt in asked]


def completions(server: ScriptedServer) -> list[dict[str, Any]]:
    return [request.document for request in server.asked if request.path == "/v1/completions"]


def test_every_label_is_known_and_has_the_log_probability_of_the_model(opened: Open) -> None:
    engine, server = opened(VllmServer(), endpoint_top_logprobs=50)  # more than the server lists
    engine.score(prompts(1))
    tried, requests = len(completions(server)), len(server.asked)
    scores = engine.score(prompts())
    assert scores.logprobs == expect(prompts())
    assert scores.tokens_naive == sum(len(Words.tokens(prompt.text)) for prompt in prompts())
    # This takes one request with texts as prompts, since the labels' tokens are known from the first request.
    (last,) = completions(server)[tried:]
    assert len(server.asked) == requests + 2  # and the version
    assert last == {
        "model": "tiny",
        "prompt": [prompt.text for prompt in prompts()],
        "temperature": 0,
        "max_tokens": 1,
        "logprobs": 1,
        "logprob_token_ids": [Words.ids(label)[0] for label in LABELS],
        "return_tokens_as_token_ids": True,
    }
    settings = engine.settings()
    assert (settings["version"], settings["server"], settings["served_model"]) == ("0.32.0", "uvicorn", "tiny")
    assert (settings["labels"], settings["tokens"]) == ("logprob_token_ids", "tokenize")
    assert "leading_blanks" not in settings


def test_a_server_that_takes_one_prompt_at_a_time_is_sent_tokens(opened: Open) -> None:
    engine, server = opened(VllmServer(several=False))
    engine.score(prompts(1))
    tried = len(completions(server))
    assert engine.score(prompts()).logprobs == expect(prompts())
    # Requests are under way at the same time, and arrive in any order.
    shown = [document["prompt"] for document in completions(server)[tried:]]
    assert sorted(shown) == sorted(Words.ids(prompt.text) for prompt in prompts())


def test_a_server_that_ends_every_prompt_with_a_token_is_refused(opened: Open) -> None:
    engine, _ = opened(VllmServer(ending=True))
    with pytest.raises(EngineError, match="puts a special token after every prompt"):
        engine.score(prompts(1))


ERRORS = {
    "a number": {"error": {"message": "the engine is overloaded", "code": 503}},
    "a name": {"error": {"message": "the engine is overloaded", "type": "overloaded_error"}},
    "a text": {"error": "the engine is overloaded"},
    "vLLM": {"object": "error", "message": "the engine is overloaded", "code": 429},
}
"""Documents that gateways send with status 200."""


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_with_status_200_is_retried_and_quoted(opened: Open, error: str) -> None:
    engine, server = opened(VllmServer(troubles=[Answer(ERRORS[error], 200)]), endpoint_attempts=2)
    assert engine.score(prompts(1)).logprobs == expect(prompts(1))
    engine, server = opened(VllmServer(troubles=[Answer(ERRORS[error], 200)] * 9), endpoint_attempts=2)
    with pytest.raises(EngineError, match=r"status 200 \(the engine is overloaded\); tried 2 times"):
        engine.score(prompts(1))
    assert len(completions(server)) == 2


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ({"error": {"message": "no such parameter", "code": "400"}}, ""),
        ({"error": {"message": "who are you?", "type": "authentication_error"}}, "; check the key of endpoint vllm"),
    ],
)
def test_a_lasting_error_with_status_200_is_asked_once(opened: Open, error: dict[str, Any], remedy: str) -> None:
    engine, server = opened(VllmServer(troubles=[Answer(error, 200)] * 9))
    with pytest.raises(EngineError, match=re.escape(f"({error['error']['message']}){remedy}")):
        engine.score(prompts(1))
    assert len(completions(server)) == 1


def test_labels_after_another_last_line_are_looked_up_again(opened: Open) -> None:
    engine, server = opened(VllmServer())
    mixed = [
        *prompts(3),
        *(Prompt(f"Question {n}\nLetter:", (" the", " a")) for n in range(3)),
        Prompt("Answer:", LABELS),
    ]
    assert engine.score(mixed).logprobs == [
        [pytest.approx(Words.logprob(prompt.text, label)) for label in prompt.continuations] for prompt in mixed
    ]
    texts = [
        document
        for document in completions(server)
        if mixed[0].text in document["prompt"] or mixed[3].text in document["prompt"]
    ]
    assert {tuple(document["logprob_token_ids"]) for document in texts} == {
        tuple(Words.ids(label)[0] for label in labels) for labels in (LABELS, (" the", " a"))
    }


def test_a_tokenizer_that_looks_further_back_than_the_last_line_is_noticed(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, server = opened(VllmServer())
    engine.score(prompts(1))
    cut = Words.ids

    def ids(text: str) -> list[int]:
        return [*cut(text[:-2]), *cut("B")] if "Question 5" in text and text.endswith(" B") else cut(text)

    monkeypatch.setattr(Words, "ids", ids)
    monkeypatch.setattr(exact_module, "CHECK_EVERY", 2)
    scores = engine.score(prompts()).logprobs
    assert scores[:5] == expect(prompts())[:5]
    assert scores[5][1] == pytest.approx(Words.logprob(prompts()[5].text, "B"))
    assert all(isinstance(document["prompt"][0], int) for document in completions(server)[-6:])


@pytest.mark.parametrize(
    ("vllm", "way"),
    [
        pytest.param(VllmServer(backwards=True), "logprob_token_ids", id="lists tokens in another order"),
        pytest.param(VllmServer(knows=frozenset({"allowed_token_ids"})), "allowed_token_ids", id="ignores the first"),
        pytest.param(VllmServer(knows=frozenset()), "echo", id="ignores both"),
        pytest.param(VllmServer(among_chosen=True), "echo", id="leaves all other tokens out of account"),
        pytest.param(VllmServer(leaves_out=frozenset(VOCABULARY)), "echo", id="answers without what was asked for"),
    ],
)
def test_a_server_is_asked_in_the_first_form_that_proves_right(opened: Open, vllm: VllmServer, way: str) -> None:
    engine, _ = opened(vllm)
    assert engine.score(prompts()).logprobs == expect(prompts())
    assert engine.settings()["labels"] == way


def test_a_server_with_only_v1_covered_returns_tokens_with_completions(opened: Open) -> None:
    engine, server = opened(VllmServer(), path="/v1")
    assert engine.score(prompts(2)).logprobs == expect(prompts(2))
    assert engine.settings()["tokens"] == "return_token_ids"
    assert {path for path in server.paths() if not path.startswith("/v1/")} == set()


def test_a_missing_token_fails_the_shard_and_the_server_is_retried(opened: Open) -> None:
    vllm = VllmServer()
    engine, _ = opened(vllm)
    engine.score(prompts(1))
    vllm.leaves_out = frozenset({" C"})
    with pytest.raises(
        EngineError, match=rf"^127.* leaves out the tokens \[{VOCABULARY.index(' C')}\].*changed, then retry"
    ):
        engine.score(prompts(1))
    vllm.leaves_out, vllm.knows = frozenset(), frozenset({"allowed_token_ids"})
    assert engine.score(prompts()).logprobs == expect(prompts())
    assert engine.settings()["labels"] == "allowed_token_ids"


def test_a_server_that_is_silent_for_a_while_is_not_considered_incapable(opened: Open) -> None:
    vllm = VllmServer(troubles=[later(503)])
    engine, _ = opened(vllm, endpoint_attempts=1)
    with pytest.raises(EngineError, match="answers 503"):
        engine.score(prompts(1))
    assert engine.score(prompts(1)).logprobs == expect(prompts(1))
    assert engine.settings()["labels"] == "logprob_token_ids"


def test_a_version_that_changes_between_requests_is_in_the_fingerprint(opened: Open) -> None:
    vllm = VllmServer()
    engine, _ = opened(vllm)
    engine.score(prompts(1))
    vllm.versions = ["0.33.0"]
    engine.score(prompts(1))
    settings = engine.settings()
    assert settings["version"] == "0.32.0, 0.33.0"
    assert settings["system_fingerprint"] == "vllm-0.32.0-930dfdd1, vllm-0.33.0-930dfdd1"


def test_sglang_is_asked_by_its_own_route(opened: Open) -> None:
    engine, server = opened(SglangServer())
    assert engine.score(prompts()).logprobs == expect(prompts())
    prompt = Prompt("The river\nAnswer:", (" the cat", " Paris", " blue stone and dog"))
    scores = engine.score_continuations([prompt])
    assert scores.logprobs == [[pytest.approx(whole(prompt.text, text)) for text in prompt.continuations]]
    assert scores.tokens_computed < scores.tokens_naive  # it reports its cached tokens
    assert len([path for path in server.paths() if path == "/v1/completions"]) == 1
    settings = engine.settings()
    assert (settings["labels"], settings["continuations"]) == ("token_ids_logprob", "logprob_start_len")
    assert settings["version"] == VERSION


def test_a_server_of_other_software_lists_what_it_lists(opened: Open) -> None:
    engine, server = opened(VllmServer(owner="somebody"))
    scores = engine.score(prompts())
    values_listed = 0
    for prompt, logprobs in zip(prompts(), scores.logprobs, strict=True):
        after = Words.logprobs(prompt.text)
        listed = sorted(after, key=after.__getitem__, reverse=True)[:20]
        assert logprobs == [pytest.approx(after[label]) if label in listed else None for label in LABELS]
        values_listed += sum(value is not None for value in logprobs)
    assert 0 < values_listed < 4 * len(prompts())  # 20 of 30 words are listed
    assert engine.settings()["leading_blanks"] == "kept"
    assert "labels" not in engine.settings()
    assert set(server.paths()) == {"/v1/models", "/version", "/v1/completions"}
    assert not any("logprob_token_ids" in document for document in completions(server))


def test_asking_for_more_than_the_server_lists_names_both_remedies(opened: Open) -> None:
    engine, server = opened(VllmServer(owner="somebody"), endpoint_top_logprobs=50)
    with pytest.raises(
        EngineError,
        match=r"answers 400 \(Requested sample logprobs of 50, which is greater than max allowed: 20\); lower "
        r"SHUFFLEBOARD_ENDPOINT_TOP_LOGPROBS, .* --max-logprobs",
    ):
        engine.score(prompts(1))
    assert len(completions(server)) == 1


def whole(text: str, continuation: str) -> float:
    """Return, for " the cat", ln P(" the") + ln P(" cat"), each after all text before it."""
    tokens = Words.tokens(continuation)
    return math.fsum(map(Words.logprob, accumulate(tokens[:-1], initial=text), tokens))


LONG = "One two three four five six seven eight nine ten eleven twelve river\nAnswer:"


OLD = frozenset({"allowed_token_ids"})


@pytest.mark.parametrize(
    ("vllm", "text", "tokens"),
    [
        # After the prompt, after " the", " the stone" and " the stone and", each once, since common prefixes are
        # shared.
        pytest.param(VllmServer(waiting=0), LONG, [1, 1, 2, 2], id="a long prompt, of which the cache keeps most"),
        pytest.param(VllmServer(waiting=0, knows=OLD), LONG, [1, 1, 1, 1, 1, 1], id="one token at a time"),
        pytest.param(VllmServer(waiting=0), "Answer:", [], id="a short one"),
        pytest.param(VllmServer(waiting=0, knows=frozenset()), LONG, [], id="nothing but echo"),
        pytest.param(VllmServer(owner="somebody"), LONG, [], id="other software"),
    ],
)
def test_whole_continuations_are_summed_over_their_tokens(
    opened: Open, vllm: VllmServer, text: str, tokens: list[int]
) -> None:
    engine, server = opened(vllm)
    if vllm.owner == "vllm":
        engine.score(prompts(1))  # tries it
    begun = len(completions(server))
    prompt = Prompt(text, (" the cat", " Paris", " the stone and dog", " the cat"))
    [logprobs] = engine.score_continuations([prompt]).logprobs
    assert logprobs == [pytest.approx(whole(text, continuation)) for continuation in prompt.continuations]
    own = completions(server)[begun:]
    if tokens:
        chosen = [document.get("logprob_token_ids", document.get("allowed_token_ids")) for document in own]
        assert sorted(map(len, chosen)) == tokens
    else:
        assert all(document["echo"] and document["max_tokens"] == 0 for document in own)


def test_more_options_than_a_server_takes_are_asked_in_parts(opened: Open) -> None:
    engine, server = opened(VllmServer(waiting=0))
    options = [f" word{number}" for number in range(MOST_CHOSEN + 2)]
    parts = [Prompt(LONG, tuple(options[start:][:10])) for start in range(0, len(options), 10)]
    scores = engine.score_continuations(parts)
    assert {value for values in scores.logprobs for value in values} == {-15.0}
    assert [len(document["logprob_token_ids"]) for document in completions(server)[-2:]] == [MOST_CHOSEN, 2]


def test_prompts_that_begin_alike_are_asked_one_after_the_other(opened: Open) -> None:
    engine, server = opened(VllmServer(), endpoint_in_flight=1)
    engine.score(prompts(1))
    ends = (" stone", " river", " old")
    begun = len(completions(server))
    engine.score([Prompt(f"{begin}{end}\nAnswer:", LABELS) for end in ends for begin in ("One two", "Three four")])
    shown = [text for document in completions(server)[begun:] for text in document["prompt"]]
    assert shown == sorted(shown)


def test_more_is_asked_at_once_while_nothing_waits(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure_module, "SECONDS", 0.01)
    monkeypatch.setattr(exact_module, "TEXTS_AT_ONCE", 1)
    limit = 8
    idle = VllmServer(waiting=0)

    def several_at_once(asked: Asked) -> Answer:
        if asked.path == "/v1/completions" and "logprob_token_ids" in asked.document and len(tried) == 1:
            eventually(lambda: server.most_at_once >= limit, "as many prompts are open at once as may be")
        return idle(asked)

    tried: list[int] = []
    engine, server = opened(idle, endpoint_in_flight=2, endpoint_in_flight_limit=limit)
    engine.score(prompts(1))
    tried.append(1)
    server.answer = several_at_once
    assert engine.score(prompts(limit)).logprobs == expect(prompts(limit))


def vllm_figures(waiting: int) -> str:
    return f'vllm:num_requests_waiting{{engine="0"}} {waiting}.0\n'


@pytest.mark.parametrize("figures", [vllm_figures, sglang_figures])
@pytest.mark.parametrize(
    ("shown", "limits"),
    [
        pytest.param([None], [4, 4, 4], id="no queue is shown"),
        pytest.param([0, 0, 0, 0], [8, 16, 20, 20], id="nothing waits"),
        pytest.param([0, 0, 1, 4], [8, 16, 16, 16], id="a few wait, which fills its batch"),
        pytest.param([0, 0, 9, 300], [8, 16, 7, 1], id="others wait"),
        pytest.param([0, None, 0], [8, 4, 4], id="the figures are gone"),
    ],
)
def test_requests_at_once_follow_the_queue_of_the_server(
    shown: list[int | None], limits: list[int], figures: Callable[[int], str]
) -> None:
    left = [None if waiting is None else figures(waiting) for waiting in shown]
    now = 0.0
    backpressure = Backpressure(lambda: left.pop(0), 4, 20, lambda: now)
    counts = []
    for _ in limits:
        now += SECONDS
        counts.append(backpressure.limit())
        assert backpressure.limit() == counts[-1]  # its figures are not read again so soon
    assert counts == limits


def test_a_prompt_that_is_too_long_fails_with_the_servers_reason(opened: Open) -> None:
    engine, server = opened(VllmServer(max_model_len=12))
    with pytest.raises(EngineError, match=r"answers 400 .This model's maximum context length is 12 tokens"):
        engine.score([Prompt("one " * 20 + "\nAnswer:", LABELS)])
    assert len([path for path in server.paths() if path == "/v1/completions"]) <= 4
