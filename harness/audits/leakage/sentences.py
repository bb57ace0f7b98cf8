"""How the figures of a leakage audit are to be read, in sentences that quote no text of the corpus."""

from collections.abc import Sequence

from harness.audits.leakage.pairs import Pairs
from harness.audits.leakage.params import LONGEST_FOLLOWED, LeakageParams, Scheme, reach_of_matches
from harness.audits.leakage.rows import Setting
from harness.audits.leakage.summaries import InexactSummary, Match, SchemeSummary, Trend, wrong_positions
from harness.audits.leakage.trends import CLASSES
from harness.core.text import pluralize

_SHOWN = 0.005
"""What two decimals show as more than nothing."""


def sentences_on(
    params: LeakageParams,
    pairs: Pairs,
    reference: Setting,
    by_scheme: Sequence[SchemeSummary],
    inexact: Sequence[InexactSummary],
    over: Sequence[Trend],
    matches: dict[Scheme, list[Match]],
    *,
    where: str,
    is_complete: bool,
) -> list[str]:
    """What to know, the most important first. where: the model and prefix length that single figures are of."""
    said = [] if is_complete else [f"So far: {pluralize(len(reference.sequences), 'sequence')} of {len(pairs):,}."]
    said += [_on_leakage(params, by_scheme, where), _on_passing(params, by_scheme), _on_positions(params, by_scheme)]
    said += [_on_trend(trend, params) for trend in over]
    if inexact:
        said += _on_inexact(inexact, params, pairs)
    if top := matches.get(Scheme.TOP_K):
        counts = wrong_positions(top, pairs.suffixes.shape[1])
        said.append(
            f"Among the {len(top)} likeliest partial matches under {params.words(Scheme.TOP_K)} "
            f"({reach_of_matches(pairs.suffixes.shape[1])}), position "
            f"{int(counts.argmax()) + 1} of {len(counts)} is wrong most often, in {int(counts.max())}."
        )
    said.append(
        f"Schemes: {', '.join(params.words(scheme) for scheme in Scheme)}; for top-k the source gives 5 in its text "
        "and 10 in its Table 1, of which the latter is the default here."
    )
    return [sentence for sentence in [*said, *pairs.notes] if sentence]


def _on_leakage(params: LeakageParams, by_scheme: Sequence[SchemeSummary], where: str) -> str:
    found = {one.scheme: one for one in by_scheme}
    greedy, top_k = found[Scheme.GREEDY], found[Scheme.TOP_K]
    over = top_k.over[2]
    return (
        f"{where}: greedy decoding gives out {greedy.mean:.1%} of the sequences, one query each under "
        f"{params.words(Scheme.TOP_K)} is expected to give out {top_k.mean:.1%}, and {over.value:.1%} "
        f"[{over.low:.1%}, {over.high:.1%}] have a probability above 1/1000 there."
    )


def _on_passing(params: LeakageParams, by_scheme: Sequence[SchemeSummary]) -> str:
    passing = [one.passes_greedy for one in by_scheme if one.passes_greedy is not None]
    factors = [one.factors[0] for one in by_scheme if one.factors[0] >= _SHOWN]
    never = sum(one.passes_greedy is None for one in by_scheme if one.scheme is not Scheme.GREEDY)
    said = []
    if passing:
        said.append(f"By ESP > 1/X the schemes pass greedy decoding at {min(passing)} to {max(passing)} queries")
    if never:
        said.append(f"{pluralize(never, 'scheme')} not within a million")
    if factors:
        said.append(
            f"at {params.queries} queries up to {max(factors):.2f} times what the extraction rate says has leaked"
        )
    return "; ".join(said) + "." if said else ""


def _on_positions(params: LeakageParams, by_scheme: Sequence[SchemeSummary]) -> str:
    plain = next(one for one in by_scheme if one.scheme is Scheme.PLAIN)
    if plain.first < _SHOWN:
        return ""
    return (
        f"Under plain sampling the suffix's last token has a mean probability of {plain.last:.2f}, the first of "
        f"{plain.first:.2f}: {plain.last / plain.first:.2f} times as much."
    )


def _on_trend(trend: Trend, params: LeakageParams) -> str:
    place = list(Scheme).index(Scheme.TOP_K) - 1
    decreasing = [number for number, (_, is_up) in enumerate(CLASSES) if not is_up]
    parts = trend.parts[place]
    inside = parts[6] + parts[7]
    down = parts[1] + parts[3] + parts[5] + parts[7]
    return (
        f"Over {trend.settings} {trend.over}, {down:.1%} of {pluralize(trend.sequences, 'sequence')} end less likely "
        f"than they begin under {params.words(Scheme.TOP_K)} (the source's classes count "
        f"{float(trend.classes[place, decreasing].sum()):.1%}, since {inside:.1%} have both extremes inside and are in "
        "two of them)."
    )


def _on_inexact(inexact: Sequence[InexactSummary], params: LeakageParams, pairs: Pairs) -> list[str]:
    top = [one for one in inexact if one.scheme is Scheme.TOP_K]
    said = []
    for one in top:
        said.append(
            f"With exactly {pluralize(one.errors, 'token')} substituted, {one.over_esp.value:.1%} "
            f"[{one.over_esp.low:.1%}, {one.over_esp.high:.1%}] of {pluralize(one.over_esp.of, 'sequence')} are "
            f"likelier than without under {params.words(Scheme.TOP_K)}."
        )
    if pairs.suffixes.shape[1] > LONGEST_FOLLOWED:
        said.append(
            f"Suffixes of {pairs.suffixes.shape[1]} tokens: n-ISP is estimated for n = 1, from {params.draws} drawn "
            "substitutions a sequence; 'from' and 'to' are means of 95 % intervals."
        )
    elif any(one.exact < one.over_esp.of for one in inexact):
        said.append(
            "Where a scheme allows many tokens, n-ISP counts the likeliest beginnings, and 'to' adds the bound on what "
            "was left out."
        )
    return said
