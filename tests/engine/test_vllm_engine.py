"""Requests to vLLM and their answers, which a stand-in computes; `make test-servers` uses a real vLLM."""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.engine.test_generation import GREEDY, generate, some_prompts, tiny
from tests.engine.tiny import largest_difference
from tests.support.commands import ROOT, eventually
from workers.engine import (
    EngineError,
    GenerationPrompt,
    InterruptedScoringError,
    LoadedModel,
    ScoringPrompt,
    ThoughtLimit,
    open_engine,
    vllm_engine,
)
from workers.engine.reference import next_token_logprobs
from workers.engine.vllm_engine import OpenedVllm, VllmEngine

ROUNDED = 1e-5
"""Largest difference in nats between two orders of addition in float32."""


class StandIn:
    """A stand-in that answers a request per step, the last one first, and caches blocks of four tokens."""

    BLOCK = 4

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.queued: dict[str, tuple[list[int], SimpleNamespace]] = {}
        self.asked: list[tuple[tuple[int, ...], dict[str, Any]]] = []
        self.aborted: list[str] = []
        self._cached: set[tuple[int, ...]] = set()

    def add_request(
        self, request_id: str, prompt: Any, params: Any, *, lora_request: Any = None, priority: int = 0
    ) -> None:
        assert lora_request == "lora"
        assert prompt["type"] == "token"
        self.queued[request_id] = prompt["prompt_token_ids"], params
        self.asked.append((tuple(prompt["prompt_token_ids"]), vars(params) | {"priority": priority}))

    def has_unfinished_requests(self) -> bool:
        return bool(self.queued)

    def abort_request(self, request_ids: list[str]) -> None:
        self.aborted += request_ids
        self.queued.clear()

    def step(self) -> Sequence[Any]:
        name, (tokens, params) = self.queued.popitem()
        blocks = [tuple(tokens[:end]) for end in range(self.BLOCK, len(tokens), self.BLOCK)]
        cached = max((len(block) for block in blocks if block in self._cached), default=0)
        self._cached |= set(blocks)
        written: list[int] = []
        logprobs = []
        stops = getattr(params, "stop_token_ids", None) or ()
        script = getattr(params, "given", None)
        while len(written) < params.max_tokens and not (written and written[-1] in stops):
            after = next_token_logprobs(self.loaded, [*tokens, *written])[-1]
            written.append(script[len(written)] if script else int(after.argmax()))
            wanted = [*(getattr(params, "logprob_token_ids", None) or ()), written[-1]]
            logprobs.append({token: SimpleNamespace(logprob=after[token].item()) for token in wanted})
        reason = "stop" if written[-1] in stops else "length"
        ended = SimpleNamespace(token_ids=written, logprobs=logprobs, finish_reason=reason)
        unfinished = SimpleNamespace(request_id=name, finished=False)
        return [unfinished, SimpleNamespace(request_id=name, finished=True, outputs=[ended], num_cached_tokens=cached)]


@pytest.fixture
def loaded() -> LoadedModel:
    return tiny()


@pytest.fixture
def core(loaded: LoadedModel) -> StandIn:
    return StandIn(loaded)


@pytest.fixture
def engine(loaded: LoadedModel, core: StandIn) -> VllmEngine:
    return VllmEngine(
        loaded, OpenedVllm(core, SimpleNamespace, lambda tokens: {"given": tokens}, {"version": "0"}, "lora")
    )


def prompts() -> list[ScoringPrompt]:
    texts = [prompt.text for prompt in some_prompts(6)]
    return [ScoringPrompt(text, ("x", "yz", "zyx")) for text in [*texts, texts[0]]]


def test_labels_equal_the_reference_and_each_prompt_is_asked_once(
    engine: VllmEngine, core: StandIn, loaded: LoadedModel
) -> None:
    expected = open_engine(loaded, "reference").score(prompts())
    scored = engine.score(prompts())
    assert largest_difference(scored.logprobs, expected.logprobs) < ROUNDED
    assert scored.tokens_naive == expected.tokens_naive > scored.tokens_computed > 0
    prompts_sent = [tokens for tokens, _ in core.asked]
    assert prompts_sent == sorted(set(prompts_sent))  # the order of the token tree
    assert {params["max_tokens"] for _, params in core.asked} == {1}
    assert not any("prompt_logprobs" in params for _, params in core.asked)


