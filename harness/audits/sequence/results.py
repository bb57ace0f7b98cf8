"""Results of a sequence audit: rates of the thresholds, one-sided tests, the measured values and the conclusion."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.audits.report import corrected, likelihood_words, share_of
from harness.audits.sequence.comparison import TITLES, TOO_SHORT, Measurements, Results, Setting, Threshold
from harness.audits.sequence.completion import State
from harness.audits.sequence.dataset import Control, Dataset
from harness.audits.sequence.single_texts import single_texts
from harness.audits.smallest_result import smallest_significant
from harness.core.arrays import Bools, Ints
from harness.core.findings import Conclusion, KeyFigure
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable, Unit
from harness.core.text import format_interval, format_p_value, format_percent, format_score, pluralize

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


def sides_of(dataset: Dataset, results: Results) -> dict[str, tuple[Measurements, Bools]]:
    """Return the comparisons of each side, and which paragraphs [n] belong to it.

    The sides are the corpus, what is left of it without shared paragraphs if there are any, and its control.
    """
    measured, permuted = results.measured, results.permuted
    is_corpus = ~dataset.is_control & measured["is_compared"]
    sides = {CORPUS: (measured, is_corpus)}
    if dataset.control is Control.PERMUTED:
        return sides | {SIDES[Control.PERMUTED]: (permuted, ~dataset.is_control & permuted["is_compared"])}
    if dataset.is_shared.any():
        sides[UNSHARED] = (measured, is_corpus & ~dataset.is_shared)
    is_control = dataset.is_control & ~dataset.is_shared & measured["is_compared"]
    return sides | {SIDES[Control.CORPUS]: (measured, is_control)}


def passed_share(verdicts: Ints) -> Estimate:
    """Return the share of the judged completions that pass, with its 95 % interval."""
    return share_of(int((verdicts == 1).sum()), int((verdicts != TOO_SHORT).sum()))


def tested_sides(dataset: Dataset) -> tuple[str, str]:
    """Return the names of the completions that a test compares: without shared paragraphs, or judged in pairs."""
    control = SIDES[dataset.control]
    if dataset.control is Control.PERMUTED:
        return CORPUS + PAIRED, control + PAIRED
    return UNSHARED if dataset.is_shared.any() else CORPUS, control


def measure_sides(setting: Setting) -> list[MeasureRow]:
    """Return what is measured of one model on both sides.

    That is the rates and tests of every threshold, how many of them are passed, and the distribution of runs and
    similarities.
    """
    model, dataset, results = setting
    sides, (tested, tested_control) = sides_of(dataset, results), tested_sides(dataset)
    is_paired = dataset.control is Control.PERMUTED
    rows = []
    for threshold, case in TITLES.items():
        verdicts = _verdicts(setting, threshold)
        for side, judged in verdicts.items():
            rows.append(MeasureRow(PASSED, passed_share(judged), model, side, case))
            rows.append(MeasureRow(TOO_SHORT_SUFFIX, Estimate(int((judged == TOO_SHORT).sum())), model, side, case))
        p_value = (_mcnemar if is_paired else _fisher)(verdicts[tested], verdicts[tested_control])
        gap = passed_share(verdicts[tested]).value - passed_share(verdicts[tested_control]).value
        of_test = CORPUS if is_paired else tested
        rows.append(MeasureRow(P_VALUE, Estimate(p_value), model, of_test, case))
        rows.append(MeasureRow(DIFFERENCE, Estimate(gap), model, of_test, case))
    for side in (CORPUS, SIDES[dataset.control]):
        measured, chosen = sides[side]
        for measure, column in _DISTRIBUTIONS.items():
            rows += [
                MeasureRow(measure, Estimate(value, of=int(chosen.sum())), model, side, case)
                for case, value in _distribution(measured[column][chosen]).items()
            ]
    if (run_p := run_p_value(results)) is not None:
        rows.append(MeasureRow(RUN_P, Estimate(run_p), model, CORPUS))
    for side, (measured, chosen) in sides.items():
        passed = thresholds_passed(measured)[chosen]
        judged = passed[passed != TOO_SHORT]
        rows += [
            MeasureRow(THRESHOLDS_PASSED, share_of(int((judged == at).sum()), len(judged)), model, side, at=at)
            for at in range(len(TITLES) + 1)
        ]
    return rows


def _verdicts(setting: Setting, threshold: Threshold) -> dict[str, Ints]:
    """Return the verdicts of a threshold on every side, those of a paired test included."""
    _, dataset, results = setting
    verdicts = {side: measured[threshold][chosen] for side, (measured, chosen) in sides_of(dataset, results).items()}
    if dataset.control is Control.CORPUS:
        return verdicts
    tested, tested_control = tested_sides(dataset)
    beside_own, chance = results.measured[threshold], results.permuted[threshold]
    is_judged = (beside_own != TOO_SHORT) & (chance != TOO_SHORT)
    return {
        CORPUS: verdicts[CORPUS],
        tested: beside_own[is_judged],
        SIDES[dataset.control]: verdicts[SIDES[dataset.control]],
        tested_control: chance[is_judged],
    }


def thresholds_passed(measured: Measurements) -> Ints:
    """Return how many of the thresholds each completion passes, [n]; `TOO_SHORT` unless all thresholds judge it."""
    verdicts = np.stack([measured[threshold] for threshold in TITLES])  # [thresholds, n]
    return np.where((verdicts == TOO_SHORT).any(axis=0), TOO_SHORT, verdicts.sum(axis=0))


def length_rows(setting: Setting) -> list[MeasureRow]:
    """Return the rates of every threshold on every side, as those of the setting's prompt length."""
    rates = [row for row in measure_sides(setting) if row.measure is PASSED and not row.side.endswith(PAIRED)]
    return [row._replace(measure=PASSED_BY_LENGTH, at=setting.dataset.prompt_length) for row in rates]


