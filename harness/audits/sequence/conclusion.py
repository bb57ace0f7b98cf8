"""The conclusion of a sequence audit: whether the corpus was in the training data, and what cannot be concluded."""

from collections import Counter
from typing import NamedTuple

from harness.audits.report import corrected, likelihood_words
from harness.audits.sequence.completion import State
from harness.audits.sequence.dataset import Control, Dataset
from harness.audits.sequence.measures import Results
from harness.audits.sequence.rates import SIDES, Contrast, Contrasts
from harness.audits.sequence.thresholds import TITLES, Threshold
from harness.core.findings import Conclusion, KeyFigure
from harness.core.text import format_interval, format_p_value, format_percent, format_score, pluralize

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
    tested = [(one.p_value, threshold) for threshold, one in contrasts.items() if one.p_value is not None]
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
        )
        for name, rate in (
            ("corpus", test.contrast.tested_corpus),
            (SIDES[dataset.control], test.contrast.tested_control),
        )
    ]
    is_corpus = ~dataset.is_control & results.own.is_compared
    longest = int(results.own.run_words[is_corpus].max(initial=0))
    return [
        *figures,
        KeyFigure("p-value", format_p_value(test.p).removeprefix("p ").removeprefix("= "), "one-sided, corrected"),
        KeyFigure("longest verbatim run", pluralize(longest, "word"), f"in {int(is_corpus.sum()):,} completions"),
    ]


DEFINITIONS = {
    "trigrams": "passed if at least half of the trigrams (three words in a row) of the text with fewer are in both",
    "first 5 words": "passed if the completion and the suffix begin with the same 5 words",
    "first 10 words": "passed if the completion and the suffix begin with the same 10 words",
    "overlap": "passed if the two share at least three quarters of the shorter one's words, in any order",
    "permuted suffixes": "each completion beside the suffix of another paragraph, which shows what chance gives",
}
"""The meaning of the thresholds and of the control without text."""
