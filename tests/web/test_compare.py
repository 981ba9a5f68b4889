"""Two evaluations side by side: differences, tests, and the questions on which they differ."""

import re

import pytest

from registry.db import read_session, write_session
from registry.metrics import METRICS
from registry.studies.comparing import compare_evaluations
from registry.verdicts.wording import tenths
from tests.proof.commands import run
from tests.web.accounts import add_maintainer
from tests.web.outputs import MODELS
from tests.web.seed import HOSTILE, add_model, evaluate, right
from tests.web.test_charts import cells
from tests.web.test_charts import right as answered_right
from tests.web.test_pages import count_statements
from web.pages.comparing import COMPARED

pytestmark = pytest.mark.one_engine

TABLE = "Both evaluations in each metric"


def pair(drawn, kind="cyclic", protocol="symbols"):
    return [drawn.outputs.evaluations[model, kind, protocol] for model in MODELS]


def compare(drawn, query="", **how):
    left, right_ = pair(drawn, **how)
    response = drawn.client.get(f"/compare?left={left}&right={right_}{query}")
    assert response.status_code == 200, response.text
    return response.text


def find_known_everywhere(drawn, model):
    """Return the questions that a model answers correctly in every order."""
    hits = {}
    for line in drawn.outputs.lines[model, "cyclic", "symbols"]:
        hits.setdefault(line["question_id"], []).append(answered_right(line))
    return {question for question, outcomes in hits.items() if all(outcomes)}


def test_the_numbers_are_those_of_the_command_line(drawn):
    rows = {row[0].rstrip(" ↑↓"): row[1:] for row in cells(compare(drawn), TABLE)}
    with read_session(drawn.engine) as session:
        expected = compare_evaluations(session, *pair(drawn))["metrics"]
    shown = {name: METRICS[name].label for name in COMPARED if expected[name]["n"]}
    assert set(rows) == set(shown.values())
    assert len(rows) == 6
    for name, label in shown.items():
        expected_values = expected[name]
        _, left, right_, difference, *test = rows[label]
        unit = " points" if name == "order_loss" else "%"
        assert left == f"{tenths(expected_values['first'])}{unit}"
        assert right_ == f"{tenths(expected_values['second'])}{unit}"
        assert difference.lstrip("+") == f"{tenths(expected_values['difference'])} points"
        if expected_values["mcnemar"] is None:
            assert test[0].startswith("–")
        else:
            p_value = expected_values["mcnemar"]["mid_p"]
            assert test == [
                str(expected_values["mcnemar"]["only_first"]),
                str(expected_values["mcnemar"]["only_second"]),
                "&lt; 0.001" if p_value < 0.001 else f"{p_value:.3f}",
            ]


def test_right_in_two_orders_and_its_loss_lead_every_surface(drawn):
    left, right_ = pair(drawn)
    leading = ["Right in two orders", "Order loss"]
    page = compare(drawn)
    assert [row[0].rstrip(" ↑↓") for row in cells(page, TABLE)][:2] == leading
    assert "better: right in two orders" in page
    assert "Right in every order" in page.split("Questions on which they differ")[1]
    printed = run(drawn.engine, "statistics", "compare", left, right_).stdout.splitlines()
    first = next(place for place, line in enumerate(printed) if line.startswith(leading[0]))
    assert printed[first + 1].startswith("Accuracy")
    assert printed[first + 2].startswith(leading[1])
    assert sum(line.startswith("right in every order only in the ") for line in printed) == 2
    answer = drawn.client.get(f"/api/v1/compare?a={left}&b={right_}").text
    places = [answer.index(f'"{name}"') for name in ("right_twice_across_orders", "order_loss", "worst_accuracy")]
    assert places == sorted(places)
    several = drawn.client.get("/compare?model=leaning&model=steady&benchmark=mixed&variants=cyclic&choose=yes").text
    assert "right in two orders" in several


def test_page_json_and_command_line_state_the_same_intervals(drawn):
    left, right_ = pair(drawn)
    page = compare(drawn)
    document = run(drawn.engine, "statistics", "compare", left, right_, "--json").document
    printed = run(drawn.engine, "statistics", "compare", left, right_).stdout.splitlines()
    assert f"{document['resamples']:,} resamples" in page
    drawn_bars = iter(re.findall(r'<rect class="interval" x="([\d.]+)%" width="([\d.]+)%"', page))
    edge = float(re.search(r"<span>\+(\d+)</span>", page)[1]) / 100
    for name in COMPARED:
        item, label = document["metrics"][name], METRICS[name].label
        if item["n"]:
            low, high = item["interval"]
            start, width = map(float, next(drawn_bars))
            assert [start, start + width] == pytest.approx([50 + 50 * low / edge, 50 + 50 * high / edge], abs=0.02)
            ends = f"{100 * low:+.1f} points to {100 * high:+.1f} points".replace("-", "−")
            assert f'<small class="note">{ends}</small>' in page
            assert any(line.startswith(label) and f"{low:.3f} … {high:.3f}" in line for line in printed), label


