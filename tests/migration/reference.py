"""What a registry states about its evaluations, in a form that says the same of any registry that holds them.

No database ids and no times: evaluations are named by their seals, questions by their ids in the benchmark. Of pages the
numbers count, not their words: `numbers_of` reads them row by row.
"""

import re
from html.parser import HTMLParser
from typing import Any, Final

from flask.testing import FlaskClient
from sqlalchemy import Engine, text

from registry.db import get_engine
from tests.proof.commands import run
from web import create_app

BOARD: Final = "reference"
PAGES: Final = (
    "/",
    "/?group=no",
    "/?benchmark=mmlu&variants=divergent:seed=0,subset=all",
    f"/boards/{BOARD}",
    "/models/ada",
    "/models/SmolLM2-135M-Instruct",
    "/benchmarks/mmlu",
    "/benchmarks/medqa",
    "/questions/mmlu/mmlu-sociology-test-0002",
    "/questions/medqa/medqa-0003",
)
"""Besides each evaluation's page, and the page of its first question. Questions are named by benchmark and id."""

_ROW_ENDS: Final = frozenset({"tr", "p", "li", "dd", "dt", "h1", "h2", "h3", "caption", "figcaption", "summary", "div"})
_UNREAD: Final = frozenset({"script", "style", "svg", "head", "nav", "footer", "time"})
_NUMBER: Final = re.compile(r"(?<![\w.])[-−]?\d+\.\d+(?![\w.]*\.\d)")


class _Rows(HTMLParser):
    """The texts of a page: one for each row of a table and for each paragraph outside of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[str] = []
        self._text: list[str] = []
        self._unread = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._unread += tag in _UNREAD
        if tag in _ROW_ENDS:
            self._end()

    def handle_endtag(self, tag: str) -> None:
        self._unread -= tag in _UNREAD
        if tag in _ROW_ENDS:
            self._end()
        elif tag in ("td", "th", "span"):
            self._text.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self._text.append(data)

    def _end(self) -> None:
        self.rows.append(" ".join("".join(self._text).split()))
        self._text = []


def numbers_of(html: str) -> list[list[str]]:
    """The numbers with decimals in each row of a table and each paragraph that has one, in the page's order."""
    parser = _Rows()
    parser.feed(html)
    parser.close()
    rows = [_NUMBER.findall(row.replace("\N{MINUS SIGN}", "-")) for row in parser.rows]
    return [row for row in rows if row]


def seals_of(engine: Engine) -> dict[int, str]:
    """The seal of each sealed evaluation, by its number."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT id, seal FROM evaluation WHERE seal IS NOT NULL ORDER BY id")).all()
    return {number: seal.hex() if isinstance(seal, bytes) else str(seal) for number, seal in rows}


def stated(url: str) -> dict[str, Any]:
    """Everything that is compared, of the registry in the database at `url`."""
    engine = get_engine(url)
    seals = seals_of(engine)
    with engine.connect() as connection:
        questions = {
            f"/questions/{row.name}/{row.external_id}": f"/questions/{row.id}"
            for row in connection.execute(
                text(
                    "SELECT benchmark.name, question.external_id, question.id FROM question "
                    "JOIN benchmark_version ON benchmark_version.id = question.benchmark_version_id "
                    "JOIN benchmark ON benchmark.id = benchmark_version.benchmark_id"
                )
            )
        }
        first_asked = {
            row.evaluation_id: row.question_id
            for row in connection.execute(
                text(
                    "SELECT asked.evaluation_id, asked.question_id FROM evaluation_question AS asked "
                    "JOIN question ON question.id = asked.question_id ORDER BY question.external_id DESC"
                )
            )
        }
    client = create_app(database_url=url).test_client()
    return {
        "evaluations": stated_of_evaluations(engine),
        "leaderboard": [
            {"seal": seals.get(row["evaluation_id"]), **_lasting(row)}
            for row in run(engine, "leaderboard", "--json").document["rows"]
        ],
        "board": _lasting(run(engine, "leaderboard", "--board", BOARD, "--json").document),
        "pages": {page: _page(client, questions.get(page, page)) for page in PAGES}
        | {f"evaluation {seal}": _page(client, f"/evaluations/{number}") for number, seal in seals.items()}
        | {
            f"first question of {seal}": _page(client, f"/evaluations/{number}/questions/{first_asked[number]}")
            for number, seal in seals.items()
        },
    }


def stated_of_evaluations(engine: Engine) -> dict[str, Any]:
    """What is stated of each evaluation, by its seal."""
    return {seal: _of_evaluation(engine, number) for number, seal in seals_of(engine).items()}


def _of_evaluation(engine: Engine, number: int) -> dict[str, Any]:
    found = run(engine, "metrics", number, "--per-question", "--json").document
    unflagged = run(engine, "metrics", number, "--without-flagged", "--json").document
    return _lasting(found) | {"unflagged": _lasting(unflagged)}


def _lasting(value: Any) -> Any:
    """A JSON document without what belongs to one registry alone: ids, times, and digests over times."""
    if isinstance(value, dict):
        return {
            key: _lasting(item)
            for key, item in value.items()
            if key not in ("evaluation", "as_of", "digest", "snapshot", "url")
            and not key.endswith(("_id", "_at", "_s", "_ids"))
        }
    return [_lasting(item) for item in value] if isinstance(value, list) else value


def _page(client: FlaskClient, address: str) -> list[list[str]]:
    response = client.get(address)
    assert response.status_code == 200, f"{address}: {response.text}"
    return numbers_of(response.text)
