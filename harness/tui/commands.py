"""A command of `harness` run in a process that outlives this one: what it says meanwhile, and its answer as JSON."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.text import shorten

_ANSWER_BYTES = 1 << 20
_TALK_BYTES = 4096
_LOOK_SECONDS = 0.05
_ENDS_WITHIN_SECONDS = 5.0


def answer_of(
    command: Sequence[str],
    *,
    on_words: Callable[[str], object],
    is_given_up: Callable[[], bool],
    is_left_alone: Callable[[], bool],
) -> dict[str, Any] | None:
    """What `harness` with `command` and `--json` prints, once it has ended; `on_words` hears how far it is.

    None when it was given up meanwhile, which ends the process, or left alone, which does not. Raises HarnessError,
    with the command's last words, when it failed.
    """
    # Files rather than pipes: a process that talks to a screen that is gone would die of it.
    with _scratch_file(command) as answer, _scratch_file(command) as talk:
        process, said = _process(command, answer, talk), ""
        while process.poll() is None:
            if is_given_up():
                _end(process)
                return None
            if is_left_alone():
                return None
            if (words := _last_line(talk)) != said:
                said = words
                on_words(said)
            time.sleep(_LOOK_SECONDS)
        if process.returncode != 0:
            raise HarnessError(
                _last_line(talk) or f"harness {command[0]} ended with exit code {process.returncode} and no word."
            )
        try:
            told = json.loads(_end_of(answer, _ANSWER_BYTES))
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise HarnessError(f"harness {command[0]} ended well, and yet gave no answer that can be read.")
        return told


def _scratch_file(command: Sequence[str]) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise HarnessError(f"harness {command[0]} cannot be started ({error}).") from None


def _process(command: Sequence[str], answer: IO[bytes], talk: IO[bytes]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "harness", *command, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=talk,
            env=paths.environment_with_package(),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise HarnessError(f"harness {command[0]} cannot be started ({error}).") from None


def _end(process: "subprocess.Popen[bytes]") -> None:
    # As Ctrl-C would, so that it clears its scratch files away.
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_ENDS_WITHIN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_line(talk: IO[bytes]) -> str:
    line = _end_of(talk, _TALK_BYTES).decode(errors="replace").strip().rpartition("\n")[2]
    return shorten(line.rpartition("\r")[2].removeprefix("harness: "), 500)


def _end_of(file: IO[bytes], limit: int) -> bytes:
    # By position: the process shares the file's own one, and would go on writing wherever a seek left it.
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), limit, max(0, size - limit))
