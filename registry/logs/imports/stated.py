"""Scores that a log states, compared with the scores of its answers here."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from registry.logs.imports.agreement import Contradiction
from registry.logs.means import Mean, tolerance

NAMED: Final = 5


@dataclass(frozen=True)
class Difference:
    """An answer whose score in the log differs from ours, and the rule that explains it."""

    question: str
    variant: int
    stated: float
    recomputed: float
    reason: str


@dataclass(frozen=True)
class Comparison:
    """A log's own scores, compared with ours.

    metric, stated: its overall score, None if it states none. recomputed: the share of its answers that are right here.
    answers: their number; compared: the number with a score of their own. differences: compared answers whose scores
    differ, each explained by a rule. reading: how labels were read. contradictions: the first of `contradicted` answers
    whose score no rule explains; they were imported because of `--stated ignore`.
    """

    metric: str
    stated: float | None
    recomputed: float
    answers: int
    compared: int
    differences: tuple[Difference, ...]
    remarks: tuple[str, ...]
    reading: str | None = None
    contradictions: tuple[Contradiction, ...] = ()
    contradicted: int = 0
    mean: Mean | None = None
    """The mean over a field that equals the log's overall score, if the share of right answers does not."""

    @property
    def agrees(self) -> bool | None:
        """Return whether the overall scores agree; None if the log states none."""
        if self.stated is None:
            return None
        ours = self.recomputed if self.mean is None else self.mean.mean
        return abs(self.stated - ours) <= tolerance(self.stated)

    def document(self) -> dict[str, Any]:
        """Return the comparison for the command line's JSON."""
        return asdict(self) | {"agrees": self.agrees}

    def fingerprint(self) -> dict[str, Any]:
        """Return the part to store with the evaluation, with numbers as texts."""
        return {
            "metric": self.metric,
            "stated": None if self.stated is None else repr(self.stated),
            "recomputed": repr(self.recomputed),
            "compared": self.compared,
            "differences": len(self.differences),
            "reading": self.reading,
            "contradicted": self.contradicted,
            "mean_over": None if self.mean is None else self.mean.field,
        }

    def sentences(self) -> list[str]:
        """Describe the comparison in sentences, the most important first."""
        lines = []
        if self.stated is None:
            lines.append(f"the log reports no {self.metric}; its {self.answers} answers give {self.recomputed:.4f}")
        elif self.agrees and self.mean is not None:
            lines.append(
                f"{self.metric}: the log reports {self.stated:.4f}, {self.mean.describe()}; of its {self.answers} "
                f"answers, {self.recomputed:.4f} are right"
            )
        elif self.agrees:
            lines.append(
                f"{self.metric}: the log reports {self.stated:.4f}, and its {self.answers} answers give the same"
            )
        else:
            lines.append(
                f"warning: {self.metric}: the log reports {self.stated:.4f}, but its {self.answers} answers give "
                f"{self.recomputed:.4f}"
            )
        if self.differences:
            named = ", ".join(
                f"{item.question} ({item.stated:g}, here {item.recomputed:g})" for item in self.differences[:NAMED]
            )
            more = f" and {len(self.differences) - NAMED} more" if len(self.differences) > NAMED else ""
            reasons = "; ".join(sorted({item.reason for item in self.differences}))
            lines.append(
                f"{len(self.differences)} of {self.compared} answers are scored differently here: {named}{more}. "
                f"{reasons}"
            )
        if self.contradicted:
            named = "; ".join(item.describe() for item in self.contradictions[:NAMED])
            lines.append(
                f"warning: {self.contradicted} of {self.compared} answers contradict the log's own scores and were "
                f"imported all the same (--stated ignore): {named}"
            )
        if not self.differences and not self.contradicted and self.agrees is False:
            lines.append(
                "every answer agrees with its own score, so the reported one covers other answers than those in the "
                "file"
            )
        return [*lines, *self.remarks]
