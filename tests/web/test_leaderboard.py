"""The leaderboard's page: filters, links, sentences and printed numbers."""

import csv
import io
import re

import pytest

from registry.db import write_session
from registry.leaderboard import rows as leaderboard
from registry.metrics.catalogue import HEADLINES
from registry.studies.published import load_published
from tests.web.seed import CAPITALS, add_benchmark, evaluate, first, right
from tests.web.test_charts import cells
from tests.web.test_pages import parse, text_of
from web.charts.scatter import PLOTS, draw_leaderboard

pytestmark = pytest.mark.long_on("postgresql")


def models(response):
    """Return the models of the ranked table, in its order."""
    table = response.text.split("Not complete")[0]
    return re.findall(r'<th scope="row" role="rowheader"[^>]*>\s*<a href="/models/([^"]+)"', table)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("family=toy&kind=huggingface", ["alpha", "silent", "beta", "gamma", "delta"]),
        ("kind=gguf", []),
        ("min_parameters=135000000&max_parameters=135000000", ["alpha", "silent", "beta", "gamma", "delta"]),
        ("min_parameters=500000000", []),
        ("openness=open", ["alpha", "silent", "beta", "gamma", "delta"]),
        ("openness=closed", []),
        ("released_from=2020-01-01", []),
        ("sealed_from=2020-01-01", ["alpha", "silent", "beta", "gamma", "delta"]),
        ("sealed_to=2020-01-01", []),
        ("q=A&sort=model&order=desc", ["gamma", "delta", "beta", "alpha"]),
        ("subject=world", ["alpha", "silent", "beta", "gamma", "delta"]),
        ("asked=several-orders", ["alpha", "silent", "beta", "gamma", "delta"]),
        ("asked=one-order", []),
        ("asked=repeats", []),
    ],
)
def test_filters_are_in_the_address_and_in_the_form(client, query, kept):
    response = client.get(f"/?benchmark=capitals&{query}")
    assert models(response) == kept
    selected = {
        attributes.get("value")
        for tag, attributes in parse(response).tags
        if tag == "option" and "selected" in attributes
    }
    for item in query.split("&"):
        name, _, value = item.partition("=")
        if name in ("min_parameters", "max_parameters", "asked", "openness"):
            assert value in selected
        elif name in ("kind", "family", "subject"):
            assert f"<option selected>{value}</option>" in response.text
        elif name.startswith(("sealed", "released")):
            assert f'name="{name}" value="{value}"' in response.text


def test_a_subject_has_numbers_of_its_own(client):
    text = text_of(client.get("/?benchmark=capitals&subject=world&metrics=worst_accuracy"))
    assert "50.0 % 4/8" in text
    assert "cover only the questions on world" in text


def test_another_way_of_asking_a_benchmark_is_a_line_that_unfolds(own):
    for model in ("beta", "delta"):
        evaluate(own.engine, model, "capitals", right, variants="full")
    page = own.client.get("/?benchmark=capitals").text
    folded = page[page.index('<tbody role="rowgroup" class="folded"') :].partition("</tbody>")[0]
    assert "also 24 orders · 2 evaluations" in folded
    assert folded.count("data-row=") == 2
    assert 'class="folded"' not in own.client.get("/?benchmark=capitals&variants=full").text


@pytest.mark.one_engine
def test_benchmarks_of_one_order_have_a_table_without_empty_columns(own, tmp_path):
    with write_session(own.engine) as session:
        add_benchmark(session, tmp_path, "once", CAPITALS)
    for model in ("beta", "delta"):
        evaluate(own.engine, model, "once", right, variants="original")
    tables = [table for table in own.client.get("/").text.split("<table")[1:] if "sort-model" in table]
    headings = [re.findall(r'data-key="sort-(\w+)"', table) for table in tables]
    assert ["model", "accuracy"] in headings
    assert [">once</a>" in table for table in tables] == [names == ["model", "accuracy"] for names in headings]
    chosen = own.client.get("/?metrics=accuracy,worst_accuracy").text
    assert chosen.count('data-key="sort-model"') == 1


def test_visitors_have_seven_entries_in_the_menu(client):
    page = client.get("/").text
    sheet = page[page.index('aria-label="All pages"') :].partition("</nav>")[0]
    assert sheet.count("<li>") == 7
    assert "Administration" not in sheet


def link(response, words):
    return re.search(rf'<a href="([^"]+)"[^>]*>{words}</a>', response.text)[1].replace("&amp;", "&")


