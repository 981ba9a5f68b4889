#!/usr/bin/env python
"""Measures the numbers that docs/papers compares with the papers': `python -m docs.paper_results [FOLDER]`.

Runs two models that need no GPU on the questions of the shipped samples, in the way of each paper, and imports recorded
outputs of Mistral-7B from tests/data. Needs the packages of both models (`install` in shuffleboard/packaged.py) and a
checkout.
FOLDER is the data directory, by default a temporary one; evaluations in it are not repeated. The figures go to
docs/figures/paper_results.json, and from there into the pages; `--pages` does only the latter.
"""

import csv
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import click
from sqlalchemy import text
from sqlalchemy.orm import Session

from registry.db import get_engine, read_session
from registry.leaderboard.reports import evaluation_metrics
from registry.metrics import METRICS
from registry.scores.intervals import evaluation_intervals
from registry.studies.adversarial import adversarial_effects
from registry.studies.assessment import assess
from registry.studies.protocol_comparison import compare_protocols
from shuffleboard import packaged

DOCS: Final = Path(__file__).resolve().parent
FIGURES: Final = DOCS / "figures" / "paper_results.json"
PUBLISHED: Final = DOCS.parent / "registry" / "studies" / "published"
WHY: Final = "why-robust-metrics.md"
OUTPUTS: Final = DOCS.parent / "tests" / "data"

MISTRAL_FILE, MEDQA_FILE = "medqa_mistral7b_cat.jsonl.gz", "medqa_usmle5.jsonl.gz"

SMOLLM2, GEMMA, MISTRAL = "SmolLM2-135M-Instruct", "Gemma-3-270M", "Mistral-7B-Instruct"
MODELS: Final = {SMOLLM2: packaged.SMOLLM2, GEMMA: packaged.GEMMA3}
PACKAGES: Final = ("numpy", "torch", "transformers", "sentence-transformers")
# Short questions, since each is shown in 24 orders.
ASSESSED: Final = ("global_facts", "human_aging", "miscellaneous", "philosophy")


@dataclass(frozen=True)
class Asked:
    """One evaluation. paper: the page that shows its results."""

    paper: str
    model: str
    benchmark: str
    variants: str
    protocol: str
    shots: int = 0
    limit: int | None = None
    subject: str | None = None

    def command(self) -> str:
        """Return the command that a reader can type."""
        words = ["shuffleboard", "evaluations", "submit", "--model", self.model, "--benchmark", self.benchmark]
        words += ["--variants", self.variants, "--protocol", self.protocol]
        words += ["--shots", str(self.shots)] if self.shots else []
        words += ["--subject", self.subject] if self.subject else []
        words += ["--limit", str(self.limit)] if self.limit else []
        return shlex.join(words)


def plan() -> Iterator[Asked]:
    """Yield all evaluations to run, the cheap ones first."""
    for model in MODELS:
        yield Asked("gupta", model, "mmlu", "shuffle", "symbols", shots=5)
        yield Asked("nowak", model, "nonsenseqa", "answer-moving", "symbols", shots=5, limit=60)
        for protocol in ("symbols", "hybrid", "cloze"):
            yield Asked("cho", model, "mmlu", "adversarial", protocol, limit=40)
        yield Asked("cavalin", model, "mmlu", "divergent", "symbols", shots=5, limit=40)
    yield Asked("cavalin", SMOLLM2, "mmlu", "divergent", "first-letter", shots=5, limit=10)
    for benchmark, limit in (("nonsenseqa", 20), ("commonsenseqa", 12)):
        for protocol in ("select-letter", "match-dash"):
            yield Asked("nowak", SMOLLM2, benchmark, "answer-moving", protocol, shots=2, limit=limit)
    for subject in ASSESSED:
        for model, shots in ((SMOLLM2, 0), (SMOLLM2, 5), (GEMMA, 0)):
            yield Asked("goliakova", model, "mmlu", "full", "hybrid", shots, limit=5, subject=subject)


# Measuring


