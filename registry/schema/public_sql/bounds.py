"""How large the values of a query may become, and how long one row may take, told from its text.

PostgreSQL looks for a cancellation between rows, not within one: arithmetic with long numerics, comparisons of long
texts and planning run to their end, deaf to time limits and `pg_terminate_backend`. And nothing but the operating
system bounds the memory of a backend. So for every expression this computes an upper bound of what it comes to, from
the types of the documented columns and the literals upwards, and refuses what is beyond a limit. A column of a subquery
counts as if its expression stood there, since the planner may put it there, as often as it is mentioned.

Where a type or a source is not known, the worse one is assumed. Decision 0037 has the reasons and measurements.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from sqlglot import exp

from registry.errors import QueryRefusedError
from registry.schema.documented import documented_views
from registry.schema.views import VIEWS

Kind = Literal["integer", "double", "number", "literal", "text", "other"]
"""integer: at most 64 bits. double: 64 bits. number: perhaps an arbitrary-precision numeric. literal: a quoted text,
which becomes what its neighbours are. text. other: times, booleans, lists, JSON, and what is not known."""

MAX_GROWTH: Final = 64
"""How many times longer a value may become than the longest text that is stored or written."""
MAX_DIGITS: Final = 4_000
"""Digits of a number: one product of two takes about a millisecond."""
MAX_WORK: Final = 200_000_000
"""Steps for one row, of a few nanoseconds each."""
MAX_HELD: Final = 32_000_000
"""Characters of all values of one row, intermediate ones included: a backend keeps them until the row is done."""
MAX_NODES: Final = 20_000
"""Operations for one row, a subquery's counted as often as they are mentioned: the planner writes them all out."""
MAX_EXPONENT: Final = 100
"""Exponent of a numeric power."""
MAX_DECIMALS: Final = 100
"""Decimal places that a number may be rounded to."""

STORED: Final = 10_000
"""Characters that a stored text is taken to have. Nobody bounds them, and nearly all have fewer."""
_LIST: Final = 1_000
_INTEGER: Final = 40
_SUM: Final = 60
_DOUBLE: Final = 25
_DOUBLE_DIGITS: Final = 644
"""A double as a numeric: twice the most digits before or after the point."""
_ANY_NUMERIC: Final = 2 * 131_072
_SHORT: Final = 60
"""A time, an interval, a boolean."""

NUMERIC_SUMS: Final = frozenset({"tokens_naive", "tokens_computed"})
"""Documented integers that are sums of `bigint`, which PostgreSQL makes numeric."""


@dataclass(frozen=True)
class Size:
    """Upper bounds for one expression.

    length: characters of its value as text; of a number, twice the digits before or after the point, whichever are
    more, so that a sum has the larger and a product the sum of both. work: steps to compute it. held: characters of the
    values that are made on the way. nodes: its operations.
    """

    kind: Kind
    length: int
    work: int = 0
    held: int = 0
    nodes: int = 1


_FLAG: Final = Size("other", _SHORT)
_UNKNOWN: Final = Size("other", STORED)
_COLUMNS: Final[Mapping[str, Size]] = {
    "integer": Size("integer", _INTEGER),
    "double": Size("double", _DOUBLE),
    "text": Size("text", STORED),
    "json": Size("other", STORED),
    "digest": Size("other", _SHORT),
    "boolean": _FLAG,
    "time": _FLAG,
}
"""By the documented type; a list is another."""


@dataclass
class Relation:
    """The columns of a view or subquery in their order; the name is empty where it is not known."""

    columns: list[tuple[str, Size]]

    def named(self, name: str) -> list[Size]:
        """The columns that `name` may mean."""
        return [size for own, size in self.columns if own == name or not own]

    def renamed(self, names: list[str]) -> "Relation":
        """With other names for its first columns."""
        if len(self.columns) < len(names):
            worst = either(size for _, size in self.columns)
            return Relation([(name, worst) for name in names])
        rest = self.columns[len(names) :]
        return Relation([*((name, size) for name, (_, size) in zip(names, self.columns, strict=False)), *rest])


