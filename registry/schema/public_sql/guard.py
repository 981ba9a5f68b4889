"""What untrusted queries may do: one SELECT over the documented views, with functions that are on a list.

Everything is refused that is not allowed by name: kinds of expression, relations, columns, functions, types. Functions
are checked twice, in the text (each name before a parenthesis) and in what sqlglot read, so that a misreading of one is
caught by the other. The text that was checked is the text that is run: sqlglot's own writing of it would be another
query, and only nearly the same one. See `lexer` for why both parsers tokenise it the same way, and decision 0022.
"""

# Lists of words are read as lines of text.
# ruff: noqa: SIM905

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, Literal

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Postgres, SQLite
from sqlglot.errors import ErrorLevel, SqlglotError

from registry.errors import QueryRefusedError
from registry.schema.documented import documented_columns
from registry.schema.public_sql.bounds import check_bounds
from registry.schema.public_sql.lexer import Token, tokens, without_comments
from registry.schema.views import VIEWS

# It warns of texts that it cannot read, with the text; they are refused, and a visitor's text belongs in no log.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

Dialect = Literal["sqlite", "postgresql", "duckdb"]
"""How queries are read: those of the two databases, and those over archived predictions."""

_READ_AS: Final[dict[Dialect, str]] = {"sqlite": "sqlite", "postgresql": "postgres", "duckdb": "duckdb"}
_ENGINES: Final[dict[Dialect, str]] = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "duckdb": "DuckDB"}

MAX_PATTERN: Final = 200
"""Characters of a text that is looked for. PostgreSQL cannot be stopped while it compares two texts."""

MAX_TYPES_DEEP: Final = 4
"""Lists within lists, and the like: each doubles the time that reading the query takes."""

MAX_RELATIONS: Final = 24
"""Relations in one query: a view stands for up to a dozen tables, and planning takes longer with each."""

BOTH: Final = frozenset(
    """
    abs acos asin atan atan2 avg ceil ceiling coalesce cos count cume_dist degrees dense_rank exp first_value floor lag
    last_value lead length ln log log10 lower ltrim max min mod nth_value ntile nullif percent_rank pi power radians
    rank replace round row_number rtrim sign sin sqrt substr substring sum tan trim trunc upper
    """.split()
)
"""Functions of all engines."""

FUNCTIONS: Final[dict[Dialect, frozenset[str]]] = {
    "sqlite": BOTH
    | frozenset(
        """
        char date datetime group_concat hex ifnull iif instr json_array_length json_each json_extract json_tree
        json_type json_valid julianday log2 nullif pow strftime time total typeof unicode unixepoch
        """.split()
    ),
    "postgresql": BOTH
    | frozenset(
        """
        age array_length array_lower array_position array_positions array_upper ascii bit_length bool_and
        bool_or btrim cardinality cbrt char_length character_length chr concat concat_ws corr covar_pop covar_samp
        date_bin date_part date_trunc div encode every extract greatest initcap isfinite json_array_length
        json_extract_path json_extract_path_text json_typeof jsonb_array_length jsonb_extract_path
        jsonb_extract_path_text jsonb_typeof least left make_date md5 mode now num_nonnulls num_nulls octet_length
        percentile_cont percentile_disc position regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
        regr_sxx regr_sxy regr_syy reverse right scale split_part starts_with stddev stddev_pop stddev_samp strpos
        to_char to_date to_number to_timestamp translate trim_scale unnest var_pop var_samp variance width_bucket
        """.split()
    ),
    "duckdb": BOTH
    | frozenset(
        """
        arg_max arg_min ascii bool_and bool_or cbrt corr count_if covar_pop covar_samp entropy greatest isfinite isnan
        kurtosis least len list_contains list_max list_min list_position list_product list_sum log2 mad median mode pow
        quantile_cont quantile_disc regr_intercept regr_r2 regr_slope skewness starts_with stddev stddev_pop
        stddev_samp unnest var_pop var_samp variance
        """.split()
    ),
}
"""Functions that read and compute, and whose result is hardly longer than what they are given."""

TABLE_FUNCTIONS: Final = frozenset({"json_each", "json_tree", "unnest"})
"""Functions that may stand where relations do."""

_BEFORE_PARENTHESES: Final = frozenset(
    """
    all and any array as between by case cast current_time current_timestamp decimal distinct else end escape except
    exists filter from group having ilike in intersect is join lateral like limit materialized not numeric offset on or
    over partition select some then union using values varchar when where with
    """.split()
)
"""Words that are no functions where a parenthesis follows; types among them."""

