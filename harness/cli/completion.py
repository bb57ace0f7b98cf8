"""The completion of the names of attacks, rounds and records by a shell.

The modules that know the names are imported when a name is completed.
"""

from collections.abc import Callable, Iterable
from typing import Any

import typer


def name_argument(metavar: str, help: str, completion: Callable[[str], list[str]]) -> Any:
    """Return the argument that names a thing, which the shell completes."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=completion, show_default=False)


def _completion(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a function that gives those of `names` that begin with its argument, each once."""
    return lambda incomplete: [name for name in dict.fromkeys(names()) if name.startswith(incomplete)]


def _attacks() -> list[str]:
    from harness.plugins.discovery import find_attacks

    return [attack.name for attack in find_attacks() if attack.error is None]


def _rounds() -> list[str]:
    from harness.core.rounds import built_in_rounds

    return list(built_in_rounds())


def _runs() -> list[str]:
    from harness.runs.folder import all_run_folders

    return ["latest", *(folder.id for folder in all_run_folders())]


def _queued_runs() -> list[str]:
    from harness.runs.queue import queued_runs

    return [queued.run for queued in queued_runs()]


def _parents() -> list[str]:
    from harness.sweeps.record import SWEEPS
    from harness.sweeps.tuning import TUNINGS

    return [*TUNINGS.ids(), *SWEEPS.ids()]


def _deleted_runs() -> list[str]:
    from harness.runs.trash import restorable

    return [deleted.id for deleted in restorable()]


attack_names = _completion(_attacks)
round_names = _completion(_rounds)
run_names = _completion(_runs)
queued_run_names = _completion(_queued_runs)
parent_names = _completion(_parents)
record_names = _completion(lambda: [*_runs(), *_parents()])
names_to_show = _completion(lambda: [*_runs(), *_parents(), *_attacks(), *_rounds()])
deleted_names = _completion(_deleted_runs)
COMPLETIONS = {"round": round_names}
"""The completion of options by the last word of their name."""
