import re
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser

import pytest
from sqlalchemy import event, select

from registry.db import read_session, write_session
from registry.tables import Benchmark, BenchmarkVersion, Question
from tests.web.accounts import csrf_of
from tests.web.seed import HOSTILE, add_benchmark, add_model, evaluate, first, question_ids, right
from web.shown import listings
from web.urls.parameters import MAX_PAGE

pytestmark = pytest.mark.long_on("postgresql")

PAGES = (
    "/",
    "/?group=no",
    "/?sort=fluctuation_rate",
    "/?metrics=accuracy,cora&pin=cora&density=details&chart=size",
    "/?benchmark=capitals&subject=world&published=yes",
    "/overview",
    "/overview?metric=fluctuation_rate",
    "/models",
    "/models/alpha",
    "/benchmarks",
    "/benchmarks/capitals",
    "/benchmarks/capitals/answer-moving",
    "/evaluations/{alpha}",
    "/evaluations/{slow}",
    "/evaluations/{delta}?only=flips",
    "/evaluations/{delta}/questions/{q7}",
    "/evaluations/{silent}/questions/{q1}",
    "/questions/{q7}",
    "/compare",
    "/compare?left={alpha}",
    "/compare?left={alpha}&right={beta}",
    "/queue",
    "/metrics-guide",
)
VOID = {"meta", "link", "img", "input", "br"}


def address(pattern, seeded):
    return pattern.format(**seeded.evaluations, **seeded.questions)


