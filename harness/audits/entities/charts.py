"""The charts of an entities audit."""

from collections.abc import Iterator, Sequence

import numpy as np

from harness.audits.entities.measurements import Chain
from harness.audits.entities.results import (
    ATTENTION,
    BY_LENGTH,
    BY_POSITION,
    BY_TYPE,
    M_MEM,
    OUTSIDE,
    TEST,
    ModelResult,
)
from harness.audits.report import bars_of, lines_of
from harness.core.findings import BarChart, Chart, HeatMap, LineChart, Series
from harness.core.measures import MeasureRow, MeasureTable
from harness.core.text import format_score

_CHANCE = 0.5
_Y_LABEL = "M-MEM, test half"


def entities_charts(results: Sequence[ModelResult], measured: MeasureTable) -> list[Chart]:
    """Return all charts for which there are results, at least one."""

    def bars(name: str, title: str, rows: Sequence[MeasureRow]) -> BarChart:
        return bars_of(name, title, _Y_LABEL, rows, label="case", group="model", reference=_CHANCE)

    def lines(name: str, title: str, x_label: str, rows: Sequence[MeasureRow]) -> LineChart:
        return lines_of(name, title, x_label, f"mean {_Y_LABEL}", rows, series="model", has_markers=True)

    words = "words and punctuation marks"
    return [
        _sorted_prompts(results),
        bars("m-mem-by-method", "M-MEM by method", measured.select(M_MEM, side=TEST)),
        bars("m-mem-by-type", "Mean M-MEM by sentence type", measured.select(BY_TYPE)),
        lines(
            "m-mem-by-position",
            "M-MEM by the name's position",
            f"{words} before the name",
            measured.select(BY_POSITION),
        ),
        lines("m-mem-by-length", "M-MEM by the prompt's length", words, measured.select(BY_LENGTH)),
        *(
            chart
            for number, result in enumerate(results, 1)
            for chart in _model_charts(result, measured, number, len(results))
        ),
    ]


def _sorted_prompts(results: Sequence[ModelResult]) -> LineChart:
    series = []
    for result in results:
        scores = sorted(result.measured.test_scores, key=lambda score: score.m_mem)
        m_mem, low, high = np.array([(score.m_mem, score.low, score.high) for score in scores]).T
        series.append(Series(result.name, np.arange(1, len(scores) + 1), m_mem, low, high))
    longest = max(len(one.x) for one in series)
    series.append(Series("chance", np.array([1, longest]), np.full(2, _CHANCE), is_dashed=True))
    return LineChart("m-mem-by-prompt", "M-MEM of every prompt, lowest first", "prompt", _Y_LABEL, series)


def _model_charts(result: ModelResult, measured: MeasureTable, number: int, models: int) -> Iterator[Chart]:
    """Yield the charts of a single model: word importance and attention."""
    title, ending = (f", {result.name}", f"-{number}") if models > 1 else ("", "")
    for chain in Chain:
        if any(one.chain is chain for one in result.importances):
            yield _importance(result, chain, title, ending)
    if result.attention:
        yield _attention_to_names(result, measured, title, ending)
        yield _attention_of_words(result, title, ending)


def _importance(result: ModelResult, chain: Chain, title: str, ending: str) -> HeatMap:
    """Return a row of words per step, coloured by the confidence that is lost without the word."""
    steps = [one for one in result.importances if one.chain is chain]
    prompts = {one.step: one.prompt for one in result.engineered if one.chain is chain}
    words = [[word.text for word in prompts[one.step].words] if one.step in prompts else [] for one in steps]
    width = max(max(map(len, words)), max(int(one.places.max()) + 1 for one in steps))
    values = np.full((len(steps), width), np.nan)
    for row, one in enumerate(steps):
        values[row, one.places] = one.added
    which = chain.name.lower()
    return HeatMap(
        f"importance-{which}{ending}",
        f"Confidence added by each word of the {which} prompt{title}",
        [f"{one.step} dropped" for one in steps],
        [str(column + 1) for column in range(width)],
        values,
        [[*row, *[""] * (width - len(row))] for row in words],
        is_diverging=True,
    )


def _attention_to_names(result: ModelResult, measured: MeasureTable, title: str, ending: str) -> BarChart:
    """Return both lists side by side, with intervals over names."""
    used = result.measured.used.tolist()
    dev = {f"#{place + 1}": m_mem for place, m_mem in zip(used, result.measured.dev_m_mem.tolist(), strict=True)}
    return bars_of(
        f"attention{ending}",
        f"Attention to the name by prompt (and its M-MEM on dev){title}",
        "attention from the other words",
        measured.select(ATTENTION, model=result.name),
        label=lambda row: f"{row.case} ({format_score(dev.get(row.case))})",
        group="side",
        controls=(OUTSIDE,),
    )


def _attention_of_words(result: ModelResult, title: str, ending: str) -> HeatMap:
    """Return the words of the best and of the worst prompt, for both lists."""
    chosen = [("best", result.attention[0]), ("worst", result.attention[-1])][: len(result.attention)]
    width = max(len(one.words) for _, one in chosen)
    labels: list[str] = []
    words: list[list[str]] = []
    values = np.full((2 * len(chosen), width), np.nan)
    for which, one in chosen:
        for side, weights in (("in-train", one.of_inside), ("out-of-train", one.of_outside)):
            values[len(labels), : len(weights)] = weights
            labels.append(f"{which}, {side}")
            words.append([*one.words, *[""] * (width - len(one.words))])
    columns = [str(column + 1) for column in range(width)]
    name = f"attention-words{ending}"
    return HeatMap(name, f"Attention from each word to the name{title}", labels, columns, values, words)
