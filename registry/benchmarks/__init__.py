"""Benchmarks: one reader per file format, one strict contract, all or nothing."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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

_MODULES: Final = {
    "BenchmarkFile": "contract",
    "QuestionRecord": "contract",
    "read_benchmark": "contract",
    "generate_nonsenseqa": "nonsenseqa",
    "nonsenseqa_source": "nonsenseqa",
    "import_benchmark": "store",
    "set_visibility": "store",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for: lines of a file are read without a database."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
