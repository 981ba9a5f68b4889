"""The GPU benchmark runs through on the CPU, on a machine that has no registry."""

import copy
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import decoders

from tests.bench import bench_gpu
from tests.commands import ROOT
from tests.engine.tiny import as_loaded, largest_difference, random_model
from tests.engine.tokenizers import tokenizer_of_kind
from workers.engine import ScoringPrompt, score_reference

pytestmark = pytest.mark.long

WITHOUT_REGISTRY = "import sys; sys.modules['registry'] = None; from tests.bench.bench_gpu import main; main()"


@cache
def tokenizer() -> Any:
    """Small, with a token for each label."""
    made = copy.deepcopy(tokenizer_of_kind("llama3"))
    made.backend_tokenizer.decoder = decoders.ByteLevel()
    made.add_tokens([f" {label}" for label in "ABCD"])
    return made


def questions(path: Path, options: int) -> Path:
    """Two questions and a pool of five."""
    lines = [
        {
            "id": f"q{number}",
            "subject": "force",
            "split": "fewshot" if number < 5 else "test",
            "question": f"What is {number}?",
            "options": [f"{number}{letter}" for letter in "NJWP"[:options]],
            "answer": 0,
        }
        for number in range(7)
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    tokenizer().save_pretrained(tmp_path / "tokenizer")
    four, three = questions(tmp_path / "four.jsonl", 4), questions(tmp_path / "three.jsonl", 3)
    written = tmp_path / "prompts.jsonl"
    given = ("--write-prompts", written, "--tokenizer", tmp_path / "tokenizer")
    bench_gpu.main([str(value) for value in (*given, "--questions", four, "--five-options", three)])
    return written


def test_it_runs_through_without_a_gpu_and_without_the_registry(prompts: Path) -> None:
    given = ("--device", "cpu", "--parameters", "1e5", "--dtype", "float32", "--quick", "--prompts", str(prompts))
    command = [sys.executable, "-c", WITHOUT_REGISTRY, *given]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    head, _, *rows = [line for line in finished.stdout.splitlines() if line.startswith("|")]
    names = [name.strip() for name in head.split("|")[1:-1]]
    found = [dict(zip(names, map(str.strip, row.split("|")[1:-1]), strict=True)) for row in rows]
    cases = ["four, 0-shot, `cyclic`", "four, 0-shot, `full`", "four, 5-shot, `cyclic`", "four, 5-shot, `full`"]
    cases += ["three, 0-shot, `full`", "three, 5-shot, `full`"]
    assert [row["prompts"].partition(":")[0] for row in found[::2]] == cases
    for row, plain in zip(found[1::2], found[::2], strict=True):
        assert row["engine"] == "token trie"
        assert row["tokens computed / unique"] == "1.00"
        assert float(plain["tokens computed / unique"]) > 1
        assert row["first choices changed"] == "0"
        # Rounding in float32, and far less than what another prompt changes.
        assert float(row["difference from plain batches"]) < 1e-4 < float(row["difference between prompts"])
        assert float(row["difference from float64"]) < 1e-4


def test_the_prompts_are_those_of_the_registry_as_tokens(prompts: Path) -> None:
    vocabulary, cases = bench_gpu.read_prompts(prompts, None)
    assert [len(case.prompts) for case in cases] == [8, 48, 8, 48, 12, 12]
    assert vocabulary == len(tokenizer())
    prompt = cases[0].prompts[0]
    text = tokenizer().decode(prompt.context[1:])
    assert text.endswith("What is 5?\nA. 5N\nB. 5J\nC. 5W\nD. 5P\nAnswer:")
    loaded = as_loaded(random_model("llama", vocab_size=vocabulary), tokenizer())
    (expected,) = score_reference(loaded, [ScoringPrompt(text, (" A", " B", " C", " D"))]).logprobs
    assert largest_difference(bench_gpu.plain_batches(loaded, [prompt], 4096), [expected]) < 1e-5


def test_of_some_questions_all_orders_are_read(prompts: Path) -> None:
    _, cases = bench_gpu.read_prompts(prompts, 1)
    assert [len(case.prompts) for case in cases] == [4, 24, 4, 24, 6, 6]
    assert all(case.sample == list(range(len(case.prompts))) for case in cases)


def test_the_model_has_about_the_weights_that_are_asked_for() -> None:
    config = bench_gpu.llama_shape(1.2e9, 49152, 2048)
    assert bench_gpu.Work(config).layer_weights == pytest.approx(1.2e9, rel=0.03)
    assert config.head_dim * config.num_attention_heads == config.hidden_size
    loaded = bench_gpu.random_llama(2e6, 400, 64, "float32", torch.device("cpu"))
    weights = sum(weight.numel() for name, weight in loaded.model.named_parameters() if "proj" in name)
    assert weights == bench_gpu.Work(loaded.model.config).layer_weights


def test_without_a_gpu_it_ends_with_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match=r"^there is no GPU here that torch can use; run this on a machine with one"):
        bench_gpu.main([])
    with pytest.raises(SystemExit, match=r"none\.jsonl is missing; write it with --write-prompts"):
        bench_gpu.main(["--device", "cpu", "--prompts", str(tmp_path / "none.jsonl")])