@dataclass
class Scope:
    """What names mean at one place: relations by alias, those of the queries around it, and WITH."""

    max_length: int
    relations: dict[str, Relation] = field(default_factory=dict)
    outer: "Scope | None" = None
    given: dict[str, Relation] = field(default_factory=dict)
    own: dict[str, Size] = field(default_factory=dict)
    """Names that the SELECT itself gives."""

    def within(self) -> "Scope":
        """That of a query in this place."""
        return Scope(self.max_length, outer=self, given=dict(self.given))

    def column(self, node: exp.Column) -> Size:
        """What a column may be: the worst of what its name may mean."""
        name, table = node.name.lower(), node.table.lower()
        scope: Scope | None = self
        found: list[Size] = []
        while scope is not None and not found:
            if table:
                found = scope.relations[table].named(name) if table in scope.relations else []
            else:
                found = [size for relation in scope.relations.values() for size in relation.named(name)]
                if name in scope.relations:
                    found += [size for _, size in scope.relations[name].columns]
                if name in scope.own:
                    found.append(scope.own[name])
            scope = scope.outer
        return either(found)


def either(sizes: Iterable[Size]) -> Size:
    """The worst of several possibilities, of which only one is meant."""
    listed = list(sizes)
    if not listed:
        return _UNKNOWN
    kinds = {size.kind for size in listed}
    kind: Kind = "other"
    if len(kinds) == 1:
        kind = listed[0].kind
    elif kinds <= {"integer", "double", "number"}:
        kind = "number"
    return Size(
        kind,
        max(_digits(size) if kind == "number" else size.length for size in listed),
        *(max(getattr(size, name) for size in listed) for name in ("work", "held", "nodes")),
    )


def check_bounds(tree: exp.Expr) -> None:
    """Raises QueryRefusedError for a query whose values, or whose work for one row, may exceed the limits."""
    written = max((len(text.name) for text in tree.find_all(exp.Literal)), default=0)
    longest = max(
        _SHORT, written, STORED if any(table.name.lower() in VIEWS for table in tree.find_all(exp.Table)) else 0
    )
    _relation(tree, Scope(max_length=MAX_GROWTH * longest))


def _relation(node: exp.Expr, outer: Scope) -> Relation:
    """The columns of a query that stands in `outer`."""
    scope = outer.within()
    for cte in node.args["with_"].expressions if node.args.get("with_") else ():
        relation = _relation(cte.this, scope)
        scope.given[cte.alias.lower()] = relation.renamed(_alias_columns(cte))
    if isinstance(node, exp.Subquery):
        relation = _relation(node.this, scope)
    elif isinstance(node, exp.SetOperation):
        left, right = _relation(node.this, scope), _relation(node.expression, scope)
        relation = _both(left, right)
    elif isinstance(node, exp.Values):
        relation = _values(node, scope)
    elif isinstance(node, exp.Select):
        return _select(node, scope)
    else:
        return Relation([("", _UNKNOWN)])
    _Row(scope).measure(
        part for key in ("order", "limit", "offset") if isinstance(part := node.args.get(key), exp.Expr)
    )
    return relation


def _both(left: Relation, right: Relation) -> Relation:
    """The columns of a union: by their place, under the names of the first."""
    if len(left.columns) != len(right.columns):
        worst = either(size for relation in (left, right) for _, size in relation.columns)
        return Relation([("", worst)])
    pairs = zip(left.columns, right.columns, strict=True)
    return Relation([(name, _common([one, other])) for (name, one), (_, other) in pairs])


def _values(node: exp.Values, scope: Scope) -> Relation:
    row = _Row(scope)
    rows = [[row.size(cell) for cell in _cells(line)] for line in node.expressions]
    if not rows or len({len(line) for line in rows}) != 1:
        return Relation([("", _UNKNOWN)])
    columns = [_common(list(column)) for column in zip(*rows, strict=True)]
    names = _alias_columns(node) or [f"column{number + 1}" for number in range(len(columns))]
    return Relation([("", size) for size in columns]).renamed(names)


def _cells(line: exp.Expr) -> list[exp.Expr]:
    return line.expressions if isinstance(line, exp.Tuple) else [line]


def _alias_columns(node: exp.Expr) -> list[str]:
    alias = node.args.get("alias")
    if not isinstance(alias, exp.TableAlias):
        return []
    return [column.name.lower() for column in alias.args.get("columns") or ()]


