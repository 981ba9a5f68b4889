"""The format of recipes, the reader of their files, and the recipes of this package."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from registry.db import MAX_INTEGER
from registry.errors import IngestError, NotFoundError
from registry.files.toml import read_toml
from registry.names import check_name
from registry.proposals import propose
from registry.tables import VISIBILITIES
from registry.untrusted import RefusedError, check

FOLDER: Final = Path(__file__).parent


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Files(_Strict):
    """Some files of the dataset.

    files: a pattern in which `*` is any part of one name; every file that matches is read, in the order of the paths.
    split: the benchmark's name for these files. limit: the number of rows to read, from the first. count: the number of
    rows at the pinned revision. id: a template in place of that of the columns.
    """

    files: str
    split: str
    id: str | None = None
    limit: int | None = Field(default=None, gt=0)
    count: int | None = Field(default=None, gt=0)


class Answer(_Strict):
    """The column that states the right option, in one of these forms.

    index: a 0-based index. number: a 1-based index. letter: a letter, A for the first option. label: a label that is in
    the list in column `among`. one_hot: a list with a 1 at the option's index. text: the option's text. first: whether
    the right option always comes first.
    """

    index: str | None = None
    number: str | None = None
    letter: str | None = None
    label: str | None = None
    among: str | None = None
    one_hot: str | None = None
    text: str | None = None
    first: bool | None = None

    @model_validator(mode="after")
    def _require_one_form(self) -> "Answer":
        forms = self.model_dump(exclude={"among"}, exclude_none=True)
        if len(forms) != 1:
            message = (
                "say in exactly one way which option is right: index, number, letter, label, one_hot, text or first"
            )
            raise ValueError(message)
        if (self.label is None) != (self.among is None):
            message = "label and among belong together"
            raise ValueError(message)
        return self


class Columns(_Strict):
    """The columns from which a row becomes a question.

    Templates name columns in braces; a dot selects a field of a column of records. Besides columns they may contain
    `{row}`, the number of the row in its split, from 0; `{nth}`, the same within its subject; `{part}`, the text that
    the pattern's first `*` matched; and `{split}`, the split's name. `{row:04}` has four digits.
    options: a column with a list, or a template for each. extract: for a column, a regular expression whose named
    groups become columns. labelled: whether each option begins with its label, as in "(A) yes", which is removed.
    """

    id: str
    subject: str | None = None
    context: str | None = None
    question: str
    options: str | list[str]
    answer: Answer
    extract: dict[str, str] = {}
    labelled: bool = False

    @field_validator("extract")
    @classmethod
    def _check_expressions(cls, value: dict[str, str]) -> dict[str, str]:
        for expression in value.values():
            try:
                re.compile(expression)
            except re.error as error:
                message = f"{expression[:80]!r} is not a regular expression ({error})"
                raise ValueError(message) from None
        return value


class Recipe(_Strict):
    """A benchmark on the hub.

    repository: the dataset's name. revision: the commit of the counts. shuffle_seed: reorders each question's options,
    for benchmarks whose answer always comes first; 0 by default if the columns state that it does. content_digest: of
    the resulting benchmark. gated: whether the hub requires accepting terms first. family: the file of similar recipes.
    examples: a few-shot pool next to the recipe, in the benchmark contract's form, if the dataset has none.
    """

    name: str
    title: str
    repository: str
    revision: str | None = None
    licence: str | None = None
    citation: str
    language: str = "en"
    gated: bool = False
    visibility: str | None = None
    shuffle_seed: int | None = Field(default=None, ge=0, le=MAX_INTEGER)
    family: str | None = None
    content_digest: str | None = None
    questions: Files
    few_shot: Files | None = None
    examples: Path | None = None
    columns: Columns

    @model_validator(mode="before")
    @classmethod
    def _default_shuffle_seed(cls, document: Any) -> Any:
        """Set a seed for the options' order if the right one always comes first: its position must not reveal it."""
        columns = document.get("columns") if isinstance(document, dict) else None
        answer = columns.get("answer") if isinstance(columns, dict) else None
        if isinstance(answer, dict) and answer.get("first") and document.get("shuffle_seed") is None:
            return document | {"shuffle_seed": 0}
        return document

    @model_validator(mode="after")
    def _check_visibility(self) -> "Recipe":
        if self.visibility not in (None, *VISIBILITIES):
            message = f"visibility {self.visibility!r}: use one of {', '.join(VISIBILITIES)}"
            raise ValueError(message)
        return self

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return the patterns of all files that are needed."""
        return (self.questions.files, *(() if self.few_shot is None else (self.few_shot.files,)))


def read_recipe(path: Path) -> list[Recipe]:
    """Return the recipes of a file: one, or one for each entry of its table `each`.

    With `each`, `$key` and `$value` in every text are replaced by the entry's key and value, and an entry that is a
    table overrides keys of the recipe. Raises IngestError naming the file, the key and the remedy.
    """
    document = read_toml(path)
    each = document.pop("each", None)
    if each is None:
        return [_recipe(path, {"name": path.stem} | document)]
    if not isinstance(each, dict):
        raise IngestError(f"{path.name}: each is not a table; write [each] and a line for each benchmark")
    return [_recipe(path, document, {"key": key, "value": value}) for key, value in each.items()]


def _recipe(path: Path, document: dict[str, Any], entry: dict[str, Any] | None = None) -> Recipe:
    if entry is not None:
        overrides = (
            {}
            if isinstance(entry["value"], str)
            else {name: item for name, item in entry["value"].items() if name != "value"}
        )
        value = entry["value"] if isinstance(entry["value"], str) else entry["value"].get("value", entry["key"])
        document = _fill(document, {"key": entry["key"], "value": value})
        for name, item in overrides.items():
            document[name] = document.get(name, {}) | item if isinstance(item, dict) else item
    recipe = parse_recipe(path.name, document if entry is None else {"family": path.stem} | document)
    return recipe if recipe.examples is None else recipe.model_copy(update={"examples": path.parent / recipe.examples})


def parse_recipe(place: str, document: Mapping[str, Any]) -> Recipe:
    """Return the recipe of a document. Raises IngestError naming place, key and problem.

    place: its name in messages.
    """
    try:
        check(document, place)
        recipe = Recipe.model_validate(document)
    except RefusedError as error:
        raise IngestError(f"{place}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "recipe"
        problem = first["msg"].removeprefix("Value error, ")
        raise IngestError(f"{place}: {where}: {problem}; the guide “Fetch benchmarks by name” lists the keys") from None
    check_name("benchmark", recipe.name)
    return recipe


def _fill(value: Any, entry: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return Template(value).safe_substitute(entry)
    if isinstance(value, dict):
        return {key: _fill(item, entry) for key, item in value.items()}
    return [_fill(item, entry) for item in value] if isinstance(value, list) else value


@cache
def load_shipped_recipes() -> dict[str, Recipe]:
    """Return the recipes of this package by name, in alphabetical order."""
    recipes = [recipe for path in FOLDER.glob("*.toml") for recipe in read_recipe(path)]
    return {recipe.name: recipe for recipe in sorted(recipes, key=lambda recipe: recipe.name)}


def recipe_named(name: str) -> Recipe:
    """Return the shipped recipe with this name, or that of a `.toml` file. Raises NotFoundError with similar names."""
    if name.endswith(".toml"):
        recipes = read_recipe(Path(name))
        if len(recipes) != 1:
            raise IngestError(f"{name}: holds {len(recipes)} recipes; give a file with one")
        return recipes[0]
    shipped = load_shipped_recipes()
    if name not in shipped:
        near = get_close_matches(name, shipped, 3) or [other for other in shipped if name in other][:3]
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise NotFoundError(
            f"no recipe is named {name[:100]!r}; {meant}`{propose('benchmarks list', '--available')}` shows all; a "
            "recipe of your own is a .toml file"
        )
    return shipped[name]
