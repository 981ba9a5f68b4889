"""Metrics: Python functions define them, SQL views serve them, and one specification tests both."""

from registry.metrics.catalogue import METRICS
from registry.metrics.entry import Metric
from registry.metrics.outcome import VariantOutcome

__all__ = ["METRICS", "Metric", "VariantOutcome"]
