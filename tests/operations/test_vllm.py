"""The endpoint engine against a stand-in for vLLM's server: labels, whole continuations, limits and faults."""

import math
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from registry.prompting.prompts import Prompt
from registry.settings import Settings
from tests.scripted_server import Answer, ScriptedServer, scripted_server
from tests.vllm_server import VOCABULARY, VllmServer, Words, later
from workers.endpoint import EndpointEngine, open_endpoint
from workers.errors import EngineError

LABELS = (" A", " B", " C", " D")
KEY = "sk-of-the-tests-0123456789"

Open = Callable[..., tuple[EndpointEngine, ScriptedServer]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens an engine on a stand-in with the given options; settings beside them."""
    ends: list[Callable[[], object]] = []

    def open_on(vllm: VllmServer, entry: str = "", **settings: Any) -> tuple[EndpointEngine, ScriptedServer]:
        context = scripted_server(vllm)
        server = context.__enter__()
        ends.append(lambda: context.__exit__(None, None, None))
        file = tmp_path / "endpoints.toml"
        file.write_text(f'[vllm]\nurl_prefix = "{server.url.removesuffix("/v1")}"\n{entry}')
        given = {"endpoints": str(file), "endpoint_in_flight": 2, "endpoint_wait_seconds": 0.01} | settings
        engine = open_endpoint(server.url, "tiny", None, Settings(**given))
        ends.append(engine.close)
        return engine, server

    yield open_on
    for end in reversed(ends):
        end()


def prompts(count: int = 6) -> list[Prompt]:
    return [Prompt(f"Question {n}\nAnswer:", LABELS) for n in range(count)]


def test_labels_have_the_log_probabilities_of_the_model_as_far_as_they_are_listed(opened: Open) -> None:
    engine, _ = opened(VllmServer())
    scores = engine.score(prompts())
    known = 0
    for prompt, logprobs in zip(prompts(), scores.logprobs, strict=True):
        expected = Words.logprobs(prompt.text)
        listed = sorted(expected, key=expected.__getitem__, reverse=True)[:20]
        assert logprobs == [pytest.approx(expected[label]) if label in listed else None for label in LABELS]
        known += sum(value is not None for value in logprobs)
    assert 0 < known < 4 * len(prompts())  # 20 of 30 words are listed
    assert scores.tokens_naive == sum(len(Words.tokens(prompt.text)) for prompt in prompts())
    settings = engine.settings()
    assert (settings["version"], settings["server"], settings["served_model"]) == ("0.11.2", "uvicorn", "tiny")
    assert settings["leading_blanks"] == "kept"


def test_a_server_that_lists_more_leaves_no_label_unknown(opened: Open) -> None:
    engine, _ = opened(VllmServer(max_logprobs=50), endpoint_top_logprobs=len(VOCABULARY))
    for prompt, logprobs in zip(prompts(), engine.score(prompts()).logprobs, strict=True):
        assert logprobs == [pytest.approx(Words.logprob(prompt.text, label)) for label in LABELS]


def test_asking_for_more_than_the_server_lists_names_both_remedies(opened: Open) -> None:
    engine, server = opened(VllmServer(), endpoint_top_logprobs=50)
    with pytest.raises(
        EngineError,
        match=r"answers 400 \(Requested sample logprobs of 50, which is greater than max allowed: 20\); lower "
        r"SHUFFLEBOARD_ENDPOINT_TOP_LOGPROBS, .* --max-logprobs",
    ):
        engine.score(prompts(1))
    assert len([path for path in server.paths() if path == "/v1/completions"]) == 1


def test_whole_continuations_are_read_from_the_echoed_prompt(opened: Open) -> None:
    """Of " the cat": ln P(" the") + ln P(" cat"), each after all that stands before it."""
    engine, server = opened(VllmServer())
    asked = Prompt("The river\nAnswer:", (" the cat", " Paris", " blue stone and dog"))
    [logprobs] = engine.score_continuations([asked]).logprobs
    for value, continuation in zip(logprobs, asked.continuations, strict=True):
        tokens = Words.tokens(continuation)
        before = accumulate(tokens[:-1], initial=asked.text)
        assert value == pytest.approx(math.fsum(map(Words.logprob, before, tokens)))
    assert server.asked[-1].document.keys() >= {"echo", "max_tokens", "logprobs"}
    assert server.asked[-1].document["max_tokens"] == 0


def test_a_prompt_that_is_too_long_fails_at_once_with_the_server_s_reason(opened: Open) -> None:
    engine, server = opened(VllmServer(max_model_len=12))
    with pytest.raises(EngineError, match=r"answers 400 .This model's maximum context length is 12 tokens"):
        engine.score([Prompt("one " * 20 + "\nAnswer:", LABELS)])
    assert len([path for path in server.paths() if path == "/v1/completions"]) <= 3


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(later(503), id="it loads its model, behind a proxy"),
        pytest.param(later(429, **{"Retry-After": "0"}), id="too much is asked"),
        pytest.param(later(502), id="a proxy lost it"),
    ],
)
def test_a_server_that_is_busy_is_asked_again(opened: Open, trouble: Answer) -> None:
    engine, server = opened(VllmServer(troubles=[trouble, trouble]))
    assert len(engine.score(prompts(2)).logprobs) == 2
    assert len([path for path in server.paths() if path == "/v1/completions"]) == 1 + 2 + 2


def test_a_server_with_a_key_is_asked_with_it_and_refuses_another(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_KEY", KEY)
    engine, server = opened(VllmServer(api_key=KEY), 'key_env = "VLLM_KEY"')
    engine.score(prompts(1))
    assert server.asked[-1].headers["authorization"] == f"Bearer {KEY}"
    with pytest.raises(EngineError, match=r"answers 401 .Unauthorized.; check the key of endpoint vllm"):
        opened(VllmServer(api_key="sk-another-of-the-tests-012345"), 'key_env = "VLLM_KEY"')
