"""The prefixes, answers and round that submissions are judged by."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from harness.core.arrays import Ints, Tokens, mapped_array, token_rows
from harness.core.errors import HarnessError, missing_path
from harness.core.examples import load_answers, load_clusters, load_prefixes
from harness.core.files import open_regular
from harness.core.intervals import JudgedRows
from harness.core.rounds import Round
from harness.core.scoring import Score, correct_rows, score_rows
from harness.core.submission_reader import SubmissionRows, SubmissionRules
from harness.core.windows import cluster_ids


def read_prefixes(path: Path, *, length: int, vocabulary: int) -> Tokens:
    """Read prefixes [examples, length] from a .npy file, or from a .npz with an array `prefixes` or a single array.

    An example's id is its row. Raises HarnessError if there is no prefix, or one is not `length` token ids below
    `vocabulary`.
    """
    if path.suffix.lower() == ".npz":
        arrays = read_archive(path, ("prefixes", "prefix"))
        if len(arrays) != 1:
            raise HarnessError(f"{path}: none of its {len(arrays)} arrays is named `prefixes`. Rename one.")
        (array,) = arrays.values()
    elif path.suffix.lower() == ".npy":
        array = mapped_array(path)
    else:
        raise HarnessError(f"{path}: prefixes must be a .npy or .npz file.")
    prefixes = token_rows(path, length=length, vocabulary=vocabulary, array=array)
    if len(prefixes) == 0:
        raise HarnessError(f"{path}: contains no prefixes. Name another file.")
    return prefixes


def read_archive(path: Path, preferred_names: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a .npz called `preferred_names`, by name, or all if it contains none of these.

    Raises HarnessError if the file is not a .npz, or a returned entry is not a plain array: the file may be hostile.
    """
    try:
        with open_regular(path) as file:
            archive = np.load(file, allow_pickle=False)
            names = archive.files if isinstance(archive, NpzFile) else []
            arrays = {name: archive[name] for name in [name for name in preferred_names if name in names] or names}
    except HarnessError:
        raise
    except FileNotFoundError:
        raise missing_path(path) from None
    except MemoryError:
        raise HarnessError(f"{path}: an array does not fit into memory. Use a machine with more memory.") from None
    except Exception:  # zipfile, zlib, struct, tokenize and numpy have their own errors for a damaged archive
        arrays = {}
    if not arrays or not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise HarnessError(f"{path}: not a .npz file of plain arrays. Save it with numpy.savez().")
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
    truth = load_answers(round_) if prefixes is None else None
    if answers is not None:
        truth = token_rows(answers, length=round_.suffix_length, vocabulary=round_.vocabulary)
        if len(truth) != len(attacked):
            raise HarnessError(f"{answers}: {len(truth):,} answers for {len(attacked):,} prefixes. Store one for each.")
    clusters = None
    if truth is not None and prefixes is None:
        clusters = load_clusters(round_, truth)
    elif truth is not None and round_.clusters == "computed":
        clusters = cluster_ids([np.concatenate([attacked, truth], axis=1)])
    return JudgingData(round_, attacked, truth, clusters)
