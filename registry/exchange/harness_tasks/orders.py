"""A benchmark's questions in several orders, written as one task that lm-evaluation-harness runs unchanged."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from registry.benchmarks.canary import canary
from registry.errors import UsageError
from registry.files.new_folder import new_folder, require_free
from registry.logs.format import METADATA
from registry.lookups import find_version
from registry.predictions.prompts import few_shot_pool
from registry.prompting.prompts import QuestionText, build_prompt, few_shot_examples, question_shape, question_text
from registry.prompting.protocols.store import find_definition
from registry.prompting.variants import ORDERS, VariantSetDefinition, VariantShown, parse_variants
from registry.tables import Question

_AT_ONCE: Final = 500
_OTHERS: Final = re.compile(r"[^A-Za-z0-9._-]+")
# The harness looks for a path in its working directory, but for a function next to the task's YAML.
_LOADER: Final = """from pathlib import Path

import datasets


def load(*, documents, **_):
    \"\"\"Load the documents next to this file.\"\"\"
    return datasets.load_dataset("json", data_files={"test": str(Path(__file__).with_name(documents))})
"""


def write_orders(
    session: Session, benchmark: str, out: Path, *, variants: str = "cyclic", protocol: str = "symbols", shots: int = 0
) -> dict[str, Any]:
    """Write a task with a document for each question and order into the new folder `out`; return its name and sizes.

    Each document contains its question's id, variant and order, which an import or an audit of the samples reads. The
    folder appears when it is complete, and can be moved. Raises UsageError for variants that change more than the
    order, and for protocols with generated answers or with conversations as prompts: the harness scores continuations
    of a text.
    """
    require_free(out)
    version = find_version(session, benchmark)
    definition, variant_set = _require_scoring(find_definition(session, protocol, shots)), _orders(variants)
    pool = few_shot_pool(session, version.id) if shots else []
    task = _OTHERS.sub("-", f"{version.benchmark.name}-{variant_set.name}").strip("-")
    data, mark = f"{task}.jsonl", canary(version.content_digest)
    questions = session.scalars(
        select(Question)
        .where(Question.benchmark_version_id == version.id, ~Question.few_shot)
        .order_by(Question.ordinal)
        .options(selectinload(Question.options))
        .execution_options(yield_per=_AT_ONCE)
    )
    n_questions = n_documents = 0
    with new_folder(out) as folder:
        with (folder / data).open("w", encoding="utf-8") as stream:
            for question in questions:
                n_questions += 1
                for document in _documents(definition, variant_set, question, pool):
                    stream.write(json.dumps({**document, "canary": mark}, ensure_ascii=False) + "\n")
                    n_documents += 1
        (folder / "documents.py").write_text(_LOADER, encoding="utf-8")
        (folder / f"{task}.yaml").write_text(_task(task, data, version.version), encoding="utf-8")
    return {"task": task, "folder": str(out), "questions": n_questions, "documents": n_documents}


def _require_scoring(definition: dict[str, Any]) -> dict[str, Any]:
    name = definition["name"]
    if "answer" in definition:
        raise UsageError(f"protocol {name}: the model writes its answers; give a protocol that scores options: symbols")
    if definition.get("chat_template"):
        raise UsageError(
            f"protocol {name}: its prompts are a conversation; give one of texts, such as symbols or cloze"
        )
    return definition


def _orders(variants: str) -> VariantSetDefinition:
    variant_set = parse_variants(variants)
    if variant_set.kind not in ORDERS:
        raise UsageError(f"variants {variant_set.name}: change more than the order; give one of {', '.join(ORDERS)}")
    if variant_set.repeats > 1:
        raise UsageError(f"variants {variant_set.name}: scores of continuations do not vary; leave out repeats")
    return variant_set


def _documents(
    definition: Mapping[str, Any], variant_set: VariantSetDefinition, question: Question, pool: Sequence[QuestionText]
) -> Iterator[dict[str, Any]]:
    text = question_text(question)
    examples = few_shot_examples(pool, text.subject, definition["shots"])
    for variant in variant_set.variants(question_shape(question)):
        yield _document(definition, text, variant, examples)


def _document(
    definition: Mapping[str, Any], question: QuestionText, variant: VariantShown, examples: Sequence[QuestionText]
) -> dict[str, Any]:
    prompt = build_prompt(definition, question, variant, examples)
    return {
        "id": question.external_id,
        "context": question.context or "",
        "question": question.text,
        "choices": [question.options[option] for option in variant.order],
        "answer": variant.order.index(question.answer),
        "prompt": prompt.text,
        "continuations": list(prompt.continuations),
        METADATA: {"question": question.external_id, "variant": variant.ordinal, "order": list(variant.order)},
    }


def _task(task: str, data: str, version: str) -> str:
    """Return the task's YAML: a key a line, with values in JSON, which YAML contains."""
    keys = {
        "task": task,
        "dataset_kwargs": {"documents": data},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "prompt",
        "doc_to_choice": "continuations",
        "doc_to_target": "answer",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": version},
    }
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
    return "\n".join([*lines, "custom_dataset: !function documents.load", ""])