def measure(home: Path) -> dict[str, Any]:
    """Return the figures for the pages from the registry in `home`, running the evaluations that it lacks."""
    prepare(home)
    ids = {planned: _evaluation(home, planned.command()) for planned in plan()}
    _shuffleboard(home, "worker", "--until-idle")
    with _reading(home) as session:
        figures = {
            "made with": _versions(),
            "evaluations": [asdict(planned) | _figures(session, ids[planned], planned.command()) for planned in ids],
            "assessment": {key: value for key, value in assess(session).items() if key != "points"},
            "protocols": compare_protocols(session, "select-letter:2", "match-dash:2"),
        }
    return figures | {"recorded": read_recorded()}


def prepare(home: Path) -> None:
    """Import benchmarks and models, as the pages describe."""
    _shuffleboard(home, "db", "upgrade")
    for name, file in (("mmlu", "mmlu.jsonl"), ("commonsenseqa", "csqa.jsonl")):
        _shuffleboard(home, "benchmarks", "import", str(packaged.SAMPLES / file), "--name", name)
    drawn = ("--name", "nonsenseqa", "--questions", "100", "--seed", "0")
    _shuffleboard(home, "benchmarks", "generate", "nonsenseqa", *drawn)
    for name, model in MODELS.items():
        file = str(packaged.find_packaged_file(model, home))
        _shuffleboard(home, "models", "add", name, "--kind", "gguf", "--location", file, "--dtype", "bfloat16")


def _evaluation(home: Path, command: str) -> int:
    """Return the id of the evaluation that a command submits or imports."""
    _, *words = shlex.split(command)
    return int(json.loads(_shuffleboard(home, *words, "--json"))["evaluation"])


def _shuffleboard(home: Path, *words: str) -> str:
    """Run a command in the data directory `home`; return its output."""
    environment = {**os.environ, "SHUFFLEBOARD_HOME": str(home), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "shuffleboard.cli", *words]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603


def _reading(home: Path) -> AbstractContextManager[Session]:
    return read_session(get_engine(f"sqlite:///{home / 'shuffleboard.db'}"))


# Reading


def _figures(session: Session, evaluation_id: int, command: str) -> dict[str, Any]:
    """Return the figures of one evaluation for the pages, without undefined metrics."""
    document = evaluation_metrics(session, evaluation_id)
    intervals = evaluation_intervals(session, evaluation_id)["all"]
    runs = "SELECT accuracy FROM run_accuracy WHERE evaluation_id = :id AND scope = 'all' ORDER BY variant"
    silent = (
        "SELECT AVG(CASE WHEN chosen_option IS NULL THEN 1.0 ELSE 0.0 END) FROM prediction WHERE evaluation_id = :id"
    )
    spent = "SELECT prompts, asking_s, matching_s FROM evaluation_seconds WHERE evaluation_id = :id"
    of_it = {"id": evaluation_id}
    figures = {
        "command": command,
        "questions": document["questions"],
        "metrics": {name: value for name, value in document["metrics"].items() if value is not None},
        "intervals": {
            name: [interval.low, interval.high] for name, interval in intervals.items() if interval is not None
        },
        "runs": list(session.scalars(text(runs), of_it)),
        "unanswered": session.scalar(text(silent), of_it),
        "spent": [dict(row) for row in session.execute(text(spent), of_it).mappings()],
    }
    if "--variants divergent" in command:
        by_variant = (
            "SELECT variant_name, SUM(correct), COUNT(*) FROM prediction_detail WHERE evaluation_id = :id "
            "GROUP BY variant, variant_name ORDER BY variant"
        )
        kinds: dict[str, list[int]] = {}
        for name, right, prompts in session.execute(text(by_variant), of_it):
            sums = kinds.setdefault(name.rstrip(" 0123456789"), [0, 0])
            sums[0], sums[1] = sums[0] + int(right), sums[1] + prompts
        figures["kinds"] = {name: right / prompts for name, (right, prompts) in kinds.items()}
    if "--variants adversarial" in command:
        figures["effects"] = [asdict(effect) for effect in adversarial_effects(session, evaluation_id)]
    return figures


RECORDED: Final = {"repeats": "standard_MC", "shuffles": "standard_MC:0,standard_MC_shuffled"}
"""Parts of the recorded outputs: one prompt eleven times; and that prompt once with eleven shuffles."""