def _select(node: exp.Select, scope: Scope) -> Relation:
    row = _Row(scope)
    conditions = list(_sources(node, scope, row))
    columns: list[tuple[str, Size]] = []
    for item in node.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            table = item.table.lower() if isinstance(item, exp.Column) else ""
            shown = [own for name, own in scope.relations.items() if table in ("", name)]
            for relation in shown:
                columns += relation.columns
                row.add(*(size for _, size in relation.columns))
            continue
        size = row.size(item)
        row.add(replace(size, work=0, nodes=0, held=size.length))
        columns.append((item.alias_or_name.lower(), size))
        scope.own[item.alias_or_name.lower()] = size
    skipped = ("expressions", "with_", "from_", "joins", "laterals")
    rest = [part for key, parts in node.args.items() if key not in skipped for part in _listed(parts)]
    row.measure([*conditions, *rest])
    return Relation(columns)


def _listed(parts: object) -> Iterator[exp.Expr]:
    for part in parts if isinstance(parts, list) else [parts]:
        if isinstance(part, exp.Expr):
            yield part


def _sources(node: exp.Select, scope: Scope, row: "_Row") -> Iterator[exp.Expr]:
    """Puts what a SELECT reads into its scope; yields the conditions of its joins."""
    waiting = [part for key in ("laterals", "joins", "from_") for part in reversed([*_listed(node.args.get(key))])]
    while waiting:
        source = waiting.pop()
        waiting += [part for key in ("laterals", "joins") for part in _listed(source.args.get(key))]
        if isinstance(source, (exp.From, exp.Join)):
            waiting.append(source.this)
            if isinstance(source, exp.Join) and source.args.get("on"):
                yield source.args["on"]
            continue
        inner = source.this
        if isinstance(source, exp.Subquery) and not isinstance(inner, exp.Query):
            waiting.append(inner)  # joins in parentheses
            continue
        name = (source.alias or source.name).lower() or f"unnamed {len(scope.relations)}"
        scope.relations[name] = _source(source, scope, row).renamed(_alias_columns(source))


def _source(source: exp.Expr, scope: Scope, row: "_Row") -> Relation:
    if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
        name = source.name.lower()
        return scope.given[name] if name in scope.given else _view(name)
    if isinstance(source, exp.Lateral):
        return _source(source.this, scope, row) if isinstance(source.this, exp.Expr) else Relation([("", _UNKNOWN)])
    if isinstance(source, (exp.Subquery, exp.Query)):
        return _relation(source, scope)
    # A function: its rows are made of its arguments.
    sizes = [row.size(part) for part in source.iter_expressions() if not isinstance(part, exp.TableAlias)]
    return Relation([("", replace(either(sizes), kind="other"))])


_views: dict[str, Relation] = {}


def _view(name: str) -> Relation:
    if not _views:
        for view in documented_views():
            _views[view.name] = Relation(
                [(column.name, _documented(column.name, column.type)) for column in view.columns]
            )
    return _views.get(name, Relation([("", _UNKNOWN)]))


def _documented(name: str, kind: str) -> Size:
    if name in NUMERIC_SUMS:
        return Size("number", _SUM)
    return _COLUMNS.get(kind, Size("other", _LIST))


