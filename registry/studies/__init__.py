"""Questions about several evaluations at once: comparisons, drift, assessment of variant sets, published numbers."""
