"""An attack's parameters, learned from a confined process of its own that imports it: nothing here does."""

import contextlib
import hashlib
import json
import os
import platform
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from harness import __version__
from harness.core import paths
from harness.core.errors import HarnessError, unknown_name
from harness.core.files import file_sha256, write_atomically
from harness.core.text import shorten
from harness.sandbox import SandboxedProcess, SandboxPolicy
from harness.sandbox.environment import plain_environment

IMPORT_SECONDS = 10.0
MAX_ANSWER_BYTES = 1 << 20
# Isolated (-I): neither the environment nor the current folder chooses what is imported; our own place is named.
_START = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module('harness.worker.schema', run_name='__main__', alter_sys=True)"
)


@dataclass(frozen=True)
class AttackSchema:
    """What an attack says of its parameters.

    schema: JSON schema, one property a parameter; doc: the module's docstring; params: the defaults as the record would
    hold them, None when a parameter has no default; path_params: the parameters that hold paths.
    """

    schema: dict[str, Any]
    doc: str
    params: dict[str, Any] | None
    path_params: tuple[str, ...]


@dataclass(frozen=True)
class ValidatedParams:
    """Every parameter's value, as JSON holds it, and the names of those that hold paths (as given, not resolved)."""

    params: dict[str, Any]
    path_params: tuple[str, ...]


@dataclass(frozen=True)
class _Fault:
    field: str
    message: str


@dataclass(frozen=True)
class _Answer(AttackSchema):
    faults: tuple[_Fault, ...]
    unknown: tuple[str, ...]


_SCHEMA = TypeAdapter(AttackSchema)
_ANSWER = TypeAdapter(_Answer)


def fetch_schema(file: Path, *, digest: str) -> AttackSchema:
    """The schema of the attack in `file`, whose SHA-256 is `digest`; cached by that hash.

    Raises HarnessError when the file cannot be imported in 10 s, or answers nothing that can be read.
    """
    key = hashlib.sha256(f"{digest} {__version__} {platform.python_version()}".encode()).hexdigest()
    cached = paths.cache_home() / "schemas" / f"{key}.json"
    with contextlib.suppress(OSError, ValidationError):
        return _SCHEMA.validate_json(cached.read_bytes())
    answer = _answer(file, {"set": {}})
    schema = AttackSchema(answer.schema, answer.doc, answer.params, answer.path_params)
    # A cache that cannot be written is slow, not wrong; a file that changed meanwhile has another hash.
    with contextlib.suppress(OSError):
        if file_sha256(file) == digest:
            cached.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(cached, json.dumps(asdict(schema)))
    return schema


def validated_params(file: Path, set_: dict[str, str]) -> ValidatedParams:
    """The parameters of the attack in `file` with `set_`, name to text as typed, over its defaults.

    Raises HarnessError, naming the parameter, when one is unknown, refused or missing, and as `fetch_schema` does.
    """
    answer = _answer(file, {"set": set_, "validate": True})
    if answer.unknown:
        known = answer.schema.get("properties", {})
        raise unknown_name("parameter", answer.unknown[0], known, see="harness attacks show ATTACK")
    if answer.faults or answer.params is None:
        faults = [f"{fault.field}: {fault.message}" if fault.field else fault.message for fault in answer.faults]
        raise HarnessError(f"{'; '.join(faults) or f'{file}: its parameters were not resolved'}.")
    return ValidatedParams(answer.params, answer.path_params)


def _answer(file: Path, request: dict[str, Any]) -> _Answer:
    file = file.absolute()
    output = _output(file, json.dumps(request).encode())
    try:
        told = json.loads(output)
        if isinstance(told, dict) and isinstance(error := told.get("error"), str):
            raise HarnessError(error)
        return _ANSWER.validate_python(told)
    except (ValueError, RecursionError):
        start = shorten(repr(output[:80].decode(errors="replace")))
        raise HarnessError(f"{file}: printed {start} where its parameters were expected.") from None


def _output(file: Path, request: bytes) -> bytes:
    """What the process that imports `file` answers. All that it started is killed before this returns."""
    deadline = time.monotonic() + IMPORT_SECONDS
    with (
        tempfile.TemporaryDirectory(prefix="harness-schema-", ignore_cleanup_errors=True) as scratch,
        tempfile.TemporaryFile() as stdin,
    ):
        stdin.write(request)
        stdin.seek(0)
        confined = SandboxedProcess(
            [sys.executable, "-I", "-c", _START, str(paths.PACKAGE.parent), str(file)],
            SandboxPolicy(readable=(file,), writable=(Path(scratch),)),
            cwd=Path(scratch),
            environment=plain_environment(Path(scratch)),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with confined.popen:
            try:
                return _answer_of(confined.popen, file, deadline)
            except TimeoutError:
                raise HarnessError(
                    f"{file}: importing it takes longer than {IMPORT_SECONDS:g} s; do slow work in `run`."
                ) from None
            finally:
                confined.close()


def _answer_of(process: "subprocess.Popen[bytes]", file: Path, deadline: float) -> bytes:
    """Everything on stdout up to its end. Raises TimeoutError at the deadline, HarnessError when that is nothing."""
    assert process.stdout is not None and process.stderr is not None
    answer, talk, is_open = bytearray(), b"", True
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while is_open:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready or time.monotonic() > deadline:
                raise TimeoutError
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fileobj)
                if key.fileobj is process.stderr:
                    talk = (talk + chunk)[-1000:]
                    continue
                is_open = bool(chunk)
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES:
                    raise HarnessError(f"{file}: the description of its parameters is larger than 1 MiB.")
    if not answer:
        raise HarnessError(f"{file}: {_ending(process, talk, deadline)}")
    return bytes(answer)


def _ending(process: "subprocess.Popen[bytes]", talk: bytes, deadline: float) -> str:
    """Why a process that answered nothing ended, as a clause. Raises TimeoutError if it does not end."""
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    # A sandbox reports its child's signal as a shell does.
    number = -code if code < 0 else code - 128
    if number in {member.value for member in signal.Signals}:
        return f"importing it crashed with {signal.Signals(number).name}."
    last = talk.decode(errors="replace").strip().rpartition("\n")[2]
    return f"importing it ended the process with exit code {code}{f' ({shorten(last, 120)})' if last else ''}."
