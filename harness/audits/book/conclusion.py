"""The conclusion of a book audit: how much of the texts can be extracted, and what that does not show."""

from harness.audits.book.charts import estimate_text
from harness.audits.book.params import THRESHOLDS
from harness.audits.book.results import BookResults
from harness.audits.near_results import NEAR_DEFINITION
from harness.core.findings import Conclusion, KeyFigure
from harness.core.text import format_bound, format_percent, pluralize

QUESTION = "How much of the text can be extracted?"
NOT_MEASURED = Conclusion(QUESTION, "Not known yet", "nothing has been measured")
DEFINITIONS = {
    "window": "consecutive tokens of the text: a prefix that the model is given and the suffix after it",
    "coverage": "the share of characters in a suffix of at least the given probability, among those in any measured "
    "suffix",
    "probability of a suffix": "the probability that one query with the prefix returns the suffix exactly",
    "near-verbatim": NEAR_DEFINITION,
    "(n, p)-discoverable": "returned by at least one of n queries with a probability of at least p",
}


def book_conclusion(results: BookResults) -> Conclusion:
    """Return the conclusion for the model with the largest coverage."""
    one = results.reference
    assert one.total is not None
    name, least = results.names[one.model], THRESHOLDS[0]
    covered = one.total.coverage(least)
    most = one.total.coverage(THRESHOLDS[-1])
    control = ""
    if one.control is not None:
        control = f"; of the control text, {estimate_text(one.control.coverage(least))}"
    progress = results.progress
    so_far = f"; so far {progress.windows:,} of {pluralize(progress.all_windows, 'window')}"
    if progress.all_near:
        so_far += f" and {progress.near:,} of {pluralize(progress.all_near, 'near-verbatim window')}"
    so_far = "" if results.is_complete else so_far
    caveat = (
        "Common text is likely without having been memorized. A control text of the same kind shows how much."
        if one.control is None
        else "Text that the model has seen elsewhere, such as quotations, counts as well."
    )
    passages = [each for each in results.by_text if each.measured.model == one.model]
    subject = [each for each in passages if not results.texts.is_control[each.measured.text]]
    longest = max((each.longest for each in subject if each.longest), key=lambda p: p.end - p.start, default=None)
    if len(results.names) > 1:
        name = f"{name} (the largest coverage of {len(results.names)} targets)"
    return Conclusion(
        QUESTION,
        f"{format_percent(covered.value)} of the characters",
        f"the part of {pluralize(len(subject), 'text')} that lies in suffixes of "
        f"{pluralize(results.params.suffix_tokens, 'token')} which {name} returns with a "
        f"probability of at least {format_bound(least)} under {results.label} "
        f"(95 % interval {format_percent(covered.low)} to {format_percent(covered.high)}); "
        f"{format_percent(most.value)} at {format_bound(THRESHOLDS[-1])}{control}{so_far}",
        caveat,
        (
            KeyFigure(f"coverage at p ≥ {format_bound(least)}", format_percent(covered.value), results.label),
            KeyFigure(f"coverage at p ≥ {format_bound(THRESHOLDS[-1])}", format_percent(most.value), results.label),
            KeyFigure(
                f"windows at p ≥ {format_bound(least)}",
                format_percent(one.total.extractable(least).value),
                f"of {one.total.windows:,}",
            ),
            KeyFigure(
                "longest passage",
                "–" if longest is None else pluralize(longest.end - longest.start, "character"),
                f"at p ≥ {format_bound(least)}",
            ),
        ),
    )
