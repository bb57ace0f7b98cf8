"""Results of a sequence audit: rates of the thresholds, one-sided tests, the measured values and the conclusion."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.report import share_of
from harness.audits.sequence.comparison import TOO_SHORT, Measurements, Setting
from harness.audits.sequence.dataset import Control, Dataset
from harness.audits.sequence.thresholds import TITLES, Threshold
from harness.core.arrays import Bools, Ints
from harness.core.measures import Estimate, Measure, MeasureRow, Unit

PASSED = Measure("passed", "passed", "the share of completions that pass the threshold, of those judged by it")
PASSED_BY_LENGTH = Measure(
    "passed_by_length",
    "passed after {at}",
    "the share of completions that pass the threshold, of the same paragraphs after prompts of each length",
    at="{} words",
    at_name="words of the prompt",
)
THRESHOLDS_PASSED = Measure(
    "thresholds_passed",
    "passes {at}",
    "the share of completions that pass exactly X of the four thresholds, of those that all four judge",
    at="{} of 4",
    at_name="thresholds",
)
TOO_SHORT_SUFFIX = Measure(
    "too_short", "suffix too short", "completions whose suffix is too short for the threshold", unit=Unit.NUMBER
)
P_VALUE = Measure(
    "p_value",
    "p",
    "one-sided: do more completions of the corpus pass than of its control, by Fisher's exact test, or with permuted "
    "suffixes by McNemar's",
    unit=Unit.P_VALUE,
)
DIFFERENCE = Measure(
    "difference",
    "difference",
    "the share of the corpus minus the share of the control, among the tested completions",
    unit=Unit.CHANGE,
)
RUN_WORDS = Measure("longest_run_words", "longest run, words", "the longest run of equal words", unit=Unit.NUMBER)
RUN_CHARACTERS = Measure(
    "longest_run_characters", "longest run, characters", "the longest run of equal characters", unit=Unit.NUMBER
)
SIMILARITY = Measure(
    "edit_similarity", "edit similarity", "1 - d / words of the longer text, where d is the edit distance in words"
)
RUN_P = Measure(
    "longest_run_p_value",
    "p of the longest run",
    "one-sided: are runs longer with a completion's own suffix than with another, by Wilcoxon's signed-rank test",
    unit=Unit.P_VALUE,
)
_MAX_EXACT = 16
"""Differences up to which Wilcoxon's test is exact; 2^16 combinations of signs take milliseconds."""
_DISTRIBUTIONS = {RUN_WORDS: "run_words", RUN_CHARACTERS: "run_characters", SIMILARITY: "edit_similarity"}
"""The column of each measure that is reported as a distribution."""
MEASURES = (PASSED, TOO_SHORT_SUFFIX, P_VALUE, DIFFERENCE, THRESHOLDS_PASSED, PASSED_BY_LENGTH, *_DISTRIBUTIONS, RUN_P)
DEFINITIONS = {
    "trigrams": "passed if at least half of the trigrams (three words in a row) of the text with fewer are in both",
    "first 5 words": "passed if the completion and the suffix begin with the same 5 words",
    "first 10 words": "passed if the completion and the suffix begin with the same 10 words",
    "overlap": "passed if the two share at least three quarters of the shorter one's words, in any order",
    "permuted suffixes": "each completion compared with the suffix of another paragraph, which shows what chance gives",
}
"""The meaning of the thresholds and of the control without text."""
CORPUS = "corpus"
SIDES = {Control.CORPUS: "control", Control.PERMUTED: "permuted suffixes"}
"""The control's name in tables and charts."""
UNSHARED = "corpus, unshared"
"""The name of what is left of the corpus without paragraphs that share runs of words with the control."""
PAIRED = ", in pairs"
"""The ending of a side whose completions are compared with both suffixes."""


def sides_of(setting: Setting) -> dict[str, tuple[Measurements, Bools]]:
    """Return the comparisons of each side, and which paragraphs [n] belong to it.

    The sides are the corpus, what is left of it without shared paragraphs if there are any, and its control.
    """
    dataset, aligned, permuted = setting.dataset, setting.aligned, setting.permuted
    sides = {CORPUS: (aligned, setting.is_corpus)}
    if dataset.control is Control.PERMUTED:
        return sides | {SIDES[Control.PERMUTED]: (permuted, ~dataset.is_control & permuted["is_compared"])}
    if dataset.is_shared.any():
        sides[UNSHARED] = (aligned, setting.is_corpus & ~dataset.is_shared)
    is_control = dataset.is_control & ~dataset.is_shared & aligned["is_compared"]
    return sides | {SIDES[Control.CORPUS]: (aligned, is_control)}


