"""The page of the assessment protocol: which cheap set of orders can replace all of them.

Its numbers are the same as those from `shuffleboard statistics assess`, over the benchmarks that the viewer sees.
"""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from flask import Blueprint, current_app, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.datastructures import MultiDict

from registry.errors import NotFoundError, UsageError
from registry.metrics import METRICS
from registry.schema.selectables import Row
from web import charts
from web.serving.cache import OfSealed
from web.serving.responses import session
from web.urls import parameters

if TYPE_CHECKING:
    from registry.studies.assessment import Source

blueprint = Blueprint("assessing", __name__)

ARGUMENTS: Final = ("benchmark", "model", "protocol", "tolerance")
"""The command's options. A URL with any of them shows the numbers; a URL without them shows the form."""

MOST_PREDICTIONS: Final = 200_000
"""Most predictions for a page; reading them takes about five seconds."""

MOST_EVALUATIONS: Final = 60
"""Most evaluations for a page: each takes 20 ms even with few predictions, and more for each other when left out."""

TOLERANCES: Final = ("0", "0.01", "0.02", "0.05", "0.1")
"""Tolerances in the form; a URL may have any from 0 to 1."""

KEPT: Final = 16
"""Number of documents that each process caches, so that opening a page again does not recompute its document."""

DRAWN: Final = "fluctuation_rate"
"""The metric in the scatter plot: how often the answer changes with the order."""

TARGETS: Final = {
    "fluctuation_rate": "the fluctuation rate over all orders",
    "accuracy": "accuracy on the original order",
    "both": "both (mean of the two R²)",
}


@blueprint.get("/protocol")
def protocol() -> ResponseReturnValue:
    """Show how well each cheap set of orders predicts all orders (R² per metric), its stability, and advice."""
    # Imported here, since the website starts without numpy, and most of its pages never need it.
    from registry.studies.assessment import assessable, check_tolerance, choose

    submitted = any(key in request.args for key in ARGUMENTS)
    benchmarks, models = _texts("benchmark"), _texts("model")
    way, tolerance = parameters.text(request.args, "protocol"), _tolerance()
    check_tolerance(tolerance)
    try:
        offered = assessable(session())
    except NotFoundError as missing:
        if benchmarks or models or way:
            raise
        return render_template("assessment.html", missing=str(missing).partition(";")[0], document=None)
    chosen = choose(offered, benchmarks=benchmarks, models=models, protocol=way)
    command = _command(benchmarks, models, way, tolerance)
    context: dict[str, Any] = {
        "missing": None,
        "benchmarks": _choices(benchmarks, [source.benchmark for source in offered]),
        "models": _choices(models, [source.model for source in offered]),
        "protocols": sorted({source.protocol for source in offered} | ({way} if way else set())),
        "tolerances": sorted({*TOLERANCES, f"{tolerance:g}"}, key=float),
        "chosen": {"benchmark": benchmarks, "model": models, "protocol": way, "tolerance": f"{tolerance:g}"},
        "evaluations": len(chosen),
        "predictions": sum(source.predictions for source in chosen),
        "limits": (MOST_EVALUATIONS, MOST_PREDICTIONS),
        "command": command,
        "document": None,
    }
    if submitted:
        _require_few(chosen, command)
        context |= _pick_shown(_document(chosen, tolerance))
    return render_template("assessment.html", **context)


def _texts(key: str) -> tuple[str, ...]:
    """Return the values of a repeatable parameter, without the empty ones."""
    values = [parameters.text(MultiDict({key: value}), key) for value in request.args.getlist(key)]
    return tuple(dict.fromkeys(filter(None, values)))


def _tolerance() -> float:
    from registry.studies.assessment import DEFAULT_TOLERANCE

    value = parameters.text(request.args, "tolerance")
    try:
        return DEFAULT_TOLERANCE if value is None else float(value)
    except ValueError:
        shown = parameters.shorten(value or "")
        raise UsageError(f"tolerance={shown}: give a number from 0 to 1, such as 0.02") from None


def _choices(asked: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Return the names to choose from, including names in the URL such as NAME@REVISION."""
    return sorted({label.partition("@")[0] for label in labels} | set(asked), key=str.casefold)


def _command(benchmarks: Sequence[str], models: Sequence[str], way: str | None, tolerance: float) -> str:
    words = ["shuffleboard", "statistics", "assess"]
    for option, values in (("--benchmark", benchmarks), ("--model", models), ("--protocol", [way] if way else [])):
        words += [word for value in values for word in (option, value)]
    return shlex.join([*words, "--tolerance", f"{tolerance:g}"])


def _require_few(sources: Sequence["Source"], command: str) -> None:
    """Raise UsageError if a request would have to read too many evaluations or predictions."""
    predictions = sum(source.predictions for source in sources)
    if len(sources) > MOST_EVALUATIONS or predictions > MOST_PREDICTIONS:
        raise UsageError(
            f"{len(sources)} evaluations with {predictions:,} predictions are too many for a page, which reads up to "
            f"{MOST_EVALUATIONS} with {MOST_PREDICTIONS:,}; choose fewer benchmarks or models, or run: {command}"
        )


def _document(sources: Sequence["Source"], tolerance: float) -> Row:
    """Return the result of `assess`, cached until another evaluation is sealed."""
    from registry.studies.assessment import assess_sources

    kept: OfSealed[Row] = current_app.extensions.setdefault("shuffleboard_assessed", OfSealed(KEPT))
    key = " ".join([repr(tolerance), *(f"{source.evaluation_id}:{source.seal}" for source in sources)])
    return kept.get(key, lambda: assess_sources(session(), sources, tolerance))


def _pick_shown(document: Row) -> Row:
    """Return the parts of a document that the template shows."""
    subsets = [subset for subset in document["subsets"] if subset != "full"]
    by_metric: dict[str, Row] = {}
    for cell in document["correlations"]:
        by_metric.setdefault(cell["metric"], {})[cell["subset"]] = cell
    drawn = [subset for subset in subsets if by_metric[DRAWN][subset]["points"]]
    rows = [
        {
            "subset": subset,
            **{key: point[key] for key in ("model", "benchmark", "protocol")},
            "full": point[DRAWN],
            "value": point["values"][subset][DRAWN],
        }
        for subset in drawn
        for point in document["points"]
    ]
    caveats = [item["caveats"] for item in document["recommendations"] if item["recommended"]]
    return {
        "document": document,
        "targets": TARGETS,
        "subsets": subsets,
        "by_metric": by_metric,
        "drawn": drawn,
        "chart": charts.agreement(rows, METRICS[DRAWN].label),
        # Caveats that apply to every subset are shown once.
        "shared": [caveat for caveat in caveats[0] if all(caveat in listed for listed in caveats)] if caveats else [],
        "columns": [
            (group, size, f"{'Two' if group == 'two_options' else 'More'} options, {size}")
            for group in ("more_options", "two_options")
            for size in document["stability"]["sizes"]
            if document["stability"][group]["points"]
        ],
    }
