"""Import a plugin's file and find its attack class."""

import importlib.util
import inspect
import re
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from traceback import TracebackException
from types import CodeType, ModuleType
from typing import Any

from harness.core.attack import Attack
from harness.core.errors import HarnessError
from harness.core.text import shorten


class _SourceOnly(SourceFileLoader):
    """Compiles the source as it is now; stale bytecode would not match the recorded hash."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def load_attack(path: Path) -> type[Attack[Any]]:
    """Return the only attack that the file at `path` defines: a class derived from Attack that sets `name`.

    The file is imported under a private module name, and its directory is not searched for imports. Raises
    HarnessError if the import raises, or if the file defines no attack, several, or one without `run`.
    """
    path = path.absolute()
    module = _import_module(path)
    attacks = [
        value
        for value in dict.fromkeys(value for value in vars(module).values() if isinstance(value, type))
        if issubclass(value, Attack) and value.__module__ == module.__name__ and "name" in vars(value)
    ]
    if not attacks:
        raise HarnessError(f"{path}: defines no attack. An attack is a class derived from Attack that sets `name`.")
    if len(attacks) > 1:
        names = ", ".join(attack.__name__ for attack in attacks)
        raise HarnessError(f"{path}: defines {len(attacks)} attacks ({shorten(names)}). Keep one per file.")
    if inspect.isabstract(attacks[0]):
        raise HarnessError(f"{path}: the attack {shorten(attacks[0].__name__)} has no method `run`. Add it.")
    return attacks[0]


def describe_exception(path: Path, error: BaseException) -> str:
    """Return `error` as one clause: its line in the file at `path`, if any, its type and its message."""
    summary = TracebackException.from_exception(error, lookup_lines=False)
    message, lines = str(summary), [frame.lineno for frame in summary.stack if frame.filename == str(path)]
    if isinstance(error, SyntaxError) and error.filename == str(path):
        message, lines = error.msg, [error.lineno]
    message = shorten(" ".join(message.split()), 160).rstrip(".")
    where = f"line {lines[-1]}: " if lines else ""
    return f"{where}{type(error).__name__}{': ' + message if message else ''}"


def _import_module(path: Path) -> ModuleType:
    name = "_harness_attack_" + re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceOnly(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pydantic look up the module of a class by name while it is imported.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise HarnessError(f"{path}: cannot be imported ({describe_exception(path, error)}).") from None
    return module


def error_message(error: BaseException) -> str:
    """Return the message of `error` on one line. The class of the error may be a plugin's, so `str` may raise."""
    try:
        return shorten(" ".join(str(error).split()), 200).rstrip(".")
    except BaseException as in_turn:
        return f"with a message that raised {type(in_turn).__name__}"
