"""Recorded outputs: one reader per format, one check, one way into the database."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from registry.exchange.outputs.columns import is_table_of_columns
    from registry.exchange.outputs.importer import ImportRequest, import_columns, import_outputs
    from registry.exchange.outputs.programs import log_file, log_questions
    from registry.exchange.outputs.stated import Comparison

__all__ = [
    "Comparison",
    "ImportRequest",
    "import_columns",
    "import_outputs",
    "is_table_of_columns",
    "log_file",
    "log_questions",
]

_MODULES: Final = {
    "is_table_of_columns": "columns",
    "ImportRequest": "importer",
    "import_columns": "importer",
    "import_outputs": "importer",
    "log_file": "programs",
    "log_questions": "programs",
    "Comparison": "stated",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for: an audit reads logs without a database."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
