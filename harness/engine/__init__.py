"""The target: a language model under attack. The only home of torch, which importing this package does not load."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.engine.devices import resolved_device as resolved_device
    from harness.engine.drawn import Drawn as Drawn
    from harness.engine.drawn import Found as Found
    from harness.engine.drawn import Scored as Scored
    from harness.engine.loading import load_target as load_target
    from harness.engine.resolving import ResolvedTarget as ResolvedTarget
    from harness.engine.resolving import resolve_target as resolve_target
    from harness.engine.target import Target as Target

_HOMES = {
    "Drawn": "harness.engine.drawn",
    "Found": "harness.engine.drawn",
    "ResolvedTarget": "harness.engine.resolving",
    "Scored": "harness.engine.drawn",
    "Target": "harness.engine.target",
    "load_target": "harness.engine.loading",
    "resolve_target": "harness.engine.resolving",
    "resolved_device": "harness.engine.devices",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    # Lazily (PEP 562): whoever resolves a target or asks for a device must not pay for torch.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'harness.engine' has no attribute {name!r}")
