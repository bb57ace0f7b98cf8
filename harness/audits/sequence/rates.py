"""Rates of the thresholds on the corpus and on its control, and one-sided tests of whether they differ."""

from collections.abc import Mapping
from typing import NamedTuple

from harness.audits.report import share_of
from harness.audits.sequence.dataset import Control, Dataset
from harness.audits.sequence.measures import TOO_SHORT, Measurements, Results
from harness.audits.sequence.thresholds import Threshold
from harness.core.arrays import Bools, Ints
from harness.core.measures import Estimate


class Rate(NamedTuple):
    """The numbers of completions that pass a threshold, that were judged, and whose suffix was too short for it."""

    passed: int
    judged: int
    too_short: int

    @property
    def share(self) -> Estimate:
        """The share of judged completions that pass, with its 95 % interval."""
        return share_of(self.passed, self.judged)


class Contrast(NamedTuple):
    """A threshold on the corpus and on its control.

    tested_corpus, tested_control: the completions that the test compares; p_value: one-sided and exact, None if a side
    is empty.
    """

    corpus: Rate
    control: Rate
    tested_corpus: Rate
    tested_control: Rate
    p_value: float | None


Contrasts = Mapping[Threshold, Contrast]
SIDES = {Control.CORPUS: "control", Control.PERMUTED: "permuted suffixes"}
"""The control's name in tables and charts."""
UNSHARED = "corpus, unshared"
"""The name of what is left of the corpus without paragraphs that share runs of words with the control."""


def side_rates(threshold: Threshold, dataset: Dataset, results: Results) -> tuple[Rate, Rate]:
    """Return a threshold's rates on the corpus and on its control."""
    control, is_control = control_side(dataset, results)
    is_corpus = ~dataset.is_control & results.own.is_compared
    return _rate(results.own.verdicts[threshold][is_corpus]), _rate(control.verdicts[threshold][is_control])


def contrast_sides(threshold: Threshold, dataset: Dataset, results: Results) -> Contrast:
    """Compare a threshold's rates.

    Against permuted suffixes both verdicts are of one completion, and the test is McNemar's exact test. Against a
    control corpus it is Fisher's exact test, without paragraphs that share a long run of words with the other side.
    """
    from scipy.stats import binomtest, fisher_exact  # slow to import, and not needed to list audits

    corpus, control = side_rates(threshold, dataset, results)
    own, chance = results.own.verdicts[threshold], results.permuted.verdicts[threshold]
    p_value = None
    if dataset.control is Control.PERMUTED:
        is_judged = (own != TOO_SHORT) & (chance != TOO_SHORT)
        one, other = _rate(own[is_judged]), _rate(chance[is_judged])
        differs = own[is_judged & (own != chance)]
        if len(differs):
            # McNemar's test: under the null hypothesis either of two different verdicts is equally likely to pass.
            p_value = float(binomtest(int(differs.sum()), len(differs), alternative="greater").pvalue)
        elif is_judged.any():
            p_value = 1.0
    else:
        one, other = _rate(own[~dataset.is_control & ~dataset.is_shared & results.own.is_compared]), control
        if one.judged and other.judged:
            counts = [[rate.passed, rate.judged - rate.passed] for rate in (one, other)]
            p_value = float(fisher_exact(counts, alternative="greater").pvalue)
    return Contrast(corpus, control, one, other, p_value)


def run_p_value(dataset: Dataset, results: Results) -> float | None:
    """Test whether verbatim runs are longer beside a completion's own suffix than beside another paragraph's.

    Wilcoxon's (1945) signed-rank test, one-sided. None for a control corpus, whose paragraphs form no pairs.
    """
    from scipy.stats import wilcoxon

    both = results.own.is_compared & results.permuted.is_compared
    if dataset.control is Control.CORPUS or not both.any():
        return None
    differences = results.own.run_words[both] - results.permuted.run_words[both]
    return float(wilcoxon(differences, alternative="greater").pvalue) if differences.any() else 1.0


def control_side(dataset: Dataset, results: Results) -> tuple[Measurements, Bools]:
    """Return the measurements of the control, and which paragraphs [n] belong to it."""
    if dataset.control is Control.PERMUTED:
        return results.permuted, ~dataset.is_control & results.permuted.is_compared
    return results.own, dataset.is_control & ~dataset.is_shared & results.own.is_compared


def _rate(verdicts: Ints) -> Rate:
    too_short = int((verdicts == TOO_SHORT).sum())
    return Rate(int((verdicts == 1).sum()), len(verdicts) - too_short, too_short)
