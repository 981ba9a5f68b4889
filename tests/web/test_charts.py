"""Charts and their tables, compared with an independent count of the imported lines."""

import json
import math
import re
from datetime import UTC, datetime, timedelta
from statistics import mean, median, pstdev, pvariance

import pytest
from sqlalchemy import text

from registry.db import read_session, write_session
from registry.verdicts.wording import tenths
from tests.web.outputs import MODELS, PARTED_QUESTIONS, PROTOCOLS, QUESTIONS
from tests.web.seed import add_model, evaluate
from tests.web.seed import right as answered_right
from tests.web.test_pages import count_statements, parse
from web import charts
from web.charts.ranks import PLOT, SLOPE, ranks_over_time
from web.charts.scatter import PLOTS, draw_board
from web.shown import chart_data

pytestmark = pytest.mark.long_on("postgresql")

PAGES = (
    "/benchmarks/mixed",
    "/benchmarks/mixed/answer-moving",
    "/evaluations/{adversarial}",
    "/evaluations/{cyclic}",
    "/evaluations/{cyclic}?place=B",
    "/evaluations/{moved}",
    "/evaluations/{cyclic}/questions/{question}",
    "/evaluations/{parted}",
    "/boards/order",
    "/overview",
    "/compare",
    "/compare?left={cyclic}",
    "/compare?left={cyclic}&right={steady}",
)
ANSWERS = {question["id"]: question["answer"] for question in QUESTIONS}


def address(drawn, pattern):
    """Return a page's address, in which the kinds of `leaning`'s evaluations are replaced by their ids."""
    evaluations = drawn.outputs.evaluations
    return pattern.format(
        adversarial=evaluations["leaning", "adversarial", "symbols"],
        cyclic=evaluations["leaning", "cyclic", "symbols"],
        moved=evaluations["leaning", "answer-moving", "hybrid"],
        steady=evaluations["steady", "cyclic", "symbols"],
        question=drawn.outputs.questions["m4"],
        parted=drawn.outputs.parted,
    )


def specifications(page):
    """Return the charts of a page from their JSON blocks."""
    return [
        json.loads(block) for block in re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    ]


def right(line):
    """Return whether a line's answer is right."""
    return line["position"] is not None and line["order"][line["position"]] == ANSWERS[line["question_id"]]


def accuracies(lines):
    """Return the accuracy of each run, by variant."""
    by_run = {}
    for line in lines:
        by_run.setdefault(line["variant"], []).append(right(line))
    return {variant: mean(hits) for variant, hits in sorted(by_run.items())}


def consistency(lines):
    """Return the mean over questions of the share of unordered pairs of runs with equal contents."""
    by_question = {}
    for line in lines:
        chosen = None if line["position"] is None else line["order"][line["position"]]
        by_question.setdefault(line["question_id"], []).append(chosen)
    shares = []
    for chosen in by_question.values():
        pairs = [(one, other) for number, one in enumerate(chosen) for other in chosen[:number]]
        shares.append(sum(one == other and one is not None for one, other in pairs) / len(pairs))
    return mean(shares)


