"""Ctrl-C ends a command, whatever the code that it interrupts makes of the KeyboardInterrupt."""

import os
import signal
import sys
import threading
import traceback

_AGAIN_SECONDS = 0.1


def keep_interrupts() -> None:
    """Interrupt this process again after an interrupt, or an exit that a signal caused, that Python ignored.

    Python ignores what is raised in a finalizer and in the callbacks of its import system.
    """
    sys.unraisablehook = _interrupt_again


def is_interrupt(error: Exception) -> bool:
    """Return whether `error` came of a KeyboardInterrupt: by its context, or as text, as in pydantic's SchemaError."""
    return KeyboardInterrupt.__name__ in "".join(traceback.format_exception(error))


def _interrupt_again(ignored: "sys.UnraisableHookArgs") -> None:
    if isinstance(ignored.exc_value, KeyboardInterrupt | SystemExit):
        # Later: in the hook it would be ignored too.
        threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(ignored)
