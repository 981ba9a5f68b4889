"""`shuffleboard webhooks`."""

import click

from registry.db import read_session, write_session
from registry.errors import RemoteError
from registry.notices import KINDS
from registry.notices.webhooks import (
    add_webhook,
    current_webhooks,
    recent_deliveries,
    remove_webhook,
    try_webhook,
    webhook_document,
)
from registry.operations.opening import engine_of
from registry.people.accounts import OPERATOR, find_account
from shuffleboard.cli.common import json_option, note, printed, settings_of, tell
from shuffleboard.cli.groups import Group
from shuffleboard.cli.tables import headed, print_table, wide_option


@click.group(cls=Group)
def webhooks() -> None:
    """Manage webhooks."""


@webhooks.command("add")
@click.argument("url")
@click.option("--account", required=True, help="Account that owns it.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)), help="Only these; may be repeated.")
@json_option
def add_command(url: str, account: str, kinds: tuple[str, ...]) -> None:
    """Notify URL of events, each by a POST of JSON signed with the secret that is printed here and never shown again.

    The URL must be on the public internet, unless SHUFFLEBOARD_PRIVATE_WEBHOOKS lists its host.
    """
    settings = settings_of()
    with write_session(engine_of(settings)) as session:
        owner = find_account(session, account)
        made = add_webhook(session, OPERATOR, url, kinds or None, settings, account=owner)
        document = webhook_document(made) | {"secret": made.secret}
    if printed(document):
        return
    click.echo(f"webhook {document['webhook']} added; its secret, which will not be shown again:\n{document['secret']}")


@webhooks.command("list")
@wide_option
@json_option
def list_command() -> None:
    """List webhooks and the outcome of recent deliveries."""
    with read_session(engine_of(settings_of())) as session:
        rows = [webhook_document(row) for row in current_webhooks(session)]
        deliveries = recent_deliveries(session)
    if printed({"webhooks": rows, "deliveries": deliveries}):
        return
    headings = {"webhook": "ID", "url": "URL", "kinds": "Events", "created_at": "Added"}
    listed = [row | {"kinds": ", ".join(row["kinds"] or ["everything"])} for row in rows]
    print_table(listed, headings, "no webhook yet; add one: shuffleboard webhooks add URL --account NAME")
    if deliveries:
        of_delivery = headed("delivery, kind: Notice, state, attempts, status, error")
        print_table(deliveries, of_delivery, "")


@webhooks.command("remove")
@click.argument("webhook_id", type=int)
@json_option
def remove_command(webhook_id: int) -> None:
    """Remove a webhook; pending deliveries are dropped."""
    with write_session(engine_of(settings_of())) as session:
        remove_webhook(session, OPERATOR, webhook_id)
    tell({"webhook": webhook_id, "removed": True}, f"webhook {webhook_id} removed")


@webhooks.command("test")
@click.argument("webhook_id", type=int)
@json_option
def test_command(webhook_id: int) -> None:
    """Send a webhook a notice of kind webhook.test now; status 1 when delivery fails."""
    settings = settings_of()
    outcome = try_webhook(engine_of(settings), OPERATOR, webhook_id, settings)
    document = {"delivered": outcome.delivered, "status": outcome.status, "error": outcome.error}
    if not printed(document) and outcome.delivered:
        note(f"webhook {webhook_id} answered {outcome.status}")
    if not outcome.delivered:
        raise RemoteError(f"webhook {webhook_id}: {outcome.error}; check the receiver, then try again")
