"""The directories of the harness on a machine, after the XDG base directory specification."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from harness.core.errors import HarnessError, missing_path
from harness.core.text import is_storable, sanitize_name, shorten

PACKAGE = Path(__file__).resolve().parent.parent
BUILT_IN_ROUNDS = PACKAGE / "rounds"
BUILT_IN_CORPUS = PACKAGE / "demo" / "corpus.json"
EXAMPLE_DATA = PACKAGE / "demo" / "example"
BUILT_IN_ANSWERS = (BUILT_IN_ROUNDS, BUILT_IN_CORPUS, PACKAGE / "demo" / "baseline-guesses.csv", EXAMPLE_DATA)
"""The files and directories of the package that contain answers of the built-in rounds."""


def data_home() -> Path:
    """Return the directory of public data sets (`HARNESS_DATA` overrides)."""
    return _from_environment("HARNESS_DATA", "XDG_DATA_HOME", ".local/share")


def state_home() -> Path:
    """Return the directory of runs and locks (`HARNESS_HOME` overrides)."""
    return _from_environment("HARNESS_HOME", "XDG_STATE_HOME", ".local/state")


def require_state_home() -> None:
    """Raise HarnessError if HARNESS_HOME, which `--home` sets, names no directory: nothing can be read from there."""
    if os.environ.get("HARNESS_HOME") and not state_home().is_dir():
        raise missing_path(state_home(), "directory of --home or HARNESS_HOME", "Check the path. A run creates it.")


def require_utf8(path: Path | str) -> None:
    """Raise HarnessError if a path, or the path that it leads to through links, cannot be written as UTF-8."""
    for place in (str(Path(path).absolute()), os.path.realpath(path)):
        if not is_storable(place):
            raise HarnessError(
                f"the path {sanitize_name(place)} is not UTF-8. Rename the file or directory, which may be above it."
            )


def runs_home() -> Path:
    """Return the directory that holds one directory per run."""
    return state_home() / "runs"


def locks_home() -> Path:
    """Return the directory of the locks of devices, and of the queue for them."""
    return state_home() / "locks"


def cache_home() -> Path:
    """Return the directory of what can be computed again: hashes, schemas, clusters (`HARNESS_CACHE` overrides)."""
    return _from_environment("HARNESS_CACHE", "XDG_CACHE_HOME", ".cache")


def config_home() -> Path:
    """Return the directory of the user's settings (`HARNESS_CONFIG` overrides)."""
    return _from_environment("HARNESS_CONFIG", "XDG_CONFIG_HOME", ".config")


def environment_with_package() -> dict[str, str]:
    """Return the environment for a child Python process that imports this very package."""
    before = filter(None, [os.environ.get("PYTHONPATH")])
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), *before])}


def expand_home(text: str) -> Path:
    """Return the path `text` with `~` expanded. Raises HarnessError if it names an unknown user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise HarnessError(f"{shorten(text, 120)}: unknown user. Write the complete path.") from None


def in_home(path: Path) -> str:
    """Return the path in printable characters, with `~` for the home directory, which may name its user."""
    with contextlib.suppress(RuntimeError):  # without a home directory
        for home in (Path.home(), Path.home().resolve()):
            if path.is_relative_to(home):
                path = "~" / path.relative_to(home)
                break
    return sanitize_name(str(path))


def is_file_name(source: str, suffixes: tuple[str, ...]) -> bool:
    """Return True if `source`, which names a run or a file, is a file: it exists, or looks like a path."""
    return Path(source).exists() or "/" in source or source.endswith(suffixes)


def model_name(id_: str) -> str:
    """Return the name of a model: its hub id, or the name of its directory, '' for the directory `.`."""
    return Path(id_).name if id_.startswith(("/", ".", "~")) else id_


def model_names(ids: Sequence[str]) -> list[str]:
    """Return the names of models for display. The second of two directories of the same name is `name (2)`."""
    names = [model_name(id_) or id_ for id_ in ids]
    earlier = [names[:place].count(name) for place, name in enumerate(names)]
    return [f"{name} ({count + 1})" if count else name for name, count in zip(names, earlier, strict=True)]


def _from_environment(variable: str, xdg: str, fallback: str) -> Path:
    if value := os.environ.get(variable):
        return Path(value).expanduser().resolve()
    base = os.environ.get(xdg)
    # The specification requires that a relative XDG path is ignored.
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / fallback
    return root / "harness"
