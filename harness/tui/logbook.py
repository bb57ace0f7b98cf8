"""The application's own log: what was opened, asked for and refused, and every defect with its traceback."""

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from harness.core import paths
from harness.core.text import sanitize

_MOST_BYTES = 1 << 20


def log_file() -> Path:
    """Where it is written."""
    return paths.state_home() / "screen.log"


def open_logbook() -> None:
    """Let everything below the logger `harness` be kept, a megabyte at most; where nothing can be written, nothing."""
    logger = logging.getLogger("harness")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    for handler in [*logger.handlers]:
        logger.removeHandler(handler)
        handler.close()
    try:
        log_file().parent.mkdir(parents=True, exist_ok=True)
        kept: logging.Handler = _SilentFile(
            log_file(), maxBytes=_MOST_BYTES // 2, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
    except OSError:
        kept = logging.NullHandler()
    kept.setFormatter(_VisibleLines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(kept)


class _SilentFile(RotatingFileHandler):
    """A log whose own faults are nobody's business: a disk that is full must not write over the screen."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Say nothing."""


class _VisibleLines(logging.Formatter):
    """Lines that steer no terminal when the log is looked at."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(sanitize, super().format(record).split("\n")))
