"""The parameters of an attack, from a sandboxed process that imports it. This process never does."""

import contextlib
import functools
import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from harness.core import paths
from harness.core.errors import HarnessError, UsageError, unknown_name
from harness.core.files import file_errors, file_sha256, file_version, temporary_folder, write_atomically
from harness.core.parameters import Parameter, parameters_in
from harness.core.text import shorten
from harness.core.version import __version__
from harness.sandbox import SandboxedProcess, SandboxPolicy
from harness.sandbox.policy import plain_environment

# Importing torch takes 2 s, and 15 s on a machine that is busy with other work.
IMPORT_SECONDS = 30.0
MAX_ANSWER_BYTES = 1 << 20
_MAX_FILE_BYTES = 64 << 20
# -I: neither the environment nor the current directory decides what is imported, so the package is added explicitly.
_START = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module('harness.worker.schema', run_name='__main__', alter_sys=True)"
)


@dataclass(frozen=True)
class AttackSchema:
    """The parameters of an attack."""

    schema: dict[str, Any]
    """JSON schema with one property per parameter."""
    doc: str
    """Docstring of the module."""
    params: dict[str, Any] | None
    """The default values as they are recorded, None if a parameter has no default."""
    path_params: tuple[str, ...]
    """Names of the parameters that are paths."""
    faults: tuple[str, ...] = ()
    """The refused values, as `NAME: RULE`."""
    unknown: tuple[str, ...] = ()
    """Names in a request that are no parameters."""
    changed: tuple[str, ...] = ()
    """Names of the parameters whose value is not the attack's default."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The description of each parameter."""
        return parameters_in(self.schema, self.params)


@dataclass(frozen=True)
class ValidatedParams:
    """The value of every parameter, ready for JSON."""

    params: dict[str, Any]
    path_params: tuple[str, ...]
    """Names of the parameters that are paths (not resolved)."""
    changed: tuple[str, ...] = ()
    """Names of those whose value is not the attack's default."""


_SCHEMA = TypeAdapter(AttackSchema)


def fetch_schema(file: Path, *, digest: str) -> AttackSchema:
    """Return the schema of the attack in `file`, whose SHA-256 is `digest`. It is cached by this hash.

    Raises HarnessError if the file cannot be imported within 30 s, or the process prints something else.
    """
    key = hashlib.sha256(f"{digest} {__version__} {platform.python_version()}".encode()).hexdigest()
    cached = paths.cache_home() / "schemas" / f"{key}.json"
    with contextlib.suppress(OSError, ValidationError):
        return _SCHEMA.validate_json(cached.read_bytes())
    schema = _answer(file, {"set": {}})
    # Without a cache everything works, slowly. The file may have changed since it was hashed.
    with contextlib.suppress(OSError):
        if file_sha256(file) == digest:
            cached.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(cached, json.dumps(asdict(schema)))
    return schema


def validated_params(file: Path, set_: Mapping[str, str | int | float | bool]) -> ValidatedParams:
    """Return the parameters of the attack in `file`: its defaults, updated with the values or texts of `set_`.

    Raises UsageError if a parameter is unknown, invalid or missing, and HarnessError as `fetch_schema` does.
    """
    answer = _answer(file, {"set": dict(set_), "validate": True})
    if answer.unknown:
        properties = answer.schema.get("properties", {})
        raise unknown_name("parameter", answer.unknown[0], properties, see=f"harness show {file.stem}")
    if answer.faults or answer.params is None:
        raise UsageError(f"{'; '.join(answer.faults) or f'{file}: no values for its parameters'}.")
    return ValidatedParams(answer.params, answer.path_params, answer.changed)


def _answer(file: Path, request: dict[str, Any]) -> AttackSchema:
    file = file.absolute()
    with file_errors(file):
        version = file_version(file)
    return _answer_of(file, version, json.dumps(request))


@functools.lru_cache(maxsize=1024)
def _answer_of(file: Path, version: tuple[int, ...], request: str) -> AttackSchema:
    """Return the answer of the file. version: that of its present content.

    The runs of a sweep ask the same of the same file many times, and each process takes a third of a second.
    """
    output = _output(file, request.encode())
    try:
        answer = json.loads(output)
        if isinstance(answer, dict) and isinstance(error := answer.get("error"), str):
            raise HarnessError(error)
        return _SCHEMA.validate_python(answer)
    except (ValueError, RecursionError):
        start = shorten(repr(output[:80].decode(errors="replace")))
        raise HarnessError(f"{file}: printed {start} instead of its parameters. Remove what prints.") from None


def _output(file: Path, request: bytes) -> bytes:
    """Return the answer of the process that imports `file`. All its descendants are killed before this returns."""
    with (
        temporary_folder("harness-schema-") as scratch,
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(request)
        stdin.seek(0)
        process = SandboxedProcess(
            [sys.executable, "-I", "-c", _START, str(paths.PACKAGE.parent), str(file)],
            SandboxPolicy(readable=(file,), writable=(scratch,), file_bytes=_MAX_FILE_BYTES),
            cwd=scratch,
            environment=plain_environment(scratch),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
        try:
            process.popen.wait(IMPORT_SECONDS)
        except subprocess.TimeoutExpired:
            message = f"the import takes longer than {IMPORT_SECONDS:g} s. Move slow work into `run`."
            raise HarnessError(f"{file}: {message}") from None
        finally:
            process.close()
        stdout.seek(0)
        answer = stdout.read(MAX_ANSWER_BYTES + 1)
        if len(answer) > MAX_ANSWER_BYTES:
            raise HarnessError(f"{file}: the description of its parameters is larger than 1 MiB. Shorten it.")
        if answer:
            return answer
        number, code = process.exit_signal_or_code()
        if number is not None:
            raise HarnessError(f"{file}: the import crashed with {number.name}.")
        stderr.seek(0)
        last_line = stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
        details = f" ({shorten(last_line, 120)})" if last_line else ""
        raise HarnessError(f"{file}: the import ended the process with exit code {code}{details}.")
