"""Recognition of the benchmark that a log's questions are from, by digests: no question is shipped.

`known.bin` has eight bytes for each question: six are a digest of its options and the end of its text, two a digest of
its right option. `known.toml` maps ranges of it to benchmarks. `python -m registry.logs.audit.known NAME=FILE …` writes
both from files of questions.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.benchmarks.lines import read_lines
from registry.files.toml import read_toml
from registry.logs.texts import digest, normal

HERE: Final = Path(__file__).parent
LEAST: Final = 20
"""The fewest questions that identify a benchmark."""
SHARE: Final = 0.8
"""The share of a log's questions that must be in a benchmark to identify it."""
_END: Final = 60
_Digests = NDArray[np.uint64]


def compute_short_digest(text: str, options: tuple[int, ...]) -> int:
    """Return a 48-bit digest of a question, from its options in any order and its last 60 characters.

    options: digests of the options.
    """
    return digest(f"{normal(text)[-_END:]}|{sorted(options)}") & 0xFFFF_FFFF_FFFF


@dataclass(frozen=True)
class Benchmark:
    """The benchmark that a log's questions are from.

    subjects: subject → number of its questions. matched: number of the log's questions found in it. other_keys: numbers
    of questions whose right option differs from the published one.
    """

    name: str
    questions: int
    subjects: Mapping[str, int]
    matched: int
    other_keys: tuple[int, ...]

    def count_expected(self, task: str) -> int:
        """Return how many questions a task of this name should have: all of the subjects that it names, else all."""
        name = _normalise(task)
        named = [subject for subject in map(_normalise, self.subjects) if subject in name]
        longest = {subject for subject in named if not any(subject in other for other in named if other != subject)}
        return (
            sum(count for subject, count in self.subjects.items() if _normalise(subject) in longest) or self.questions
        )

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {"name": self.name, "questions": self.questions, "matched": self.matched}


def _normalise(name: str) -> str:
    return name.casefold().replace(" ", "_").replace("-", "_")


@cache
def _load_known() -> list[tuple[str, Mapping[str, int], _Digests, _Digests]]:
    """Return (name, subjects, sorted digests of questions with keys, digests of questions alone) of each benchmark."""
    digests = np.fromfile(HERE / "known.bin", dtype=">u8").astype(np.uint64)
    benchmarks, start = [], 0
    for entry in read_toml(HERE / "known.toml")["benchmark"]:
        end = start + entry["questions"]
        part = digests[start:end]
        benchmarks.append((entry["name"], entry["subjects"], part, part >> np.uint64(16)))
        start = end
    return benchmarks


def benchmark_of(digests: _Digests, numbers: NDArray[Any], keyed: NDArray[Any]) -> Benchmark | None:
    """Return the benchmark that a log's questions are from; None if it is not known.

    If several fit, the one with the most of the questions is returned, then with the most of their keys, then the
    smallest.

    digests: `compute_short_digest` of each question, 0 if unknown. numbers: the questions' numbers. keyed: digests of
    their right options.
    """
    if len(digests) < LEAST:
        return None
    best: tuple[int, int, int] | None = None
    result = None
    for name, subjects, with_keys, questions in _load_known():
        inside = np.isin(digests, questions) & (digests != 0)
        matched = int(inside.sum())
        if matched < LEAST or matched < SHARE * len(digests):
            continue
        with_key = (digests << np.uint64(16)) | (keyed.astype(np.int64).view(np.uint64) & np.uint64(0xFFFF))
        published = np.isin(with_key, with_keys)
        other = inside & ~published & (keyed != 0)
        rank = matched, -int(other.sum()), -len(with_keys)
        if best is not None and rank <= best:
            continue
        best = rank
        result = Benchmark(
            name,
            len(with_keys),
            subjects,
            matched,
            tuple(int(number) for number in numbers[other]),
        )
    return result


def _write(named: list[str]) -> None:
    lines, parts = ["# Written by `python -m registry.logs.audit.known`, from files of questions."], []
    for name, _, file in (item.partition("=") for item in named):
        entries, subjects = set(), Counter[str]()
        total = 0
        for _, line in read_lines(Path(file)):
            if line.get("split") == "fewshot":
                continue
            options = tuple(digest(normal(option)) for option in line["options"])
            entry = compute_short_digest(line["question"], options) << 16 | options[line["answer"]] & 0xFFFF
            total += 1
            entries.add((entry, total))
            subjects[str(line.get("subject") or "")] += 1
        parts.append(np.array(sorted(entry for entry, _ in entries), dtype=">u8"))
        listed = ", ".join(f'"{subject}" = {count}' for subject, count in sorted(subjects.items()) if subject)
        lines += ["", "[[benchmark]]", f'name = "{name}"', f"questions = {total}", f"subjects = {{ {listed} }}"]
    (HERE / "known.bin").write_bytes(np.concatenate(parts).astype(">u8").tobytes())
    (HERE / "known.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write(sys.argv[1:])
