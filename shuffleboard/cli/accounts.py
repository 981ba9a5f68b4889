"""`shuffleboard accounts`: creates the first admin and manages accounts, as the website also does."""

import getpass
import sys
from dataclasses import asdict
from pathlib import Path

import click
from sqlalchemy import select

from registry.db import MAX_ROW_ID, read_session, write_session
from registry.errors import NotFoundError, UsageError
from registry.operations.opening import engine_of
from registry.people import accounts as people
from registry.people import identities
from registry.people.accounts import OPERATOR, ROLES, SCOPES
from registry.proposals import propose
from registry.tables.accounts import Account, ApiToken, AuditEvent
from shuffleboard.cli.common import GivenFile, json_option, note, print_document, settings_of, tell
from shuffleboard.cli.groups import Group
from shuffleboard.cli.tables import parse_headings, print_table, table_options

password_file_option = click.option(
    "--password-file",
    type=GivenFile(dir_okay=False, exists=True, allow_dash=True),
    default=None,
    help="File with the password on its first line; - for stdin. Default: ask for it. Never an argument: others on the "
    "machine can read those.",
)


@click.group(cls=Group)
def accounts() -> None:
    """Manage accounts, tokens and the audit trail.

    The first admin is created here; everything else an admin can also do on the website.
    """


def _password(path: Path | None, name: str) -> str:
    if path is None:
        if not sys.stdin.isatty():
            raise UsageError("no terminal to prompt for a password; give --password-file FILE, or - for stdin")
        first = getpass.getpass(f"Password for {name}: ")
        if getpass.getpass("Again: ") != first:
            raise UsageError("the two passwords differ; run the command again")
        return first
    text = sys.stdin.readline() if str(path) == "-" else path.read_text(encoding="utf-8").split("\n", 1)[0]
    return text.removesuffix("\n")


@accounts.command("add")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    required=True,
    help="Its role; each role may also do everything that the ones before it may.",
)
@click.option("--no-password", is_flag=True, help="Tokens only, no sign-in: for programs.")
@password_file_option
@json_option
def add_command(name: str, role: str, no_password: bool, password_file: Path | None) -> None:
    """Create an account, such as the first admin: accounts add ada --role admin."""
    engine = engine_of(settings_of())
    password = None if no_password else _password(password_file, name)
    with write_session(engine) as session:
        account = people.create_account(session, name, role, password)
        people.record(session, OPERATOR, "account.make", name, details={"role": role})
        document = {"account": account.name, "role": account.role}
    tell(document, f"account {name} is {role}")


@accounts.command("list")
@table_options
@json_option
def list_command() -> None:
    """List accounts."""
    with read_session(engine_of(settings_of())) as session:
        accounts_found = session.scalars(select(Account).order_by(Account.name))
        rows = [{"name": account.name} | people.account_row(account) for account in accounts_found]
    if print_document({"accounts": rows}):
        return
    headings = parse_headings("name: Account, role, password, disabled, last_login_at: Signed in")
    print_table(
        rows, headings, f"no account yet; create the first: {propose('accounts add', 'NAME', '--role', 'admin')}"
    )


@accounts.command("role")
@click.argument("name")
@click.argument("role", type=click.Choice(ROLES))
def role_command(name: str, role: str) -> None:
    """Change an account's role. Scopes that it loses stop working in its tokens at once."""
    with write_session(engine_of(settings_of())) as session:
        people.set_role(session, people.find_account(session, name), role)
        people.record(session, OPERATOR, "account.role", name, details={"role": role})
    click.echo(f"account {name} is {role}")


@accounts.command("password")
@click.argument("name")
@password_file_option
def password_command(name: str, password_file: Path | None) -> None:
    """Set an account's password and sign it out of every browser."""
    engine = engine_of(settings_of())
    with read_session(engine) as session:
        people.find_account(session, name)
    password = _password(password_file, name)
    with write_session(engine) as session:
        people.set_password(people.find_account(session, name), password)
        people.record(session, OPERATOR, "account.password", name)
    click.echo(f"account {name} has a new password")


@accounts.command("sign-out")
@click.argument("name")
def sign_out_command(name: str) -> None:
    """Sign an account out of every browser. Its password and tokens go on working."""
    with write_session(engine_of(settings_of())) as session:
        ended = people.end_sessions(people.find_account(session, name))
        people.record(session, OPERATOR, "sign-out-everywhere", name, details={"browsers": ended})
    click.echo(f"account {name} is signed out of {ended} browser{'' if ended == 1 else 's'}")


@accounts.command("link")
@click.argument("name")
@click.argument("subject")
def link_command(name: str, subject: str) -> None:
    """Let a person of the single sign-on provider sign the account in.

    SUBJECT is the provider's identifier of the person, the claim sub; a refused sign-in has it in the audit trail.
    """
    settings = settings_of()
    if not settings.oidc_issuer:
        raise UsageError("SHUFFLEBOARD_OIDC_ISSUER is not set, so there is no provider to link with; set it")
    identity = identities.Identity(settings.oidc_issuer, subject)
    with write_session(engine_of(settings)) as session:
        identities.link(session, people.find_account(session, name), identity)
        people.record(session, OPERATOR, "account.link", name, details=asdict(identity))
    click.echo(f"account {name} is linked with {subject} at {identity.issuer}")


