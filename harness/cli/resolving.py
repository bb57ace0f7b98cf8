"""Resolve what was asked of a run: attack, parameters, round, target, devices."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import typer

from harness.cli.conversion import find_gguf, resolve_gguf
from harness.cli.options import checked_group
from harness.cli.output import say
from harness.cli.progress import ProgressBars
from harness.core.errors import HarnessError, UsageError
from harness.core.extras import require_extra
from harness.core.files import file_errors
from harness.core.hardware import resolve_device, usable_cores
from harness.core.rounds import Round, load_round
from harness.core.run_request import DeviceOptions, ModelOptions, RunRequest
from harness.core.settings import read_settings, setting_error
from harness.core.spec import BUILT_IN_TARGETS, NODE, JobSpec, TargetRecord
from harness.core.text import sanitize, shorten
from harness.engine.resolving import (
    BLOCKS_KEYS,
    ResolvedTarget,
    adapter_folder,
    cached_sha256,
    configured_number,
    require_capacity,
    require_round_vocabulary,
    resolve_adapter,
    resolve_target,
)
from harness.plugins.discovery import AttackFile, attack_named
from harness.plugins.schema import ValidatedParams, validated_params
from harness.runs.folder import new_run_id
from harness.runs.planning import plan_attack
from harness.supervisor.devices import visible_gpus
from harness.sweeps.running import PlannedRun

_SHOW_PROGRESS_ABOVE_BYTES = 256 << 20
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
GPU_NODES = [(Path("/dev"), name) for name in ("nvidia[0-9]*", "kfd", "dxg")]
"""Device files of GPUs: of NVIDIA, of AMD, and under WSL. A directory and a pattern each."""


def resolve_run(
    request: RunRequest,
    *,
    parent: str | None = None,
    run_id: str | None = None,
    runs_here: bool = True,
    on_cluster: bool = False,
) -> PlannedRun:
    """Find, fetch, hash and check everything that a run needs.

    `parent` is the id of the run's tuning or sweep. `run_id` is the run's id, by default a new one. `runs_here` is
    false for a plan that is packaged. With `on_cluster`, a node computes the run and chooses its device. Neither needs
    torch here.
    Raises HarnessError for the first thing that is missing or does not fit, and a usage error for a bad option.
    """
    if on_cluster and (request.device not in ("auto", "cpu", "cuda") or request.devices is not None):
        raise typer.BadParameter(
            "use auto, cpu or cuda on a cluster, which numbers its GPUs itself.",
            param_hint="--device" if request.devices is None else "--devices",
        )
    on_cluster = on_cluster or request.ray is not None
    attack = attack_named(request.attack, request.attacks)
    round_ = load_round(request.round)
    params = _resolve_params(attack, round_, request)
    if attack.uses_target and runs_here and not on_cluster:
        # Before a model is downloaded and hashed.
        require_extra("torch", f"the attack {attack.name}")
    if request.guesses_per_example is not None:
        attack = replace(attack, guesses_per_example=request.guesses_per_example)
    devices = _workers(request)
    shards: tuple[str, ...] = ()
    if request.split_target:
        shards, devices = _require_shards(attack, devices), ()
    record = reference = None
    if attack.uses_target:
        compute = _compute_of(request, devices, shards, on_cluster=on_cluster)
        # The round's revision belongs to the round's target.
        revision = request.revision or (round_.revision if request.target is None else "main")
        record = target_record(round_, compute, round_.target if request.target is None else request.target, revision)
        if name := request.reference or attack.reference_model:
            reference = reference_record(round_, compute, name, "main")
        require_adapter(request, [model for model in (record, reference) if model is not None])
        record, reference = _split_model(record, shards), reference and _split_model(reference, shards)
    elif unused := request.differing(request.without_target()):
        raise typer.BadParameter(f"{attack.name} does not use a target. Remove {unused[0]}.", param_hint=unused[0])
    spec = plan_attack(
        attack,
        params,
        round_,
        record,
        request,
        reference=reference,
        id_=run_id or new_run_id(f"{attack.name}-{round_.name.replace(':', '-')}"),
        devices=devices,
        cluster=request.ray,
        parent=parent or checked_group(request.group),
    )
    preset = round_.presets.get(attack.name, {})
    unused_preset = {
        name: value for name, value in preset.items() if params.params.get(name) != value and name not in request.params
    }
    return PlannedRun(spec, attack, unused_preset)


def _compute_of(
    request: RunRequest, devices: tuple[str, ...], shards: tuple[str, ...], *, on_cluster: bool
) -> ModelOptions:
    """Return how each worker loads the target."""
    if on_cluster:
        # The node gives each worker its device.
        return request.model_copy(update={"device": "cpu", "threads": request.threads or 1})
    if shards:
        return request.model_copy(update={"device": shards[0]})
    if devices:
        # The workers divide the threads.
        threads = max(1, (request.threads or usable_cores()) // len(devices))
        return request.model_copy(update={"device": devices[0], "threads": threads})
    return request


def _require_shards(attack: AttackFile, devices: tuple[str, ...]) -> tuple[str, ...]:
    """Return the devices that the target is split over. Raises a usage error for one device, or without a target."""
    if not attack.uses_target:
        raise typer.BadParameter(
            f"{attack.name} does not use a target. Remove --split-target.", param_hint="--split-target"
        )
    if len(devices) < 2:
        raise typer.BadParameter(
            "needs two devices or more. Name them with --devices, such as 0,1.", param_hint="--split-target"
        )
    return devices


def _split_model(model: TargetRecord, shards: tuple[str, ...]) -> TargetRecord:
    """Return the record of a model that is split over `shards`. Raises HarnessError if it has too few blocks."""
    blocks = configured_number(model.path, BLOCKS_KEYS)
    if blocks is not None and blocks < len(shards):
        raise HarnessError(
            f"{model.id} has {blocks} blocks and cannot be split over {len(shards)} devices. Name fewer with --devices."
        )
    return model.model_copy(update={"shards": shards})


def _resolve_params(attack: AttackFile, round_: Round, request: RunRequest) -> ValidatedParams:
    """Return the attack's parameters: its defaults, the round's preset if it is used, and the settings over both.

    Raises a usage error if the round has no preset for the attack, or if there are settings and a value is faulty, and
    HarnessError if the attack cannot be asked for its parameters.
    """
    preset = round_.presets.get(attack.name, {}) if request.preset else {}
    if request.preset and not preset:
        raise typer.BadParameter(
            f"round {round_.name} has no preset for {attack.name}. Remove --preset.", param_hint="--preset"
        )
    try:
        return validated_params(attack.path, preset | request.params)
    except UsageError as error:
        if request.settings:
            raise typer.BadParameter(sanitize(str(error)), param_hint="--set") from None
        where = f"{round_.source}: presets: {attack.name}: " if preset else ""
        raise HarnessError(f"{where}{error}") from None


def usable_device(device: str, *, option: str = "--device") -> str:
    """Return the device that the option names. `auto` is the device of the settings, else a GPU if there is one.

    Raises a usage error for an unknown device, and HarnessError for one that this machine does not have.
    """
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
    raise HarnessError(
        f"{option}: {device} is not available: the NVIDIA driver shows {local}. Use another device, or cpu."
    )


def _workers(request: RunRequest) -> tuple[str, ...]:
    """Return the device of each worker of a run that has several; none for one worker.

    Raises HarnessError if this machine does not have a device, or no cluster answers.
    """
    if request.ray is not None:
        check_cluster(request.ray)
        return (NODE,) * (request.shards or 1)
    if (devices := request.devices) is None:
        return ()
    if (workers := devices.cpu_workers) is not None:
        if workers > (cores := usable_cores()):
            raise HarnessError(
                f"--devices: {devices}: each worker or piece needs a core. Use at most cpu:{cores} here."
            )
        return ("cpu",) * workers
    if devices.gpus:
        return tuple(usable_device(f"cuda:{number}", option="--devices") for number in devices.gpus)
    if not (gpus := [gpu.name for gpu in visible_gpus()]):
        raise HarnessError("--devices: the NVIDIA driver shows no GPU. Use cpu:N for several workers on the CPU.")
    return tuple(gpus)


def check_cluster(address: str) -> None:
    """Raise HarnessError if Ray is not installed or no cluster listens at `address`."""
    from harness.cluster.executor import check_address

    check_address(address)


def chosen_device(device: str) -> str:
    """Return the device that `--device` names. `auto` is the device of the settings, else a GPU if there is one."""
    if device == "auto":
        device = read_settings().device
        if _DEVICE.fullmatch(device) is None:
            raise setting_error("device", "use auto, cpu, cuda or cuda:N")
    return resolve_device(device)


def require_adapter(compute: ModelOptions, models: Sequence[TargetRecord]) -> None:
    """Raise a usage error if a base is named and no model is an adapter."""
    if compute.base is not None and not any(model.adapter for model in models):
        raise typer.BadParameter("no model of this run is an adapter. Remove --base.", param_hint="--base")


def target_record(round_: Round, compute: ModelOptions, id_: str, revision: str) -> TargetRecord:
    """Return the record of the target `id_` as it is on this machine. Raises HarnessError if it does not fit."""
    device = usable_device(compute.device)
    local = find_target(id_, revision, base=compute.base)
    require_capacity(local, round_)
    require_round_vocabulary(local, round_)
    return _record_of(local, device, compute)


def reference_record(round_: Round, compute: ModelOptions, id_: str, revision: str) -> TargetRecord:
    """Return the record of the reference model `id_`, which must fit the round as a target does."""
    try:
        return target_record(round_, compute, id_, revision)
    except HarnessError as error:
        raise HarnessError(f"reference model: {error}") from None


def model_records(
    ids: Sequence[str], compute: ModelOptions, *, revision: str, is_first_served: bool = False
) -> tuple[TargetRecord, ...]:
    """Return each model as found on this machine. Raises HarnessError for one that is not available.

    Without a base, an adapter is merged into the first model. is_first_served: the first model is behind an endpoint,
    and only its tokenizer is needed.
    """
    device = usable_device(compute.device)
    base = compute.base
    names = list(dict.fromkeys(ids))
    if len(names) > is_first_served:
        require_extra("torch", f"an audit of {names[-1]}")
    records = []
    for number, id_ in enumerate(names):
        if is_first_served and number == 0:
            local = find_target(id_, revision, needs_weights=False)
            records.append(_record_of(local, device, compute).model_copy(update={"is_tokenizer_only": True}))
        else:
            records.append(_record_of(find_target(id_, revision, base=base), device, compute))
            base = base or (None if is_first_served else records[0].id)
    return tuple(records)


def _record_of(local: ResolvedTarget, device: str, compute: DeviceOptions) -> TargetRecord:
    threads = compute.threads or usable_cores()
    return TargetRecord(**vars(local), device=device, dtype=compute.dtype, threads=threads)


def current_weights(spec: JobSpec) -> tuple[str | None, ...]:
    """Return the hash of the weights of each of the run's models as they are now; None where they are gone."""
    return tuple(map(_current_hash, spec.targets))


