"""Proof that leaves the house: what an export has besides its rows, and checking it with the public key alone."""

from registry.exchange.proofs.checking import Checked, Trust, check_export
from registry.exchange.proofs.writing import DATA, OF_EVALUATION, PROOF, proof_files

__all__ = ["DATA", "OF_EVALUATION", "PROOF", "Checked", "Trust", "check_export", "proof_files"]
