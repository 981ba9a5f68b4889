"""Runs the command line in this process, because starting a process takes longer than the command."""

import json
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner
from sqlalchemy import Engine

from registry.errors import ShuffleboardError
from shuffleboard.cli import cli


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command.

    code: its exit status; for an error of the registry, the status of that error.
    """

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """Return the document that the command printed with --json."""
        return json.loads(self.stdout)


def run(engine: Engine, *arguments: object) -> Outcome:
    """Run `shuffleboard ARGUMENTS` on the engine's database."""
    url = engine.url.render_as_string(hide_password=False)
    outcome = CliRunner().invoke(cli, [str(argument) for argument in arguments], env={"SHUFFLEBOARD_DATABASE_URL": url})
    if isinstance(outcome.exception, ShuffleboardError):
        return Outcome(outcome.exception.exit_status, outcome.stdout, f"{outcome.stderr}{outcome.exception}")
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    return Outcome(outcome.exit_code, outcome.stdout, outcome.stderr)
