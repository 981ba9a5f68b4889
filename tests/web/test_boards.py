"""Boards as pages and as JSON: their present and past states, and hidden content."""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from sqlalchemy import func, select, text, update

from registry.boards import history, selected
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import read_session, write_session
from registry.tables import BoardSnapshot, Evaluation, Model
from tests.web.accounts import add_account, csrf_of, signed_in
from tests.web.seed import HOSTILE, add_benchmark, add_model, evaluate, first, right
from tests.web.test_charts import cells
from web.charts.scatter import PLOTS, pareto

pytestmark = pytest.mark.one_engine

COLUMNS = ("accuracy@cyclic", "worst_accuracy@cyclic", "fluctuation_rate@cyclic", "accuracy_variance@cyclic")


def load(site, name="main", benchmarks=("capitals",), columns=COLUMNS, **more):
    """Store a board on the seeded evaluations under `cyclic`, the only variants of its suite."""
    suite = SuiteDefinition.model_validate({"name": "orders", "variants": ["cyclic"], "tasks": [{"benchmark": "*"}]})
    with write_session(site.engine) as session:
        import_suite(session, suite)
        import_board(
            session,
            BoardDefinition(name=name, suite="orders", benchmarks=benchmarks, columns=columns, **more),
        )
    refresh_boards(site.engine)


def body(client, path, status=200):
    response = client.get(path)
    assert response.status_code == status, response.text
    return response.text


def test_a_board_ranks_complete_models_and_lists_those_under_way(own):
    load(own, title="Who knows capitals?", text="Eight capitals.")
    page = body(own.client, "/boards/main")
    assert "Who knows capitals?" in page
    page = page[page.index("<tbody") :]
    assert page.index(">alpha<") < page.index(">silent<") < page.index(">beta<") < page.index(">delta<")
    assert "In progress" in page
    assert page.index("In progress") < page.index(">slow<")
    document = own.client.get("/api/v1/boards/main").get_json()
    ranks = {row["model"]: row["values"]["worst_accuracy@cyclic"]["rank"] for row in document["rows"]}
    assert ranks == {"alpha": 1, "silent": 2, "beta": 3, "gamma": 3, "delta": 5}
    # Eight questions are too few for an interval; the ranks still have theirs.
    assert all(row["values"]["worst_accuracy@cyclic"]["interval"] is None for row in document["rows"])
    assert document["sql"].startswith("SELECT * FROM board_standings WHERE snapshot = ")
    with read_session(own.engine) as session:
        rows = session.execute(text(document["sql"])).mappings().all()
    assert len(rows) == 5 * len(COLUMNS)


def test_a_board_counts_the_pairs_that_it_distinguishes(own):
    load(own)
    page = body(own.client, "/boards/main")
    assert "0 of 4 pairs of neighbours" in page
    assert 'href="/boards/main/pairs?column=worst_accuracy@cyclic"' in page.replace("%40", "@")
    document = own.client.get("/api/v1/boards/main").get_json()
    assert document["together"]["worst_accuracy@cyclic"]["neighbours"] == 4
    first, *others = (row["values"]["worst_accuracy@cyclic"] for row in document["rows"])
    assert first["above"] is None
    assert others[0]["above"]["model"] == "alpha"
    # Eight questions cannot distinguish models: every model may have any rank.
    assert {tuple(value["all_rank_interval"]) for value in (first, *others)} == {(1, 5)}
    assert {value["all_tier"] for value in (first, *others)} == {1}
    assert document["together"]["worst_accuracy@cyclic"]["matrix"] == ["....."] * 5
    page = body(own.client, "/boards/main/pairs")
    assert "0 of 4 pairs of neighbours" in page
    assert next(iter(cells(page, "Pairs")))[3:7] == ["1–5", "none", "none", "4"]
    assert "it has no intervals" in body(own.client, "/boards/main/pairs?column=accuracy_variance@cyclic")
    assert "use one of accuracy@cyclic" in body(own.client, "/boards/main/pairs?column=accuracy", 400)
    assert "no board" in body(own.client, "/boards/nothing/pairs", 404)


def test_sorting_by_another_column_shows_its_ranks(own):
    load(own)
    page = body(own.client, "/boards/main?sort=fluctuation_rate@cyclic").partition("<tbody")[2]
    assert page.index(">alpha<") < page.index(">delta<")
    page = body(own.client, "/boards/main?sort=fluctuation_rate@cyclic&order=desc").partition("<tbody")[2]
    assert page.index(">delta<") < page.index(">alpha<")
    assert "use one of accuracy@cyclic" in body(own.client, "/boards/main?sort=accuracy", 400)


