"""Audits of evaluation logs without a registry: nothing is written, no database is opened.

A reader for each format (`readers`) yields records. `gathered` stores columns of numbers from them, with the findings
in their prompts (`prompts`) and texts (`rereading`). `checks` examines one log, `across` compares several, and
`catalogue` lists every finding.
"""