def test_questions_on_which_they_differ_are_listed_by_side(drawn):
    answered_everywhere = {model: find_known_everywhere(drawn, model) for model in MODELS}
    expected = {
        "left": answered_everywhere["leaning"] - answered_everywhere["steady"],
        "right": answered_everywhere["steady"] - answered_everywhere["leaning"],
        "all": answered_everywhere["leaning"] ^ answered_everywhere["steady"],
    }
    assert expected["right"]
    for only, questions in expected.items():
        page = compare(drawn, f"&only={only}&per_page=100")
        assert set(re.findall(r'<a href="/questions/\d+">(m\d+)</a>', page)) == questions
        assert f'<span class="number">{len(questions)}</span>' in page
    first = compare(drawn, "&per_page=10")
    second = compare(drawn, "&per_page=10&page=2")
    listed = [re.findall(r'<a href="/questions/\d+">(m\d+)</a>', page) for page in (first, second)]
    assert len(listed[0]) == 10
    assert not set(listed[0]) & set(listed[1])


def test_questions_can_differ_by_the_original_order_alone(drawn):
    page = compare(drawn, "&by=accuracy&per_page=100")
    outcomes = {
        model: {
            line["question_id"]: answered_right(line)
            for line in drawn.outputs.lines[model, "cyclic", "symbols"]
            if line["variant"] == 0
        }
        for model in MODELS
    }
    differing = {question for question, hit in outcomes["leaning"].items() if hit != outcomes["steady"][question]}
    assert set(re.findall(r'<a href="/questions/\d+">(m\d+)</a>', page)) == differing


def test_swapping_the_sides_turns_every_difference_around(drawn):
    left, right_ = pair(drawn)
    table = cells(compare(drawn), TABLE)
    swapped = cells(drawn.client.get(f"/compare?left={right_}&right={left}").text, TABLE)
    for row, turned in zip(table, swapped, strict=True):
        assert row[2:4] == turned[3:1:-1]
        assert row[4].split()[0] == turned[4].split()[0].translate(str.maketrans("+−", "−+"))


def test_two_models_are_compared_where_they_were_asked_in_the_same_way(drawn):
    page = drawn.client.get("/compare?left=leaning&right=steady&benchmark=mixed&variants=cyclic").text
    assert cells(page, TABLE) == cells(compare(drawn), TABLE)
    # Without a chosen protocol, one of four is used, and the others are offered.
    page = drawn.client.get("/compare?left=leaning&right=steady&benchmark=mixed").text
    assert (
        len(re.findall(r'/compare\?left=\d+&amp;right=\d+"', page.split("Also asked of both")[1].split("</p>")[0])) == 3
    )


def test_an_evaluation_offers_those_that_ask_the_same_questions(drawn):
    left, right_ = pair(drawn)
    assert f"/compare?left={left}" in drawn.client.get(f"/evaluations/{left}").text
    page = drawn.client.get(f"/compare?left={left}").text
    offered = re.findall(rf"left={left}&amp;right=(\d+)", page)
    assert offered[0] == str(right_)
    assert len(offered) == 7
    assert not set(offered) & {str(hidden) for hidden in drawn.outputs.hidden.values()}


def test_the_choice_begins_with_requests_that_several_models_share(drawn):
    page = drawn.client.get("/compare").text
    for model in MODELS:
        assert f'<input type="checkbox" name="model" value="{model}">' in page
    ways = re.findall(
        r"/compare\?benchmark=(\w+)&amp;version=\w+&amp;variants=([\w:=-]+|[^&]+)&amp;protocol=(\w+)", page
    )
    assert {(benchmark, protocol) for benchmark, _, protocol in ways} == {("mixed", "symbols"), ("mixed", "hybrid")}
    assert "parted" not in page  # one model's alone
    assert "veiled" not in page
    # A model that is chosen already narrows the ways to its own, and stays chosen.
    assert 'value="steady" checked' in drawn.client.get("/compare?model=steady").text


def test_models_are_compared_where_a_url_names_them_and_no_benchmark(drawn):
    assert "verdict" in drawn.client.get("/compare?model=leaning&model=steady&variants=cyclic").text
    assert cells(drawn.client.get("/compare?model=leaning&model=steady&variants=cyclic").text, TABLE) == cells(
        compare(drawn), TABLE
    )
    assert drawn.client.get("/compare?left=leaning&right=steady").status_code == 200


def test_a_verdict_names_the_better_model_the_difference_and_the_questions(drawn):
    with read_session(drawn.engine) as session:
        row = compare_evaluations(session, *pair(drawn))["metrics"]["right_twice_across_orders"]
    low, high = (-end for end in reversed(row["interval"]))
    verdict = re.sub("<[^>]*>", "", compare(drawn).split("verdict")[1].split("</p>")[0]).replace("\u202f", " ")
    verdict = " ".join(verdict.split())
    assert low > 0
    assert (
        f"steady is better: right in two orders {tenths(row['second'])} % against {tenths(row['first'])} %, a difference "
        f"of {tenths(-row['difference'])} points ({tenths(low)} to {tenths(high)})." in verdict
    )


