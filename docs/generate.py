#!/usr/bin/env python
"""Writes the generated parts of the documentation: `python docs/generate.py`.

docs/command-line.md from the commands, docs/settings.md from the settings, docs/metrics.md from the entries of the
metrics and their guide, docs/views.md from registry/schema/columns.toml, docs/third-party.md from
docs/third-party.toml, docs/findings.md from the catalogue of findings; in docs/variants-and-protocols.md the examples
that the first line of a block marks, and the tables of kinds and of shipped protocols from code and TOML files; the
routes in docs/api.md. And one module, the types of answers that are rows of views. A test compares them with the output
of this script, so edit help texts, entries, functions and tables themselves, never the results.
"""

import ast
import inspect
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from inspect import getdoc
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import click

DOCS: Final = Path(__file__).resolve().parent
VARIANTS_PAGE: Final = DOCS / "variants-and-protocols.md"
ARCHITECTURE: Final = DOCS / "architecture.md"
API_PAGE: Final = DOCS / "api.md"
sys.path.insert(0, str(DOCS.parent))  # a checkout may be read without being installed

GUIDE: Final = "registry.metrics.guide"
DOCUMENTED: Final = "registry.schema.documented"

COMMAND_LINE: Final = """\
# Command line

<!-- Written by docs/generate.py: edit the code it reads, then run it again. -->

This page is for you if you look up a command. Every command answers `--help` (or `-h`). Exit status: 0 done, 1 a
problem with the request, 2 a usage error; the message says how to correct it. With `--json`, standard output holds
exactly one JSON document; progress, notes and logs go to standard error.

Names of models and benchmarks consist of letters, digits, `.`, `_` and `-`. If a command takes a model or a
benchmark, `NAME` means the newest one and `NAME@…` a certain revision number or version.

Three options are the same everywhere and not repeated below. `--json` prints one JSON document; a thing's own name is
under `name` in it, an evaluation's number under `evaluation`. `--columns NAME,…` chooses a table's columns, including
some that are not shown otherwise; `--wide` shows all of them. Otherwise a table fits the terminal: names are shortened,
values that all rows share are printed above the table, and the least important columns go first. In a pipe, a table is
complete.

`shuffleboard --version` shows the version. `shuffleboard completion --install` makes the Tab key complete commands,
options and values in bash, zsh and fish.
"""

THIRD_PARTY: Final = """\
# What others made

<!-- Written by docs/generate.py: edit docs/third-party.toml, then run it again. -->

This page is for you if you check licences. These files lie in the repository, unchanged unless the README of their
folder says otherwise. Versions of 12 digits are commits. Packages that are installed are not among them; [the supply
chain](security.md#the-supply-chain) says where they are listed.
"""

COMMON_OPTIONS: Final = ("--json", "--columns", "--wide")
"""Options that are described once at the top, for all commands that have them."""

SETTINGS: Final = """\
# Settings

<!-- Written by docs/generate.py: edit the code it reads, then run it again. -->

This page is for you if you configure a deployment. Settings are environment variables; an empty one counts as unset.
All commands read them: a command line, a worker and a website that are to work together need the same database, and
every host of a website the same key. A value that cannot be read is an error that names the variable. `shuffleboard
doctor` checks a deployment's settings.

Any of them can be read from a file instead, which is where passwords belong: the name with `_FILE` appended names the
file, as in `SHUFFLEBOARD_DATABASE_URL_FILE=/run/secrets/database`. Surrounding whitespace is removed.
Setting both a variable and its file is an error.
"""

