"""Run a harness command inside the test's own process.

A separate process needs half a second for imports, and several seconds if the command loads torch. Tests of signals,
terminals, crashes and shell behaviour start one with `Machine.start`.
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO
from unittest import mock

from harness.cli.app import main
from harness.sandbox import detect_backend

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_command(
    arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run `harness ARGUMENTS` in `folder` with exactly `environment`, and return its exit code and its output."""
    argv = ["harness", *arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _as_process(argv, folder, environment, out, err):
            code = _exit_code()
        return subprocess.CompletedProcess(argv, code, _text(out), _text(err))


@contextlib.contextmanager
def _as_process(
    argv: list[str], folder: Path, environment: Mapping[str, str], out: IO[bytes], err: IO[bytes]
) -> Iterator[None]:
    """Give this process the arguments, streams, directory and environment of a command inside the block."""
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    with contextlib.ExitStack() as stack:
        if environment.get("HARNESS_SANDBOX") != os.environ.get("HARNESS_SANDBOX"):
            # The sandbox backend is detected once per process.
            detect_backend.cache_clear()
            stack.callback(detect_backend.cache_clear)
        if threading.current_thread() is threading.main_thread():
            stack.callback(lambda: [signal.signal(number, handler) for number, handler in handlers.items()])
        stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
        stack.enter_context(mock.patch.object(sys, "argv", argv))
        stack.enter_context(mock.patch.object(sys, "stdin", stack.enter_context(open(os.devnull))))
        for name, file in (("stdout", out), ("stderr", err)):
            stream = io.TextIOWrapper(file, "utf-8", errors="surrogateescape", write_through=True)
            stack.callback(stream.detach)
            stack.enter_context(mock.patch.object(sys, name, stream))
        stack.enter_context(contextlib.chdir(folder))
        yield


def _exit_code() -> int:
    """Run the command of `sys.argv` and return the code that its process would exit with."""
    try:
        main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return 0


def _text(file: IO[bytes]) -> str:
    """The whole content with universal newlines, as `subprocess` reads it in text mode."""
    file.seek(0)
    return io.TextIOWrapper(io.BytesIO(file.read()), "utf-8", errors="replace").read()
