"""Logs of evaluations: a module per format, their records as written, and how audits and imports use them.

`formats` has the formats, each registered once; `labels` decides which option a label names, `prompts` and `listing`
find a prompt's question and the options that it lists. `audit` checks records; `imports` joins them to the questions
of a benchmark, or refuses them.
"""