SETTING_GROUPS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "Where things are": (
        "Without them, everything is in one SQLite file. More: [operations](operations.md#postgresql-and-redis).",
        (
            "home",
            "database_url",
            "direct_database_url",
            "database_read_url",
            "database_wait_seconds",
            "broker_url",
            "log_level",
            "harness_python",
            "url",
            "token",
        ),
    ),
    "Archives": (
        "Where the [folders of sealed evaluations](how-to/archive-predictions.md) are.",
        ("archives", "archives_endpoint", "archives_region", "archives_access_key", "archives_secret_key"),
    ),
    "Imports": (
        "Small files that ask for much memory are refused: [bounded imports](operations.md#imports-are-bounded).",
        ("unpacked_bytes",),
    ),
    "Work": (
        "How workers share it, and when one takes over: [how the queue works](queue.md#how-the-queue-works).",
        (
            "lease_seconds",
            "shard_seconds",
            "poll_seconds",
            "reconcile_seconds",
            "stall_min_seconds",
            "stall_max_seconds",
        ),
    ),
    "Endpoints": (
        "Models on servers that speak OpenAI's protocol. More: [endpoints](how-to/serve-a-model.md).",
        (
            "endpoints",
            "prices",
            "endpoint_top_logprobs",
            "keep_thoughts",
            "markers",
            "endpoint_in_flight",
            "endpoint_in_flight_limit",
            "endpoint_requests_per_second",
            "endpoint_connect_seconds",
            "endpoint_read_seconds",
            "endpoint_attempts",
            "endpoint_wait_seconds",
            "endpoint_batch_poll_seconds",
        ),
    ),
    "Website": (
        "Who may read which results, and who signs in: [accounts](accounts.md).",
        (
            "public_url",
            "documentation_url",
            "source_url",
            "trusted_proxies",
            "secret_key_file",
            "anonymous_reading",
            "anonymous_sql",
            "session_idle_hours",
            "session_hours",
            "password_sign_in",
            "rate_limits",
        ),
    ),
    "Single sign-on": (
        "People sign in through a provider of OpenID Connect: [single sign-on](how-to/sign-on.md).",
        ("oidc_issuer", "oidc_name", "oidc_client_id", "oidc_client_secret", "oidc_scopes", "oidc_roles"),
    ),
    "SQL page": (
        "Queries are answered from files, the same on both engines: [the SQL page](sql.md#the-sql-page).",
        (
            "sql_rows",
            "sql_seconds",
            "sql_bytes",
            "sql_cell_characters",
            "sql_at_once",
            "sql_refresh_seconds",
        ),
    ),
    "Proof": (
        "Signatures that others check without this registry: [a signed head](provenance.md#a-signed-head).",
        ("signing_key",),
    ),
}
"""Heading → the text below it, and the settings in its section."""

METRICS: Final = """\
# Metrics

<!-- Written by docs/generate.py: edit the code it reads, then run it again. -->

This page is for you if you read a number on a board; the website shows the same under `/metrics-guide`. The definitions
are Python functions; the SQL views [`question_metrics`](views.md#question_metrics),
[`scope_metrics`](views.md#scope_metrics) and [`run_metrics`](views.md#run_metrics) serve the same numbers. For all of
them:

- **Answers are contents.** Only the option behind the chosen label counts, never the label.
- **An unreadable answer** counts as wrong, and equals no other answer, not even another unreadable one.
- **Undefined is null**, never zero. While variants of a question are still missing, it has no values over variants.
- **Range**, unless stated: 0 … 1, higher is better.
- **From questions to a benchmark** it is a plain mean over the questions that have a value; how many they are (`n`) is
  stored with the value. Formulas are for one question unless they say otherwise.
- **Orders** are the variants that show the question with exactly its own options. The **original** is the lowest
  variant that shows the question as the benchmark has it.
- **Equations before programs.** If a paper's released program and its equations differ, the equations hold
  ([decision 0010](decisions/0010-where-the-papers-disagree.md)). "Published otherwise" says where.
"""


USUAL_RANGE: Final = "0 … 1, higher is better"
"""The most common range, stated once at the top instead of with each metric."""

VIEWS: Final = """\
# Views

<!-- Written by docs/generate.py: edit the code it reads, then run it again. -->

This page is for you if you write SQL. The views have the same names and columns on PostgreSQL and on SQLite. Columns
may be added anywhere, so name those that you need; none is renamed within a release series. How to query them:
[sql.md](sql.md). Their meaning: [metrics.md](metrics.md).

NULL always means *not known* or *undefined*, never zero; the last column below says when. An **id** is a number that
only has a meaning in this database. A **count** is a whole number, a **flag** a boolean (0 and 1 on SQLite). A **time**
is in UTC (text such as `2026-05-01T12:00:00.000000Z` on SQLite). A **list** runs by position: it is an array on
PostgreSQL, and a JSON list as text on SQLite. A **digest** is the 32 bytes of a SHA-256; **nats** are natural
logarithms. A **position** is a place among the options as they were shown, an **option** is the ordinal of an answer in
the benchmark's own order; both count from 0, and inserted options are −1, −2, ….
"""

ADDRESSED: Final = tuple(
    DOCS.parent / name
    for name in (
        "README.md",
        "SECURITY.md",
        "CITATION.cff",
        "docs/troubleshooting.md",
        "docs/how-to/containers.md",
        "docker/Dockerfile",
    )
)
"""Files that contain the project's address or version, which pyproject.toml defines."""


