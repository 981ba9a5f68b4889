"""Logs of evaluations: a module for each format, the records in them, and their use by audits and imports.

`formats` contains the formats, each registered once. `labels` decides which option a label names; `prompts` and
`listing` find a prompt's question and the options that it lists. `audit` checks records. `imports` matches records to
the questions of a benchmark, or refuses them.
"""