def read_recorded() -> dict[str, Any]:
    """Return figures of Mistral's recorded outputs, from a separate registry: another import would be a replicate.

    The noise of the shuffles is measured by the repeats.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        _shuffleboard(home, "db", "upgrade")
        _shuffleboard(home, "benchmarks", "import", str(OUTPUTS / MEDQA_FILE), "--name", "medqa")
        _shuffleboard(home, "models", "add", MISTRAL, "--kind", "external")
        figures: dict[str, Any] = {}
        for name, select in RECORDED.items():
            shown = (
                f"shuffleboard evaluations import tests/data/{MISTRAL_FILE} --model {MISTRAL} --benchmark medqa "
                f"--variants imported --protocol first-letter --select {select}"
            )
            evaluation = _evaluation(home, shown.replace("tests/data", shlex.quote(str(OUTPUTS))))
            with _reading(home) as session:
                figures[name] = _figures(session, evaluation, shown)
        noise = _shuffleboard(home, "statistics", "noise", str(evaluation), "--json")
        return figures | {"noise": json.loads(noise)}


def _versions() -> dict[str, str]:
    packages = ("shuffleboard", *PACKAGES, *(packaged.package for packaged in MODELS.values()))
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}


def _round(document: Any) -> Any:
    """Round numbers to ten digits: further digits depend on the order of summation."""
    if isinstance(document, float):
        return float(f"{document:.10g}")
    if isinstance(document, Mapping):
        return {key: _round(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [_round(value) for value in document]
    return document


# Tables

_TABLE: Final = re.compile(
    r"(?<=^<!-- table: )(?P<name>[\w-]+)( -->\n).*?(?=^<!-- /table -->$)", re.MULTILINE | re.DOTALL
)
Figures = Mapping[str, Any]
Rows = Iterator[Sequence[str]]


def pages() -> dict[Path, str]:
    """Map path → text of every page with tables, filled from the stored figures."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    drawn = {name: "\n".join(_markdown(make(figures))) for name, make in TABLES.items()}
    texts = {path: path.read_text(encoding="utf-8") for path in (*sorted(DOCS.glob("papers/*.md")), DOCS / WHY)}
    return {
        path: _TABLE.sub(lambda match: f"{match['name']}{match[2]}\n{drawn[match['name']]}\n\n", page)
        for path, page in texts.items()
    }


def _markdown(rows: Rows) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"| {' | '.join(row)} |"
        if number == 0:
            yield "|" + "---|" * len(row)


def _evaluations(found: Figures, **wanted: Any) -> list[Any]:
    return [
        evaluation
        for evaluation in found["evaluations"]
        if all(evaluation[key] == value for key, value in wanted.items())
    ]


def _one(found: Figures, **wanted: Any) -> Any:
    (evaluation,) = _evaluations(found, **wanted)
    return evaluation


def _value(one: Figures, metric: str, digits: int = 3, scale: float = 1) -> str:
    """Format a metric with its interval if it has one; – if the metric is undefined."""
    if metric not in one["metrics"]:
        return "–"
    value = f"{scale * one['metrics'][metric]:.{digits}f}"
    if metric not in one["intervals"]:
        return value
    low, high = (f"{scale * end:.{digits}f}" for end in one["intervals"][metric])
    return f"{value} ({low} to {high})"


def _read_printed(file: str, **wanted: str) -> dict[tuple[str, str], dict[str, str]]:
    """Map (table, model) → metric → number as printed, for the lines of a file with the wanted cells."""
    groups: dict[tuple[str, str], dict[str, str]] = {}
    with (PUBLISHED / f"{file}.csv").open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            if all(line[key] == value for key, value in wanted.items()):
                groups.setdefault((line["table"], line["model"]), {})[line["metric"]] = line["value"]
    return groups


# Gupta et al.


def _gupta(found: Figures) -> Rows:
    yield "Model", "Questions", "Accuracy, %", "Retest accuracy, %", "Drop, %"
    for (_, model), values in _read_printed("gupta_tables_1_2", table="1").items():
        yield model, "MMLU, printed", values["accuracy"], values["our_metric"], values["pct_drop"]
    for evaluation, caption in (
        (found["recorded"]["shuffles"], f"{MISTRAL}, recorded | MedQA, {{}}, 11 shuffles"),
        *(
            (measured, f"{measured['model']}, measured | MMLU sample, {{}}")
            for measured in _evaluations(found, paper="gupta")
        ),
    ):
        yield (
            caption.format(f"{evaluation['questions']:,} questions"),
            _value(evaluation, "accuracy", 1, 100),
            _value(evaluation, "retest_accuracy", 1, 100),
            _value(evaluation, "pct_drop", 1),
        )


