"""Paraphrases of questions, from a file of the user's: which model or person wrote them is the user's decision.

A line of JSON for each question: its `id` and `texts`, the wordings of its question. All questions of a file have as
many, since a paraphrase of one ordinal is one run over the benchmark.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from registry.errors import VariantError
from registry.files.toml import read_definition
from registry.untrusted import RefusedError, decode

MAX_TEXTS: Final = 100


def read_paraphrases(path: Path) -> dict[str, Any]:
    """Question id to its texts, as they are stored with a variant set.

    Raises IngestError or VariantError naming file, line, value and remedy.
    """
    found: dict[str, list[str]] = {}
    for number, line in enumerate(read_definition(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path.name} line {number}"
        try:
            document = decode(line)
        except RefusedError as error:
            raise VariantError(f"{where}: {error}") from None
        except ValueError as error:
            raise VariantError(f'{where}: not valid JSON: {error}; give {{"id": …, "texts": […]}}') from None
        if not isinstance(document, Mapping) or document.keys() != {"id", "texts"}:
            raise VariantError(f"{where}: {_shortened(line)}; give an object with the keys id and texts alone")
        name, texts = document["id"], document["texts"]
        if not isinstance(name, str) or name in found:
            raise VariantError(
                f"{where}: id {_shortened(repr(name))} is not a text, or stands twice; give each question one line"
            )
        found[name] = _checked(texts, where)
    if not found:
        raise VariantError(f"{path.name}: contains no paraphrases; give a line for each question")
    first, *rest = found
    for name in rest:
        if len(found[name]) != len(found[first]):
            raise VariantError(
                f"{path.name}: question {name} has {len(found[name])} texts and {first} has {len(found[first])}; "
                "give each as many"
            )
    return {"texts": found}


def _checked(texts: Any, where: str) -> list[str]:
    if not isinstance(texts, Sequence) or isinstance(texts, str) or not 1 <= len(texts) <= MAX_TEXTS:
        raise VariantError(f"{where}: texts is {_shortened(repr(texts))}; give a list of 1 to {MAX_TEXTS} texts")
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise VariantError(f"{where}: {_shortened(repr(text))} is not a text; give the question in other words")
    return list(texts)


def _shortened(text: str) -> str:
    """A value as an error shows it."""
    return text if len(text) <= 80 else f"{text[:79]}…"
