"""Start a run as the command line does: a command in its own process, which starts the supervisor."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness.notebook.progress import ProgressLine
from harness.notebook.runs import Run
from harness.plugins.discovery import attack_named
from harness.plugins.parameters import settings_from
from harness.runs.launch import run_subcommand


def run(
    attack: str,
    *,
    round: str | Path | None = None,
    target: str | Path | None = None,
    params: Mapping[str, Any] | None = None,
    budget: str | float | None = None,
    seed: int = 0,
    limit: int | None = None,
    preset: bool = False,
    device: str | None = None,
    dtype: str | None = None,
    threads: int | None = None,
    revision: str | None = None,
    reference: str | Path | None = None,
    attacks: str | Path | None = None,
    group: str | None = None,
    wait: bool = True,
    progress: bool = True,
) -> Run:
    """Run an attack on a round, as `harness run` does.

    The run has a supervisor of its own: it continues if this process ends, and the screen and every command show it.

    attack: Name of the attack.
    round: Name or TOML file of the round. The default is `round` in config.toml, or else `demo`.
    target: Hub id or directory of the target. The default is the round's.
    params: Parameters of the attack by name. The others have their defaults.
    budget: A duration such as `"10m"`, or seconds, in the round's unit. The default is the round's.
    seed: Seed of every draw.
    limit: Attack only the first `limit` examples.
    preset: Use the round's preset for the attack. `params` take precedence.
    device: `auto`, `cpu`, `cuda` or `cuda:N`.
    dtype: `auto`, `float32`, `float16` or `bfloat16`.
    threads: CPU threads. The default is all usable cores.
    revision: Revision of a hub target.
    reference: Reference model: hub id or directory. The default is the attack's.
    attacks: Directory of attacks, searched first.
    group: Name of the group that the run belongs to.
    wait: Return when the run is over. Otherwise, return when it has started.
    progress: Show a status line on stderr.

    Raises HarnessError if something is missing or does not fit (nothing was started then), or, with `wait`, if the run
    crashed. An interrupt ends the wait, and the run continues.
    """
    # An unknown name is an error at once, and cannot be taken for an option.
    attack_named(attack, None if attacks is None else Path(attacks))
    values = {name: str(value) if isinstance(value, Path) else value for name, value in (params or {}).items()}
    options = {
        "round": round,
        "target": target,
        "budget": budget,
        "seed": seed,
        "limit": limit,
        "device": device,
        "dtype": dtype,
        "threads": threads,
        "revision": revision,
        "reference": reference,
        "attacks": attacks,
        "group": group,
    }
    command = ["run", attack, "--detach", *(["--preset"] if preset else [])]
    command += [f"--{name}={value}" for name, value in options.items() if value is not None]
    try:
        command += [f"--set={setting}" for setting in settings_from(values)]
    except TypeError as error:
        raise HarnessError(f"params: {error}. Use text, numbers, booleans, None, paths, and lists of them.") from None
    with ProgressLine(is_shown=progress) as line:
        started = run_subcommand(command, on_progress=line.show_briefly)
    assert started is not None
    found = Run(Path(started["directory"]))
    return found.wait(progress=progress) if wait else found