def passed_share(verdicts: Ints) -> Estimate:
    """Return the share of the judged completions that pass, with its 95 % interval."""
    return share_of(int((verdicts == 1).sum()), int((verdicts != TOO_SHORT).sum()))


def tested_sides(dataset: Dataset) -> tuple[str, str]:
    """Return the names of the completions that a test compares: without shared paragraphs, or judged in pairs."""
    control = SIDES[dataset.control]
    if dataset.control is Control.PERMUTED:
        return CORPUS + PAIRED, control + PAIRED
    return UNSHARED if dataset.is_shared.any() else CORPUS, control


class ThresholdTest(NamedTuple):
    """A one-sided test: do more completions of the corpus pass a threshold than of its control?

    Fisher's exact test, or with permuted suffixes McNemar's, in which the completions are pairs and those count that
    pass with one suffix only.
    """

    is_paired: bool
    judged: int
    passed: int
    """The completions of the corpus that pass; of pairs, those that pass with the own suffix only."""
    control_judged: int
    control_passed: int
    """The completions of the control that pass; of pairs, those that pass with the other suffix only."""

    @property
    def max_passed(self) -> int:
        """The largest number that could pass."""
        return self.judged - self.control_passed if self.is_paired else self.judged

    @property
    def has_verdicts(self) -> bool:
        """True if both sides have verdicts."""
        return bool(self.judged and self.control_judged)

    def p_value(self, passed: int) -> float:
        """Return the p-value if so many passed; NaN if a side has no verdict."""
        if not self.has_verdicts:
            return math.nan
        if self.is_paired:
            return mcnemar_p(passed, self.control_passed)
        return fisher_p(passed, self.judged, (self.control_passed, self.control_judged))


def threshold_test(setting: Setting, threshold: Threshold) -> ThresholdTest:
    """Return the test of a threshold, from the verdicts of one model."""
    verdicts = _verdicts(setting, threshold)
    corpus, control = (verdicts[side] for side in tested_sides(setting.dataset))
    is_paired = setting.dataset.control is Control.PERMUTED
    passed, control_passed = (corpus > control, corpus < control) if is_paired else (corpus == 1, control == 1)
    numbers = (corpus != TOO_SHORT, passed, control != TOO_SHORT, control_passed)
    return ThresholdTest(is_paired, *(int(number.sum()) for number in numbers))


def measure_sides(setting: Setting) -> list[MeasureRow]:
    """Return the measured values of one model on both sides.

    These are the rates and tests of every threshold, how many of them are passed, and the distribution of runs and
    similarities.
    """
    model, sides, (tested, tested_control) = setting.model, sides_of(setting), tested_sides(setting.dataset)
    rows = []
    for threshold, case in TITLES.items():
        verdicts = _verdicts(setting, threshold)
        for side, judged in verdicts.items():
            rows.append(MeasureRow(PASSED, passed_share(judged), model, side, case))
            rows.append(MeasureRow(TOO_SHORT_SUFFIX, Estimate(int((judged == TOO_SHORT).sum())), model, side, case))
        test = threshold_test(setting, threshold)
        gap = passed_share(verdicts[tested]).value - passed_share(verdicts[tested_control]).value
        of_test = CORPUS if test.is_paired else tested
        rows.append(MeasureRow(P_VALUE, Estimate(test.p_value(test.passed)), model, of_test, case))
        rows.append(MeasureRow(DIFFERENCE, Estimate(gap), model, of_test, case))
    for side in (CORPUS, SIDES[setting.dataset.control]):
        comparisons, is_member = sides[side]
        for measure, column in _DISTRIBUTIONS.items():
            rows += [
                MeasureRow(measure, Estimate(value, of=int(is_member.sum())), model, side, case)
                for case, value in _distribution(comparisons[column][is_member]).items()
            ]
    if (run_p := run_p_value(setting)) is not None:
        rows.append(MeasureRow(RUN_P, Estimate(run_p), model, CORPUS))
    for side, (comparisons, is_member) in sides.items():
        numbers = thresholds_passed(comparisons)[is_member]
        judged = numbers[numbers != TOO_SHORT]
        rows += [
            MeasureRow(THRESHOLDS_PASSED, share_of(int((judged == at).sum()), len(judged)), model, side, at=at)
            for at in range(len(TITLES) + 1)
        ]
    return rows


