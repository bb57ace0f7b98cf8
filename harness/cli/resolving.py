"""From the options of a command to a resolved run: attack, parameters, round, target."""

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from harness.cli.options import budget_seconds, usage_errors
from harness.cli.progress import ProgressBars
from harness.core.errors import HarnessError
from harness.core.rounds import Round, load_round
from harness.core.settings import read_settings, setting_error
from harness.core.spec import JobSpec, TargetRecord
from harness.core.text import shorten
from harness.engine.devices import resolve_device
from harness.engine.resolving import ResolvedTarget, require_capacity, require_round_vocabulary, resolve_target
from harness.jobs.attack.planning import plan_attack
from harness.jobs.attack.spec import AttackSpec
from harness.plugins.discovery import AttackFile, attack_named
from harness.plugins.schema import validated_params
from harness.runs.folder import new_run_id
from harness.runs.machine import usable_cores

_SHOW_PROGRESS_ABOVE_BYTES = 256 << 20
_MAX_THREADS = 4096
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
_DTYPES = ("auto", "float32", "float16", "bfloat16")


@dataclass(frozen=True)
class ResolvedRun:
    """A run that can start: its spec, and the file that the attack's source is copied from."""

    spec: AttackSpec
    attack: AttackFile


def resolve_run(
    attack_name: str,
    *,
    round_name: str,
    target: str | None = None,
    revision: str | None = None,
    budget: str | None = None,
    settings: list[str],
    seed: int,
    limit: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    threads: int | None = None,
    shares_device: bool = False,
    attacks: Path | None = None,
) -> ResolvedRun:
    """Find, fetch, hash and check everything that a run needs.

    Raises HarnessError for the first thing that is missing or does not fit, and a usage error for a bad option.
    """
    attack = attack_named(attack_name, attacks)
    round_ = load_round(round_name)
    seconds = round_.budget if budget is None else budget_seconds(budget)
    with usage_errors("--set") if settings else contextlib.nullcontext():
        params = validated_params(attack.path, settings_in(settings))
    record = None
    if attack.uses_target:
        require_device(device, dtype, threads)
        record = target_record(
            round_, target=target, revision=revision, device=device, dtype=dtype, threads=threads or usable_cores()
        )
    else:
        given = {"--target": target, "--revision": revision, "--threads": threads}
        given |= {"--device": None if device == "auto" else device, "--dtype": None if dtype == "auto" else dtype}
        for option, value in given.items():
            if value is not None:
                raise typer.BadParameter(f"{attack.name} does not use a target. Remove {option}.", param_hint=option)
    spec = plan_attack(
        attack,
        params,
        round_,
        record,
        id_=new_run_id(f"{attack.name}-{round_.name.replace(':', '-')}"),
        budget=seconds,
        seed=seed,
        limit=limit,
        shares_device=shares_device,
    )
    return ResolvedRun(spec, attack)


def plan_as_json(spec: AttackSpec) -> dict[str, Any]:
    """Return what `run --dry-run --json` prints; `spec` is the content of spec.json, with the names of that file."""
    return {
        "id": spec.id,
        "attack": spec.attack.name,
        "round": spec.round.name,
        "target": None if spec.target is None else spec.target.id,
        "params": spec.model_dump(mode="json")["params"],
        "seed": spec.seed,
        "examples": spec.examples,
        "round_examples": spec.round_examples,
        "error_cap": spec.error_cap,
        "budget_s": spec.budget,
        "spec": spec.model_dump(mode="json"),
    }


def require_device(device: str, dtype: str, threads: int | None) -> None:
    """Raise a usage error for an unknown device or dtype, or for too many threads."""
    if dtype not in _DTYPES:
        raise typer.BadParameter(f"unknown dtype {shorten(dtype)!r}. Use {', '.join(_DTYPES)}.", param_hint="--dtype")
    if _DEVICE.fullmatch(device) is None:
        raise typer.BadParameter(
            f"unknown device {shorten(device)!r}. Use auto, cpu, cuda or cuda:N.", param_hint="--device"
        )
    if threads is not None and threads > _MAX_THREADS:
        raise typer.BadParameter(
            f"{threads} is too many: this machine has {usable_cores()} usable cores.", param_hint="--threads"
        )


def chosen_device(device: str) -> str:
    """Return the device that `--device` names. `auto` is the device of the settings, else a GPU if there is one."""
    if device == "auto":
        device = read_settings().device
        if _DEVICE.fullmatch(device) is None:
            raise setting_error("device", "use auto, cpu, cuda or cuda:N")
    return resolve_device(device)


def settings_in(settings: list[str]) -> dict[str, str]:
    """Return `key=value` texts as a dict. Raises HarnessError for a text without a key, or a repeated key."""
    values: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise HarnessError(f"{shorten(setting)!r} is not key=value.")
        if key in values:
            raise HarnessError(f"{key} was given twice.")
        values[key] = value
    return values


def target_record(
    round_: Round, *, target: str | None, revision: str | None, device: str, dtype: str, threads: int
) -> TargetRecord:
    """Return the record of the round's target, or of `target`, as it is on this machine."""
    id_ = target if target is not None else round_.target
    # The round's revision belongs to the round's target.
    found = _find_target(id_, revision or (round_.revision if target is None else "main"))
    require_capacity(found, round_)
    require_round_vocabulary(found, round_)
    return _record_of(found, device=device, dtype=dtype, threads=threads)


def model_record(id_: str, *, revision: str, device: str, dtype: str, threads: int | None) -> TargetRecord:
    """Return the record of any model as it is on this machine."""
    return _record_of(_find_target(id_, revision), device=device, dtype=dtype, threads=threads or usable_cores())


def _record_of(found: ResolvedTarget, *, device: str, dtype: str, threads: int) -> TargetRecord:
    return TargetRecord(
        id=found.id,
        revision=found.revision,
        commit=found.commit,
        path=found.path,
        weights_sha256=found.weights_sha256,
        bytes=found.bytes,
        device=chosen_device(device),
        dtype=dtype,
        threads=threads,
    )


def current_weights(spec: JobSpec) -> tuple[str | None, ...]:
    """Return the hash of the weights of each of the run's models as they are now; None where they are gone."""
    return tuple(
        _find_target(str(target.path), target.revision).weights_sha256 if target.path.is_dir() else None
        for target in spec.targets
    )


def _find_target(id_: str, revision: str) -> ResolvedTarget:
    with ProgressBars(counts_bytes=True) as bars:

        def on_progress(done: int, total: int) -> None:
            if total >= _SHOW_PROGRESS_ABOVE_BYTES:
                bars.update(f"reading {id_}", done, total)

        return resolve_target(id_, revision, on_progress=on_progress)
