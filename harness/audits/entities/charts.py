"""The charts of an entities audit."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.audits.entities.engineering import Chain
from harness.audits.entities.results import ModelResult
from harness.audits.entities.statistics import GroupMean
from harness.audits.report import bar_chart, normal_interval
from harness.core.findings import BarChart, Chart, HeatMap, LineChart, Series
from harness.core.measures import Estimate
from harness.core.text import format_score

_CHANCE = 0.5
_Y_LABEL = "M-MEM, test half"


def entities_charts(results: Sequence[ModelResult]) -> list[Chart]:
    """Return all charts for which there are results, at least one."""
    methods = {result.name: {method.name: method.test for method in result.methods} for result in results}
    kinds = {result.name: {str(group.group): group for group in result.by_kind} for result in results}
    method_names = list(dict.fromkeys(name for method in methods.values() for name in method))
    kind_names = sorted({name for kind in kinds.values() for name in kind})
    by_position = {result.name: result.by_position for result in results}
    by_length = {result.name: result.by_length for result in results}
    words = "words and punctuation marks"
    return [
        _sorted_prompts(results),
        bar_chart("m-mem-by-method", "M-MEM by method", _Y_LABEL, methods, method_names, reference=_CHANCE),
        bar_chart("m-mem-by-type", "Mean M-MEM by sentence type", _Y_LABEL, kinds, kind_names, reference=_CHANCE),
        _group_chart("m-mem-by-position", "M-MEM by the name's position", f"{words} before the name", by_position),
        _group_chart("m-mem-by-length", "M-MEM by the prompt's length", words, by_length),
        *(chart for number, result in enumerate(results, 1) for chart in _model_charts(result, number, len(results))),
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


def _group_chart(name: str, title: str, x_label: str, models: Mapping[str, Sequence[GroupMean]]) -> LineChart:
    """Return a line for each model through the means of its groups, whose names are numbers."""
    series = []
    for model, groups in models.items():
        x, y, low, high = np.array([(each.group, each.value, each.low, each.high) for each in groups], float).T
        series.append(Series(model, x, y, low, high))
    return LineChart(name, title, x_label, f"mean {_Y_LABEL}", series, has_markers=True)


def _model_charts(result: ModelResult, number: int, models: int) -> Iterator[Chart]:
    """Yield the charts of a single model: word importance and attention."""
    title, ending = (f", {result.name}", f"-{number}") if models > 1 else ("", "")
    for chain in Chain:
        if any(one.chain is chain for one in result.importances):
            yield _importance(result, chain, title, ending)
    if result.attention:
        yield _attention_to_names(result, title, ending)
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


def _attention_to_names(result: ModelResult, title: str, ending: str) -> BarChart:
    """Return both lists side by side, with intervals over names."""
    dev = dict(zip(result.measured.used.tolist(), result.measured.dev_m_mem.tolist(), strict=True))
    labels = [f"#{one.prompt + 1} ({format_score(dev.get(one.prompt))})" for one in result.attention]
    inside, outside = "in-train names", "out-of-train names"
    groups = {
        name: {
            label: Estimate(*normal_interval(getattr(one, side)), 0)
            for label, one in zip(labels, result.attention, strict=True)
        }
        for name, side in ((inside, "inside"), (outside, "outside"))
    }
    title = f"Attention to the name by prompt (and its M-MEM on dev){title}"
    return bar_chart(f"attention{ending}", title, "attention from the other words", groups, labels, controls=(outside,))


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