def _with_addresses(text: str) -> str:
    """Return a file with the addresses of repository, issues and security reports, and the version, updated."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = project["urls"]["Repository"]
    written = {f"[{name}]: ": address + end for name, end in PLACES.items()}
    written |= {"repository-code: ": address, "git clone ": f"{address}.git"}
    written |= {"version: ": project["version"], "ARG VERSION=": project["version"]}
    for begin, value in written.items():
        text = re.sub(rf"^{re.escape(begin)}.*$", f"{begin}{value}", text, flags=re.MULTILINE)
    return text


PLACES: Final = {"repository": "", "issues": "/issues", "security": "/security"}
"""Names of links → the end of their address."""


IMPORTS_PAGE: Final = DOCS / "importing-outputs.md"
_FORMS_TABLE: Final = re.compile(r"(?<=\| Format \| Recognised by \| It becomes \|\n\|---\|---\|---\|\n)(?:\|.*\n)+")


def _with_forms(text: str) -> str:
    """Return the page of imports with the table of formats and the paragraph about each format updated."""
    forms = [form for form in import_module("registry.logs.formats").FORMATS.values() if form.program]
    rows = "".join(f"| {form.program} | {form.recognised} | {form.becomes} |\n" for form in forms)
    text = _FORMS_TABLE.sub(lambda _: rows, text)
    before = text.find("\n## ", text.index(rows)) + 1 or len(text)
    for form in reversed([form for form in forms if form.paragraph]):
        head = re.escape(form.paragraph.partition("** ")[0])
        paragraph = textwrap.fill(form.paragraph, 120, break_long_words=False, break_on_hyphens=False)
        existing = re.search(rf"^{head}\*\* [^\n]*(?:\n[^\n]+)*", text, re.MULTILINE)
        if existing is None:  # a new format
            text = f"{text[:before]}{paragraph}\n\n{text[before:]}"
        else:
            before = existing.start()
            text = f"{text[:before]}{paragraph}{text[existing.end() :]}"
    return text


def pages() -> dict[Path, str]:
    """Map path → text of every generated page."""
    return {
        DOCS / "command-line.md": "\n".join(_command_line()) + "\n",
        DOCS / "metrics.md": "\n".join(_metrics()) + "\n",
        DOCS / "verdicts.md": "\n".join(_verdicts()) + "\n",
        DOCS / "findings.md": "\n".join(_findings()) + "\n",
        DOCS / "settings.md": "\n".join(_settings()) + "\n",
        VARIANTS_PAGE: _with_shipped(_with_kinds(_with_examples(VARIANTS_PAGE.read_text(encoding="utf-8")))),
        ARCHITECTURE: _with_rooms(ARCHITECTURE.read_text(encoding="utf-8")),
        API_PAGE: _with_routes(API_PAGE.read_text(encoding="utf-8")),
        IMPORTS_PAGE: _with_forms(IMPORTS_PAGE.read_text(encoding="utf-8")),
        DOCS / "views.md": "\n".join(_views()) + "\n",
        DOCS / "third-party.md": "\n".join(_third_party()) + "\n",
        **{path: _with_addresses(path.read_text(encoding="utf-8")) for path in ADDRESSED if path.exists()},
    }


# The command line


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with its words, groups before their commands; `shuffleboard` itself comes first."""
    cli = import_module("shuffleboard.cli").cli
    yield from _walk((), cli)


