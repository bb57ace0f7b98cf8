"""Results of a sequence audit: rates of the thresholds, one-sided tests, the measured values and the conclusion."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.report import corrected, likelihood_words, share_of
from harness.audits.sequence.comparison import TITLES, TOO_SHORT, Measurements, Results, Threshold
from harness.audits.sequence.completion import State
from harness.audits.sequence.dataset import Control, Dataset
from harness.core.arrays import Bools, Ints
from harness.core.findings import Conclusion, KeyFigure
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable, Unit
from harness.core.text import format_interval, format_p_value, format_percent, format_score, pluralize

PASSED = Measure("passed", "share", "the share of completions that pass the threshold, of those judged by it")
TOO_SHORT_SUFFIX = Measure(
    "too_short", "suffix too short", "completions whose suffix is too short for the threshold", unit=Unit.NUMBER
)
P_VALUE = Measure(
    "p_value",
    "p",
    "one-sided: do more completions of the corpus pass than of its control, by Fisher's exact test, or by McNemar's "
    "beside permuted suffixes",
    unit=Unit.P_VALUE,
)
DIFFERENCE = Measure(
    "difference", "difference", "the share of the corpus minus that of the control, among the tested", unit=Unit.CHANGE
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
    "one-sided: are runs longer beside a completion's own suffix than beside another, by Wilcoxon's signed-rank test",
    unit=Unit.P_VALUE,
)
MEASURES = (PASSED, TOO_SHORT_SUFFIX, P_VALUE, DIFFERENCE, RUN_WORDS, RUN_CHARACTERS, SIMILARITY, RUN_P)
DEFINITIONS = {
    "trigrams": "passed if at least half of the trigrams (three words in a row) of the text with fewer are in both",
    "first 5 words": "passed if the completion and the suffix begin with the same 5 words",
    "first 10 words": "passed if the completion and the suffix begin with the same 10 words",
    "overlap": "passed if the two share at least three quarters of the shorter one's words, in any order",
    "permuted suffixes": "each completion beside the suffix of another paragraph, which shows what chance gives",
}
"""The meaning of the thresholds and of the control without text."""


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
CORPUS = "corpus"
SIDES = {Control.CORPUS: "control", Control.PERMUTED: "permuted suffixes"}
"""The control's name in tables and charts."""
UNSHARED = "corpus, unshared"
"""The name of what is left of the corpus without paragraphs that share runs of words with the control."""
_PAIRED = ", in pairs"
"""The ending of a side whose completions are judged beside both suffixes."""


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
        corpus_tested, control_tested = _rate(own[is_judged]), _rate(chance[is_judged])
        differs = own[is_judged & (own != chance)]
        if len(differs):
            # McNemar's test: under the null hypothesis either of two different verdicts is equally likely to pass.
            p_value = float(binomtest(int(differs.sum()), len(differs), alternative="greater").pvalue)
        elif is_judged.any():
            p_value = 1.0
    else:
        is_tested = ~dataset.is_control & ~dataset.is_shared & results.own.is_compared
        corpus_tested, control_tested = _rate(own[is_tested]), control
        if corpus_tested.judged and control_tested.judged:
            counts = [[rate.passed, rate.judged - rate.passed] for rate in (corpus_tested, control_tested)]
            p_value = float(fisher_exact(counts, alternative="greater").pvalue)
    return Contrast(corpus, control, corpus_tested, control_tested, p_value)


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


def measure_sides(dataset: Dataset, results: Results, contrasts: Contrasts, model: str) -> MeasureTable:
    """Return the rates and tests of every threshold, and the distribution of runs and similarities, on both sides."""
    control = SIDES[dataset.control]
    tested, tested_control = _tested_sides(dataset)
    rows = []
    for threshold, contrast in contrasts.items():
        case = TITLES[threshold]
        sides = {CORPUS: contrast.corpus, tested: contrast.tested_corpus}
        sides |= {control: contrast.control, tested_control: contrast.tested_control}
        for side, rate in sides.items():
            rows.append(MeasureRow(PASSED, rate.share, model, side, case))
            rows.append(MeasureRow(TOO_SHORT_SUFFIX, Estimate(rate.too_short), model, side, case))
        p_value = math.nan if contrast.p_value is None else contrast.p_value
        gap = contrast.tested_corpus.share.value - contrast.tested_control.share.value
        of_test = CORPUS if tested.endswith(_PAIRED) else tested
        rows.append(MeasureRow(P_VALUE, Estimate(p_value), model, of_test, case))
        rows.append(MeasureRow(DIFFERENCE, Estimate(gap), model, of_test, case))
    control_measures, is_control = control_side(dataset, results)
    is_corpus = ~dataset.is_control & results.own.is_compared
    for side, measured, chosen in ((CORPUS, results.own, is_corpus), (control, control_measures, is_control)):
        for measure, values in (
            (RUN_WORDS, measured.run_words[chosen]),
            (RUN_CHARACTERS, measured.run_characters[chosen]),
            (SIMILARITY, measured.edit_similarity[chosen]),
        ):
            rows += [
                MeasureRow(measure, Estimate(value, of=len(values)), model, side, case)
                for case, value in _distribution(values).items()
            ]
    if (run_p := run_p_value(dataset, results)) is not None:
        rows.append(MeasureRow(RUN_P, Estimate(run_p), model, CORPUS))
    return MeasureTable(rows)


