"""The log: structured lines, through `log` or through Python's own `logging`.

structlog is imported when the first line is logged, since importing it takes longer than many commands.
"""

import logging
import sys
from collections.abc import Callable
from typing import Any, Final


def _configure_by_default() -> None:
    """Log to stderr unless the program has configured structlog.

    structlog's own default prints the variables of a traceback, such as URLs with passwords. Under Gunicorn, no command
    of ours configures it.
    """
    import structlog

    if not structlog.is_configured():
        _write_to_stderr(logging.INFO)


_configure: Callable[[], None] | None = _configure_by_default
"""The function that configures structlog before its first use; None afterwards."""


class _Log:
    """structlog's logger: `log.info("event", key=value)`, and the other levels."""

    def __getattr__(self, level: str) -> Any:
        return getattr(_structlog().get_logger(), level)


log: Final = _Log()


def _structlog() -> Any:
    global _configure
    import structlog

    if _configure is not None:
        configure, _configure = _configure, None
        configure()
    return structlog


def log_to_stderr(level: int) -> None:
    """Log messages of this level and above to stderr, also those of libraries: key=value on a terminal, else JSON."""
    global _configure  # noqa: PLW0603
    _configure = lambda: _write_to_stderr(level)  # noqa: E731
    if "structlog" in sys.modules:
        _structlog()
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, _ToStderr)]:
        root.removeHandler(old)
    root.addHandler(_ToStderr())


def _write_to_stderr(level: int) -> None:
    import structlog

    structlog.configure(
        processors=[*_shared(), _renderer()],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # stderr is looked up for each message: a process that runs several commands may have replaced it.
        logger_factory=lambda *_names: structlog.PrintLogger(sys.stderr),
    )


def _shared() -> list[Any]:
    import structlog

    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]


def _renderer() -> Any:
    import structlog

    return structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()


class _ToStderr(logging.StreamHandler[Any]):
    """A handler for messages of Celery, SQLAlchemy and others: in the same form, with the same evaluation and shard.

    It writes each message to the current `sys.stderr`.
    """

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        if self.formatter is None:
            structlog = _structlog()
            self.formatter = structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=[*_shared(), structlog.stdlib.add_logger_name],
                processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer()],
            )
        return super().format(record)
