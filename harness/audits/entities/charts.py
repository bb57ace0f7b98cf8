"""The charts of an entities audit, from its measures and the rows of each model."""

from collections.abc import Sequence

import numpy as np

from harness.audits.entities import measures
from harness.audits.entities.results import Chain, ModelResult, PromptAttention
from harness.audits.report import bars_of
from harness.core.findings import BarChart, Chart, HeatMap, LineChart, Series
from harness.core.measures import MeasureRow, MeasureTable
from harness.core.text import format_score

CHANCE = 0.5


def entities_charts(results: Sequence[ModelResult], table: MeasureTable, of_values: Sequence[Chart]) -> list[Chart]:
    """Return the charts of the source: those `of_values`, of all prompts, between models, and of single prompts."""
    charts: list[Chart] = [_sorted_prompts(results), *of_values]
    if len(results) > 1:
        names = [result.name for result in results]
        charts.append(_mean_by_model(table))
        charts += [_correlations(names, table, side) for side in (measures.DEV, measures.TEST, measures.DEV_TO_TEST)]
    for number, result in enumerate(results, 1):
        title, ending = (f", {result.name}", f"-{number}") if len(results) > 1 else ("", "")
        charts += [_importance(result, Chain(chain), title, ending) for chain in sorted(set(result.words["chain"]))]
        if result.attention:
            charts.append(_attention_to_names(result, table, title, ending))
            ends = {"best": result.attention[0], "worst": result.attention[-1]}
            charts += [
                _attention_map(f"attention-{rank}{ending}", f"Attention in the {rank} prompt{title}", of_prompt)
                for rank, of_prompt in ends.items()
            ]
    return charts


def _sorted_prompts(results: Sequence[ModelResult]) -> LineChart:
    series = []
    for result in results:
        scores = sorted((score.test for score in result.scores), key=lambda score: score.m_mem)
        m_mem, low, high = np.array([(score.m_mem, score.low, score.high) for score in scores]).T
        series.append(Series(result.name, np.arange(1, len(scores) + 1), m_mem, low, high))
    longest = max(len(line.x) for line in series)
    series.append(Series("chance", np.array([1, longest]), np.full(2, CHANCE), is_dashed=True))
    return LineChart("m-mem-by-prompt", "M-MEM of every prompt, lowest first", "prompt", "M-MEM, test half", series)


def _mean_by_model(table: MeasureTable) -> BarChart:
    """Return the mean M-MEM of the prompts of each model, with the standard deviation over prompts in its label."""

    def label(row: MeasureRow) -> str:
        deviation = table.get(row.measure, model=row.model, side=row.side, case="standard deviation").value
        return f"{row.model} (SD {format_score(deviation)})"

    means = table.select(measures.PROMPTS_M_MEM, side=measures.DEV, case="mean")
    title = "Mean M-MEM of all prompts, and its standard deviation over prompts"
    return bars_of(
        "m-mem-by-model", title, means, y_label="mean M-MEM, dev half", label=label, group="case", reference=CHANCE
    )


def _correlations(names: Sequence[str], table: MeasureTable, side: str) -> HeatMap:
    """Return Kendall's τ between models. From dev to test, the row's model is measured on dev, the column's on test."""
    values = np.full((len(names), len(names)), np.nan)
    for row in table.select(measures.TAU, side=side):
        first, second = names.index(row.model), names.index(row.case or row.model)
        values[first, second] = row.estimate.value
        if side != measures.DEV_TO_TEST:
            values[second, first] = row.estimate.value
    is_across = side == measures.DEV_TO_TEST
    rows, columns = (
        ([f"{name} on {half}" for name in names] for half in ("dev", "test")) if is_across else (names, names)
    )
    words = [["" if np.isnan(value) else f"{value:.2f}" for value in of_row] for of_row in values]
    title = f"Kendall's τ of the prompts' M-MEM between models, {'dev to test' if is_across else side}"
    name = f"correlations-{side.replace(' ', '-')}"
    return HeatMap(name, title, rows, columns, values, words, is_diverging=True)


def _importance(result: ModelResult, chain: Chain, title: str, ending: str) -> HeatMap:
    """Return a row of words per step, coloured by the M-MEM on dev that each word adds."""
    is_chain = np.array(result.words["chain"]) == chain
    places, added, steps = (np.array(result.words[name])[is_chain] for name in ("word", "added", "step"))
    numbers, row = np.unique(steps, return_inverse=True)
    prompts = {prompt.step: prompt for prompt in result.engineered if prompt.chain is chain}
    prompts_of_chain = [prompts[step] for step in numbers.tolist()]
    width = max(prompt.prompt.length for prompt in prompts_of_chain)
    words = [
        [*(word.text for word in prompt.prompt.words), *[""] * (width - prompt.prompt.length)]
        for prompt in prompts_of_chain
    ]
    values = np.full((len(prompts_of_chain), width), np.nan)
    values[row, places] = added
    scores = [[format_score(score.m_mem) for score in prompt.scores] for prompt in prompts_of_chain]
    labels = [f"{step} dropped: {dev} dev, {test} test" for step, (dev, test) in zip(numbers, scores, strict=True)]
    rank = chain.name.lower()
    return HeatMap(
        f"importance-{rank}{ending}",
        f"M-MEM on dev that each word of the {rank} prompt adds{title}",
        labels,
        [str(column + 1) for column in range(width)],
        values,
        words,
        is_diverging=True,
    )


def _attention_to_names(result: ModelResult, table: MeasureTable, title: str, ending: str) -> BarChart:
    """Return both lists side by side, with intervals over names."""
    used = result.used.tolist()
    dev = {f"#{place + 1}": m_mem for place, m_mem in zip(used, result.dev_m_mem.tolist(), strict=True)}
    return bars_of(
        f"attention{ending}",
        f"Attention to the name by prompt (and its M-MEM on dev){title}",
        table.select(measures.ATTENTION, model=result.name),
        y_label="mean attention from the other tokens",
        label=lambda row: f"{row.case} ({format_score(dev.get(row.case))})",
        group="side",
        controls=(f"{measures.OUTSIDE} names",),
    )


def _attention_map(name: str, title: str, attention: PromptAttention) -> HeatMap:
    """Return the attention from the token of each row to that of each column, for in-train and then other names.

    The tokens are words in the first row and column, because labels are not redacted.
    """
    tokens = attention.tokens
    number = len(tokens)
    sides = {measures.INSIDE: "inside", measures.OUTSIDE: "outside"}
    values = np.full((1 + len(sides) * number, 1 + number), np.nan)
    values[1:, 1:] = np.concatenate(
        [np.array(attention.weights[column]).reshape(number, number) for column in sides.values()]
    )
    places = [str(place) for place in range(1, number + 1)]
    words = [["", *tokens], *([token, *[""] * number] for token in tokens * len(sides))]
    rows = ["token", *(f"{side} names, token {place}" for side in sides for place in places)]
    return HeatMap(name, title, rows, ["token", *places], values, words)
