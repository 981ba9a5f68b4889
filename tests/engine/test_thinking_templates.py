"""A model whose template turns thoughts on and off, like Qwen3's, used through the common interface."""

from typing import Any

import pytest

from registry.digests import specification_digest
from registry.predictions.prompts import ShardPrompt
from registry.prompting.prompts import QuestionText, build_prompt
from registry.prompting.protocols.custom import custom_definition
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.reading import read
from registry.prompting.variants import QuestionShape, parse_variants
from tests.engine.tiny import as_loaded, random_model
from tests.engine.tokenizers import tokenizer_of_kind
from workers.asking import LocalModel
from workers.engine import open_engine

TEMPLATE = (
    "{% for turn in messages %}<{{ turn.role }}>{{ turn.content }}</{{ turn.role }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% elif enable_thinking is defined %}<think>\n{% endif %}{% endif %}"
)


def protocol(**generation: Any) -> dict[str, Any]:
    generation_given = {"sampling": "greedy", "max_tokens": 30, **generation}
    document = {"name": "thinking", "base": "final-answer", "generation": generation_given}
    return {**protocol_definition("final-answer"), **custom_definition(document, "here")}


@pytest.fixture
def model() -> LocalModel:
    tokenizer = tokenizer_of_kind("llama3")
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.chat_template = TEMPLATE
    loaded = as_loaded(random_model("llama", vocab_size=len(tokenizer), max_position_embeddings=2048), tokenizer)
    return LocalModel(loaded, open_engine(loaded))


def item(definition: dict[str, Any]) -> ShardPrompt:
    question = QuestionText("q", None, None, "Which?", ("one", "two"), 0)
    (variant,) = parse_variants("original").variants(QuestionShape("q", 2, 0))
    return ShardPrompt(1, 1, question, variant, build_prompt(definition, question, variant), 1, {})


@pytest.mark.parametrize(("thinking", "opened"), [("on", True), ("off", False), ("default", False)])
def test_the_template_learns_whether_to_think_and_may_begin_a_thought(
    model: LocalModel, thinking: str, opened: bool
) -> None:
    definition = protocol(thinking=thinking)
    shard_prompt = item(definition)
    ((written,), naive, computed) = model.write([shard_prompt], ["x"], definition, lambda: False)
    assert written.output.opened == opened
    assert (written.tokens, written.output.finish) == (30, "length")
    assert written.thought_tokens == (30 if opened else 0)
    reading = read(definition, written.output, shard_prompt.prompt.answers, shard_prompt.prompt.options)
    assert reading.state == "unfinished"
    assert (reading.divided.answer is None) == opened
    assert naive == computed > 30
    assert written.seconds is not None


def test_protocols_that_think_differently_have_digests_of_their_own() -> None:
    digests = {specification_digest(protocol(thinking=thinking)) for thinking in ("on", "off", "default")}
    assert len(digests) == 3


def test_a_thought_at_its_limit_is_closed_with_its_own_marker(model: LocalModel) -> None:
    definition = protocol(thinking="on", max_thought_tokens=8, at_limit="answer")
    ((written,), _, _) = model.write([item(definition)], ["x"], definition, lambda: False)
    assert written.output.forced
    assert "</think>" in written.output.text
    assert written.tokens == 30
    assert written.thought_tokens is not None
    assert 8 <= written.thought_tokens < 30
