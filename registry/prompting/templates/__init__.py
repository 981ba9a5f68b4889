"""Wordings: templates that replace the words of a protocol's task.

A template replaces the words and the place of the task; the protocol still determines the form of the answer, the
labels and how answers are read. So every template works with every protocol that lists the options.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Formatter
from typing import Any, Final

from registry.errors import VariantError
from registry.files.toml import parse_toml, read_definition, read_toml

PLACES: Final = ("before", "after")
OWN: Final = "own"
"""Name of the wording with ordinal 0: the protocol's own words."""
SHIPPED: Final = ("score",)

ANSWER_FORMATS: Final[tuple[str | None, ...]] = (
    None,
    "{label}: {option}",
    "{label}) {option}",
    "({label}) {option}",
    "[{label}] {option}",
)
"""The form of an option for each seed of the answer format; None is the protocol's form."""
UNLABELLED_FORMATS: Final[tuple[str | None, ...]] = (None, "* {option}", "• {option}", "+ {option}", "> {option}")
"""The same for protocols that put no label before an option."""

_KEYS: Final = {
    "name": None,
    "place": "before",
    "question": "{question}",
    "task": None,
    "task_without_subject": "",
    "reasoning": "",
}
"""Keys of a template, with their defaults; None marks a required key."""
_PLACEHOLDERS: Final = {
    "question": {"question"},
    "task": {"options", "subject"},
    "task_without_subject": {"options"},
}
MAX_TEMPLATES: Final = 200


@dataclass(frozen=True)
class Template:
    """The wording of a prompt's task.

    task: a sentence with {options} ("options A to D", or "options") and {subject}; task_without_subject: the sentence
    for questions without a subject. place: before the question, or after its options. question: a template of the
    question, such as "Question: {question}". reasoning: a sentence that is added if the model may reason before it
    answers. seed: of the answer format, an index of ANSWER_FORMATS.
    """

    name: str
    task: str
    place: str = "before"
    question: str = "{question}"
    task_without_subject: str = ""
    reasoning: str = ""
    seed: int = 0


def load_shipped(name: str) -> tuple[Template, ...]:
    """Return the templates that ship under a name. Raises VariantError for an unknown name."""
    if name not in SHIPPED:
        raise VariantError(f"wording: no templates {name!r} ship; use {', '.join(SHIPPED)}, or file=FILE for your own")
    return _load_shipped(name)


@cache
def _load_shipped(name: str) -> tuple[Template, ...]:
    text = read_definition(files(__name__).joinpath(f"{name}.toml"))
    return templates_of(check_templates(parse_toml(text, f"{name}.toml"), f"{name}.toml"))


def read_templates(path: Path) -> dict[str, Any]:
    """Read and check the templates of a user's file, and return them in the form stored with a variant set.

    The file is TOML: a text `source`, and a table `[[template]]` for each template with `name`, `task` and optionally
    `task_without_subject`, `place`, `question` and `reasoning`. Raises IngestError or VariantError naming the file, the
    value and the remedy.
    """
    return check_templates(read_toml(path), path.name)


def templates_of(content: Mapping[str, Any]) -> tuple[Template, ...]:
    """Return the templates in stored content, which is checked again because another registry may have written it."""
    return tuple(Template(**template) for template in check_templates(content, "templates")["template"])


def check_templates(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Check the content of a file of templates, and return it with all defaults.

    name: of the file, for messages. Raises VariantError for an invalid key or value.
    """
    unknown = sorted(document.keys() - {"source", "template"})
    if unknown:
        raise VariantError(f"{name}: unknown key {unknown[0]!r}; use source and [[template]]")
    listed = document.get("template")
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not 1 <= len(listed) <= MAX_TEMPLATES:
        raise VariantError(f"{name}: give 1 to {MAX_TEMPLATES} tables [[template]]")
    templates = [_check_template(template, f"{name}: template {number}") for number, template in enumerate(listed, 1)]
    names = [template["name"] for template in templates]
    for template in names:
        if names.count(template) > 1 or template == OWN:
            raise VariantError(f"{name}: template name {template!r} is taken; give each a name of its own")
    return {"source": str(document.get("source", "")).strip(), "template": templates}


def _check_template(document: Any, where: str) -> dict[str, str]:
    if not isinstance(document, Mapping):
        raise VariantError(f"{where} is {document!r}; give a table with {', '.join(_KEYS)}")
    for key, value in document.items():
        if key not in _KEYS or not isinstance(value, str):
            raise VariantError(f"{where}: {key} = {value!r}; give texts for {', '.join(_KEYS)}")
    values = {}
    for key, default in _KEYS.items():
        value = document.get(key, default)
        if value is None or (key in ("name", "task") and not value.strip()):
            raise VariantError(f"{where} has no {key}; give one")
        _check_placeholders(key, value, where)
        values[key] = value
    if values["place"] not in PLACES:
        raise VariantError(f"{where}: place {values['place']!r}: use {' or '.join(PLACES)}")
    if "{question}" not in values["question"]:
        raise VariantError(f"{where}: question {values['question']!r} lacks {{question}}")
    if "{subject}" in values["task"] and not values["task_without_subject"]:
        raise VariantError(f"{where}: its task names the {{subject}}; give task_without_subject as well")
    return values


def _check_placeholders(key: str, value: str, where: str) -> None:
    allowed = _PLACEHOLDERS.get(key, set())
    try:
        fields = [part[1:] for part in Formatter().parse(value) if part[1] is not None]
        # Only names are allowed: a width or an attribute could exhaust the memory of the process that builds the
        # prompt.
        valid = all(name in allowed and not spec and not conversion for name, spec, conversion in fields)
    except ValueError:
        valid = False
    if not valid:
        listed = ", ".join(f"{{{name}}}" for name in sorted(allowed)) or "none"
        raise VariantError(
            f"{where}: {key} = {value!r}; it may have these placeholders: {listed}, and {{{{ or }}}} for a brace"
        )
