"""Questions about several evaluations at once: comparisons, assessment of variant sets, published numbers."""
