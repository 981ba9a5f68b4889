"""Sentences about results, for pages, terminal, pictures and published sites. Pure: no session.

`table` has every sentence with its condition, `facts` and `subjects` the numbers that they rest on, `wording` the only
notation of numbers. Templates and commands have no such sentences of their own.
"""
