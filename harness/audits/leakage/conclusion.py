"""The conclusion of a leakage audit: how likely the sequences are to leak, and what that does not show."""

import numpy as np

from harness.audits.leakage.results import LeakageResults
from harness.audits.near_results import NEAR_DEFINITION
from harness.audits.schemes import RANDOM_SCHEMES, Scheme
from harness.core.findings import Conclusion, KeyFigure
from harness.core.text import format_interval, format_number, format_percent, format_score, pluralize

QUESTION = "How likely is the model to leak these sequences?"
NOT_MEASURED = Conclusion(QUESTION, "Not known yet", "nothing has been measured")
DEFINITIONS = {
    "ESP": "exact sample probability: the probability that one query, given the prefix, returns the suffix exactly",
    "n-ISP": "n-inexact sample probability: the probability that one query returns the suffix with exactly n tokens "
    "substituted",
    "ISP": "inexact sample probability: the probability that one query returns the suffix with exactly n tokens "
    "substituted",
    "near-verbatim": NEAR_DEFINITION,
    "(n, p)-discoverable": "returned by at least one of n queries with a probability of at least p",
    "extraction rate": "the expected share of sequences that one query each returns, which is the mean ESP",
}


def leakage_conclusion(results: LeakageResults) -> Conclusion:
    """Return the conclusion for the largest model with whole prefixes."""
    schemes = {one.scheme: one for one in results.schemes}
    top_k, greedy = schemes[Scheme.TOP_K], schemes[Scheme.GREEDY]
    label = results.label(Scheme.TOP_K)
    if not top_k.sequences:
        return Conclusion(QUESTION, "Not known", f"no sequence could be measured under {label}")
    over = top_k.over_1_in_1000
    measured, whole = len(results.reference.sequences), pluralize(len(results.pairs), "sequence")
    so_far = "" if results.is_complete else f"; so far {measured:,} of {whole}"
    name = results.names[results.reference.model]
    most = max((one.mean for one in results.schemes if one.scheme in RANDOM_SCHEMES and one.sequences), default=np.nan)
    return Conclusion(
        QUESTION,
        f"{format_percent(top_k.mean)} in one query",
        f"the expected share of {pluralize(top_k.sequences, 'sequence')} whose suffix {name} returns exactly under "
        f"{label}; {format_percent(over.value)} have a probability above 1/1000{so_far}",
        "A suffix that is easy to predict leaks like a memorized one. These probabilities do not tell the two apart.",
        (
            KeyFigure(f"mean ESP, {label}", format_score(top_k.mean), f"largest of the schemes {format_score(most)}"),
            KeyFigure("returned by greedy decoding", format_score(greedy.mean), f"of {greedy.sequences:,} sequences"),
            KeyFigure("ESP > 1/1000", format_score(over.value), f"{format_interval(over.low, over.high)}, {label}"),
            KeyFigure(
                "queries to exceed greedy",
                "–" if top_k.exceeds_greedy is None else format_number(top_k.exceeds_greedy),
                f"per sequence, {label}",
            ),
        ),
    )
