"""Models of paid providers: rate limits, prices, calls, batches, budgets."""
