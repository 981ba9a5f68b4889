"""The pages on the papers: tables as measured and as printed, citations, and the numbers that their text repeats."""

import json
import re

import pytest

from docs import paper_results
from registry.metrics.papers import PAPERS
from tests.docs.pages import DOCS, read
from tests.outputs.independent_noise import noise
from tests.outputs.test_reference_values import BOTH, CAT, NAMES, REPEATS
from tests.spec.published import rows

PAGES = {name.split()[0].lower(): name for name in PAPERS if not name.startswith(("Zheng", "Nalbandyan"))}
FIGURES = json.loads(paper_results.FIGURES.read_text(encoding="utf-8"))
SECTIONS = [
    "The question",
    "What they do",
    "What they found",
    "Printed and ours",
    "Run it",
    "Where we differ",
    "What it does not show",
]
# Values as printed that the text quotes, with their places.
QUOTED = [
    *(
        ("gupta", "gupta_tables_1_2", {"table": "1", "model": model, "metric": metric}, value)
        for model, values in (("Llama-3-70B-it", ("80.3", "75.3", "6.2")), ("Gemma-7B-it", ("51.7", "38.0", "26.5")))
        for metric, value in zip(("accuracy", "our_metric", "pct_drop"), values, strict=True)
    ),
    ("gupta", "gupta_tables_1_2", {"table": "2", "model": "Gemma-7B-it", "metric": "pct_drop"}, "42.9"),
    *(
        ("cavalin", "cavalin_tables_1_6", {"table": "1", "model": model, "metric": metric}, value)
        for model, metric, value in (
            ("MedL", "MCQA", ".74"),
            ("MedL", "BMCA(1.0)", ".18"),
            ("MedL", "CoRA", ".32"),
            ("GPT4o", "MCQA", ".85"),
            ("GPT4o", "CoRA", ".74"),
            ("MedL", "CI", ".44"),
            ("BMist", "CI", ".73"),
        )
    ),
    *(
        ("nowak", "nowak_table_1", {"model": "geometric mean over models", "benchmark": benchmark}, value)
        for benchmark, value in (("geometric mean over benchmarks", ".33"), ("MMLU-Pro", ".99"))
    ),
    *(
        ("goliakova", "goliakova_table_1", {"table": table, "metric": f"R2({metric})", "protocol": "R_cyclic"}, value)
        for table, metric, value in (
            ("1a", "1 - FR (partial)", ".953"),
            ("1a", "WAcc", ".923"),
            ("1c", "WAcc", ".942"),
            ("1a", "AAcc", ".877"),
            ("1a", "Prob mass", ".894"),
        )
    ),
]


@pytest.mark.parametrize("path", paper_results.pages(), ids=lambda path: path.name)
def test_tables_are_those_of_the_stored_figures(path):
    assert read(path) == paper_results.pages()[path], "run: python -m docs.paper_results --pages"


def test_every_table_stands_on_one_page():
    shown = [name for path in paper_results.pages() for name in re.findall(r"<!-- table: ([\w-]+) -->", read(path))]
    assert sorted(shown) == sorted(paper_results.TABLES)


def test_figures_are_of_what_the_script_asks():
    stored = [recorded["command"] for recorded in FIGURES["evaluations"]]
    assert stored == [evaluation.command() for evaluation in paper_results.plan()]
    for recorded in FIGURES["evaluations"]:
        (spent,) = recorded["spent"]
        assert spent["prompts"] > 0, recorded["command"]
        for metric, (low, high) in recorded["intervals"].items():
            assert low <= recorded["metrics"][metric] <= high, metric


def test_the_index_says_what_they_took():
    spent = [recorded["spent"][0] for recorded in FIGURES["evaluations"]]
    minutes = sum(recorded["asking_s"] + (recorded["matching_s"] or 0) for recorded in spent) / 60
    shown = " ".join(read(DOCS / "papers" / "README.md").split())
    assert f"{sum(recorded['prompts'] for recorded in spent):,} prompts in {minutes:.0f} minutes" in shown


def test_recorded_figures_are_those_that_others_computed():
    recorded = FIGURES["recorded"]
    assert recorded["repeats"]["metrics"] == pytest.approx({"accuracy": REPEATS[0]}, abs=1e-9)
    assert [recorded["shuffles"]["metrics"][metric] for metric in NAMES[:6]] == pytest.approx(BOTH, abs=1e-9)
    expected = noise(CAT)
    assert recorded["noise"]["repeat_disagreement"] == pytest.approx(expected["repeats"][0], abs=1e-9)
    assert recorded["noise"]["order_effect"] == pytest.approx(expected["effect"][0], abs=1e-9)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_parts_and_cites_its_paper(name):
    page, paper = read(DOCS / "papers" / f"{name}.md"), PAPERS[PAGES[name]]
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == SECTIONS
    cited = " ".join(page.split("## ")[0].split())
    assert cited.startswith(f"# {PAGES[name]}: ")
    assert cited.endswith(
        f"{paper.authors}: *{paper.title}*, {paper.year}, [arXiv {paper.arxiv}](https://arxiv.org/abs/{paper.arxiv})."
    )
    assert f"]({name}.md)" in read(DOCS / "papers" / "README.md")


@pytest.mark.parametrize(("page", "file", "where", "value"), QUOTED, ids=lambda value: str(value)[:40])
def test_what_the_prose_quotes_is_what_is_printed(page, file, where, value):
    printed = {line["value"] for line in rows(file) if all(line[key] == cell for key, cell in where.items())}
    assert {text.removeprefix("0") for text in printed} == {value}
    assert re.search(rf"(?<![\d.]){re.escape(value)}(?!\d)", read(DOCS / "papers" / f"{page}.md"))