# Cavalin et al.

_CAVALIN: Final = {
    "MCQA": "accuracy",
    "MCQA+": "mcqa_plus",
    "MV": "majority_vote",
    "BMCA(1.0)": "bmca_100",
    "CI": "consistency_index",
    "CoRA": "cora",
}


def _cavalin(found: Figures) -> Rows:
    yield "Model", "Asked", *(name.replace("1.0", "1") for name in _CAVALIN)
    for table, caption in (("1", "MedQA, 26 variants"), ("2", "MMLU, 20 variants"), ("5", "MedQA, 10 variants")):
        for (_, model), values in _read_printed("cavalin_tables_1_6", table=table).items():
            yield model, f"{caption}, printed", *(values.get(name, "–") for name in _CAVALIN)
    shuffles = (_value(found["recorded"]["shuffles"], metric) for metric in _CAVALIN.values())
    yield f"{MISTRAL}, recorded", "MedQA, 12 orders", *shuffles
    for evaluation in _evaluations(found, paper="cavalin"):
        caption = f"MMLU sample, {evaluation['questions']} questions, `{evaluation['protocol']}`, 20 variants"
        yield f"{evaluation['model']}, measured", caption, *(_value(evaluation, metric) for metric in _CAVALIN.values())


def _kinds(found: Figures) -> Rows:
    """Yield accuracy by kind of variant, next to the accuracy of guessing."""
    measured = _evaluations(found, paper="cavalin", protocol="symbols")
    yield "Variants", "Options", "Guessing", *(evaluation["model"] for evaluation in measured)
    for kind in measured[0]["kinds"]:
        options = 4 if not kind.startswith("decoupled") else 3 if "nota" in kind else 2
        shares = (f"{100 * evaluation['kinds'][kind]:.0f} %" for evaluation in measured)
        yield f"`{kind}`", str(options), f"{100 / options:.0f} %", *shares


# Nowak et al.


def _nowak_spread(mean: str, lowest: str, highest: str, variance: str) -> str:
    return f"{mean} ({lowest} to {highest}), {variance}"


def _nowak(benchmark: str, table: str, printed_as: str) -> Callable[[Figures], Rows]:
    def rows(found: Figures) -> Rows:
        yield "Model", "Questions", "S&L", "M&D", "Variance ratio"
        columns = ("mean_accuracy", "min_accuracy", "max_accuracy", "variance")
        tables = {
            protocol: _read_printed("nowak_tables_5_11", table=table, protocol=protocol)
            for protocol in ("S&L", "M&D", "M&D / S&L")
        }
        for key, ratio in tables["M&D / S&L"].items():
            cells = (_nowak_spread(*(tables[name][key][column] for column in columns)) for name in ("S&L", "M&D"))
            yield key[1], f"{printed_as}, printed", *cells, ratio["variance_ratio"]
        for pair in found["protocols"]["pairs"]:
            if pair["benchmark"].startswith(f"{benchmark}@"):
                both = [
                    _one(found, benchmark=benchmark, protocol=name, paper="nowak")
                    for name in ("select-letter", "match-dash")
                ]
                cells = (_nowak_spread(*(spread[name] for name in columns)) for spread in map(_in_percent, both))
                yield f"{SMOLLM2}, measured", str(both[0]["questions"]), *cells, _number(pair["variance_ratio"], 2)

    return rows


