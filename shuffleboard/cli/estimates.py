"""An estimate of what evaluations would cost, as a table."""

from typing import Any, Final

from registry.queue.progress import duration
from shuffleboard.cli.common import note
from shuffleboard.cli.tables import print_table

HEADINGS: Final = {
    "benchmark": "Benchmark",
    "variants": "Variants",
    "protocol": "Protocol",
    "prompts_left": "Prompts",
    "tokens_naive": "Tokens",
    "tokens_shared": "Computed",
    "time": "Time",
}
MONEY: Final = {"cost": "Cost", "cost_limit": "At most"}
"""Only where a provider is asked."""


def print_estimate(document: dict[str, Any]) -> None:
    """Each evaluation and all together on stdout; what the numbers rest on as notes."""
    rows = list(document["estimates"])
    if len(rows) > 1:
        rows.append({**document, "benchmark": "together", "variants": "", "protocol": ""})
    timed = [row | {"time": None if row["seconds"] is None else duration(row["seconds"])} for row in rows]
    currency = document.get("currency")
    print_table(timed, HEADINGS if currency is None else HEADINGS | MONEY, "nothing to evaluate")
    if currency is not None:
        note(f"costs are in {currency}, as earlier answers came out and at most")
    for row in document["estimates"]:
        if row["evaluation"] is not None:
            note(f"evaluation {row['evaluation']} already exists, with {row['prompts_left']} prompts left")
        if (sample := row.get("sample")) is not None:
            known = sample["prompts_expected"]
            expected = "" if known is None else f"; models of this registry would have needed {known}"
            note(f"at most {row['prompts']} of {sample['prompts_complete']} prompts for this precision{expected}")
    for reason in dict.fromkeys(row["reason"] for row in document["estimates"] if row["reason"]):
        note(f"unknown: {reason}")
    sampled = sum(row.get("prompts_sampled", 0) for row in document["estimates"])
    if 0 < sampled < document["prompts_left"]:
        note(f"tokens were counted on {sampled} of {document['prompts_left']} prompts")
    if document["seconds"]:
        workers = document["workers"]
        with_all = f"; with the {workers} live workers {duration(document['seconds'] / workers)}" if workers > 1 else ""
        note(f"the time is for one worker{with_all}")
