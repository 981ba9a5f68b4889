"""The formats of logs, a module each: its keys, how it is recognised, its records, their scores and keys."""

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
"""Every format that is read, in the order in which they are tried."""
