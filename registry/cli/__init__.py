"""The command line. Commands are loaded when they are called, so that `--help` answers at once."""

import sys
from importlib import import_module
from typing import Final

import click

from registry import __version__
from registry.errors import ShuffleboardError, UsageError

# Command to where it lives and what `--help` says of it. Workers and web are named, not imported: the registry knows
# neither, and neither is needed on every host.
COMMANDS: Final = {
    "db": ("registry.cli.database:db", "Create, upgrade and check the database."),
    "benchmarks": ("registry.cli.benchmarks:benchmarks", "Import, generate and list benchmarks."),
    "models": ("registry.cli.models:models", "Register and list models."),
    "protocols": ("registry.cli.protocols:protocols", "Import and list protocols: how models are asked."),
    "evaluations": ("registry.cli.evaluations:evaluations", "Submit, watch and steer evaluations."),
    "suites": ("registry.cli.boards:suites", "Import and list suites: what is asked of every model."),
    "boards": ("registry.cli.boards:boards", "Import and list boards: the tables you publish."),
    "metrics": ("registry.cli.reports:metrics", "Show an evaluation's metrics."),
    "leaderboard": ("registry.cli.reports:leaderboard", "Show the leaderboard."),
    "compare-protocols": ("registry.cli.protocol_comparison:compare_protocols", "Compare two ways of asking."),
    "protocol": ("registry.cli.protocol:protocol", "Find the cheapest variant set that stands for all orders."),
    "published": ("registry.cli.published:published", "Show numbers that papers print."),
    "statistics": ("registry.cli.statistics:statistics", "Compare evaluations; noise, PriDe, bootstraps, guessing."),
    "export": ("registry.cli.exports:export_command", "Write results as files for other programs."),
    "submissions": ("registry.cli.submissions:submissions", "Decide on what submitters ask for."),
    "webhooks": ("registry.cli.webhooks:webhooks", "Keep the addresses that are told of what happens."),
    "provenance": ("registry.cli.proof:provenance", "Show where an evaluation's numbers come from."),
    "verify": ("registry.cli.proof:verify", "Check an evaluation against its seal."),
    "chain": ("registry.cli.proof:chain", "List or verify the chain of seals."),
    "drift": ("registry.cli.proof:drift", "Show what changed between two runs of the same prompts."),
    "accounts": ("registry.cli.accounts:accounts", "Keep accounts, tokens and the audit trail."),
    "doctor": ("registry.cli.doctor:doctor", "Check a deployment and say what to do."),
    "worker": ("workers.cli:worker", "Score queued evaluations until stopped."),
    "beat": ("registry.cli.beat:beat", "Keep the queue moving while no worker does; score nothing."),
    "alive": ("registry.cli.beat:alive", "End with status 1 unless a worker, or beat, of this host is alive."),
    "serve": ("web.cli:serve", "Serve the leaderboard on the web."),
    "demo": ("registry.cli.demo:demo", "Score two small benchmarks with a real model and show the leaderboard."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names, in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Imports and returns one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The table of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="shuffleboard")
def cli() -> None:
    """Measure how fragile multiple-choice scores of language models are, and serve them as a leaderboard.

    \b
    A first board, from nothing:
      shuffleboard benchmarks import questions.jsonl --name my-benchmark
      shuffleboard models add my-model --kind huggingface --location ./my-model
      shuffleboard evaluations submit --model my-model --benchmark my-benchmark --variants cyclic --wait
      shuffleboard leaderboard
      shuffleboard serve

    \b
    Settings are environment variables:
      SHUFFLEBOARD_HOME          data directory (default: the user's data directory)
      SHUFFLEBOARD_DATABASE_URL  PostgreSQL or SQLite (default: SQLite in the data directory)
      SHUFFLEBOARD_BROKER_URL    Redis, for many workers (default: none, workers poll the database)
    """  # noqa: D301 - \b is click's mark for "do not wrap"


def main() -> None:
    """Runs the command line: 0 done, 1 a problem with what was asked, 2 a usage error. No traceback for either."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ShuffleboardError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        sys.exit(1)
    except ModuleNotFoundError as error:
        if error.name in ("torch", "transformers", "gguf", "huggingface_hub", "torchao"):
            message = (
                f"{error.name} is not installed here; install the worker's packages: pip install 'shuffleboard[worker]'"
            )
            click.echo(f"Error: {message}", err=True)
            sys.exit(UsageError.exit_status)
        raise


if __name__ == "__main__":
    main()
