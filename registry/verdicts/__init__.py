"""Sentences about results, for pages, terminal, pictures and published sites. Nothing here reads the database.

`table` has every sentence with its condition, `facts` and `subjects` the numbers on which sentences are based,
`wording` the only notation of numbers. Templates and commands have no such sentences of their own.
"""
