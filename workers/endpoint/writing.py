"""Texts written by a server: the parameters, the number of requests, and the end of the thought in the answer.

Texts are streamed, so that an answer has no time limit while it is being written. A protocol that limits thoughts uses
completions of the conversation as the server renders it: the text so far, with the text that closes the thought, can
then be continued.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from registry.prompting.reading import IN_THE_THOUGHT
from registry.prompting.thoughts import (
    OPENED_SHARE,
    Family,
    Output,
    closes_only,
    divide,
    markers_of,
    opens_thought,
    thinking_of,
)
from workers.endpoint.client import RefusedError
from workers.endpoint.outputs import Answered, Choice
from workers.errors import EngineError
from workers.seeds import seed_number
from workers.thoughts import closing_of, family_opened, template_arguments
from workers.written import Written

VLLM: Final = "vllm"
SGLANG: Final = "sglang"
LLAMA_CPP: Final = "llamacpp"
"""llama.cpp's name as the owner of models in a server's list."""
FIRST: Final = 8
"""Number of answers after which it is clear that a server puts all answers into thoughts."""
_FILTERS: Final = frozenset({"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"})


@dataclass(frozen=True)
class EndpointPrompt:
    """A prompt that the model continues or answers.

    text: for the completions service. messages: turns with `role` and `content`, for the chat service, whose server
    renders them with the model's template; None: the text is used. seed_text: makes the prompt's seed its own. repeat:
    number of earlier requests of the prompt, each with another seed.
    """

    text: str
    seed_text: str
    messages: list[dict[str, str]] | None = None
    repeat: int = 0


@dataclass(frozen=True)
class Asked:
    """The texts of one or several requests. prompt, computed: tokens of the prompts, as the server counts them."""

    written: list[Written]
    prompt: int = 0
    computed: int = 0


class Server(Protocol):
    """The interface of a server that writes texts."""

    software: str | None

    @property
    def openai_parameters_only(self) -> bool:
        """Return whether requests may have only parameters of the OpenAI protocol."""
        ...

    def request_answer(self, service: str, document: Mapping[str, Any], stop: threading.Event) -> Answered:
        """Return the streamed answer of a service in the OpenAI protocol."""
        ...

    def request_native(
        self, service: str, document: Mapping[str, Any], stop: threading.Event
    ) -> Mapping[str, Any] | None:
        """Return the answer of a service outside that protocol; None if the server lacks it or it is not covered."""
        ...


class Writing:
    """The requests to one server for texts under one protocol."""

    def __init__(self, server: Server, definition: Mapping[str, Any]) -> None:
        self._server = server
        self._generation: Mapping[str, Any] = definition["generation"]
        self._markers = markers_of(definition)
        self._thinking = thinking_of(self._generation)
        self._template_arguments = template_arguments(self._thinking)
        self._lock = threading.Lock()
        self._family: Family | None = None
        self._tried = False
        self._shown = False
        self._ended = self._closed = self._in_thoughts = 0

    @property
    def several(self) -> bool:
        """Return whether one request with n answers draws the same texts as n requests with consecutive seeds."""
        return self._server.software == VLLM and self._thinking.max_thought_tokens is None

    def write(self, run: Sequence[EndpointPrompt], stop: threading.Event) -> Asked:
        """Return one text for each repeat of a prompt in `run`, whose repeats have consecutive numbers."""
        began = time.monotonic()
        first = run[0]
        self._try_template(first, stop)
        if self._thinking.max_thought_tokens is not None and first.messages is not None:
            outcome = self._write_limited(first, stop)
        else:
            outcome = self._free(run, stop)
        seconds = time.monotonic() - began
        written = [replace(self._count_thought(text, stop), seconds=seconds) for text in outcome.written]
        with self._lock:
            self._ended += sum(text.output.finish == "stop" for text in written)
            self._closed += sum(
                not text.output.reasoning and closes_only(text.output.text, self._markers) for text in written
            )
            self._in_thoughts += sum(
                text.output.finish == "stop" and bool(text.output.reasoning) and not text.output.text.strip()
                for text in written
            )
            if self._thinking.thinking == "off" and FIRST <= self._ended == self._in_thoughts:
                raise EngineError(IN_THE_THOUGHT)
        return replace(outcome, written=written)

    def as_opened(self, written: Written) -> Written:
        """Return the text as a thought if the template opened one; call it when all texts are written."""
        output = written.output
        unsure = not self._shown and output.finish == "length" and not output.reasoning
        if not unsure or self._closed < max(1.0, OPENED_SHARE * self._ended) or any(self._markers.find(output.text)):
            return written
        return replace(written, output=replace(output, opened=True), thought_tokens=written.tokens)

    def _free(self, run: Sequence[EndpointPrompt], stop: threading.Event) -> Asked:
        first = run[0]
        document = self._parameters(first, int(self._generation["max_tokens"]))
        if len(run) > 1:
            document["n"] = len(run)
            document["stream_options"]["continuous_usage_stats"] = True
        if first.messages is None:
            answered = self._ask("completions", {"prompt": first.text, **document}, stop)
        else:
            if self._template_arguments and not self._server.openai_parameters_only:
                document["chat_template_kwargs"] = self._template_arguments
            if isinstance(self._thinking.effort, str):
                document["reasoning_effort"] = self._thinking.effort
            answered = self._ask("chat/completions", {"messages": first.messages, **document}, stop)
        if answered is None:
            return Asked([Written(Output("", finish="refused"), 0, 0) for _ in run])
        choices = [answered.choices.get(index) for index in range(len(run))]
        if any(choice is None for choice in choices):
            raise EngineError(
                f"the server gives {len(answered.choices)} of {len(run)} answers; check that it honours n, then retry"
            )
        written = [self._read(answered, choice, len(run)) for choice in choices if choice is not None]
        prompt, cached = _prompt_tokens(answered)
        return Asked(written, prompt * len(run), prompt - cached)

    def _write_limited(self, prompt: EndpointPrompt, stop: threading.Event) -> Asked:
        """Write a text whose thought is limited: first up to the limit, then the answer."""
        limit, all_tokens = self._thinking.max_thought_tokens, int(self._generation["max_tokens"])
        assert limit is not None
        rendered = self._render(prompt, stop)
        if rendered is None:
            raise EngineError(
                "the server does not show how it writes a conversation down, so that a thought cannot be limited and "
                "continued; leave out max_thought_tokens, or serve the model with vLLM or llama.cpp"
            )
        opened = opens_thought(rendered, self._markers)
        family = family_opened(rendered, self._markers)
        text, tokens, forced, prompt_tokens, computed = "", 0, False, 0, 0
        finish = "length"
        for most in (limit, all_tokens - limit):
            reply = self._continue(prompt, rendered + text, most, stop)
            if reply is None:
                return Asked([Written(Output("", finish="refused"), 0, 0)])
            choice = reply.choices[0]
            used, cached = _prompt_tokens(reply)
            prompt_tokens, computed = prompt_tokens + used, computed + used - cached
            written = reply.usage.written if reply.usage is not None else None
            text, tokens = text + "".join(choice.text), tokens + (written or 0)
            finish = choice.output().finish
            if finish != "length":
                break
            closing = closing_of(text, opened=opened, markers=self._markers, family=family)
            if most == limit and closing is not None:
                if self._thinking.at_limit != "answer":
                    break
                text, forced = text + closing, True
        output = Output(text, finish=finish, opened=opened, forced=forced)  # type: ignore[arg-type]
        return Asked([Written(output, tokens or None)], prompt_tokens, computed)

    def _continue(self, prompt: EndpointPrompt, text: str, most: int, stop: threading.Event) -> Answered | None:
        document = {"prompt": text, **self._parameters(prompt, most)}
        if self._server.software in (VLLM, SGLANG):
            document["add_special_tokens"] = False  # the template has written the special tokens
        return self._ask("completions", document, stop)

    def _ask(self, service: str, document: Mapping[str, Any], stop: threading.Event) -> Answered | None:
        """Return the answer; None if the server refuses the prompt for its content."""
        try:
            return self._server.request_answer(service, document, stop)
        except RefusedError as error:
            if error.code in _FILTERS:
                return None
            raise

    def _read(self, answered: Answered, choice: Choice, several: int) -> Written:
        output = choice.output()
        usage = choice.usage if several > 1 else answered.usage
        if self._family is not None and not output.reasoning:
            output = replace(output, opened=True)
        thought = answered.reasoning_tokens if several == 1 and output.reasoning else None
        return Written(output, None if usage is None else usage.written, thought or None)

    def _count_thought(self, written: Written, stop: threading.Event) -> Written:
        """Add the number of tokens of the text's thought, if the server can count them."""
        if written.thought_tokens is not None:
            return written
        divided = divide(written.output, self._markers)
        thought = divided.thought
        if thought is None:
            return replace(written, thought_tokens=0)
        text, answer, has_reasoning = written.output.text, divided.answer, bool(written.output.reasoning)
        if written.tokens is not None and not answer and (has_reasoning or answer is None):
            return replace(written, thought_tokens=written.tokens)
        # The thought includes the marker that ends it, as in the local engines; if the marker is lost, all but the
        # answer.
        of_answer = has_reasoning and bool(answer) and written.tokens is not None
        if not has_reasoning:
            thought = text[: text.rfind(answer)] if answer else text
        name = "content" if self._server.software == LLAMA_CPP else "prompt"
        counted = None
        if self._server.software in (VLLM, SGLANG, LLAMA_CPP):
            part = text[text.rfind(answer or "") :] if of_answer else thought
            counted = self._server.request_native("tokenize", {name: part, "add_special_tokens": False}, stop)
        tokens = None if counted is None else counted.get("tokens")
        if not isinstance(tokens, list):
            return written
        if of_answer:
            return replace(written, thought_tokens=max((written.tokens or 0) - len(tokens), 0))
        most = len(tokens) if written.tokens is None else written.tokens
        return replace(written, thought_tokens=min(len(tokens), most))

    def _parameters(self, prompt: EndpointPrompt, max_tokens: int) -> dict[str, Any]:
        generation, server = self._generation, self._server
        parameters: dict[str, Any] = {
            "max_tokens": max_tokens,
            "seed": seed_number(int(generation["seed"]), prompt.seed_text, prompt.repeat),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if server.software in (VLLM, SGLANG):
            parameters["skip_special_tokens"] = False  # some special tokens end thoughts
        if generation["stop"]:
            parameters["stop"] = list(generation["stop"])
        if generation["sampling"] == "greedy":
            return parameters | {"temperature": 0}
        parameters |= {"temperature": float(generation["temperature"]), "top_p": float(generation["top_p"])}
        if not server.openai_parameters_only:
            parameters |= {"top_k": int(generation["top_k"]), "min_p": float(generation["min_p"])}
        return parameters

    def _try_template(self, prompt: EndpointPrompt, stop: threading.Event) -> None:
        """Test once whether the template opens a thought."""
        if self._tried or prompt.messages is None:
            return
        rendered = self._render(prompt, stop)
        with self._lock:
            self._tried = True
            self._shown = rendered is not None
            self._family = None if rendered is None else family_opened(rendered, self._markers)

    def _render(self, prompt: EndpointPrompt, stop: threading.Event) -> str | None:
        assert prompt.messages is not None
        return render_conversation(
            partial(self._server.request_native, stop=stop),
            self._server.software,
            prompt.messages,
            self._template_arguments,
        )


def render_conversation(
    beside: Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None],
    software: str | None,
    messages: Sequence[Mapping[str, str]],
    arguments: Mapping[str, Any],
) -> str | None:
    """Return a conversation as a server renders it; None if the server does not show that.

    arguments: further arguments of the server's template.
    """
    document: dict[str, Any] = {"messages": list(messages)}
    if arguments:
        document["chat_template_kwargs"] = dict(arguments)
    if software == LLAMA_CPP:
        shown = beside("apply-template", document)
        return _text(shown, "prompt")
    if software not in (VLLM, SGLANG):
        return None
    cut = beside("tokenize", {**document, "add_generation_prompt": True})
    tokens = None if cut is None else cut.get("tokens")
    if not isinstance(tokens, list) or not tokens:
        return None
    joined = beside("detokenize", {"tokens": tokens})
    return _text(joined, "prompt") or _text(joined, "text")


def _text(document: Mapping[str, Any] | None, name: str) -> str | None:
    value = None if document is None else document.get(name)
    return value if isinstance(value, str) else None


def _prompt_tokens(answered: Answered) -> tuple[int, int]:
    """Return the number of prompt tokens and of the cached ones among them; 0 if the server does not count."""
    usage = answered.usage
    return (0, 0) if usage is None else (usage.prompt or 0, usage.cached)
