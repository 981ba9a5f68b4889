"""`shuffleboard statistics compare-protocols`."""

from typing import Any

import click

from registry.db import read_session
from registry.operations.opening import engine_of
from registry.studies.protocol_comparison import compare_protocols as compare
from shuffleboard.cli.common import json_option, note, print_document, settings_of
from shuffleboard.cli.selecting import require_known
from shuffleboard.cli.tables import print_table, show, wide_option


@click.command()
@click.argument("first")
@click.argument("second")
@click.option("--variants", default="answer-moving", show_default=True, help="Set of variants that both were run with.")
@click.option("--benchmark", "benchmarks", multiple=True, help="Only benchmark NAME, or NAME@VERSION.")
@click.option("--model", "models", multiple=True, help="Only model NAME, or NAME@REVISION.")
@wide_option
@json_option
def compare_protocols(
    first: str, second: str, variants: str, benchmarks: tuple[str, ...], models: tuple[str, ...]
) -> None:
    """Compare two ways of asking, such as select-letter:5 and match-dash:5.

    FIRST and SECOND are protocols with their number of shots, NAME or NAME:SHOTS (without it: 0). Every model revision
    and benchmark with sealed evaluations under both counts, of several replicates the newest. Shown are the ratio of
    the variances of accuracy (second / first), the difference of SCORE (first - second), the change of accuracy
    (second - first, tested over the models of a benchmark), and whether benchmarks still rank the models the same way.
    """
    with read_session(engine_of(settings_of())) as session:
        require_known(session, benchmarks=benchmarks, models=models, protocols=(first, second))
        document = compare(session, first, second, variants=variants, benchmarks=benchmarks, models=models)
    if print_document(document):
        return
    click.echo(f"first: {document['first']}  second: {document['second']}  variants: {document['variants']}\n")
    _print_pairs(document["pairs"])
    click.echo("")
    headings = {"model": "Model", "benchmarks": "Benchmarks", "variance_ratio": "Variance ratio"}
    print_table(document["models"], headings, "")
    click.echo("")
    _print_benchmarks(document["benchmarks"])
    if document["benchmark_pairs"]:
        click.echo("")
        _print_agreement(document["benchmark_pairs"])
    click.echo(f"\nvariance ratio over all models and benchmarks: {show(document['overall']['variance_ratio'])}")
    if not document["complete"]:
        note("not every model has every benchmark: only compare means over the same ones; choose them with --benchmark")


def _print_pairs(pairs: list[dict[str, Any]]) -> None:
    columns = {"accuracy_mean_all": "Mean accuracy", "accuracy_variance": "Variance", "score": "SCORE"}
    rows = [
        {f"{key}_{which}": pair[which][key] for key in columns for which in ("first", "second")}
        | {key: pair[key] for key in ("model", "benchmark", "variance_ratio", "score_difference")}
        for pair in pairs
    ]
    headings = {
        "model": "Model",
        "benchmark": "Benchmark",
        "accuracy_mean_all_first": "Mean accuracy, first",
        "accuracy_mean_all_second": "second",
        "accuracy_variance_first": "Variance, first",
        "accuracy_variance_second": "second",
        "variance_ratio": "Ratio",
        "score_first": "SCORE, first",
        "score_second": "second",
        "score_difference": "Difference",
    }
    print_table(rows, headings, "")


def _print_benchmarks(benchmarks: list[dict[str, Any]]) -> None:
    rows = []
    for benchmark in benchmarks:
        row = {key: benchmark[key] for key in ("benchmark", "models", "variance_ratio")}
        for average in ("mean", "median"):
            shift = benchmark[f"accuracy_{average}_moved"]
            test = shift["wilcoxon"] or {"statistic": None, "p_value": None}
            row |= {
                f"{average}_W": test["statistic"],
                f"{average}_p": test["p_value"],
                f"{average}_d": shift["cohens_d"],
            }
        rows.append(row)
    headings = {
        "benchmark": "Benchmark",
        "models": "Models",
        "variance_ratio": "Variance ratio",
        "mean_W": "Mean moved, Wilcoxon W",
        "mean_p": "p",
        "mean_d": "Cohen's d",
        "median_W": "Median moved, Wilcoxon W",
        "median_p": "p",
        "median_d": "Cohen's d",
    }
    print_table(rows, headings, "")


def _print_agreement(benchmark_pairs: list[dict[str, Any]]) -> None:
    rows = [
        {"benchmarks": " and ".join(pair["benchmarks"]), "models": pair["models"]}
        | {
            f"{name}_{which}": pair[name][which]
            for name in ("spearman", "kendall")
            for which in ("first", "second", "difference")
        }
        for pair in benchmark_pairs
    ]
    headings = {
        "benchmarks": "Rank agreement of",
        "models": "Models",
        "spearman_first": "Spearman, first",
        "spearman_second": "second",
        "spearman_difference": "change",
        "kendall_first": "Kendall, first",
        "kendall_second": "second",
        "kendall_difference": "change",
    }
    print_table(rows, headings, "")
