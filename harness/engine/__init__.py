"""The engine: load the target, sample from it, search it and score suffixes.

Start with target.py, whose `Target` is `context.target` of an attack. Importing this package does not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.engine.devices import resolve_device as resolve_device
    from harness.engine.loading import load_target as load_target
    from harness.engine.resolving import ResolvedTarget as ResolvedTarget
    from harness.engine.resolving import resolve_target as resolve_target
    from harness.engine.results import Samples as Samples
    from harness.engine.results import Scores as Scores
    from harness.engine.results import SearchResult as SearchResult
    from harness.engine.target import Target as Target

_HOMES = {
    "Samples": "harness.engine.results",
    "SearchResult": "harness.engine.results",
    "ResolvedTarget": "harness.engine.resolving",
    "Scores": "harness.engine.results",
    "Target": "harness.engine.target",
    "load_target": "harness.engine.loading",
    "resolve_target": "harness.engine.resolving",
    "resolve_device": "harness.engine.devices",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    # The names are loaded lazily (PEP 562) because resolving a target or a device must not import torch.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'harness.engine' has no attribute {name!r}")
