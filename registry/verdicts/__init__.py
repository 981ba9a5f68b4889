"""Sentences about results: one table of cases for pages, terminal, pictures and published sites. Pure: no session.

`facts` is what sentences rest on, `cases` the table for an evaluation, `models` for a model and for a list of models,
`comparisons` for models beside each other, `sections` for what a page says of single charts. Templates and commands
have no such sentences of their own. `tests/verdicts` makes evaluations at random and checks every sentence.
"""
