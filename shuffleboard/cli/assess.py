"""`shuffleboard statistics assess`."""

from typing import Any

import click

from registry.db import read_session
from registry.metrics import METRICS
from registry.operations.opening import engine_of
from registry.studies import assessment
from shuffleboard.cli.common import json_option, note, print_document, settings_of
from shuffleboard.cli.selecting import require_known
from shuffleboard.cli.tables import print_table, show, wide_option

TARGETS = {
    "fluctuation_rate": "full fluctuation rate",
    "accuracy": "accuracy on the original order",
    "both": "both (mean of the two R²)",
}


@click.command()
@click.option("--benchmark", "benchmarks", multiple=True, help="Only benchmark NAME, or NAME@VERSION.")
@click.option("--model", "models", multiple=True, help="Only model NAME, or NAME@REVISION.")
@click.option("--protocol", default=None, help="Only evaluations under this protocol, NAME or NAME:SHOTS.")
@click.option(
    "--tolerance",
    type=float,
    default=assessment.DEFAULT_TOLERANCE,
    show_default=True,
    help="Acceptable loss of R² for a cheaper set of variants.",
)
@wide_option
@json_option
def assess(benchmarks: tuple[str, ...], models: tuple[str, ...], protocol: str | None, tolerance: float) -> None:
    """Find the cheapest variant set that can stand in for all orders.

    It reads every sealed evaluation under `--variants full`. You see how well each metric on each smaller set of orders
    tracks two targets: the fluctuation rate over all orders and the accuracy on the original one (R² over models and
    benchmarks). You also see how much a metric depends on which orders are drawn. No model is asked again.
    """
    with read_session(engine_of(settings_of())) as session:
        require_known(session, benchmarks=benchmarks, models=models, protocols=() if protocol is None else (protocol,))
        document = assessment.assess(
            session, benchmarks=benchmarks, models=models, protocol=protocol, tolerance=tolerance
        )
    if print_document(document):
        return
    _print_points(document["points"])
    for target in TARGETS:
        click.echo("")
        _print_r_squared(document, target)
    click.echo("")
    _print_stability(document["stability"])
    _print_recommendations(document["recommendations"])
    for remark in document["notes"]:
        note(remark)


def _print_points(points: list[dict[str, Any]]) -> None:
    rows = [point | {"options": ", ".join(point["options"])} for point in points]
    headings = {
        "model": "Model",
        "benchmark": "Benchmark",
        "protocol": "Protocol",
        "questions": "Questions",
        "options": "Options",
        "accuracy": METRICS["accuracy"].label,
        "fluctuation_rate": "Full fluctuation rate",
        "evaluation": "ID",
    }
    print_table(rows, headings, "")


def _print_r_squared(document: dict[str, Any], target: str) -> None:
    """Print metrics by subset, with the subset's cost in its heading."""
    rows: dict[str, dict[str, Any]] = {}
    for cell in document["correlations"]:
        row = rows.setdefault(cell["metric"], {"metric": METRICS[cell["metric"]].label})
        row[cell["subset"]] = cell["r_squared"][target]
    headings = {
        subset: f"{subset} ({cost['prompts_per_question']:.3g})"
        for subset, cost in document["subsets"].items()
        if subset != "full"
    }
    full = document["subsets"]["full"]["prompts_per_question"]
    click.echo(f"R² with {TARGETS[target]}, and prompts per question (full: {full:.3g})")
    print_table(list(rows.values()), {"metric": "Metric"} | headings, "")


def _print_stability(stability: dict[str, Any]) -> None:
    columns = {
        f"{group}_{size}": f"{'Two options' if group == 'two_options' else 'More options'}, {size}"
        for group in ("more_options", "two_options")
        for size in stability["sizes"]
        if stability[group]["points"]
    }
    rows = [
        {"metric": METRICS[metric].label}
        | {
            f"{group}_{size}": stability[group][size][metric]
            for group in ("more_options", "two_options")
            for size in stability["sizes"]
        }
        for metric in stability["more_options"]["pair"]
    ]
    click.echo(f"Standard deviation over {stability['draws']} random draws of orders")
    print_table(rows, {"metric": "Metric"} | columns, "")


def _print_recommendations(recommendations: list[dict[str, Any]]) -> None:
    """Print the recommendation for each target; print common caveats only once, at the end."""
    caveats = [item["caveats"] for item in recommendations if item["recommended"] is not None]
    shared = (
        [caveat for caveat in caveats[0] if all(caveat in listed for listed in caveats)] if len(caveats) > 1 else []
    )
    for item in recommendations:
        click.echo("")
        _print_recommendation(item)
        for caveat in item["caveats"]:
            if caveat not in shared:
                click.echo(f"  {caveat}")
    if shared:
        click.echo("")
    for caveat in shared:
        click.echo(caveat)


def _print_recommendation(recommendation: dict[str, Any]) -> None:
    chosen = recommendation["recommended"]
    target = TARGETS[recommendation["target"]]
    if chosen is None:
        click.echo(f"For {target}: no recommendation ({recommendation['reason']})")
        return
    low_high = chosen["r_squared_range"]
    cost, full = chosen["prompts_per_question"], chosen["prompts_per_question_full"]
    span = "" if low_high is None else f" ({show(low_high[0])} to {show(low_high[1])} with one point left out)"
    click.echo(
        f"For {target}: {METRICS[chosen['metric']].label} on {chosen['subset']}, R² {show(chosen['r_squared'])}{span}, "
        f"{cost:.3g} instead of {full:.3g} prompts per question"
    )
    for name, label in (("fluctuation_rate", "full fluctuation rate"), ("accuracy", "original accuracy")):
        error, without = chosen["rmse"][name], chosen["rmse_without_metric"][name]
        if recommendation["target"] in (name, "both"):
            click.echo(f"  error in predicting the {label}: {show(error)} (from the mean alone: {show(without)})")
