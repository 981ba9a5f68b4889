"""Untrusted SQL: read-only queries over the documented views, on both engines, and over archives by DuckDB.

    guard.py       what may be asked: one SELECT over the documented views, with functions that are on a list
    runner.py      runs it, with no other rights, within limits
    child.py       the process that holds the connection while it runs
    results.py     what comes back, as CSV and JSON

Guard and database each refuse independently: decision 0022.
"""

from registry.schema.documented import ViewDocument, documented_views
from registry.schema.public_sql.guard import checked
from registry.schema.public_sql.results import QueryResult, as_csv, as_json
from registry.schema.public_sql.runner import run_query

__all__ = ["QueryResult", "ViewDocument", "as_csv", "as_json", "checked", "documented_views", "run_query"]