def _walk(words: tuple[str, ...], command: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                subcommand = command.get_command(context, name)
                assert subcommand is not None
                yield from _walk((*words, name), subcommand)


def _command_line() -> Iterator[str]:
    yield COMMAND_LINE
    listed = list(commands())
    summaries = import_module("shuffleboard.cli").COMMANDS
    yield from ("| | Commands |", "|---|---|")
    for group, members in groupby((words for words, _ in listed if words), key=lambda words: words[0]):
        leaves = [words for words in members if not isinstance(dict(listed)[words], click.Group)]
        linked = (f"[`{' '.join(words[1:] or words)}`](#shuffleboard-{'-'.join(words)})" for words in leaves)
        yield f"| {summaries[group].rstrip('.')} | {f'`{group}` ' if leaves != [(group,)] else ''}{', '.join(linked)} |"
    yield ""
    for words, command in listed:
        yield from _command(words, command)


def _command(words: tuple[str, ...], command: click.Command) -> Iterator[str]:
    if isinstance(command, click.Group) and not command.invoke_without_command:
        return  # its commands follow, each with a heading
    name = " ".join(("shuffleboard", *words))
    yield from (f"## {name}", "")
    with click.Context(command, info_name=name) as context:
        # Omit text that repeats the heading, and [OPTIONS]: their table follows.
        usage = " ".join((name, *(piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]")))
        example = (command.epilog or "").rpartition("\n")[2].strip()
        lines = [line for line in (usage, example and f"Example: {example}") if line.removeprefix("Example: ") != name]
        yield from ("```text", *filter(None, lines), "```", "") if any(lines) else ()
        yield from _help_text(command)
        options = [
            parameter
            for parameter in command.params
            if isinstance(parameter, click.Option) and not is_common(parameter)
        ]
        defaults = any(map(_default, options))
        heading = (
            ("| Option | Default | Meaning |", "|---|---|---|") if defaults else ("| Option | Meaning |", "|---|---|")
        )
        yield from heading if options else ()
        for option in options:
            default = f"{_default(option)} | " if defaults else ""
            yield f"| {_option_name(option, context)} | {default}{_cell(option.help or '')} |"
        yield from ("",) if options else ()


def is_common(option: click.Option) -> bool:
    """Return whether an option has its common meaning; --columns and --wide may also be a command's own options."""
    return option.opts[0] in COMMON_OPTIONS and (option.opts[0] == "--json" or not option.expose_value)


def _help_text(command: click.Command) -> Iterator[str]:
    r"""Yield a command's help; paragraphs that click does not wrap (`\b`) become code blocks."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            # Indented lines are an example; those before and after it are sentences.
            for indented, lines in groupby(paragraph.split("\n")[1:], key=lambda line: line.startswith("  ")):
                shown = list(lines)
                yield from ("```text", *(line[2:] for line in shown), "```", "") if indented else (" ".join(shown), "")
        else:
            yield from (" ".join(paragraph.split("\n")), "")


def _option_name(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag or option.count:
        return names
    value = option.metavar or option.type.get_metavar(option, context) or option.type.name.upper()
    return f"{names} {_cell(f'`{value}`')}" + (" (may be repeated)" if option.multiple else "")


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    if option.is_flag or option.multiple or option.default is None or not option.show_default:
        return ""
    return f"`{option.default}`"


def _cell(text: str) -> str:
    """Escape text for a table's cell."""
    return text.replace("|", "\\|").replace("\n", " ")


# The settings


def _settings() -> Iterator[str]:
    fields = import_module("registry.settings").Settings.model_fields
    grouped = [name for _, names in SETTING_GROUPS.values() for name in names]
    if sorted(grouped) != sorted(fields):
        message = f"settings {sorted(set(grouped) ^ set(fields))}: SETTING_GROUPS must hold each setting once"
        raise LookupError(message)
    yield SETTINGS
    for title, (text, names) in SETTING_GROUPS.items():
        yield from (f"## {title}", "", text, "")
        yield from ("| Variable | Default | Takes | Meaning |", "|---|---|---|---|")
        for name in names:
            field = fields[name]
            meaning = re.sub(r"\b[a-z]+://\S*\w", r"`\g<0>`", _cell(field.description))
            cells = (_setting_default(field), _takes(field), meaning)
            yield f"| `SHUFFLEBOARD_{name.upper()}` | {' | '.join(cells)} |"
        yield ""


def _setting_default(field: Any) -> str:
    if field.default_factory is not None:
        return "the user's data directory"
    if field.default in ("", None):
        return "empty"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return f"`{field.default:g}`" if isinstance(field.default, float) else f"`{field.default}`"


def _takes(field: Any) -> str:
    """Describe the possible values of a setting: its type and its bounds."""
    kinds: dict[Any, str] = {bool: "`true` or `false`", int: "a whole number", float: "a number", str: "text"}
    words = {"ge": "at least", "gt": "more than", "le": "at most"}
    bounds = [f"{words[bound]} {getattr(item, bound):,}" for item in field.metadata for bound in item.__slots__]
    return ", ".join((kinds.get(field.annotation, "a path"), *bounds))


# The metrics


def _metrics() -> Iterator[str]:
    catalogue, guide = import_module("registry.metrics.catalogue"), import_module(GUIDE)
    yield METRICS
    listed = [(family.title, family.metrics) for family in catalogue.FAMILIES]
    for title, entries in (*listed, ("Between protocols", guide.BETWEEN)):
        yield f"- {title}: {', '.join(f'[`{entry.name}`](#{entry.name})' for entry in entries)}"
    yield from ("", "## Notation", "")
    yield from (f"- ${symbol}$: {meaning}" for symbol, meaning in guide.NOTATION)
    yield from ("", "## Examples", "")
    yield from ("Every metric is worked on one of these. A test computes the values from the definitions.", "")
    for dataset in import_module("registry.metrics.examples").DATASETS:
        yield f"- **{dataset.title}.** {dataset.text}"
    for family in catalogue.FAMILIES:
        yield from ("", f"## {family.title}", "", _link(family.text))
        needs = _shared(metric.needs for metric in family.metrics)
        wheres = {metric.name: _where(metric) for metric in family.metrics}
        where = _shared(wheres.values())
        yield from ("", f"- **Needs**, unless stated: {_link(needs)}") if needs else ()
        yield f"- **Definition**{'' if set(wheres.values()) == {where} else ', unless stated'}: {where}"
        shown: set[str] = set()
        for metric in family.metrics:
            elsewhere = "" if wheres[metric.name] == where else wheres[metric.name]
            yield from _entry(metric, metric.formula_is_for, elsewhere, needs, shown)
    yield from ("", "## Between protocols", "", _link(guide.BETWEEN_TEXT))
    compared = (
        "[`registry/studies/protocol_comparison.py`](../registry/studies/protocol_comparison.py); "
        "[how to](which-metric.md#compare-two-ways-of-asking)"
    )
    for comparison in guide.BETWEEN:
        yield from _entry(comparison, "two evaluations", compared, "", set())
    yield from ("", "## Guessing", "", *_formulas(guide.GUESSING.formulas))
    for paragraph in guide.GUESSING.text:
        yield from (_link(paragraph), "")
    yield from (f"Source: {_sources(guide.GUESSING)}.", "")
    yield from ("## Above chance", "", *_formulas(guide.ABOVE_CHANCE.formulas))
    for paragraph in guide.ABOVE_CHANCE.text:
        yield from (_link(paragraph), "")
    yield from (f"Guessing: {_sources(guide.ABOVE_CHANCE)}; the scale is ours.", "")
    yield from ("## Intervals", "", f"{_link(guide.INTERVALS)} More: [how sure a number is](statistics.md).", "")
    yield from ("## Papers", "")
    for paper in import_module("registry.metrics.papers").PAPERS.values():
        address = f"[arXiv {paper.arxiv}](https://arxiv.org/abs/{paper.arxiv})"
        yield f"- {paper.authors}: *{paper.title}*, {paper.year}, {address}."


def _where(metric: Any) -> str:
    """Return links to the file and the view of a metric."""
    path = f"{_module_of(metric).replace('.', '/')}.py"
    return f"[`{path}`](../{path}); view `{metric.view}`"


def _shared(texts: Iterable[str]) -> str:
    """Return the text with which most of these texts begin; empty if fewer than three do."""
    listed = list(texts)
    begun = {text: sum(longer.startswith(text) for longer in listed) for text in listed}
    most = max(begun, key=lambda text: begun[text])
    return most if begun[most] > 2 else ""


def _entry(entry: Any, formula_is_for: str, where: str, needs: str, said: set[str]) -> Iterator[str]:
    """Yield the section of a metric, or of a comparison.

    where: place of its definition; empty if its family states it. needs: needs that its family's section has stated.
    said: remarks of earlier metrics, which are not repeated; this section's remarks are added.
    """
    better = "" if entry.better == "neither" else f", {entry.better} is better"
    example = entry.example
    against = "" if example.against is None else f" against {example.against.title.lower()}"
    yield from ("", f"### `{entry.name}`", "", f"**{entry.label}.** {entry.summary}", "", *_formulas(entry.formulas))
    range_text = import_module(GUIDE).range_text(entry.low, entry.high, entry.unit)
    formula = "" if formula_is_for == "each question" else f"; the formula is for {formula_is_for}"
    if (stated := f"{range_text}{better}{formula}") != USUAL_RANGE:
        yield f"- **Range:** {stated}"
    own_needs = entry.needs.removeprefix(needs).strip()
    if own_needs:
        also = "Needs also" if needs and entry.needs.startswith(needs) else "Needs"
        yield f"- **{also}:** {_link(own_needs)}"
    yield (
        f"- **Example**, [{example.dataset.title.lower()}](#examples){against}: {_link(example.arithmetic)} "
        f"Value: **{example.value}**"
    )
    if entry.differs is not None:
        yield f"- **Published otherwise:** {'as above' if entry.differs in said else _link(entry.differs)}"
        said.add(entry.differs)
    version = getattr(entry, "definition_version", 1)
    yield f"- **Source:** {_sources(entry)}{f'; definition version {version}' if version > 1 else ''}"
    yield from (f"- **Definition:** {where}",) if where else ()


def _formulas(formulas: Iterable[str]) -> Iterator[str]:
    for formula in formulas:
        yield from ("$$", formula, "$$", "")


def _sources(entry: Any) -> str:
    return "; ".join(f"{source.paper}, {source.place}" for source in entry.sources)


def _link(text: str) -> str:
    """Return a text of the guide with links to the metrics that it names."""
    between = import_module(GUIDE).BETWEEN
    names = {*import_module("registry.metrics").METRICS, *(comparison.name for comparison in between)}
    return re.sub(r"`(\w+)`", lambda match: f"[{match[0]}](#{match[1]})" if match[1] in names else match[0], text)


def _module_of(metric: Any) -> str:
    """Return the module of a metric's definition.

    Raises LookupError if it has no docstring, so that no metric is published without documentation.
    """
    function = metric.averaging.function
    # For a function that another function creates, the docstring is the other's.
    maker = getattr(import_module(function.__module__), function.__qualname__.split(".")[0])
    if not maker.__doc__:
        message = f"metric {metric.name}: {maker.__name__} in {function.__module__} has no docstring; write one"
        raise LookupError(message)
    return str(function.__module__)


# The HTTP API

_ROUTES: Final = re.compile(
    r"(?<=^<!-- routes: written by docs/generate.py -->\n).*?(?=^<!-- /routes -->$)", re.MULTILINE | re.DOTALL
)


def _with_routes(page: str) -> str:
    """Return a page with its table of routes filled."""
    return _ROUTES.sub("\n".join(["", *_routes(), ""]), page)


_HEADINGS: Final = {"sql": "SQL"}


def _routes() -> Iterator[str]:
    from web import create_app
    from web.api import openapi

    with create_app(database_url="sqlite://").app_context():
        document = openapi.document()
    for tag in document["tags"]:
        yield from (f"### {_HEADINGS.get(tag['name'], tag['name'].capitalize())}", "", tag["description"], "")
        yield from ("| Route | Scope | Parameters | What it does |", "|---|---|---|---|")
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"]:
                    listed = ", ".join(f"`{name}`" for name in _list_parameters(operation, document))
                    route = f"{method.upper()} {path.removeprefix('/api/v1')}"
                    yield f"| `{route}` | {operation['x-scope']} | {listed} | {_cell(operation['summary'])} |"
        yield ""


def _list_parameters(operation: dict[str, Any], document: dict[str, Any]) -> list[str]:
    """Return the names of an operation's query parameters, and of the keys of its body."""
    names = [item["name"] for item in operation["parameters"] if item["in"] == "query"]
    kinds = operation.get("requestBody", {}).get("content", {})
    if "application/json" in kinds and "$ref" in kinds["application/json"]["schema"]:
        schema = document["components"]["schemas"][kinds["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]]
        return [*names, *schema["properties"]]
    return [*names, "a file"] if kinds else names


# The rooms


def _with_rooms(page: str) -> str:
    """Return a page with its tables of folders: pyproject.toml's order, and the first line of each docstring."""
    contracts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    floors = next(contract["layers"] for contract in contracts["contracts"] if contract.get("exhaustive"))
    rooms = []
    for number, names in enumerate(floors, start=1):
        for name in names.split(" | "):
            folder = DOCS.parent / "registry" / name
            paths = [folder, *sorted(path.parent for path in folder.glob("*/__init__.py"))]
            rooms += [f"| {number} | {_room(path)} |\n" for path in paths]
    folders = [
        f"| {_room(path.parent)} |\n"
        for top in ("web", "workers")
        for path in sorted((DOCS.parent / top).glob("*/__init__.py"))
    ]
    for table, rows in (("rooms", rooms), ("folders", folders)):
        marked = re.compile(
            rf"(?<=^<!-- {table}: written by docs/generate.py -->\n\n)(\|.*\n\|.*\n)(?:\|.*\n)*", re.MULTILINE
        )
        page = marked.sub(lambda match, rows=rows: match[1] + "".join(rows), page)
    return page


def _room(path: Path) -> str:
    """Return the cells of a folder or module: its name, and the first sentence of its docstring."""
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    name = file.relative_to(DOCS.parent).as_posix().removesuffix("__init__.py")
    return f"`{name}` | {_cell(docstring.splitlines()[0].removesuffix('.'))}"


# Variants and prompts


_EXAMPLE: Final = re.compile(
    r"^```text (?P<what>variants|prompt)=(?P<spec>\S+)(?P<rest>[^\n]*)\n.*?^```$", re.MULTILINE | re.DOTALL
)


def _with_examples(page: str) -> str:
    """Return a page with its marked blocks filled: a set of variants, or a prompt."""

    def fill(match: re.Match[str]) -> str:
        rest = dict(item.split("=") for item in match["rest"].split())
        text = _variants(match["spec"], **rest) if match["what"] == "variants" else _prompt(match["spec"], **rest)
        return f"```text {match['what']}={match['spec']}{match['rest']}\n{text}\n```"

    return _EXAMPLE.sub(fill, page)


def _variants(spec: str, options: str, answer: str) -> str:
    """Return the ordinal, name and order of each variant of a question `q1`."""
    registry = import_module("registry.prompting.variants")
    shape = registry.QuestionShape("q1", int(options), int(answer))
    shown = registry.parse_variants(spec).variants(shape)
    width = max(len(variant.name) for variant in shown)
    return "\n".join(
        f"{variant.ordinal:>2}  {variant.name:{width}}  {' '.join(map(str, variant.order))}" for variant in shown
    )


def _prompt(spec: str, variant: str, shots: str, protocol: str = "symbols") -> str:
    """Return the prompt of the example question, under one variant of a set."""
    prompts, variants = import_module("registry.prompting.prompts"), import_module("registry.prompting.variants")
    question = prompts.QuestionText(
        "q1",
        "high_school_physics",
        None,
        "Which of these is a unit of force?",
        ("joule", "newton", "watt", "pascal"),
        1,
    )
    example = prompts.QuestionText(
        "e1",
        "high_school_physics",
        None,
        "Which of these is a unit of time?",
        ("second", "metre", "kelvin", "mole"),
        0,
    )
    definition = variants.parse_variants(spec)
    shape = variants.QuestionShape(question.external_id, len(question.options), question.answer)
    asking_way = import_module("registry.prompting.protocols.store").protocol_definition(protocol, int(shots))
    shown = definition.variants(shape)[int(variant)]
    examples = [example][: int(shots)]
    return str(prompts.build_prompt(asking_way, question, shown, examples, definition.inserted()).text)


def _with_kinds(page: str) -> str:
    """Return a page with its table of kinds filled; the links in its first column are kept."""
    registry = import_module("registry.prompting.variants")

    def row(name: str, cells: list[str]) -> str:
        kind = registry.VARIANT_KINDS[name]
        linked = cells[0] if cells else f"[`{name}`](#{name})"
        # Orders that somebody else used cannot be generated; the import sets their one parameter.
        generated = name != "imported"
        four = registry.QuestionShape("q1", 4, 1)
        of_four = len(registry.parse_variants(name).variants(four)) if generated else ""
        listed = (f"`{key}`" + (f" (`{value}`)" if value != "" else "") for key, value in kind.parameters.items())
        parameters = ", ".join(listed) if generated else ""
        return f"| {linked} | {kind.count} | {of_four} | {parameters} | {kind.source} |"

    return _with_rows(page, "kinds", registry.VARIANT_KINDS, row)


def _with_shipped(page: str) -> str:
    """Return a page with its table of shipped protocols filled, except for their purpose."""
    folder = DOCS.parent / "registry" / "prompting" / "protocols" / "shipped"
    shipped = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.toml"))}

    def row(name: str, cells: list[str]) -> str:
        changed = {key: value for key, value in shipped[name].items() if key not in {"name", "base"}}
        flat = {
            inner: text
            for key, value in changed.items()
            for inner, text in (value.items() if isinstance(value, dict) else [(key, value)])
        }
        listed = ", ".join(f"`{key} = {json.dumps(value, ensure_ascii=False)}`" for key, value in flat.items())
        purpose = cells[-1] if cells else ""
        return f"| `{name}` | `{shipped[name]['base']}` | {listed} | {purpose} |"

    return _with_rows(page, "shipped", shipped, row)


def _with_rows(page: str, table: str, names: Iterable[str], row: Callable[[str, list[str]], str]) -> str:
    """Return a page with the rows of a marked table rewritten.

    row: builds a row from a name and the cells of the first row with that name, if there is one yet.
    """
    marked = re.compile(rf"(?<=^<!-- {table}: written by docs/generate.py -->\n\n)(?:\|.*\n)+", re.MULTILINE)

    def fill(match: re.Match[str]) -> str:
        heading, rule = match[0].splitlines()[:2]
        cells = {re.findall(r"`([^`]+)`", row_cells[0])[0]: row_cells for row_cells in _rows(match[0])}
        rows = (row(name, cells.get(name, [])) for name in names)
        return "".join(f"{line}\n" for line in (heading, rule, *(line.replace("  ", " ") for line in rows)))

    return marked.sub(fill, page)


def _rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the tables in a text, without headings."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    yield from ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:])


# The views


def _verdicts() -> Iterator[str]:
    """Yield the table of sentences, with their conditions."""
    yield "# Verdicts"
    yield ""
    yield "<!-- Written by docs/generate.py: edit the code it reads, then run it again. -->"
    yield ""
    yield "This page is for you if you doubt a sentence on the website, or add one. It lists every sentence that pages,"
    yield "the terminal, pictures and published sites print about results. Words in braces are filled in. Under each"
    yield "heading, the first sentence of a topic whose condition holds is printed. `{twice}` is, for example,"
    yield "“right twice in one order 80.0 %, once in each of two orders 70.0 %”. If only some questions have repeated"
    yield "prompts, you read “right in two orders 70.0 %; on the 150 of 400 questions with a repeated prompt, right"
    yield "twice in one order 82.0 %”."
    yield ""
    yield "If answers are sampled, or may be, and no prompt was repeated, no sentence attributes a loss to the order."
    yield "To measure the cost of the order, ask each prompt several times, with"
    yield "[`repeats`](variants-and-protocols.md#asking-again-repeats)."
    for subject in import_module("registry.verdicts.table").TABLE.values():
        yield ""
        yield f"## {subject.shown}"
        yield ""
        yield "| Topic | Sentence | Printed if |"
        yield "|---|---|---|"
        for row in subject.sentences:
            condition = getdoc(row.holds).split("\n")[0].removeprefix("Return whether ").rstrip(".")
            yield f"| {row.topic} | {row.text} | {condition} |"


def _findings() -> Iterator[str]:
    """Yield the catalogue of findings of an audit."""
    catalogue = import_module("registry.logs.audit.catalogue")
    yield "# Findings of an audit"
    yield ""
    yield "<!-- Written by docs/generate.py: edit the code it reads, then run it again. -->"
    yield ""
    yield "This page is for you if `shuffleboard audit` named something and you want to know what it means. [Audit"
    yield "logs](how-to/audit-logs.md) explains the command. Numbers and names of findings stay as they are."
    yield ""
    yield "- *error*: a number in the log is wrong, or cannot be trusted."
    yield "- *warning*: the number needs a remark wherever it is shown."
    yield "- *note*: something worth knowing."
    for title, kinds in catalogue.CHAPTERS:
        yield ""
        yield f"## {title}"
        yield ""
        yield "| Number | Name | Severity | Reported when | Example | Remedy |"
        yield "|---|---|---|---|---|---|"
        for kind in kinds:
            yield f"| {kind.id} | `{kind.name}` | {kind.severity} | {kind.when} | {kind.example} | {kind.remedy} |"


def _views() -> Iterator[str]:
    views = import_module(DOCUMENTED).load_documented_views(markdown=True)
    yield VIEWS
    yield from ("| View | One row per | Use it for |", "|---|---|---|")
    for view in views:
        yield f"| [{view.name}](#{view.name}) | {view.one_row_per} | {view.use_it_for} |"
    for view in views:
        yield from ("", f"## {view.name}", "", view.text, "")
        yield from ("| Column | Meaning | Unit | NULL |", "|---|---|---|---|")
        rows: dict[tuple[str, str, str], list[str]] = {}
        for item in view.columns:
            meaning = re.sub(r"`\w+`", "the metric", item.meaning) if item.name.endswith("_n") else item.meaning
            # Metrics with the same unit share a row: their meanings are on the page to which each name links.
            of_metric = re.fullmatch(rf"\[.*\]\((metrics\.md#{item.name})\)", meaning)
            name = f"[`{item.name}`]({of_metric[1]})" if of_metric else f"`{item.name}`"
            key = ("The metric of this name" if of_metric else meaning, item.unit, item.null)
            rows.setdefault(key, []).append(name)
        yield from (f"| {', '.join(names)} | {' | '.join(texts)} |" for texts, names in rows.items())


# Third-party parts

SOURCES: Final = {"npm": "https://www.npmjs.com/package/", "github": "https://github.com/"}


def _third_party() -> Iterator[str]:
    listed = tomllib.loads((DOCS / "third-party.toml").read_text(encoding="utf-8"))
    yield THIRD_PARTY
    yield from ("| Name | Version | Licence | Source |", "|---|---|---|---|")
    for part in listed["part"]:
        kind, _, place = part["source"].partition(":")
        link = f"[{part['source']}]({SOURCES[kind]}{place or part['name']})"
        version = part["version"][:12] if len(part["version"]) == 40 else part["version"]
        yield f"| {part['name']} | {version} | [{part['licence']}](../{part['text']}) | {link} |"
    yield from ("", "## Files", "", "| File | What it does | Consists of | SHA-256 |", "|---|---|---|---|")
    for file in listed["file"]:
        yield f"| `{file['path']}` | {file['use']} | {', '.join(file['parts'])} | `{file['sha256']}` |"


# Types of answers

if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        click.echo(f"wrote {path.relative_to(DOCS.parent)}")
