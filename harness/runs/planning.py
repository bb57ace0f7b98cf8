"""Resolve the spec of an attack run or an audit, start it, and repeat the options of a recorded one."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core import paths
from harness.core.audit import FIGURES, Audit, AuditInputs
from harness.core.errors import HarnessError
from harness.core.examples import error_cap_of, load_answers, load_prefixes, require_fitting_files
from harness.core.files import file_sha256
from harness.core.inputs import content_sha256, files_in
from harness.core.rounds import Round, built_in_rounds
from harness.core.spec import PathRecord, TargetRecord, cluster_of
from harness.core.text import shorten
from harness.core.times import duration_text
from harness.plugins.discovery import NAMED_FOLDER, AttackFile
from harness.plugins.parameters import setting_text
from harness.plugins.schema import ValidatedParams
from harness.runs.folder import RunFolder
from harness.runs.launch import start_job
from harness.runs.machine import hardware, versions
from harness.runs.specs import GUESSES_PER_EXAMPLE, AttackRecord, AttackSpec, AuditSpec


def plan_attack(
    attack: AttackFile,
    params: ValidatedParams,
    round_: Round,
    target: TargetRecord | None,
    *,
    reference: TargetRecord | None = None,
    id_: str,
    budget: float,
    seed: int,
    limit: int | None,
    devices: tuple[str, ...] = (),
    shares_device: bool = False,
    parent: str | None = None,
    batch_sizes: Mapping[str, int] | None = None,
) -> AttackSpec:
    """Return the spec of a run. `budget` is in seconds; with `limit` only the first examples are attacked.

    `devices` has one device for each worker, if there are several.

    `parent` is the id of a tuning or the name of a group. `batch_sizes` are those of the run that this one repeats.

    Raises HarnessError if a file of the round is absent or does not fit, if the
    round has no examples, if a path parameter is absent, or if a
    path parameter or a model contains the round's answers or a link that leaves its directory.
    """
    for file in (round_.prefix_file, round_.train_prefix_file, round_.train_suffix_file):
        if file is not None and not file.exists():
            raise HarnessError(f"{file}: no such file. harness data status says how to get the files of a round.")
    require_fitting_files(round_)
    round_examples = len(load_prefixes(round_))
    if round_examples == 0:
        raise HarnessError(f"round {round_.name} has no examples. Its prefix file or its fold is empty.")
    answers = load_answers(round_)
    if answers is not None and len(answers) != round_examples:
        raise HarnessError(
            f"{round_.file_with_answers}: {len(answers):,} answers for {round_examples:,} attacked prefixes."
        )
    path_records = {
        name: _path_record(name, params.params[name], round_)
        for name in params.path_params
        if params.params[name] is not None
    }
    for model in filter(None, (target, reference)):
        _require_no_answers(f"model {model.name}", model.path, round_)
    return AttackSpec(
        id=id_,
        parent=parent,
        created_at=time.time(),
        attack=AttackRecord(
            **attack.declared,
            # Absolute, so that the attack is found again from another directory.
            origin=f"{NAMED_FOLDER}{attack.path.parent}" if attack.origin.startswith(NAMED_FOLDER) else attack.origin,
            file=attack.path.name,
            sha256=attack.sha256,
        ),
        params=params.params | {name: str(record.path) for name, record in path_records.items()},
        changed=params.changed,
        paths=path_records,
        seed=seed,
        shares_device=shares_device,
        devices=devices,
        examples=round_examples if limit is None else min(limit, round_examples),
        round_examples=round_examples,
        round=round_.model_copy(update={"error_cap": error_cap_of(round_), "presets": {}}),
        data_sha256={str(path): file_sha256(path) for path in round_.files if path.exists()},
        target=target,
        reference=reference,
        budget=budget,
        versions=versions(),
        hardware=hardware(),
        batch_sizes=dict(batch_sizes or {}),
    )


def start_attack(spec: AttackSpec, attack: AttackFile) -> RunFolder:
    """Create the run's private directory with a copy of the attack's source, and start its supervisor.

    Raises HarnessError if the supervisor does not start.
    """

    def prepare(folder: RunFolder) -> AttackSpec:
        folder.code.mkdir()
        shutil.copyfile(attack.path, folder.code / spec.attack.file)
        if spec.target is not None and (tokenizer := spec.target.path / "tokenizer.json").is_file():
            shutil.copyfile(tokenizer, folder.tokenizer)
        return spec

    return start_job(spec.id, prepare)


def _path_record(name: str, value: Any, round_: Round) -> PathRecord:
    if not isinstance(value, str):
        raise HarnessError(f"parameter {name}: a run records one path. Put several files into one directory.")
    path = paths.expand_home(value).absolute()
    if not path.exists():
        raise HarnessError(f"parameter {name}: {shorten(str(path), 120)}: no such file or directory.")
    path = path.resolve()
    _require_no_answers(f"parameter {name}", path, round_)
    return PathRecord(path=path, sha256=content_sha256(path))


def _require_no_answers(noun: str, path: Path, round_: Round) -> None:
    """Raise HarnessError if `path`, called `noun`, is or contains a copy of a file with the round's answers."""
    for file in files_in(path):
        if any(_is_copy(file, answers) for answers in _answer_files(round_)):
            raise HarnessError(f"{noun}: {file} contains the round's answers. An attack may not read it.")