def _in_percent(one: Figures) -> dict[str, str]:
    """Return the columns of Nowak et al.'s tables, as they print them."""
    metrics = one["metrics"]
    accuracies = {name: 100 * metrics[f"accuracy_{name}"] for name in ("mean_all", "min", "max")}
    return {
        "mean_accuracy": f"{accuracies['mean_all']:.2f}",
        "min_accuracy": f"{accuracies['min']:.2f}",
        "max_accuracy": f"{accuracies['max']:.2f}",
        "variance": f"{metrics['accuracy_variance']:.2f}",
    }


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _positions(found: Figures) -> Rows:
    """Yield accuracy on NonsenseQA under labels, with the answers of question and examples at one position."""
    yield "Model", "Questions", "Original", *(f"All at {label}" for label in "ABCD"), "Variance"
    for evaluation in _evaluations(found, paper="nowak", protocol="symbols"):
        runs = (f"{100 * accuracy:.1f} %" for accuracy in evaluation["runs"])
        yield evaluation["model"], str(evaluation["questions"]), *runs, _value(evaluation, "accuracy_variance", 0)


# Cho et al.

_FORMATS: Final = ("symbols", "hybrid", "cloze")


def _cho(found: Figures) -> Rows:
    yield (
        "Model",
        "Format",
        "Choice sensitivity",
        "per byte",
        "Choice-only accuracy",
        "Accuracy",
        "NPSQ accuracy",
    )
    for evaluation in _evaluations(found, paper="cho"):
        names = (
            "choice_sensitivity",
            "choice_sensitivity_normalized",
            "choice_only_accuracy",
            "accuracy",
            "npsq_accuracy",
        )
        yield evaluation["model"], f"`{evaluation['protocol']}`", *(_value(evaluation, name, 2) for name in names)


def _hello(found: Figures) -> Rows:
    yield (
        "Model",
        "Format",
        "Taken by it",
        "Accuracy without, with it",
        "Taken by NPSQ",
        "NPSQ accuracy without, with it",
    )
    for evaluation in _evaluations(found, paper="cho"):
        cells: list[str] = []
        for scoring in ("accuracy", "npsq_accuracy"):
            effect = _effect(evaluation, scoring)
            cells += [
                f"{100 * effect['flipped']:.0f} %",
                f"{100 * effect['original']:.0f} %, {100 * effect['altered']:.0f} %",
            ]
        yield evaluation["model"], f"`{evaluation['protocol']}`", *cells


def _effect(one: Figures, scoring: str) -> Any:
    """Return the effect of "Hello, everyone." under one scoring."""
    (effect,) = [each for each in one["effects"] if each["distractor"] == "simple" and each["scoring"] == scoring]
    return effect


# Goliakova et al.

_GOLIAKOVA: Final = {
    "AAcc": "average_accuracy",
    "PriDe": "pride_accuracy",
    "WAcc": "worst_accuracy",
    "SAcc": "strong_accuracy",
    "1 - SensG": "sensitivity_gap",
    "Prob mass": "prob_mass",
    "1 - Brier": "brier_score",
    "1 - Entropy": "entropy",
    "1 - FR (partial)": "fluctuation_rate",
}
_SUBSETS: Final = {
    "R_oi": "original-inverse",
    "R_cyclic": "cyclic",
    "R_random2": "random2",
    "R_randomL": "randomL",
}


def _points(found: Figures) -> Rows:
    yield "Model", "Subject", "Examples", "Questions", "Accuracy", "Fluctuation rate"
    for evaluation in _evaluations(found, paper="goliakova"):
        subject = evaluation["subject"].replace("_", " ")
        cells = (_value(evaluation, metric, 2) for metric in ("accuracy", "fluctuation_rate"))
        yield evaluation["model"], subject, str(evaluation["shots"]), str(evaluation["questions"]), *cells


def _r_squared(found: Figures, metric: str, subset: str, target: str = "fluctuation_rate") -> float | None:
    (cell,) = [row for row in found["assessment"]["correlations"] if (row["metric"], row["subset"]) == (metric, subset)]
    value: float | None = cell["r_squared"][target]
    return value


def _assess(found: Figures) -> Rows:
    yield "Metric", *(f"`{subset}`" for subset in _SUBSETS.values())
    printed: dict[tuple[str, str], str] = {}
    with (PUBLISHED / "goliakova_table_1.csv").open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            if line["table"] == "1a":
                printed[line["metric"], line["protocol"]] = line["value"]
    for name, metric in _GOLIAKOVA.items():
        cells = (
            f"{printed[f'R2({name})', place]} / {_number(_r_squared(found, metric, subset))}"
            for place, subset in _SUBSETS.items()
        )
        yield METRICS[metric].label, *cells


