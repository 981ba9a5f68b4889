"""Texts of servers with thoughts in a field, in the text or in channels, whole or streamed, and their readings."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from registry.prompting.protocols.custom import custom_definition
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.reading import IN_THE_THOUGHT, read
from registry.settings import Settings
from tests.support.scripted_server import (
    Answer,
    Asked,
    CutOffError,
    ScriptedServer,
    events,
    serve_scripted_server,
    stream,
)
from workers.endpoint import EndpointEngine, EndpointPrompt, client, open_endpoint
from workers.endpoint.writing import FIRST
from workers.errors import EngineError
from workers.written import Written

CHAT = [{"role": "user", "content": "Which?"}]
LETTERS = ("A", "B", "C", "D")
THOUGHT = "At first sight the answer is A. No: the answer is B, so"


def protocol(base: str = "select-letter", **generation: Any) -> dict[str, Any]:
    document = {"name": "thinking", "base": base, "chat_template": True, "generation": generation}
    return {**protocol_definition("select-letter"), **custom_definition(document, "here")}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., EndpointEngine]]:
    engines = []

    def open_on(server: ScriptedServer, entry: str = "", **settings: Any) -> EndpointEngine:
        path = tmp_path / "endpoints.toml"
        path.write_text(f'[tested]\nurl_prefix = "{server.url.removesuffix("/v1")}"\n{entry}')
        configured = Settings(endpoints=str(path), **{"endpoint_wait_seconds": 0.1, **settings})
        engines.append(open_endpoint(server.url, "tiny", None, configured))
        return engines[-1]

    yield open_on
    for engine in engines:
        engine.close()


Script = Callable[[Asked], Answer]


def serving(write: Script, owner: str = "someone", beside: Mapping[str, Any] | None = None) -> Script:
    """Return a script for a server.

    beside: answers outside the OpenAI protocol, by path.
    """

    def answer(asked: Asked) -> Answer:
        if asked.path == "/v1/models":
            return Answer({"data": [{"id": "tiny", "owned_by": owner}]})
        if "completions" in asked.path:
            return write(asked)
        if asked.path in (beside or {}):
            content = (beside or {})[asked.path]
            return Answer(content(asked.document) if callable(content) else content)
        return Answer({"error": {"message": "no such service"}}, 404)

    return answer


def one(engine: EndpointEngine, definition: Mapping[str, Any] | None = None) -> Written:
    (written,) = engine.generate([EndpointPrompt("Which?", "p", CHAT)], definition or protocol()).written
    return written


def message(finish: str = "stop", **said: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **said}, "finish_reason": finish}]}


def deltas(*said: Mapping[str, Any], finish: str | None = "stop") -> list[bytes]:
    written = [{"choices": [{"index": 0, "delta": dict(delta), "finish_reason": None}]} for delta in said]
    ended = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 40}}
    return events(*written, ended, usage)


def pieces(text: str, field: str = "content") -> list[dict[str, str]]:
    return [{field: text[start : start + 3]} for start in range(0, len(text), 3)]


CHANNELS = f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>"
SAID = "The answer is C."
FORMS: dict[str, Callable[[], Answer]] = {
    "field": lambda: Answer(message(content=SAID, reasoning_content=THOUGHT)),
    "newer field": lambda: Answer(message(content=SAID, reasoning=THOUGHT)),
    "both fields": lambda: Answer(message(content=SAID, reasoning=THOUGHT, reasoning_content=THOUGHT)),
    "details": lambda: Answer(message(content=SAID, reasoning_details=[{"type": "reasoning.text", "text": THOUGHT}])),
    "parts": lambda: Answer(
        message(
            content=[
                {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]},
                {"type": "text", "text": SAID},
            ]
        )
    ),
    "text": lambda: Answer(message(content=f"<think>\n{THOUGHT}\n</think>\n\n{SAID}")),
    "text without a beginning": lambda: Answer(message(content=f"{THOUGHT}\n</think>\n\n{SAID}")),
    "channels": lambda: Answer(message(content=f"{CHANNELS}{SAID}<|return|>")),
    "streamed field": lambda: stream(deltas(*pieces(THOUGHT, "reasoning_content"), *pieces(SAID))),
    "streamed text": lambda: stream(deltas(*pieces(f"<think>{THOUGHT}</think>{SAID}"))),
    "streamed channels": lambda: stream(deltas(*pieces(f"{CHANNELS}{SAID}"))),
    "streamed parts": lambda: stream(
        deltas(
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}]},
            {"content": [{"type": "text", "text": SAID}]},
        )
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_thought_is_told_from_the_answer_in_whatever_form_it_comes(
    opened: Callable[..., EndpointEngine], form: str
) -> None:
    with serve_scripted_server(serving(lambda _: FORMS[form]())) as server:
        written = one(opened(server))
    reading = read(protocol(), written.output, LETTERS, LETTERS)
    assert (reading.state, reading.position, reading.rule) == ("answered", 2, "answer-is")
    assert reading.divided.thought == THOUGHT


CUT_OFF: dict[str, tuple[Callable[[], Answer], str]] = {
    "field": (lambda: Answer(message("length", content=None, reasoning_content=THOUGHT)), "unfinished"),
    "text": (lambda: Answer(message("length", content=f"<think>{THOUGHT}")), "unfinished"),
    "channels": (lambda: Answer(message("length", content=CHANNELS.partition("<|end|>")[0])), "unfinished"),
    "streamed": (lambda: stream(deltas(*pieces(THOUGHT, "reasoning"), finish="length")), "unfinished"),
    "in the answer": (lambda: Answer(message("length", content=f"<think>{THOUGHT}</think>Let")), "unfinished"),
    "nothing after it": (lambda: Answer(message(content="", reasoning=THOUGHT)), "empty"),
    "filtered": (lambda: Answer(message("content_filter", content="The answer is A")), "refused"),
    "declined": (lambda: Answer(message(content=None, refusal="I can't help with that.")), "refused"),
    "filtered before": (
        lambda: Answer({"error": {"message": "filtered", "code": "content_filter", "type": "x"}}, 400),
        "refused",
    ),
    "no rule": (lambda: Answer(message(content="Hm.", reasoning=THOUGHT)), "unread"),
}


@pytest.mark.parametrize("form", CUT_OFF)
def test_a_missing_answer_has_the_same_state_in_every_form(opened: Callable[..., EndpointEngine], form: str) -> None:
    answer, state = CUT_OFF[form]
    with serve_scripted_server(serving(lambda _: answer())) as server:
        written = one(opened(server))
    reading = read(protocol(), written.output, LETTERS, LETTERS)
    assert (reading.state, reading.position) == (state, None)


def test_a_stream_may_take_far_longer_than_a_server_may_be_silent(
    opened: Callable[..., EndpointEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SIGNS_OF_LIFE", 2)

    def slowly() -> Iterator[bytes]:
        for event in deltas(*pieces(THOUGHT, "reasoning"), *pieces(SAID)):
            time.sleep(0.13)
            yield event

    with serve_scripted_server(serving(lambda _: stream(slowly()))) as server:
        began = time.monotonic()
        written = one(opened(server, endpoint_read_seconds=1.5))
        assert time.monotonic() - began > 2 * 1.5
        assert len([request for request in server.asked if "completions" in request.path]) == 1
    assert (written.output.text, written.output.reasoning, written.tokens) == (SAID, THOUGHT, 40)
    assert written.seconds is not None
    assert written.seconds > 2 * 1.5


@pytest.mark.parametrize("how", ["silent", "cut", "unfinished", "broken off", "error", "only alive"])
def test_a_cut_or_silent_stream_is_requested_again_without_its_remains(
    opened: Callable[..., EndpointEngine], how: str
) -> None:
    tries = 0

    def broken() -> Iterator[bytes]:
        yield from events({"choices": [{"index": 0, "delta": {"content": "The answer is A"}}]}, end=False)
        if how == "silent":
            time.sleep(3)
        if how == "cut":
            raise CutOffError
        if how == "broken off":
            yield from events({"choices": [{"index": 0, "delta": {}, "finish_reason": "abort"}]})
        if how == "error":
            yield from events({"error": {"message": "out of memory", "code": 500}})
        for _ in range(30 if how == "only alive" else 0):
            time.sleep(0.1)
            yield b": still there\n\n"

    def answer(_: Asked) -> Answer:
        nonlocal tries
        tries += 1
        return stream(broken() if tries == 1 else deltas(*pieces(SAID)))

    with serve_scripted_server(serving(answer)) as server:
        written = one(opened(server, endpoint_read_seconds=2))
    assert (tries, written.output.text) == (2, SAID)


def test_a_refusal_within_a_stream_is_not_asked_again(opened: Callable[..., EndpointEngine]) -> None:
    with serve_scripted_server(
        serving(lambda _: stream(events({"error": {"message": "prompt too long", "code": 400}})))
    ) as server:
        with pytest.raises(EngineError, match=r"answers 400 \(prompt too long\)"):
            one(opened(server))
        assert len([request for request in server.asked if "completions" in request.path]) == 1


# Settings


def test_the_switch_and_the_effort_are_what_templates_are_told(opened: Callable[..., EndpointEngine]) -> None:
    with serve_scripted_server(serving(lambda _: Answer(message(content=SAID)))) as server:
        engine = opened(server)
        one(engine, protocol(thinking="off"))
        one(engine, protocol(thinking="on", effort="high"))
        off, on = [request.document for request in server.asked if "completions" in request.path]
    assert off["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}
    assert on["chat_template_kwargs"] == {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}
    assert (off.get("reasoning_effort"), on["reasoning_effort"]) == (None, "high")


def llama_cpp(opening: str = "<think>\n") -> dict[str, Any]:
    return {
        "/apply-template": lambda asked: {"prompt": f"[user] {asked['messages'][-1]['content']}[assistant]{opening}"},
        "/tokenize": lambda asked: {"tokens": asked["content"].split()},
    }


def vllm(opening: str = "<think>\n") -> dict[str, Any]:
    prompt = f"[user] Which?[assistant]{opening}"
    return {
        "/tokenize": lambda asked: {"tokens": [1, 2, 3] if "messages" in asked else asked["prompt"].split()},
        "/detokenize": {"prompt": prompt},
    }


@pytest.mark.parametrize(("owner", "beside"), [("llamacpp", llama_cpp()), ("vllm", vllm())])
def test_a_cut_off_thought_that_the_template_began_is_no_answer(
    opened: Callable[..., EndpointEngine], owner: str, beside: dict[str, Any]
) -> None:
    with serve_scripted_server(serving(lambda _: Answer(message("length", content=THOUGHT)), owner, beside)) as server:
        written = one(opened(server))
    assert written.output.opened
    assert read(protocol(), written.output, LETTERS, LETTERS).state == "unfinished"
    assert written.thought_tokens == len(THOUGHT.split())


@pytest.mark.parametrize(("owner", "beside"), [("llamacpp", llama_cpp()), ("vllm", vllm())])
def test_a_thought_that_came_apart_counts_the_marker_that_ended_it(
    opened: Callable[..., EndpointEngine], owner: str, beside: dict[str, Any]
) -> None:
    with serve_scripted_server(serving(lambda _: FORMS["streamed field"](), owner, beside)) as server:
        written = one(opened(server))
    assert written.tokens is not None
    assert written.thought_tokens == written.tokens - len(SAID.split())


def test_a_server_without_a_visible_template_is_recognised_by_closed_thoughts(
    opened: Callable[..., EndpointEngine],
) -> None:
    def answer(asked: Asked) -> Answer:
        number = int(asked.document["messages"][0]["content"])
        return Answer(message("length", content=THOUGHT) if number == 0 else message(content=f"Hm.</think>{SAID}"))

    prompts = [EndpointPrompt(str(n), str(n), [{"role": "user", "content": str(n)}]) for n in range(4)]
    with serve_scripted_server(serving(answer)) as server:
        written = opened(server).generate(prompts, protocol()).written
    states = [read(protocol(), one.output, LETTERS, LETTERS).state for one in written]
    assert states == ["unfinished", "answered", "answered", "answered"]


@pytest.mark.parametrize("at_limit", ["stop", "answer"])
@pytest.mark.parametrize(("owner", "beside"), [("llamacpp", llama_cpp()), ("vllm", vllm())])
def test_a_thought_at_its_limit_is_cut_off_or_closed_and_answered(
    opened: Callable[..., EndpointEngine], owner: str, beside: dict[str, Any], at_limit: str
) -> None:
    def answer(asked: Asked) -> Answer:
        assert asked.path == "/v1/completions"
        long = asked.document["prompt"].endswith("<think>\n")
        text, finish = (THOUGHT, "length") if long else (SAID, "stop")
        usage = {"prompt_tokens": 30, "completion_tokens": 12 if long else 5}
        return Answer({"choices": [{"index": 0, "text": text, "finish_reason": finish}], "usage": usage})

    definition = protocol(max_thought_tokens=12, at_limit=at_limit, max_tokens=50)
    with serve_scripted_server(serving(answer, owner, beside)) as server:
        written = one(opened(server), definition)
        asked = [one.document for one in server.asked if "completions" in one.path]
    reading = read(definition, written.output, LETTERS, LETTERS)
    if at_limit == "stop":
        assert (reading.state, written.output.forced, written.tokens, len(asked)) == ("unfinished", False, 12, 1)
        return
    assert [one["max_tokens"] for one in asked] == [12, 38]
    assert asked[1]["prompt"] == f"[user] Which?[assistant]<think>\n{THOUGHT}\n</think>\n\n"
    assert (reading.state, reading.position, reading.divided.thought) == ("answered", 2, THOUGHT)
    assert (written.output.forced, written.tokens) == (True, 17)


def test_an_answer_that_began_before_the_limit_goes_on(opened: Callable[..., EndpointEngine]) -> None:
    def answer(asked: Asked) -> Answer:
        first = asked.document["prompt"].endswith("<think>\n")
        text, finish = ("Hm.</think>The answer", "length") if first else (" is C.", "stop")
        return Answer({"choices": [{"index": 0, "text": text, "finish_reason": finish}]})

    with serve_scripted_server(serving(answer, "llamacpp", llama_cpp())) as server:
        written = one(opened(server), protocol(max_thought_tokens=12, at_limit="answer", max_tokens=50))
    assert (written.output.text, written.output.forced) == ("Hm.</think>The answer is C.", False)


# Repeats


def test_vllm_gets_repeats_in_one_request_others_one_by_one(opened: Callable[..., EndpointEngine]) -> None:
    def answer(asked: Asked) -> Answer:
        n, seed = asked.document.get("n", 1), asked.document["seed"]
        chunks: list[dict[str, Any]] = [
            {
                "choices": [{"index": index, "delta": {"content": f"seed {seed + index}"}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 20, "completion_tokens": 3 + index},
            }
            for index in reversed(range(n))
        ]
        return stream(events(*chunks, {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 99}}))

    prompts = [EndpointPrompt("Which?", "p", CHAT, repeat) for repeat in (0, 1, 2)] + [EndpointPrompt("So?", "q", CHAT)]
    by_owner = {}
    for owner in ("vllm", "someone"):
        with serve_scripted_server(serving(answer, owner, vllm(""))) as server:
            by_owner[owner] = opened(server).generate(prompts, protocol())
            requests = [one.document.get("n", 1) for one in server.asked if "completions" in one.path]
            assert sorted(requests) == ([1, 3] if owner == "vllm" else [1, 1, 1, 1])
    texts = {owner: [one.output.text for one in asked.written] for owner, asked in by_owner.items()}
    assert texts["vllm"] == texts["someone"]
    assert [one.tokens for one in by_owner["vllm"].written[:3]] == [3, 4, 5]
    assert (by_owner["vllm"].prompt_tokens, by_owner["vllm"].computed_tokens) == (80, 40)


def test_answers_that_all_come_as_thoughts_with_thinking_off_stop_the_evaluation(
    opened: Callable[..., EndpointEngine],
) -> None:
    definition = protocol(thinking="off")
    with serve_scripted_server(serving(lambda _: Answer(message(content="", reasoning_content=SAID)))) as server:
        engine = opened(server)
        for _ in range(FIRST - 1):
            written = one(engine, definition)
        with pytest.raises(EngineError, match="the answers are in the thoughts"):
            one(engine, definition)
    reading = read(definition, written.output, LETTERS, LETTERS)
    assert (reading.state, reading.remark) == ("empty", IN_THE_THOUGHT)
