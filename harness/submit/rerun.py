"""A bundle's code on prefixes that it may never have seen: the round laid out for a run, and that run's two files."""

import contextlib
import hashlib
import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.core import paths
from harness.core.arrays import Floats, Ints, Tokens
from harness.core.errors import HarnessError
from harness.core.files import atomic_file, file_sha256, write_atomically
from harness.core.rounds import Round, load_round
from harness.core.submission import write_submission
from harness.core.text import shorten
from harness.jobs.attack.results import submission_with_scores
from harness.plugins.discovery import AttackFile, attack_named
from harness.plugins.schema import ValidatedParams
from harness.runs.folder import RunFolder, all_run_folders
from harness.runs.status import Status
from harness.runs.summary import run_status
from harness.submit.code import TRAIN
from harness.submit.code_spec import ROUND, CodeSpec, toml_of
from harness.submit.prefixes import archived_array, opened_archive, read_prefixes, tokens_sha256

SCORES = "scores.csv"
_MAX_ROUND_BYTES = 1 << 20
_MOST_SCORE_BYTES = 64
_ENDED = (Status.FINISHED, Status.OUT_OF_TIME)


class LaidOut(NamedTuple):
    """What a run of a bundle's code begins with."""

    attack: AttackFile
    params: ValidatedParams
    round: Round


def laid_out(code: Path, spec: CodeSpec, prefixes_file: Path) -> LaidOut:
    """The round of the prefixes in a file, with the bundle's rules and training rows, below the harness's own state.

    The same code and prefixes are laid out in the same place, so that an interrupted run is found again. Raises
    HarnessError when the prefixes do not fit, or a file of the code is not what its spec says.
    """
    attack = attack_named(spec.attack.name, code / "attack")
    if attack.sha256 != spec.attack.sha256:
        raise HarnessError(f"{attack.path}: not the source that the bundle's spec names.")
    rules = round_of_code(code)
    prefixes = read_prefixes(prefixes_file, length=rules.prefix_length, vocabulary=rules.vocabulary)
    identity = (
        f"{file_sha256(code / 'spec.json')} {file_sha256(code / ROUND)} {tokens_sha256(prefixes, rules.vocabulary)}"
    )
    folder = paths.state_home() / "reruns" / hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_array(folder / "prefixes.npy", prefixes)
    files = {"prefix_file": "prefixes.npy"}
    if spec.trains:
        files |= _lay_training(code / TRAIN, folder)
    fields = rules.model_dump(mode="json", exclude_none=True, exclude={"source", "prefix_file"})
    write_atomically(folder / ROUND, toml_of(fields | files))
    named = {name: str(_laid_path(code, name)) for name in spec.paths}
    return LaidOut(attack, ValidatedParams(spec.params | named, tuple(named)), load_round(str(folder / ROUND)))


def unfinished_run(laid: LaidOut) -> RunFolder | None:
    """The newest run of what is laid out that has not come to its end; it is gone on with, not begun anew."""
    for folder in all_run_folders():
        # A run that cannot be read is not gone on with.
        with contextlib.suppress(HarnessError):
            spec = folder.spec()
            is_same = spec.round == laid.round and spec.attack.sha256 == laid.attack.sha256
            if is_same and run_status(folder) not in _ENDED:
                return folder
    return None


def write_outcome(folder: RunFolder, out: Path) -> Path:
    """Write the run's submission to `out` and scores.csv beside it; the latter's path.

    scores.csv has a row for each of the submission's, in its order: `Example ID,Score`. Where the attack gave its order
    whole, the score is less the row's place.
    """
    submission, scores = submission_with_scores(folder)
    write_submission(out, submission.ids, submission.suffixes)
    beside = out.parent / SCORES
    with atomic_file(beside) as file:
        file.write(b"Example ID,Score\n")
        for id_, score in zip(submission.ids.tolist(), scores.tolist(), strict=True):
            file.write(f"{id_},{score!r}\n".encode())
    return beside


def read_scores(path: Path, rows: int) -> tuple[Ints, Floats]:
    """Ids and scores of the scores.csv at `path`, [rows] each. Raises HarnessError unless it has so many of both."""
    try:
        # A stranger's code may have left anything under this name: opening a FIFO would wait for ever.
        if not path.is_file():
            raise HarnessError(f"{path}: no such file.")
        if path.stat().st_size > _MOST_SCORE_BYTES * (rows + 1):
            raise HarnessError(f"{path}: longer than {rows:,} scores are.")
        lines = path.read_text(encoding="ascii").splitlines()
        pairs = [line.split(",") for line in lines[1:]]
        ids = np.array([int(id_) for id_, _ in pairs], np.int64)
        scores = np.array([float(score) for _, score in pairs], np.float64)
    except (OSError, ValueError, OverflowError):
        raise HarnessError(f"{path}: not `Example ID,Score` rows.") from None
    if len(ids) != rows:
        raise HarnessError(f"{path}: {len(ids):,} scores beside {rows:,} rows.")
    return ids, scores


def round_of_code(code: Path) -> Round:
    """The bundle's round, which names no file: its prefixes are yet to be laid beside it."""
    path = code / ROUND
    try:
        if path.stat().st_size > _MAX_ROUND_BYTES:
            raise HarnessError(f"{path}: larger than any round file.")
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
        return Round.model_validate(fields | {"prefix_file": code / "prefixes.npy", "target": "of the bundle"})
    except (OSError, ValueError, RecursionError) as error:
        reason = shorten(str(error).partition("\n")[0], 120)
        raise HarnessError(f"{path}: not the rules of a round ({reason}); name the folder code/ of a bundle.") from None


def _lay_training(archive: Path, folder: Path) -> dict[str, str]:
    with opened_archive(archive) as arrays:
        for name in arrays.files:
            if name in ("prefixes", "suffixes", "preprefixes"):
                _write_array(folder / f"train_{name}.npy", archived_array(arrays, name))
        names = set(arrays.files)
    if not {"prefixes", "suffixes"} <= names:
        raise HarnessError(f"{archive}: lacks the training prefixes or suffixes.")
    laid = {"train_prefix_file": "train_prefixes.npy", "train_suffix_file": "train_suffixes.npy"}
    return laid | ({"train_preprefix_file": "train_preprefixes.npy"} if "preprefixes" in names else {})


def _write_array(path: Path, array: Tokens) -> None:
    with atomic_file(path) as file:
        np.save(file, array)


def _laid_path(code: Path, name: str) -> Path:
    """What a path parameter named, as it lies in the bundle."""
    folder = code / "paths" / name
    if (folder / "folder").is_dir():
        return folder / "folder"
    files = sorted((folder / "file").glob("*")) if (folder / "file").is_dir() else []
    if len(files) != 1:
        raise HarnessError(f"{folder}: what the parameter {name} named is not there.")
    return files[0]