@pytest.mark.parametrize("most", [1, 64])
def test_whole_continuations_equal_the_reference_and_go_on_where_they_part(
    engine: VllmEngine, core: StandIn, loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(vllm_engine, "MOST_TOKENS_ASKED", most)
    continuations = ("xyz", "x", "xyzxyzx", "xyzxyzy", "xyzxyzyyxz", "zyx", "zyxx", "y")
    scoring_prompts = [ScoringPrompt(prompt.text, continuations) for prompt in prompts()]
    expected = open_engine(loaded, "reference").score_continuations(scoring_prompts)
    scored = engine.score_continuations(scoring_prompts)
    assert largest_difference(scored.logprobs, expected.logprobs) < ROUNDED
    requests = [(tokens, params["given"]) for tokens, params in core.asked]
    if most == 64:  # "xyzxyzyyxz" is written, then the token after "z"; all others are read in between
        assert [params["priority"] for _, params in core.asked] == [0] * 6 + [-1] * 6  # one prompt occurs twice
    written = sum(len(tokens_of_request) for _, tokens_of_request in requests)
    assert written < sum(len(text) for text in continuations) * 6
    # Only the last block of a context is computed again, and each written token once.
    again = sum(
        1 + (len(tokens) - 1) % core.BLOCK + len(tokens_of_request) - 1 for tokens, tokens_of_request in requests
    )
    assert again <= scored.tokens_computed < scored.tokens_naive
    assert all(params["ignore_eos"] for _, params in core.asked)


def test_vllm_has_the_first_prompts_before_the_last_are_tokenised(
    engine: VllmEngine, core: StandIn, loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [open_engine(loaded, "reference").score(prompts()), engine.score(prompts())]
    monkeypatch.setattr(vllm_engine, "PART", 2)
    queued: list[int] = []
    encode = vllm_engine.encode_labels
    monkeypatch.setattr(vllm_engine, "encode_labels", lambda *given: queued.append(len(core.queued)) or encode(*given))
    scored = engine.score(prompts())
    assert queued == [0, 2, 4, 6]
    assert largest_difference(scored.logprobs, expected[0].logprobs) < ROUNDED
    assert scored.tokens_naive == expected[1].tokens_naive


def test_a_request_that_wrote_something_else_is_an_error(
    engine: VllmEngine, core: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "add_request", partial(_forgetting, core.add_request))
    with pytest.raises(EngineError, match=r"vLLM wrote tokens .* given"):
        engine.score_continuations(prompts())


def _forgetting(add_request: Callable[..., None], name: str, prompt: Any, params: Any, **options: Any) -> None:
    del params.given
    add_request(name, prompt, params, **options)


def test_texts_are_those_of_transformers(engine: VllmEngine, loaded: LoadedModel) -> None:
    expected = generate(loaded, some_prompts(6), GREEDY, budget_tokens=4096)
    ended: list[int] = []
    written, counted = engine.write(
        some_prompts(6),
        GREEDY,
        should_stop=None,
        kept_special=lambda _: False,
        done=lambda place, _: ended.append(place),
    )
    assert [(output.text, output.tokens, output.finished) for output in written] == [
        (output.text, output.tokens, output.finished) for output in expected
    ]
    assert sorted(ended) == list(range(6))
    assert counted.prompts >= counted.computed > 0


@pytest.mark.parametrize("answers", [False, True])
def test_a_thought_at_its_limit_ends_or_is_closed_and_answered(
    engine: VllmEngine, loaded: LoadedModel, answers: bool
) -> None:
    limit = ThoughtLimit(3, lambda _: " y", answers)
    limited = [GenerationPrompt(prompt.text, prompt.seed_text, limit=limit) for prompt in some_prompts(4)]
    expected = generate(loaded, limited, GREEDY, budget_tokens=4096)
    written, _ = engine.write(
        limited, GREEDY, should_stop=None, kept_special=lambda _: False, done=lambda _place, _text: None
    )
    assert [(output.text, output.forced, output.finished) for output in written] == [
        (output.text, output.forced, output.finished) for output in expected
    ]


def test_asked_to_stop_it_takes_back_what_is_queued(engine: VllmEngine, core: StandIn) -> None:
    answers = iter([False] * 8 + [True] * 9)
    with pytest.raises(InterruptedScoringError):
        engine.score(prompts(), should_stop=lambda: next(answers))
    assert core.aborted
    assert not core.queued


def test_an_answer_without_what_was_asked_is_an_error(
    engine: VllmEngine, core: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    step: Callable[[], Sequence[Any]] = core.step

    def omit_labels() -> Sequence[Any]:
        outputs = step()
        outputs[-1].outputs[0].logprobs[0].clear()
        return outputs

    monkeypatch.setattr(core, "step", omit_labels)
    with pytest.raises(EngineError, match="vLLM gave no log-probability of token"):
        engine.score(prompts())


def test_settings_say_what_computed(engine: VllmEngine) -> None:
    assert engine.settings() == {"engine": "vllm", "version": "0"}


@pytest.mark.parametrize("killed", [True, False])
def test_processes_of_vllm_end_with_the_worker_even_if_it_is_killed(killed: bool) -> None:
    """Check that no process occupies the GPU's memory when the next worker starts."""
    end = "input()" if killed else "end()"
    script = (
        "import subprocess, sys; from workers.children import guard_children; end = guard_children()\n"
        f"print(subprocess.Popen([sys.executable, '-c', 'input()'], stdin=0).pid, flush=True); {end}; input()"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    child = Path("/proc") / worker.stdout.readline().strip() / "stat"
    assert child.exists()
    if killed:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    eventually(lambda: not child.exists() or child.read_text().split()[2] == "Z", "vLLM's process has ended")
    worker.kill()
    worker.communicate()
