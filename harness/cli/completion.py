"""Shell completion of attacks, rounds, runs, tunings and sweeps."""


def attack_names(incomplete: str) -> list[str]:
    """Return the names of valid attacks that begin with `incomplete`."""
    from harness.plugins.discovery import find_attacks

    return [attack.name for attack in find_attacks() if attack.error is None and attack.name.startswith(incomplete)]


def round_names(incomplete: str) -> list[str]:
    """Return the names of shipped rounds that begin with `incomplete`."""
    from harness.core.rounds import shipped_rounds

    return [name for name in shipped_rounds() if name.startswith(incomplete)]


def run_names(incomplete: str) -> list[str]:
    """Return `latest` and the ids of runs, newest first, that begin with `incomplete`."""
    from harness.runs.folder import all_run_folders

    return [name for name in ("latest", *(folder.id for folder in all_run_folders())) if name.startswith(incomplete)]


def queued_run_names(incomplete: str) -> list[str]:
    """Return the ids of waiting runs, in the order of the queue, that begin with `incomplete`."""
    from harness.runs.queue import queued_runs

    return [queued.run for queued in queued_runs() if queued.run.startswith(incomplete)]


def tuning_names(incomplete: str) -> list[str]:
    """Return the ids of tunings, newest first, that begin with `incomplete`."""
    from harness.runs.tuning import TUNINGS

    return [name for name in TUNINGS.ids() if name.startswith(incomplete)]


def sweep_names(incomplete: str) -> list[str]:
    """Return `latest` and the ids of sweeps, newest first, that begin with `incomplete`."""
    from harness.sweeps.record import SWEEPS

    return [name for name in ("latest", *SWEEPS.ids()) if name.startswith(incomplete)]


def record_names(incomplete: str) -> list[str]:
    """Return the ids of runs, tunings and sweeps that begin with `incomplete`."""
    return list(dict.fromkeys([*run_names(incomplete), *tuning_names(incomplete), *sweep_names(incomplete)]))


def deleted_names(incomplete: str) -> list[str]:
    """Return the ids of deleted runs, tunings and sweeps that begin with `incomplete`, the last deleted first."""
    from harness.runs.trash import restorable

    return [id_ for id_ in dict.fromkeys(one.id for one in restorable()) if id_.startswith(incomplete)]


def parent_names(incomplete: str) -> list[str]:
    """Return the ids of tunings and sweeps that begin with `incomplete`."""
    return [name for name in (*tuning_names(incomplete), *sweep_names(incomplete)) if name != "latest"]
