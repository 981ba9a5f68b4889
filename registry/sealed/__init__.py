"""Sealed evaluations: seal and chain, folders and archives, signatures, verification, exports, imports and replays."""
