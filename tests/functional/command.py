"""Run a harness command inside the test's own process.

A separate process needs half a second for imports, and several seconds if the command loads torch. Tests of signals,
terminals, crashes and shell behaviour start one with `Machine.start`.

A run that the command starts is a process. Its supervisor is forked and the parameters of our own attacks are read in
this process, because each of both would spend nearly all of its time on imports.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any
from unittest import mock

from harness.cli.app import main
from harness.plugins import schema
from harness.runs import launch
from harness.sandbox import detect_backend
from harness.worker.schema import answer_request
from tests.functional.forked_supervisor import ForkedSupervisor

_OWN_ATTACKS = (Path(__file__).parent / "plugins", Path(__file__).parents[2] / "attacks")


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
    with contextlib.ExitStack() as stack:
        if environment.get("HARNESS_SANDBOX") != os.environ.get("HARNESS_SANDBOX"):
            # The sandbox backend is detected once per process.
            detect_backend.cache_clear()
            stack.callback(detect_backend.cache_clear)
        stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
        stack.enter_context(mock.patch.object(sys, "argv", argv))
        stack.enter_context(mock.patch.object(sys, "stdin", stack.enter_context(open(os.devnull))))
        for name, file in (("stdout", out), ("stderr", err)):
            stream = io.TextIOWrapper(file, "utf-8", errors="surrogateescape", write_through=True)
            stack.callback(stream.detach)
            stack.enter_context(mock.patch.object(sys, name, stream))
        stack.enter_context(contextlib.chdir(folder))
        stack.enter_context(without_imports())
        yield


@contextlib.contextmanager
def without_imports() -> Iterator[None]:
    """Fork supervisors, and read the parameters of our own attacks in this process."""
    output = schema._output

    def read(file: Path, request: bytes) -> bytes:
        if file.parent not in _OWN_ATTACKS:
            return output(file, request)
        asked = json.loads(request)
        return json.dumps(answer_request(file, asked["set"], whole="validate" in asked)).encode()

    with (
        mock.patch.object(schema, "_output", read),
        mock.patch.object(launch, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": _start})),
    ):
        yield


def _start(command: Sequence[str], **options: Any) -> "ForkedSupervisor | subprocess.Popen[bytes]":
    is_supervisor = "harness.supervisor" in command
    return ForkedSupervisor(command, **options) if is_supervisor else subprocess.Popen(command, **options)


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