_TYPE_NAMES: Final = frozenset(
    word.split()[-1].lower()
    for dialect in (Postgres, SQLite)
    for word, token in dialect.Tokenizer.KEYWORDS.items()
    if word.strip() and token in dialect.Parser.TYPE_TOKENS
)
"""Words that sqlglot takes for types."""

_WITHOUT_PARENTHESES: Final = frozenset(
    """
    current_catalog current_role current_schema current_user localtime localtimestamp session_user system_user user
    """.split()
)
"""Functions of PostgreSQL that are called by their bare name and say more than the time."""

_REMEDIES: Final = {
    "array_agg": "select the rows themselves: its result has no size limit",
    "generate_series": "list the values with VALUES",
    "json_agg": "select the rows themselves: its result has no size limit",
    "lpad": "pad in your own program",
    "printf": "use round and ||",
    "format": "use round and ||",
    "repeat": "repeat in your own program",
    "rpad": "pad in your own program",
    "string_agg": "select the rows themselves: its result has no size limit",
}

_ALLOWED: Final[tuple[type[exp.Expr], ...]] = (
    *(exp.Select, exp.Union, exp.Except, exp.Intersect, exp.Values, exp.Subquery, exp.With, exp.CTE, exp.TableAlias),
    *(exp.From, exp.Join, exp.Lateral, exp.Unnest, exp.Table, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered),
    *(exp.Limit, exp.Offset, exp.Fetch, exp.Distinct, exp.Window, exp.WindowSpec, exp.Filter, exp.WithinGroup),
    *(exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Paren, exp.Tuple, exp.Bracket, exp.Slice, exp.Var),
    *(exp.Literal, exp.Null, exp.Boolean, exp.Interval, exp.IntervalSpan, exp.DataType, exp.DataTypeParam),
    *(exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.And, exp.Or, exp.Not),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In),
    *(exp.Like, exp.ILike, exp.Glob, exp.Escape, exp.Any, exp.All, exp.Exists, exp.AtTimeZone),
    *(exp.JSONPath, exp.JSONPathRoot, exp.JSONPathKey, exp.JSONPathSubscript),
    exp.Func,
)
"""What a query may be made of. Functions are then looked up by name."""

_Type: Final = exp.DataType.Type
_TYPES: Final = frozenset(
    {
        *(_Type.INT, _Type.BIGINT, _Type.SMALLINT, _Type.FLOAT),
        *(_Type.DOUBLE, _Type.DECIMAL, _Type.TEXT, _Type.VARCHAR),
        *(
            _Type.BOOLEAN,
            _Type.DATE,
            _Type.TIMESTAMP,
            _Type.TIMESTAMPTZ,
        ),
        *(_Type.INTERVAL, _Type.JSON, _Type.ARRAY),
    }
)
_TYPES_WITH_NUMBERS: Final = frozenset({_Type.DECIMAL, _Type.VARCHAR, _Type.ARRAY, _Type.INTERVAL})
_LOOKED_FOR: Final[dict[type[exp.Expr], str]] = {
    exp.StrPosition: "substr",
    exp.SplitPart: "delimiter",
    exp.Replace: "expression",
    exp.Trim: "expression",
    exp.Translate: "from_",
    exp.Like: "expression",
    exp.ILike: "expression",
    exp.Glob: "expression",
    exp.TimeToStr: "format",
    exp.StrToDate: "format",
    exp.StrToTime: "format",
    exp.ToNumber: "format",
}
"""Where a text is looked for in another, character by character, or says how another is written: that argument."""

_JSON_EACH: Final = frozenset({"key", "value", "type", "atom", "id", "parent", "fullkey", "path"})


def checked(sql: str, dialect: Dialect) -> str:
    """The text to run: `sql` without comments and without a last semicolon, otherwise as it was given.

    Raises QueryRefusedError that names what is not allowed, and says what to do instead.
    """
    text = without_comments(sql).removesuffix(";").rstrip()
    try:
        _check_text(text, dialect)
    except RecursionError:
        raise QueryRefusedError("the query is nested too deeply; simplify it") from None
    return text


def named_views(text: str, dialect: Dialect) -> list[str]:
    """The documented views that a checked query reads, in the order of VIEWS."""
    named = {table.name.lower() for table in _parsed(text, dialect).find_all(exp.Table)}
    return [name for name in VIEWS if name in named]


def _check_text(text: str, dialect: Dialect) -> None:
    found = tokens(text)
    _check_statement(found, dialect)
    _check_nesting(found)
    tree = _parsed(text, dialect)
    _check_names(found, tree, dialect)
    for node in tree.walk():
        _check_node(node, dialect)
    _check_relations(tree)
    _check_columns(tree, dialect)
    check_bounds(tree)


