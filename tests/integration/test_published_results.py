"""The papers' printed results in a registry: every number, in the registry's unit if the meaning is the same."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, insert, select, text, update

from registry.db import get_engine, read_session, write_session
from registry.errors import NotFoundError
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.metrics import METRICS
from registry.operations import migrate
from registry.schema import history
from registry.studies.published import list_published, load_published
from registry.tables import PublishedResult
from tests.outputs.conftest import Registry, four_options
from tests.spec.published import rows as transcribed
from tests.support.commands import shuffleboard, shuffleboard_json

pytestmark = pytest.mark.long_on("postgresql")

# Numbers per file, as stated in the README.md next to the files.
NUMBERS = {
    "goliakova_table_1": 9 * 4 * 3,  # metrics × sets of orders × targets
    "goliakova_table_2": 17 * 2,  # tasks: questions and options
    "gupta_tables_1_2": 10 * 2 * 3,  # models × tables × metrics
    # Tables 1 to 4: models × benchmarks × metrics; 5 and 6: models × metrics, each with its difference.
    "cavalin_tables_1_6": 4 * 4 * 11 + 2 * 4 * 3 * 2,
    "cavalin_table_7": 11 * 2,  # p = 0 to 10
    "nowak_table_1": (13 + 1) * (5 + 1),  # models and benchmarks with their means
    "nowak_table_3": 13 * 5,  # models × outcomes of the extraction
    "nowak_table_4": 4,
    "nowak_tables_5_11": 7 * 13 * (2 * 8 + 2),  # tables × models × (protocols × values + ratio and difference)
    "nowak_table_12": (13 + 1) * 2 * 3,  # models and their mean × prompts × (two protocols and difference)
}
MAPPED = {
    "gupta_tables_1_2": 60,
    "cavalin_tables_1_6": 4 * 4 * 11 + 4 * 3,  # without differences and bootstraps
    "nowak_table_1": 13 * 5,  # without means
    "nowak_tables_5_11": 7 * 13 * 18 - 13 * 2 * 2,  # without the original of NonsenseQA and the difference from it
    "nowak_table_12": 13 * 2 * 3,
}
WIDE = {"goliakova_table_2": ("n_questions", "n_options"), "cavalin_table_7": ("prob_at_least_p_random", "msgr")}
BETWEEN_PROTOCOLS = {"variance_ratio": (0.0, None), "score_difference": (-1.0, 1.0)}


def load(engine: Engine) -> list[dict[str, Any]]:
    """Return every row, in the order of the files, without database ids."""
    columns = [column for column in PublishedResult.__table__.columns if column.name != "id"]
    query = select(*columns).order_by(PublishedResult.source, PublishedResult.ordinal)
    with read_session(engine) as session:
        return [dict(row) for row in session.execute(query).mappings()]


def one(rows: list[dict[str, Any]], **given: str) -> dict[str, Any]:
    """Return the only row with these values."""
    (row,) = [row for row in rows if all(row[key] == value for key, value in given.items())]
    return row


def test_every_printed_number_is_stored_with_its_digits(database: str) -> None:
    rows = load(get_engine(database))
    assert Counter(row["source"] for row in rows) == NUMBERS
    for source in NUMBERS:
        of_source = [row for row in rows if row["source"] == source]
        assert [row["ordinal"] for row in of_source] == list(range(1, len(of_source) + 1))
        columns = WIDE.get(source, ("value",))
        assert [row["printed"] for row in of_source] == [
            line[column] for line in transcribed(source) for column in columns
        ]
    assert all(row["value"] == float(row["printed"]) for row in rows)


def test_rows_hold_what_stands_beside_a_number(database: str) -> None:
    rows = load(get_engine(database))
    drop = one(rows, paper="Gupta et al.", paper_table="1", model="Llama-3-70B-it", metric="pct_drop")
    assert (drop["benchmark"], drop["protocol"], drop["unit"]) == ("MMLU", "original vs our_metric", "percent")
    assert (drop["section"], drop["target"], drop["rank"], drop["standard_deviation"]) == (None, None, None, None)
    cora = one(rows, paper="Cavalin et al.", paper_table="4", model="Gran", metric="CoRA")
    assert (cora["printed"], cora["rank"]) == ("0.25", 3)
    drawn = one(rows, paper="Cavalin et al.", paper_table="6", model="GPT4o", metric="MCQA+")
    assert (drawn["printed"], drawn["standard_deviation"]) == ("0.90", 0.003)
    squared = one(rows, paper_table="1c", protocol="R_cyclic", metric="R2(WAcc)")
    assert (squared["value"], squared["target"], squared["model"]) == (0.942, "both", "10 models")
    guessed = one(rows, paper_table="7", section="p = 3", metric="msgr")
    assert (guessed["value"], guessed["model"], guessed["benchmark"]) == (0.75, None, None)
    task = one(rows, paper="Goliakova et al.", benchmark="AGIEval-5", metric="n_options")
    assert (task["value"], task["unit"]) == (5.0, "options")


def test_the_same_is_named_as_here_and_in_our_unit(database: str) -> None:
    rows = load(get_engine(database))
    assert Counter(row["source"] for row in rows if row["registry_metric"] is not None) == MAPPED

    def here(**given: str) -> tuple[str | None, float | None]:
        row = one(rows, **given)
        return row["registry_metric"], row["registry_value"]

    llama = {"source": "gupta_tables_1_2", "paper_table": "1", "model": "Llama-3-70B-it"}
    assert here(**llama, metric="accuracy") == ("accuracy", 0.803)
    assert here(**llama, metric="our_metric") == ("retest_accuracy", 0.753)
    assert here(**llama, metric="pct_drop") == ("pct_drop", 6.2)

    medl = {"paper": "Cavalin et al.", "paper_table": "1", "model": "MedL"}
    assert here(**medl, metric="MCQA") == ("accuracy", 0.74)
    assert here(**medl, metric="MCQA+") == ("mcqa_plus", 0.69)
    assert here(**medl, metric="BMCA(1.0)") == ("bmca_100", 0.18)
    assert here(**medl, metric="CoRA") == ("cora", 0.32)

    qwen = {"source": "nowak_tables_5_11", "paper_table": "6", "model": "Qwen3-8b"}
    printed = {
        row["metric"]: row["printed"]
        for row in rows
        if row["source"] == qwen["source"] and all(row[key] == value for key, value in qwen.items())
    }
    letters = qwen | {"protocol": "S&L"}
    mean = one(rows, **letters, metric="mean_accuracy")
    assert (mean["registry_metric"], mean["unit"]) == ("accuracy_mean_all", "percent")
    assert mean["registry_value"] == pytest.approx(mean["value"] / 100, abs=1e-12)
    variance = one(rows, **letters, metric="variance")
    assert (variance["registry_metric"], variance["registry_value"]) == ("accuracy_variance", variance["value"])
    assert here(**qwen, metric="variance_ratio") == ("variance_ratio", float(printed["variance_ratio"]))
    assert here(**qwen, metric="SCORE_difference") == ("score_difference", float(printed["SCORE_difference"]))


def test_what_means_something_else_has_no_name_here(database: str) -> None:
    rows = load(get_engine(database))
    unnamed = [row for row in rows if row["registry_metric"] is None]
    assert all(row["registry_value"] is None for row in unnamed)
    places = Counter((row["paper"], row["paper_table"], row["metric"]) for row in unnamed)
    # Means under the name of a model or of a benchmark that does not exist.
    assert places["Nowak et al.", "1", "variance_ratio"] == 84 - 65
    assert places["Nowak et al.", "12", "SCORE"] == 4
    # NonsenseQA's "original", under two protocols, and the difference from it.
    assert places["Nowak et al.", "5", "original_accuracy"] == 26
    assert places["Nowak et al.", "5", "abs_diff_original_vs_attack"] == 26
    assert ("Nowak et al.", "5", "mean_accuracy") not in places
    assert ("Nowak et al.", "6", "original_accuracy") not in places
    # Means over bootstrap draws; differences between tables.
    assert places["Cavalin et al.", "6", "CoRA"] == 4
    assert places["Cavalin et al.", "5", "CoRA minus Table 1"] == 4
    assert ("Cavalin et al.", "5", "CoRA") not in places
    assert {paper for paper, _, _ in places} == {"Goliakova et al.", "Cavalin et al.", "Nowak et al."}
    assert sum(count for (paper, _, _), count in places.items() if paper == "Goliakova et al.") == 108 + 34


def test_every_named_value_lies_in_the_range_of_its_metric(database: str) -> None:
    ranges = {name: (metric.low, metric.high) for name, metric in METRICS.items()} | BETWEEN_PROTOCOLS
    for row in load(get_engine(database)):
        if row["registry_metric"] is not None:
            low, high = ranges[row["registry_metric"]]
            assert low is None or row["registry_value"] >= low, row
            assert high is None or row["registry_value"] <= high, row


def test_loading_again_writes_nothing_and_a_change_only_its_file(database: str) -> None:
    engine = get_engine(database)
    before = load(engine)
    with write_session(engine) as session:
        assert load_published(session) == 0
    # Rows as an older release could have left them: with a typing error, a missing line, and a file that is no longer
    # shipped.
    with write_session(engine) as session:
        slip = PublishedResult.source == "gupta_tables_1_2", PublishedResult.ordinal == 1
        session.execute(update(PublishedResult).where(*slip).values(printed="80.30"))
        lost = PublishedResult.source == "nowak_table_4", PublishedResult.ordinal == 4
        session.execute(delete(PublishedResult).where(*lost))
        gone = {"source": "gone", "ordinal": 1, "paper": "p", "table": "1", "metric": "m", "printed": "1", "value": 1.0}
        session.execute(insert(PublishedResult), [gone])
    assert load(engine) != before
    with write_session(engine) as session:
        assert load_published(session) == 60 + 4
    assert load(engine) == before


def test_upgrading_a_database_at_head_brings_published_results_up_to_date(database: str) -> None:
    engine = get_engine(database)
    before = load(engine)
    with write_session(engine) as session:
        session.execute(delete(PublishedResult))
    assert migrate.upgrade(database) == history.head()
    assert load(engine) == before


def test_measured_and_printed_numbers_stand_apart(database: str, tmp_path: Path) -> None:
    registry = Registry(database, tmp_path)
    registry.model("GPT4o")
    registry.benchmark("MedQA", four_options(2))
    lines = [
        {"question_id": f"q{q}", "variant": v, "order": order, "option": 0}
        for q in range(2)
        for v, order in enumerate(([0, 1, 2, 3], [3, 2, 1, 0]))
    ]
    path = registry.file("outputs.jsonl", lines)
    evaluation_id = import_outputs(registry.engine, ImportRequest(path, "GPT4o", "MedQA", "original-inverse"))
    query = "SELECT * FROM measured_and_published WHERE model = 'GPT4o' AND benchmark = 'MedQA' AND metric = 'accuracy'"
    with read_session(registry.engine) as session:
        by_origin = {row["origin"]: dict(row) for row in session.execute(text(query)).mappings()}
        both = session.execute(text("SELECT origin, evaluation_id, n FROM measured_and_published")).all()
    assert by_origin.keys() == {"measured", "printed in Cavalin et al., Table 1"}
    ours, theirs = by_origin["measured"], by_origin["printed in Cavalin et al., Table 1"]
    assert (ours["evaluation_id"], ours["value"], ours["n"]) == (evaluation_id, 0.5, 2)
    assert (theirs["value"], theirs["protocol"], theirs["variants"]) == (0.85, "full divergent set", None)
    for row in both:
        assert row.origin == "measured" or row.origin.startswith("printed in ")
        assert (row.origin == "measured") == (row.evaluation_id is not None)
    assert sum(row.origin != "measured" for row in both) == sum(MAPPED.values())


def test_the_view_has_every_row_and_the_command_its_columns(database: str) -> None:
    with read_session(get_engine(database)) as session:
        view = session.execute(text("SELECT * FROM published_results"))
        columns, shown = list(view.keys()), [dict(row) for row in view.mappings()]
        listed = list_published(session)
    assert [list(row) for row in listed] == [columns] * len(listed)
    assert len(listed) == sum(NUMBERS.values())
    assert Counter(map(str, listed)) == Counter(map(str, shown))


def test_published_results_are_listed_by_paper_and_metric(database: str) -> None:
    def list_items(*arguments: str) -> list[dict[str, Any]]:
        document = shuffleboard_json("published", "list", *arguments, database_url=database)
        assert document.keys() == {"published"}
        return list(document["published"])

    assert len(list_items()) == sum(NUMBERS.values())
    assert {row["paper"] for row in list_items("--paper", "gupta")} == {"Gupta et al."}
    # The paper's name and ours; neither finds a name that is only similar.
    assert {row["metric"] for row in list_items("--metric", "mcqa")} == {"MCQA"}
    accuracies = list_items("--metric", "accuracy")
    assert {row["metric"] for row in accuracies} == {"accuracy", "MCQA", "original_accuracy"}
    (cora,) = [
        row
        for row in list_items("--paper", "Cavalin", "--metric", "cora")
        if row["rank"] == 1 and row["paper_table"] == "1"
    ]
    assert (cora["model"], cora["printed"], cora["registry_value"]) == ("GPT4o", "0.74", 0.74)
    table = shuffleboard("published", "list", "--paper", "gupta", database_url=database).stdout
    assert "Llama-3-70B-it" in table
    assert "80.3" in table


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"paper": "Zheng"},
            "no published result of paper 'Zheng'; all of them: shuffleboard published list; known: Cavalin et al., Go",
        ),
        ({"metric": "perplexity"}, "no published result of metric 'perplexity'; all of them: .*; known: BMCA.*more$"),
        ({"paper": "%"}, "no published result of paper '%'"),
    ],
)
def test_an_unknown_paper_or_metric_is_named_with_what_there_is(
    database: str, given: dict[str, str], message: str
) -> None:
    with read_session(get_engine(database)) as session, pytest.raises(NotFoundError, match=message):
        list_published(session, **given)