def _mcnemar(verdicts: Ints, chance: Ints) -> float:
    """Return the p-value of McNemar's exact test that more of the own suffixes pass; NaN without a verdict."""
    return mcnemar_p(*_differing(verdicts, chance)) if len(verdicts) else math.nan


def _differing(verdicts: Ints, chance: Ints) -> tuple[int, int]:
    """Return how many pairs pass with the own suffix only, and how many with the other one only."""
    return int((verdicts > chance).sum()), int((verdicts < chance).sum())


def mcnemar_p(in_favor: int, against: int) -> float:
    """Return the p-value of McNemar's exact test, one-sided, by the numbers of pairs whose verdicts differ.

    Under the null hypothesis either of two different verdicts is equally likely to pass.
    """
    from scipy.stats import binomtest  # slow to import, and not needed to list audits

    differing = in_favor + against
    return float(binomtest(in_favor, differing, alternative="greater").pvalue) if differing else 1.0


def _fisher(verdicts: Ints, of_control: Ints) -> float:
    """Return the p-value of Fisher's exact test that more of the corpus pass; NaN if a side has no verdict."""
    (passed, judged), control = (
        (int((side == 1).sum()), int((side != TOO_SHORT).sum())) for side in (verdicts, of_control)
    )
    return fisher_p(passed, judged, control) if judged and control[1] else math.nan


def fisher_p(passed: int, judged: int, control: tuple[int, int]) -> float:
    """Return the p-value of Fisher's exact test that more of the corpus pass.

    control: how many of the control pass, and how many are judged.
    """
    from scipy.stats import fisher_exact

    table = [[passed, judged - passed], [control[0], control[1] - control[0]]]
    return float(fisher_exact(table, alternative="greater").pvalue)


def run_p_value(results: Results) -> float | None:
    """Test whether verbatim runs are longer with a completion's own suffix than with another paragraph's.

    Wilcoxon's (1945) signed-rank test, one-sided, which is exact for up to 16 differences. None without a completion
    that is compared with both.
    """
    from scipy.stats import rankdata, wilcoxon

    both = results.measured["is_compared"] & results.permuted["is_compared"]
    differences = results.measured["run_words"][both] - results.permuted["run_words"][both]
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


QUESTION = "Was this corpus in the training data?"
_CHANCE_ONLY = (
    "The control is chance only: text that is easy to predict gives the same result without having been seen. To tell "
    "the two apart, name unseen text of the same kind with --control."
)
_SAME_KIND = (
    "This assumes that the control is text of the same kind, which the model has not seen. Otherwise the difference "
    "may show how predictable the two texts are."
)
_WHY_NOT: dict[State | None, str] = {
    State.NO_ROOM: "did not fit into the model's context (use a smaller --prompt-length and --longest-suffix)",
    State.BLOCKED: "were blocked by the provider",
    State.OTHER_MODEL: "were answered by another model",
}
_NOT_ABSENT = "This does not show that the corpus was not in the training data."


def sequence_conclusion(settings: Sequence[Setting], measured: MeasureTable) -> Conclusion:
    """Return the conclusion from complete or partial results by model.

    Each model has an answer of its own, which is the same whether or not other models are measured.
    """
    parts = {setting.model: _conclusion(setting, measured) for setting in settings}
    first = parts[settings[0].model]
    if all(part == first for part in parts.values()):
        return first
    is_same = all(part.answer == first.answer for part in parts.values())
    return Conclusion(
        QUESTION,
        first.answer if is_same else ", ".join(f"{part.answer} ({model})" for model, part in parts.items()),
        "; ".join(f"{model}: {part.evidence}" for model, part in parts.items()),
        " ".join(f"{model}: {part.caveat}" for model, part in parts.items() if part.caveat),
        [item._replace(name=f"{model}, {item.name}") for model, part in parts.items() for item in part.key_figures],
    )


