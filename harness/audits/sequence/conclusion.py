"""The answer of a sequence audit, from complete or partial results."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import compress

from harness.audits.report import corrected, likelihood_words
from harness.audits.sequence.comparison import Setting
from harness.audits.sequence.completion import State
from harness.audits.sequence.dataset import Control
from harness.audits.sequence.results import (
    CORPUS,
    P_VALUE,
    PASSED,
    RUN_WORDS,
    SIDES,
    tested_sides,
    threshold_test,
)
from harness.audits.sequence.single_texts import is_continued, single_texts
from harness.audits.sequence.thresholds import TITLES
from harness.audits.smallest_result import smallest_significant
from harness.core.findings import Conclusion, KeyFigure
from harness.core.measures import MeasureTable
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
_WHY_NOT: dict[State | None, str] = {
    State.NO_ROOM: "did not fit into the model's context (use a smaller --prompt-length and --longest-suffix)",
    State.BLOCKED: "were blocked by the provider",
    State.OTHER_MODEL: "were answered by another model",
}
_NOT_ABSENT = "This does not show that the corpus was not in the training data."


def sequence_conclusion(settings: Sequence[Setting], table: MeasureTable) -> Conclusion:
    """Return the conclusion from complete or partial results by model.

    Each model has an answer of its own, which is the same whether or not other models are measured.
    """
    parts = {setting.model: _conclusion(setting, table) for setting in settings}
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


def _conclusion(setting: Setting, table: MeasureTable) -> Conclusion:
    """Return the conclusion about one model.

    It is about the threshold with the smallest p-value, which is corrected for the number of thresholds (Bonferroni).
    Without an unseen control the answer is never "Probably", because predictable text cannot be told from text that was
    seen.
    """
    model, dataset = setting.model, setting.dataset
    tests = [row for row in table.select(P_VALUE, model=model) if not math.isnan(row.estimate.value)]
    if not tests:
        if None in setting.states:
            return Conclusion(QUESTION, "Not known yet", "nothing has been compared with a control yet")
        evidence = ". ".join([_why_untested(setting), *single_texts(setting)])
        return Conclusion(QUESTION, "Cannot be concluded", evidence)
    smallest = min(tests, key=lambda row: row.estimate.value)
    p, title = corrected(smallest.estimate.value, len(tests)), smallest.case
    words = f"{format_p_value(p)}, corrected for {pluralize(len(tests), 'threshold')}"
    corpus, control = (table.get(PASSED, model=model, side=side, case=title) for side in tested_sides(dataset))
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
        if (is_continued(setting) & setting.is_corpus).any():
            answer += " for the corpus as a whole"
    if blocked := setting.states.count(State.BLOCKED):
        caveat += f" The provider blocked {pluralize(blocked, 'completion')}: a filter hides memorization."
    done, total = sum(state is not None for state in setting.states), len(dataset)
    if done < total:
        evidence += f"; so far {done:,} of {pluralize(total, 'paragraph')}"
    evidence = ". ".join([evidence, *single_texts(setting)])
    longest = table.get(RUN_WORDS, model=model, side=CORPUS, case="maximum")
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
    clauses: list[tuple[float, int, str]] = []
    for threshold, title in TITLES.items():
        test = threshold_test(setting, threshold)
        if not test.has_verdicts:
            continue
        if test.is_paired:
            side = f"{pluralize(test.judged, 'paragraph')} judged in pairs"
            observed = f"with {side}, of which {test.control_passed:,} pass only with another suffix"
        else:
            sides = f"{pluralize(test.judged, 'judged paragraph')} and {test.control_judged:,} of the control"
            observed = f"with {sides}, of which {test.control_passed:,} pass"
        fewest_passed = smallest_significant(test.p_value, test.max_passed, tests)
        if fewest_passed is None:
            clauses.append((math.inf, -test.judged, f"{observed}, no result could have changed this"))
            continue
        number = f"at least {fewest_passed:,} of {test.judged:,} would have had to pass “{title}”"
        only = " only with their own suffix" if test.is_paired else ""
        clauses.append((fewest_passed, -test.judged, f"{observed}, {number}{only}"))
    fewest, _, clause = min(clauses, key=lambda item: item[:2])
    return clause if math.isinf(fewest) else f"{clause}, the threshold that needs the fewest"


def _why_untested(setting: Setting) -> str:
    """Return why no threshold could be tested, although every paragraph has been tried."""
    dataset = setting.dataset
    for side, is_side in (("corpus", ~dataset.is_control), ("control", dataset.is_control)):
        states = Counter(compress(setting.states, is_side))
        if states and not states[State.COMPLETED]:
            (state, number), *_ = states.most_common()
            why = _WHY_NOT.get(state, "got no answer")
            return f"no paragraph of the {side} was completed: {number:,} {why}"
    if len(dataset) == 1:
        return "a single paragraph has no other one to be compared with (use more text or --control)"
    return "its suffixes are too short for every threshold, or all paragraphs share text with the control"
