"""Resolve the spec of an attack run or of an audit, and start a run."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core import paths
from harness.core.audit import FIGURES, Audit, Inputs
from harness.core.errors import HarnessError, missing_path
from harness.core.examples import error_cap_of, load_answers, load_prefixes, require_fitting_files
from harness.core.files import file_sha256
from harness.core.inputs import content_sha256, files_in
from harness.core.rounds import Round, built_in_rounds
from harness.core.run_request import AuditRequest, RunRequest
from harness.core.spec import BUILT_IN_TARGETS, PathRecord, TargetRecord
from harness.core.times import parse_duration
from harness.plugins.discovery import NAMED_FOLDER, AttackFile, attack_named, find_attacks
from harness.plugins.schema import ValidatedParams
from harness.runs.folder import RunFolder
from harness.runs.launch import start_job
from harness.runs.machine import hardware, versions
from harness.runs.specs import AttackRecord, AttackSpec, AuditSpec


def plan_attack(
    attack: AttackFile,
    params: ValidatedParams,
    round_: Round,
    target: TargetRecord | None,
    request: RunRequest,
    *,
    reference: TargetRecord | None = None,
    id_: str,
    devices: tuple[str, ...] = (),
    cluster: str | None = None,
    parent: str | None = None,
    batch_sizes: Mapping[str, int] | None = None,
) -> AttackSpec:
    """Return the spec of a run.

    `devices` has one device for each worker, if there are several; they may be nodes of a `cluster`.

    `parent` is the id of a tuning or the name of a group. `batch_sizes` are those of the run that this one repeats.

    Raises HarnessError if a file of the round is absent or does not fit, if the
    round has no examples, if a path parameter is absent, or if a
    path parameter or a model contains the round's answers or a link that leaves its directory.
    """
    for file in (round_.prefix_file, round_.train_prefix_file, round_.train_suffix_file):
        if file is not None and not file.exists():
            raise missing_path(file, advice="`harness data status ROUND` says how to get the files of a round.")
    require_fitting_files(round_)
    round_examples = len(load_prefixes(round_))
    if round_examples == 0:
        raise HarnessError(f"round {round_.name} has no examples. Its prefix file or its fold is empty.")
    answers = load_answers(round_)
    if answers is not None and len(answers) != round_examples:
        raise HarnessError(
            f"{round_.file_with_answers}: {len(answers):,} answers for {round_examples:,} prefixes. Store one for each."
        )
    path_records = {
        name: _path_record(name, params.params[name], round_)
        for name in params.path_params
        if params.params[name] is not None
    }
    for model in filter(None, (target, reference)):
        for path in model.paths:
            _require_no_answers(f"model {model.name}", path, round_)
    return AttackSpec(
        id=id_,
        request=_recorded_request(request, round_, target, reference),
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
        seed=request.seed,
        shares_device=request.share_device or cluster is not None,
        devices=devices,
        cluster=cluster,
        examples=round_examples if request.limit is None else min(request.limit, round_examples),
        round_examples=round_examples,
        round=round_.model_copy(update={"error_cap": error_cap_of(round_), "presets": {}}),
        data_sha256={str(path): file_sha256(path) for path in round_.files if path.exists()},
        target=target,
        reference=reference,
        budget=round_.budget if request.budget is None else parse_duration(request.budget),
        versions=versions(),
        hardware=hardware(),
        batch_sizes=dict(batch_sizes or {}),
    )


def attack_again(folder: RunFolder, attacks: Path | None) -> tuple[AttackFile, Path | None, str]:
    """Return the attack of a recorded run as it is now, its directory, and a sentence if it is not the same any more.

    attacks: the directory that is searched first. If the recorded one or the attack is gone, the run's copy of the
    source is returned. Raises HarnessError if an attack cannot be read.
    """
    spec = folder.attack_spec()
    name, is_gone = spec.attack.name, attacks is not None and attacks == spec.request.attacks and not attacks.is_dir()
    attack = None if is_gone else next((attack for attack in find_attacks(attacks) if attack.name == name), None)
    if attack is None:
        sentence = f"attack {name} was not found, so the source that {folder.id} ran is used."
        return attack_named(name, folder.code), folder.code, sentence
    if attack.sha256 != spec.attack.sha256:
        copy = f"the source that {folder.id} ran, which --attacks {folder.code} uses"
        return attack, attacks, f"{attack.path} differs from {copy}."
    return attack, attacks, ""


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
        raise HarnessError(f"parameter {name}: {missing_path(path, 'file or directory')}")
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
    inputs: Inputs,
    *,
    id_: str,
    subject: str,
    sources: Mapping[str, Path],
    models: Sequence[TargetRecord],
    request: AuditRequest,
    folder: Path,
) -> AuditSpec:
    """Write `inputs` into `folder` and return the spec of an audit.

    `sources` are the files and directories that the user named, by the name of their option.
    """
    folder.mkdir(exist_ok=True)
    inputs.write(folder)
    return AuditSpec(
        id=id_,
        created_at=time.time(),
        params=audit.params.model_dump(mode="json"),
        paths={name: PathRecord(path=path.resolve(), sha256=content_sha256(path)) for name, path in sources.items()},
        seed=request.seed,
        shares_device=request.share_device,
        network="endpoint" if audit.needs_network else "none",
        budget=parse_duration(request.budget),
        versions=versions(),
        hardware=hardware(),
        audit=audit.name,
        subject=subject,
        tables=(*audit.tables, FIGURES),
        inputs_sha256=content_sha256(folder),
        models=tuple(models),
    )


def _recorded_request(
    request: RunRequest, round_: Round, target: TargetRecord | None, reference: TargetRecord | None
) -> RunRequest:
    """Return a request whose paths lead to the same files from every directory."""
    located = {"target": _locate(request.target, target), "reference": _locate(request.reference, reference)}
    if (adapted := next((model for model in (target, reference) if model and model.adapter), None)) is not None:
        located["base"] = _locate(request.base, adapted.model_copy(update={"adapter": None}))
    return request.with_absolute_paths().model_copy(update={**located, "round": _round_option(round_)})


def _locate(name: str | None, model: TargetRecord | None) -> str | None:
    is_folder = model is not None and model.is_folder and name not in BUILT_IN_TARGETS
    return name if name is None or not is_folder else str(paths.expand_home(name).absolute())


def _round_option(round_: Round) -> str:
    """Return the value of `--round`: the name of a built-in round, else its file."""
    suffix = "" if round_.fold is None else f":fold{round_.fold.index}of{round_.fold.folds}"
    source = round_.source
    if source is not None and source not in built_in_rounds().values():
        return f"{source}{suffix}"
    return round_.name.removesuffix(suffix) + suffix
