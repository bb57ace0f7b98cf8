"""The recall of each setting of a sweep over the budget, as the mean of its finished runs."""

from collections.abc import Sequence

import numpy as np

from harness.analysis.parts import Part
from harness.analysis.replay import TimedRecall, evenly_spaced, recall_history
from harness.analysis.sweep_results import ReadRun, SettingRow
from harness.core.errors import HarnessError
from harness.core.examples import load_answers
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import GuessReader

_MAX_POINTS = 120


def recall_over_time(rows: Sequence[SettingRow]) -> list[tuple[str, list[TimedRecall]]]:
    """Return each setting of one round and target with its recall over time; settings that cannot be read are left out.

    The recall is the mean over the finished runs, each of which keeps its last recall after its end.
    """
    curves = []
    for row in rows:
        if row.recall is None:
            continue
        try:
            histories = [_history(run) for run in row.finished]
        except HarnessError:
            continue
        curves.append((row.setting, _mean(histories)))
    return curves


def _history(run: ReadRun) -> list[TimedRecall]:
    folder = RunFolder.of(run.run.run)
    spec = folder.attack_spec()
    answers, summary = load_answers(spec.round), run.summary
    if answers is None or summary is None or summary.recall_at_cap is None:
        raise HarnessError(f"{folder.id} has no recall.")
    part = Part.whole(spec.examples, cap=spec.error_cap)
    with as_harness_error(folder.path), GuessReader.of_run(folder, spec) as reader:
        history = recall_history(part, spec=spec, reader=reader, answers=answers)
    return [*history, TimedRecall(min(summary.elapsed_s, summary.budget_s), summary.recall_at_cap)]


def _mean(histories: Sequence[Sequence[TimedRecall]]) -> list[TimedRecall]:
    moments = evenly_spaced(sorted({point.spent for history in histories for point in history}), _MAX_POINTS)
    recalls = np.zeros(len(moments))
    for history in histories:
        spent, recall = np.array(history, np.float64).T
        recalls += recall[np.searchsorted(spent, moments, side="right") - 1]
    return [TimedRecall(moment, float(value)) for moment, value in zip(moments, recalls / len(histories), strict=True)]