def test_a_snapshot_keeps_its_address_and_its_rows(own):
    load(own)
    before = own.client.get("/api/v1/boards/main").get_json()
    add = own.client.get(before["permalink"]).text
    with write_session(own.engine) as session:
        add_model(session, "newcomer")
    evaluate(own.engine, "newcomer", "capitals", right)
    refresh_boards(own.engine)
    assert "newcomer" in body(own.client, "/boards/main")
    assert "newcomer" not in add
    assert "newcomer" not in body(own.client, before["permalink"]).split("History")[0]
    assert own.client.get(f"/api/v1/snapshots/{before['digest']}").get_json()["rows"] == before["rows"]
    listed = own.client.get("/api/v1/boards/main/snapshots").get_json()["items"]
    assert [item["digest"] for item in listed][-1] == before["digest"]
    assert len(listed) == 2
    as_of = own.client.get("/api/v1/boards/main", query_string={"as_of": before["as_of"]})
    assert as_of.get_json()["digest"] == before["digest"]


def test_a_board_says_how_its_numbers_and_ranks_moved(own, monkeypatch):
    # Dates begin at the first snapshot, even if few are listed.
    monkeypatch.setattr("web.pages.boards.SNAPSHOTS", 1)
    with monkeypatch.context() as patched:
        patched.setattr(history, "BURST", timedelta(0))
        move(own)
    with read_session(own.engine) as session:
        kept = history.moments(session, "main")
        assert [moment.snapshots for moment in kept] == [2]
        # Made together, they count as one: beta was never before the newcomer.
        course = history.courses(session, "main", kept, "worst_accuracy@cyclic", [0])["beta", 1]
        assert (course.first.rank, course.values[0].rank) == (4, 4)
        assert course.since == session.scalar(select(func.min(BoardSnapshot.as_of)))


def move(own):
    load(own, benchmarks=("capitals",))
    assert "The board's history begins" in body(own.client, "/boards/main")
    with write_session(own.engine) as session:
        add_model(session, "aaa")
    evaluate(own.engine, "aaa", "capitals", right)
    refresh_boards(own.engine)
    page = body(own.client, "/boards/main")
    rows = {row[0].split(" ")[0]: row[1:] for row in cells(page, "Worst accuracy of every model over the board")}
    assert rows["beta"][:4] == ["75.0%", "75.0%", "3", "4"]
    assert rows["alpha"][:4] == ["100.0%", "100.0%", "1", "1"]
    ranks = re.sub(r" from \S+ \S+", "", rows["beta"][4])
    assert ranks == "3 4"
    # Every model has a line that leads to it; the newcomer's begins with the second snapshot.
    drawn = page.split('class="ranks"')[1].split("</svg>")[0]
    lines = re.findall(r'<a href="/models/(\w+)"><title>\w+: rank ([^<]*)</title>(.*?)</a>', drawn, re.DOTALL)
    assert {model: rank for model, rank, _ in lines} == {
        "aaa": "1",
        "alpha": "1",
        "beta": "3, then 4",
        "gamma": "3, then 4",
        "silent": "2, then 3",
        "delta": "5, then 6",
    }
    assert {model for model, _, line in lines if "course" not in line} == {"aaa"}
    as_of = own.client.get("/api/v1/boards/main").get_json()["as_of"]
    assert f'as of <time datetime="{as_of}"' in body(own.client, "/boards")


def test_snapshots_that_follow_closely_count_as_one():
    start = datetime(2026, 3, 1, tzinfo=UTC)
    minutes = (0, 4, 13, 60, 61, 62, 63)
    snapshots = [
        (number, 2 if number > 5 else 1, str(number), start + timedelta(minutes=at))
        for number, at in enumerate(minutes, 1)
    ]
    withdrawn = [start + timedelta(minutes=60.5)]
    # Nine minutes apart is close; an hour is not; nor are snapshots separated by a withdrawal or a new board version.
    collapsed = history.collapse_bursts(snapshots, withdrawn)
    assert [(moment.id, moment.snapshots) for moment in collapsed] == [(3, 3), (4, 1), (5, 1), (7, 2)]


def test_a_board_over_a_hidden_benchmark_is_nowhere(own):
    load(own)
    load(own, "secret-board", ("secret",))
    with read_session(own.engine) as session:
        digests = {row.board.name: row.digest for row in session.scalars(select(BoardSnapshot))}
    assert "secret-board" not in body(own.client, "/boards")
    assert [item["board"] for item in own.client.get("/api/v1/boards").get_json()["items"]] == ["main"]
    for path in (
        "/boards/secret-board",
        "/api/v1/boards/secret-board",
        "/api/v1/boards/secret-board/snapshots",
        f"/snapshots/{digests['secret-board']}",
        f"/api/v1/snapshots/{digests['secret-board']}",
    ):
        body(own.client, path, 404)


