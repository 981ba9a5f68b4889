"""Models whose tokens attend to later tokens, or whose weights are not numbers, which are refused when loaded."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.engine.tiny import COMMON, VOCABULARY, as_loaded, random_model
from tests.support.marks import long_but
from workers.checkpoints import ENCODER_TYPES
from workers.engine.loading import _check_vocabulary, check_order
from workers.errors import EngineError, PermanentError
from workers.model_types import TRIE_TYPES

ENCODERS = (
    *("bert", "roberta", "xlm-roberta", "electra", "camembert", "megatron-bert", "rembert", "roformer", "big_bird"),
    *("ernie", "data2vec-text", "xlm"),
)


def encoder(kind: str, **own: Any) -> Any:
    config = AutoConfig.for_model(kind, **{k: v for k, v in COMMON.items() if "key" not in k and k != "head_dim"} | own)
    if kind == "big_bird":
        config.attention_type = "original_full"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


@pytest.mark.parametrize("kind", long_but(("bert", "xlm", "ernie"), ENCODERS))
def test_an_encoder_is_refused(kind: str) -> None:
    assert kind in ENCODER_TYPES
    with pytest.raises(EngineError, match=f"type {kind} attend to later tokens"):
        as_loaded(encoder(kind))


def test_a_bert_that_is_a_decoder_is_not_refused() -> None:
    check_order(encoder("bert", is_decoder=True), VOCABULARY)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", long_but(("llama", "qwen3_moe", "gemma3_text"), (*TRIE_TYPES, "mamba2", "bloom")))
def test_a_model_that_reads_from_left_to_right_is_not_refused(kind: str, dtype: torch.dtype) -> None:
    check_order(random_model(kind, dtype), VOCABULARY)


def test_a_model_that_needs_more_than_a_text_is_refused() -> None:
    with pytest.raises(PermanentError, match=r"type xmod cannot read a text alone \(Input language unknown"):
        check_order(encoder("xmod"), VOCABULARY)


def test_a_configuration_may_state_several_end_tokens() -> None:
    check_order(random_model("llama", eos_token_id=[2, 5]), VOCABULARY)


def test_weights_that_are_not_numbers_are_named() -> None:
    model = random_model("llama")
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 0] = float("nan")
    with pytest.raises(EngineError, match=r"layers\.1\.mlp\.up_proj\.weight has weights that are not numbers"):
        check_order(model, VOCABULARY)


def test_a_vocabulary_that_the_model_does_not_know_is_refused_for_good() -> None:
    model = random_model("llama")
    _check_vocabulary(Path("m"), model, SimpleNamespace(vocab_size=VOCABULARY))
    with pytest.raises(
        PermanentError, match=f"m: its tokenizer has {VOCABULARY + 1} tokens and its model knows"
    ) as got:
        _check_vocabulary(Path("m"), model, SimpleNamespace(vocab_size=VOCABULARY + 1))
    assert (got.value.final, got.value.of_all) == (True, True)
