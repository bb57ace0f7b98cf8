"""A terminal harness for targeted training-data extraction: what attack authors and notebooks import."""

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
    from harness.notebook.comparisons import Comparison as Comparison
    from harness.notebook.comparisons import compare as compare
    from harness.notebook.runs import Run as Run
    from harness.notebook.runs import RunList as RunList
    from harness.notebook.runs import list_runs as list_runs
    from harness.notebook.runs import open_run as open_run
    from harness.notebook.scores import Score as Score
    from harness.notebook.scores import score as score
    from harness.notebook.starting import run as run

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
    # For notebooks and scripts. No name may be that of a module in this package, which would replace it when imported.
    "Comparison": "harness.notebook.comparisons",
    "Run": "harness.notebook.runs",
    "RunList": "harness.notebook.runs",
    "Score": "harness.notebook.scores",
    "compare": "harness.notebook.comparisons",
    "list_runs": "harness.notebook.runs",
    "open_run": "harness.notebook.runs",
    "run": "harness.notebook.starting",
    "score": "harness.notebook.scores",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    # Lazily (PEP 562): `import harness` alone must not load pydantic.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
