"""Field types for requests and commands, with errors that name the remedy."""

import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

# [0-9], since int() also reads digits of other scripts.
NUMBER: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Remedy:
    """An annotation that replaces pydantic's error message with a remedy."""

    text: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _refuse_with(handler(source), self.text)


@dataclass(frozen=True)
class Between:
    """A whole number from `low` to `high`; a string must consist of decimal digits."""

    low: int
    high: int

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        number = core_schema.int_schema(ge=self.low, le=self.high)
        in_digits = core_schema.no_info_before_validator_function(_require_digits, number)
        return _refuse_with(in_digits, f"give a whole number from {self.low} to {self.high}")


@dataclass(frozen=True)
class OneOf:
    """A text that must be one of `choices`."""

    choices: tuple[str, ...]

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return _refuse_with(core_schema.literal_schema(list(self.choices)), f"use one of {', '.join(self.choices)}")


def _refuse_with(schema: CoreSchema, remedy: str) -> CoreSchema:
    return core_schema.custom_error_schema(schema, "refused", custom_error_message=remedy)


def _require_digits(value: Any) -> Any:
    if isinstance(value, str) and not NUMBER.fullmatch(value):
        raise ValueError
    return value
