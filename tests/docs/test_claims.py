"""The documentation's claims about features, compared with the code.

Each claim has a function that checks it. The test also fails if a sentence is no longer on its page.
"""

import re
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click
import pytest

from registry.benchmarks import recipes
from registry.benchmarks.recipes import load_shipped_recipes
from registry.exchange.exports.writing import FORMATS
from registry.metrics import METRICS
from registry.prompting.protocols.presets import PRESETS
from registry.prompting.variants import VARIANT_KINDS
from registry.settings import Settings
from registry.sql.examples import EXAMPLES
from registry.statistics.comparison import mcnemar
from registry.statistics.ranks import rank_intervals, tiers
from registry.tables import MODEL_KINDS
from shuffleboard.cli import cli
from shuffleboard.cli.models import KINDS
from tests.support.commands import ROOT


def kinds(*names: str) -> Callable[[], bool]:
    return lambda: set(names) <= set(VARIANT_KINDS)


def commands(*words: str) -> Callable[[], bool]:
    return lambda: find_command(*words) is not None


def modules(*names: str) -> Callable[[], bool]:
    return lambda: all(import_module(name) for name in names)


def are_pinned() -> bool:
    """Return whether every recipe names a commit."""
    folder = Path(recipes.__file__).parent
    revisions = [
        line.split("=", 1)[1].strip().strip('"')
        for file in folder.glob("*.toml")
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*revision\s*=", line)
    ]
    return bool(revisions) and all(re.fullmatch(r"[0-9a-f]{40}", revision) for revision in revisions)


def formats(*names: str) -> Callable[[], bool]:
    return lambda: set(names) <= set(FORMATS)


def are_defined(module: str, *names: str) -> Callable[[], bool]:
    return lambda: all(hasattr(import_module(module), name) for name in names)


def setting(name: str, value: object) -> Callable[[], bool]:
    return lambda: bool(Settings.model_fields[name].default == value)


def batches() -> bool:
    from workers.providers import anthropic_api, openai_api  # importing these libraries takes seconds

    return all(any("atch" in name for name in vars(module)) for module in (openai_api, anthropic_api))


def python_from() -> bool:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return bool(project["requires-python"] == ">=3.11")


