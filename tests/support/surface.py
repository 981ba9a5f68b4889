"""Everything that users can reach: every route with the right that it requires, and every command.

Tests that visit all of them use these lists. A new route needs a line here; `tests/api/test_routes.py` fails until it
has one. The API's routes are in `OPERATIONS` of `web/api`, with the scopes that they require.
"""

from dataclasses import dataclass
from typing import Final

import click

from shuffleboard.cli import cli
from web.api import OPERATIONS

PAGES: Final = {
    "/": "read",
    "/account": "account",
    "/accounts": "admin",
    "/accounts/<name>": "admin",
    "/api": "read",
    "/audit": "admin",
    "/benchmarks": "read",
    "/benchmarks/<benchmark>": "read",
    "/benchmarks/<benchmark>/answer-moving": "read",
    "/boards": "read",
    "/boards/<name>": "read",
    "/boards/<name>/own": "read",
    "/boards/<name>/pairs": "read",
    "/boards/<name>/trade-offs": "read",
    "/chain": "read",
    "/compare": "read",
    "/evaluations/<evaluation_id>": "read",
    "/evaluations/<evaluation_id>/provenance": "read",
    "/evaluations/<evaluation_id>/questions/<question_id>": "read",
    "/metrics-guide": "read",
    "/models": "read",
    "/models/<model>": "read",
    "/overview": "read",
    "/proof": "read",
    "/protocol": "read",
    "/questions/<question_id>": "read",
    "/queue": "read",
    "/sign-in": "open",
    "/snapshots/<digest>": "read",
    "/sql": "sql",
    "/sql/<slug>": "sql",
    "/submissions": "maintain",
    "/submissions/<submission_id>": "submit",
    "/submit": "submit",
    "/withdrawn": "read",
}
"""Rule of a page → the right that it requires.

"open": anyone, even if anonymous reading is off. "read": anyone who may read. "account": users who signed in with a
password, because a token must not make others. Otherwise a scope.
"""
FILES: Final = {
    "/api/v1/openapi.json": "open",
    "/boards/<name>/table.<any(csv, parquet, md, tex):form>": "read",
    "/chain/key.pem": "read",
    "/chain/keys/<key>.pem": "read",
    "/evaluations/<evaluation_id>.bib": "read",
    "/feed.atom": "read",
    "/healthz": "open",
    "/leaderboard.<any(parquet, md, tex):form>": "read",
    "/leaderboard.csv": "read",
    "/metrics": "read",
    "/readyz": "open",
    "/snapshots/<digest>.bib": "read",
    "/snapshots/<digest>/table.<any(csv, parquet, md, tex):form>": "read",
    "/sql.<any(csv, json, parquet):kind>": "sql",
    "/static/<path:filename>": "open",
    "/theme": "open",
}
"""Rules that answer GET with something other than a page."""
FORMS: Final = {
    "/account/password": "account",
    "/account/sign-out": "account",
    "/account/tokens": "account",
    "/account/tokens/<int:token_id>/revoke": "account",
    "/accounts": "admin",
    "/accounts/<name>": "admin",
    "/accounts/tokens/<int:token_id>/revoke": "admin",
    "/boards/<name>/own": "submit",
    "/evaluations/<evaluation_id>/replay": "maintain",
    "/sign-in": "open",
    "/sign-out": "read",
    "/sql": "sql",
    "/sql.<any(csv, json, parquet):kind>": "sql",
    "/sql/<slug>/delete": "sql",
    "/sql/saved": "sql",
    "/submissions/<submission_id>/decide": "maintain",
    "/submissions/<submission_id>/withdraw": "submit",
    "/submit": "submit",
}
"""Rules to which browsers send forms."""


@dataclass(frozen=True)
class Route:
    """A method and a rule, with the right that they require."""

    method: str
    rule: str
    right: str


ROUTES: Final = (
    *(Route("GET", rule, right) for rule, right in (PAGES | FILES).items()),
    *(Route("POST", rule, right) for rule, right in FORMS.items()),
    *(Route(operation.method, f"/api/v1{operation.rule}", operation.scope) for operation in OPERATIONS),
)
READ: Final = tuple(route.rule for route in ROUTES if route.method == "GET")
"""Rules that answer GET."""


def _commands(name: str, command: click.Command) -> dict[str, click.Command]:
    if not isinstance(command, click.Group):
        return {name: command}
    commands = {name: command} if name else {}
    with click.Context(command) as context:
        for word in command.list_commands(context):
            under = command.get_command(context, word)
            assert under is not None
            commands |= _commands(f"{name} {word}".strip(), under)
    return commands


COMMANDS: Final = _commands("", cli)
"""Name of a command, such as `models add` → the command; groups precede their commands."""
GROUPS: Final = {name: command for name, command in COMMANDS.items() if isinstance(command, click.Group)}
LEAVES: Final = {name: command for name, command in COMMANDS.items() if name not in GROUPS}