def _verdicts(setting: Setting, threshold: Threshold) -> dict[str, Ints]:
    """Return the verdicts of a threshold on every side, those of a paired test included."""
    verdicts = {side: values[threshold][is_member] for side, (values, is_member) in sides_of(setting).items()}
    if setting.dataset.control is Control.CORPUS:
        return verdicts
    of_own, of_other = setting.aligned[threshold], setting.permuted[threshold]
    is_judged = (of_own != TOO_SHORT) & (of_other != TOO_SHORT)
    tested, tested_control = tested_sides(setting.dataset)
    control = SIDES[Control.PERMUTED]
    return {
        CORPUS: verdicts[CORPUS],
        tested: of_own[is_judged],
        control: verdicts[control],
        tested_control: of_other[is_judged],
    }


def thresholds_passed(comparisons: Measurements) -> Ints:
    """Return how many of the thresholds each completion passes, [n]; `TOO_SHORT` unless all thresholds judge it."""
    verdicts = np.stack([comparisons[threshold] for threshold in TITLES])  # [thresholds, n]
    return np.where((verdicts == TOO_SHORT).any(axis=0), TOO_SHORT, verdicts.sum(axis=0))


def length_rows(setting: Setting) -> list[MeasureRow]:
    """Return the rates of every threshold on every side, as those of the setting's prompt length."""
    rates = [row for row in measure_sides(setting) if row.measure is PASSED and not row.side.endswith(PAIRED)]
    return [row._replace(measure=PASSED_BY_LENGTH, at=setting.dataset.prompt_length) for row in rates]


def mcnemar_p(in_favor: int, against: int) -> float:
    """Return the p-value of McNemar's exact test, one-sided, by the numbers of pairs whose verdicts differ.

    Under the null hypothesis either of two different verdicts is equally likely to pass.
    """
    from scipy.stats import binomtest  # slow to import, and not needed to list audits

    differing = in_favor + against
    return float(binomtest(in_favor, differing, alternative="greater").pvalue) if differing else 1.0


def fisher_p(passed: int, judged: int, control: tuple[int, int]) -> float:
    """Return the p-value of Fisher's exact test that more of the corpus pass.

    control: how many of the control pass, and how many are judged.
    """
    from scipy.stats import fisher_exact

    table = [[passed, judged - passed], [control[0], control[1] - control[0]]]
    return float(fisher_exact(table, alternative="greater").pvalue)


def run_p_value(setting: Setting) -> float | None:
    """Test whether verbatim runs are longer with a completion's own suffix than with another paragraph's.

    Wilcoxon's (1945) signed-rank test, one-sided, which is exact for up to 16 differences. None without a completion
    that is compared with both.
    """
    from scipy.stats import rankdata, wilcoxon

    both = setting.aligned["is_compared"] & setting.permuted["is_compared"]
    differences = setting.aligned["run_words"][both] - setting.permuted["run_words"][both]
    if not differences.any():
        return 1.0 if len(differences) else None
    differences = differences[differences != 0]
    if len(differences) > _MAX_EXACT:
        return float(wilcoxon(differences, alternative="greater").pvalue)
    # Without an effect, all signs are equally likely. scipy tries them one by one if there are ties.
    ranks = rankdata(np.abs(differences))
    signs = np.arange(1 << len(ranks))[:, None] >> np.arange(len(ranks)) & 1
    return float((signs @ ranks >= ranks[differences > 0].sum()).mean())


def _distribution(values: NDArray[Any]) -> dict[str, float]:
    """Return mean, median, 90 % quantile and maximum; nothing without values."""
    if len(values) == 0:
        return {}
    median, p90, largest = np.quantile(values, (0.5, 0.9, 1.0)).tolist()
    return {"mean": float(values.mean()), "median": median, "90 % quantile": p90, "maximum": largest}