# Why one order is not enough


def _draws(found: Figures) -> Rows:
    yield "Model", "Questions", "Orders", "Accuracy in each, %", "In all of them", "In at least one", "Changed answers"
    for evaluation, name, questions in (
        (found["recorded"]["shuffles"], MISTRAL, "MedQA"),
        *((measured, measured["model"], "MMLU sample") for measured in _evaluations(found, paper="gupta")),
    ):
        runs = [f"{100 * accuracy:.1f}" for accuracy in evaluation["runs"]]
        shown = ", ".join(runs) if len(runs) < 4 else f"{runs[0]} as printed; others {min(runs[1:])} to {max(runs[1:])}"
        metrics = ("worst_accuracy", "best_accuracy", "fluctuation_rate")
        cells = (f"{100 * evaluation['metrics'][metric]:.1f} %" for metric in metrics)
        yield name, f"{questions}, {evaluation['questions']:,}", str(len(runs)), shown, *cells


def _noise(found: Figures) -> Rows:
    yield "Recorded outputs of Mistral-7B-Instruct on MedQA", "The same prompt 11 times", "The original and 11 shuffles"
    both = [found["recorded"][name] for name in ("repeats", "shuffles")]
    yield "Accuracy, first prompt", *(_value(evaluation, "accuracy") for evaluation in both)
    noise = found["recorded"]["noise"]
    differ = (_with_interval(noise, f"{kind}_disagreement", f"{kind}_interval") for kind in ("repeat", "order"))
    yield "Pairs of answers that differ", *differ
    yield "Effect of the order, net of the noise", "–", _with_interval(noise, "order_effect", "interval")


def _with_interval(noise: Figures, value: str, interval: str) -> str:
    low, high = noise[interval]
    return f"{noise[value]:.3f} ({low:.3f} to {high:.3f})"


# Which way it goes


@dataclass(frozen=True)
class Finding:
    """A paper's result and ours: words, and whether the two agree (None: unknown)."""

    printed: str
    here: Callable[[Figures], tuple[str, bool | None]]


def _directions(findings: Sequence[Finding]) -> Callable[[Figures], Rows]:
    def rows(found: Figures) -> Rows:
        yield "Found in the paper", "Here", "Same direction"
        for finding in findings:
            measured, same = finding.here(found)
            yield finding.printed, measured, "cannot be told" if same is None else ("yes" if same else "**no**")

    return rows


def _every_drop(found: Figures) -> tuple[str, bool]:
    measured = [found["recorded"]["shuffles"], *_evaluations(found, paper="gupta")]
    drops = [evaluation["metrics"]["pct_drop"] for evaluation in measured]
    return f"drops of {', '.join(f'{drop:.1f} %' for drop in drops)}", min(drops) > 0


def _check_below(lower: str, upper: str) -> Callable[[Figures], tuple[str, bool]]:
    """Return a check that one metric is below another in everything compared with Cavalin et al."""

    def here(found: Figures) -> tuple[str, bool]:
        measured = [found["recorded"]["shuffles"], *_evaluations(found, paper="cavalin")]
        pairs = [(evaluation["metrics"][lower], evaluation["metrics"][upper]) for evaluation in measured]
        return ", ".join(f"{low:.3f} against {high:.3f}" for low, high in pairs), all(low < high for low, high in pairs)

    return here


def _check_above_chance(found: Figures) -> tuple[str, bool]:
    means = {
        f"{evaluation['model']} `{evaluation['protocol']}`": 100 * max(evaluation["runs"])
        for evaluation in _evaluations(found, paper="nowak", benchmark="nonsenseqa")
        if evaluation["protocol"] in {"symbols", "select-letter"}
    }
    return ", ".join(f"{name} {mean:.1f} %" for name, mean in means.items()), max(means.values()) > _MOST_SHORTCUT


def _count_lowered(table: str) -> str:
    ratios = [
        float(row["variance_ratio"]) for row in _read_printed("nowak_tables_5_11", table=table, unit="ratio").values()
    ]
    return f"{sum(ratio < 1 for ratio in ratios)} of {len(ratios)} models"


