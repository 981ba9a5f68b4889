"""Recorded outputs: one reader per format, one check, one way into the database."""

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
