"""The charts of a sequence audit: rates on both sides, and the lengths of verbatim runs."""

import numpy as np

from harness.audits.report import bar_chart, share_of
from harness.audits.sequence.dataset import Dataset
from harness.audits.sequence.measures import Results
from harness.audits.sequence.rates import SIDES, UNSHARED, Contrasts, control_side
from harness.audits.sequence.thresholds import TITLES
from harness.core.arrays import Ints
from harness.core.findings import Chart, LineChart, Series


def sequence_charts(dataset: Dataset, results: Results, contrasts: Contrasts) -> list[Chart]:
    """Return the charts, none before the first completion."""
    is_corpus = ~dataset.is_control & results.own.is_compared
    if not is_corpus.any():
        return []
    side = SIDES[dataset.control]
    control, is_control = control_side(dataset, results)
    runs = [("corpus", results.own.run_words[is_corpus], False), (side, control.run_words[is_control], True)]
    runs = [one for one in runs if len(one[1])]
    longest = max(int(lengths.max()) for _, lengths, _ in runs)
    groups = {"corpus": {TITLES[threshold]: one.corpus.share for threshold, one in contrasts.items()}}
    if dataset.is_shared.any():
        groups[UNSHARED] = {TITLES[threshold]: one.tested_corpus.share for threshold, one in contrasts.items()}
    if is_control.any():
        groups[side] = {TITLES[threshold]: one.control.share for threshold, one in contrasts.items()}
    labels = [TITLES[threshold] for threshold in contrasts]
    return [
        bar_chart("rates", "Completions that pass each threshold", "share of completions", groups, labels),
        LineChart(
            "verbatim_runs",
            "Longest verbatim run of each completion",
            "words in the run, at least",
            "share of completions",
            [_survival(name, lengths, longest, is_dashed) for name, lengths, is_dashed in runs],
        ),
    ]


def _survival(name: str, runs: Ints, longest: int, is_dashed: bool) -> Series:
    """Return the share of `runs` that have at least 0, 1, … `longest` words, with Wilson intervals."""
    lengths = np.arange(longest + 1)
    shares = [share_of(int((runs >= length).sum()), len(runs)) for length in lengths]
    value, low, high, _ = np.array(shares).T
    return Series(name, lengths, value, low, high, is_dashed)