class _Row:
    """What one row of a SELECT comes to, all its expressions together."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.work = self.held = self.nodes = 0

    def add(self, *sizes: Size) -> None:
        """Counts expressions. Raises QueryRefusedError beyond a limit."""
        for size in sizes:
            self.work += size.work
            self.held += size.held
            self.nodes += size.nodes
        for what, count, limit, remedy in (
            ("steps", self.work, MAX_WORK, "compare shorter texts, or compute with double precision"),
            ("characters of memory", self.held, MAX_HELD, "select fewer or shorter values"),
            ("operations", self.nodes, MAX_NODES, "mention the columns of subqueries less often"),
        ):
            if count > limit:
                raise QueryRefusedError(f"one row may take {count:,} {what}, more than {limit:,}; {remedy}")

    def measure(self, expressions: Iterable[exp.Expr]) -> None:
        """Counts expressions."""
        for expression in expressions:
            self.size(expression)

    def size(self, expression: exp.Expr) -> Size:
        """The size of an expression, which is counted. Without recursion: sums may have thousands of terms."""
        sizes: dict[int, Size] = {}
        waiting: list[tuple[exp.Expr, bool]] = [(expression, False)]
        while waiting:
            node, ready = waiting.pop()
            if isinstance(node, exp.Query):
                columns = _relation(node, self.scope).columns
                sizes[id(node)] = self._combined(node, _common([s for _, s in columns]), [s for _, s in columns])
            elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                size = self.scope.column(node)
                sizes[id(node)] = replace(size, nodes=size.nodes + 1)
            elif ready:
                parts = [sizes[id(part)] for part in _operands(node)]
                sizes[id(node)] = self._combined(node, _value(node, sizes, parts), parts)
            else:
                waiting.append((node, True))
                waiting += [(part, False) for part in _operands(node)]
        self.add(sizes[id(expression)])
        return sizes[id(expression)]

    def _combined(self, node: exp.Expr, own: Size, parts: list[Size]) -> Size:
        """The value itself with what its parts take. Raises QueryRefusedError for a value that is too long."""
        if own.kind == "number" and own.length > MAX_DIGITS:
            raise QueryRefusedError(
                f"{_shown(node)} may be a number of {own.length // 2:,} digits, more than {MAX_DIGITS // 2:,}; cast to "
                "numeric(20, 6) or double precision"
            )
        if own.length > self.scope.max_length:
            raise QueryRefusedError(
                f"{_shown(node)} may have {own.length:,} characters, more than "
                f"{self.scope.max_length:,}; concatenate or replace less"
            )
        passed_on = isinstance(node, (exp.Paren, exp.Alias, exp.Literal, exp.Ordered, exp.Order, exp.Query))
        return Size(
            own.kind,
            own.length,
            own.work + sum(part.work for part in parts),
            (0 if passed_on else own.length) + sum(part.held for part in parts),
            1 + sum(part.nodes for part in parts),
        )


def _operands(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, (exp.DataType, exp.Interval, exp.Identifier, exp.Var)):
        return []
    return [part for part in node.iter_expressions() if not isinstance(part, (exp.DataType, exp.TableAlias))]


def _shown(node: exp.Expr) -> str:
    text = node.sql() if sum(1 for _ in node.walk()) < 20 else node.key.upper()
    return text if len(text) <= 60 else f"{text[:60]}…"


def _digits(size: Size) -> int:
    """The length of a value as a numeric."""
    if size.kind == "double":
        return _DOUBLE_DIGITS
    # A stored text in arithmetic is an error, not a number.
    return _INTEGER if size.kind == "text" else size.length


def _common(sizes: list[Size]) -> Size:
    """One of several values of a common type, as in CASE, COALESCE and UNION."""
    kinds = {size.kind for size in sizes} - {"literal"}
    kind: Kind = "other"
    if not kinds:
        kind = "literal"
    elif len(kinds) == 1:
        (kind,) = kinds
    elif kinds <= {"integer", "double", "number"}:
        kind = "double" if "double" in kinds else "number"
    # A quoted text among numbers is read as one of them.
    length = max((_digits(size) if kind == "number" else size.length for size in sizes), default=_SHORT)
    worst = either(sizes)
    return Size(kind, length, worst.work, worst.held, worst.nodes)


# What an operation makes of its operands. Only kind, length and the work of its own are read from these answers.

_SAME: Final = (exp.Paren, exp.Alias, exp.Window, exp.Filter, exp.Neg, exp.Abs, exp.Max, exp.Min, exp.Distinct)
_INTEGERS: Final = (
    *(exp.Length, exp.StrPosition, exp.Ascii, exp.ArraySize, exp.Count, exp.BitLength, exp.RegrCount, exp.Unicode),
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile, exp.WidthBucket, exp.ArrayPosition),
)
_DOUBLES: Final = (
    *(exp.Acos, exp.Asin, exp.Atan, exp.Atan2, exp.Cos, exp.Sin, exp.Tan, exp.Degrees, exp.Radians, exp.Pi, exp.Cbrt),
    *(exp.Corr, exp.CovarPop, exp.CovarSamp, exp.CumeDist, exp.PercentRank, exp.PercentileCont),
    *(exp.RegrAvgx, exp.RegrAvgy, exp.RegrIntercept, exp.RegrR2, exp.RegrSlope, exp.RegrSxx, exp.RegrSxy, exp.RegrSyy),
)
_FLAGS: Final = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In),
    *(exp.And, exp.Or, exp.Not, exp.Exists, exp.Any, exp.All, exp.LogicalAnd, exp.LogicalOr, exp.StartsWith),
)
_ANONYMOUS_INTEGERS: Final = frozenset(
    {
        *("array_lower", "array_upper", "cardinality", "json_array_length", "jsonb_array_length"),
        *("num_nonnulls", "num_nulls", "octet_length", "scale"),
    }
)
_Sizes = Mapping[int, Size]


def _value(node: exp.Expr, sizes: _Sizes, parts: list[Size]) -> Size:
    """Kind and length of what `node` makes, and the steps of its own."""
    for kinds, rule in _RULES:
        if isinstance(node, kinds):
            return rule(node, sizes, parts)
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    read = sum(part.length for part in parts)
    if isinstance(node, _INTEGERS) or name in _ANONYMOUS_INTEGERS:
        return Size("integer", _INTEGER, read)
    if isinstance(node, _DOUBLES):
        return Size("double", _DOUBLE, read)
    if isinstance(node, _FLAGS):
        return replace(_FLAG, work=read)
    if isinstance(node, _SAME):
        this = node.args.get("this")
        found = sizes.get(id(this)) if this is not None else None
        return replace(found or _common(parts), work=0)
    worst = _common(parts) if parts else _FLAG
    return replace(worst, kind="other" if name not in ("", "trim_scale") else worst.kind, work=read)


def _of(node: exp.Expr, key: str, sizes: _Sizes) -> Size:
    part = node.args.get(key)
    return sizes[id(part)] if isinstance(part, exp.Expr) and id(part) in sizes else Size("literal", 0)


def _literal(node: exp.Expr, _sizes: _Sizes, _parts: list[Size]) -> Size:
    if not node.args.get("is_string"):
        length = written_digits(node.name)
        whole = node.name.isdigit() and len(node.name) < 19
        return Size("integer" if whole else "number", _INTEGER if whole else length)
    return Size("literal", max(len(node.name), written_digits(node.name)))


_NUMBER: Final = re.compile(r"\s*[-+]?([\d_]*)\.?([\d_]*)(?:[eE]([-+]?[\d_]+))?\s*")


def written_digits(text: str) -> int:
    """Twice the digits before or after the point of a number, whichever are more; for other texts, of their length.

    A text of hexadecimal digits is a number to newer servers, so all others count like one.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return len(text)
    whole, fraction, exponent = match[1], match[2], (match[3] or "0").replace("_", "")
    # No numeric has more, and int() reads no longer ones.
    shift = _ANY_NUMERIC if len(exponent) > 8 else int(exponent)
    return 2 * max(len(whole) + shift, len(fraction) - shift, 1)


