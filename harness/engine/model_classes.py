"""The classes of transformers that the engine uses, imported without what no target needs.

transformers loads PyTorch's compiler, its collectives and scipy's solvers for features that the engine does not have.
Without them `import harness.engine.loading` takes 2.7 s of CPU time instead of 4.9 s, and each worker that uses a model
starts so much earlier.
"""

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from transformers.utils import import_utils

_UNUSED = ("is_scipy_available", "is_torch_distributed_available", "is_torch_flex_attn_available")
"""Functions that transformers asks before it imports losses, distributed tensors and flex attention."""
_COMPILER = "torch._dynamo"


class _NoCompiler(ModuleType):
    """A module whose functions are decorators that return the decorated function."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _decorate


def _decorate(function: Any = None, *_: object, **__: object) -> Any:
    return function if callable(function) else _decorate


@contextlib.contextmanager
def _without_unused_parts() -> Iterator[None]:
    """Let transformers be imported without the parts, inside the block. The compiler can be imported afterwards.

    What a plugin has imported before stays as it is.
    """
    if _COMPILER in sys.modules or "transformers.modeling_utils" in sys.modules:
        yield
        return
    modules = (import_utils, sys.modules["transformers.utils"])
    before = {(module, name): getattr(module, name) for module in modules for name in _UNUSED if hasattr(module, name)}
    for module, name in before:
        setattr(module, name, lambda: False)
    sys.modules[_COMPILER] = _NoCompiler(_COMPILER)
    try:
        yield
    finally:
        del sys.modules[_COMPILER]
        vars(torch).pop("_dynamo", None)
        for (module, name), function in before.items():
            setattr(module, name, function)


with _without_unused_parts():
    from transformers import AutoModelForCausalLM as AutoModelForCausalLM
    from transformers import AutoModelForTokenClassification as AutoModelForTokenClassification
    from transformers import DynamicCache as DynamicCache
    from transformers import PreTrainedModel as PreTrainedModel
    from transformers.cache_utils import DynamicLayer as DynamicLayer
