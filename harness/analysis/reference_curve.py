"""The reference curve of a run: the best other result of an attack on the same round."""

from typing import NamedTuple

from harness.core.arrays import Floats, Ints
from harness.core.errors import HarnessError
from harness.core.examples import load_answers
from harness.core.scoring import DRAWN_POINTS, correct_rows, log_spaced, solved_curve
from harness.runs.attack_record import submission_of
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder, all_run_folders
from harness.runs.guess_reader import GuessReader
from harness.runs.specs import AttackSpec
from harness.runs.summary import RunSummary, run_summary


class ReferenceCurve(NamedTuple):
    """Recall vs. errors of run `id`: recall [points] at each of `errors` [points], and at the cap."""

    id: str
    errors: Ints
    recall: Floats
    recall_at_cap: float


def best_other_curve(attack: str, spec: AttackSpec) -> ReferenceCurve | None:
    """Return the curve of the best complete run of `attack` on the same data, other than the run of `spec`.

    The curve has at most DRAWN_POINTS points. Returns None if there is no such run, the round is blind, or the run of
    `spec` is partial, whose recall is about fewer examples and errors. Raises HarnessError if the record of the best
    run cannot be read.
    """
    if spec.is_partial:
        return None
    answers = load_answers(spec.round)
    best = _best_other_run(attack, spec)
    if best is None or answers is None:
        return None
    folder, summary = best
    with as_harness_error(folder.path):
        with GuessReader.of_run(folder, spec) as reader:
            submission = submission_of(folder.attack_spec(), reader)
        is_correct = correct_rows(submission.ids, submission.suffixes, answers)
        curve = solved_curve(is_correct, submission.ids) / spec.round_examples
    errors = log_spaced(len(curve), most=DRAWN_POINTS)
    return ReferenceCurve(folder.id, errors, curve[errors - 1], summary.recall_at_cap or 0.0)


def _best_other_run(attack: str, spec: AttackSpec) -> tuple[RunFolder, RunSummary] | None:
    others = []
    for folder in all_run_folders():
        try:
            other = folder.attack_spec()
            is_comparable = (
                other.attack.name == attack
                and other.id != spec.id
                and other.round.name == spec.round.name
                and other.data_sha256 == spec.data_sha256
                and not other.is_partial
            )
            if is_comparable and (summary := run_summary(folder)).known_recall is not None:
                others.append((folder, summary))
        except HarnessError:
            continue  # a run that cannot be read is no reference
    return max(others, key=lambda run: run[1].recall_at_cap or 0.0, default=None)