@pytest.mark.parametrize(
    "query", ["", "?benchmark=capitals&subject=world&sort=model&metrics=worst_accuracy,accuracy&q=a"]
)
def test_the_links_lead_to_exactly_the_rows_shown(client, query):
    response = client.get(f"/{query}")
    lines = list(csv.DictReader(io.StringIO(client.get(link(response, "as CSV")).text)))
    document = client.get(link(response, "as JSON")).json
    spelt = client.get(link(response, "permanent link to this view"))
    complete = [line for line in lines if line["state"] == "complete"]
    assert [line["model"] for line in complete] == models(response) == models(spelt)
    assert [int(line["evaluation_id"]) for line in lines] == [row["evaluation_id"] for row in document["rows"]]
    for line, row in zip(lines, document["rows"], strict=True):
        assert line["rank"] == ("" if row["rank"] is None else str(row["rank"]))
        assert line["worst_accuracy"] == ("" if row["worst_accuracy"] is None else str(row["worst_accuracy"]))
        assert line["scope"] == document["scope"]
    assert cells_of(spelt) == cells_of(response)


def test_many_rows_are_sent_as_csv_in_pieces_of_one_table(client, monkeypatch):
    table = client.get("/leaderboard.csv").text
    for rows in (1, 2, 3):
        monkeypatch.setattr(leaderboard, "AT_ONCE", rows)
        sent = client.get(f"/leaderboard.csv?per_page={rows}")  # another address, since the first answer was kept
        pieces = [piece.decode() for piece in sent.iter_encoded()]
        assert [piece.count("\n") for piece in pieces[1:-1]] == [rows] * (len(pieces) - 2)
        assert len(pieces) > 2
        assert "".join(pieces) == table


def cells_of(response):
    return re.findall(r'<td role="cell" class="number.*?</td>', response.text, re.DOTALL)


def test_the_headline_metrics_stand_in_columns_unless_nothing_has_a_value(client):
    headings = re.findall(r'data-key="sort-(\w+)"', client.get("/").text)
    assert headings == ["model", *HEADLINES[:-1]]
    assert "npsq_accuracy" in re.findall(r'data-key="sort-(\w+)"', client.get("/?metrics=npsq_accuracy").text)
    assert "npsq_accuracy" in re.findall(r'data-key="sort-(\w+)"', client.get("/?sort=npsq_accuracy").text)


@pytest.mark.one_engine
def test_columns_stand_in_the_order_of_the_address_pinned_ones_first(client):
    """Check that the order of columns does not move rows, and that a form without scripts offers every other order."""
    address = "/?benchmark=capitals&metrics=cora,accuracy,worst_accuracy"
    response = client.get(address)
    headings = re.findall(r'data-key="sort-(\w+)"', response.text)
    assert headings == ["model", "cora", "accuracy", "worst_accuracy"]
    assert 'aria-sort="descending"' in response.text.split('data-key="sort-accuracy"')[0].rpartition("<th")[2]
    header = client.get(f"/leaderboard.csv{address[1:]}").text.partition("\n")[0].split(",")
    assert [name for name in header if name in headings] == ["model", "cora", "accuracy", "worst_accuracy"]

    def link_after(step):
        href = re.search(rf'<a href="([^"#]+)#[^"]+" title="{step}"', response.text)[1].replace("&amp;", "&")
        return re.findall(r'data-key="sort-(\w+)"', client.get(href).text)[1:]

    assert link_after("Move Accuracy left") == ["accuracy", "cora", "worst_accuracy"]
    assert link_after("Remove CoRA") == ["accuracy", "worst_accuracy"]
    assert link_after("Pin Worst accuracy") == ["worst_accuracy", "cora", "accuracy"]
    pinned = client.get(f"{address}&pin=worst_accuracy,cora").text
    assert re.findall(r'class="number pin pin-(\d)', pinned)[:2] == ["1", "2"]
    assert 'title="Move CoRA right"' not in pinned  # the last pinned column
    assert 'title="Move CoRA left"' in pinned
    assert models(client.get(address)) == models(client.get(f"{address}&pin=cora"))
    refused = client.get("/?pin=accuracy,cora,worst_accuracy,average_accuracy")
    assert refused.status_code == 400
    assert "pin at most 3 columns" in refused.text


