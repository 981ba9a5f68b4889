"""Check that a model can think as a protocol requires, before an evaluation is queued.

A model with a known template supports the settings that the template mentions. A server's template is tested when the
model is registered: the server renders a conversation with different settings (`Shown`). A provider supports the
settings that its library has a parameter for.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from registry.prompting.thoughts import Thinking, thinking_of
from registry.revisions.endpoints import Endpoint

_SWITCH: Final = re.compile(r"\benable_thinking\b|\bthinking is (?:not )?defined\b|\bif (?:not )?thinking\b")
_EFFORT: Final = re.compile(r"\breasoning_effort\b")
_BUDGET: Final = re.compile(r"\bthinking_budget\b")
_BY_EFFORT: Final = ("openai", "azure", "openrouter")
"""Providers that take a word (effort) as the setting of thinking; the others take a number of tokens."""


@dataclass(frozen=True)
class Shown:
    """The settings of thinking that a model supports.

    switch: thinking can be turned on and off. effort: it can be set by a word. budget: it can be set by a number of
    tokens. continues: a text can be continued, so a thought can be limited and closed.
    """

    switch: bool
    effort: bool
    budget: bool
    continues: bool

    def document(self) -> dict[str, bool]:
        """Return the settings as a model revision stores them."""
        return asdict(self)


def read_template(template: str | None) -> Shown:
    """Return the settings that a locally loaded model's template mentions; the template is only searched, not run."""
    text = template or ""
    return Shown(
        switch=_SWITCH.search(text) is not None,
        effort=_EFFORT.search(text) is not None,
        budget=_BUDGET.search(text) is not None,
        continues=True,
    )


def read_server(document: Mapping[str, Any] | None) -> Shown | None:
    """Return the settings that a model revision stores about its server; None if none are stored."""
    return None if document is None else Shown(**{name: bool(document.get(name)) for name in Shown.__annotations__})


def why_not_honoured(
    definition: Mapping[str, Any], shown: Shown | None, endpoint: Endpoint | None, model: str
) -> str | None:
    """Return why a protocol's settings of thinking cannot be honoured, with the remedy; None if they can be.

    shown: the supported settings; None for providers, and for servers without stored settings. endpoint: None for a
    locally loaded model. model: its name on the server.
    """
    if "generation" not in definition:
        return None
    thinking = thinking_of(definition["generation"])
    if not thinking.asked:
        return None
    if endpoint is not None and endpoint.provider is not None:
        return _check_provider(thinking, endpoint, model)
    uses_template = thinking.thinking != "default" or thinking.effort is not None
    if uses_template and not definition["chat_template"]:
        return "thinking and effort are told to the chat template, and the protocol has none; set chat_template = true"
    if endpoint is not None and endpoint.openai_parameters_only:
        effort_only = Thinking(effort=thinking.effort)
        if thinking == effort_only and isinstance(thinking.effort, str):
            return None
        return "its endpoint has openai_parameters_only, which knows effort = low, medium or high; leave the rest out"
    if shown is None:
        return (
            "its server does not show what its template writes, so that nobody knows whether it would heed thinking, "
            "effort or max_thought_tokens; serve it with vLLM or llama.cpp and register it again, or leave them out"
        )
    return _check_template(thinking, shown)


def _check_template(thinking: Thinking, shown: Shown) -> str | None:
    if thinking.thinking != "default" and not shown.switch:
        return f"its template writes the same with thinking = {thinking.thinking} as without; leave thinking out"
    if isinstance(thinking.effort, str) and not shown.effort:
        return f"its template writes the same with effort = {thinking.effort} as without; leave effort out"
    if isinstance(thinking.effort, int) and not shown.budget:
        return (
            f"its template does not take a number of tokens such as effort = {thinking.effort}; use "
            "max_thought_tokens, which ends the thought"
        )
    if thinking.max_thought_tokens is not None and not shown.continues:
        return "its server cannot continue a text, so that thoughts cannot be limited; leave max_thought_tokens out"
    return None


def _check_provider(thinking: Thinking, endpoint: Endpoint, model: str) -> str | None:
    provider = endpoint.provider
    if thinking.max_thought_tokens is not None or thinking.at_limit != "stop":
        return f"{provider} cannot continue a text; leave out max_thought_tokens and at_limit, or use effort"
    if thinking.thinking == "off" and provider in ("openai", "azure"):
        return f"{provider} cannot turn thoughts off; leave thinking out, or use effort = low"
    reasons = endpoint.thinking_tokens(model) is not None
    if thinking.thinking == "on" and not reasons:
        return f"endpoint {endpoint.name} does not list {model} among its reasoning_models; add it there"
    if isinstance(thinking.effort, str) and provider not in _BY_EFFORT:
        return f"{provider} is told a number of tokens; give one instead of effort = {thinking.effort}"
    if isinstance(thinking.effort, int) and provider in ("openai", "azure"):
        return f"{provider} is told low, medium or high; use one of them instead of effort = {thinking.effort}"
    return None
