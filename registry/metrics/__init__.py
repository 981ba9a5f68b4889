"""Metrics: the Python function is the definition, the SQL view serves, one specification tests both."""

from registry.metrics.catalogue import METRICS
from registry.metrics.entry import Metric
from registry.metrics.outcome import VariantOutcome

__all__ = ["METRICS", "Metric", "VariantOutcome"]