def _ratio(benchmark: str) -> Callable[[Figures], tuple[str, bool | None]]:
    def here(found: Figures) -> tuple[str, bool | None]:
        (pair,) = [pair for pair in found["protocols"]["pairs"] if pair["benchmark"].startswith(f"{benchmark}@")]
        ratio = pair["variance_ratio"]
        return f"ratio {_number(ratio, 2)}", None if ratio is None else ratio < 1

    return here


def _sensitive_in_cloze(found: Figures) -> tuple[str, bool]:
    values = {
        (evaluation["model"], evaluation["protocol"]): evaluation["metrics"]["choice_sensitivity"]
        for evaluation in _evaluations(found, paper="cho")
    }
    shown = "; ".join(
        f"{model}: {', '.join(f'`{name}` {values[model, name]:.2f}' for name in _FORMATS)}" for model in MODELS
    )
    return shown, all(values[model, "cloze"] > values[model, name] for model in MODELS for name in _FORMATS[:2])


def _no_help_from_length(found: Figures) -> tuple[str, bool]:
    pairs = [
        tuple(evaluation["metrics"][f"choice_sensitivity{ending}"] for ending in ("", "_normalized"))
        for evaluation in _evaluations(found, paper="cho", protocol="cloze")
    ]
    return "; ".join(f"{bare:.2f}, per byte {per_byte:.2f}" for bare, per_byte in pairs), all(
        per_byte >= bare for bare, per_byte in pairs
    )


def _takes_most_in_cloze(found: Figures) -> tuple[str, bool]:
    taken = {
        (evaluation["model"], evaluation["protocol"]): _effect(evaluation, "accuracy")["flipped"]
        for evaluation in _evaluations(found, paper="cho")
    }
    return ", ".join(f"{100 * taken[model, 'cloze']:.0f} %" for model in MODELS), all(
        taken[model, "cloze"] > taken[model, name] for model in MODELS for name in _FORMATS[:2]
    )


def _costs_accuracy(found: Figures) -> tuple[str, bool]:
    effects = [_effect(evaluation, "accuracy") for evaluation in _evaluations(found, paper="cho", protocol="cloze")]
    return _changes(effects), all(effect["altered"] < effect["original"] for effect in effects)


def _npsq_moves_less(found: Figures) -> tuple[str, bool]:
    both = [
        [_effect(evaluation, scoring) for scoring in ("accuracy", "npsq_accuracy")]
        for evaluation in _evaluations(found, paper="cho", protocol="cloze")
    ]
    moved = [[abs(effect["altered"] - effect["original"]) for effect in pair] for pair in both]
    return _changes([pair[1] for pair in both]), all(by_npsq < bare for bare, by_npsq in moved)


def _changes(effects: Sequence[Figures]) -> str:
    return ", ".join(f"{100 * effect['original']:.0f} % to {100 * effect['altered']:.0f} %" for effect in effects)


def _follows_best(target: str, metric: str, subset: str) -> Callable[[Figures], tuple[str, bool | None]]:
    """Return a check that a metric has the highest R² with a target on a subset."""

    def here(found: Figures) -> tuple[str, bool | None]:
        values = {name: _r_squared(found, name, subset, target) for name in _GOLIAKOVA.values()}
        defined = {name: value for name, value in values.items() if value is not None}
        if metric not in defined:
            return "–", None
        best = max(defined, key=lambda name: defined[name])
        shown = f"{METRICS[metric].label} {defined[metric]:.3f}"
        if best != metric:
            shown += f"; {METRICS[best].label} {defined[best]:.3f}"
        return shown, best == metric

    return here


def _compare(*cells: tuple[str, str], margin: float | None = None) -> Callable[[Figures], tuple[str, bool | None]]:
    """Return a check that the first R² is higher than the second or, with a margin, that they are close."""

    def here(found: Figures) -> tuple[str, bool | None]:
        first, second = (_r_squared(found, metric, subset) for metric, subset in cells)
        if first is None or second is None:
            return "–", None
        shown = f"{first:.3f} against {second:.3f}"
        if margin is None:
            return shown, first > second
        # If a metric has a low R² on both sets, it cannot show that more orders gain nothing.
        return shown, None if max(first, second) < _LEAST_TO_GAIN_FROM else abs(first - second) < margin

    return here


