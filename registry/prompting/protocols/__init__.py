"""Protocols: how a model is asked and how its answer is read.

A protocol is its definition, a JSON document; its digest names it for good. Presets are definitions that ship; custom
protocols are presets with some keys changed, by file. A definition holds decimals as text, so that its digest does not
depend on how a float is written.
"""
