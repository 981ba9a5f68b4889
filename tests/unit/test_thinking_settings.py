"""The settings of thoughts that a model supports, and the messages about others."""

from pathlib import Path
from typing import Any

import pytest

from registry.prompting.protocols.custom import custom_definition
from registry.prompting.protocols.store import protocol_definition
from registry.queue.thinking import Shown, read_template, why_not_honoured
from registry.revisions.endpoints import Endpoint, load_endpoints

QWEN3 = "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}"
GPT_OSS = "{%- if reasoning_effort is not defined %}{%- set reasoning_effort = 'medium' %}{%- endif %}"
DEEPSEEK = "{% if not thinking is defined %}{% set thinking = false %}{% endif %}"
PLAIN = "{{ messages }} I am thinking, says message.thinking"


def protocol(*, chat: bool = True, **generation: Any) -> dict[str, Any]:
    document = {"name": "thinking", "base": "select-letter", "chat_template": chat, "generation": generation}
    return {**protocol_definition("select-letter"), **custom_definition(document, "here")}


def endpoint(tmp_path: Path, entry: str) -> Endpoint:
    path = tmp_path / "endpoints.toml"
    path.write_text(f'[here]\nurl_prefix = "https://models.example/v1"\nkey_env = "KEY"\n{entry}')
    return load_endpoints(str(path))["here"]


@pytest.mark.parametrize(
    ("template", "generation", "why"),
    [
        (QWEN3, {"thinking": "off"}, None),
        (DEEPSEEK, {"thinking": "on"}, None),
        (GPT_OSS, {"effort": "high"}, None),
        (PLAIN, {"max_thought_tokens": 100, "at_limit": "answer"}, None),
        (PLAIN, {}, None),
        (PLAIN, {"thinking": "off"}, "its template writes the same with thinking = off as without"),
        (GPT_OSS, {"thinking": "on"}, "its template writes the same with thinking = on as without"),
        (QWEN3, {"effort": "high"}, "its template writes the same with effort = high as without"),
        (GPT_OSS, {"effort": 512}, "does not take a number of tokens such as effort = 512; use max_thought_tokens"),
    ],
)
def test_a_template_honours_what_it_mentions(template: str, generation: dict[str, Any], why: str | None) -> None:
    reason = why_not_honoured(protocol(**generation), read_template(template), None, "")
    assert reason is None if why is None else why in str(reason)


def test_without_a_conversation_nothing_is_told_to_a_template() -> None:
    reason = why_not_honoured(protocol(chat=False, thinking="on"), read_template(QWEN3), None, "")
    assert "set chat_template = true" in str(reason)


@pytest.mark.parametrize(
    ("shown", "generation", "why"),
    [
        (None, {"thinking": "on"}, "its server does not show what its template writes"),
        (None, {"max_thought_tokens": 5}, "its server does not show what its template writes"),
        (Shown(True, False, False, True), {"thinking": "on", "max_thought_tokens": 5}, None),
        (Shown(True, False, False, False), {"max_thought_tokens": 5}, "cannot continue a text"),
    ],
)
def test_a_server_honours_what_it_has_shown(
    tmp_path: Path, shown: Shown | None, generation: dict[str, Any], why: str | None
) -> None:
    reason = why_not_honoured(protocol(**generation), shown, endpoint(tmp_path, ""), "m")
    assert reason is None if why is None else why in str(reason)


REASONS = 'reasoning_models = ["m"]'


@pytest.mark.parametrize(
    ("entry", "generation", "why"),
    [
        ("openai_parameters_only = true", {"effort": "low"}, None),
        ("openai_parameters_only = true", {"thinking": "off"}, "knows effort = low, medium or high"),
        (f'provider = "openai"\n{REASONS}', {"effort": "high"}, None),
        (f'provider = "openai"\n{REASONS}', {"effort": 100}, "is told low, medium or high"),
        (f'provider = "openai"\n{REASONS}', {"thinking": "off"}, "cannot turn thoughts off"),
        (f'provider = "anthropic"\n{REASONS}', {"effort": 2000}, None),
        (f'provider = "anthropic"\n{REASONS}', {"thinking": "off"}, None),
        (f'provider = "anthropic"\n{REASONS}', {"effort": "low"}, "is told a number of tokens"),
        ('provider = "anthropic"', {"thinking": "on"}, "does not list m among its reasoning_models"),
        (f'provider = "openrouter"\n{REASONS}', {"max_thought_tokens": 5}, "cannot continue a text"),
    ],
)
def test_a_provider_honours_what_its_library_has_a_word_for(
    tmp_path: Path, entry: str, generation: dict[str, Any], why: str | None
) -> None:
    reason = why_not_honoured(protocol(**generation), None, endpoint(tmp_path, entry), "m")
    assert reason is None if why is None else why in str(reason)