def _answer_files(round_: Round) -> Iterator[Path]:
    """Yield the files with answers of the round: a built-in round's answers are also in the texts of its corpus."""
    answers = round_.file_with_answers
    if answers is None or not answers.exists():
        return
    yield answers
    if answers.is_relative_to(paths.BUILT_IN_ROUNDS):
        yield paths.BUILT_IN_CORPUS


def _is_copy(file: Path, answers: Path) -> bool:
    is_same_size = file.stat().st_size == answers.stat().st_size
    return is_same_size and (file.samefile(answers) or file_sha256(file) == file_sha256(answers))


def plan_audit(
    audit: Audit[Any],
    inputs: AuditInputs,
    *,
    id_: str,
    subject: str,
    sources: Mapping[str, Path],
    models: Sequence[TargetRecord],
    budget: float,
    seed: int,
    folder: Path,
    shares_device: bool = False,
) -> AuditSpec:
    """Write `inputs` into `folder` and return the spec of an audit. `budget` is in seconds.

    `sources` are the files and directories that the user named, by the name of their option.
    """
    folder.mkdir(exist_ok=True)
    inputs.write(folder)
    return AuditSpec(
        id=id_,
        created_at=time.time(),
        params=audit.params.model_dump(mode="json"),
        paths={name: PathRecord(path=path.resolve(), sha256=content_sha256(path)) for name, path in sources.items()},
        seed=seed,
        shares_device=shares_device,
        network="endpoint" if audit.needs_network else "none",
        budget=budget,
        versions=versions(),
        hardware=hardware(),
        audit=audit.name,
        subject=subject,
        tables=(*audit.tables, FIGURES),
        inputs_sha256=content_sha256(folder),
        models=tuple(models),
    )


@dataclass(frozen=True)
class RecordedOptions:
    """The options of a run, by the name of the option; None where the run used the default."""

    attack: str
    attacks: Path | None
    """The directory of the attack, if it still exists."""
    round: str
    """A name or a file."""
    params: dict[str, str]
    """The text of every parameter, as `--set` takes it."""
    changed: tuple[str, ...]
    """The names of the parameters that were not the attack's defaults."""
    seed: int
    limit: int | None
    guesses_per_example: int | None
    budget: str | None
    target: str | None
    revision: str | None
    reference: str | None
    device: str
    devices: str | None
    shard_target: bool
    dtype: str
    threads: int | None

    @property
    def form_values(self) -> dict[str, str]:
        """The texts of a form: an option by its name with two dashes, a parameter by its name."""
        options = {
            "--round": self.round,
            "--target": self.target,
            "--reference": self.reference,
            "--budget": self.budget,
            "--seed": str(self.seed),
            "--limit": None if self.limit is None else str(self.limit),
            GUESSES_PER_EXAMPLE: None if self.guesses_per_example is None else str(self.guesses_per_example),
            "--device": self.device,
            "--dtype": self.dtype,
        }
        return {**self.params, **{name: text for name, text in options.items() if text is not None}}


def recorded_options(spec: AttackSpec) -> RecordedOptions:
    """Return the options that start a run with this spec again."""
    target, reference, round_ = spec.target, spec.reference, spec.round
    folder = Path(spec.attack.origin.removeprefix(NAMED_FOLDER))
    is_in_folder = spec.attack.origin.startswith(NAMED_FOLDER) and folder.is_dir()
    is_other_target = target is not None and target.id != round_.target
    revision = "main" if is_other_target else round_.revision
    shards = () if target is None else target.shards
    workers, cores = max(1, len(spec.devices)), spec.hardware.get("cores", 0)
    is_threads_default = target is None or target.threads == cores // workers
    return RecordedOptions(
        attack=spec.attack.name,
        attacks=folder if is_in_folder else None,
        round=_round_option(round_),
        params={name: setting_text(value) for name, value in spec.params.items()},
        changed=spec.changed,
        seed=spec.seed,
        limit=spec.examples if spec.is_partial else None,
        guesses_per_example=spec.chosen_guesses,
        budget=None if spec.budget == round_.budget else duration_text(spec.budget),
        target=target.id if target is not None and is_other_target else None,
        revision=target.revision if target is not None and target.revision != revision else None,
        reference=None if reference is None or reference.id == spec.attack.reference_model else reference.id,
        device="auto" if target is None or spec.devices or shards else target.device,
        devices=_devices_option(spec.devices or shards),
        shard_target=bool(shards),
        dtype="auto" if target is None else target.dtype,
        threads=None if target is None or is_threads_default else target.threads * workers,
    )


def _devices_option(devices: tuple[str, ...]) -> str | None:
    """Return the value of `--devices`; None for a run on one device."""
    if not devices:
        return None
    if set(devices) == {"cpu"}:
        return f"cpu:{len(devices)}"
    if cluster_of(devices[0]) is not None:
        return f"{devices[0]}*{len(devices)}"
    return ",".join(device.removeprefix("cuda:") for device in devices)


def _round_option(round_: Round) -> str:
    """Return the value of `--round`: the name of a built-in round, else its file."""
    suffix = "" if round_.fold is None else f":fold{round_.fold.index}of{round_.fold.folds}"
    source = round_.source
    # The file may be a built-in one of an installation that is gone.
    if source is not None and source.exists() and source not in built_in_rounds().values():
        return f"{source}{suffix}"
    return round_.name.removesuffix(suffix) + suffix
