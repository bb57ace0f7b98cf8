"""A run resolved before any clock starts: every input found, hashed and checked, or refused in a sentence."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core import paths
from harness.core.audit import FIGURES, Audit, AuditInputs
from harness.core.errors import HarnessError
from harness.core.examples import error_cap_of, load_answers, load_prefixes, require_fitting_files
from harness.core.files import file_sha256
from harness.core.rounds import Round, load_round
from harness.jobs.attack.spec import AttackRecord, AttackSpec
from harness.jobs.audit.spec import AuditSpec
from harness.core.spec import PathRecord, TargetRecord
from harness.core.text import shorten
from harness.plugins.discovery import AttackFile
from harness.plugins.schema import ValidatedParams
from harness.runs.machine import hardware, versions

_MAX_FILES_IN_A_PATH = 100_000


def planned_run(
    attack: AttackFile,
    params: ValidatedParams,
    round_: Round,
    target: TargetRecord | None,
    *,
    id_: str,
    budget: float,
    seed: int,
    limit: int | None,
) -> AttackSpec:
    """Everything about a run, resolved. `budget` is in seconds, `limit` keeps the first examples.

    Raises HarnessError when the attack wants a network, when a file of the round's is not here or does not fit, when it
    has no examples, or when a parameter's path is absent or holds the round's answers.
    """
    if attack.network != "none":
        raise HarnessError(
            f"{attack.path}: declares network = {attack.network!r}; an attack runs without one, only an audit may ask."
        )
    for file in (round_.prefix_file, round_.train_prefix_file, round_.train_suffix_file):
        if file is not None and not file.exists():
            raise HarnessError(f"{file}: no such file; harness data status says how to get a shipped round's.")
    require_fitting_files(round_)
    round_examples = len(load_prefixes(round_))
    if round_examples == 0:
        raise HarnessError(f"round {round_.name} has no examples to attack; its prefix file is empty, or its fold.")
    answers = load_answers(round_)
    if answers is not None and len(answers) != round_examples:
        raise HarnessError(
            f"{round_.file_with_answers}: {len(answers):,} answers beside {round_examples:,} attacked prefixes."
        )
    round_ = round_.model_copy(update={"error_cap": error_cap_of(round_)})
    path_records = {
        name: _recorded_path(name, params.params[name], round_)
        for name in params.path_params
        if params.params[name] is not None
    }
    return AttackSpec(
        id=id_,
        created_at=time.time(),
        attack=AttackRecord(
            name=attack.name,
            origin=attack.origin,
            file=attack.path.name,
            sha256=attack.sha256,
            reference=attack.reference,
            control=attack.control,
            uses_target=attack.uses_target,
            guesses_per_example=attack.guesses_per_example,
            requires=attack.requires,
            models=attack.models,
        ),
        params=params.params | {name: str(record.path) for name, record in path_records.items()},
        paths=path_records,
        seed=seed,
        examples=round_examples if limit is None else min(limit, round_examples),
        round_examples=round_examples,
        round=round_,
        data_sha256={str(path): file_sha256(path) for path in round_.files if path.exists()},
        target=target,
        budget=budget,
        versions=versions(),
        hardware=hardware(),
    )


def planned_audit(
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
) -> AuditSpec:
    """Everything about an audit, resolved; `inputs` are written into `folder`. `budget` is in seconds.

    sources: what the user named, file or folder, by the name of its option; each is recorded with its hash.
    """
    folder.mkdir(exist_ok=True)
    inputs.write(folder)
    return AuditSpec(
        id=id_,
        created_at=time.time(),
        params=audit.params.model_dump(mode="json"),
        paths={name: PathRecord(path=path.resolve(), sha256=_content_sha256(path)) for name, path in sources.items()},
        seed=seed,
        network="endpoint" if audit.needs_network else "none",
        budget=budget,
        versions=versions(),
        hardware=hardware(),
        audit=audit.name,
        subject=subject,
        tables=(*audit.tables, FIGURES),
        inputs_sha256=_content_sha256(folder),
        models=tuple(models),
    )


def what_changed_of_audit(spec: AuditSpec, inputs: Path, weights_sha256: Sequence[str | None]) -> list[str]:
    """Names of the audit's inputs that are no longer what its record says; `weights_sha256` is each model's, now."""
    changed = []
    if not inputs.is_dir() or _content_sha256(inputs) != spec.inputs_sha256:
        changed.append(f"what it measures with, {inputs},")
    for model, now in zip(spec.models, weights_sha256, strict=True):
        if now != model.weights_sha256:
            changed.append(f"the weights of {model.id}")
    return changed


def what_changed(spec: AttackSpec, code: Path, weights_sha256: str | None) -> list[str]:
    """Names of the run's inputs that are no longer what its record says: code, round, data files, paths, weights."""
    changed = []
    if not code.exists() or file_sha256(code) != spec.attack.sha256:
        changed.append(f"the attack's source {code}")
    if spec.round.source is not None and not _is_as_recorded(spec.round):
        changed.append(f"the round in {spec.round.source}")
    for name, recorded in spec.data_sha256.items():
        if not Path(name).exists() or file_sha256(Path(name)) != recorded:
            changed.append(f"the round's file {name}")
    for name, record in spec.paths.items():
        if not record.path.exists() or _content_sha256(record.path) != record.sha256:
            changed.append(f"the parameter {name}'s {record.path}")
    if spec.target is not None and weights_sha256 != spec.target.weights_sha256:
        changed.append(f"the weights of {spec.target.id}")
    return changed


def _is_as_recorded(recorded: Round) -> bool:
    """The round's file says what the record says, apart from a fold's cap, which follows from its data, and from where
    the answers lie that a blind round awaits."""
    assert recorded.source is not None
    try:
        now = load_round(str(recorded.source))
    except HarnessError:
        return False
    if recorded.fold is not None:
        now = now.derived_fold(recorded.fold.index, recorded.fold.folds)
    apart = {"error_cap"} if recorded.fold is not None else set()
    apart |= {"answer_file"} if recorded.is_blind else set()
    return now.model_dump(exclude=apart) == recorded.model_dump(exclude=apart)


def _recorded_path(name: str, value: Any, round_: Round) -> PathRecord:
    if not isinstance(value, str):
        raise HarnessError(
            f"parameter {name}: one path is what a run can record; several need a folder that holds them."
        )
    path = paths.expand_home(value).absolute()
    if not path.exists():
        raise HarnessError(f"parameter {name}: {shorten(str(path), 120)}: no such file or folder.")
    path = path.resolve()
    for file in _files_in(path):
        if _holds_answers(file, round_):
            raise HarnessError(f"parameter {name}: {file} holds the round's answers; an attack may not read it.")
    return PathRecord(path=path, sha256=_content_sha256(path))


def _holds_answers(file: Path, round_: Round) -> bool:
    answers = round_.file_with_answers
    if answers is None or not answers.exists():
        return False
    if file.samefile(answers):
        return True
    return file.stat().st_size == answers.stat().st_size and file_sha256(file) == file_sha256(answers)


def _files_in(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.is_file())
    if len(files) > _MAX_FILES_IN_A_PATH:
        raise HarnessError(f"{path}: holds more than {_MAX_FILES_IN_A_PATH:,} files; name a smaller folder.")
    return files


def _content_sha256(path: Path) -> str:
    """The hash of a file, or of a folder's relative names and hashes."""
    if path.is_file():
        return file_sha256(path)
    lines = (f"{file_sha256(file)}  {file.relative_to(path)}\n" for file in _files_in(path))
    return hashlib.sha256("".join(lines).encode()).hexdigest()
