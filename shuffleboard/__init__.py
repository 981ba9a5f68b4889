"""The public interface: a client for scripts, the audit of logs, the metrics, and the command line.

>>> from shuffleboard import Client, audit, metrics
"""

from typing import TYPE_CHECKING, Any

from shuffleboard import checkout

if TYPE_CHECKING:
    from shuffleboard.client import Client

__all__ = ["Client"]

checkout.install()


def __getattr__(name: str) -> Any:
    """Load the client on first use, since the command line does not need it."""
    if name == "Client":
        try:
            from shuffleboard.client import Client
        except ModuleNotFoundError as error:
            from registry.packages import missing_package

            raise missing_package(error) or error from None
        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
