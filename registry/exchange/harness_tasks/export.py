"""Write a task of lm-evaluation-harness as JSON Lines: `export.py TASK [FOLDER]`, run by a Python that has `lm_eval`.

A separate program that imports nothing of the project, since the harness needs its own environment. The first line
describes the task; its questions and few-shot examples follow in the form of the benchmark contract. If a task cannot
be represented, the program ends with status 3 and the reason on stderr.
"""

import hashlib
import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Document = dict[str, Any]

LABEL = re.compile(r"\(?[A-Za-z0-9]\)?[.:]?")
QUESTION_KEYS = (
    "question",
    "query",
    "question_stem",
    "input_question",
    "sentence",
    "goal",
    "problem",
    "ctx",
    "input",
    "prompt",
    "text",
    "premise",
)
CONTEXT_KEYS = ("passage", "context", "flores_passage", "article", "story", "background")
OPTION_KEYS = ("choices", "options", "endings", "answers", "candidates")
MAX_EXAMPLES = 1000


class UnrepresentableError(Exception):
    """A task is not a benchmark of questions whose options can be reordered; the message gives the reason."""


def question_of(task: Any, doc: Document, templates: Any = None) -> Document:
    """Return a document's question, context, options and answer, rendered by the task's templates.

    templates: a few-shot configuration, whose templates take precedence.
    """

    def render(name: str) -> Any:
        own = getattr(templates, name, None)
        return getattr(task, name)(doc) if own is None else getattr(task, name)(doc, own)

    text = render("doc_to_text")
    if not isinstance(text, str):
        raise UnrepresentableError(
            "its options are the beginnings of a text that they complete (several inputs), not answers to one question"
        )
    choices = render("doc_to_choice")
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(one, str) for one in choices):
        raise UnrepresentableError(f"doc_to_choice gives {choices!r:.80}, not a list of at least two texts")
    answer = answer_of(render("doc_to_target"), choices)
    options = choices
    if all(LABEL.fullmatch(one.strip()) for one in choices):
        options = read_labelled_options(doc, text, choices)
    question, context = find_question_texts(doc, text, options)
    return {"question": question, "context": context, "options": options, "answer": answer}


def answer_of(target: Any, choices: list[str]) -> int:
    """Return the index of the right choice. The harness takes an index or the choice itself."""
    if isinstance(target, list):
        if len(target) != 1:
            raise UnrepresentableError(f"a question has {len(target)} right answers; one is needed")
        [target] = target
    if isinstance(target, str):
        if choices.count(target) != 1:
            raise UnrepresentableError(f"the target {target!r:.80} is not exactly one of the choices {choices!r:.80}")
        target = choices.index(target)
    if isinstance(target, bool) or not isinstance(target, int) or not 0 <= target < len(choices):
        raise UnrepresentableError(f"the target {target!r:.80} is not the index of one of {len(choices)} choices")
    return target


def read_labelled_options(doc: Document, text: str, labels: list[str]) -> list[str]:
    """Return the option texts for labels such as A and B.

    They are a list in the document whose texts the prompt contains, or else the texts that follow the labels in the
    prompt.
    """
    for value in lists_of(doc):
        if len(value) >= len(labels) and all(is_shown(one, text) for one in value[: len(labels)]):
            # A document may have fewer options than the task has labels, never the other way round.
            return list(value[: len(labels)])
    located: list[tuple[str, int]] = []
    for label, following in zip(labels, [*labels[1:], None], strict=True):
        start = find_label(label, text, located[-1][1] if located else 0)
        end = None if following is None or start is None else find_label(following, text, start[1])
        if start is None or (following is not None and end is None):
            raise UnrepresentableError(
                f"its choices are labels ({', '.join(labels)}), and what they stand for is found neither in the "
                "document nor in the prompt"
            )
        stop = text.find("\n", start[1]) if end is None else end[0]
        located.append((text[start[1] : None if stop < 0 else stop].strip(), start[1]))
    options = [option for option, _ in located]
    if not all(options):
        raise UnrepresentableError(f"the prompt lists an empty option behind one of the labels {', '.join(labels)}")
    return options


def find_label(label: str, text: str, begin: int) -> tuple[int, int] | None:
    """Find a label at the beginning of a line of the prompt; return the positions before and after it."""
    match = re.compile(rf"(?:^|\n)[ \t]*\(?{re.escape(label.strip(' ().:'))}[).:][ \t]*").search(text, begin)
    return None if match is None else match.span()


def lists_of(doc: Document) -> Iterator[list[str]]:
    """Yield the lists of texts in a document that may be its options, the most likely first."""
    values = [doc[key] for key in OPTION_KEYS if key in doc] + list(doc.values())
    for value in values:
        if isinstance(value, dict):
            yield from (inner for inner in value.values() if is_list(inner))
            if value and all(isinstance(inner, str) for inner in value.values()):
                yield [value[key] for key in sorted(value)]
        elif is_list(value):
            yield value
    numbered = re.compile(
        r"(?:option|choice|answer|op|mc_answer|sol|ending|distractor|opt)?_?([a-j0-9])$", re.IGNORECASE
    )
    together: dict[str, list[tuple[str, str]]] = {}
    for key, value in doc.items():
        match = numbered.match(key)
        if match and isinstance(value, str):
            together.setdefault(key[: match.start(1)], []).append((match[1].lower(), value))
    for group in together.values():
        if len(group) > 1:
            yield [value for _, value in sorted(group)]


