"""From a command line to a resolved run: attack, parameters, round, target."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.cli.output import say
from harness.core.errors import HarnessError
from harness.core.rounds import Round, load_round
from harness.core.spec import JobSpec, TargetRecord
from harness.core.text import shorten
from harness.core.times import parse_duration
from harness.engine.devices import resolve_device
from harness.engine.resolving import ResolvedTarget, require_capacity, require_round_vocabulary, resolve_target
from harness.jobs.attack.planning import plan_attack
from harness.jobs.attack.spec import AttackSpec
from harness.plugins.discovery import AttackFile, attack_named
from harness.plugins.schema import validated_params
from harness.runs.folder import new_run_id
from harness.runs.machine import usable_cores

_SAY_PROGRESS_ABOVE_BYTES = 256 << 20
_MOST_THREADS = 4096
_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d{1,3})?")
_DTYPES = ("auto", "float32", "float16", "bfloat16")


@dataclass(frozen=True)
class ResolvedRun:
    """A run that may start: its spec, and the attack's file that its source is copied from."""

    spec: AttackSpec
    attack: AttackFile


def resolved_run(
    attack_name: str,
    *,
    round_name: str,
    target: str | None,
    revision: str | None,
    budget: str | None,
    settings: list[str],
    seed: int,
    limit: int | None,
    device: str,
    dtype: str,
    threads: int | None,
    attacks: Path | None,
) -> ResolvedRun:
    """Everything found, fetched, hashed and checked. Raises HarnessError for the first thing that does not hold."""
    attack = attack_named(attack_name, attacks)
    round_ = load_round(round_name)
    params = validated_params(attack.path, settings_in(settings))
    record = None
    if attack.uses_target:
        require_device(device, dtype, threads)
        record = target_record(
            round_, target=target, revision=revision, device=device, dtype=dtype, threads=threads or usable_cores()
        )
    else:
        named = {"--target": target, "--revision": revision, "--threads": threads}
        named |= {"--device": None if device == "auto" else device, "--dtype": None if dtype == "auto" else dtype}
        for option, value in named.items():
            if value is not None:
                raise HarnessError(f"the attack {attack.name} uses no target; leave {option} away.")
    spec = plan_attack(
        attack,
        params,
        round_,
        record,
        id_=new_run_id(f"{attack.name}-{round_.name.replace(':', '-')}"),
        budget=round_.budget if budget is None else parse_duration(budget),
        seed=seed,
        limit=limit,
    )
    return ResolvedRun(spec, attack)


def require_device(device: str, dtype: str, threads: int | None) -> None:
    """Raise HarnessError for a device or dtype that there is none of, or for more threads than any machine has."""
    if dtype not in _DTYPES:
        raise HarnessError(f"unknown dtype {shorten(dtype)!r}: {', '.join(_DTYPES)}.")
    if _DEVICE.fullmatch(device) is None:
        raise HarnessError(f"unknown device {shorten(device)!r}: auto, cpu, cuda, cuda:N or mps.")
    if threads is not None and threads > _MOST_THREADS:
        raise HarnessError(f"--threads {threads}: this machine has {usable_cores()} usable cores.")


def settings_in(settings: list[str]) -> dict[str, str]:
    """`key=value` texts as a mapping. Raises HarnessError for a text without a key, or a key given twice."""
    values: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise HarnessError(f"--set {shorten(setting)!r}: write key=value.")
        if key in values:
            raise HarnessError(f"--set {key} was given twice.")
        values[key] = value
    return values


def target_record(
    round_: Round, *, target: str | None, revision: str | None, device: str, dtype: str, threads: int
) -> TargetRecord:
    """The target as it was found on this machine, the round's own unless another is named."""
    id_ = target if target is not None else round_.target
    # The round's revision belongs to the round's target.
    wanted = revision or (round_.revision if target is None else "main")
    found = _found(id_, wanted)
    require_capacity(found, round_)
    require_round_vocabulary(found, round_)
    return _record_of(found, device=device, dtype=dtype, threads=threads)


def model_record(id_: str, *, revision: str, device: str, dtype: str, threads: int | None) -> TargetRecord:
    """A model as it was found on this machine, for whatever it is asked."""
    return _record_of(_found(id_, revision), device=device, dtype=dtype, threads=threads or usable_cores())


def _record_of(found: ResolvedTarget, *, device: str, dtype: str, threads: int) -> TargetRecord:
    return TargetRecord(
        id=found.id,
        revision=found.revision,
        commit=found.commit,
        path=found.path,
        weights_sha256=found.weights_sha256,
        bytes=found.bytes,
        device=resolve_device(device),
        dtype=dtype,
        threads=threads,
    )


def weights_sha256_now(spec: JobSpec) -> tuple[str | None, ...]:
    """The hash of the weights that lie where the run found each of its models; None where they are gone."""
    return tuple(
        _found(str(target.path), target.revision).weights_sha256 if target.path.is_dir() else None
        for target in spec.targets
    )


def _found(id_: str, revision: str) -> ResolvedTarget:
    is_said = False

    def on_progress(done: int, total: int) -> None:
        nonlocal is_said
        if total >= _SAY_PROGRESS_ABOVE_BYTES:
            if sys.stderr.isatty():
                print(f"\rreading {id_}: {done / total:4.0%} ", end="\n" if done >= total else "", file=sys.stderr)
            elif not is_said:
                say(f"reading {id_} ({total / 1e9:.1f} GB) …")
            is_said = True

    return resolve_target(id_, revision, on_progress=on_progress)
