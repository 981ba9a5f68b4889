"""Protocols: the form of a model's prompts, and the reading of its answers.

A protocol is its definition, a JSON document; its digest names it for good. Presets are definitions that ship; custom
protocols are presets with some keys changed, by file. Decimals in a definition are text, so that its digest does not
depend on how a float is written.
"""
