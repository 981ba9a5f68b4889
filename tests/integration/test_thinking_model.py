"""A model that really thinks: trained here, asked in this process and on a llama.cpp server, and read the same."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from registry.benchmarks import read_benchmark
from registry.prompting.prompts import Prompt, QuestionText, build_prompt
from registry.prompting.protocols import protocol_definition
from registry.prompting.protocols.custom import custom_definition
from registry.prompting.reading import Reading, read
from registry.prompting.variants import QuestionShape, parse_variants
from registry.results.prompts import ShardPrompt
from registry.settings import Settings
from tests import thinking_model
from tests.llama_server import MODEL, llama_server, write_dequantised
from tests.population import MMLU
from workers.asking import EndpointModel, LocalModel
from workers.endpoint import open_endpoint
from workers.written import Written

pytestmark = pytest.mark.long

STEPS = 140
OPENING = "{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}"


def protocol(**generation: Any) -> dict[str, Any]:
    given = {"sampling": "greedy", "max_tokens": 220, **generation}
    document = {"name": "thinking", "base": "final-answer", "generation": given}
    return {**protocol_definition("final-answer"), **custom_definition(document, "here")}


def items(definition: dict[str, Any], chosen: slice, variants: str = "original") -> list[ShardPrompt]:
    found = []
    for number, record in enumerate(read_benchmark(MMLU).questions[chosen]):
        question = QuestionText(
            record.external_id, record.subject, record.context, record.text, record.options, record.answer
        )
        if len(question.text) + sum(map(len, question.options)) > 400:
            continue
        shape = QuestionShape(question.external_id, len(question.options), question.answer)
        for variant in parse_variants(variants).variants(shape):
            prompt = build_prompt(definition, question, variant)
            found.append(ShardPrompt(1, number, question, variant, prompt, {}))
    return found


def turns(prompt: Prompt) -> tuple[list[dict[str, str]], Sequence[str]]:
    assert prompt.messages is not None
    return [{"role": turn.role, "content": turn.content} for turn in prompt.messages], prompt.answers


@pytest.fixture(scope="session")
def adapter(smollm2_folder: Path, made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    shown = [turns(item.prompt) for item in items(protocol(), slice(10, 130))]
    return made_once("thinking", lambda folder: void(thinking_model.train(folder, smollm2_folder, shown, steps=STEPS)))


def void(_: object) -> None:
    """Nothing is returned."""


def asked(model: Any, definition: dict[str, Any], prompts: list[ShardPrompt]) -> tuple[list[Written], int, int]:
    seeds = [item.prompt.digest for item in prompts]
    found: tuple[list[Written], int, int] = model.write(prompts, seeds, definition, lambda: False)
    return found


def readings(definition: dict[str, Any], prompts: list[ShardPrompt], written: list[Written]) -> list[Reading]:
    return [
        read(definition, one.output, item.prompt.answers, item.prompt.options)
        for item, one in zip(prompts, written, strict=True)
    ]


@pytest.mark.parametrize("opening", [False, True], ids=["opens by itself", "opened by the template"])
def test_what_a_thinking_model_says_is_read_the_same_here_and_on_a_server(
    smollm2_folder: Path, smollm2_gguf: Path, adapter: Path, tmp_path: Path, opening: bool
) -> None:
    from workers.engine import load_model, open_engine
    from workers.engine.adapters import Adapter

    definition = protocol()
    prompts = items(definition, slice(0, 10))
    loaded = load_model(smollm2_folder, device="cpu", adapter=Adapter(adapter, merged=True))
    if opening:
        loaded.tokenizer.chat_template += OPENING
    (tmp_path / "template.jinja").write_text(loaded.tokenizer.chat_template)
    here, _, _ = asked(LocalModel(loaded, open_engine(loaded)), definition, prompts)
    ours = readings(definition, prompts, here)
    assert {one.output.opened for one in here} == {opening}
    assert sum(one.state == "answered" for one in ours) >= len(ours) / 2
    for one, written in zip(ours, here, strict=True):
        assert one.state in ("answered", "unfinished")
        assert written.thought_tokens is not None
        if one.state == "answered":
            assert one.rule == "answer-line"
            assert 20 <= written.thought_tokens <= 200
    file = tmp_path / "merged.gguf"
    with torch.inference_mode():
        write_dequantised(smollm2_gguf, file, replaced=thinking_model.merged_tensors(smollm2_folder, adapter))
    endpoints = tmp_path / "endpoints.toml"
    with llama_server(file, "--exact", "--template", str(tmp_path / "template.jinja")) as url:
        endpoints.write_text(f'[served]\nurl_prefix = "{url.removesuffix("/v1")}"\n')
        settings = Settings(endpoints=str(endpoints), endpoint_in_flight=1, endpoint_read_seconds=600)
        model = EndpointModel(open_endpoint(url, MODEL, None, settings))
        there, _, _ = asked(model, definition, prompts)
        forced, _, _ = asked(model, protocol(max_thought_tokens=12, at_limit="answer"), prompts[:3])
        model.close()
    theirs = readings(definition, prompts, there)
    same = [
        place
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True))
        if (one.divided.thought, one.divided.answer) == (other.divided.thought, other.divided.answer)
    ]
    assert len(same) >= 0.8 * len(prompts)  # what is left is the last bits of float32
    for place in same:
        assert (ours[place].state, ours[place].position) == (theirs[place].state, theirs[place].position)
        assert there[place].thought_tokens == pytest.approx(here[place].thought_tokens, abs=4)  # markers and blanks
    assert [one.output.forced for one in forced] == [True] * 3
    # So small a model may think once more after its thought was closed, and again.
    assert {one.state for one in readings(definition, prompts[:3], forced)} <= {"answered", "unfinished"}


def test_a_thought_is_limited_and_answered_and_repeats_share_their_prompt(smollm2_folder: Path, adapter: Path) -> None:
    from workers.engine import load_model, open_engine
    from workers.engine.adapters import Adapter

    loaded = load_model(smollm2_folder, device="cpu", adapter=Adapter(adapter, merged=True))
    model = LocalModel(loaded, open_engine(loaded))
    limited = protocol(max_thought_tokens=12, at_limit="answer")
    prompts = items(limited, slice(0, 4))
    written, _, _ = asked(model, limited, prompts)
    assert [one.output.forced for one in written] == [True] * len(prompts)
    assert {one.state for one in readings(limited, prompts, written)} == {"answered"}
    sampled = protocol(sampling="given", max_tokens=60)
    repeated = items(sampled, slice(0, 2), "cyclic*repeat:k=4")
    first, naive, computed = asked(model, sampled, repeated)
    again, _, _ = asked(model, sampled, repeated)
    assert [one.output.text for one in first] == [one.output.text for one in again]
    texts = sum(one.tokens or 0 for one in first)
    once = sum(model.tokens(item) for item in repeated if item.variant.repeat == 0)
    assert (naive - texts) == 4 * once
    assert computed - texts <= once  # of each order once, and of what the orders share once
    assert len({one.output.text for one in first}) > len(repeated) // 4
