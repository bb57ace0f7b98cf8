"""Where things lie on a user's machine, after the XDG base directory specification."""

import os
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.text import shorten

PACKAGE = Path(__file__).resolve().parent.parent
SHIPPED_ROUNDS = PACKAGE / "rounds"


def data_home() -> Path:
    """Public data sets that `harness data fetch` brings (`HARNESS_DATA` overrides)."""
    return _from_environment("HARNESS_DATA", "XDG_DATA_HOME", ".local/share")


def state_home() -> Path:
    """Runs and locks (`HARNESS_HOME` overrides)."""
    return _from_environment("HARNESS_HOME", "XDG_STATE_HOME", ".local/state")


def runs_home() -> Path:
    """Return the directory that holds one directory per run."""
    return state_home() / "runs"


def cache_home() -> Path:
    """What can be made again: hashes, schemas, clusters (`HARNESS_CACHE` overrides)."""
    return _from_environment("HARNESS_CACHE", "XDG_CACHE_HOME", ".cache")


def config_home() -> Path:
    """The user's settings (`HARNESS_CONFIG` overrides)."""
    return _from_environment("HARNESS_CONFIG", "XDG_CONFIG_HOME", ".config")


def environment_with_package() -> dict[str, str]:
    """This process's environment for a Python of its own that is to import this very package."""
    before = filter(None, [os.environ.get("PYTHONPATH")])
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), *before])}


def expand_home(text: str) -> Path:
    """The path that `text` names, `~` being a home. Raises HarnessError for the home of a user that there is not."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise HarnessError(f"{shorten(text, 120)}: there is no such user's home; write the whole path.") from None


def _from_environment(own: str, xdg: str, fallback: str) -> Path:
    if value := os.environ.get(own):
        return Path(value).expanduser().resolve()
    base = os.environ.get(xdg)
    # The specification says that a relative XDG path is to be ignored.
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / fallback
    return root / "harness"
