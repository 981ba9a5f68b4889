"""What a model is shown, and how what it writes is read: pure functions."""
