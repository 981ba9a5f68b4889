"""An extension of Inspect AI: runs any multiple-choice task in several orders of its options, and several times.

    inspect eval shuffleboard/permuted -T task=inspect_evals/mmlu_0_shot -T variants=cyclic --model …

or in Python, `eval(permuted(my_task(), variants="cyclic:repeats=2"))`. Repeats are Inspect's epochs. `shuffleboard
audit` and `evaluations import` read the log: each sample's metadata names its question and the order.
"""

import contextlib
import dataclasses
import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

from inspect_ai import task, task_with
from inspect_ai.dataset import MemoryDataset
from inspect_ai.util import registry_create

from registry.errors import VariantError
from registry.logs.format import METADATA
from registry.prompting.labels import LETTERS
from registry.prompting.variants import QuestionShape, parse_variants
from shuffleboard.inspect_hook import ImportHook

__all__ = ["ImportHook", "permute_samples", "permuted"]

SEPARATOR: Final = "/variant-"


def permute_samples(samples: Any, variants: str) -> list[Any]:
    """Return each sample once for each order, with its choices reordered and its target adjusted.

    Raises VariantError for samples without choices or with several targets, and for kinds that change more than orders.
    """
    definition = parse_variants(variants)
    permuted_samples = []
    for number, sample in enumerate(samples, start=1):
        name = str(number if sample.id is None else sample.id)
        choices, target = sample.choices or [], sample.target
        right = LETTERS.find(target.strip()) if isinstance(target, str) and len(target.strip()) == 1 else -1
        if not 0 <= right < len(choices):
            message = f"sample {name}: target {target!r} is not one letter of its {len(choices)} choices"
            raise VariantError(message)
        for variant in definition.variants(QuestionShape(name, len(choices), right)):
            if variant.repeat:
                continue  # repeats are epochs
            if sorted(variant.order) != list(range(len(choices))) or dataclasses.replace(
                variant, ordinal=0, name="", order=(), repeat=0
            ) != type(variant)(0, "", ()):
                message = f"--variants {variants}: {variant.name} changes more than the order; give kinds of orders"
                raise VariantError(message)
            ordinal = variant.ordinal // definition.repeats
            own = {"question": name, "variant": ordinal, "order": list(variant.order)}
            metadata = {**(sample.metadata or {}), METADATA: own}
            changed = {
                "id": f"{name}{SEPARATOR}{ordinal}",
                "choices": [choices[option] for option in variant.order],
                "target": LETTERS[variant.order.index(right)],
                "metadata": metadata,
            }
            permuted_samples.append(sample.model_copy(update=changed))
    return permuted_samples


def _make_task(name: str, arguments: dict[str, Any]) -> Any:
    """Return the task with this name. As in Inspect, a file is run in its folder, so that its tasks are registered."""
    file, _, task_name = name.partition("@")
    path = Path(file).resolve()
    if path.suffix != ".py":
        return registry_create("task", name, **arguments)
    if not path.is_file() or not task_name:
        raise VariantError(f"-T task={name}: give a file and the name of a task in it, such as file.py@name")
    with contextlib.chdir(path.parent):
        sys.path.insert(0, str(path.parent))
        try:
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None  # the file has the suffix .py
            assert spec.loader is not None
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
            return registry_create("task", task_name, **arguments)
        except LookupError:
            raise VariantError(f"-T task={name}: the file has no task {task_name}") from None
        finally:
            sys.path.remove(str(path.parent))


@task  # type: ignore[untyped-decorator, unused-ignore]
def permuted(task: Any, variants: str = "cyclic", **arguments: Any) -> Any:
    """Build a task that asks every question in several orders.

    task: a Task, the name of a registered task, or `file.py@name`; a task given by name is created with the other
    arguments. variants: a kind of orders as everywhere in Shuffleboard, such as `cyclic`, `full`, `shuffle:m=4`, or
    with repeats `cyclic:repeats=2`, which is `cyclic` in two epochs; Inspect's own `--epochs` takes precedence.
    """
    original = _make_task(task, arguments) if isinstance(task, str) else task
    definition = parse_variants(variants)
    samples = permute_samples(list(original.dataset), variants)
    dataset = MemoryDataset(samples, name=original.dataset.name, location=original.dataset.location)
    once = definition.asked(1).name
    return task_with(
        original,
        dataset=dataset,
        epochs=definition.repeats,
        name=f"{original.name}_{once.replace(':', '-')}",
        metadata={**(original.metadata or {}), METADATA: {"task": original.name, "variants": once}},
    )
