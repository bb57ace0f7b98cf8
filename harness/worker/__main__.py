"""`python -m harness.worker FRAMES_FD COMMANDS_FD INPUTS`: one execution of a job, from its inputs to its end."""

import contextlib
import gc
import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from harness.core.errors import HarnessError, Interruption
from harness.core.protocol import read_kind
from harness.core.text import sanitize, shorten
from harness.worker.channel import Channel

_MAX_SENTENCE_LENGTH = 400


def main() -> None:
    """Run the job and send its end, good or bad, as the last frame. The process exits right after."""
    # The libraries of a target consist of many objects, and searching them for garbage takes a fifth of their import.
    gc.set_threshold(100_000)
    channel = Channel(int(sys.argv[1]), int(sys.argv[2]))
    folder = Path(sys.argv[3])
    # The modules of other kinds are not loaded, which saves time.
    worker = importlib.import_module(f"harness.worker.{read_kind(folder)}_job")
    try:
        channel.send("end", cut_short=worker.run(folder, channel))
    except BaseException as error:
        # A plugin may raise anything, also SystemExit. The last message must be a sentence.
        with contextlib.suppress(BaseException):
            traceback.print_exc()
        is_interruption = isinstance(error, Interruption)
        channel.send("failed", sentence=_sentence(worker, error, folder), is_interruption=is_interruption)
    channel.drain()
    # A thread that the plugin started must not keep the process alive.
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(0)


def _sentence(worker: ModuleType, error: BaseException, folder: Path) -> str:
    """Return a sentence about an error, whose class may be a plugin's, with methods that may raise anything too."""
    try:
        sentence = str(error) if isinstance(error, HarnessError) else worker.failure_sentence(error, folder)
        return shorten(sanitize(sentence), _MAX_SENTENCE_LENGTH)
    except BaseException:
        return "the job raised an error that cannot be described; its log has the traceback."


if __name__ == "__main__":
    main()