_MOST_SHORTCUT: Final = 50
_CLOSE: Final = 0.05
_LEAST_TO_GAIN_FROM: Final = 0.1
FINDINGS: Final[Mapping[str, Sequence[Finding]]] = {
    "gupta": (Finding("Every model loses accuracy on retest", _every_drop),),
    "cavalin": (
        Finding(
            "Far fewer questions are right in all variants than in the original", _check_below("bmca_100", "accuracy")
        ),
        Finding("CoRA is below accuracy for every model", _check_below("cora", "accuracy")),
    ),
    "nowak": (
        Finding(
            "With labels, one place for all right answers lifts accuracy on nonsense far above 25 % "
            f"(here: above {_MOST_SHORTCUT} % for some model; its best place)",
            _check_above_chance,
        ),
        Finding(f"M&D lowers the variance over places on NonsenseQA ({_count_lowered('5')})", _ratio("nonsenseqa")),
        Finding(
            f"M&D lowers the variance over places on CommonsenseQA ({_count_lowered('6')})", _ratio("commonsenseqa")
        ),
    ),
    "cho": (
        Finding("Choice sensitivity is highest in cloze", _sensitive_in_cloze),
        Finding("Length normalisation does not lower it (in cloze)", _no_help_from_length),
        Finding("“Hello, everyone.” takes more answers in cloze than elsewhere (there: 93 %)", _takes_most_in_cloze),
        Finding("and costs accuracy in cloze (there: half of it)", _costs_accuracy),
        Finding("NPSQ accuracy moves less than accuracy does (there: under 0.2 %)", _npsq_moves_less),
    ),
    "goliakova": (
        Finding(
            "On the original order, probability mass follows the full fluctuation rate best (.89)",
            _follows_best("fluctuation_rate", "prob_mass", "original"),
        ),
        Finding(
            "On rotations, the fluctuation rate over them follows the full one best (.953)",
            _follows_best("fluctuation_rate", "fluctuation_rate", "cyclic"),
        ),
        Finding(
            "On rotations, worst accuracy is best for both targets (.942)",
            _follows_best("both", "worst_accuracy", "cyclic"),
        ),
        Finding(
            "Worst accuracy on rotations follows it better than average accuracy (.923 against .877)",
            _compare(("worst_accuracy", "cyclic"), ("average_accuracy", "cyclic")),
        ),
        Finding(
            "Two random orders are too few: rotations say more of the fluctuation rate (.953 against .479)",
            _compare(("fluctuation_rate", "cyclic"), ("fluctuation_rate", "random2")),
        ),
        Finding(
            "Probability mass gains nothing from more orders (.893 on two, .894 on rotations; here: within .05)",
            _compare(("prob_mass", "original-inverse"), ("prob_mass", "cyclic"), margin=_CLOSE),
        ),
    ),
}


TABLES: Final[Mapping[str, Callable[[Figures], Rows]]] = {
    "gupta": _gupta,
    "cavalin": _cavalin,
    "cavalin-kinds": _kinds,
    "nowak-nonsenseqa": _nowak("nonsenseqa", "5", "1,000"),
    "nowak-commonsenseqa": _nowak("commonsenseqa", "6", "1,221"),
    "nowak-positions": _positions,
    "cho": _cho,
    "cho-hello": _hello,
    "goliakova-points": _points,
    "goliakova-r-squared": _assess,
    "draws": _draws,
    "noise": _noise,
    **{f"{name}-directions": _directions(findings) for name, findings in FINDINGS.items()},
}


def main(arguments: Sequence[str]) -> int:
    """Measure, unless given `--pages`, and fill the tables of the pages."""
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-") and arguments[0] != "--pages"):
        click.echo(__doc__, err=True)
        return 2
    if arguments[:1] == ["--pages"]:
        click.echo("nothing is measured")
    else:
        with tempfile.TemporaryDirectory() as scratch:
            home = Path(arguments[0] if arguments else scratch).resolve()
            figures = _round(measure(home))
        FIGURES.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for path, page in pages().items():
        path.write_text(page, encoding="utf-8")
        click.echo(f"wrote {path.relative_to(DOCS.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
