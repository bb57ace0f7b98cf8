"""The end of a process that has changed the state of its terminal, by a signal or because the terminal is gone."""

import contextlib
import errno
import os
import signal
import termios
import threading
from collections.abc import Callable, Iterator

_ENDING = (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)


@contextlib.contextmanager
def handled_end(handle: Callable[[int], None]) -> Iterator[None]:
    """Call `handle` with the number of a signal that would end this process in the block.

    Signals that are ignored, as nohup does with SIGHUP, or have a handler already keep their disposition. SIGINT is
    not among the signals, because it raises KeyboardInterrupt. A thread other than the main one cannot set handlers.
    """
    is_main = threading.current_thread() is threading.main_thread()
    changed = [number for number in _ENDING if is_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in changed:
        signal.signal(number, lambda number, _: handle(number))
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def has_lost_terminal() -> bool:
    """Return True if stdin was a terminal that is gone, which not every process is told by a signal."""
    try:
        termios.tcgetattr(0)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False


def end_process(number: int) -> None:
    """End this process by a signal, so that its parent sees the usual status. Call it in the main thread."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
