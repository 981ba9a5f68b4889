"""Untrusted SQL: read-only queries over the documented views, answered by DuckDB from files.

relations.py   relations with files, and the statements that make the documented views from them
files.py       writes the files for each audience, and lists those that its queries may read
asking.py      runs a query in a process that can read these files and nothing else
process.py     that process
results.py     the result, and its download formats
"""

from registry.sql.asking import Answered, NotReadyError, Queries
from registry.sql.results import QueryResult, as_csv, as_json, as_parquet

__all__ = [
    "Answered",
    "NotReadyError",
    "Queries",
    "QueryResult",
    "as_csv",
    "as_json",
    "as_parquet",
]
