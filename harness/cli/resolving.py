"""Resolve the options of a command into a run: attack, parameters, round, target."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import typer

from harness.cli.options import DeviceOptions, RunOptions, budget_seconds, usage_errors
from harness.cli.output import ProgressBars, say
from harness.core.errors import HarnessError, UsageError
from harness.core.extras import require_extra
from harness.core.hardware import resolve_device, usable_cores
from harness.core.rounds import PresetValue, Round, load_round
from harness.core.settings import read_settings, setting_error
from harness.core.spec import BUILT_IN_TARGETS, CLUSTER, JobSpec, TargetRecord, cluster_device, cluster_of
from harness.core.text import sanitize, shorten
from harness.engine.resolving import (
    BLOCKS_KEYS,
    ResolvedTarget,
    configured_number,
    require_capacity,
    require_round_vocabulary,
    resolve_target,
)
from harness.plugins.discovery import AttackFile, attack_named
from harness.plugins.schema import ValidatedParams, validated_params
from harness.runs.folder import new_run_id
from harness.runs.planning import plan_attack
from harness.runs.specs import GUESSES_PER_EXAMPLE, AttackSpec
from harness.supervisor.devices import visible_gpus

TARGET_OPTIONS = ("target", "revision", "reference", "device", "dtype", "threads")
"""Options that an attack without a target does not accept."""
_SHOW_PROGRESS_ABOVE_BYTES = 256 << 20
_MAX_THREADS = 4096
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
_DTYPES = ("auto", "float32", "float16", "bfloat16")
GPU_NODES = [(Path("/dev"), name) for name in ("nvidia[0-9]*", "kfd", "dxg")]
"""Device files of GPUs: of NVIDIA, of AMD, and under WSL. A directory and a pattern each."""


@dataclass(frozen=True)
class ResolvedRun:
    """A run that can start.

    spec: what it records.
    attack: the file that its source is copied from.
    unused_preset: the values of the round's preset that differ from those of the run, without the parameters that
    `--set` names.
    """

    spec: AttackSpec
    attack: AttackFile
    unused_preset: dict[str, PresetValue]


def resolve_run(
    attack_name: str,
    round_name: str,
    options: RunOptions,
    compute: DeviceOptions,
    *,
    limit: int | None = None,
    guesses_per_example: int | None = None,
    devices: str | None = None,
    shards_target: bool = False,
    shares_device: bool = False,
    parent: str | None = None,
    uses_preset: bool = False,
    run_id: str | None = None,
    runs_here: bool = True,
) -> ResolvedRun:
    """Find, fetch, hash and check everything that a run needs.

    `parent` is the id of a tuning or a sweep, or the name of a group. `run_id` is the run's id, by default a new one.

    `devices` is the value of `--devices`. With `shards_target`, the run has one worker, and each of its models is split
    over these devices. `guesses_per_example` replaces what the attack declares. With `uses_preset`, the values of the
    round's preset for the attack replace the attack's defaults. `runs_here` is false for a plan that is packaged or
    sent to a cluster: it needs no torch.
    Raises HarnessError for the first thing that is missing or does not fit, and a usage error for a bad option.
    """
    attack = attack_named(attack_name, options.attacks)
    round_ = load_round(round_name)
    seconds = round_.budget if options.budget is None else budget_seconds(options.budget)
    with usage_errors("--set"):
        settings = settings_in(options.settings or [])
    params = _resolve_params(attack, round_, settings, uses_preset=uses_preset)
    is_on_cluster = devices is not None and devices.startswith(CLUSTER)
    if attack.uses_target and runs_here and not is_on_cluster:
        # Before a model is downloaded and hashed.
        require_extra("torch", f"the attack {attack.name}")
    if guesses_per_example is not None and guesses_per_example != attack.guesses_per_example:
        attack = replace(attack, guesses_per_example=guesses_per_example)
        params = replace(params, changed=(*params.changed, GUESSES_PER_EXAMPLE))
    record = reference = None
    workers = devices_in(devices, compute)
    shards: tuple[str, ...] = ()
    if shards_target:
        shards, workers = _require_shards(attack, workers), ()
        compute = replace(compute, device=shards[0])
    if workers and cluster_of(workers[0]) is not None:
        # Each worker has the threads, and the device that its node gives it.
        compute, shares_device = replace(compute, device="cpu", threads=compute.threads or 1), True
        if not attack.uses_target:
            compute = DeviceOptions()
    elif attack.uses_target and workers:
        # The workers divide the threads.
        threads = max(1, (compute.threads or usable_cores()) // len(workers))
        compute = replace(compute, device=workers[0], threads=threads)
    if attack.uses_target:
        # The round's revision belongs to the round's target.
        revision = options.revision or (round_.revision if options.target is None else "main")
        record = target_record(round_, compute, round_.target if options.target is None else options.target, revision)
        if name := options.reference or attack.reference_model:
            reference = reference_record(round_, compute, name, "main")
        record, reference = _split(record, shards), reference and _split(reference, shards)
    else:
        defaults = {**asdict(RunOptions()), **asdict(DeviceOptions())}
        chosen = {**asdict(options), **asdict(compute)}
        for name in TARGET_OPTIONS:
            if chosen[name] != defaults[name]:
                option = f"--{name}"
                raise typer.BadParameter(f"{attack.name} does not use a target. Remove {option}.", param_hint=option)
    spec = plan_attack(
        attack,
        params,
        round_,
        record,
        reference=reference,
        id_=run_id or new_run_id(f"{attack.name}-{round_.name.replace(':', '-')}"),
        budget=seconds,
        seed=options.seed,
        limit=limit,
        devices=workers,
        shares_device=shares_device,
        parent=parent,
    )
    preset = round_.presets.get(attack.name, {})
    unused = {name: value for name, value in preset.items() if params.params.get(name) != value}
    return ResolvedRun(spec, attack, {name: value for name, value in unused.items() if name not in settings})


def _require_shards(attack: AttackFile, devices: tuple[str, ...]) -> tuple[str, ...]:
    """Return the devices that the target is split over. Raises a usage error for one device, or without a target."""
    if not attack.uses_target:
        raise typer.BadParameter(
            f"{attack.name} does not use a target. Remove --shard-target.", param_hint="--shard-target"
        )
    if len(devices) < 2:
        raise typer.BadParameter(
            "needs two devices or more. Name them with --devices, such as 0,1.", param_hint="--shard-target"
        )
    return devices


def _split(model: TargetRecord, shards: tuple[str, ...]) -> TargetRecord:
    """Return the record of a model that is split over `shards`. Raises HarnessError if it has too few blocks."""
    blocks = configured_number(model.path, BLOCKS_KEYS)
    if blocks is not None and blocks < len(shards):
        raise HarnessError(
            f"{model.id} has {blocks} blocks and cannot be split over {len(shards)} devices. Name fewer with --devices."
        )
    return model.model_copy(update={"shards": shards})


def _resolve_params(
    attack: AttackFile, round_: Round, settings: dict[str, str], *, uses_preset: bool
) -> ValidatedParams:
    """Return the attack's parameters: its defaults, the round's preset if it is used, and `settings` over both.

    Raises a usage error if the round has no preset for the attack, or if there are settings and a value is faulty, and
    HarnessError if the attack cannot be asked for its parameters.
    """
    preset = round_.presets.get(attack.name, {}) if uses_preset else {}
    if uses_preset and not preset:
        raise typer.BadParameter(
            f"round {round_.name} has no preset for {attack.name}. Remove --preset.", param_hint="--preset"
        )
    try:
        return validated_params(attack.path, preset | settings)
    except UsageError as error:
        if settings:
            raise typer.BadParameter(sanitize(str(error)), param_hint="--set") from None
        where = f"{round_.source}: presets: {attack.name}: " if preset else ""
        raise HarnessError(f"{where}{error}") from None


def require_device(compute: DeviceOptions) -> str:
    """Return the device that the options name. `auto` is the device of the settings, else a GPU if there is one.

    Raises a usage error for an unknown or absent device, an unknown precision, or too many threads.
    """
    if compute.dtype not in _DTYPES:
        known = ", ".join(_DTYPES)
        raise typer.BadParameter(f"unknown dtype {shorten(compute.dtype)!r}. Use {known}.", param_hint="--dtype")
    if compute.threads is not None and compute.threads > _MAX_THREADS:
        raise typer.BadParameter(
            f"{compute.threads} is too many: this machine has {usable_cores()} usable cores.", param_hint="--threads"
        )
    return usable_device(compute.device)


def usable_device(device: str, *, option: str = "--device") -> str:
    """Return the device that the option names. Raises a usage error for an unknown or absent one."""
    if _DEVICE.fullmatch(device) is None:
        raise typer.BadParameter(
            f"unknown device {shorten(device)!r}. Use auto, cpu, cuda or cuda:N.", param_hint=option
        )
    device = chosen_device(device)
    if device == "cpu":
        return device
    gpus = [gpu.name for gpu in visible_gpus()]
    # NVML does not list AMD's GPUs, and is absent in some containers.
    is_unlisted = not gpus and any(any(folder.glob(name)) for folder, name in GPU_NODES)
    if is_unlisted or device in gpus or (gpus and device == "cuda"):
        return device
    local = ", ".join(gpus) or "no GPU"
    raise typer.BadParameter(
        f"{device} is not available: the NVIDIA driver shows {local}. Use another device, or cpu.",
        param_hint=option,
    )


def devices_in(text: str | None, compute: DeviceOptions) -> tuple[str, ...]:
    """Return the devices that `--devices` names; none without the option.

    Raises a usage error if one is unknown, absent, or named twice, or if `--device` is given too.
    """
    if text is None:
        return ()
    if compute.device != DeviceOptions.device:
        raise typer.BadParameter("cannot be used together with --device.", param_hint="--devices")
    gpus = [gpu.name for gpu in visible_gpus()]
    if text == "all":
        if not gpus:
            raise typer.BadParameter(
                "the NVIDIA driver shows no GPU. Use cpu:N for several workers on the CPU.", param_hint="--devices"
            )
        return tuple(gpus)
    if (workers := re.fullmatch(r"cpu:(\d{1,3})", text)) is not None:
        if not 1 <= int(workers[1]) <= usable_cores():
            raise typer.BadParameter(
                f"{text}: this machine has {usable_cores()} usable cores, and each worker or piece needs one.",
                param_hint="--devices",
            )
        return ("cpu",) * int(workers[1])
    if (shards := re.fullmatch(r"ray@([^*]+)\*([1-9]\d{0,3})", text)) is not None:
        return (cluster_device(shards[1]),) * int(shards[2])
    if re.fullmatch(r"\d{1,3}(,\d{1,3})*", text) is None:
        raise typer.BadParameter(
            f"unknown devices {shorten(text)!r}. Use GPUs such as 0,1, all, or cpu:N.", param_hint="--devices"
        )
    numbers = text.split(",")
    if len(set(map(int, numbers))) < len(numbers):
        raise typer.BadParameter(f"{text} names a GPU twice.", param_hint="--devices")
    return tuple(usable_device(f"cuda:{int(number)}", option="--devices") for number in numbers)


def chosen_device(device: str) -> str:
    """Return the device that `--device` names. `auto` is the device of the settings, else a GPU if there is one."""
    if device == "auto":
        device = read_settings().device
        if _DEVICE.fullmatch(device) is None:
            raise setting_error("device", "use auto, cpu, cuda or cuda:N")
    return resolve_device(device)


def settings_in(settings: list[str]) -> dict[str, str]:
    """Return `NAME=VALUE` texts as a dict. Raises HarnessError for a text without a name, or a repeated name."""
    values: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise HarnessError(f"{shorten(setting)!r} is not NAME=VALUE.")
        if key in values:
            raise HarnessError(f"{key} was given twice.")
        values[key] = value
    return values


def target_record(round_: Round, compute: DeviceOptions, id_: str, revision: str) -> TargetRecord:
    """Return the record of the target `id_` as it is on this machine. Raises HarnessError if it does not fit."""
    device = require_device(compute)
    local = _find_target(id_, revision)
    require_capacity(local, round_)
    require_round_vocabulary(local, round_)
    return _record_of(local, device, compute)


def reference_record(round_: Round, compute: DeviceOptions, id_: str, revision: str) -> TargetRecord:
    """Return the record of the reference model `id_`, which must fit the round as a target does."""
    try:
        return target_record(round_, compute, id_, revision)
    except HarnessError as error:
        raise HarnessError(f"reference model: {error}") from None


def model_records(
    ids: Sequence[str], compute: DeviceOptions, *, revision: str, is_first_served: bool = False
) -> tuple[TargetRecord, ...]:
    """Return each model as found on this machine. Raises HarnessError for one that is not available.

    is_first_served: the first model is behind an endpoint, and only its tokenizer is needed.
    """
    device = require_device(compute)
    names = list(dict.fromkeys(ids))
    if len(names) > is_first_served:
        require_extra("torch", f"an audit of {names[-1]}")
    records = []
    for number, id_ in enumerate(names):
        if is_first_served and number == 0:
            local = _find_target(id_, revision, needs_weights=False)
            records.append(_record_of(local, device, compute).model_copy(update={"is_tokenizer_only": True}))
        else:
            records.append(_record_of(_find_target(id_, revision), device, compute))
    return tuple(records)


def _record_of(local: ResolvedTarget, device: str, compute: DeviceOptions) -> TargetRecord:
    threads = compute.threads or usable_cores()
    return TargetRecord(**vars(local), device=device, dtype=compute.dtype, threads=threads)


def current_weights(spec: JobSpec) -> tuple[str | None, ...]:
    """Return the hash of the weights of each of the run's models as they are now; None where they are gone."""
    return tuple(_current_hash(target) if target.path.is_dir() else None for target in spec.targets)


def _current_hash(target: TargetRecord) -> str:
    if target.is_tokenizer_only:
        return _find_target(str(target.path), target.revision, needs_weights=False).weights_sha256
    return _find_target(str(target.path), target.revision).weights_sha256


@cache
def name_hidden_directory(id_: str) -> None:
    """Say once that a name is read as that of a built-in target, although there is a directory of this name."""
    if id_ in BUILT_IN_TARGETS and Path(id_).is_dir():
        say(f"{id_} is the built-in target, not the directory of this name. Write ./{id_} to name the directory.")


def _find_target(id_: str, revision: str, *, needs_weights: bool = True) -> ResolvedTarget:
    name_hidden_directory(id_)
    with ProgressBars("bytes") as bars:

        def on_progress(done: int, total: int) -> None:
            if total >= _SHOW_PROGRESS_ABOVE_BYTES:
                bars.update(f"reading {id_}", done, total)

        return resolve_target(id_, revision, on_progress=on_progress, needs_weights=needs_weights)
