"""The stored record of an attack run: its summary, its results and its inputs."""

from collections.abc import Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Literal

from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.inputs import content_sha256
from harness.core.rounds import Round, load_round
from harness.core.spec import TargetRecord
from harness.core.text import display_name, sanitize
from harness.jobs.attack.results import write_results
from harness.jobs.attack.spec import AttackSpec
from harness.runs.folder import RunFolder
from harness.runs.job_record import Counts, JobRecord, Labels
from harness.runs.reader import RunReader


class AttackRunRecord(JobRecord[AttackSpec]):
    """The record of one attack run."""

    screen = "guesses"

    def labels(self, spec: AttackSpec) -> Labels:
        reference = None if spec.reference is None else spec.reference.id
        return Labels(
            attack=spec.attack.name,
            round=spec.round.name,
            is_control=spec.attack.control,
            is_blind=spec.round.is_blind,
            is_partial=spec.is_partial,
            error_cap=spec.error_cap,
            changed=({"seed": spec.seed} if spec.seed else {})
            | ({"reference": reference} if reference not in (None, spec.attack.reference_model) else {})
            | {name: spec.params[name] for name in spec.changed if name in spec.params},
        )

    def counts(self, reader: RunReader, spec: AttackSpec) -> Counts:
        return Counts(reader.row_count("guess"), {})

    def write_results(self, folder: RunFolder, spec: AttackSpec) -> None:
        write_results(folder, spec)

    def changed_inputs(self, folder: RunFolder, spec: AttackSpec, weights_sha256: Sequence[str | None]) -> list[str]:
        changed = []
        code = folder.code / spec.attack.file
        if not code.exists() or file_sha256(code) != spec.attack.sha256:
            changed.append(f"the attack's source {code}")
        if spec.round.source is not None and not _is_as_recorded(spec.round):
            changed.append(f"the round in {spec.round.source}")
        for name, recorded in spec.data_sha256.items():
            if not Path(name).exists() or file_sha256(Path(name)) != recorded:
                changed.append(f"the round's file {name}")
        for name, record in spec.paths.items():
            if not record.path.exists() or content_sha256(record.path) != record.sha256:
                changed.append(f"{record.path} of the parameter {name}")
        for model, current in zip(spec.targets, chain(weights_sha256, repeat(None)), strict=False):
            if current != model.weights_sha256:
                changed.append(f"the weights of {model.id}")
        return changed

    def describe(self, folder: RunFolder, spec: AttackSpec) -> list[tuple[str, str]]:
        name = display_name(spec.attack.name, is_control=spec.attack.control)
        training = ", no training examples" if spec.round.train_prefix_file is None else ""
        rows = [
            ("attack", f"{name}, from {sanitize(spec.attack.origin)}"),
            ("round", f"{spec.round.name}, {spec.examples:,} of {spec.round_examples:,} examples{training}"),
        ]
        if spec.target is not None:
            rows.append(("target", _describe_model(spec.target)))
            rows.append(("device", _describe_device(folder, spec.target)))
        if spec.devices:
            rows.append(("workers", _describe_workers(folder, spec.devices)))
        if spec.reference is not None:
            rows.append(("reference", _describe_model(spec.reference)))
        return rows


def loaded_model(folder: RunFolder, role: Literal["target", "reference"]) -> dict[str, Any] | None:
    """Return what the worker reported when it had loaded the target or the reference; None if it has not."""
    if not folder.store.exists():
        return None
    with RunReader(folder.store) as reader:
        return reader.last_event(f"worker_{role}")


def _describe_model(model: TargetRecord) -> str:
    commit = f" at {model.commit}" if model.commit else ""
    return f"{sanitize(model.id)}{commit}, weights {model.weights_sha256[:12]}"


def _describe_device(folder: RunFolder, target: TargetRecord) -> str:
    """Return how the worker loaded the target, or how it will."""
    if (loaded := loaded_model(folder, "target")) is None:
        return f"{target.place}, precision {target.dtype}, {target.threads} threads"
    name = f" ({loaded['device_name']})" if loaded.get("device_name") else ""
    first = "" if loaded.get("bos_token") is None else f", token {loaded['bos_token']} first in every prefix"
    place = f"{target.place}{name}, {loaded['blocks']} blocks" if target.shards else f"{loaded['device']}{name}"
    return sanitize(
        f"{place}, {loaded['dtype']}, {loaded['threads']} threads, "
        f"{loaded['rows_at_once']} rows at once, {loaded['parameters'] / 1e6:,.1f} M parameters{first}"
    )


def _describe_workers(folder: RunFolder, devices: tuple[str, ...]) -> str:
    """Return the number of workers and their devices, and which one died last."""
    restarted = None
    if folder.store.exists():
        with RunReader(folder.store) as reader:
            restarted = reader.last_event("worker_restarted")
    again = "" if restarted is None else f"; worker {restarted['worker']} was started again: {restarted['reason']}"
    return sanitize(f"{len(devices)}, on {', '.join(dict.fromkeys(devices))}{again}")


def _is_as_recorded(recorded: Round) -> bool:
    """Return True if the round's file still says what the record says.

    The error cap of a fold follows from its data, and a blind round may get its answers later.
    """
    assert recorded.source is not None
    try:
        current = load_round(str(recorded.source))
    except HarnessError:
        return False
    if recorded.fold is not None:
        current = current.derived_fold(recorded.fold.index, recorded.fold.folds)
    ignored = {"error_cap"} if recorded.fold is not None else set()
    ignored |= {"answer_file"} if recorded.is_blind else set()
    return current.model_dump(exclude=ignored) == recorded.model_dump(exclude=ignored)


RECORD = AttackRunRecord()
