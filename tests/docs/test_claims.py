"""What the documentation says that Shuffleboard can or cannot do is what the code registers.

Each claim stands with what decides it. A sentence that is no longer on its page is a claim that nobody checks.
"""

import re
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click
import pytest

from registry.benchmarks import recipes
from registry.benchmarks.recipes import shipped_recipes
from registry.exchange.exports.writing import FORMATS
from registry.prompting.protocols import PRESETS
from registry.prompting.variants import VARIANT_KINDS
from registry.sql.examples import EXAMPLES
from shuffleboard.cli import cli
from tests.commands import ROOT
from workers.providers import anthropic_api, openai_api


def kinds(*names: str) -> Callable[[], bool]:
    return lambda: set(names) <= set(VARIANT_KINDS)


def commands(*words: str) -> Callable[[], bool]:
    def there() -> bool:
        found: click.Command | None = cli
        for word in words:
            assert isinstance(found, click.Group)
            found = found.get_command(click.Context(found), word)
        return found is not None

    return there


def modules(*names: str) -> Callable[[], bool]:
    return lambda: all(import_module(name) for name in names)


def pinned() -> bool:
    """Whether every recipe names a commit."""
    folder = Path(recipes.__file__).parent
    revisions = [
        line.split("=", 1)[1].strip().strip('"')
        for file in folder.glob("*.toml")
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*revision\s*=", line)
    ]
    return bool(revisions) and all(re.fullmatch(r"[0-9a-f]{40}", revision) for revision in revisions)


def nine_kinds_of_orders() -> bool:
    orders = {"original", "original-inverse", "cyclic", "random2", "randomL", "full", "shuffle", "answer-moving"}
    return len(orders | {"repeat"}) == 9 and orders | {"repeat"} <= set(VARIANT_KINDS)


def extras(*names: str) -> Callable[[], bool]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return lambda: set(names) <= set(project["optional-dependencies"])


OUTPUTS = "registry.exchange.outputs."
CLAIMS: list[tuple[str, str, Callable[[], bool]]] = [
    ("docs/comparison.md", "nine kinds", nine_kinds_of_orders),
    ("docs/comparison.md", "the wording of the instruction", kinds("wording")),
    ("docs/comparison.md", "typing errors, paraphrases", kinds("noise", "paraphrase")),
    ("docs/comparison.md", '"none of the above", one distractor', kinds("divergent")),
    ("docs/comparison.md", "other labels, adversarial options", kinds("relabel", "adversarial")),
    ("docs/comparison.md", "the question left out", kinds("choice-only")),
    ("docs/comparison.md", "Benchmarks by name", lambda: len(shipped_recipes()) > 100),
    ("docs/comparison.md", "a generator of nonsense", commands("benchmarks", "generate")),
    ("docs/comparison.md", "LoRA adapters", modules("workers.engine.adapters")),
    (
        "docs/comparison.md",
        "OpenAI, Azure, OpenRouter, Anthropic, Google and Bedrock",
        modules(
            "workers.providers.openai_api",
            "workers.providers.anthropic_api",
            "workers.providers.google_api",
            "workers.providers.bedrock_api",
        ),
    ),
    ("docs/comparison.md", "under [Slurm]", (ROOT / "docker" / "slurm").is_dir),
    ("docs/comparison.md", "and [Kubernetes]", (ROOT / "docker" / "kubernetes").is_dir),
    (
        "docs/comparison.md",
        "lm-evaluation-harness, HELM, Inspect | Shuffleboard",
        modules(OUTPUTS + "harness", OUTPUTS + "helm", OUTPUTS + "inspect_log"),
    ),
    (
        "docs/comparison.md",
        "OpenCompass, lighteval, Every Eval Ever | Shuffleboard",
        modules(OUTPUTS + "opencompass", OUTPUTS + "lighteval", OUTPUTS + "every_eval_ever"),
    ),
    ("docs/comparison.md", "--format every-eval-ever", lambda: "every-eval-ever" in FORMATS),
    ("docs/comparison.md", "--format parquet", lambda: "parquet" in FORMATS),
    ("docs/limits.md", "typing errors and paraphrases that you supply", kinds("noise", "paraphrase")),
    ("docs/limits.md", "the wording of the\n  instruction", kinds("wording")),
    ("docs/boards.md", "suites fetch NAME", commands("suites", "fetch")),
    ("docs/how-to/fetch-benchmarks.md", "at which commit", pinned),
    (
        "README.md",
        "OpenAI and Anthropic\nalso in batches",
        lambda: all(any("atch" in name for name in vars(module)) for module in (openai_api, anthropic_api)),
    ),
    ("docs/sql.md", "twenty worked queries", lambda: len(EXAMPLES) == 20),
    ("docs/website.md", "twenty worked queries", lambda: len(EXAMPLES) == 20),
    ("docs/variants-and-protocols.md", "`final-answer`", lambda: "final-answer" in PRESETS),
]


@pytest.mark.parametrize(("page", "sentence", "holds"), CLAIMS, ids=[f"{page}: {said}" for page, said, _ in CLAIMS])
def test_a_claim_stands_on_its_page_and_holds(page: str, sentence: str, holds: Callable[[], bool]) -> None:
    assert sentence in (ROOT / page).read_text(encoding="utf-8"), "the claim is not there: remove it here, or say it"
    assert holds(), "the claim is false: correct the page"


def test_batches_are_claimed_of_no_other_provider() -> None:
    for name in ("google_api", "bedrock_api"):
        module = import_module(f"workers.providers.{name}")
        assert not any("Batch" in found for found in vars(module)), f"{name} has batches: say so in the README"
