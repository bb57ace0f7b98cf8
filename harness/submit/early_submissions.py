"""The submission of a run after 1 %, 10 % and 100 % of the round's budget, as files of a bundle.

A leaderboard scores them with the organizers' answers, so they also serve a blind round. The times are the team's own.
"""

from collections.abc import Sequence

from harness.analysis.replay import BUDGET_SHARES
from harness.core.calibration import P100, BudgetMachine, TimeScale
from harness.core.submission import submission_bytes
from harness.jobs.attack.reader import GuessReader
from harness.jobs.attack.results import submission_after
from harness.jobs.attack.spec import AttackSpec
from harness.runs.calibration import time_scale
from harness.runs.folder import RunFolder
from harness.runs.reader import Point
from harness.submit.manifest import SUBMISSION, EarlySubmission


def early_submissions(folder: RunFolder, spec: AttackSpec) -> tuple[list[EarlySubmission], dict[str, bytes]]:
    """Return what the manifest says about the early submissions of a run, and the content of their files.

    The budget is that of the round; one in wall seconds is taken as one of a P100. A share at which the run has made
    its whole submission names the file of that. Both are empty if the machine of the run is not calibrated.
    """
    machine = spec.round.budget_machine or P100
    listed: list[EarlySubmission] = []
    files: dict[str, bytes] = {}
    with GuessReader.of_run(folder, spec) as reader:
        scale, points = time_scale(reader, spec.budget_machine), reader.points()
        if scale.standard(0.0, machine) is None:
            return listed, files
        for share in BUDGET_SHARES:
            seconds = share * spec.round.budget
            is_whole, guesses = _arrived(points, scale, seconds, machine=machine)
            name = SUBMISSION if is_whole else f"early/{share * 100:.0f}-percent.csv"
            if not is_whole:
                early = submission_after(spec, reader, guesses)
                files[name] = submission_bytes(early.ids, early.suffixes)
            listed.append(EarlySubmission(share=share, standard_s=seconds, file=name))
    return listed, files


def _arrived(points: Sequence[Point], scale: TimeScale, seconds: float, *, machine: BudgetMachine) -> tuple[bool, int]:
    """Return whether all guesses had arrived after `seconds` standard seconds, and how many had."""
    before = [point for point in points if (scale.standard(point.spent, machine) or 0.0) <= seconds]
    return len(before) == len(points), before[-1].guesses if before else 0
