"""A terminal harness for targeted training-data extraction: what attack authors and notebooks import."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.core.version import __version__ as __version__

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_MODULES = {name: module for module, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", _STUB, re.MULTILINE)}
"""The module of each public name."""
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    # Lazily (PEP 562): `import harness` alone must not load pydantic.
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