def _arithmetic(node: exp.Expr, sizes: _Sizes, _parts: list[Size]) -> Size:
    left, right = _of(node, "this", sizes), _of(node, "expression", sizes)
    kinds = {left.kind, right.kind} - {"literal"}
    if "double" in kinds and kinds <= {"integer", "double", "number"}:
        return Size("double", _DOUBLE, 1)
    if kinds == {"integer"}:
        return Size("integer", _INTEGER, 1)
    one, other = _digits(left), _digits(right)
    if isinstance(node, (exp.Add, exp.Sub)):
        return Size("number", max(one, other) + 2, one + other)
    work = max(1, 3 * one * other // 16)
    if isinstance(node, exp.Mod):
        return Size("number", max(one, other), work)
    return Size("number", one + other + (0 if isinstance(node, exp.Mul) else 32), work)


def _joined(node: exp.Expr, _sizes: _Sizes, parts: list[Size]) -> Size:
    length = sum(_DOUBLE if part.kind == "double" else part.length for part in parts)
    if isinstance(node, exp.ConcatWs):
        # A separator stands between all the others.
        length += len(parts) * parts[0].length
    kinds = {part.kind for part in parts}
    return Size("other" if kinds & {"other"} else "text", length, length)


def _replaced(node: exp.Expr, sizes: _Sizes, _parts: list[Size]) -> Size:
    this = _of(node, "this", sizes).length
    looked_for, given = node.args.get("expression"), node.args.get("replacement")
    if given is not None and not isinstance(given, exp.Literal):
        raise QueryRefusedError(f"{_shown(node)}: write the replacement as a 'string'")
    find = max(1, len(looked_for.name) if looked_for is not None else 1)
    length = this if given is None else -(-this * max(find, len(given.name)) // find)
    return Size("text", length, this * find)


def _looked_for(node: exp.Expr, sizes: _Sizes, _parts: list[Size]) -> Size:
    """Where a text, which is written out, is looked for in another, or each of its characters is."""
    written = [node.args.get(key) for key in ("expression", "substr", "delimiter", "from_")]
    pattern = max([1, *(len(part.name or part.this.name) for part in written if isinstance(part, exp.Expr))])
    this = _of(node, "this", sizes).length
    if isinstance(node, exp.StrPosition):
        return Size("integer", _INTEGER, this * pattern)
    if isinstance(node, (exp.Like, exp.ILike, exp.Glob)):
        return replace(_FLAG, work=this * pattern)
    return Size("text", this, this * pattern)


def _rounded(node: exp.Expr, sizes: _Sizes, _parts: list[Size]) -> Size:
    this, places = _of(node, "this", sizes), node.args.get("decimals")
    if places is None:
        return replace(this, kind="number" if this.kind == "literal" else this.kind, work=0)
    number = _written_integer(places)
    if number is None or number > MAX_DECIMALS:
        raise QueryRefusedError(
            f"{_shown(node)}: write the number of decimal places as a number of at most {MAX_DECIMALS}"
        )
    return Size("number", max(_digits(this), 2 * number), this.length)


def _written_integer(node: exp.Expr) -> int | None:
    sign = 1
    if isinstance(node, exp.Neg):
        sign, node = -1, node.this
    if isinstance(node, exp.Literal) and not node.args.get("is_string") and node.name.isdigit() and len(node.name) < 10:
        return sign * int(node.name)
    return None


def _root(_node: exp.Expr, _sizes: _Sizes, parts: list[Size]) -> Size:
    """Square roots and logarithms: of the precision of what they are taken of."""
    kinds = {part.kind for part in parts}
    if len(parts) == 1 and kinds <= {"integer", "double", "literal"}:
        return Size("double", _DOUBLE, 1)
    length = max(_INTEGER, *(_digits(part) for part in parts))
    return Size("number", length + 32, 3 * (length + 100) ** 2)


def _power(node: exp.Expr, sizes: _Sizes, _parts: list[Size]) -> Size:
    this, times = _of(node, "this", sizes), _of(node, "expression", sizes)
    if "double" in (this.kind, times.kind) or {this.kind, times.kind} <= {"integer", "literal"}:
        return Size("double", _DOUBLE, 1)
    length = math.ceil(_small(node, "expression")) * _digits(this) + 2 * _INTEGER
    return Size("number", length, 3 * length**2)


def _exponential(node: exp.Expr, sizes: _Sizes, _parts: list[Size]) -> Size:
    this = _of(node, "this", sizes)
    if this.kind in ("integer", "double", "literal"):
        return Size("double", _DOUBLE, 1)
    length = math.ceil(_small(node, "this")) + this.length + 2 * _INTEGER
    return Size("number", length, 3 * length**2)


def _small(node: exp.Expr, key: str) -> float:
    """The absolute value of an exponent that is written out."""
    exponent = node.args[key]
    written = exponent.this if isinstance(exponent, exp.Neg) else exponent
    if isinstance(written, exp.Literal) and not written.args.get("is_string") and float(written.name) <= MAX_EXPONENT:
        return float(written.name)
    raise QueryRefusedError(f"{_shown(node)} may be a number of any size; cast to double precision first")


def _summed(node: exp.Expr, sizes: _Sizes, _parts: list[Size]) -> Size:
    this = _of(node, "this", sizes)
    if this.kind == "double":
        return Size("double", _DOUBLE, 1)
    length = _digits(this)
    if isinstance(node, exp.Sum):
        return Size("number", length + 20, length)
    if isinstance(node, exp.Avg):
        return Size("number", length + 60, length)
    return Size("number", 2 * length + 60, length**2 // 16)


def _cast(node: exp.Expr, sizes: _Sizes, _parts: list[Size]) -> Size:
    this, to = _of(node, "this", sizes), node.args["to"]
    types = exp.DataType.Type
    if to.this == types.DECIMAL:
        return Size("number", _decimal(to, this), this.length)
    if to.this == types.ARRAY:
        numeric = any(part.this == types.DECIMAL and not part.expressions for part in to.find_all(exp.DataType))
        return Size("other", _ANY_NUMERIC if numeric else this.length, this.length)
    if to.this in (types.TEXT, types.VARCHAR):
        # A list as text has its quotes escaped.
        return Size("text", 2 * this.length + 10 if this.kind == "other" else this.length, this.length)
    if to.this in (types.DOUBLE, types.FLOAT):
        return Size("double", _DOUBLE, this.length)
    if to.this in (types.INT, types.BIGINT, types.SMALLINT):
        return Size("integer", _INTEGER, this.length)
    if to.this in (types.JSON, types.JSONB):
        return Size("other", this.length, this.length)
    return replace(_FLAG, work=this.length)


def _decimal(to: exp.Expr, this: Size) -> int:
    if to.expressions:
        numbers = [_written_integer(param.this) for param in to.expressions]
        digits, scale = numbers[0] or 0, (numbers[1:] or [0])[0] or 0
        return 2 * max(digits - scale, scale, 1)
    if this.kind in ("text", "other"):
        return _ANY_NUMERIC
    return _digits(this)


def _chosen(node: exp.Expr, sizes: _Sizes, parts: list[Size]) -> Size:
    """CASE and the like: one of the results, without the conditions."""
    if isinstance(node, exp.Case):
        results = [sizes[id(branch)] for branch in node.args.get("ifs") or ()]
        default = node.args.get("default")
        results += [sizes[id(default)]] if default is not None else []
    elif isinstance(node, exp.If):
        results = [_of(node, key, sizes) for key in ("true", "false") if node.args.get(key) is not None]
    elif isinstance(node, exp.Nullif):
        results = [_of(node, "this", sizes)]
    else:
        results = parts
    return replace(_common(results), work=sum(part.length for part in parts))


def _substring(node: exp.Expr, sizes: _Sizes, _parts: list[Size]) -> Size:
    for key in ("start", "length"):
        given = node.args.get(key)
        if given is not None and sizes[id(given)].kind not in ("integer", "number", "double"):
            # PostgreSQL takes substring(text, text) as a regular expression.
            raise QueryRefusedError(f"{_shown(node)}: start and length are numbers; cast them to integer")
    this = _of(node, "this", sizes).length
    return Size("text", this, this)


def _formatted(node: exp.Expr, sizes: _Sizes, _parts: list[Size]) -> Size:
    return Size("text", 12 * (_of(node, "format", sizes).length + 10), _of(node, "this", sizes).length)


def _fixed(kind: Kind, length: int) -> "_Rule":
    return lambda _node, _sizes, parts: Size(kind, length, sum(part.length for part in parts))


def _times(factor: int) -> "_Rule":
    def rule(_node: exp.Expr, _sizes: _Sizes, parts: list[Size]) -> Size:
        length = sum(part.length for part in parts)
        return Size("text", factor * length, length)

    return rule


def _list(_node: exp.Expr, _sizes: _Sizes, parts: list[Size]) -> Size:
    length = sum(part.length for part in parts)
    return Size("other", length, length)


def _within(node: exp.Expr, _sizes: _Sizes, parts: list[Size]) -> Size:
    return Size("double", _DOUBLE) if isinstance(node.this, exp.PercentileCont) else replace(_common(parts), work=0)


_Rule = Callable[[exp.Expr, _Sizes, list[Size]], Size]
_RULES: Final[tuple[tuple[tuple[type[exp.Expr], ...], _Rule], ...]] = (
    ((exp.Literal,), _literal),
    ((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod), _arithmetic),
    ((exp.DPipe, exp.Concat, exp.ConcatWs), _joined),
    ((exp.Replace,), _replaced),
    ((exp.Like, exp.ILike, exp.Glob, exp.StrPosition, exp.Trim, exp.SplitPart, exp.Translate), _looked_for),
    ((exp.Round, exp.Trunc, exp.Ceil, exp.Floor), _rounded),
    ((exp.Ln, exp.Log, exp.Sqrt), _root),
    ((exp.Pow,), _power),
    ((exp.Exp,), _exponential),
    ((exp.Sum, exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop), _summed),
    ((exp.Cast,), _cast),
    ((exp.Case, exp.If, exp.Nullif, exp.Coalesce, exp.Greatest, exp.Least), _chosen),
    ((exp.Substring,), _substring),
    ((exp.TimeToStr,), _formatted),
    ((exp.ToNumber,), _fixed("number", 400)),
    ((exp.Extract,), _fixed("number", _SUM)),
    ((exp.MD5,), _fixed("text", 32)),
    ((exp.Interval, exp.Boolean), _fixed("other", _SHORT)),
    ((exp.Null,), _fixed("literal", 0)),
    ((exp.Chr,), _times(4)),
    ((exp.Encode, exp.Hex), _times(4)),
    ((exp.Array, exp.Tuple), _list),
    ((exp.WithinGroup,), _within),
    ((exp.Left, exp.Right, exp.Upper, exp.Lower, exp.Initcap, exp.Reverse), _times(1)),
)
