"""Models that providers serve for money: written answers through the providers' own libraries.

Every call is recorded before it is made and when it has ended. Needs no torch.
"""

from workers.providers.model import ProviderModel, inspect_provider, open_provider

__all__ = ["ProviderModel", "inspect_provider", "open_provider"]
