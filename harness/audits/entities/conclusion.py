"""The conclusion of an entities audit: whether a model recognizes the names that it was trained on."""

from collections.abc import Sequence
from statistics import NormalDist

from harness.audits.entities.ranking import chance_error
from harness.audits.entities.results import ModelResult
from harness.audits.report import likelihood_words
from harness.core.findings import Conclusion, KeyFigure
from harness.core.text import format_p_value, format_percent, format_score, pluralize

QUESTION = "Does the model recognize the names that it was trained on?"
NOT_MEASURED = Conclusion(QUESTION, "Not known yet", "there is nothing to compare")
_CAVEAT = (
    "This assumes that the two lists of names differ in the training alone. Names that are more common, or of another "
    "origin, can have a higher confidence without it."
)
DEFINITIONS = {
    "M-MEM": "the share of pairs of one trained and one other name in which the trained name has the higher confidence",
    "dev": "the half of the names on which prompts are selected",
    "test": "the half of the names on which the selected prompts are judged",
    "ties": "pairs with equal confidences, which count as not recognized",
}


def entities_conclusion(results: Sequence[ModelResult]) -> Conclusion:
    """Return the conclusion about each model.

    The test compares the mean M-MEM over all prompts with 0.5. Its standard error is that of a single prompt under
    chance, and a mean over prompts has at most this one, so the p-value is rather too large.
    """
    tested = [(result, _p_value(result)) for result in results]
    answers = [likelihood_words(p) for _, p in tested]
    same = len(set(answers)) == 1
    evidence = [
        f"{'' if same else f'{answer.lower()} '}{result.name} has the higher confidence in the trained name in "
        f"{format_percent(float(result.measured.test_m_mem.mean()))} of the pairs ({format_p_value(p)})"
        for (result, p), answer in zip(tested, answers, strict=True)
    ]
    progress = [
        f"so far {len(result.measured.used):,} of {pluralize(result.measured.given, 'prompt')} with {result.name}"
        for result in results
        if not result.measured.is_complete
    ]
    return Conclusion(
        QUESTION,
        answers[0] if same else "It depends on the model",
        "; ".join([*evidence, *progress]),
        _CAVEAT,
        [
            KeyFigure(
                f"mean M-MEM, {result.name}",
                format_score(float(result.measured.test_m_mem.mean())),
                f"{format_p_value(p)}, {pluralize(result.measured.test_scores[0].pairs, 'pair')}",
            )
            for result, p in tested
        ],
    )


def _p_value(result: ModelResult) -> float:
    measured = result.measured
    error = chance_error(len(measured.test.inside), len(measured.test.outside))
    return NormalDist().cdf((0.5 - float(measured.test_m_mem.mean())) / error)
