"""The benchmark of other programs, with the engines that are installed for the tests."""

import json
import math
from pathlib import Path

import pytest

from bench import bench_peers
from tests.support.few_questions import questions

pytestmark = pytest.mark.long


def test_every_engine_is_timed_before_and_after_the_trie_equally_often() -> None:
    engines = ["harness", "vllm", "llama"]
    repeats = list(bench_peers.pairs(engines, 4))
    for kind in engines:
        order = [pair.index(kind) for repeat in repeats for pair in repeat if kind in pair]
        assert order in ([0, 1, 0, 1], [1, 0, 1, 0])


def test_it_compares_engines_on_the_same_prompts_and_keeps_all_figures(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    options = {
        "--dtypes": "float32",
        "--engines": "batched,trie-fast",
        "--model": tiny_folder,
        "--benchmark": questions(tmp_path / "questions.jsonl", 4),
        "--subjects": "force",
        "--json": figures,
    }
    bench_peers.main([str(part) for option in options.items() for part in option])
    document = json.loads(figures.read_text(encoding="utf-8"))
    assert {"processor", "instructions", "cores", "load"} <= document["machine"].keys()
    rows = document["rows"]
    cases = ["0-shot, `cyclic`", "0-shot, `full`", "5-shot, `cyclic`", "5-shot, `full`"]
    assert [row["case"].split(": ")[0] for row in rows[::3]] == [f"force, {case}" for case in cases]
    for ours, *others in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        assert ours["engine"] == "token trie"
        assert ours["computed"] == 1
        assert 0 < ours["share"] <= ours["share_with_attention"]
        assert [row["engine"] for row in others] == ["plain batches", "token trie, fast mode"]
        for row in others:
            assert len(row["ours_s"]) == len(row["theirs_s"]) == 2
            ratios = [b["wall_s"] / a["wall_s"] for a, b in zip(row["ours_s"], row["theirs_s"], strict=True)]
            assert row["by_clock"] == pytest.approx(math.fsum(ratios) / 2)
            assert row["largest_difference"] < 1e-4
            assert row["changed"] == row["unknown"] == 0
        assert others[0]["computed"] > 1
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(printed) == 2 + len(rows)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("--engines=other", "--engines other: name some of harness, vllm"),
        ("--subjects=nothing", "--subjects nothing: .* has no questions on it"),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_sentence(wrong: str, said: str, tiny_folder: Path) -> None:
    with pytest.raises(SystemExit, match=said):
        bench_peers.main(["--engines", "batched", "--model", str(tiny_folder), wrong])
