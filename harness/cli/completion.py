"""What the shell completes: names of attacks, rounds and runs."""


def attack_names(incomplete: str) -> list[str]:
    """Attacks that are not broken and whose names complete `incomplete`."""
    from harness.plugins.discovery import find_attacks

    return [attack.name for attack in find_attacks() if attack.error is None and attack.name.startswith(incomplete)]


def round_names(incomplete: str) -> list[str]:
    """Shipped rounds whose names complete `incomplete`."""
    from harness.core.rounds import shipped_rounds

    return [name for name in shipped_rounds() if name.startswith(incomplete)]


def run_names(incomplete: str) -> list[str]:
    """Runs whose ids complete `incomplete`, newest first, and `latest`."""
    from harness.runs.folder import all_run_folders

    return [name for name in ("latest", *(folder.id for folder in all_run_folders())) if name.startswith(incomplete)]
