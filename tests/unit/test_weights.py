"""Incomplete weight files, which are refused when a model is registered."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from registry.errors import ModelError
from registry.revisions.store import RevisionRequest
from workers.artifacts import inspect_files
from workers.weights import INDEX, check_weights

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 700000\n"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """Return two shards and their index."""
    for number, shard in enumerate(SHARDS):
        save_file({f"layer.{number}": np.zeros((4, 4), np.float32)}, tmp_path / shard)
    weights = {f"layer.{number}": shard for number, shard in enumerate(SHARDS)}
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    return tmp_path


def cut(folder: Path) -> None:
    path = folder / SHARDS[1]
    path.write_bytes(path.read_bytes()[:-5])


def cut_header(folder: Path) -> None:
    path = folder / SHARDS[1]
    path.write_bytes(path.read_bytes()[:20])


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "pointer": (lambda folder: (folder / SHARDS[0]).write_text(POINTER), "is a Git LFS pointer.*git lfs pull"),
    "missing": (lambda folder: (folder / SHARDS[1]).unlink(), "00002-of-00002.safetensors: is missing"),
    "cut": (cut, "and its header states .*; fetch it again"),
    "cut header": (cut_header, "its header is cut off"),
    "empty": (lambda folder: (folder / SHARDS[0]).write_bytes(b""), "no safetensors file"),
    "huge header": (lambda folder: (folder / SHARDS[0]).write_bytes(b"\xff" * 64), "no safetensors file"),
    "another file": (lambda folder: shutil.copy(folder / SHARDS[0], folder / SHARDS[1]), "lacks 'layer.1'"),
    "index": (lambda folder: (folder / INDEX).write_text("[]"), "is no index of weights"),
}


def test_whole_shards_pass(sharded: Path) -> None:
    check_weights(sharded)


@pytest.mark.parametrize("fault", FAULTS)
def test_weights_that_are_not_whole_are_named_with_the_remedy(sharded: Path, fault: str) -> None:
    plant, message = FAULTS[fault]
    plant(sharded)
    with pytest.raises(ModelError, match=message) as refused:
        check_weights(sharded)
    assert "\n" not in str(refused.value)


def test_a_model_is_registered_only_with_whole_weights_and_no_encoder(tiny_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    request = RevisionRequest("huggingface", str(folder)).checked()
    assert inspect_files(request).weights_digest
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "roberta"}))
    with pytest.raises(ModelError, match="type roberta are encoders"):
        inspect_files(request)
    (folder / "config.json").write_text(json.dumps(config))
    weights = next(folder.glob("*.safetensors"))
    weights.unlink()
    weights.write_text(POINTER)
    with pytest.raises(ModelError, match="Git LFS pointer"):
        inspect_files(request)
