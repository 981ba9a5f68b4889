"""`shuffleboard budgets`."""

import click
from sqlalchemy import select

from registry.db import read_session, write_session
from registry.errors import NotFoundError
from registry.operations.opening import engine_of
from registry.proposals import propose
from registry.providers.budgets import budget_document, set_budget
from registry.providers.prices import load_prices
from registry.tables.providers import BUDGET_KINDS, Budget
from shuffleboard.cli.common import json_option, note, print_document, settings_of, tell
from shuffleboard.cli.groups import Group
from shuffleboard.cli.tables import parse_headings, print_table, table_options

_KIND = click.argument("kind", type=click.Choice(BUDGET_KINDS))


@click.group(cls=Group)
def budgets() -> None:
    """Limit the cost of calls to providers."""


@budgets.command("set")
@_KIND
@click.argument("subject")
@click.argument("amount", type=float)
@json_option
def set_command(kind: str, subject: str, amount: float) -> None:
    """Let an evaluation, a submission or an account's evaluations cost AMOUNT at most.

    SUBJECT is the number of the evaluation or submission, or the account's name. Earlier spending counts. An
    evaluation whose budget is too small for another answer is paused; after a raise, resume it.
    """
    settings = settings_of()
    with write_session(engine_of(settings)) as session:
        row = set_budget(session, kind, subject, amount)
        assert row is not None
        document = budget_document(row)
    currency = load_prices(settings.prices).currency
    if print_document(document | {"currency": currency}):
        return
    click.echo(f"{kind} {document['subject']} may cost {amount:g} {currency}; {document['spent']:.4f} is spent")


@budgets.command("remove")
@_KIND
@click.argument("subject")
@json_option
def remove_command(kind: str, subject: str) -> None:
    """Remove a budget: nothing limits the cost any more."""
    with write_session(engine_of(settings_of())) as session:
        if session.get(Budget, (kind, subject)) is None:
            raise NotFoundError(f"{kind} {subject} has no budget; see: {propose('budgets list')}")
        set_budget(session, kind, subject, None)
    tell({"removed": True}, f"{kind} {subject} has no budget any more")


@budgets.command("list")
@table_options
@json_option
def list_command() -> None:
    """List budgets with the money spent and the most that calls under way can cost."""
    settings = settings_of()
    with read_session(engine_of(settings)) as session:
        rows = [budget_document(row) for row in session.scalars(select(Budget).order_by(Budget.kind, Budget.subject))]
    currency = load_prices(settings.prices).currency
    if print_document({"budgets": rows, "currency": currency}):
        return
    headings = parse_headings("kind, subject: Of, amount, spent, held: Under way, left")
    print_table(rows, headings, "no budgets")
    if rows:
        note(f"in {currency}")
