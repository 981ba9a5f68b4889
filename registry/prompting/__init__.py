"""Build prompts and read outputs, with pure functions."""