LOGS = "registry.logs.formats."
PROVIDERS = "workers.providers."
COMPARED = "docs/comparison.md"
CLAIMS: list[tuple[str, str, Callable[[], bool]]] = [
    (COMPARED, "[rotations, inversion, draws, all of them]", kinds("cyclic", "original-inverse", "shuffle", "full")),
    (COMPARED, "the wording of the instruction", kinds("wording")),
    (COMPARED, '"none of the above", one distractor', kinds("divergent")),
    (COMPARED, "other labels, adversarial options", kinds("relabel", "adversarial")),
    (COMPARED, "the question left out", kinds("choice-only")),
    (COMPARED, "more than a hundred [recipes]", lambda: len(load_shipped_recipes()) > 100),
    (COMPARED, "a generator of nonsense", commands("benchmarks", "generate")),
    (COMPARED, "tasks of lm-evaluation-harness", lambda: "harness_task" in options("benchmarks", "import")),
    (COMPARED, "LoRA adapters", modules("workers.engine.adapters")),
    (COMPARED, "safetensors, GGUF", lambda: {"huggingface", "gguf", "openai", "external"} <= set(MODEL_KINDS)),
    (COMPARED, "quantised checkpoints", modules("workers.checkpoints")),
    (
        COMPARED,
        "OpenAI, Azure, OpenRouter and Anthropic through their own libraries",
        modules(*(PROVIDERS + name for name in ("openai_api", "anthropic_api"))),
    ),
    (COMPARED, "under [Slurm]", (ROOT / "docker" / "slurm").is_dir),
    (COMPARED, "[Kubernetes]", (ROOT / "docker" / "kubernetes").is_dir),
    (COMPARED, "There is no Ray", lambda: "ray" not in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()),
    (
        COMPARED,
        "logs of lm-evaluation-harness, HELM, Inspect AI",
        modules(LOGS + "harness", LOGS + "helm", LOGS + "inspect_log"),
    ),
    (
        COMPARED,
        "OpenCompass, lighteval, Every Eval Ever",
        modules(LOGS + "opencompass", LOGS + "lighteval", LOGS + "every_eval_ever"),
    ),
    (COMPARED, "tables of letters", modules(LOGS + "table")),
    (COMPARED, "`--format every-eval-ever`", formats("every-eval-ever")),
    (COMPARED, "`--format parquet`, `--format csv`, `--format jsonl`", formats("parquet", "csv", "jsonl")),
    (COMPARED, "`--format eval-results`", formats("eval-results")),
    (COMPARED, "McNemar's test", lambda: callable(mcnemar)),
    (COMPARED, "rank intervals, tiers", lambda: callable(rank_intervals) and callable(tiers)),
    (COMPARED, "verification without a registry", lambda: "public" in options("verify")),
    ("docs/limits.md", "and the wording of the instruction", kinds("wording")),
    ("docs/boards.md", "suites fetch NAME", commands("suites", "fetch")),
    ("docs/how-to/fetch-benchmarks.md", "at which commit", are_pinned),
    ("README.md", "OpenAI and Anthropic also accept batches", batches),
    ("README.md", "Python 3.11 or newer", python_from),
    ("README.md", "more than forty metrics", lambda: len(METRICS) > 40),
    ("docs/sql.md", "twenty-three worked queries", lambda: len(EXAMPLES) == 23),
    ("docs/website.md", "twenty-three worked queries", lambda: len(EXAMPLES) == 23),
    ("docs/sql.md", "`SHUFFLEBOARD_SQL_ROWS`", setting("sql_rows", 10_000)),
    ("docs/variants-and-protocols.md", "`final-answer`", lambda: "final-answer" in PRESETS),
    ("docs/how-to/ask-providers.md", "`--kind anthropic --location", lambda: "anthropic" in KINDS),
    ("docs/operations.md", "shuffleboard db move --to", commands("db", "move")),
    (
        "docs/operations.md",
        "--model served-model --benchmark my-benchmark --variants cyclic --limit 100 --replicate",
        lambda: {"model", "benchmark", "variants", "limit", "replicate"} <= options("evaluations", "submit"),
    ),
    ("docs/operations.md", "shuffleboard statistics compare 12 15", commands("statistics", "compare")),
    ("docs/operations.md", "The command does not switch your processes", lambda: "witch" not in help_of("db", "move")),
    ("docs/queue.md", "`shuffleboard worker beat --once`", lambda: "once" in options("worker", "beat")),
    ("docs/how-to/publish-a-board.md", "shuffleboard publish main --to site", commands("publish")),
    ("docs/how-to/archive-predictions.md", "shuffleboard evaluations archive", commands("evaluations", "archive")),
    ("docs/provenance.md", "shuffleboard chain sign", commands("chain", "sign")),
]
"""A page, a sentence on it, and a function that returns whether the sentence is true."""


def help_of(*words: str) -> str:
    return find_command(*words).help or ""


def options(*words: str) -> set[str]:
    return {parameter.name for parameter in find_command(*words).params if parameter.name}


def find_command(*words: str) -> click.Command:
    command: click.Command | None = cli
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    return command


def test_there_are_forty_claims() -> None:
    assert len(CLAIMS) >= 40


@pytest.mark.parametrize(("page", "sentence", "holds"), CLAIMS, ids=[f"{page}: {said}" for page, said, _ in CLAIMS])
def test_a_claim_stands_on_its_page_and_holds(page: str, sentence: str, holds: Callable[[], bool]) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert sentence in text, "the claim is not there: remove it here, or say it"
    assert holds(), "the claim is false: correct the page"