def test_texts_of_a_board_are_escaped(own):
    load(own, "hostile", ("hostile",), title=HOSTILE, text=HOSTILE)
    for path in ("/boards", "/boards/hostile"):
        page = body(own.client, path)
        assert "<script>alert" not in page
        assert "<img src=x" not in page


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/boards/nothing", 404, "no board"),
        ("/boards/main?as_of=yesterday", 400, "give a date or time such as"),
        ("/boards/main?as_of=1999-01-01", 404, "did not exist at that time"),
        ("/snapshots/xyz", 400, "64 hexadecimal digits"),
        (f"/snapshots/{'0' * 64}", 404, "no snapshot"),
        ("/api/v1/boards/main?asof=2026-01-01", 400, "unknown parameter 'asof'; known: as_of"),
        ("/boards/a b", 400, "use up to 200 letters"),
    ],
)
def test_what_is_not_there_is_said(own, path, status, message):
    load(own)
    assert message in body(own.client, path, status)


def test_an_empty_registry_says_how_to_load_one(empty_client):
    assert "shuffleboard boards import" in body(empty_client, "/boards")


def test_a_board_of_models_without_a_seal_is_empty(own, tmp_path):
    lines = [{"id": "n1", "subject": None, "question": "?", "options": ["a", "b"], "answer": 0}]
    with write_session(own.engine) as session:
        add_benchmark(session, tmp_path, "new", lines)
    load(own, "new", ("new",))
    page = body(own.client, "/boards/new")
    assert "No model has a sealed evaluation of this board yet" in page
    assert "shuffleboard evaluations submit" not in page  # a visitor cannot run that


def test_a_board_sorts_by_columns_with_values_and_omits_empty_ones(own):
    load(own)
    with write_session(own.engine) as session:
        columns = ("choice_only_accuracy@cyclic", "accuracy@cyclic")  # its sort column would be the first
        import_board(
            session, BoardDefinition(name="repeats", suite="orders", benchmarks=("capitals",), columns=columns)
        )
    refresh_boards(own.engine)
    page = body(own.client, "/boards/repeats")
    assert "Ranked by Accuracy" in page
    assert "No model has a value in: choice-only accuracy." in page
    assert cells(page, "repeats")[0][0].split()[0] == "1"


def test_links_to_evaluations_name_the_protocol_where_there_are_several(own):
    tasks = [{"benchmark": "capitals"}]
    for protocols in (["symbols"], ["symbols", "hybrid"]):
        board = {"name": "orders", "variants": ["cyclic"], "protocols": protocols, "tasks": tasks}
        with write_session(own.engine) as session:
            import_suite(session, SuiteDefinition.model_validate(board))
            import_board(session, BoardDefinition(name="main", suite="orders", columns=("accuracy@cyclic/symbols",)))
        refresh_boards(own.engine)
        link = "capitals, cyclic" + (", symbols" if len(protocols) > 1 else "")
        assert f">{link}</a>" in body(own.client, "/boards/main")


def test_a_board_of_many_models_is_shown_in_pages(own):
    load(own)
    names = ("alpha", "silent", "beta", "gamma", "delta")
    standings = [cells(body(own.client, f"/boards/main?per_page=2&page={page}"), "main") for page in (1, 2, 3)]
    assert [[next(name for name in names if name in "".join(row)) for row in rows] for rows in standings] == [
        ["alpha", "silent"],
        ["beta", "gamma"],
        ["delta"],
    ]
    page = body(own.client, "/boards/main?per_page=2&page=2&sort=accuracy@cyclic&order=asc")
    assert "3–4 of 5 models" in page
    assert "per_page=5" in page  # all on one page
    # A page's models are drawn among all models.
    assert page.count('class="other"') == 3
    assert "Accuracy and worst accuracy of 5 complete models" in page
    assert "Pages of models" not in body(own.client, "/boards/main")
    assert "there are 3" in body(own.client, "/boards/main?per_page=2&page=4", 404)
    pairs = body(own.client, "/boards/main/pairs?per_page=2&page=2")
    assert [row[1].split()[0] for row in cells(pairs, "Pairs")] == ["beta", "gamma"]


def test_a_boards_first_page_says_how_many_models_may_guess_and_where(own):
    load(own)
    sentence = "1 of 5 models cannot be distinguished from guessing."

    def told(path):
        return re.findall(
            rf'<p class="conclusion aside">(.*?{re.escape("distinguished from guessing")}.*?)</p>',
            body(own.client, path),
        )

    (first_page,) = told("/boards/main?per_page=2")
    assert sentence in re.sub("<.*?>", "", first_page)
    assert first_page.count("/boards/main?per_page=2&amp;page=3") == 1, first_page
    (last_page,) = told("/boards/main?per_page=2&page=3")
    assert "page=" not in last_page


