"""Run a bundle's code on new prefixes, and read the prefixes and answers that submissions are judged by."""

import contextlib
import hashlib
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tokenize import TokenError
from typing import NamedTuple

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray
from pydantic import ValidationError

from harness.core import paths
from harness.core.arrays import Floats, Ints, Tokens, check_tokens, mapped_array, token_rows, tokens_sha256
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_clusters, load_prefixes
from harness.core.files import atomic_file, file_sha256, require_content, write_atomically
from harness.core.inputs import check_plain_files, first_fault, read_bounded_text, read_bounded_toml
from harness.core.intervals import JudgedRows
from harness.core.rounds import Round, load_round
from harness.core.scoring import Score, correct_rows, score_rows
from harness.core.submission import write_submission
from harness.core.submission_reader import SubmissionRows, SubmissionRules
from harness.core.windows import cluster_ids
from harness.plugins.discovery import AttackFile, attack_named
from harness.plugins.schema import ValidatedParams
from harness.runs.attack_record import submission_now
from harness.runs.folder import RunFolder, attack_runs
from harness.runs.summary import run_status
from harness.submit.code_folder import FIELDS_NOT_IN_RULES, ROUND, SPEC, TRAIN, CodeSpec, to_toml

# What zipfile, zlib and numpy raise for a damaged archive.
_ARCHIVE_ERRORS = (
    *(OSError, EOFError, ValueError, RuntimeError, SyntaxError),
    *(TokenError, struct.error, zlib.error, zipfile.BadZipFile),
)


def read_prefixes(path: Path, *, length: int, vocabulary: int) -> Tokens:
    """Read prefixes [examples, length] from a .npy file, or from a .npz with an array `prefixes` or a single array.

    An example's id is its row. Raises HarnessError if there is no prefix, or one is not `length` token ids below
    `vocabulary`.
    """
    if path.suffix.lower() == ".npz":
        arrays = read_archive(path, ("prefixes", "prefix"))
        if len(arrays) != 1:
            raise HarnessError(f"{path}: contains {len(arrays)} arrays, none of them named `prefixes`.")
        (array,) = arrays.values()
    elif path.suffix.lower() == ".npy":
        array = mapped_array(path)
    else:
        raise HarnessError(f"{path}: prefixes must be a .npy or .npz file.")
    prefixes = check_tokens(array, path, length=length, vocabulary=vocabulary)
    if len(prefixes) == 0:
        raise HarnessError(f"{path}: contains no prefixes.")
    return prefixes


def read_archive(path: Path, wanted: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a .npz that are `wanted`, by name, or all if it contains none of these.

    Raises HarnessError if the file is not a .npz, or a returned entry is not a plain array: the file may be hostile.
    """
    require_content(path)
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            names = archive.files if isinstance(archive, NpzFile) else []
            arrays = {name: archive[name] for name in [name for name in wanted if name in names] or names}
    except FileNotFoundError:
        raise HarnessError(f"{path}: no such file.") from None
    except MemoryError:
        raise HarnessError(f"{path}: contains an array that does not fit into memory.") from None
    except _ARCHIVE_ERRORS:
        arrays = {}
    if not arrays or not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise HarnessError(f"{path}: not a .npz file of plain arrays.")
    return arrays


@dataclass(frozen=True)
class JudgingData:
    """The round and the data that submissions are scored by.

    `prefixes` [examples, prefix length], `answers` [examples, suffix length] or None if they are unknown, `clusters`
    [examples] or None. A submission must be for these prefixes.
    """

    round: Round
    prefixes: Tokens
    answers: Tokens | None
    clusters: Ints | None

    @property
    def submission_rules(self) -> SubmissionRules:
        """The rules that a submission must follow."""
        rules = self.round
        return SubmissionRules(len(self.prefixes), rules.suffix_length, rules.vocabulary, rules.row_cap)

    def judge(self, submission: SubmissionRows) -> tuple[JudgedRows, Score] | None:
        """Return the judged rows of a submission and their score, or None if the answers are unknown."""
        if self.answers is None:
            return None
        judged = JudgedRows(correct_rows(submission.ids, submission.suffixes, self.answers), submission.ids)
        return judged, score_rows(*judged, cap=self.round.error_cap, examples=len(self.answers), clusters=self.clusters)


def load_judging_data(round_: Round, *, prefixes: Path | None = None, answers: Path | None = None) -> JudgingData:
    """Return the data of a round. The files `prefixes` and `answers` replace those of the round.

    Answers of the round are not used for other prefixes. Raises HarnessError if a file cannot be read or does not fit.
    """
    attacked = (
        load_prefixes(round_)
        if prefixes is None
        else read_prefixes(prefixes, length=round_.prefix_length, vocabulary=round_.vocabulary)
    )
    known = load_answers(round_) if prefixes is None else None
    if answers is not None:
        known = token_rows(answers, length=round_.suffix_length, vocabulary=round_.vocabulary)
        if len(known) != len(attacked):
            raise HarnessError(f"{answers}: {len(known):,} answers for {len(attacked):,} prefixes.")
    clusters = None
    if known is not None and prefixes is None:
        clusters = load_clusters(round_, known)
    elif known is not None and round_.clusters == "computed":
        clusters = cluster_ids([np.concatenate([attacked, known], axis=1)])
    return JudgingData(round_, attacked, known, clusters)


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
    with atomic_file(out, is_private=False) as file:
        write_submission(file, submission.ids, submission.suffixes)
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
        raise HarnessError(f"{path}: {len(scores):,} scores for {rows:,} rows.")
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
