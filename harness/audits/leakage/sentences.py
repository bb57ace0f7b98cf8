"""Sentences that explain the figures of a leakage audit. They quote no text of the corpus."""

from collections.abc import Iterator

from harness.audits.leakage.params import LONGEST_FOLLOWED, describe_matches
from harness.audits.leakage.results import LeakageResults, Trend, wrong_positions
from harness.audits.leakage.trends import CLASSES
from harness.audits.near_results import near_sentence
from harness.audits.schemes import Scheme
from harness.core.text import format_number, format_percent, pluralize

_SHOWN = 0.005
"""The smallest number that two decimals do not show as 0."""


def leakage_sentences(results: LeakageResults) -> list[str]:
    """Return the sentences, most important first."""
    schemes = ", ".join(map(results.label, results.params.schemes))
    return [
        *_progress(results),
        *_unmeasured(results),
        *_leakage(results),
        *_positions(results),
        *(_trend(results, trend) for trend in results.trends),
        *_inexact(results),
        *(near_sentence(one, results.label(Scheme.TOP_K), "sequence") for one in results.near),
        *_matches(results),
        f"Schemes: {schemes}. For top-k the source gives 5 in its text and 10, the default here, in its Table 1.",
        *results.pairs.notes,
    ]


def _progress(results: LeakageResults) -> Iterator[str]:
    if not results.is_complete:
        yield f"Measured so far: {len(results.reference.sequences):,} of {pluralize(len(results.pairs), 'sequence')}."


def _unmeasured(results: LeakageResults) -> Iterator[str]:
    if number := max(setting.unmeasured for setting in results.measured.settings):
        yield f"Left out {pluralize(number, 'sequence')} that could not be measured through the endpoint."
    for one in results.schemes:
        if missing := len(results.reference.sequences) - one.sequences:
            yield (
                f"{results.label(one.scheme)} has results for {pluralize(one.sequences, 'sequence')}. For {missing:,} "
                "more, the tokens that the endpoint returned do not settle which are the likeliest."
            )


def _leakage(results: LeakageResults) -> Iterator[str]:
    schemes = {one.scheme: one for one in results.schemes}
    greedy, top_k, label = schemes[Scheme.GREEDY], schemes[Scheme.TOP_K], results.label(Scheme.TOP_K)
    if not top_k.sequences:
        return
    yield (
        f"{results.where}: greedy decoding leaks {format_percent(greedy.mean)} of the sequences. One query each under "
        f"{label} is expected to leak {format_percent(top_k.mean)}. {top_k.over_1_in_1000} sequences have a "
        f"probability above 1/1000 under {label}."
    )
    number = len(results.params.random_schemes)
    exceeding = [one.exceeds_greedy for one in results.schemes if one.exceeds_greedy is not None]
    if exceeding:
        yield (
            f"Measured by ESP > 1/X, {len(exceeding)} of {number} random schemes leak more than greedy "
            f"decoding after {min(exceeding)} to {max(exceeding)} queries."
        )
    if never := number - len(exceeding):
        yield f"{pluralize(never, 'scheme')} did not exceed greedy decoding within a million queries."
    factor = max((one.factors[0] for one in results.schemes if one.factors[0] >= _SHOWN), default=None)
    if factor is not None:
        yield (
            f"After {results.params.queries} queries up to {format_number(factor)} times as many sequences have leaked "
            "as the extraction rate says."
        )


def _positions(results: LeakageResults) -> Iterator[str]:
    plain = next(one for one in results.schemes if one.scheme is Scheme.PLAIN)
    if plain.first >= _SHOWN:
        yield (
            "Under plain sampling the mean probability of the suffix's first token is "
            f"{format_number(plain.first)}, and {format_number(plain.last)} for its last token, "
            f"{format_number(plain.last_to_first)} times as much."
        )


def _trend(results: LeakageResults, trend: Trend) -> str:
    place = results.params.random_schemes.index(Scheme.TOP_K)
    parts = trend.parts[place]
    decreasing = [number for number, (_, is_up) in enumerate(CLASSES) if not is_up]
    decreases = format_percent(float(parts[[1, 3, 5, 7]].sum()))
    in_classes = format_percent(float(trend.classes[place, decreasing].sum()))
    in_two_classes = format_percent(float(parts[6] + parts[7]))
    return (
        f"Over {trend.settings} {trend.over}, the probability of {decreases} of "
        f"{pluralize(trend.sequences, 'sequence')} decreases from first to last under {results.label(Scheme.TOP_K)}. "
        f"The source's classes count {in_classes}: the {in_two_classes} with both extremes inside are in two classes."
    )


def _inexact(results: LeakageResults) -> Iterator[str]:
    for one in results.inexact:
        if one.scheme is Scheme.TOP_K:
            yield (
                f"With exactly {pluralize(one.n, 'token')} substituted, {one.over_esp} sequences are likelier "
                f"than without substitution under {results.label(Scheme.TOP_K)}."
            )
    if not results.inexact:
        return
    if results.suffix_length > LONGEST_FOLLOWED:
        yield (
            f"For suffixes of {results.suffix_length} tokens the n-ISP is estimated for n = 1 from "
            f"{results.params.draws} sampled substitutions per sequence. Its bounds are means of 95 % intervals."
        )
    elif any(one.exact < one.over_esp.of for one in results.inexact):
        yield "The n-ISP sums the likeliest partial suffixes; its upper bound adds the probability of those left out."


def _matches(results: LeakageResults) -> Iterator[str]:
    if top := results.matches.get(Scheme.TOP_K):
        counts = wrong_positions(top, results.suffix_length)
        yield (
            f"Among the {len(top)} likeliest partial matches under {results.label(Scheme.TOP_K)} "
            f"({describe_matches(results.suffix_length)}), position {int(counts.argmax()) + 1} of {len(counts)} is "
            f"wrong most often, in {int(counts.max())}."
        )
