"""Audits logs of evaluations from Python, without a registry.

>>> from shuffleboard import audit
>>> report = audit.run(["logs/"])  # doctest: +SKIP
>>> [finding.kind.id for finding in report.findings if finding.severity == "error"]  # doctest: +SKIP

`report.logs` has the numbers of each log, `report.findings` its problems, the most serious first, `report.comparisons`
compares logs of the same questions. `report.document()` is the document of `--json` and `report.text()` the summary.
"""

from registry.logs.audit.catalogue import KINDS, SEVERITIES, Finding, Kind
from registry.logs.audit.page import page_of
from registry.logs.audit.report import Report
from registry.logs.audit.report import audit as run

__all__ = ["KINDS", "SEVERITIES", "Finding", "Kind", "Report", "page_of", "run"]
