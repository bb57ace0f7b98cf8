"""The setting that the others of a sweep are compared with, by the name that a user gives it."""

from collections.abc import Sequence

from harness.core.errors import UsageError
from harness.core.text import shorten
from harness.sweeps.file import SweptRun

_MOST_LISTED = 12


def setting_named(name: str, runs: Sequence[SweptRun]) -> str:
    """Return the setting of a sweep called `name`: a whole setting, or an attack with enough of its parameters.

    Raises UsageError, which lists the settings, if there is none, or more than one.
    """
    settings = {run.setting: run for run in runs}
    words = name.split()
    if name in settings:
        return name
    matching = [
        setting
        for setting, run in settings.items()
        if words and words[0] == run.attack and set(words[1:]) <= {f"{key}={text}" for key, text in run.params.items()}
    ]
    if len(matching) == 1:
        return matching[0]
    fault = "matches several settings" if matching else "is not a setting of the sweep"
    listed = matching or list(settings)
    rest = ", …" if len(listed) > _MOST_LISTED else ""
    raise UsageError(f"baseline {shorten(name)!r} {fault}: choose from {', '.join(listed[:_MOST_LISTED])}{rest}.")
