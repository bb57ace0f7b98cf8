"""Ctrl-C ends a command, also where the code that it interrupts loses the KeyboardInterrupt or makes an error of it."""

import contextlib
import os
import signal
import sys
import threading

_AGAIN_SECONDS = 0.1


def keep_interrupts() -> None:
    """Signal this process again after an interrupt, or an exit that SIGTERM caused, that Python ignored.

    Python ignores what is raised in a finalizer and in the callbacks of its import system.
    """
    sys.unraisablehook = _signal_again


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether `error` came of a KeyboardInterrupt: by its chain, or by the text of pydantic's SchemaError."""
    while error is not None:
        has_text = type(error).__name__ == "SchemaError" and KeyboardInterrupt.__name__ in str(error)
        if has_text or isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _signal_again(ignored: "sys.UnraisableHookArgs") -> None:
    if not isinstance(ignored.exc_value, KeyboardInterrupt | SystemExit):
        sys.__unraisablehook__(ignored)
        return
    number = signal.SIGINT if isinstance(ignored.exc_value, KeyboardInterrupt) else signal.SIGTERM
    # Later: in the hook it would be ignored too.
    timer = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # the process ends anyway
        timer.start()
