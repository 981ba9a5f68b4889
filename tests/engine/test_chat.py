"""Conversations as chat templates render them: completely, the same every day, and without other text."""

import copy
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from transformers.utils import chat_template_utils

from tests.engine.tiny import as_loaded, tiny_model
from tests.engine.tokenizers import tokenizer_of_kind
from workers.engine import EngineError, LoadedModel, encode_rendered, render_chat

# The template of SmolLM2 and Qwen, that of Gemma, and a template that silently skips system turns.
CHATML = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
NO_SYSTEM = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
    "[{{ message['role'] }}]{{ message['content'] | trim }}[end]{% endfor %}[model]"
)
SILENT = "{% for message in messages if message['role'] != 'system' %}[{{ message['content'] }}]{% endfor %}>"

TALK = [
    {"role": "system", "content": "Answer with a letter."},
    {"role": "user", "content": "1 + 1?"},
    {"role": "assistant", "content": "B"},
    {"role": "user", "content": "2 + 2?"},
]


def with_template(template: Any, kind: str = "llama3") -> LoadedModel:
    tokenizer = copy.deepcopy(tokenizer_of_kind(kind))
    tokenizer.bos_token = "<s>"
    tokenizer.chat_template = template
    return as_loaded(tiny_model("llama").model, tokenizer)


def test_the_last_turn_is_left_open() -> None:
    assert render_chat(with_template(CHATML), TALK, open_with="Answer:") == (
        "<|system|>\nAnswer with a letter.<|end|>\n<|user|>\n1 + 1?<|end|>\n<|assistant|>\nB<|end|>\n"
        "<|user|>\n2 + 2?<|end|>\n<|assistant|>\nAnswer:"
    )


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            NO_SYSTEM,
            "<s>[user]Answer with a letter.\n\n1 + 1?[end][assistant]B[end][user]2 + 2?[end][model]",
        ),
        (SILENT, "[Answer with a letter.\n\n1 + 1?][B][2 + 2?]>"),
    ],
)
def test_without_a_system_role_the_instruction_heads_the_first_question(template: str, expected: str) -> None:
    assert render_chat(with_template(template), TALK, open_with="") == expected
    assert TALK[0]["content"] == "Answer with a letter."
    assert TALK[1]["content"] == "1 + 1?"


def test_the_template_named_default_is_taken() -> None:
    templates = {"tool_use": SILENT, "default": CHATML}
    assert render_chat(with_template(templates), TALK, open_with="").startswith("<|system|>")


def test_a_model_without_a_chat_template_is_refused() -> None:
    with pytest.raises(EngineError, match="has no chat template; use a protocol without one, or a chat-tuned model"):
        render_chat(with_template(None), TALK, open_with="")


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{% for message in messages[:2] %}{{ message['content'] }}{% endfor %}", "leaves out the message of the user"),
        ("{{ raise_exception('Only tools are supported') }}", "Only tools are supported"),
        ("{% for message in messages %}", "Unexpected end of template"),
        ("{{ messages[0].tools.name }}", "has no attribute 'tools'"),
        ("{{ 1 / 0 }}", "division by zero"),
    ],
)
def test_a_template_that_fails_or_leaves_a_turn_out_is_refused(template: str, problem: str) -> None:
    with pytest.raises(EngineError, match=rf"cannot format the conversation \(.*{problem}.*\); correct the template"):
        render_chat(with_template(template), TALK, open_with="")


# Hostile templates


def test_transformers_renders_in_jinja_s_immutable_sandbox() -> None:
    compiled = chat_template_utils._compile_jinja_template("{{ messages }}")
    assert isinstance(compiled.environment, ImmutableSandboxedEnvironment)


@pytest.mark.parametrize(
    "attack",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ '{0.__class__.__mro__}'.format(messages) }}",
        "{{ (messages | map(attribute='__class__') | list)[0].__mro__ }}",
        "{{ messages.append({'role': 'user', 'content': 'B'}) }}",
        "{{ messages[0].update(content='B') }}",
        "{% for message in messages %}{{ message.pop('content') }}{% endfor %}",
    ],
)
def test_a_template_that_reaches_beyond_the_conversation_is_refused(attack: str) -> None:
    with pytest.raises(
        EngineError, match=r"chat template does something that is not allowed \(.*\); check where"
    ) as refused:
        render_chat(with_template(CHATML + attack), TALK, open_with="")
    assert refused.value.__cause__ is None
    assert TALK[0] == {"role": "system", "content": "Answer with a letter."}


@pytest.mark.parametrize(
    "attack", ["{% include '/etc/passwd' %}", "{% import 'os' as os %}", "{{ range(10 ** 9) | sum }}"]
)
def test_a_template_cannot_read_files_or_count_for_ever(attack: str) -> None:
    with pytest.raises(EngineError, match="chat template cannot format the conversation"):
        render_chat(with_template(CHATML + attack), TALK, open_with="")


# The date


def test_a_template_that_writes_the_date_writes_the_same_every_day() -> None:
    dated = "{% set day = strftime_now('%d %b %Y') %}{{ day }}, {{ strftime_now('%Y-%m-%d') }}\n" + CHATML
    text = render_chat(with_template(dated), TALK, open_with="")
    assert text.startswith("26 Jul 2024, 2024-07-26\n<|system|>")


@pytest.mark.parametrize(
    "beginning", ["\n\n", "  ", "  {% if true %}x{% endif %}", "{#- a note #}\n y", "\n{%- if true %}z{% endif %}"]
)
def test_nothing_else_of_a_template_changes(beginning: str) -> None:
    loaded = with_template(beginning + CHATML)
    expected = loaded.tokenizer.apply_chat_template(TALK, tokenize=False, add_generation_prompt=True)
    assert render_chat(loaded, TALK, open_with="") == expected


# Tokens


@pytest.mark.parametrize("kind", ["llama3", "gemma"])
@pytest.mark.parametrize("template", [CHATML, "{{ bos_token }}" + CHATML])
def test_a_beginning_of_text_token_is_there_once(kind: str, template: str) -> None:
    loaded = with_template(template, kind)
    ids = encode_rendered(loaded.tokenizer, render_chat(loaded, TALK, open_with="Answer:"))
    assert ids[0] == loaded.tokenizer.bos_token_id
    assert ids.count(loaded.tokenizer.bos_token_id) == 1


def test_a_tokenizer_that_adds_no_special_tokens_adds_none_here() -> None:
    plain = with_template(CHATML, "gpt2")
    text = render_chat(plain, TALK, open_with="Answer:")
    assert encode_rendered(plain.tokenizer, text) == plain.tokenizer(text)["input_ids"]
    written = with_template("{{ bos_token }}" + CHATML, "gpt2")
    ids = encode_rendered(written.tokenizer, render_chat(written, TALK, open_with="Answer:"))
    assert ids == [1, *plain.tokenizer(text)["input_ids"]]


def test_the_end_of_a_text_is_left_to_the_model() -> None:
    loaded = with_template(CHATML, "ending")
    text = render_chat(loaded, TALK, open_with="Answer:")
    ids = encode_rendered(loaded.tokenizer, text)
    assert [*ids, 2] == loaded.tokenizer(text)["input_ids"]


def test_a_rendered_text_s_own_special_tokens_are_single_tokens() -> None:
    loaded = with_template(CHATML)
    ids = encode_rendered(loaded.tokenizer, render_chat(loaded, TALK, open_with=""))
    assert ids.count(loaded.tokenizer.convert_tokens_to_ids("<|user|>")) == 2
