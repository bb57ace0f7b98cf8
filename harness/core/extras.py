"""The optional parts of an installation, and the distributions that get in its way.

An extra is a name in brackets, as in `pip install -e '.[torch]'` in the clone. pyproject.toml has the same names.
"""

import importlib.metadata
import importlib.util

from harness.core.errors import HarnessError

DISTRIBUTION = "extraction-harness"
EXTRAS = {
    "torch": ("torch", "transformers", "safetensors"),
    "gguf": ("accelerate", "gguf", "transformers"),
    "tune": ("optuna",),
    "ray": ("ray",),
    "mlflow": ("mlflow",),
}
"""The modules that each extra installs, and that only a part of the commands imports."""


class MissingExtraError(HarnessError):
    """A command needs a library that is not part of this installation."""


def missing_module(extra: str) -> str | None:
    """Return the first module of the extra that is not installed, None if all are. Nothing is imported."""
    return next((name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None), None)


def extra_of(module: str) -> str | None:
    """Return the extra that installs the top-level module, None if none does."""
    return next((extra for extra, modules in EXTRAS.items() if module in modules), None)


def install_sentence(extra: str) -> str:
    """Return the sentence that says how to install the extra. It names the clone: no package index has the harness."""
    return f"Install it from the clone: pip install -e '.[{extra}]'"


def require_extra(extra: str, needed_by: str, *, instead: str = "") -> None:
    """Raise MissingExtraError, which names `needed_by`, unless all modules of the extra are installed.

    `instead` is what the user can do without it, such as "use --ray none".
    """
    module = missing_module(extra)
    if module is not None:
        raise missing_extra(module, extra, needed_by, instead=instead)


def missing_extra(module: str, extra: str, needed_by: str, *, instead: str = "") -> MissingExtraError:
    """Return the error for a `module` of the extra that is not installed."""
    alternative = f", or {instead}" if instead else ""
    return MissingExtraError(f"{module} is not installed: {needed_by} needs it. {install_sentence(extra)}{alternative}")


def installed_version(distribution: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def clash_sentence() -> str | None:
    """Return a sentence about another distribution with files in a package `harness`, None if there is none."""
    owners = sorted(set(importlib.metadata.packages_distributions().get("harness", ())) - {DISTRIBUTION})
    if not owners:
        return None
    names, have = " and ".join(owners), "have" if len(owners) > 1 else "has"
    return (
        f"{names} {have} a package `harness` too, and may have replaced files of {DISTRIBUTION}. Run in the clone: pip "
        f"uninstall {' '.join(owners)}; pip install --force-reinstall --no-deps -e ."
    )
