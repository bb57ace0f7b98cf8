"""Near-verbatim probabilities in an audit: parameters, rows, and what is reported. It loads no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.audits.report import share_of, table_of
from harness.audits.schemes import SchemeParams
from harness.core.arrays import Floats, Ints
from harness.core.attack import Field
from harness.core.audit import RowsOf
from harness.core.findings import FoundTable, LineChart, Series
from harness.core.measures import Estimate
from harness.core.rows import Kind, table
from harness.core.text import format_percent, pluralize

CHARACTER_EDITS = (5, 10, 20)
"""The numbers of character edits at which probabilities are reported."""
NEAR_DEFINITION = (
    "a suffix that differs from the given one by at most the given number of insertions, deletions and substitutions; "
    "its probability is a lower bound, the sum over likely such suffixes"
)
NEAR = table(
    "near", model=Kind.INTEGER, text=Kind.INTEGER, sequence=Kind.INTEGER, tokens=Kind.REALS, characters=Kind.REALS
)
"""The probability of a suffix within 0, 1, … token edits, and within each of `CHARACTER_EDITS`."""
OVER = 0.001
NEAR_WEIGHT = 40.0
"""Work for a near-verbatim probability, relative to an exact one."""
NEAR_BATCH = 16


class NearParams(SchemeParams):
    """The parameters of an audit that measures near-verbatim probabilities."""

    near: int = Field(100, ge=0, description="Sequences whose near-verbatim probability is bounded; 0 for none.")
    edits: int = Field(5, ge=1, le=50, description="Maximum token edits of a near-verbatim suffix.")
    beams: int = Field(16, ge=1, le=256, description="Partial suffixes followed in the search for near-verbatim ones.")


@dataclass(frozen=True)
class NearSummary:
    """Near-verbatim probabilities of some sequences under one model.

    name: the name of the model or of the text. of: the number of sequences. mean, [edits + 1], and over: the mean and
    the share above 1/1000 for each number of token edits. mean_characters, over_characters: the same for
    `CHARACTER_EDITS`, NaN without a tokenizer.
    """

    name: str
    model: int
    of: int
    mean: Floats
    over: list[Estimate]
    mean_characters: Floats
    over_characters: list[Estimate]
    is_control: bool = False


def summarize_near(
    rows: RowsOf, name: str, *, model: int, texts: Sequence[int] = (0,), is_control: bool = False
) -> NearSummary | None:
    """Return the summary of the sequences of `texts` under a model, or None if none was measured."""
    found = rows(NEAR.name)
    chosen = np.flatnonzero(
        (np.asarray(found["model"], np.int64) == model) & np.isin(np.asarray(found["text"], np.int64), texts)
    )
    if not len(chosen):
        return None
    keys: Ints = np.column_stack([np.asarray(found[column], np.int64)[chosen] for column in ("text", "sequence")])
    _, last = np.unique(keys[::-1], axis=0, return_index=True)
    chosen = chosen[::-1][last]
    tokens, characters = (np.asarray(found[column], np.float64)[chosen] for column in ("tokens", "characters"))

    def shares(probabilities: Floats) -> list[Estimate]:
        return [share_of(int((column > OVER).sum()), len(column)) for column in probabilities.T]

    return NearSummary(
        name,
        model,
        len(chosen),
        tokens.mean(axis=0),
        shares(tokens),
        characters.mean(axis=0),
        shares(characters),
        is_control,
    )


def near_figures(summaries: Sequence[NearSummary]) -> list[dict[str, Any]]:
    """Return the summaries for JSON."""

    def figures(means: Floats, shares: Sequence[Estimate], edits: Sequence[int]) -> Mapping[str, Any]:
        return {
            str(number): {"mean": mean, "over_1_in_1000": share._asdict()}
            for number, mean, share in zip(edits, means, shares, strict=True)
        }

    return [
        {
            "name": one.name,
            "is_control": one.is_control,
            "sequences": one.of,
            "token_edits": figures(one.mean, one.over, range(len(one.mean))),
            "character_edits": figures(one.mean_characters, one.over_characters, CHARACTER_EDITS),
        }
        for one in summaries
    ]


def near_table(summaries: Sequence[NearSummary], scheme: str, column: str) -> FoundTable:
    """Return the table of the summaries. column: the name of the first one."""
    rows = [
        {
            column: one.name,
            "edits": "verbatim" if number == 0 else f"≤ {pluralize(number, kind)}",
            "mean probability": mean,
            "> 1/1000": share.value,
            "low": share.low,
            "high": share.high,
            "number": one.of,
        }
        for one in summaries
        for kind, means, shares, edits in (
            ("token", one.mean, one.over, range(len(one.mean))),
            ("character", one.mean_characters, one.over_characters, CHARACTER_EDITS),
        )
        for number, mean, share in zip(edits, means, shares, strict=True)
        if not np.isnan(mean)
    ]
    return table_of("near-verbatim", f"Near-verbatim suffixes (lower bounds), {scheme}", rows)


def near_chart(summaries: Sequence[NearSummary], scheme: str, noun: str) -> LineChart:
    """Return the share above 1/1000 by the number of token edits. noun: of what."""
    series = [
        Series(
            one.name,
            np.arange(len(one.over)),
            np.array([share.value for share in one.over]),
            np.array([share.low for share in one.over]),
            np.array([share.high for share in one.over]),
            is_dashed=one.is_control,
        )
        for one in summaries
    ]
    title = f"Share of {noun}s with a near-verbatim probability > 1/1000, {scheme}"
    return LineChart("near-verbatim", title, "token edits", f"share of {noun}s", series, has_markers=True)


def near_sentence(one: NearSummary, scheme: str, noun: str) -> str:
    """Return what the summary says in words. noun: what was measured."""
    return (
        f"{one.name}: the share of {pluralize(one.of, noun)} with a probability above 1/1000 under {scheme} is "
        f"{format_percent(one.over[0].value)} verbatim and at least {format_percent(one.over[-1].value)} near-verbatim "
        f"(at most {pluralize(len(one.over) - 1, 'token edit')})."
    )