def is_list(value: Any) -> bool:
    """Return whether a value is a list of at least two texts."""
    return isinstance(value, list) and len(value) > 1 and all(isinstance(one, str) and one.strip() for one in value)


def is_shown(option: str, text: str) -> bool:
    """Return whether the prompt contains an option."""
    return option.strip() in text


def find_question_texts(doc: Document, text: str, options: list[str]) -> tuple[str, str | None]:
    """Return the question and its context, if any.

    They are texts of the document that the prompt contains; otherwise the whole prompt is the question.
    """
    shown = {
        key: value for key, value in doc.items() if isinstance(value, str) and value.strip() and value.strip() in text
    }
    question = next((shown[key] for key in QUESTION_KEYS if key in shown and shown[key] not in options), None)
    if question is None:
        return text, None
    context = next((shown[key] for key in CONTEXT_KEYS if key in shown and shown[key] != question), None)
    return question, context


def documents(task: Any, name: str, subject: str | None) -> Iterator[Document]:
    """Yield the questions and examples of a task, as lines of a benchmark file."""
    docs = task.eval_docs
    seen = set()
    for index, doc in enumerate(docs):
        seen.add(json.dumps(doc, sort_keys=True, default=str))
        try:
            question = question_of(task, doc)
        except UnrepresentableError as error:
            raise UnrepresentableError(f"document {index}: {error}") from None
        yield {"id": f"{name}-{index:05}", "subject": subject, "split": split_of(task)} | question
    for index, doc in enumerate(list(examples_of(task))[:MAX_EXAMPLES]):
        if json.dumps(doc, sort_keys=True, default=str) not in seen:
            question = question_of(task, doc, getattr(task, "fewshot_cfg", None))
            yield {"id": f"{name}-fewshot-{index:05}", "subject": subject, "split": "fewshot"} | question


def examples_of(task: Any) -> Iterable[Document]:
    """Return few-shot documents, if the task names a split for them or lists them."""
    split = getattr(task, "fewshot_cfg", None) and (task.fewshot_cfg.split or task.fewshot_cfg.samples)
    if not split and not task.has_training_docs():
        return []
    return task.fewshot_docs() or []


def split_of(task: Any) -> str:
    """Return the split that the harness evaluates."""
    return (task.config.test_split if task.has_test_docs() else task.config.validation_split) or "test"


def flatten_tasks(loaded: Mapping[Any, Any]) -> dict[str, Any]:
    """Return all tasks that the harness loads by a name: a single task, or the tasks of a group."""
    tasks: dict[str, Any] = {}
    for name, value in loaded.items():
        if isinstance(value, dict):
            tasks |= flatten_tasks(value)
        elif value is not None:
            tasks[str(name)] = value
    return tasks


def main() -> None:
    """Write the task that the command line names."""
    name, folder = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print, too
    from lm_eval.tasks import TaskManager, get_task_dict

    # Loading every task that the harness ships takes seconds; tasks in your own folder don't need them.
    manager = TaskManager(include_path=folder, include_defaults=folder is None)
    if name not in manager.all_tasks and folder is not None:
        manager = TaskManager(include_path=folder)
    if name not in manager.all_tasks:
        near = [task for task in manager.all_tasks if name.split("_")[0] in task][:8]
        raise UnrepresentableError(f"the harness has no task of that name; it has {', '.join(near) or 'none alike'}")
    tasks = flatten_tasks(get_task_dict([name], manager))
    paths = sorted({str(manager.task_index[task].yaml_path) for task in (name, *tasks) if task in manager.task_index})
    digest = hashlib.sha256()
    for path in paths:
        if Path(path).is_file():
            digest.update(Path(path).read_bytes())
    lines: list[Document] = []
    for one, task in tasks.items():
        if task.config.output_type != "multiple_choice":
            raise UnrepresentableError(f"{one} has output_type {task.config.output_type}; multiple_choice is needed")
        lines += documents(task, one, one if len(tasks) > 1 else None)
    versions = sorted({str(task.VERSION) for task in tasks.values()})
    configured = next(iter(tasks.values())).config
    head = {
        "task": name,
        "version": ", ".join(versions),
        "yaml_digest": digest.hexdigest(),
        "dataset": "/".join(str(part) for part in (configured.dataset_path, configured.dataset_name) if part),
        "harness": importlib.metadata.version("lm_eval"),
    }
    for line in (head, *lines):
        answers.write(json.dumps(line, ensure_ascii=False) + "\n")
    answers.close()


if __name__ == "__main__":
    try:
        main()
    except UnrepresentableError as error:
        sys.stderr.write(f"\nREFUSED {error}\n")
        sys.exit(3)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"\nMISSING {error.name}\n")
        sys.exit(4)
    except Exception as error:  # noqa: BLE001 - a task may run code of its own
        sys.stderr.write(f"\nFAILED {type(error).__name__}: {error}\n")
        sys.exit(5)
