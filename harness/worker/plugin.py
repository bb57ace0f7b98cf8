"""A plugin's file made into its attack class: with the worker's entry points, the only code that runs plugin code."""

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
    """Compiles the file as it is now: stale bytecode would not be the source whose hash the run records."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def load_attack(path: Path) -> type[Attack[Any]]:
    """The one attack that the file at `path` defines: a class derived from Attack that sets `name`.

    The file is imported under a private module name and its folder is not searched for imports. Raises HarnessError, in
    one sentence, when it raises, or defines no attack, several, or one without `run`.
    """
    path = path.absolute()
    module = _imported(path)
    attacks = [
        value
        for value in dict.fromkeys(value for value in vars(module).values() if isinstance(value, type))
        if issubclass(value, Attack) and value.__module__ == module.__name__ and "name" in vars(value)
    ]
    if not attacks:
        raise HarnessError(f"{path}: defines no attack, which is a class derived from Attack that sets `name`.")
    if len(attacks) > 1:
        names = ", ".join(attack.__name__ for attack in attacks)
        raise HarnessError(f"{path}: defines {len(attacks)} attacks ({shorten(names)}) where one is wanted.")
    if inspect.isabstract(attacks[0]):
        raise HarnessError(f"{path}: the attack {shorten(attacks[0].__name__)} has no `run`.")
    return attacks[0]


def exception_in(path: Path, error: BaseException) -> str:
    """`error` in one clause: the line of the file at `path` that it came through, if any, its type and its message."""
    told = TracebackException.from_exception(error, lookup_lines=False)
    message, lines = str(told), [frame.lineno for frame in told.stack if frame.filename == str(path)]
    if isinstance(error, SyntaxError) and error.filename == str(path):
        message, lines = error.msg, [error.lineno]
    message = shorten(" ".join(message.split()), 160).rstrip(".")
    where = f"line {lines[-1]}: " if lines else ""
    return f"{where}{type(error).__name__}{': ' + message if message else ''}"


def _imported(path: Path) -> ModuleType:
    name = "_harness_attack_" + re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceOnly(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Before it runs: dataclasses and pydantic look a class's module up by name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise HarnessError(f"{path}: cannot be imported ({exception_in(path, error)}).") from None
    return module