@pytest.mark.one_engine
def test_selected_rows_are_compared_as_they_were_asked(client):
    page = parse(client.get("/?benchmark=capitals"))
    boxes = [attributes for tag, attributes in page.tags if tag == "input" and attributes.get("form") == "compare-1"]
    assert [(attributes["name"], attributes["value"]) for attributes in boxes] == [
        ("model", name) for name in ("alpha", "silent", "beta", "gamma", "delta")
    ]
    assert all(attributes["aria-label"] == f"Select {attributes['value']} to compare" for attributes in boxes)
    form = client.get("/?benchmark=capitals").text.partition('id="compare-1"')[2].partition("</form>")[0]
    assert 'action="/compare"' in form
    assert re.findall(r'name="(\w+)" value="(\w+)"', form) == [
        ("benchmark", "capitals"),
        ("variants", "cyclic"),
        ("protocol", "symbols"),
    ]


@pytest.mark.one_engine
@pytest.mark.parametrize(("chart", "axis", "value"), [("order", "Accuracy", "75.0%"), ("size", "Parameters", "135 M")])
def test_every_row_has_a_linked_point_and_a_row_in_the_table(client, seeded, chart, axis, value):
    page = client.get(f"/?benchmark=capitals&chart={chart}").text
    points = re.findall(r'<a href="([^"]+)" data-row="(\d+)"><title>([^<]+)</title>', page)
    assert [link for link, _, _ in points] == [f"/evaluations/{number}" for _, number, _ in points]
    assert {int(number) for _, number, _ in points} == {
        seeded.evaluations[name] for name in ("alpha", "beta", "gamma", "delta", "silent")
    }
    table = {row[0]: row[1:] for row in cells(page, f"{axis} and worst accuracy of each evaluation")}
    assert table["beta"] == [value, "75.0%"]
    assert table["delta"][1] == "0.0%"
    for _, _, title in points:
        name = title.partition(":")[0]
        assert all(value in title.replace("\u202f", "") for value in table[name])


def test_a_chart_names_the_rows_that_it_cannot_draw():
    def row(number, **changes):
        how = {"distinct_prompts_min": 4, "distinct_prompts_max": 4, "variants_max": 4, "orders_only": True}
        values = {"accuracy": 0.6, "worst_accuracy": 0.3, "parameters": 7_000_000_000}
        return {"evaluation_id": number, "model": f"m{number}", **how, **values, **changes}

    once = {"worst_accuracy": None, "distinct_prompts_min": 1, "distinct_prompts_max": 1, "variants_max": 1}
    rows = [row(1), row(2, parameters=None), row(3, **once)]
    by_order, by_size = (draw_leaderboard(PLOTS[name], rows) for name in ("order", "size"))
    assert [point.row["evaluation_id"] for point in by_order.points] == [1, 2]
    assert [point.row["evaluation_id"] for point in by_size.points] == [1]
    left_out = {why: [item["model"] for item in items] for why, items in by_size.missing.items()}
    assert left_out == {
        "The registry does not know the number of parameters (shuffleboard models add NAME --parameters N)": ["m2"],
        "Worst accuracy needs two orders or more; asked in one order": ["m3"],
    }
    assert [text for _, text in by_size.x_ticks] == ["3 B", "10 B"]
    assert draw_leaderboard(PLOTS["size"], []).points == []


def test_printed_numbers_stand_apart_with_their_table(own):
    with write_session(own.engine) as session:
        load_published(session)
    assert "Published in papers" not in own.client.get("/").text
    page = own.client.get("/?published=yes&metrics=cora&q=mist").text
    rows = cells(page, "Numbers published in papers")
    assert rows
    assert all(row[3].startswith("printed in Cavalin et al., Table") for row in rows)
    assert all("mist" in row[0].lower() for row in rows)
    assert "No paper in this registry reports" in own.client.get("/?published=yes&benchmark=capitals").text


# In words


@pytest.mark.one_engine
def test_the_sentence_is_there_only_when_the_numbers_bear_it(own, tmp_path):
    assert '<div class="notice told">' not in own.client.get("/").text
    evaluate(own.engine, "delta", "capitals", first, variants="full")
    assert '<div class="notice told">' not in own.client.get("/").text  # too few questions


@pytest.mark.one_engine
def test_an_order_loss_above_the_missing_answers_is_told(drawn):
    cost = "changing the order costs 28.5 points of that (26.1 to 30.1)."
    notice = drawn.client.get("/?variants=cyclic").text.partition('<div class="notice told">')[2]
    assert cost in notice.partition("</div>")[0]
    page = drawn.client.get(f"/evaluations/{drawn.outputs.evaluations['leaning', 'cyclic', 'symbols']}").text
    assert "7.6\u202f% of its answers are missing and count as wrong;" in page
    assert cost in page
