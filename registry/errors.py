"""Every error that a user can cause, in one tree.

ShuffleboardError
├── UsageError          an invalid argument or setting (exit status 2)
├── NotFoundError       a model, benchmark or evaluation that is not in the registry
├── IngestError         a file that breaks its contract
│   └── ContradictionError  a log that contradicts its own scores, or the benchmark's key
├── ModelError          model files that are missing, unsafe or unreadable
├── VariantError        an unknown variant kind or parameter
├── ProtocolError       an unknown protocol, or one that does not fit the benchmark
├── MetricInputError    arguments to a metric that contradict each other
├── ScoringError        a prompt that cannot be scored
├── QueueError          work that cannot be moved to the requested state
├── SealError           an attempt to change sealed results, or results that do not match their seal
├── ArchivedError       an evaluation whose predictions must be restored first
├── ArchiveError        an archived evaluation whose file is missing or damaged
├── AuthenticationError an invalid password or token, or nobody is signed in and an account is needed
├── ForbiddenError      a caller who may not do what was requested
├── QueryRefusedError   a query of the SQL page that is not run, or that the database or a limit ended
├── OverLimitError      work that took more time or memory than it may
├── RemoteError         another registry that does not answer, or whose answer is not the API's
├── StorageError        a disk that is full or fails, or a damaged database
└── DatabaseError       a database that is missing, out of date or not writable
    ├── UnreachableError    a database that does not answer
    ├── GenerationError     a database that was restored, moved or promoted since this process started
    └── UpgradedError       a database of a newer version of this package (exit status 75)

Messages name the thing, the value and the remedy. The command line prints them without a traceback; the web maps
them to a response in one handler.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from registry.proposals import propose

# Line ends are allowed. Characters that change the writing direction could disguise the meaning of a message.
_UNSHOWABLE: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def quotable(text: str) -> str:
    """Escape control characters and lone surrogates, so that any terminal, log or answer can contain the text."""
    return _UNSHOWABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class ShuffleboardError(Exception):
    """Root of the tree; `exit_status` is the command line's exit status."""

    exit_status = 1
    details: Mapping[str, Any] | None = None
    """Machine-readable facts, which JSON answers include."""

    def __str__(self) -> str:
        """Return the message, with control characters in quoted values escaped."""
        return quotable(super().__str__())


class UsageError(ShuffleboardError):
    """An invalid argument or setting."""

    exit_status = 2


class NotFoundError(ShuffleboardError):
    """The registry does not contain the requested model, benchmark, evaluation or other object."""


class IngestError(ShuffleboardError):
    """A file breaks its contract: the message names file, line and value, and the remedy."""


class ContradictionError(IngestError):
    """A log contradicts its own scores, or has another key than the benchmark; `details` lists the places."""

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = details


class ModelError(ShuffleboardError):
    """Model files are missing, unsafe or unreadable."""


class VariantError(ShuffleboardError):
    """An unknown variant kind, or a parameter that the kind does not have."""

    exit_status = 2


class ProtocolError(ShuffleboardError):
    """An unknown protocol, or a protocol that cannot be applied to the benchmark."""

    exit_status = 2


class MetricInputError(ShuffleboardError):
    """Arguments to a metric contradict each other."""


class ScoringError(ShuffleboardError):
    """A prompt cannot be scored by this model or engine."""


class QueueError(ShuffleboardError):
    """Work cannot be moved to the requested state."""


class SealError(ShuffleboardError):
    """Sealed results would be changed, or do not match their seal."""


class ArchivedError(ShuffleboardError):
    """The predictions of an evaluation are archived; the message names the command that restores them."""

    def __init__(self, evaluation_ids: Sequence[int]) -> None:
        listed = [str(one) for one in evaluation_ids]
        named = f"evaluation {listed[0]}" if len(listed) == 1 else f"evaluations {', '.join(listed)}"
        super().__init__(
            f"the predictions of {named} are archived; bring them back with: {propose('evaluations restore', *listed)}"
        )
        self.evaluation_ids = tuple(evaluation_ids)


class ArchiveError(ShuffleboardError):
    """The file of an archived evaluation is missing, damaged, or not the archived one."""


class AuthenticationError(ShuffleboardError):
    """The password or token is invalid, or nobody is signed in and an account is needed."""


class ForbiddenError(ShuffleboardError):
    """The caller may not do what was requested."""


class QueryRefusedError(ShuffleboardError):
    """A query of the SQL page is not run, or was ended by the database or by a limit."""


class OverLimitError(ShuffleboardError):
    """Work on a user's input took more time or memory than it may."""


class RemoteError(ShuffleboardError):
    """Another registry does not answer, or its answer is not the API's."""


class StorageError(ShuffleboardError):
    """A disk is full or fails, or a database is damaged."""


class DatabaseError(ShuffleboardError):
    """The database is missing, out of date or not writable."""


class UnreachableError(DatabaseError):
    """The database does not answer at the moment."""


class GenerationError(DatabaseError):
    """The database was restored, moved or promoted since this process started, so that its data may be outdated."""


class UpgradedError(DatabaseError):
    """The database was upgraded by a newer version of Shuffleboard, which has to be installed."""

    exit_status = 75  # EX_TEMPFAIL of sysexits.h: supervisors start the process again