def text_of(response):
    assert response.status_code == 200, response.text
    # test_charts.py reads the charts and their tables.
    text = re.sub(r"<figure.*?</figure>", " ", response.text, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", text).replace("\u202f", " ").split())


class Tags(HTMLParser):
    """A parser that checks that tags nest, and records their attributes."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.attributes = []
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.attributes += [name for name, _ in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.attributes += [name for name, _ in attrs]

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag, (tag, self.getpos())


def parse(response):
    tags = Tags()
    tags.feed(response.text)
    assert tags.open == []
    return tags


@pytest.mark.parametrize("pattern", PAGES)
def test_every_page_is_well_formed_and_keeps_to_the_content_security_policy(client, seeded, pattern):
    response = client.get(address(pattern, seeded))
    assert response.status_code == 200
    assert response.content_type == "text/html; charset=utf-8"
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "same-origin"
    tags = parse(response)
    assert not [name for name in tags.attributes if name == "style" or name.startswith("on")]
    # A block of JSON is never run, and scripts are loaded from files.
    assert all(
        attributes.get("src") or attributes.get("type") == "application/json"
        for tag, attributes in tags.tags
        if tag == "script"
    )
    names = [tag for tag, _ in tags.tags]
    assert names.count("h1") == 1
    assert names.count("table") == names.count("caption")
    assert all("scope" in attributes for tag, attributes in tags.tags if tag == "th")
    ids = [attributes["id"] for _, attributes in tags.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.one_engine
@pytest.mark.parametrize("pattern", PAGES)
def test_every_link_on_a_page_leads_somewhere(client, seeded, pattern, leads_to, chosen):
    text = client.get(address(pattern, seeded)).text
    if pattern != "/":  # the frame around it is the same on all of them
        text = text.partition("<main")[2].partition("</main>")[0]
    for link in chosen(map(unescape, re.findall(r'<a [^>]*href="([^"#]+)', text))):
        assert leads_to(client, link) == 200, link


def test_equal_values_have_equal_ranks_next_to_their_number_of_questions(client, seeded):
    address = "/?benchmark=capitals&metrics=worst_accuracy,average_accuracy"
    assert "8/8" not in text_of(client.get(address))  # n and interval are a hover or a link away
    text = text_of(client.get(f"{address}&density=details"))
    ranked = re.findall(r"(\d) (alpha|beta|gamma|delta|silent)\b", text)
    assert ranked == [("1", "alpha"), ("2", "silent"), ("3", "beta"), ("3", "gamma"), ("5", "delta")]
    assert "87.5 % 8/8" in text
    assert "81.3 % 8/8" in text


def test_an_incomplete_evaluation_stands_apart_with_its_progress(client, seeded):
    text = text_of(client.get("/"))
    before, incomplete = text.split("Not complete")
    announced, board = before.split("Each of them")
    assert "Being scored: slow on capitals" in announced
    assert "slow" not in board
    assert "slow" in incomplete
    assert "4/8 questions" in incomplete


def test_the_board_sorts_by_any_metric_and_says_so(client, seeded):
    response = client.get("/?benchmark=capitals&sort=fluctuation_rate&order=desc")
    text = text_of(response)
    assert re.findall(r"(\d) (alpha|beta|gamma|delta|silent)\b", text)[0] == ("5", "delta")
    headings = [attributes for tag, attributes in parse(response).tags if tag == "th" and "aria-sort" in attributes]
    assert [attributes["aria-sort"] for attributes in headings] == ["descending"]


def test_metrics_are_chosen_by_name(client, seeded):
    text = text_of(client.get("/?metrics=fluctuation_rate,accuracy&sort=model"))
    table = text[text.index("From right in two orders") : text.index("Ranks are by")]
    assert "Fluctuation rate" in table
    assert "Average accuracy" not in table


@pytest.mark.one_engine
def test_an_undefined_metric_is_a_dash_that_says_why_never_a_zero(own):
    client = own.client
    evaluation = evaluate(own.engine, "alpha", "capitals", right, variants="original")
    response = client.get(f"/evaluations/{evaluation}?metrics=fluctuation_rate")
    assert "Fluctuation rate needs two orders or more; asked in one order" in response.text
    assert "–" in response.text
    row = client.get(f"/api/v1/evaluations/{evaluation}?papers=yes").json
    assert row["metrics"]["fluctuation_rate"] is None
    assert row["metrics"]["accuracy_min"] is None  # of one order, there is no worst
    assert row["noise"] is None


def test_an_evaluation_page_filters_its_questions(client, seeded):
    page = f"/evaluations/{seeded.evaluations['beta']}"
    everything = text_of(client.get(page))
    assert "All 8" in everything
    assert "Right everywhere 6" in everything
    assert "Answer flips 2" in everything
    flips = text_of(client.get(page + "?only=flips"))
    assert "capital of Japan" in flips
    assert "capital of France" not in flips
    japan = text_of(client.get(page + "?q=capital+of+Japan"))
    assert ("All 1" in japan, "Right everywhere" in japan, "Answer flips 1" in japan) == (True, False, True)
    assert "capital of France" in text_of(client.get(page + "?q=PARIS&place=")), "in an option, in any letter case"
    assert "None. Show all" in text_of(client.get(page + "?only=flips&q=no+such+question"))
    assert 'name="only" value="flips"' in client.get(page + "?only=flips&q=x").text, "the search keeps the filter"


def test_a_question_without_a_valid_answer_is_found_and_shown_as_such(client, seeded):
    page = f"/evaluations/{seeded.evaluations['silent']}"
    assert "capital of France" in text_of(client.get(page + "?only=invalid"))
    detail = text_of(client.get(f"{page}/questions/{seeded.questions['q1']}"))
    assert "✗ no valid answer" in detail
    assert "Right in 0 of 4 orders" in detail
    assert "Chosen, of 4 0 0 0 0" in detail  # choices are a matrix, with probabilities or without


def test_a_question_page_shows_every_order_with_choice_probability_and_prompt(client, seeded):
    page = f"/evaluations/{seeded.evaluations['delta']}/questions/{seeded.questions['q7']}"
    detail = text_of(client.get(page))
    assert "Right in 1 of 4 orders; the answers differ: the model always chooses the option at A." in detail
    assert "Chosen, of 4 1 1 1 1" in detail
    matrix = re.search(r'<table class="matrix">.*?</table>', client.get(page).text, re.DOTALL)[0]
    assert matrix.count('<td class="answer chosen') == 1
    assert matrix.count("chosen heat-") == 4
    assert detail.count("Rebuilt; its digest matches the stored one") == 4
    assert "C. Tokyo D. Kobe Answer:" in detail


def test_one_steps_from_one_question_that_flips_to_the_next(client, seeded):
    page = f"/evaluations/{seeded.evaluations['beta']}/questions/{{}}"
    steps = {}
    for name in ("q1", "q7", "q8"):
        response = client.get(page.format(seeded.questions[name]))
        links = [attributes for _, attributes in parse(response).tags if "data-step" in attributes]
        steps[name] = ({attributes["data-step"]: attributes["href"] for attributes in links}, text_of(response))
    assert steps["q1"][0] == {"next": page.format(seeded.questions["q7"])}
    assert "This question does not flip; 2 of 8 do" in steps["q1"][1]
    assert steps["q7"][0] == {"next": page.format(seeded.questions["q8"])}
    assert "1 of the 2 questions that flip" in steps["q7"][1]
    assert steps["q8"][0] == {"prev": page.format(seeded.questions["q7"])}
    assert "No later question flips" in steps["q8"][1]
    of_alpha = client.get(f"/evaluations/{seeded.evaluations['alpha']}/questions/{seeded.questions['q1']}")
    assert "data-step" not in of_alpha.text


@pytest.mark.one_engine
def test_many_orders_stand_together_by_what_was_chosen_in_them(own, tmp_path):
    line = {"id": "q1", "subject": None, "question": "Which?", "options": list("vwxyz"), "answer": 2}
    with write_session(own.engine) as session:
        question_id = question_ids(session, add_benchmark(session, tmp_path, "five", [line]))["q1"]
    evaluation = evaluate(own.engine, "delta", "five", first, variants="full")
    page = own.client.get(f"/evaluations/{evaluation}/questions/{question_id}").text
    matrix = re.search(r'<table class="matrix">.*?</table>', page, re.DOTALL)[0]
    titles = re.findall(r'<tr class="group"><th[^>]*>(.*?) <span class="note">(.*?)</span>', matrix)
    assert titles == [(f"Chosen: {name}", "24 of 120") for name in "ABCDE"]
    assert matrix.count("#variant-") == 120
    # A line leads to the page of prompts that has it, which is unfolded.
    last = re.findall(r'href="([^"]*)#variant-119"', matrix)[0]
    assert last.endswith("?page=5")
    assert re.search(r"<details open><summary>120 prompts.*id=\"variant-119\"", own.client.get(last).text, re.DOTALL)


@pytest.mark.one_engine
def test_a_question_says_how_often_each_evaluation_chose_each_option(client, seeded):
    row = re.search(r">delta</a>.*?</tr>", client.get(f"/questions/{seeded.questions['q7']}").text, re.DOTALL)[0]
    assert re.findall(r'class="option[^>]*>(\d+)<', row) == ["1", "1", "1", "1"]


@pytest.mark.one_engine
def test_families_of_metrics_are_folded_unless_the_url_opens_them(client, seeded):
    page = f"/evaluations/{seeded.evaluations['beta']}"

    def open_page(address):
        return re.findall(
            r'<details( open)?>\s*<summary><span class="family">.*?<div id="metrics-(\w+)"',
            client.get(address).text,
            re.DOTALL,
        )

    families = [name for _, name in open_page(page)]
    assert families[:3] == ["orders", "repeats", "probabilities"]
    assert not any(is_open for is_open, _ in open_page(page))
    assert [name for is_open, name in open_page(page + "?open=orders") if is_open] == ["orders"]
    assert all(is_open for is_open, _ in open_page(page + "?open=all"))
    assert client.get(page + "?open=nonsense").status_code == 400


@pytest.mark.one_engine
def test_progress_is_shown_while_an_evaluation_runs_and_asks_for_its_json(client, seeded):
    response = client.get(f"/evaluations/{seeded.evaluations['slow']}")
    assert "16 of 32 prompts" in text_of(response)
    polled = [attributes["data-poll"] for _, attributes in parse(response).tags if "data-poll" in attributes]
    assert len(polled) == 1
    assert client.get(polled[0]).json["prompts_done"] == 16


def test_provenance_names_seal_digests_device_and_engine(client, seeded):
    page = f"/evaluations/{seeded.evaluations['alpha']}"
    text = text_of(client.get(page))
    provenance = client.get(f"/api/v1{page}").json["provenance"]
    for digest in (
        provenance["seal"],
        provenance["specification_digest"],
        provenance["model"]["weights_digest"],
    ):
        assert digest in text
    assert "bench, cpu" in text
    assert not provenance["mixed_engines"]


@pytest.mark.one_engine
def test_paths_on_the_server_are_not_shown(client, seeded):
    for page in ("/models/alpha", f"/evaluations/{seeded.evaluations['alpha']}"):
        assert "/somewhere/private" not in client.get(page).text
        assert "/somewhere/private" not in client.get("/api/v1" + page).text


@pytest.mark.one_engine
def test_hostile_parameters_are_shown_as_texts(client, seeded):
    for page in (f"/?q={HOSTILE}", f"/?sort={HOSTILE}", f"/evaluations/{HOSTILE}", f"/models/{HOSTILE}"):
        response = client.get(page)
        assert response.status_code in (200, 400, 404)
        assert "<script>alert" not in response.text


BAD = (
    ("/?sort=nonsense", "sort"),
    ("/?order=up", "order"),
    ("/?metrics=accuracy,nonsense", "nonsense"),
    ("/?page=-1", "page"),
    ("/?page=0", "page"),
    ("/?page=1.5", "page"),
    ("/?page=٣", "page"),
    (f"/?page={MAX_PAGE + 1}", "page"),
    ("/?per_page=100000", "per_page"),
    ("/?shots=many", "shots"),
    ("/?shots=5", "shots"),
    ("/?benchmark=nothing", "use one of capitals, hostile"),
    ("/?benchmark=secret", "use one of capitals, hostile"),
    ("/?variants=full", "use one of cyclic"),
    ("/?protocol=cloze", "use one of symbols"),
    ("/?benchmark=capitals&subject=mars", "use one of europe, world"),
    ("/?family=nobody", "use one of toy"),
    ("/?kind=nonsense", "use one of huggingface"),
    ("/?min_parameters=many", "min_parameters"),
    ("/?sealed_from=yesterday", "sealed_from"),
    ("/?published=perhaps", "use one of yes, no"),
    ("/leaderboard.csv?benchmark=nothing", "use one of capitals, hostile"),
    ("/?q=%00", "q"),
    ("/evaluations/x", "evaluation"),
    ("/evaluations/-1", "evaluation"),
    ("/evaluations/99999999999999999999", "evaluation"),
    ("/evaluations/{alpha}?only=nonsense", "only"),
    ("/evaluations/{alpha}/questions/x", "question"),
    ("/questions/1e3", "question"),
    ("/models/%00", "model"),
    ("/benchmarks/a%20b", "benchmark"),
    ("/queue?per_page=0", "per_page"),
)


@pytest.mark.one_engine
@pytest.mark.parametrize(("pattern", "named"), BAD)
def test_what_cannot_be_right_is_refused_by_name(client, seeded, pattern, named):
    response = client.get(address(pattern, seeded))
    assert response.status_code == 400
    assert named in text_of_error(response)


def text_of_error(response):
    assert response.content_type == "text/html; charset=utf-8"
    return re.search(r'<p class="lead">(.*?)</p>', response.text, re.DOTALL)[1]


MISSING = ("/evaluations/4711", "/questions/4711", "/models/nobody", "/benchmarks/nothing", "/nowhere", "/?page=99")


@pytest.mark.one_engine
@pytest.mark.parametrize("path", MISSING)
def test_what_is_not_there_is_a_page_that_says_so(client, seeded, path):
    response = client.get(path)
    assert response.status_code == 404
    assert "<h1>Not Found</h1>" in response.text


def test_a_question_that_an_evaluation_does_not_ask_is_not_found_there(client, seeded):
    path = f"/evaluations/{seeded.evaluations['hostile']}/questions/{seeded.questions['q1']}"
    assert client.get(path).status_code == 404


@pytest.mark.one_engine
def test_each_error_is_a_page_that_says_what_to_do_next(empty_client, monkeypatch):
    client = empty_client
    token = csrf_of(client)
    wrong = client.post("/")
    assert (wrong.status_code, "GET" in wrong.headers["Allow"]) == (405, True)
    assert "It takes GET, HEAD, OPTIONS." in wrong.text
    large = client.post("/sign-in", data={"csrf_token": token, "name": "x" * 3 * 2**20})
    assert (large.status_code, "shuffleboard evaluations import" in large.text) == (413, True)
    monkeypatch.setattr(listings, "models", lambda _session: 1 / 0)
    broken = client.get("/models")
    assert (broken.status_code, broken.headers["X-Request-Id"] in broken.text) == (500, True)
    assert "division" not in broken.text
    for _ in range(11):
        often = client.post("/sign-in", data={"csrf_token": token, "name": "nobody", "password": "x"})
    assert (often.status_code, "Try again in" in often.text) == (429, True)
    for page in (wrong, large, broken, often):
        assert page.mimetype == "text/html"
        assert '<a href="/">Go to the leaderboard</a>' in page.text


@pytest.mark.one_engine
def test_lists_are_sorted_by_any_column_and_narrowed_by_name(own):
    with write_session(own.engine) as session:
        for name, parameters in (("Beta-2", 7_000_000_000), ("ALPHA-small", 1_000_000)):
            add_model(session, name).model.parameters = parameters

    def list_items(path, kind="models"):
        response = own.client.get(path)
        assert response.status_code == 200, response.text
        return re.findall(rf'<th scope="row"><a href="/{kind}/([^"?]+)"', response.text)

    names = ["alpha", "ALPHA-small", "beta", "Beta-2", "delta", "gamma", "silent", "slow"]
    assert list_items("/models") == names
    assert list_items("/models?order=desc") == names[::-1]
    assert list_items("/models?sort=parameters")[0] == "Beta-2"
    assert list_items("/models?sort=parameters&order=asc")[0] == "ALPHA-small"
    assert list_items("/models?q=BETA") == ["beta", "Beta-2"]
    assert list_items("/models?q=toy") == names  # the family of all
    assert list_items("/models?family=toy") == names
    assert list_items("/models?family=unheard-of") == []
    assert list_items("/models?q=nothing") == []
    assert "Show all 8 models" in own.client.get("/models?q=nothing").text
    assert 'href="/models?q=beta&amp;sort=family&amp;order=asc"' in own.client.get("/models?q=beta").text
    assert own.client.get("/models?sort=nothing").status_code == 400
    assert list_items("/benchmarks?sort=questions", "benchmarks") == ["capitals", "hostile"]
    assert list_items("/benchmarks?sort=questions&order=asc", "benchmarks") == ["hostile", "capitals"]
    assert list_items("/benchmarks?q=CAP", "benchmarks") == ["capitals"]


@pytest.mark.one_engine
def test_an_empty_registry_says_how_to_begin(empty_client):
    assert "Nothing has been evaluated yet" in empty_client.get("/").text
    for page, command in (("/models", "models add NAME"), ("/benchmarks", "benchmarks import FILE"), ("/queue", "")):
        response = empty_client.get(page)
        assert response.status_code == 200
        assert command in response.text


@contextmanager
def count_statements(engine):
    """Yield the list of all statements that are sent to the database."""
    seen = []

    def note(_connection, _cursor, statement, _parameters, _context, _many):
        if not statement.startswith("PRAGMA"):
            seen.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield seen
    event.remove(engine, "before_cursor_execute", note)


def statements_of(site, patterns):
    counts = {}
    for pattern in patterns:
        with count_statements(site.engine) as seen:
            assert site.client.get(address(pattern, site.seeded)).status_code == 200
        counts[pattern] = len(seen)
    return counts


@pytest.mark.long_on("postgresql")
def test_a_page_makes_as_many_queries_for_many_evaluations_as_few(own):
    few = statements_of(own, PAGES)
    for variants in ("original", "random2", "full"):
        for model in ("alpha", "beta", "delta"):
            evaluate(own.engine, model, "capitals", right, variants=variants)
    many = statements_of(own, PAGES)
    # Fewer are fine, since sums over sealed evaluations are cached.
    assert {page: count for page, count in many.items() if count > few[page]} == {}
    assert max(few.values()) <= 22


@pytest.mark.one_engine
def test_questions_are_found_by_their_text_their_options_and_their_subject(site):
    def find(**asked):
        page = site.client.get("/benchmarks/capitals", query_string=asked).text
        return page[page.index('id="questions"') :].count('<a href="/questions/')

    with read_session(site.engine) as session:
        question = session.scalars(
            select(Question).join(BenchmarkVersion).join(Benchmark).filter_by(name="capitals")
        ).first()
        option, text = question.options[0].text, question.text
    assert find() == 8
    assert 1 <= find(q=text.upper()) < 8
    assert 1 <= find(q=option) <= 8
    assert find(q="100%_nowhere") == 0
    assert find(subject="no such subject") == 0
