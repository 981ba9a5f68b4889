"""Logs of evaluations: one module a format, records as they stand there, and what an audit and an import make of them.

`formats` has the formats, each registered once; `labels` decides which option a label names, `prompts` and `listing`
which question a prompt asks and which options it lists. `audit` checks records; `imports` joins them to the questions
of a benchmark, or refuses them.
"""
