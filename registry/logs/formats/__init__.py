"""The formats of logs, a module for each: its keys, its recognition, its records with their scores and keys."""

from collections.abc import Mapping
from typing import Final

from registry.logs.format import Format
from registry.logs.formats import (
    cat,
    every_eval_ever,
    harness,
    helm,
    inspect_log,
    lighteval,
    opencompass,
    outputs,
    questions,
    table,
)

FORMATS: Final[Mapping[str, Format]] = {
    format_.name: format_
    for format_ in (
        harness.FORMAT,
        helm.FORMAT,
        inspect_log.FORMAT,
        lighteval.FORMAT,
        opencompass.FORMAT,
        every_eval_ever.FORMAT,
        cat.FORMAT,
        table.FORMAT,
        outputs.FORMAT,
        questions.FORMAT,
    )
}
"""Every supported format, in the order in which they are tried."""
