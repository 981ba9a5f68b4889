"""Reads the rows, seals and answers of a registry when a release is made, and again after each upgrade."""

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final
from xml.etree import ElementTree as ET

from flask.testing import FlaskClient
from sqlalchemy import Engine, select, text

from registry.db import get_engine, read_session
from registry.schema import history
from registry.settings import Settings
from registry.tables import BenchmarkVersion, BoardSnapshot, Evaluation, Model, ModelRevision, Question
from registry.tables.accounts import SavedQuery, Submission
from tests.support.population import table_counts
from tests.web.accounts import bearer
from web import create_app

ATOM: Final = "{http://www.w3.org/2005/Atom}"
GROWING: Final = frozenset(
    {"board_entry", "board_snapshot", "board_standing", "chain_link", "chain_signature", "evaluation_metric"}
    | {"published_result", "registry_generation", "subject_category", "suite"}
)
"""Tables to which an upgrade adds rows, since it brings metrics, suites and results of papers, and updates boards."""
FROM_CLOCKS: Final = frozenset({"last_used_at", "used_at", "version", "generated_at", "code_version"}) | {
    *("no_worker", "workers", "live_workers", "queue_position", "seconds_left"),
}
"""Keys of answers whose values depend on the running code or on the clock."""

State = dict[str, Any]


def read_state(settings: Settings, tokens: Mapping[str, str]) -> State:
    """Read the rows of every table by number, the seals, and the answers at each address to a reader with access.

    tokens: by role.
    """
    url = settings.resolve_database_url()
    engine = get_engine(url)
    with read_session(engine) as session:
        sealed = session.execute(select(Evaluation.id, Evaluation.seal).where(Evaluation.seal.is_not(None))).all()
    client = create_app(settings.model_copy(update={"rate_limits": False}), keep_pages=False).test_client()
    answers = {}
    for role, address in addresses(engine):
        answers[f"{role} {address}"] = _answer(client, address, tokens.get(role))
    with engine.connect() as connection:
        revision = history.revision_of(connection)
    # Done last: using a token stores a time, but adds no row.
    return {
        "revision": revision,
        "tables": table_counts(engine),
        "seals": {str(number): seal for number, seal in sealed},
        "answers": answers,
    }


def addresses(engine: Engine) -> Iterator[tuple[str, str]]:
    """Yield each permanent address with the role that reads it; "anyone" has no token."""
    with read_session(engine) as session:
        public = session.scalars(
            select(Evaluation.id).join(BenchmarkVersion).where(BenchmarkVersion.visibility == "public")
        ).all()
        sealed = session.scalars(
            select(Evaluation.id)
            .join(BenchmarkVersion)
            .where(Evaluation.seal.is_not(None), BenchmarkVersion.visibility == "public")
        ).all()
        models = session.scalars(select(Model.name).join(ModelRevision)).unique().all()
        questions = session.scalars(select(Question.id).limit(4)).all()
        digests = session.scalars(select(BoardSnapshot.digest)).all()
        submissions = session.scalars(select(Submission.id)).all()
        slugs = session.scalars(select(SavedQuery.slug)).all()
    anyone = ["/", "/boards", "/overview", "/models", "/benchmarks", "/metrics-guide", "/withdrawn", "/chain", "/proof"]
    anyone += ["/feed.atom", "/leaderboard.csv", "/chain/key.pem", "/benchmarks/bench", "/api/v1/benchmarks/bench"]
    anyone += ["/boards/main", "/boards/main/table.csv", "/boards/main/pairs", "/boards/fixture"]
    lists = ("chain/signatures", "suites", "boards", "leaderboard", "models", "benchmarks", "protocols")
    anyone += [f"/api/v1/{name}" for name in (*lists, "metrics", "evaluations", "boards/main", "boards/main/snapshots")]
    anyone += [f"/models/{name}" for name in models] + [f"/api/v1/models/{name}" for name in models]
    anyone += [f"/questions/{number}" for number in questions] + [f"/api/v1/questions/{number}" for number in questions]
    for number in public:
        anyone += [f"/evaluations/{number}", f"/api/v1/evaluations/{number}"]
    for number in sealed:
        anyone += [f"/evaluations/{number}.bib", f"/evaluations/{number}/provenance"]
        anyone += [f"/api/v1/evaluations/{number}/{part}" for part in ("provenance", "metrics", "questions")]
    for digest in digests:
        anyone += [f"/snapshots/{digest}", f"/snapshots/{digest}.bib", f"/api/v1/snapshots/{digest}"]
    yield from (("anyone", address) for address in anyone)
    yield from (("reader", f"/sql/{slug}") for slug in slugs)
    yield from (("submitter", f"/submissions/{number}") for number in submissions)
    yield from (("submitter", f"/api/v1/submissions/{number}") for number in submissions)
    yield from (("maintainer", address) for address in ("/submissions", "/benchmarks/secret", "/feed.atom"))
    for address in ("/accounts", "/accounts/reader", "/api/v1/accounts", "/api/v1/accounts/reader/tokens", "/audit"):
        yield "admin", address


def _answer(client: FlaskClient, address: str, token: str | None) -> dict[str, Any]:
    """Request an address; return the status and the part of the body that later versions must preserve."""
    with client.get(address, headers=None if token is None else bearer(token)) as answer:
        kept: dict[str, Any] = {"status": answer.status_code}
        if answer.status_code != HTTPStatus.OK:
            return kept
        if answer.is_json:
            kept["body"] = _omit_clocks(answer.json)
        elif answer.mimetype == "application/atom+xml":
            entries = ET.fromstring(answer.data).findall(f"{ATOM}entry")
            kept["entries"] = sorted(str(entry.findtext(f"{ATOM}id")) for entry in entries)
        elif answer.mimetype == "text/html":
            heading = re.search(r"<h1[^>]*>(.*?)</h1>", answer.text, re.DOTALL)
            kept["heading"] = heading and " ".join(re.sub(r"<[^>]+>", " ", heading[1]).split())
        elif address.endswith((".csv", ".pem")):
            kept["text"] = answer.text
        return kept


def _omit_clocks(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: _omit_clocks(value) for key, value in document.items() if key not in FROM_CLOCKS}
    return [_omit_clocks(each) for each in document] if isinstance(document, list) else document


def lost(before: Any, after: Any, place: str = "") -> list[str]:
    """Return everything in a document that a later one lacks or has changed, apart from added keys."""
    if isinstance(before, dict) and isinstance(after, dict):
        missing = [f"{place}: {key} is missing" for key in before.keys() - after.keys()]
        both = [key for key in before if key in after]
        return missing + [each for key in both for each in lost(before[key], after[key], f"{place} {key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            each
            for i, (old, new) in enumerate(zip(before, after, strict=True))
            for each in lost(old, new, f"{place} {i}")
        ]
    return [] if before == after else [f"{place}: {before!r} became {after!r}"[:500]]


def lost_by_upgrade(before: State, after: State) -> list[str]:
    """Return each row, seal and answer that an upgrade did not preserve."""
    rows = [
        f"{name}: {count} rows became {after['tables'].get(name, 0)}"
        for name, count in before["tables"].items()
        if not (after["tables"].get(name, 0) >= count if name in GROWING else after["tables"].get(name) == count)
    ]
    seals = lost(before["seals"], after["seals"], "seals")
    return rows + seals + lost(before["answers"], after["answers"])


def pending_work(engine: Engine) -> int:
    """Count the queued and claimed shards."""
    with engine.connect() as connection:
        counted = connection.scalar(text("SELECT count(*) FROM shard WHERE state IN ('queued', 'leased')"))
    return int(counted or 0)
