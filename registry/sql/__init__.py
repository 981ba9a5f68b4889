"""Untrusted SQL: read-only queries over the documented views, answered by DuckDB from files.

relations.py   which relations lie in files, and the statements that make the documented views of them
files.py       writes the files for each audience, and lists what it may read
asking.py      asks a query in a process that can read these files and nothing else
process.py     that process
results.py     the result, and its forms to download
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