def _check_statement(found: list[Token], dialect: Dialect) -> None:
    if not found:
        raise QueryRefusedError("the query is empty; write a SELECT over the documented views")
    if any(token.text == ";" for token in found):
        raise QueryRefusedError("';' separates two statements; run one at a time")
    if dialect == "sqlite" and any(token.text == "[" for token in found):
        raise QueryRefusedError("'[' quotes names on SQLite only; write \"name\"")
    first = next((token for token in found if token.text != "("), found[0])
    if first.kind != "word" or first.name not in ("select", "with", "values"):
        raise QueryRefusedError(f"{first.text!r}: only SELECT queries are allowed (WITH … SELECT too)")


def _check_nesting(found: list[Token]) -> None:
    """Refuses lists within lists: sqlglot reads what follows a type's name as its parameters and again as a value."""
    around: list[bool] = []
    for before, token in zip([None, *found], found, strict=False):
        if token.text in ("(", "["):
            around.append(before is not None and before.kind == "word" and before.name in _TYPE_NAMES)
        elif token.text in (")", "]") and around:
            around.pop()
        if sum(around) > MAX_TYPES_DEEP:
            raise QueryRefusedError(
                f"{token.text} at character {token.start + 1}: lists are nested more than {MAX_TYPES_DEEP} deep; "
                "simplify the query"
            )


def _parsed(text: str, dialect: Dialect) -> exp.Expr:
    try:
        statements = sqlglot.parse(text, read=_READ_AS[dialect])
    except SqlglotError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise QueryRefusedError(f"the query cannot be parsed: {reason}; correct it there") from None
    if len(statements) != 1 or statements[0] is None:
        raise QueryRefusedError(f"{len(statements)} statements were found; run one at a time")
    return statements[0]


def _check_names(found: list[Token], tree: exp.Expr, dialect: Dialect) -> None:
    """Each name before a parenthesis, as it is written."""
    aliases = Counter(alias.name.lower() for alias in tree.find_all(exp.TableAlias) if alias.args.get("columns"))
    called: Counter[str] = Counter()
    for place, token in enumerate(found):
        if token.kind == "word" and token.name in _WITHOUT_PARENTHESES:
            raise QueryRefusedError(f"{token.text} is about the connection, not about results; leave it out")
        if token.kind not in ("word", "quoted") or place + 1 == len(found) or found[place + 1].text != "(":
            continue
        if place and found[place - 1].text == ".":
            raise QueryRefusedError(f"function {token.text} has a schema before its name; write only the name")
        known = token.kind == "word" and (token.name in _BEFORE_PARENTHESES or token.name in FUNCTIONS[dialect])
        if not known:
            called[token.name] += 1
    for name, times in called.items():
        if aliases[name] != times:
            raise _not_listed(name, dialect)


def _not_listed(name: str, dialect: Dialect) -> QueryRefusedError:
    remedy = _REMEDIES.get(name, "docs/sql.md lists the allowed functions")
    return QueryRefusedError(f"function {name} is not allowed here, on {_ENGINES[dialect]}; {remedy}")


def _check_node(node: exp.Expr, dialect: Dialect) -> None:
    if not isinstance(node, _ALLOWED):
        raise QueryRefusedError(f"{_shown(node)} is not allowed in a query here; leave it out")
    if isinstance(node, exp.Anonymous) and str(node.this).lower() not in FUNCTIONS[dialect]:
        raise _not_listed(str(node.this).lower(), dialect)
    if isinstance(node, exp.With) and node.args.get("recursive"):
        raise QueryRefusedError("WITH RECURSIVE may never end; query without RECURSIVE")
    if isinstance(node, exp.DataType):
        _check_type(node)
    if (place := _LOOKED_FOR.get(type(node))) is not None:
        _check_looked_for(node.args.get(place))
    if (isinstance(node, exp.Array) and node.find(exp.Query)) or (
        isinstance(node, exp.Cast) and isinstance(node.this.unnest(), exp.Tuple)
    ):
        raise QueryRefusedError(f"{_shown(node)} combines many values into one; select the rows or columns themselves")
    if isinstance(node, exp.Select) and (node.args.get("kind") or node.args.get("operation_modifiers")):
        raise QueryRefusedError("SELECT has a modifier that is not allowed here; leave it out")