@pytest.mark.parametrize(("state", "heading"), [("queued", "Waiting for a worker"), ("running", "In progress")])
def test_a_board_says_whether_its_evaluations_wait_or_run(own, state, heading):
    load(own)
    with write_session(own.engine) as session:
        session.execute(update(Evaluation).where(Evaluation.state == "running").values(state=state))
    page = body(own.client, "/boards/main")
    assert f'<h2 id="waiting">{heading}</h2>' in page
    assert "16 of 32 prompts" in page.partition('id="waiting"')[2]


def test_a_board_of_one_model_says_why_it_has_no_rank(own):
    said = "One model is on the board, so it has no rank."
    load(own, benchmarks=("hostile",))
    assert said in body(own.client, "/boards/main")
    load(own, name="several")
    assert said not in body(own.client, "/boards/several")


def test_a_visitors_choice_of_models_and_weights_has_its_own_ranks(own, monkeypatch):
    load(own)
    page = body(own.client, "/boards/main/own?column=accuracy@cyclic&model=beta&model=delta&weight.capitals=2")
    rows = page[page.index("<tbody") : page.index("</table>")]
    assert "beta" in rows
    assert "alpha" not in rows
    document = own.client.get("/api/v1/boards/main/selection?column=accuracy@cyclic&model=beta&model=delta").get_json()
    assert [row["model"] for row in document["rows"]] == ["beta", "delta"]
    assert [row["values"]["accuracy@cyclic"]["rank"] for row in document["rows"]] == [1, 2]
    assert hashlib.sha256(document["selection"].encode()).hexdigest() == document["digest"]
    assert document["digest"] in body(own.client, document["url"])
    assert "give TASK:N" in body(own.client, "/boards/main/own?weight=capitals", 400)
    assert "has no task" in body(own.client, "/boards/main/own?weight=rivers:2", 400)
    # All columns of a large board would be too many, so it begins with the ranking column.
    monkeypatch.setattr(selected, "MOST_VALUES", 5)
    assert body(own.client, "/boards/main/own").count(" checked>") == 1


def test_a_board_of_several_tasks_leads_to_each_of_them_alone(own, tmp_path):
    lines = [
        {"id": f"r{n}", "subject": None, "question": "?", "options": ["a", "b"], "answer": n % 2} for n in range(4)
    ]
    with write_session(own.engine) as session:
        add_benchmark(session, tmp_path, "rivers", lines)
    for model, answers in (("alpha", first), ("beta", right)):
        evaluate(own.engine, model, "rivers", answers)
    load(own, benchmarks=("capitals", "rivers"))
    page = body(own.client, "/boards/main")
    assert 'aria-current="true">Mean of 2 tasks</a>' in page
    (alone,) = re.findall(r'<a href="([^"]+)" rel="nofollow">rivers</a>', page)
    page = body(own.client, unescape(alone))
    assert 'aria-current="true">rivers</a>' in page
    ranked = page[page.index("<tbody") : page.index("</table>")]
    assert ranked.index(">beta<") < ranked.index(">alpha<")


def test_a_submitter_saves_a_selection_as_a_board_of_its_own(own):
    load(own)
    add_account(own.engine, "mia", "submitter")
    client = signed_in(own.client.application, "mia")
    address = "/boards/main/own?column=accuracy@cyclic&model=beta&model=delta"
    sent = {"csrf_token": csrf_of(client, address), "name": "two", "title": "Two of them"}
    assert client.post(address, data=sent).location == "/boards/two"
    document = own.client.get("/api/v1/boards/two").get_json()
    assert [row["model"] for row in document["rows"]] == ["beta", "delta"]
    assert document["models"] == {"names": ["beta", "delta"]}
    assert "exists already" in client.post(address, data=sent).text


def test_trade_offs_connect_the_best_models_for_their_price(own):
    load(own)
    with write_session(own.engine) as session:
        for name, size, day in (("alpha", 7, "2025-03-01"), ("beta", 1, "2024-01-15"), ("delta", 3, "2025-06-30")):
            model = session.scalars(select(Model).filter_by(name=name)).one()
            model.parameters, model.released = size * 10**9, day
    page = body(own.client, "/boards/main/trade-offs?column=accuracy@cyclic")
    released = page[page.index('id="released"') :]
    assert "state of the art" in released
    wide = body(own.client, "/boards/main")
    assert re.findall(r'class="extra"[^>]*>([^<]+)<', wide)[:2] == ["Released", "2025-03-01"]
    assert "Licence" not in wide, "no column of what is not known of any model"
    assert released.count("<td>yes</td>") >= 1
    assert 'class="front"' in released
    assert "2024-01-15" in released
    assert "2 models without this number are left out" in released
    rows = [{"parameters": x, "worst_accuracy": y} for x, y in ((3, 0.5), (1, 0.4), (2, 0.3), (9, 0.5), (4, 0.9))]
    assert [row["parameters"] for row in pareto(PLOTS["size"], rows)] == [1, 3, 4]