@accounts.command("unlink")
@click.argument("name")
def unlink_command(name: str) -> None:
    """End that a person of the single sign-on provider signs the account in, and sign it out of every browser."""
    with write_session(engine_of(settings_of())) as session:
        had = identities.unlink(people.find_account(session, name))
        for identity in had:
            people.record(session, OPERATOR, "account.unlink", name, details=asdict(identity))
    click.echo(f"account {name} is linked with nobody at a provider")


@accounts.command("disable")
@click.argument("name")
def disable_command(name: str) -> None:
    """Stop an account's password and tokens from working. Its history stays."""
    with write_session(engine_of(settings_of())) as session:
        people.disable(session, people.find_account(session, name))
        people.record(session, OPERATOR, "account.disable", name)
    click.echo(f"account {name} is disabled")


@accounts.command("enable")
@click.argument("name")
def enable_command(name: str) -> None:
    """Enable a disabled account again."""
    with write_session(engine_of(settings_of())) as session:
        people.enable(people.find_account(session, name))
        people.record(session, OPERATOR, "account.enable", name)
    click.echo(f"account {name} is enabled")


@accounts.group("tokens")
def tokens() -> None:
    """Create, list and revoke API tokens."""


@tokens.command("add")
@click.argument("account")
@click.option("--name", required=True, help="A name for the token, such as the program that will use it.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(list(SCOPES)),
    required=True,
    help="A permission; may be given again.",
)
@click.option(
    "--days", type=click.IntRange(1, people.MAX_TOKEN_DAYS), default=None, help="Until it expires. Default: never."
)
@json_option
def add_token_command(account: str, name: str, scopes: tuple[str, ...], days: int | None) -> None:
    """Create a token and print it. It cannot be shown again: only its digest is stored."""
    with write_session(engine_of(settings_of())) as session:
        token, secret = people.issue_token(session, people.find_account(session, account), name, scopes, days)
        people.record(session, OPERATOR, "token.make", f"{account} {token.hint}", details={"scopes": list(scopes)})
        document = people.token_row(token, account) | {"token": secret}
    if not print_document(document):
        note(f"token {document['id']} of {account} may {', '.join(token.scopes)}; it will not be shown again:")
        click.echo(secret)


@tokens.command("list")
@click.argument("account", required=False)
@table_options
@json_option
def list_tokens_command(account: str | None) -> None:
    """List tokens, of one account if it is named."""
    query = select(ApiToken, Account.name).join(Account, Account.id == ApiToken.account_id).order_by(ApiToken.id)
    with read_session(engine_of(settings_of())) as session:
        if account is not None:
            query = query.where(Account.id == people.find_account(session, account).id)
        rows = [people.token_row(token, name) for token, name in session.execute(query)]
    if print_document({"tokens": rows}):
        return
    shown = [row | {"scopes": ", ".join(row["scopes"])} for row in rows]
    headings = parse_headings(
        "id, account, name, begins, scopes, last_used_at: Last used, expires_at: Expires, revoked_at: Revoked"
    )
    print_table(
        shown,
        headings,
        f"no token yet; create one: {propose('accounts tokens add', 'ACCOUNT', '--name', 'NAME', '--scope', 'read')}",
    )


@tokens.command("revoke")
@click.argument("token_id", type=click.IntRange(1, MAX_ROW_ID))
def revoke_token_command(token_id: int) -> None:
    """Revoke a token permanently."""
    with write_session(engine_of(settings_of())) as session:
        token = session.get(ApiToken, token_id)
        if token is None:
            raise NotFoundError(f"no token {token_id}; `{propose('accounts tokens list')}` lists the existing ones")
        people.revoke_token(session, token)
        people.record(session, OPERATOR, "token.revoke", token.hint)
    click.echo(f"token {token_id} is revoked")


@accounts.command("audit")
@click.option("--account", default=None, help="Only events of this account.")
@click.option("--refused", is_flag=True, help="Only refused requests.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many, newest first.")
@table_options
@json_option
def audit_command(account: str | None, refused: bool, limit: int) -> None:
    """Show the audit trail, newest first."""
    query = select(AuditEvent).order_by(AuditEvent.id.desc()).limit(limit)
    if account is not None:
        query = query.where(AuditEvent.actor == account)
    if refused:
        query = query.where(AuditEvent.outcome == "refused")
    with read_session(engine_of(settings_of())) as session:
        rows = [people.audit_row(event) for event in session.scalars(query)]
    if print_document({"events": rows}):
        return
    headings = {"at": "At", "actor": "Who", "action": "What", "target": "On", "outcome": "Outcome", "address": "From"}
    print_table(rows, headings, "no event yet")
