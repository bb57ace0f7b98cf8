"""`harness doctor`: what a bug report needs, and with `--bench` how fast this machine samples and searches a target.

Each line of the report is measured or tried, none is guessed.
"""

import os
import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import ClassVar

import numpy as np
import psutil
import typer
from rich.filesize import decimal

from harness.cli.options import Json
from harness.cli.output import align_columns, print_json, sanitize, say
from harness.cli.resolving import find_target, usable_device
from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.examples import load_prefixes
from harness.core.extras import EXTRAS, clash_sentence, extra_of, install_sentence, missing_module, require_extra
from harness.core.hardware import resolve_device, usable_cores
from harness.core.options import Options, option
from harness.core.paths import runs_home
from harness.core.rounds import load_round
from harness.core.run_request import DeviceOptions
from harness.core.settings import default_round
from harness.core.text import format_number
from harness.engine.resolving import require_capacity, require_round_vocabulary
from harness.runs.machine import ABSENT, hardware, versions
from harness.sandbox.backends import BACKENDS, detect_backend
from harness.sandbox.control_group import ADVICE
from harness.sandbox.process import applied_sandbox
from harness.sandbox.view import model_cache

_NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "9p"}
)


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    advice: what to do about it, None if nothing is wrong.
    is_missing: the harness needs this and does not have it, so the advice is not optional.
    """

    name: str
    value: str
    advice: str | None = None
    is_missing: bool = False


class BenchOptions(Options):
    """The options of `--bench`."""

    heading: ClassVar[str] = "Benchmark"

    bench: bool = option(False, description="Measure the sampling and search speed instead.")
    target: str = option("demo", description="Model to measure: hub id, directory or GGUF file.")
    round: str | None = option(
        None,
        metavar="ROUND",
        unset="`round` in config.toml, else demo",
        description="Name or TOML file of a round.",
    )
    examples: int = option(64, ge=1, description="Number of prefixes in each turn.")
    turns: int = option(4, ge=1, description="Number of turns, each on its own prefixes.")


def doctor(options: BenchOptions, compute: DeviceOptions, json: Json = False) -> None:
    """Check this machine, or measure its speed.

    Prints versions, device, memory, disk, directories and sandbox. Exit code 1: something that runs need is missing. An
    extra that is not installed, such as torch, is reported but does not count as missing. With --bench, measures how
    fast the engine samples and searches a target, and for comparison `generate` of transformers.

    Keys:
        missing (string[]): Names of findings without which runs do not work.
        findings (object): Findings by name, each with its `value` and `advice`. The advice is null if nothing is wrong.
    """
    if options.bench:
        counts = {"prefixes": options.examples, "turns": options.turns}
        measure_speed(options.target, options.round, compute, **counts, json=json)
        return
    if unused := [*options.differing(BenchOptions()), *compute.differing(DeviceOptions())]:
        raise typer.BadParameter("needs --bench. Add it, or remove the option.", param_hint=unused[0])
    report = [*findings(), Finding("device", resolve_device())]
    missing = [finding.name for finding in report if finding.is_missing]
    if json:
        findings_by_name = {line.name: {"value": line.value, "advice": line.advice} for line in report}
        print_json({"missing": missing, "findings": findings_by_name})
    else:
        width = max(len(finding.name) for finding in report)
        for finding in report:
            print(f"{finding.name:<{width}}  {sanitize(finding.value)}")
            if finding.advice:
                print(f"{'':<{width}}  → {sanitize(finding.advice)}")
    if missing:
        raise typer.Exit(1)


def findings() -> list[Finding]:
    """Return the report, in the order in which it is printed."""
    machine, clash = hardware(), clash_sentence()
    memory = psutil.virtual_memory()
    directories = {
        "runs": runs_home(),
        "data": paths.data_home(),
        "cache": paths.cache_home(),
        "model cache": model_cache(),
    }
    return [
        *(_version(name, version) for name, version in versions().items()),
        _extras(),
        *([] if clash is None else [Finding("name clash", "found", clash, is_missing=True)]),
        Finding("executable", sys.executable),
        Finding("system", f"{machine['system']} {machine['machine']}"),
        Finding("processor", f"{machine['processor']}, {machine['cores']} cores usable"),
        Finding("gpus", ", ".join(machine["gpus"]) or "none found by the NVIDIA driver"),
        Finding("memory", f"{decimal(memory.available)} free of {decimal(memory.total)}"),
        *(_directory(name, path) for name, path in directories.items()),
        *_sandbox(),
        _after_logout(),
    ]


def _version(name: str, version: str) -> Finding:
    if version != ABSENT:
        return Finding(name, version)
    extra = extra_of(name)
    # An extra of which nothing is installed was left out on purpose.
    if extra is not None and all(find_spec(module) is None for module in EXTRAS[extra]):
        return Finding(name, version)
    again = "Install the harness again." if extra is None else install_sentence(extra)
    return Finding(name, version, f"{name} is not installed. {again}", is_missing=True)


def _extras() -> Finding:
    """Return which extras are installed. Without torch there is advice, because runs of most attacks need it."""
    installed = [extra for extra in EXTRAS if missing_module(extra) is None]
    value = ", ".join(installed) or "none"
    if absent := [extra for extra in EXTRAS if extra not in installed]:
        value += f" (not installed: {', '.join(absent)})"
    advice = None if "torch" in installed else f"running or auditing a model needs torch. {install_sentence('torch')}"
    return Finding("extras", value, advice)


def _directory(name: str, path: Path) -> Finding:
    """Return the file system and the free space of a directory, from its nearest parent that exists."""
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    kind = file_system_of(existing)
    free = shutil.disk_usage(existing).free
    value = f"{path} ({kind}, {decimal(free)} free)"
    if not os.access(existing, os.W_OK):
        return Finding(name, value, f"{existing} is not writable. Change its permissions.", is_missing=True)
    if name == "runs" and (kind in _NETWORK_FILE_SYSTEMS or kind.startswith("fuse")):
        return Finding(name, value, "run.db needs a local file system. Set HARNESS_HOME to a local directory.")
    return Finding(name, value, "less than 1 GB is free." if free < 1 << 30 else None)


def _sandbox() -> list[Finding]:
    """Return the backend of this machine, and what it applies to a process."""
    try:
        backend = detect_backend()
    except HarnessError as error:
        return [Finding("sandbox", "the requested backend does not work", str(error), is_missing=True)]
    stronger = None if backend is BACKENDS[0] else BACKENDS[0].advice
    applied = applied_sandbox()
    lacks_limits = backend.is_sandbox and (applied.memory is None or applied.processes is None)
    return [
        Finding("sandbox", f"{backend.name}: {backend.description}", None if backend.is_sandbox else stronger),
        Finding("in force", applied.summary, ADVICE if lacks_limits else None),
    ]


def _after_logout() -> Finding:
    """Return whether a run continues after the user logs out of a machine with systemd."""
    name = "after logout"
    if not Path("/run/systemd/system").exists():
        return Finding(name, "runs continue: this machine has no systemd")
    linger = Path("/var/lib/systemd/linger") / (os.environ.get("USER") or str(os.getuid()))
    if os.getuid() == 0 or linger.exists():
        return Finding(name, "runs continue")
    files = [Path("/etc/systemd/logind.conf"), *sorted(Path("/etc/systemd/logind.conf.d").glob("*.conf"))]
    if any("KillUserProcesses=yes" in file.read_text(errors="replace") for file in files if file.is_file()):
        value = "systemd kills runs (KillUserProcesses=yes)"
    else:
        value = "runs continue, unless systemd-logind was built to kill them"
    return Finding(name, value, "`loginctl enable-linger` keeps runs alive.")


def file_system_of(path: Path) -> str:
    """Return the type of the file system that contains `path`, or "unknown"."""
    real, mounts = path.resolve(), reversed(psutil.disk_partitions(all=True))
    containing = [mount for mount in mounts if real.is_relative_to(mount.mountpoint)]
    return max(containing, key=lambda mount: len(mount.mountpoint)).fstype if containing else "unknown"


def measure_speed(
    target: str, round_name: str | None, compute: DeviceOptions, *, prefixes: int, turns: int, json: bool
) -> None:
    """Print the speed of the engine, and of `generate` of transformers as the challenge's baseline calls it.

    Each of the `turns` has its own `prefixes`. Raises HarnessError if the target does not fit the round, or the round
    has too few prefixes.

    Keys:
        target (string): Name of the target.
        device (string): Device of the measurement.
        examples (number): Prefixes in each turn.
        turns (number): Number of turns.
        rows (object[]): One per method.
            method (string): Name of the method.
            suffixes_per_s (number): Suffixes per second, median over the turns.
            lowest (number): Lowest speed of a turn.
            highest (number): Highest speed of a turn.
            times_generate (number): Speed relative to `generate`.
    """
    require_extra("torch", "`harness doctor --bench`")
    device = usable_device(compute.device)
    loaded = load_round(round_name or default_round())
    model = find_target(target)
    require_capacity(model, loaded)
    require_round_vocabulary(model, loaded)
    rows = load_prefixes(loaded)
    if len(rows) < prefixes * turns:
        raise HarnessError(f"{loaded.name} has {len(rows)} prefixes. Lower --examples {prefixes} or --turns {turns}.")

    from harness.engine.loading import load_target
    from harness.engine.speed import measure

    length, threads = loaded.suffix_length, compute.threads or usable_cores()
    vocabulary = loaded.vocabulary
    target_model = load_target(
        model.path, device=device, dtype=compute.dtype, threads=threads, suffix_length=length, vocabulary=vocabulary
    )
    spread = np.linspace(0, len(rows) - 1, prefixes * turns).round().astype(int)
    speeds = measure({compute.dtype: target_model}, rows[spread], length=length, turns=turns, on_progress=say)
    columns = ("method", "suffixes_per_s", "lowest", "highest", "times_generate")
    table = [
        (speed.method, median(speed.rates), min(speed.rates), max(speed.rates), speed.relative_to(speeds[0]))
        for speed in speeds
    ]
    if json:
        options = {"target": target, "device": device, "examples": prefixes, "turns": turns}
        print_json({**options, "rows": [dict(zip(columns, row, strict=True)) for row in table]})
    else:
        header = ("", "suffixes/s", "lowest", "highest", "× generate")
        print(align_columns([header, *((name, *map(format_number, numbers)) for name, *numbers in table)]))