def _tested_sides(dataset: Dataset) -> tuple[str, str]:
    """Return the names of the completions that a test compares: without shared paragraphs, or judged in pairs."""
    control = SIDES[dataset.control]
    if dataset.control is Control.PERMUTED:
        return CORPUS + _PAIRED, control + _PAIRED
    return UNSHARED if dataset.is_shared.any() else CORPUS, control


def _distribution(values: NDArray[Any]) -> dict[str, float]:
    """Return mean, median, 90 % quantile and maximum; nothing without values."""
    if len(values) == 0:
        return {}
    median, p90, largest = np.quantile(values, (0.5, 0.9, 1.0)).tolist()
    return {"mean": float(values.mean()), "median": median, "90 % quantile": p90, "maximum": largest}


QUESTION = "Was this corpus in the training data?"
_CHANCE_ONLY = (
    "The control is chance only: text that is easy to predict gives the same result without having been seen. To tell "
    "the two apart, name unseen text of the same kind with --control."
)
_SAME_KIND = (
    "This assumes that the control is text of the same kind, which the model has not seen. Otherwise the difference "
    "may show how predictable the two texts are."
)
_NO_ROOM = "did not fit into the model's context (use a smaller --prompt-length and --longest-suffix)"
_NOT_ABSENT = "This does not show that the corpus was not in the training data."


class _Test(NamedTuple):
    """The threshold with the smallest p-value, which is corrected for the number of thresholds (Bonferroni)."""

    threshold: Threshold
    contrast: Contrast
    p: float
    thresholds: int

    @property
    def words(self) -> str:
        return f"{format_p_value(self.p)}, corrected for {pluralize(self.thresholds, 'threshold')}"


def sequence_conclusion(dataset: Dataset, results: Results, contrasts: Contrasts) -> Conclusion:
    """Return the conclusion from complete or partial results.

    Without an unseen control the answer is never "Probably", because predictable text cannot be told from text that was
    seen.
    """
    test = _strongest(contrasts)
    if test is None:
        if None in results.states:
            return Conclusion(QUESTION, "Not known yet", "nothing has been compared with a control yet")
        return Conclusion(QUESTION, "Cannot be concluded", _why_untested(dataset, results))
    is_chance = dataset.control is Control.PERMUTED
    answer = likelihood_words(test.p)
    if test.p < 0.05:
        if is_chance:
            answer = "Possibly"
        own, other = (" beside their own suffix", "beside another one") if is_chance else ("", "of the control's")
        corpus, control = (format_percent(rate.share.value) for rate in test.contrast[2:4])
        evidence = (
            f"{corpus} of its completions pass the threshold “{TITLES[test.threshold]}”{own}, {control} {other} "
            f"({test.words})"
        )
        caveat = _CHANCE_ONLY if is_chance else _SAME_KIND
    else:
        than = "by chance" if is_chance else "those of the control"
        evidence = f"its completions pass no threshold significantly more often than {than} ({test.words})"
        caveat = f"{_NOT_ABSENT} {_CHANCE_ONLY}" if is_chance else _NOT_ABSENT
    return Conclusion(QUESTION, answer, evidence + _progress(results), caveat, _key_figures(dataset, results, test))


def _why_untested(dataset: Dataset, results: Results) -> str:
    """Return why no threshold could be tested, although every paragraph has been tried."""
    for side, is_side in (("corpus", ~dataset.is_control), ("control", dataset.is_control)):
        states = Counter(state for state, is_one in zip(results.states, is_side, strict=True) if is_one)
        if states and not states[State.COMPLETED]:
            (state, number), *_ = states.most_common()
            why = _NO_ROOM if state is State.NO_ROOM else "got no answer"
            return f"no paragraph of the {side} was completed: {number:,} {why}"
    if len(dataset) == 1:
        return "a single paragraph has no other one to be compared with (use more text or --control)"
    return "its suffixes are too short for every threshold, or all paragraphs share text with the control"


def _strongest(contrasts: Contrasts) -> _Test | None:
    tested = [
        (contrast.p_value, threshold) for threshold, contrast in contrasts.items() if contrast.p_value is not None
    ]
    if not tested:
        return None
    smallest, threshold = min(tested, key=lambda pair: pair[0])
    return _Test(threshold, contrasts[threshold], corrected(smallest, len(tested)), len(tested))


def _progress(results: Results) -> str:
    done = sum(state is not None for state in results.states)
    total = len(results.states)
    return "" if done == total else f"; so far {done:,} of {pluralize(total, 'paragraph')}"


def _key_figures(dataset: Dataset, results: Results, test: _Test) -> list[KeyFigure]:
    title = TITLES[test.threshold]
    figures = [
        KeyFigure(
            f"{name}: {title}",
            format_score(rate.share.value),
            f"{format_interval(rate.share.low, rate.share.high)} of {rate.judged:,}",
            rate.share.value,
        )
        for name, rate in (
            ("corpus", test.contrast.tested_corpus),
            (SIDES[dataset.control], test.contrast.tested_control),
        )
    ]
    is_corpus = ~dataset.is_control & results.own.is_compared
    longest = int(results.own.run_words[is_corpus].max(initial=0))
    p_value = format_p_value(test.p).removeprefix("p ").removeprefix("= ")
    completions = f"in {int(is_corpus.sum()):,} completions"
    return [
        *figures,
        KeyFigure("p-value", p_value, "one-sided, corrected", test.p),
        KeyFigure("longest verbatim run", pluralize(longest, "word"), completions, longest),
    ]
