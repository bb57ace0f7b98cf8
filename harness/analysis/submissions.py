"""A submission, from a file or from a run, with the answers to score it against."""

from pathlib import Path
from typing import NamedTuple

from harness.core.arrays import Ints, Tokens, mapped_array, token_rows
from harness.core.errors import HarnessError, UsageError, missing_path
from harness.core.examples import error_cap_of, load_answers, load_clusters
from harness.core.paths import is_file_name
from harness.core.rounds import load_round
from harness.core.scoring import Score, correct_rows, score_rows
from harness.core.submission_reader import SubmissionRules, read_submission, vocabulary_of
from harness.runs.attack_record import submission_now
from harness.runs.folder import RunFolder, all_run_folders, run_folder
from harness.runs.specs import AttackSpec

DEFAULT_CAP = 100
CHALLENGE_EXAMPLES = 1000
"""Examples of a round of the challenge. Its scorer takes the last rows of the answers, as many as this."""


class AnsweredSubmission(NamedTuple):
    """A submission and the answers to score it against."""

    name: str
    ids: Ints
    """[rows]."""
    suffixes: Tokens
    """[rows, suffix length]."""
    answers: Tokens
    """[examples, suffix length]."""
    clusters: Ints | None
    """[examples], None if they are unknown."""
    cap: int
    note: str = ""
    """A sentence about how the answers were chosen, or empty."""

    def score(self) -> Score:
        """Return the score."""
        return score_rows(
            correct_rows(self.ids, self.suffixes, self.answers),
            self.ids,
            cap=self.cap,
            examples=len(self.answers),
            clusters=self.clusters,
        )


def find_submission(
    source: str, *, answers: Path | None, last: int | None, cap: int | None, round_name: str | None
) -> AnsweredSubmission:
    """Return the submission that `source`, a CSV file or a run, names, with the answers that the options name.

    answers: a file with one row per example, of which only the last `last` count; without `last`, the last 1,000 if all
    ids of a CSV file are below 1,000, else all.
    round_name: the round whose answers and rules are used.
    cap: wrong rows at which scoring stops, None for the round's.
    Raises UsageError if the options contradict each other, and HarnessError if something is missing or does not fit.
    """
    if answers is not None and round_name is not None:
        raise UsageError("--answers and --round exclude each other. Use one of them.")
    if last is not None and answers is None:
        raise UsageError("--last selects rows of --answers. Add --answers, or remove --last.")
    if not is_file_name(source, (".csv",)):
        if Path(source).suffix and not any(folder.id.startswith(source) for folder in all_run_folders()):
            raise missing_path(Path(source))
        if round_name is not None:
            raise UsageError("a run is scored on the round that it attacked. Remove --round.")
        return submission_of_run(run_folder(source, AttackSpec), answers, last, cap)
    if answers is not None:
        return _from_answers(Path(source), answers, last, cap)
    if round_name is not None:
        return _from_round(Path(source), round_name, cap)
    raise UsageError("a CSV file is scored with --answers NPY or --round ROUND. Add one of them.")


def submission_of_run(
    folder: RunFolder, answers: Path | None = None, last: int | None = None, cap: int | None = None
) -> AnsweredSubmission:
    """Return a run's submission, made from its record. `answers` are for a round that was blind when it ran."""
    spec = folder.attack_spec()
    truth = load_answers(spec.round) if answers is None else _read_answers(answers, last)
    if truth is None:
        raise HarnessError(f"round {spec.round.name} is blind. Score {folder.id} with --answers NPY.")
    if truth.shape != (spec.round_examples, spec.round.suffix_length):
        source = spec.round.file_with_answers if answers is None else answers
        remedy = "The file has changed since the run." if answers is None else "--last selects rows."
        raise HarnessError(
            f"{source}: answers of shape {list(truth.shape)}, but {folder.id} attacked {spec.round_examples} examples "
            f"with suffixes of {spec.round.suffix_length} tokens. {remedy}"
        )
    clusters = load_clusters(spec.round, truth)
    submission = submission_now(folder)
    attacked = slice(0, spec.examples)
    clusters = None if clusters is None else clusters[attacked]
    return AnsweredSubmission(
        folder.id, submission.ids, submission.suffixes, truth[attacked], clusters, cap or spec.error_cap
    )


def _from_answers(path: Path, answers: Path, last: int | None, cap: int | None) -> AnsweredSubmission:
    truth = _read_answers(answers, last)
    rules = SubmissionRules(examples=len(truth), suffix_length=truth.shape[1], vocabulary=vocabulary_of(truth))
    submission = read_submission(path, rules)
    note = ""
    if last is None and len(truth) > CHALLENGE_EXAMPLES > submission.ids.max(initial=0):
        note = (
            f"Scored against the last {CHALLENGE_EXAMPLES:,} of {len(truth):,} answers, as the official scorer does: "
            f"every example id is below {CHALLENGE_EXAMPLES:,}. Use --last {len(truth)} to count ids from the "
            "first answer."
        )
        truth = truth[-CHALLENGE_EXAMPLES:]
    return AnsweredSubmission(path.name, submission.ids, submission.suffixes, truth, None, cap or DEFAULT_CAP, note)


def _from_round(path: Path, name: str, cap: int | None) -> AnsweredSubmission:
    round_ = load_round(name)
    answers = load_answers(round_)
    if answers is None:
        raise HarnessError(f"round {round_.name} is blind: it has no answers to score against. Use --answers NPY.")
    rules = SubmissionRules(len(answers), round_.suffix_length, round_.vocabulary, round_.row_cap)
    submission = read_submission(path, rules)
    clusters = load_clusters(round_)
    return AnsweredSubmission(
        path.name, submission.ids, submission.suffixes, answers, clusters, cap or error_cap_of(round_)
    )


def _read_answers(path: Path, last: int | None) -> Tokens:
    """Return the last rows (None: all rows) of an answers file, [examples, suffix length]."""
    array = mapped_array(path)
    if array.ndim != 2 or 0 in array.shape:
        raise HarnessError(f"{path}: expected answers of shape [examples, tokens], found {list(array.shape)}.")
    if last is not None and last > len(array):
        raise HarnessError(f"{path} has {len(array)} rows. Lower --last {last}.")
    return token_rows(path, length=None, vocabulary=1 << 32, rows=(len(array) - (last or len(array)), len(array)))
