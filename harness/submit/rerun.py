"""Run a bundle's code on new prefixes."""

import contextlib
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from harness.core import paths
from harness.core.arrays import Floats, tokens_sha256
from harness.core.errors import HarnessError
from harness.core.faults import first_fault
from harness.core.files import atomic_file, file_sha256, write_atomically, write_export
from harness.core.inputs import check_plain_files, read_bounded_text, read_bounded_toml
from harness.core.rounds import Round, load_round
from harness.core.submission import submission_bytes
from harness.plugins.discovery import AttackFile, attack_named
from harness.plugins.schema import ValidatedParams
from harness.runs.attack_record import submission_now
from harness.runs.folder import RunFolder, attack_runs
from harness.runs.summary import run_status
from harness.submit.code_folder import TRAIN
from harness.submit.code_spec import FIELDS_NOT_IN_RULES, ROUND, SPEC, CodeSpec, to_toml
from harness.submit.judging import read_archive, read_prefixes

SCORES = "scores.csv"
_MAX_ROUND_BYTES = 1 << 20
_MAX_SCORE_BYTES = 64


class RerunPlan(NamedTuple):
    """The inputs of a run of a bundle's code."""

    attack: AttackFile
    params: ValidatedParams
    round: Round


def prepare_rerun(code: Path, spec: CodeSpec, prefixes_file: Path) -> RerunPlan:
    """Write the round for the prefixes in a file, with the bundle's rules and training rows.

    The round is stored below the harness's state directory. Equal code and prefixes share a folder, so that an
    interrupted run is found again. Raises HarnessError if the prefixes do not fit, a file of the code does not match
    its spec, or something in `code` is a link.
    """
    check_plain_files(code)
    attack = attack_named(spec.attack.name, code / "attack")
    if attack.sha256 != spec.attack.sha256:
        raise HarnessError(f"{attack.path}: differs from the source that the bundle's spec names.")
    attack = replace(attack, guesses_per_example=spec.attack.guesses_per_example)
    rules = read_round_rules(code)
    prefixes = read_prefixes(prefixes_file, length=rules.prefix_length, vocabulary=rules.vocabulary)
    hashes = (file_sha256(code / SPEC), file_sha256(code / ROUND), tokens_sha256(prefixes, rules.vocabulary))
    folder = paths.state_home() / "reruns" / hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_array(folder / "prefixes.npy", prefixes)
    files = {"prefix_file": "prefixes.npy"}
    if spec.trains:
        files |= _write_training(code / TRAIN, folder)
    fields = rules.model_dump(mode="json", exclude_none=True, exclude={"source", "prefix_file"})
    write_atomically(folder / ROUND, to_toml(fields | files))
    path_params = {name: str(_path_in_bundle(code, name)) for name in spec.paths}
    params = ValidatedParams(spec.params | path_params, tuple(path_params))
    return RerunPlan(attack, params, load_round(str(folder / ROUND)))


def unfinished_run(plan: RerunPlan) -> RunFolder | None:
    """Return the newest run of this plan that can be resumed, or None."""
    for folder, spec in attack_runs():
        is_same = spec.round == plan.round and spec.attack.sha256 == plan.attack.sha256
        # A run that cannot be read is not resumed.
        with contextlib.suppress(HarnessError):
            if is_same and not run_status(folder).is_complete:
                return folder
    return None


def write_rerun_results(folder: RunFolder, out: Path) -> Path:
    """Write the run's submission to `out` and scores.csv next to it. Return the path of scores.csv.

    scores.csv has one row `Example ID,Score` for each row of the submission. If the attack set the whole order, a score
    is minus the row's place.
    """
    submission = submission_now(folder)
    write_export(out, submission_bytes(submission.ids, submission.suffixes))
    path = out.parent / SCORES
    with atomic_file(path, is_private=False) as file:
        file.write(b"Example ID,Score\n")
        for id_, score in zip(submission.ids.tolist(), submission.guesses.score.tolist(), strict=True):
            file.write(f"{id_},{score!r}\n".encode())
    return path


def read_scores(path: Path, rows: int) -> Floats:
    """Read the scores, [rows], in scores.csv. Raises HarnessError unless it has `rows` valid rows."""
    text = read_bounded_text(path, limit=_MAX_SCORE_BYTES * (rows + 1))
    try:
        pairs = [line.split(",") for line in text.splitlines()[1:]]
        scores = np.array([float(score) for _, score in pairs], np.float64)
    except ValueError:
        raise HarnessError(f"{path}: expected `Example ID,Score` rows.") from None
    if len(scores) != rows:
        raise HarnessError(f"{path}: {len(scores):,} scores for {rows:,} rows, expected one per row.")
    return scores


def read_round_rules(code: Path) -> Round:
    """Read round.toml in the folder `code` of a bundle. The round's prefix file does not exist yet."""
    path = code / ROUND
    fields = read_bounded_toml(path, limit=_MAX_ROUND_BYTES)
    # A path could name any file of the machine that runs the code again.
    if unknown := fields.keys() & FIELDS_NOT_IN_RULES:
        raise HarnessError(f"{path}: not the rules of a round ({min(unknown)}: unknown field).")
    try:
        return Round.model_validate(fields | {"prefix_file": code / "prefixes.npy", "target": "of the bundle"})
    except ValidationError as error:
        raise HarnessError(f"{path}: not the rules of a round ({first_fault(error)}).") from None


def _write_training(archive: Path, folder: Path) -> dict[str, str]:
    """Write the training arrays to `folder`, and return the fields of the round that name them."""
    fields = {"prefixes": "train_prefix_file", "suffixes": "train_suffix_file", "preprefixes": "train_preprefix_file"}
    arrays = read_archive(archive, list(fields))
    if not {"prefixes", "suffixes"} <= arrays.keys():
        raise HarnessError(f"{archive}: the training prefixes or suffixes are missing.")
    names = [name for name in fields if name in arrays]
    for name in names:
        _write_array(folder / f"train_{name}.npy", arrays[name])
    return {fields[name]: f"train_{name}.npy" for name in names}


def _write_array(path: Path, array: NDArray[np.generic]) -> None:
    with atomic_file(path) as file:
        np.save(file, array)


def _path_in_bundle(code: Path, name: str) -> Path:
    """Return the file or folder in the bundle that a path parameter named."""
    folder = code / "paths" / name
    if (folder / "folder").is_dir():
        return folder / "folder"
    files = sorted((folder / "file").glob("*")) if (folder / "file").is_dir() else []
    if len(files) != 1:
        raise HarnessError(f"{folder}: the file of the parameter {name} is missing.")
    return files[0]
