"""The log: structured lines, through `log` or through Python's own `logging`.

structlog is loaded with the first line: loading it takes longer than the query of a command that logs nothing.
"""

import logging
import sys
from collections.abc import Callable
from typing import Any, Final


def _configure_by_default() -> None:
    """Log to stderr unless the program has configured structlog, whose own default prints the variables of a traceback.

    Such as addresses with passwords: Gunicorn makes the website without a command of ours.
    """
    import structlog

    if not structlog.is_configured():
        _write_to_stderr(logging.INFO)


_configure: Callable[[], None] | None = _configure_by_default
"""Configures structlog before its first use."""


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
    """Log from this level on as lines of key=value on stderr, or JSON if it is not a terminal; libraries too."""
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
        # Looked up for each message: a process that runs several commands may have replaced it.
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
    """Messages of Celery, SQLAlchemy and others in the same form, with the same evaluation and shard.

    Written to the current stderr at each message.
    """

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        if self.formatter is None:
            structlog = _structlog()
            self.formatter = structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=[*_shared(), structlog.stdlib.add_logger_name],
                processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer()],
            )
        return super().format(record)
