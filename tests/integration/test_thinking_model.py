"""A small model that was trained to think, run in this process and on a llama.cpp server with the same readings."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from registry.settings import Settings
from tests.support import thinking_model
from tests.support.llama_server import MODEL, llama_server, write_dequantised
from tests.support.thinking_model import OPENING, ask, compare, items, protocol, readings
from workers.asking import EndpointModel, LocalModel
from workers.endpoint import open_endpoint

pytestmark = pytest.mark.long


@pytest.fixture(scope="session")
def adapter(smollm2_folder: Path, made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    return made_once("thinking", lambda folder: thinking_model.train(folder, smollm2_folder))


@pytest.mark.parametrize("opening", [False, True], ids=["opens by itself", "opened by the template"])
def test_a_thinking_models_text_is_read_the_same_on_a_server(
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
    local, _, _ = ask(LocalModel(loaded, open_engine(loaded)), definition, prompts)
    ours = readings(definition, prompts, local)
    assert {one.output.opened for one in local} == {opening}
    assert sum(one.state == "answered" for one in ours) >= len(ours) / 2
    for one, written in zip(ours, local, strict=True):
        assert one.state in ("answered", "unfinished")
        assert written.thought_tokens is not None
        if one.state == "answered":
            assert one.rule == "answer-line"
            assert 20 <= written.thought_tokens <= 200
    file = tmp_path / "merged.gguf"
    with torch.inference_mode():
        write_dequantised(smollm2_gguf, file, replaced=thinking_model.merge_tensors(smollm2_folder, adapter))
    endpoints = tmp_path / "endpoints.toml"
    with llama_server(file, "--exact", "--template", str(tmp_path / "template.jinja")) as url:
        endpoints.write_text(f'[served]\nurl_prefix = "{url.removesuffix("/v1")}"\n')
        settings = Settings(endpoints=str(endpoints), endpoint_in_flight=1, endpoint_read_seconds=600)
        model = EndpointModel(open_endpoint(url, MODEL, None, settings))
        served, _, _ = ask(model, definition, prompts)
        forced, _, _ = ask(model, protocol(max_thought_tokens=12, at_limit="answer"), prompts[:3])
        model.close()
    theirs = readings(definition, prompts, served)
    assert compare(ours, local, theirs, served) >= 0.8 * len(prompts)
    assert [one.output.forced for one in forced] == [True] * 3
    # A model this small may think again after its thought was closed.
    assert {one.state for one in readings(definition, prompts[:3], forced)} <= {"answered", "unfinished"}


def test_a_thought_is_limited_and_answered_and_repeats_share_their_prompt(smollm2_folder: Path, adapter: Path) -> None:
    from workers.engine import load_model, open_engine
    from workers.engine.adapters import Adapter

    loaded = load_model(smollm2_folder, device="cpu", adapter=Adapter(adapter, merged=True))
    model = LocalModel(loaded, open_engine(loaded))
    limited = protocol(max_thought_tokens=12, at_limit="answer")
    prompts = items(limited, slice(0, 4))
    written, _, _ = ask(model, limited, prompts)
    assert [one.output.forced for one in written] == [True] * len(prompts)
    assert {one.state for one in readings(limited, prompts, written)} == {"answered"}
    sampled = protocol(sampling="given", temperature=2, max_tokens=60)
    repeated = items(sampled, slice(0, 2), "cyclic:repeats=4")
    first, naive, computed = ask(model, sampled, repeated)
    again, _, _ = ask(model, sampled, repeated)
    assert [one.output.text for one in first] == [one.output.text for one in again]
    texts = sum(one.tokens or 0 for one in first)
    once = sum(model.tokens(item) for item in repeated if item.variant.repeat == 0)
    assert (naive - texts) == 4 * once
    assert computed - texts <= once  # each order once, and their common prefixes once
    assert len({one.output.text for one in first}) > len(repeated) // 4
