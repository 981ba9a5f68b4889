"""Models that others serve for money: rate limits, prices, calls, batches, budgets."""
