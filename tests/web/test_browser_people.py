"""People in a browser: from the first admin to a model on the board, and the loss of each right that is revoked."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import Engine
from werkzeug.serving import make_server

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.store import import_board, import_suite
from registry.db import get_engine, write_session
from registry.settings import Settings
from shuffleboard.cli import cli
from tests.submissions.conftest import work
from tests.support.commands import PATIENCE_S, eventually
from tests.support.population import add_benchmark, question
from tests.support.services import free_port
from tests.web.test_browser import page, running, serve
from web import create_app

PASSWORD = "correct horse battery"


@pytest.fixture
def engine(sqlite_database: str, tmp_path: Path) -> Engine:
    """Return a registry without accounts, with a benchmark, its suite, a board, and a benchmark for members."""
    engine = get_engine(sqlite_database)
    with write_session(engine) as session:
        add_benchmark(session, tmp_path, [question(number) for number in range(6)], "bench")
        suite = {"name": "core", "tasks": [{"benchmark": "bench"}], "variants": ["cyclic"]}
        import_suite(session, SuiteDefinition.model_validate(suite))
        import_board(session, BoardDefinition(name="main", suite="core", columns=("accuracy@cyclic",)))
        add_benchmark(session, tmp_path, [question(number) for number in range(3)], "club").visibility = "members"
    return engine


def enter(opened: Page, base: str, name: str) -> None:
    opened.goto(f"{base}/sign-in")
    opened.get_by_label("Name").fill(name)
    opened.get_by_label("Password").fill(PASSWORD)
    opened.get_by_role("button", name="Sign in").click()
    expect(opened.get_by_role("link", name=name, exact=True)).to_be_visible()


def leave(opened: Page) -> None:
    opened.get_by_text("Menu", exact=True).click()
    opened.get_by_role("button", name="Sign out").click()
    expect(opened.get_by_role("link", name="Sign in")).to_be_visible()


def test_from_the_first_admin_to_a_model_on_the_board(
    chromium: Browser, engine: Engine, sqlite_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", sqlite_database)
    added = CliRunner().invoke(
        cli, ["accounts", "add", "ada", "--role", "admin", "--password-file", "-"], input=f"{PASSWORD}\n"
    )
    assert added.exit_code == 0, added.output
    settings = Settings(home=tmp_path, poll_seconds=0.02)
    with serve(create_app(settings, database_url=sqlite_database)) as base, page(chromium, errors=True) as opened:
        # The admin creates the other accounts.
        enter(opened, base, "ada")
        for name, role in (("sam", "submitter"), ("mary", "maintainer")):
            opened.goto(f"{base}/accounts")
            opened.get_by_label("Name").fill(name)
            opened.get_by_label("Role").select_option(role)
            opened.get_by_label("Password").fill(PASSWORD)
            opened.get_by_role("button", name="Create account").click()
            expect(opened.get_by_role("row", name=name)).to_contain_text(role)
        leave(opened)

        # The submitter creates a token, which works, and submits a model.
        enter(opened, base, "sam")
        opened.goto(f"{base}/account")
        opened.get_by_label("Name (of the program that will use it)").fill("nightly")
        opened.get_by_role("button", name="Create token").click()
        token = opened.locator("#secret").inner_text()
        headers = {"Authorization": f"Bearer {token}"}
        assert opened.request.get(f"{base}/api/v1/benchmarks/club", headers=headers).status == 200
        opened.get_by_text("Menu", exact=True).click()
        opened.get_by_role("link", name="Submit", exact=True).click()
        opened.get_by_label(re.compile("Model on the Hugging Face hub")).fill("owner/tiny-model")
        opened.get_by_label("Test suite").select_option("core")
        opened.get_by_label("Note for the maintainers").fill("<b>please</b>")
        opened.get_by_role("button", name="Submit").click()
        expect(opened.locator("h1")).to_contain_text("tiny-model")
        address = opened.url
        expect(opened.get_by_text("<b>please</b>")).to_be_visible()
        expect(opened.get_by_role("button", name=re.compile("Approve"))).to_have_count(0)
        leave(opened)

        # The maintainer reads the estimated cost and approves.
        enter(opened, base, "mary")
        opened.goto(address)
        expect(opened.get_by_role("heading", name="What it would cost")).to_be_visible()
        expect(opened.get_by_role("table")).to_contain_text("24 of 24")
        opened.get_by_role("button", name=re.compile("Approve")).click()
        expect(opened.get_by_text("approved").first).to_be_visible()
        leave(opened)

        # The evaluation runs and is on the board, for everyone.
        work(engine, settings, monkeypatch)
        opened.goto(f"{base}/boards/main")
        expect(opened.get_by_role("table").first).to_contain_text("tiny-model")
        expect(opened.locator("body")).not_to_contain_text("club")
        opened.goto(f"{base}/benchmarks/club")
        expect(opened.locator("main")).to_contain_text("no benchmark 'club'")

        # The token is revoked and no longer works.
        enter(opened, base, "sam")
        opened.goto(f"{base}/benchmarks/club")
        expect(opened.locator("h1")).to_contain_text("club")
        opened.goto(f"{base}/account")
        opened.get_by_role("button", name="Revoke nightly").click()
        expect(opened.get_by_role("row", name=re.compile("nightly"))).to_contain_text("revoked")
        assert opened.request.get(f"{base}/api/v1/benchmarks/club", headers=headers).status == 401


@pytest.mark.long
def test_a_person_signs_in_and_out_through_a_real_provider(
    chromium: Browser, sqlite_database: str, tmp_path: Path
) -> None:
    base, issuer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    (tmp_path / "roles.toml").write_text('[[rule]]\nrole = "maintainer"\nclaim = "groups"\nvalues = ["evaluation"]\n')
    settings = Settings(
        home=tmp_path,
        public_url=base,
        oidc_issuer=issuer,
        oidc_name="Example ID",
        oidc_client_id="board",
        oidc_client_secret="any",
        oidc_roles=str(tmp_path / "roles.toml"),
    )
    application = create_app(settings, database_url=sqlite_database)
    server = make_server("127.0.0.1", int(base.rpartition(":")[2]), application, threaded=True)
    with provider_process(issuer), running(server), page(chromium, errors=True) as opened:
        # The provider's own pages request a style sheet from another host.
        opened.route(re.compile(r"^https://"), lambda route: route.fulfill(body="", content_type="text/css"))
        opened.goto(f"{base}/sign-in?next=/queue")
        opened.get_by_role("link", name="Sign in with Example ID").click()
        expect(opened.get_by_role("heading", name="Authorize Client")).to_be_visible()
        opened.get_by_role("button", name="grace-at-example").click()
        expect(opened).to_have_url(f"{base}/queue")
        opened.get_by_role("link", name="grace", exact=True).click()
        expect(opened.get_by_text("Role: maintainer")).to_be_visible()

        opened.get_by_text("Menu", exact=True).click()
        opened.get_by_role("button", name="Sign out", exact=True).click()
        opened.get_by_role("button", name="End session").click()
        expect(opened).to_have_url(f"{base}/")
        expect(opened.get_by_role("link", name="Sign in")).to_be_visible()

        # A person without a matching rule, and a person who changes their mind: this provider's answer has no state.
        for button, message in (("eve-at-example", "gives you a role here"), ("Deny", "does not belong to a sign-in")):
            opened.goto(f"{base}/sign-in")
            opened.get_by_role("link", name="Sign in with Example ID").click()
            opened.get_by_role("button", name=button).click()
            expect(opened.get_by_role("alert")).to_contain_text(message)


@contextmanager
def provider_process(issuer: str) -> Iterator[None]:
    """Run oidc-provider-mock with two people, grace and eve."""
    people = (
        {"sub": "grace-at-example", "preferred_username": "grace", "groups": ["evaluation"]},
        {"sub": "eve-at-example", "preferred_username": "eve", "groups": ["others"], "role": "admin"},
    )
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", issuer.rpartition(":")[2], "--require-nonce"]
    for person in people:
        command += ["--user-claims", json.dumps(person)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: answers(f"{issuer}/.well-known/openid-configuration"), "the provider answers")
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def answers(url: str) -> bool:
    try:
        return httpx2.get(url).status_code == 200
    except httpx2.TransportError:
        return False