def cells(page, caption):
    """Return the rows of the table with this caption: the texts of their cells, without notes."""
    table = re.search(rf"<caption[^>]*>{re.escape(caption)}.*?</table>", page, re.DOTALL)[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", table.split("</thead>")[1], re.DOTALL)
    plain = [re.sub(r"<small.*?</small>", "", row, flags=re.DOTALL) for row in rows]
    return [
        [
            " ".join(re.sub(r"<[^>]+>", " ", cell).replace("&#8239;", "").replace("\u202f", "").split())
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in plain
    ]


def test_the_box_shows_moved_runs_and_the_whiskers_all_runs():
    runs = [{"variant": variant, "accuracy": value} for variant, value in enumerate((0.6, 0.7, 0.8))]
    box = charts.spread(runs)
    assert box["original"] == 0.6
    assert box["median_moved"] == pytest.approx(0.75)
    assert box["sd_moved"] == pytest.approx(0.05)
    assert (box["lowest"], box["highest"]) == (0.6, 0.8)
    chart = charts.answer_moving([{"label": "m", **box}], 0.25)
    (value,) = chart.spec["data"]["values"]
    assert value["box_low"] == pytest.approx(0.7)
    assert value["box_high"] == pytest.approx(0.8)


def test_an_evaluation_without_a_moved_run_has_no_box():
    box = charts.spread([{"variant": 0, "accuracy": 0.5}])
    assert box["median_moved"] is None
    assert charts.answer_moving([{"label": "m", **box}], None).spec["data"]["values"] == []


def test_runs_are_those_of_the_view(drawn):
    ids = list(drawn.outputs.evaluations.values())
    with read_session(drawn.engine) as session:
        by_evaluation = chart_data.runs(session, ids)
        view = session.execute(
            text("SELECT evaluation_id, variant, questions, accuracy FROM run_accuracy WHERE scope = 'all'")
        ).all()
    expected = {(row.evaluation_id, row.variant): (row.questions, row.accuracy) for row in view}
    assert {
        (evaluation, run["variant"]): (run["questions"], pytest.approx(run["accuracy"], abs=1e-12))
        for evaluation, runs in by_evaluation.items()
        for run in runs
    } == {key: value for key, value in expected.items() if key[0] in ids}


def test_the_table_of_moved_answers_holds_what_the_imported_lines_give(drawn):
    page = drawn.client.get("/benchmarks/mixed/answer-moving").text
    rows = cells(page, "Metrics over the positions of the right option")
    every_run = cells(page, "Accuracy by position of the right option")
    assert len(rows) == len(MODELS) * len(PROTOCOLS)
    order = [(model, protocol) for model in MODELS for protocol in sorted(PROTOCOLS)]
    for (model, protocol), row, runs in zip(order, rows, every_run, strict=True):
        lines = drawn.outputs.lines[model, "answer-moving", protocol]
        assert any(line["position"] is None for line in lines) == (model == "leaning")
        by_run = accuracies(lines)
        values = list(by_run.values())
        moved = values[1:]
        assert len(values) == 6
        percent = [f"{tenths(value)}%" for value in values]
        assert row[:2] == [model, f"{protocol}, 0-shot"]
        assert row[2:] == [
            percent[0],
            f"{tenths(mean(values))}%",
            f"{tenths(mean(moved))}%",
            f"{tenths(median(moved))}%",
            f"{pvariance([100 * value for value in values]):.3f}",
            f"{tenths(min(values))}%",
            f"{tenths(max(values))}%",
            f"{tenths(max(values) - min(values))} points",
            f"{tenths(abs(values[0] - mean(moved)))} points",
            f"{tenths(consistency(lines))}%",
        ]
        assert runs[1:7] == percent
        assert runs[8] == f"{tenths(pstdev(moved))} points"


def test_the_box_plot_draws_the_numbers_of_its_table(drawn):
    (specification,) = specifications(drawn.client.get("/benchmarks/mixed/answer-moving").text)
    drawn_lines = specification["data"]["values"]
    assert [value["label"] for value in drawn_lines] == [
        f"{model} · {protocol}" for model in MODELS for protocol in sorted(PROTOCOLS)
    ]
    by_run = accuracies(drawn.outputs.lines["leaning", "answer-moving", "symbols"])
    line = next(value for value in drawn_lines if value["label"] == "leaning · symbols")
    assert line["median_moved"] == pytest.approx(median(list(by_run.values())[1:]))
    assert line["lowest"] == pytest.approx(min(by_run.values()))
    guessing = specification["layer"][0]["data"]["values"][0]["guessing"]
    assert guessing == pytest.approx(mean(1 / len(question["options"]) for question in QUESTIONS))


def positions_of(lines):
    """Return position → counts of prompts answered there, with the right option there, and answered right there."""
    positions = {}
    for line in lines:
        stands = line["order"].index(ANSWERS[line["question_id"]])
        positions.setdefault(stands, [0, 0, 0])
        positions[stands][1] += 1
        positions[stands][2] += right(line)
        if line["position"] is not None:
            positions.setdefault(line["position"], [0, 0, 0])[0] += 1
    return positions


def failing_only_at(lines):
    """Return question → its only wrong position, for questions that are always wrong there and right elsewhere."""
    hits = {}
    for line in lines:
        stands = line["order"].index(ANSWERS[line["question_id"]])
        hits.setdefault(line["question_id"], {}).setdefault(stands, []).append(right(line))
    failing = {}
    for question, by_position in hits.items():
        never = [position for position, outcomes in by_position.items() if not any(outcomes)]
        always = [position for position, outcomes in by_position.items() if all(outcomes)]
        if len(never) == 1 and len(always) == len(by_position) - 1 > 0:
            failing[question] = never[0]
    return failing


@pytest.mark.parametrize(("kind", "protocol"), [("cyclic", "symbols"), ("answer-moving", "hybrid")])
def test_answers_by_position_are_counted_from_the_lines(drawn, kind, protocol):
    lines = drawn.outputs.lines["leaning", kind, protocol]
    page = drawn.client.get(f"/evaluations/{drawn.outputs.evaluations['leaning', kind, protocol]}").text
    expected, failing = positions_of(lines), failing_only_at(lines)
    assert cells(page, "Answers by position") == [
        [
            "ABCDE"[position],
            str(answered),
            str(stands),
            f"{tenths(correct / stands)}%",
            str(list(failing.values()).count(position)),
        ]
        for position, (answered, stands, correct) in sorted(expected.items())
    ]
    silent = sum(line["position"] is None for line in lines)
    assert f"{silent} of them had no valid answer" in page
    values = {
        (value["position"], value["what"]): value["share"]
        for value in find_titled(page, "Bars for 5 positions")["data"]["values"]
    }
    assert values["A", "Chosen here"] == pytest.approx(expected[0][0] / len(lines))
    assert values["E", "Right answer here"] == pytest.approx(expected[4][1] / len(lines))


def test_questions_that_fail_at_one_position_only_are_found(drawn):
    evaluation = drawn.outputs.evaluations["leaning", "cyclic", "symbols"]
    failing = failing_only_at(drawn.outputs.lines["leaning", "cyclic", "symbols"])
    assert set(failing.values()) == {1, 2, 3, 4}
    for position in range(5):
        page = drawn.client.get(f"/evaluations/{evaluation}?place={'ABCDE'[position]}").text
        listed = set(re.findall(r'/questions/\d+">(m\d+)</a>', page))
        assert listed == {question for question, place in failing.items() if place == position}
    assert "Fails only at A" not in drawn.client.get(f"/evaluations/{evaluation}").text


def test_a_place_that_is_none_is_refused(drawn):
    evaluation = drawn.outputs.evaluations["leaning", "cyclic", "symbols"]
    for place in ("AB", "a", "7"):
        response = drawn.client.get(f"/evaluations/{evaluation}?place={place}")
        assert response.status_code == 400
        assert "place" in response.text


def test_effects_of_inserted_options_are_counted_from_the_lines(drawn):
    lines = drawn.outputs.lines["leaning", "adversarial", "symbols"]
    page = drawn.client.get(f"/evaluations/{drawn.outputs.evaluations['leaning', 'adversarial', 'symbols']}").text
    rows = cells(page, "Effects of each inserted option")
    names = [
        name for name in ("simple", "extended", "instructional", "neutral") if any(name in l["order"] for l in lines)
    ]
    assert [row[0] for row in rows] == names
    original = mean(right(line) for line in lines if line["variant"] == 0)
    by_key = {(line["question_id"], line["variant"]): line for line in lines}
    for number, row in enumerate(rows, start=1):
        shown = [line for line in lines if line["variant"] == number]
        taken = mean(
            line["position"] is not None and isinstance(line["order"][line["position"]], str) for line in shown
        )
        accuracy = mean(map(right, shown))
        assert taken > 0
        assert row[1:5] == [
            f"{tenths(taken)}%",
            f"{tenths(original)}%",
            f"{tenths(accuracy)}%",
            f"{100 * (accuracy - original):+.1f} points".replace("-", "−"),
        ]
        by_npsq = []
        for line in shown:
            alone = by_key[line["question_id"], number + 5]
            assert alone["order"] == line["order"]
            gains = [(one - other) / -other for one, other in zip(line["logprobs"], alone["logprobs"], strict=True)]
            by_npsq.append(isinstance(line["order"][gains.index(max(gains))], str))
        assert row[5] == f"{tenths(mean(by_npsq))}%"
    adversarial = find_titled(page, f"Bars for {len(names)} inserted texts")
    assert [value["label"] for value in adversarial["data"]["values"]] == names


def test_parts_of_the_benchmark_stand_in_the_order_of_what_they_lose(drawn):
    page = drawn.client.get(f"/evaluations/{drawn.outputs.evaluations['leaning', 'cyclic', 'symbols']}").text
    values = find_titled(page, "Lines for")["data"]["values"]
    lost = [value["accuracy"] - value["worst_accuracy"] for value in values]
    assert {value["label"] for value in values} == {"odd", "even"}
    assert lost == sorted(lost, reverse=True)
    table = {row[0]: row[1:] for row in cells(page, "Metrics by subject")}
    for value in values:
        assert f"{tenths(value['retest_accuracy'])}%" in table[value["label"]]


def test_a_single_order_has_no_chart_of_what_other_orders_lose(drawn):
    page = drawn.client.get(f"/evaluations/{drawn.outputs.evaluations['leaning', 'adversarial', 'symbols']}").text
    assert "the largest loss first" not in page


def find_titled(page, words):
    """Return the chart of a page whose label begins with these words."""
    blocks = re.findall(
        r'aria-label="([^"]*)"><div class="chart[^"]*"><canvas[^>]*></canvas></div></div>\s*<script type="application/json">(.*?)</script>',
        page,
        re.DOTALL,
    )
    return next(json.loads(block) for label, block in blocks if label.startswith(words))


def test_the_curve_of_bmca_is_counted_from_the_lines(drawn):
    page = drawn.client.get(f"/evaluations/{drawn.outputs.evaluations['leaning', 'cyclic', 'symbols']}").text
    hits = {}
    for line in drawn.outputs.lines["leaning", "cyclic", "symbols"]:
        hits.setdefault(line["question_id"], []).append(right(line))
    shares = (50, 60, 70, 80, 90, 100)
    expected = [
        mean(10 * sum(outcomes) >= share / 10 * len(outcomes) for outcomes in hits.values()) for share in shares
    ]
    values = find_titled(page, "Curve of BMCA")["data"]["values"]
    assert [value["value"] for value in values] == pytest.approx(expected)
    assert expected == sorted(expected, reverse=True)
    rows = cells(page, "Share of questions right in at least this share of their variants")
    assert [row[:2] for row in rows] == [
        [f"{share}%", f"{tenths(value)}%"] for share, value in zip(shares, expected, strict=True)
    ]


def test_a_curve_needs_two_points():
    assert charts.bmca_curve({"bmca_50": {"value": 0.5}, "bmca_60": {"value": None}}) is None
    assert charts.bmca_curve({}) is None


def test_a_single_order_has_no_curve():
    alike = {name: {"value": 0.5} for name in ("accuracy", "bmca_50", "bmca_60")}
    assert charts.bmca_curve(alike) is None
    assert charts.bmca_curve(alike | {"bmca_60": {"value": 0.4}}) is not None


def test_subjects_stand_in_each_shuffle_with_their_median(drawn):
    page = drawn.client.get(f"/evaluations/{drawn.outputs.parted}").text
    subject_of = {question["id"]: question["subject"] for question in PARTED_QUESTIONS}
    hits = {}
    for line in drawn.outputs.parted_lines:
        hits.setdefault((line["variant"], subject_of[line["question_id"]]), []).append(right(line))
    specification = find_titled(page, "Strips of accuracy")
    dots = {
        (value["row"], value["subject"]): value["accuracy"] for value in specification["layer"][0]["data"]["values"]
    }
    assert dots == {place: pytest.approx(mean(outcomes)) for place, outcomes in hits.items()}
    for value in specification["data"]["values"]:
        of_run = [accuracy for (run, _), accuracy in dots.items() if run == value["row"]]
        assert value["median"] == pytest.approx(median(of_run))
    assert [value["label"] for value in specification["data"]["values"]] == [
        "Original order",
        "Shuffle 1",
        "Shuffle 2",
    ]
    first = f"{tenths(mean(hits[0, 'part 0']))}%"
    assert cells(page, "Accuracy on each subject in each order")[0][:2] == ["part 0", first]


def test_two_subjects_are_no_strip():
    rows = [{"run": run, "name": "n", "subject": name, "accuracy": 0.5} for run in (0, 1) for name in ("a", "b")]
    assert charts.shuffles(rows) is None


def test_the_overview_has_every_model_on_every_benchmark_asked_in_one_way(drawn):
    page = drawn.client.get("/overview?variants=cyclic&metric=accuracy").text
    accuracy = {
        model: mean(right(line) for line in drawn.outputs.lines[model, "cyclic", "symbols"] if line["variant"] == 0)
        for model in MODELS
    }
    best_first = sorted(MODELS, key=accuracy.get, reverse=True)
    assert cells(page, "Accuracy of every model on every benchmark") == [
        [model, f"{tenths(accuracy[model])}%"] for model in best_first
    ]
    low, high = min(accuracy.values()), max(accuracy.values())
    for model in MODELS:
        assert f'heat-{round(10 * (accuracy[model] - low) / (high - low))}"' in page
    assert "veiled" not in page


@pytest.mark.one_engine
def test_the_overview_shows_the_way_with_the_most_evaluations_unless_told(drawn):
    # Adversarial, answer-moving and cyclic have two each under symbols: the first by name.
    assert "under adversarial, symbols, 0-shot" in drawn.client.get("/overview").text
    # Adversarial orders leave no fluctuation rate: a protocol with numbers precedes a protocol with evaluations only.
    fluctuation = drawn.client.get("/overview?metric=fluctuation_rate").text
    assert "under answer-moving:examples=moved, hybrid, 0-shot" in fluctuation
    assert "under cyclic, symbols, 0-shot" in drawn.client.get("/overview?variants=cyclic").text
    hybrid = drawn.client.get("/overview?protocol=hybrid").text
    assert "under answer-moving:examples=moved, hybrid, 0-shot" in hybrid
    refused = drawn.client.get("/overview?variants=full")
    assert refused.status_code == 400
    assert "variants, protocol and shots in use: adversarial, symbols, 0" in refused.text
    assert drawn.client.get("/overview?metric=nonsense").status_code == 400


@pytest.mark.one_engine
def test_a_benchmark_that_few_were_asked_leaves_the_others_their_mean(own):
    with write_session(own.engine) as session:
        add_model(session, "elsewhere")
    evaluate(own.engine, "elsewhere", "hostile", answered_right)
    address = "/overview?variants=cyclic&metric=accuracy"
    page = own.client.get(address).text
    assert "over 1 of 2 benchmarks, those on which at least half of the models have a value: capitals" in page
    rows = cells(page, "Accuracy of every model on every benchmark")
    assert [row[:3] for row in rows[:2]] == [["alpha", "100.0%", "100.0%"], ["silent", "87.5%", "87.5%"]]
    # A model that lacks a benchmark of the mean is listed apart, with the reason.
    assert page.index("Without a mean") < page.index(">elsewhere<")
    assert rows[-1][0] == "elsewhere"
    assert "No mean without a value on capitals" in page
    by_benchmark = cells(own.client.get(f"{address}&sort=hostile&order=asc").text, "Accuracy of every model")
    assert {row[0] for row in by_benchmark[:2]} == {"alpha", "elsewhere"}
    by_name = cells(own.client.get(f"{address}&sort=model").text, "Accuracy of every model")
    assert [row[0] for row in by_name] == ["alpha", "beta", "delta", "elsewhere", "gamma", "silent"]
    assert "use one of mean, model, capitals, hostile" in own.client.get(f"{address}&sort=nothing").text


@pytest.mark.one_engine
def test_an_empty_registry_has_no_overview_yet(empty_client):
    page = empty_client.get("/overview").text
    assert "Nothing has been evaluated yet" in page
    assert "shuffleboard evaluations submit" in page


def test_the_matrix_of_a_question_is_what_the_imported_lines_say(drawn):
    page = drawn.client.get(address(drawn, "/evaluations/{cyclic}/questions/{question}")).text
    lines = [line for line in drawn.outputs.lines["leaning", "cyclic", "symbols"] if line["question_id"] == "m4"]
    chosen = {variant: line["order"][line["position"]] for variant, line in enumerate(lines)}
    count, mean_row, *rows = cells(page, "Choices in each variant")
    assert count[1:] == [str(list(chosen.values()).count(option)) for option in range(5)]
    for variant, (line, row) in enumerate(zip(lines, rows, strict=True)):
        shares = [math.exp(value) for value in line["logprobs"]]
        for option, cell in enumerate(row[1:]):
            position = line["order"].index(option)
            shown = f"{100 * shares[position] / sum(shares):.0f}"
            mark = ("✓" if option == ANSWERS["m4"] else "✗") if option == chosen[variant] else None
            assert cell.split() == [*([mark] if mark else []), shown, *(["chosen"] if mark else [])]
    for option, cell in enumerate(mean_row[1:]):
        probabilities = [
            math.exp(line["logprobs"][line["order"].index(option)]) / sum(map(math.exp, line["logprobs"]))
            for line in lines
        ]
        assert cell == f"{100 * mean(probabilities):.0f}"
    assert '<td class="answer chosen heat-' in page


@pytest.mark.one_engine
def test_hostile_texts_in_a_chart_are_data(site):
    page = site.client.get(f"/evaluations/{site.seeded.evaluations['hostile']}").text
    assert specifications(page)
    blocks = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    assert not [block for block in blocks if "<" in block or "&" in block]


def test_questions_are_counted_by_the_orders_in_which_they_are_right(drawn):
    lines = drawn.outputs.lines["leaning", "cyclic", "symbols"]
    page = drawn.client.get(address(drawn, "/evaluations/{cyclic}")).text
    by_question = {}
    for line in lines:
        by_question.setdefault(line["question_id"], []).append(line)
    expected = {"steady": 0, "flips": 0}
    always = never = 0
    for question_lines in by_question.values():
        chosen = {None if line["position"] is None else line["order"][line["position"]] for line in question_lines}
        expected["steady" if len(chosen) == 1 and None not in chosen else "flips"] += 1
        always += all(map(right, question_lines))
        never += not any(map(right, question_lines))
    values = find_titled(page, "Bars for 12 numbers of orders")["data"]["values"]
    counts = {
        what: sum(value["questions"] for value in values if value["what"] == what)
        for what in ("Same answer in all", "Answer flips")
    }
    assert list(counts.values()) == list(expected.values())
    rows = cells(page, "Questions by how many of their orders")
    assert (rows[0][0], rows[-1][0]) == ("none", "all")  # of four and of five orders: shares, not counts
    assert [int(rows[0][3]), int(rows[-1][3])] == [never, always]


@pytest.mark.one_engine
def test_bars_are_counts_where_all_questions_have_the_same_few_orders():
    row = {"variants": 4, "correct": 3, "steady": False, "questions": 7}
    bins = charts.flip_bins([row, row | {"correct": 4, "steady": True, "questions": 2}])
    assert [item["label"] for item in bins] == ["0", "1", "2", "3", "4"]
    assert [(item["steady"], item["flips"]) for item in bins[3:]] == [(0, 7), (2, 0)]
    (chart_layer,) = charts.flips(bins).spec["layer"]
    assert chart_layer["encoding"]["x"]["title"] == "Right in, of 4 orders"
    (of_repeats,) = charts.flips(bins, "repeats").spec["layer"]
    assert of_repeats["encoding"]["x"]["title"] == "Right in, of 4 repeats"
    of_many = [row | {"variants": 120, "correct": correct} for correct in (0, 1, 59, 60, 119, 120)]
    assert [item["flips"] for item in charts.flip_bins(of_many)] == [7, 7, 0, 0, 0, 7, 7, 0, 0, 0, 7, 7]


@pytest.mark.one_engine
def test_a_history_needs_two_days():
    days = [
        {"label": "m", "accuracy": 0.5, "worst_accuracy": 0.2, "sealed_at": datetime(2026, 1, day, tzinfo=UTC)}
        for day in (1, 2)
    ]
    assert charts.history(days[:1] * 2) is None
    values = charts.history(days).spec["data"]["values"]
    assert [value["day"][:10] for value in values] == ["2026-01-01", "2026-01-02"]


@pytest.mark.one_engine
def test_a_board_s_scatter_has_a_point_per_complete_model(drawn):
    page = drawn.client.get("/boards/order").text
    scatter = page.split('class="scatter"')[1].split("</svg>")[0]
    points = re.findall(r'<a href="/models/(\w+)"><title>([^<]*)</title>', scatter)
    assert [model for model, _ in points] == ["steady", "leaning"]
    for model, title in points:
        by_question = {}
        for line in drawn.outputs.lines[model, "cyclic", "symbols"]:
            by_question.setdefault(line["question_id"], []).append(right(line))
        worst = f"{tenths(mean(map(all, by_question.values())))}\u202f%"
        original = f"{tenths(mean(hits[0] for hits in by_question.values()))}\u202f%"
        assert title.startswith(f"{model}: accuracy {original}, worst accuracy {worst}, ")
        assert [model, *(text.replace("\u202f", "") for text in (original, worst))] in [
            row[:3] for row in cells(page, "Accuracy and worst accuracy")
        ]


def test_names_in_the_scatter_cover_no_point_and_no_name():
    rows = [{"model": f"model-{number}", "accuracy": 0.5, "worst_accuracy": 0.4 + number / 1000} for number in range(5)]
    rows.append({"model": "far", "accuracy": 0.5, "worst_accuracy": 0.1})
    # Another model is on the left; on the right the plot ends.
    rows += [
        {"model": "squeezed", "accuracy": 0.79, "worst_accuracy": 0.2},
        {"model": "beside", "accuracy": 0.75, "worst_accuracy": 0.2},
    ]
    points = draw_board(PLOTS["order"], rows).points
    # Five points coincide: one name goes to the right of them, one to the left, and three have no room.
    assert {point.row["model"]: point.names["narrow"][1] for point in points if "narrow" in point.names} == {
        "model-0": False,
        "model-1": True,
        "far": False,
        "beside": True,
    }
    assert {point.row["model"] for point in points if "wide" in point.names} >= {"model-0", "model-1", "far", "beside"}


def test_models_that_are_all_alike_still_have_axes():
    for value in (0.0, 0.3, 1.0):
        row = {"model": "m", "accuracy": value, "worst_accuracy": value}
        scatter = draw_board(PLOTS["order"], [row, row])
        ticks = [float(text.removesuffix("\u202f%")) / 100 for _, text in scatter.x_ticks]
        assert 0 <= ticks[0] < ticks[-1] <= 1
        assert ticks[0] <= value <= ticks[-1]
        # Nothing is lost, so the point is on the diagonal.
        assert scatter.points[0].up == scatter.points[0].y


def test_accuracy_is_drawn_against_the_logarithm_of_the_cost():
    rows = [
        {"model": model, "accuracy": accuracy, "cost": cost}
        for model, accuracy, cost in (("cheap", 0.4, 0.02), ("middle", 0.5, 0.2), ("dear", 0.6, 2.0))
    ]
    scatter = draw_board(PLOTS["cost"], rows, "USD")
    cheap, middle, dear = scatter.points
    assert middle.x - cheap.x == pytest.approx(dear.x - middle.x, abs=0.02)
    assert cheap.y > middle.y > dear.y  # downwards from the top
    assert [text for _, text in scatter.x_ticks] == ["0.01", "0.1", "1", "10"]
    assert cheap.words == ["cost 0.02 USD", "accuracy 40.0\u202f%"]
    assert {point.up for point in scatter.points} == {None}
    # One alone has axes, too.
    assert len(draw_board(PLOTS["cost"], rows[:1], "USD").x_ticks) == 2


def test_ranks_are_drawn_over_real_time_and_held_until_they_change():
    start = datetime(2026, 3, 1, tzinfo=UTC)
    times = [start + timedelta(days=days) for days in (0, 10, 80, 100)]
    ranks = {"falls": (1, 1, 3, 3), "joins": (None, 2, 1, 1), "stays": (2, 3, 3, 3), "leaves": (3, 4, 4, None)}
    rows = [
        {"model": model, "ranks": list(zip(times, model_ranks, strict=True))} for model, model_ranks in ranks.items()
    ]
    drawn = ranks_over_time(rows, times[0], times[-1])
    lines = {line.row["model"]: line for line in drawn.lines}
    assert list(lines) == ["joins", "falls", "stays"]
    left, right_ = PLOT
    at = [round(left + (right_ - left) * days / 100, 2) for days in (0, 10, 80, 100)]
    places = {rank: place for place, rank in drawn.ranks}
    # Constant for eighty days, then a short slope: there was never a rank in between.
    assert lines["falls"].segments[0] == (at[0], places[1], round(at[2] - SLOPE, 2), places[1])
    assert lines["falls"].segments[1:] == [
        (round(at[2] - SLOPE, 2), places[1], at[2], places[3]),
        (at[2], places[3], at[3], places[3]),
    ]
    assert lines["joins"].dots[0] == (at[1], places[2])
    # Two share the third rank; their names do not overlap.
    assert lines["falls"].end == lines["stays"].end
    assert abs(lines["falls"].name_at - lines["stays"].name_at) >= 16
    assert ranks_over_time(rows, times[0], times[0]) is None


@pytest.mark.one_engine
def test_a_benchmark_without_moved_answers_says_so(client):
    assert "No complete evaluation with answer-moving" in client.get("/benchmarks/capitals/answer-moving").text
    assert "answer-moving" not in client.get("/benchmarks/capitals").text


@pytest.mark.one_engine
@pytest.mark.parametrize("path", PAGES)
def test_pages_with_charts_are_well_formed_and_keep_to_the_policy(drawn, path, leads_to, chosen):
    response = drawn.client.get(address(drawn, path))
    assert response.status_code == 200
    tags = parse(response)
    names = [tag for tag, _ in tags.tags]
    assert names.count("table") == names.count("caption")
    assert not [name for name in tags.attributes if name == "style" or name.startswith("on")]
    assert names.count("h1") == 1
    ids = [attributes["id"] for _, attributes in tags.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    # Every chart has a label, a caption, and a table next to it.
    figures = re.findall(r"<figure.*?</figure>", response.text, re.DOTALL)
    for figure in figures:
        assert re.search(r'role="(img|group)" aria-label="[^"]{20,}"', figure)
        assert "<figcaption>" in figure
        assert "<table" in figure
    for link in chosen({attributes["href"].partition("#")[0] for tag, attributes in tags.tags if tag == "a"} - {""}):
        assert leads_to(drawn.client, link) == 200, link


def test_pages_with_charts_ask_the_database_a_bounded_number_of_times(drawn):
    for path in PAGES:
        with count_statements(drawn.engine) as seen:
            assert drawn.client.get(address(drawn, path)).status_code == 200
        assert len(seen) <= 20, path
