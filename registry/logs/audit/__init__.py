"""Auditing logs of evaluations without a registry: nothing is written, no database is opened.

A reader per format (`readers`) yields records; `gathered` keeps columns of numbers from them, with the findings in
their prompts (`prompts`) and texts (`rereading`); `checks` examines one log, `across` several, and `catalogue` lists
every finding.
"""
