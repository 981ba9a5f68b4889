"""Auditing logs of evaluations without a registry: nothing is written, no database is opened.

A reader per format (`readers`) yields what it sees (`seen`); columns of numbers are kept of it (`gathered`), with what
its prompts (`prompts`) and texts (`rereading`) show; `checks` looks at one log, `across` at several, and `catalogue`
holds every finding that there is.
"""