def _current_hash(target: TargetRecord) -> str | None:
    source = target.id if target.adapter is None else target.adapter.base
    if not target.path.is_dir() and target.source_sha256 is not None and find_gguf(source) is not None:
        find_target(source)  # the cache was emptied
    if not all(path.is_dir() for path in target.paths):
        return None
    if target.is_tokenizer_only:
        return find_target(str(target.path), target.revision, needs_weights=False).weights_sha256
    return find_target(str(target.paths[-1]), target.revision, base=str(target.path)).weights_sha256


@cache
def name_hidden_directory(id_: str) -> None:
    """Say once that a name is read as that of a built-in target, although there is a directory of this name."""
    if id_ in BUILT_IN_TARGETS and Path(id_).is_dir():
        say(f"{id_} is the built-in target, not the directory of this name. Write ./{id_} to name the directory.")


def find_target(
    id_: str,
    revision: str = "main",
    *,
    base: str | None = None,
    offline: bool | None = None,
    needs_weights: bool = True,
) -> ResolvedTarget:
    """Return the target `id_` as it is on this machine: as `resolve_target` does, or from a GGUF file.

    base: the model that the target is merged into if it is an adapter; `revision` is then the base's.
    Raises HarnessError if it is not available.
    """
    name_hidden_directory(id_)
    if base is not None and (folder := adapter_folder(id_)) is not None:
        return resolve_adapter(id_, folder, find_target(base, revision, offline=offline))
    file = find_gguf(id_)
    with ProgressBars("bytes") as bars:

        def on_progress(done: int, total: int) -> None:
            if total >= _SHOW_PROGRESS_ABOVE_BYTES:
                bars.update(f"reading {id_}", done, total)

        if file is None:
            return resolve_target(id_, revision, offline=offline, on_progress=on_progress, needs_weights=needs_weights)
        with file_errors(file):
            sha256 = cached_sha256(file, on_progress)
    return resolve_gguf(id_, file, sha256, needs_weights=needs_weights)
