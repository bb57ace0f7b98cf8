"""A terminal harness for targeted training-data extraction: what an attack author imports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.core.attack import Attack as Attack
    from harness.core.attack import Batch as Batch
    from harness.core.attack import Context as Context
    from harness.core.attack import Field as Field
    from harness.core.attack import Params as Params
    from harness.core.errors import HarnessError as HarnessError
    from harness.core.guesses import Guesses as Guesses
    from harness.core.policy import Policy as Policy
    from harness.core.view import Combination as Combination
    from harness.core.view import PrefixView as PrefixView

__version__ = "0.1.0"

_HOMES = {
    "Attack": "harness.core.attack",
    "Batch": "harness.core.attack",
    "Combination": "harness.core.view",
    "Context": "harness.core.attack",
    "Field": "harness.core.attack",
    "Guesses": "harness.core.guesses",
    "HarnessError": "harness.core.errors",
    "Params": "harness.core.attack",
    "Policy": "harness.core.policy",
    "PrefixView": "harness.core.view",
}
# Copies of attacks in the runs of earlier versions import these names.
_FORMER_NAMES = {
    "View": "PrefixView",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    # Lazily (PEP 562): `import harness` alone must not load pydantic.
    name = _FORMER_NAMES.get(name, name)
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")
