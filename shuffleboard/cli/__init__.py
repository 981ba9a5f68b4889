"""The command line. Commands are imported when they are called, so that `--help` is fast."""

import gc
import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Final

import click
from click.shell_completion import CompletionItem

from registry import __version__
from registry.errors import ShuffleboardError
from registry.packages import missing_package
from shuffleboard.cli.examples import with_examples

GROUPS: Final = {
    "Start": {
        "demo": "Show recorded answers of real models, then score a small one.",
        "benchmarks": "Fetch, import, generate and list benchmarks.",
        "models": "Register and list models.",
        "evaluations": "Submit, import, watch and read evaluations.",
        "leaderboard": "Show the leaderboard.",
        "audit": "Check logs of evaluations, without a registry.",
        "serve": "Serve the leaderboard on the web.",
    },
    "Results": {
        "statistics": "Compare evaluations; noise, PriDe, guessing, papers.",
        "ranks": "Rank the models of a table of scores, without a registry.",
        "protocols": "Import and list protocols: how models are asked.",
        "verify": "Check an evaluation against its seal, or a published board.",
        "export": "Write results as files for other programs.",
        "orders": "Write a benchmark's orders as a task for lm-evaluation-harness.",
    },
    "Publish": {
        "suites": "Fetch, import and list suites: the test that every model takes.",
        "boards": "Import and list the tables you publish.",
        "publish": "Write a board as a site of files, for any web server.",
        "submissions": "Review submissions.",
        "chain": "List, verify and sign the chain of seals.",
    },
    "Operate": {
        "worker": "Score queued evaluations until stopped.",
        "db": "Create, upgrade and check the database.",
        "doctor": "Check a deployment and suggest fixes.",
        "apply": "Set up all that a file describes.",
        "accounts": "Manage accounts, tokens and the audit trail.",
        "budgets": "Limit the cost of calls to providers.",
        "completion": "Complete commands with the Tab key.",
    },
}
"""Commands with their line in `--help`, in the order in which a newcomer needs them."""

COMMANDS: Final = {name: text for commands in GROUPS.values() for name, text in commands.items()}

HIDDEN: Final = {
    "metrics": "evaluations metrics",
    "provenance": "evaluations provenance",
    "compare-protocols": "statistics compare-protocols",
    "assess": "statistics assess",
    "protocol": "statistics assess",
    "published": "statistics published",
    "alive": "worker alive",
    "beat": "worker beat",
}
"""Short names that also work without their group, and the command that each stands for."""


_ELSEWHERE: Final = {
    "db": "database:db",
    "leaderboard": "reports:leaderboard",
    "verify": "proof:verify",
    "chain": "proof:chain",
    "suites": "boards:suites",
    "apply": "apply:apply_command",
    "export": "exports:export_command",
}
"""Module and attribute of commands that are not in a module of their own name."""


def load(name: str) -> click.Command:
    """Import a command in COMMANDS. Only `worker` imports the workers' packages, and only `serve` the website's."""
    module, _, attribute = _ELSEWHERE.get(name, f"{name}:{name}").partition(":")
    command: click.Command = getattr(import_module(f"shuffleboard.cli.{module}"), attribute)
    return with_examples(command, name)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        name, _, inner = HIDDEN.get(cmd_name, cmd_name).partition(" ")
        if name not in COMMANDS:
            return None
        command: click.Command | None = load(name)
        if inner and isinstance(command, click.Group):
            command = command.get_command(ctx, inner)
        if not gc.isenabled():  # `main` disabled it
            gc.freeze()
            gc.set_threshold(100_000)  # otherwise a command that reads many rows would collect hundreds of times
            gc.enable()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names; an error about it keeps the others in its context."""
        ctx.args = args[1:]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with this text, without importing any command."""
        names = [
            CompletionItem(name, help=summary) for name, summary in COMMANDS.items() if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the tables of commands, without importing any."""
        widest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), text) for name, text in commands.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="shuffleboard")
def cli() -> None:
    """Measure how fragile multiple-choice scores of language models are, and serve them as a leaderboard.

    \b
    A first board, from nothing:
      shuffleboard benchmarks import questions.jsonl --name exam
      shuffleboard models add llm --kind huggingface --location ./my-model
      shuffleboard evaluations submit --model llm --benchmark exam --wait
      shuffleboard leaderboard
      shuffleboard serve

    \b
    Settings are environment variables:
      SHUFFLEBOARD_HOME          data directory (default: the user's)
      SHUFFLEBOARD_DATABASE_URL  PostgreSQL or SQLite (default: SQLite in it)
      SHUFFLEBOARD_BROKER_URL    Redis, for many workers (default: none)
    """  # noqa: D301 - \b is click's mark for "do not wrap"


def main() -> None:
    """Run the command line without tracebacks: status 0 for success, 1 for a refused request, 2 for a usage error."""
    # Imports create hardly any garbage, and searching for it takes a fifth of the start-up time.
    gc.disable()
    try:
        cli.main(prog_name="shuffleboard", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        from shuffleboard.cli import misuse

        explained = misuse.explain_misuse(error, cli)
        if isinstance(explained, click.ClickException):
            misuse.show(explained)
            sys.exit(error.exit_code)
        click.echo(f"Error: {explained}", err=True)
        sys.exit(explained.exit_status)
    except ShuffleboardError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        sys.exit(1)
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        click.echo(f"Error: {missing}", err=True)
        sys.exit(missing.exit_status)
    except Exception as error:
        from registry.files.storage import explain  # it imports SQLAlchemy

        storage_error = explain(error)
        if storage_error is None:
            raise
        _forget_output()
        click.echo(f"Error: {storage_error}", err=True)
        sys.exit(storage_error.exit_status)
    finally:
        if "duckdb" in sys.modules:
            gc.unfreeze()  # otherwise it reports forty lines about objects that it cannot delete


def _forget_output() -> None:
    """Discard pending output if standard output is full, which would end Python with a traceback."""
    with suppress(OSError, ValueError):
        if isinstance(sys.stdout, io.TextIOWrapper):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
