"""An estimate of what evaluations would cost, as a table."""

from typing import Any, Final

from registry.queue.progress import duration
from shuffleboard.cli.common import note
from shuffleboard.cli.tables import headed, print_table

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
        _note_evaluation(row)
    if "ways" in document:
        _print_ways(document["ways"], currency)
    for reason in dict.fromkeys(row["reason"] for row in document["estimates"] if row["reason"]):
        note(f"unknown: {reason}")
    for row in document.get("engines", ()):
        _note_engine(row, document["queue"])
    sampled = sum(row.get("prompts_sampled", 0) for row in document["estimates"])
    if 0 < sampled < document["prompts_left"]:
        note(f"tokens were counted on {sampled} of {document['prompts_left']} prompts")
    if document["seconds"]:
        workers = min(document["workers"], document.get("max_workers") or document["workers"])
        together = duration(document["seconds"] / max(workers, 1))
        note(f"the time is for one worker{f'; with {workers} of the live workers {together}' if workers > 1 else ''}")


def _note_evaluation(row: dict[str, Any]) -> None:
    if row["evaluation"] is not None:
        note(f"evaluation {row['evaluation']} already exists, with {row['prompts_left']} prompts left")
    if (sample := row.get("sample")) is not None:
        known = sample["prompts_expected"]
        expected = "" if known is None else f"; models of this registry would have needed {known}"
        note(f"at most {row['prompts']} of {sample['prompts_complete']} prompts for this precision{expected}")


def _note_engine(row: dict[str, Any], queue: str) -> None:
    name = f"{row['model']}@{row['revision']}"
    if row["engine"] is not None:
        because = "" if row["because"] is None else f", since {row['because']}"
        note(f"{name} is scored on the queue {queue} by {row['engine']}{because}")
    if queue == "cpu":
        return
    if row["weights_gib"] is not None:
        fits = f"; --queue {row['smallest']} leaves it to GPUs that hold it" if row["smallest"] else ""
        note(f"{name} needs {row['weights_gib']:.1f} GiB for its weights in {row['dtype']}{fits}")
    if row["dtype"] == "float32":
        note(f"{name} is in float32: in bfloat16 a GPU needs half the memory and is several times as fast")


def _print_ways(ways: list[dict[str, Any]], currency: str | None) -> None:
    """Every way to the same number, the cheapest first: as expected where that is known, and at most."""
    rows = [
        {
            "way": way["way"],
            "error": "exact" if not way["error"] else f"±{way['error']:g}",
            **{
                f"{kind}_{key}": _cost(key, costs)
                for kind, costs in (("expected", way["expected"]), ("most", way["at_most"]))
                for key in ("prompts", "tokens", "seconds", "cost")
            },
        }
        for way in ways
    ]
    headings = headed(
        "way: Asking, error, expected_prompts: Prompts, most_prompts: at most, expected_tokens: Computed, "
        "most_tokens: at most, expected_seconds: Time, most_seconds: at most"
    )
    money = {"expected_cost": "Cost", "most_cost": "at most"} if currency is not None else {}
    print_table(rows, headings | money, "")


def _cost(key: str, costs: dict[str, Any] | None) -> Any:
    value = None if costs is None else costs[key]
    return duration(value) if key == "seconds" and value is not None else value
