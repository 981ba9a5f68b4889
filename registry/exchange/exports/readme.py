"""The README of an export: its files' contents and how to read them."""

from collections.abc import Mapping
from typing import Any, Final

_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "parquet": {
        "integer": "int64",
        "double": "float64",
        "boolean": "bool",
        "text": "string",
        "time": "timestamp in UTC",
        "digest": "string, hexadecimal",
        "json": "string containing JSON",
        "integer[]": "list of int64",
        "double[]": "list of float64",
        "text[]": "list of string",
    },
    "csv": {
        "boolean": "`true` or `false`",
        "time": "text such as `2026-05-01T12:00:00.000000Z`",
        "digest": "text, hexadecimal",
        "json": "text containing JSON",
        "integer[]": "JSON list",
        "double[]": "JSON list",
        "text[]": "JSON list",
    },
    "jsonl": {
        "time": "text such as `2026-05-01T12:00:00.000000Z`",
        "digest": "text, hexadecimal",
        "json": "text containing JSON",
        "integer[]": "list",
        "double[]": "list",
        "text[]": "list",
    },
}

_READING: Final[Mapping[str, str]] = {
    "parquet": """\
```python
import pandas as pd

frame = pd.read_parquet("question_metrics.parquet")
```

```sql
-- DuckDB, in this folder
SELECT subject, avg(worst_accuracy) FROM 'question_metrics.parquet' GROUP BY subject;
```
""",
    "csv": """\
An empty cell is NULL. Texts stand in quotation marks, so `"None"`, `"NA"` and `""` are texts; readers have to be told
so. pandas does not tell an empty text from NULL; DuckDB does.

```python
import pandas as pd

frame = pd.read_csv("questions.csv", keep_default_na=False, na_values=[""])
```

```sql
-- DuckDB, in this folder
SELECT * FROM read_csv('questions.csv', header = true, allow_quoted_nulls = false);
```

Nothing is escaped for spreadsheet programs: they would run a text that begins with `=`. Use them for numbers only.
""",
    "jsonl": """\
```python
import pandas as pd

frame = pd.read_json("question_metrics.jsonl", lines=True, dtype=False, precise_float=True)
```

```sql
-- DuckDB, in this folder
SELECT subject, avg(worst_accuracy) FROM read_json('question_metrics.jsonl') GROUP BY subject;
```
""",
    "every-eval-ever": """\
Each JSON file is one evaluation in the schema of Every Eval Ever, version 0.3.0
(https://github.com/evaleval/every_eval_ever), and the `_samples.jsonl` file beside it holds its single answers. Folders
are laid out as that project's datastore lays them out: `data/<benchmark>/<developer>/<model>/`.
""",
    "eval-results": """\
Each YAML file holds the metrics of one evaluation, from 0 to 1, for the repository of its model on Hugging Face's hub:
`<developer>/<model>/.eval_results/`. Specification: https://huggingface.co/docs/hub/eval-results.
""",
}


def readme(manifest: Mapping[str, Any]) -> str:
    """Return the text of README.md, from the manifest."""
    written = (
        f"As of {manifest['as_of']}, for the audience `{manifest['audience']}`. Written by version "
        f"{manifest['code_version'] or 'unknown'} from a database of schema {manifest['schema_revision']}. "
        "`manifest.json` has the same facts for programs, with the SHA-256 of each file.\n"
    )
    parts = ["# Results exported from Shuffleboard\n", written, "## Reading it\n", _READING.get(manifest["format"], "")]
    if (left := manifest["archived"]) is not None:
        ids = ", ".join(map(str, left["evaluations"]))
        parts.append(
            f"Left out: {' and '.join(left['left_out'])} of archived evaluations ({ids}). `{left['restore']}` brings "
            "their predictions back.\n"
        )
    tables = [entry for entry in manifest["files"] if "columns" in entry]
    if tables:
        parts += _tables(manifest["format"], tables)
    if manifest["benchmarks"]:
        parts += _canaries(manifest["benchmarks"])
    return "\n".join(parts)


_FILES: Final = """\
## Files

NULL means unknown or undefined, never zero. Positions and options count from 0; an option is an ordinal in the
benchmark's own order, and inserted options are −1, −2, …. The documentation explains the columns of each view under
its name (docs/views.md). `evaluation_id` and `question_id` join the files; they are only valid within this export,
while seals and `external_id` also identify rows elsewhere.

| File | Rows | View | What a row is |
|---|---|---|---|"""

_CANARIES: Final = """\
## Keep the questions out of training data

Models that were trained on a benchmark's questions cannot be tested with them. Every copy of the questions carries
a canary string, so that a corpus containing them can be found:
"""


def _tables(format_: str, entries: list[dict[str, Any]]) -> list[str]:
    names = _TYPES.get(format_, {})
    parts = [_FILES]
    for entry in entries:
        view = f"`{entry['view']}`" if "view" in entry else "–"
        parts.append(f"| `{entry['file']}` | {entry['rows']} | {view} | {entry['summary']} |")
    parts.append("")
    for entry in entries:
        parts += [f"### {entry['file']}\n", "| Column | Type |", "|---|---|"]
        parts += [
            f"| `{column['name']}` | {names.get(column['type'], column['type'])} |" for column in entry["columns"]
        ]
        parts.append("")
    return parts


def _canaries(benchmarks: list[dict[str, Any]]) -> list[str]:
    parts = [_CANARIES]
    parts += [f"- {item['benchmark']} {item['version']}: {item['canary']}" for item in benchmarks]
    parts.append("")
    return parts
