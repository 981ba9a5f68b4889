"""Benchmarks: one reader per file format, one strict contract, all or nothing."""

from registry.benchmarks.contract import BenchmarkFile, QuestionRecord, read_benchmark
from registry.benchmarks.nonsenseqa import generate_nonsenseqa, nonsenseqa_source
from registry.benchmarks.store import import_benchmark, set_visibility

__all__ = [
    "BenchmarkFile",
    "QuestionRecord",
    "generate_nonsenseqa",
    "import_benchmark",
    "nonsenseqa_source",
    "read_benchmark",
    "set_visibility",
]
