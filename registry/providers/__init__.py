"""Models that others serve for money: rate limits, prices, calls, budgets."""