def _conclusion(setting: Setting, measured: MeasureTable) -> Conclusion:
    """Return the conclusion about one model.

    It is about the threshold with the smallest p-value, which is corrected for the number of thresholds (Bonferroni).
    Without an unseen control the answer is never "Probably", because predictable text cannot be told from text that was
    seen.
    """
    model, dataset, results = setting
    tests = [row for row in measured.select(P_VALUE, model=model) if not math.isnan(row.estimate.value)]
    if not tests:
        if None in results.states:
            return Conclusion(QUESTION, "Not known yet", "nothing has been compared with a control yet")
        evidence = ". ".join([_why_untested(dataset, results), *single_texts(setting)])
        return Conclusion(QUESTION, "Cannot be concluded", evidence)
    smallest = min(tests, key=lambda row: row.estimate.value)
    p, title = corrected(smallest.estimate.value, len(tests)), smallest.case
    words = f"{format_p_value(p)}, corrected for {pluralize(len(tests), 'threshold')}"
    corpus, control = (measured.get(PASSED, model=model, side=side, case=title) for side in tested_sides(dataset))
    is_chance = dataset.control is Control.PERMUTED
    answer = likelihood_words(p)
    if p < 0.05:
        if is_chance:
            answer = "Possibly"
        of_corpus, of_control = (
            (" with their own suffix", "with another one") if is_chance else ("", "of the control's")
        )
        evidence = (
            f"{format_percent(corpus.value)} of its completions pass the threshold “{title}”{of_corpus}, "
            f"{format_percent(control.value)} {of_control} ({words})"
        )
        caveat = _CHANCE_ONLY if is_chance else _SAME_KIND
    else:
        than = "by chance" if is_chance else "those of the control"
        evidence = (
            f"its completions pass no threshold significantly more often than {than} ({words}); "
            f"{_smallest_result(setting, len(tests))}"
        )
        caveat = f"{_NOT_ABSENT} {_CHANCE_ONLY}" if is_chance else _NOT_ABSENT
    if blocked := results.states.count(State.BLOCKED):
        caveat += f" The provider blocked {pluralize(blocked, 'completion')}: a filter hides memorization."
    done, total = sum(state is not None for state in results.states), len(results.states)
    if done < total:
        evidence += f"; so far {done:,} of {pluralize(total, 'paragraph')}"
    evidence = ". ".join([evidence, *single_texts(setting)])
    longest = measured.get(RUN_WORDS, model=model, side=CORPUS, case="maximum")
    figures = [
        KeyFigure(
            f"{name}: {title}", format_score(share.value), f"{format_interval(share.low, share.high)} of {share.of:,}"
        )
        for name, share in (("corpus", corpus), (SIDES[dataset.control], control))
    ]
    figures += [
        KeyFigure("p-value", format_p_value(p).removeprefix("p ").removeprefix("= "), "one-sided, corrected"),
        KeyFigure("longest verbatim run", pluralize(int(longest.value), "word"), f"in {longest.of:,} completions"),
    ]
    return Conclusion(QUESTION, answer, evidence, caveat, figures)


def _smallest_result(setting: Setting, tests: int) -> str:
    """Return, as a clause, the smallest result that would have changed "No evidence", given that of the control.

    It is about the threshold that needs the fewest completions to pass.
    """
    is_paired = setting.dataset.control is Control.PERMUTED
    clauses: list[tuple[float, int, str]] = []
    for threshold, title in TITLES.items():
        corpus, control = (_verdicts(setting, threshold)[side] for side in tested_sides(setting.dataset))
        judged, of_control = int((corpus != TOO_SHORT).sum()), int((control != TOO_SHORT).sum())
        if not judged or not of_control:
            continue
        if is_paired:
            _, against = _differing(corpus, control)
            least = smallest_significant(partial(mcnemar_p, against=against), judged - against, tests)
            pairs = f"{pluralize(judged, 'paragraph')} judged in pairs"
            observed = f"with {pairs}, of which {against:,} pass only with another suffix"
            needed = f"would have had to pass “{title}” only with their own suffix"
        else:
            passed = int((control == 1).sum())
            least = smallest_significant(partial(fisher_p, control=(passed, of_control), judged=judged), judged, tests)
            sides = f"{pluralize(judged, 'judged paragraph')} and {of_control:,} of the control"
            observed = f"with {sides}, of which {passed:,} pass"
            needed = f"would have had to pass “{title}”"
        if least is None:
            clauses.append((math.inf, -judged, f"{observed}, no result could have changed this"))
        else:
            clauses.append((least, -judged, f"{observed}, at least {least:,} of {judged:,} {needed}"))
    fewest, _, clause = min(clauses, key=lambda item: item[:2])
    return clause if math.isinf(fewest) else f"{clause}, the threshold that needs the fewest"


def _why_untested(dataset: Dataset, results: Results) -> str:
    """Return why no threshold could be tested, although every paragraph has been tried."""
    for side, is_side in (("corpus", ~dataset.is_control), ("control", dataset.is_control)):
        states = Counter(results.states[place] for place in np.flatnonzero(is_side))
        if states and not states[State.COMPLETED]:
            (state, number), *_ = states.most_common()
            why = _WHY_NOT.get(state, "got no answer")
            return f"no paragraph of the {side} was completed: {number:,} {why}"
    if len(dataset) == 1:
        return "a single paragraph has no other one to be compared with (use more text or --control)"
    return "its suffixes are too short for every threshold, or all paragraphs share text with the control"
