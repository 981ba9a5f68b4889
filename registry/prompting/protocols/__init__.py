"""Protocols: the form of a model's prompts, and how its answers are read.

A protocol is a definition, which is a JSON document; the digest identifies it. Presets are definitions that ship;
custom protocols are presets with some keys changed by a file. Decimals in a definition are text, so that its digest
does not depend on how floats are written.
"""