def _check_type(node: exp.DataType) -> None:
    numbers = node.find(exp.DataTypeParam) is not None
    if node.this not in _TYPES or (numbers and node.this not in _TYPES_WITH_NUMBERS):
        raise QueryRefusedError(
            f"type {_shown(node)} is not allowed in a cast; use integer, bigint, double precision, numeric, text, "
            "boolean, "
            "date or timestamp"
        )


def _check_looked_for(pattern: exp.Expr | None) -> None:
    if isinstance(pattern, exp.Escape):
        pattern = pattern.this
    if pattern is None or (isinstance(pattern, exp.Literal) and len(pattern.name) <= MAX_PATTERN):
        return
    raise QueryRefusedError(
        f"{_shown(pattern)} is a search pattern; write it as a 'string' of at most {MAX_PATTERN} characters"
    )


def _check_relations(tree: exp.Expr) -> None:
    tables = list(tree.find_all(exp.Table, exp.Unnest))
    if len(tables) > MAX_RELATIONS:
        raise QueryRefusedError(f"the query reads {len(tables)} relations; read at most {MAX_RELATIONS}")
    for table in tables:
        if isinstance(table, exp.Table):
            _check_relation(table)
    for cte in tree.find_all(exp.CTE):
        if cte.alias.lower() in VIEWS:
            raise QueryRefusedError(f"WITH {cte.alias} hides the view of that name; choose another name")


def _check_relation(table: exp.Table) -> None:
    if isinstance(table.this, exp.Anonymous) and str(table.this.this).lower() in TABLE_FUNCTIONS:
        return
    name = table.name.lower()
    unknown = {key for key, value in table.args.items() if value and key not in ("this", "alias", "joins", "laterals")}
    if not isinstance(table.this, exp.Identifier) or unknown:
        raise QueryRefusedError(
            f"{_shown(table)} is not the plain name of a documented view; write it without schema or additions"
        )
    if name not in VIEWS and name not in _names_with(table, name):
        raise QueryRefusedError(f"relation {name} is not a documented view; docs/views.md lists them")


def _names_with(table: exp.Table, name: str) -> Iterator[str]:
    """Names that WITH gives to queries where the table stands: of each query around it, and those before its own."""
    node: exp.Expr = table
    while node.parent is not None:
        parent = node.parent
        if isinstance(parent, exp.With):
            for cte in parent.expressions:
                if cte is node:
                    # SQLite takes this for recursion, with or without the word.
                    if cte.alias.lower() == name:
                        raise QueryRefusedError(f"WITH {name} reads itself, which may never end; read a view")
                    break
                yield cte.alias.lower()
        elif (given := parent.args.get("with_")) is not None and given is not node:
            yield from (cte.alias.lower() for cte in given.expressions)
        node = parent


def _check_columns(tree: exp.Expr, dialect: Dialect) -> None:
    """Columns are documented or named in the query: none of the engine's own, no function in a column's clothes."""
    names = {*documented_columns(), *FUNCTIONS[dialect], "case", "ordinality"}
    names |= {alias.alias.lower() for alias in tree.find_all(exp.Alias)}
    relations = set()
    for alias in tree.find_all(exp.TableAlias):
        relations.add(alias.name.lower())
        names |= {column.name.lower() for column in alias.args.get("columns") or ()}
        if isinstance(alias.parent, (exp.Unnest, exp.Lateral)):
            names.add(alias.name.lower())
    for table in tree.find_all(exp.Table):
        relations.add(table.name.lower())
        if isinstance(table.this, exp.Anonymous):
            names |= _JSON_EACH
            relations.add(str(table.this.this).lower())
    for column in tree.find_all(exp.Column):
        _check_column(column, names, relations)


def _check_column(column: exp.Column, names: set[str], relations: set[str]) -> None:
    if column.args.get("db") or column.args.get("catalog"):
        raise QueryRefusedError(f"{_shown(column)} has a schema before its name; write relation.column")
    if column.table and column.table.lower() not in relations:
        raise QueryRefusedError(f"{_shown(column)}: the query reads no relation {column.table}; add it to FROM")
    if not isinstance(column.this, exp.Star) and column.name.lower() not in names:
        quoted = "; texts go in single quotes" if column.this.args.get("quoted") else ""
        raise QueryRefusedError(
            f"column {column.name} is in no documented view and not defined in the query; see docs/views.md{quoted}"
        )


def _shown(node: Any) -> str:
    """A part of a query, as sqlglot writes it, for a message."""
    text = " ".join(node.sql(unsupported_level=ErrorLevel.IGNORE).split()) or node.key.upper()
    return text if len(text) <= 60 else f"{text[:60]}…"