def test_several_models_are_compared_by_every_pair_s_paired_difference(own):
    names = ("alpha", "beta", "delta")
    query = "&".join(f"model={name}" for name in names)
    page = own.client.get(f"/compare?{query}&benchmark=capitals").text
    # Best first. Eight questions are too few for an interval.
    assert [row[:2] for row in cells(page, "Metrics of every model")] == [
        ["1. alpha", "100.0%"],
        ["2. beta", "75.0%"],
        ["3. delta", "0.0%"],
    ]
    matrix = cells(page, "Row minus column in right in two orders")
    assert matrix[0][2:] == ["+25.0", "+100.0"]
    assert matrix[2][1:3] == ["−100.0", "−75.0"]
    assert "too few to say how certain that is" in page
    assert "Row minus column in fluctuation rate" in own.client.get(f"/compare?{query}&by=fluctuation_rate").text
    # Every pair has a link to its questions.
    ids = own.seeded.evaluations
    assert f"/compare?left={ids['alpha']}&amp;right={ids['delta']}" in page
    assert 'value="beta" checked' in own.client.get(f"/compare?{query}&choose=yes").text


def test_models_without_a_shared_way_of_asking_are_told_what_to_run(own):
    with write_session(own.engine) as session:
        add_model(session, "newcomer")
    evaluate(own.engine, "newcomer", "capitals", right, variants="original")
    maintainer = add_maintainer(own.engine)
    command = "shuffleboard evaluations submit --model {}@1 --benchmark capitals --variants cyclic"
    response = own.client.get("/compare?model=alpha&model=newcomer", headers=maintainer)
    assert response.status_code == 404
    assert command.format("newcomer") in response.text
    # None of slow's evaluations is complete.
    query = "left=alpha&right=slow&benchmark=capitals"
    assert command.format("slow") in own.client.get(f"/compare?{query}", headers=maintainer).text
    assert "shuffleboard evaluations" not in own.client.get(f"/compare?{query}").text


@pytest.mark.parametrize("page", ["/compare", "/queue", "/chain", "/withdrawn", "/protocol"])
def test_only_maintainers_are_told_what_to_run(page, empty_client):
    engine = empty_client.application.extensions["shuffleboard_engine"]
    command = re.compile("shuffleboard (evaluations|worker)")
    visited = empty_client.get(page)
    assert visited.status_code == 200
    assert not command.search(visited.text)
    assert command.search(empty_client.get(page, headers=add_maintainer(engine)).text)


def test_what_cannot_be_compared_is_refused_by_name(site):
    client, evaluations = site.client, site.seeded.evaluations
    refused = {
        f"left={evaluations['alpha']}&right={evaluations['alpha']}": "itself",
        f"left={evaluations['alpha']}&right={evaluations['hostile']}": "different questions",
        f"left={evaluations['alpha']}&right={evaluations['slow']}": "complete",
        "&".join(f"model=m{number}" for number in range(21)): "at most 20",
        f"model=alpha&model={HOSTILE}": "model",
        "model=alpha&model=beta&model=delta&by=entropy": "by",
        f"left={evaluations['alpha']}&right={evaluations['beta']}&only=some": "only",
        f"left={evaluations['alpha']}&right={evaluations['beta']}&by=entropy": "by",
        f"left={HOSTILE}&right=beta&benchmark=capitals": "model",
    }
    for query, named in refused.items():
        response = client.get(f"/compare?{query}")
        assert response.status_code == 400, query
        assert named in response.text
        assert "<script>alert" not in response.text
    for query in (
        "left=1&right=4711",
        "left=alpha&right=slow&benchmark=capitals",
        "left=4711",
        "model=alpha&model=nobody",
    ):
        assert client.get(f"/compare?{query}").status_code == 404, query


def test_evaluations_with_few_questions_have_no_interval(site):
    evaluations = site.seeded.evaluations
    page = site.client.get(f"/compare?left={evaluations['alpha']}&right={evaluations['delta']}").text
    assert page.count("no interval") == 6
    assert '<rect class="interval"' not in page.partition('id="differences"')[2]


def test_evaluations_without_a_common_question_have_nothing_to_compare(own):
    halves = [evaluate(own.engine, "alpha", "capitals", right, subjects=(part,)) for part in ("europe", "world")]
    page = own.client.get(f"/compare?left={halves[0]}&right={halves[1]}").text
    assert "no question with a value in common" in page
    assert "<p>None.</p>" in page


def test_another_way_of_asking_is_pointed_out(own):
    original = evaluate(own.engine, "beta", "capitals", right, variants="original")
    page = own.client.get(f"/compare?left={own.seeded.evaluations['alpha']}&right={original}").text
    assert "asked in different ways" in page


def test_a_comparison_asks_the_database_a_bounded_number_of_times(drawn):
    left, right_ = pair(drawn)
    models = "model=leaning&model=steady"
    for query in (
        f"left={left}&right={right_}",
        f"{models}&benchmark=mixed",
        models,
        f"left={left}",
        "model=steady",
        "",
    ):
        with count_statements(drawn.engine) as seen:
            assert drawn.client.get(f"/compare?{query}").status_code == 200
        assert len(seen) <= 16, query
