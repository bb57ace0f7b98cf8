"""The log file of the TUI."""

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from harness.core import paths
from harness.core.text import sanitize

_MAX_BYTES = 1 << 20


def log_file() -> Path:
    """Return the path of the log file."""
    return paths.state_home() / "screen.log"


def open_log() -> None:
    """Write everything that the logger `harness` gets to the log file, or drop it if the file cannot be written.

    The file and its one backup hold a megabyte together.
    """
    # A traceback about a full disk would overwrite the screen.
    logging.raiseExceptions = False
    logger = logging.getLogger("harness")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    for handler in [*logger.handlers]:
        logger.removeHandler(handler)
        handler.close()
    try:
        log_file().parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(
            log_file(), maxBytes=_MAX_BYTES // 2, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )
    except OSError:
        handler = logging.NullHandler()
    handler.setFormatter(_VisibleFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)


class _VisibleFormatter(logging.Formatter):
    """Replaces control characters, so that the log can be printed in a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(sanitize, super().format(record).split("\n")))
