"""Findings of an entities audit, from complete or partial rows: figures, sentences, the conclusion, tables, charts."""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from harness.audits.entities import measures
from harness.audits.entities.inputs import PARTS
from harness.audits.entities.results import Chain, ModelResult, Scores, all_names, measured_values, model_result
from harness.audits.report import Row, bars_of, likelihood_words, lines_of, measure_table, table_of, wide_table
from harness.core.arrays import Floats
from harness.core.audit import AuditInputs, RowsOf
from harness.core.findings import (
    BarChart,
    Chart,
    Conclusion,
    Findings,
    FoundTable,
    HeatMap,
    KeyFigure,
    LineChart,
    Series,
)
from harness.core.measures import MeasureRow, MeasureTable
from harness.core.paths import model_names
from harness.core.text import format_number, format_p_value, format_percent, format_score, json_value, pluralize

QUESTION = "Does the model recognize the names that it was trained on?"
NOT_MEASURED = Conclusion(QUESTION, "Not known yet", "there is nothing to compare")
_CAVEAT = (
    "This assumes that the two lists of names differ in the training alone. Names that are more common, or of another "
    "origin, can have a higher confidence without it."
)
DEFINITIONS = {
    measures.M_MEM.title: measures.M_MEM.meaning,
    "dev": "the half of the names on which prompts are selected",
    "test": "the half of the names on which the selected prompts are judged",
    measures.TIES.title: measures.TIES.meaning,
}
_CHANCE = 0.5
_Y_LABEL = "M-MEM, test half"


def entities_findings(inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `names` (of each list), `prompts`, `models` (what was measured and left out of each), `left_out`.
    """
    results, notes = [], list(inputs.texts.get("notes", []))
    for number, name in enumerate(model_names(models)):
        result = model_result(inputs, rows, number, name)
        if result is None:
            notes.append(f"{name}: nothing to compare yet.")
        else:
            results.append(result)
    figures: dict[str, Any] = {
        "names": {part: len(inputs.texts[part]) for part in PARTS},
        "prompts": len(inputs.texts["prompts"]),
        "models": [_model_figures(result) for result in results],
        "left_out": notes,
    }
    if not results:
        return Findings(json_value(figures), notes, conclusion=NOT_MEASURED)
    measured = measured_values(results)
    return Findings(
        json_value(figures),
        [
            *(sentence for result in results for sentence in _sentences(result, measured)),
            *_how_to_read(measured),
            *notes,
        ],
        _tables(inputs, results, measured),
        _charts(results, measured),
        conclusion=_conclusion(results, measured),
        definitions=DEFINITIONS,
        measures=measured,
    )


def _model_figures(result: ModelResult) -> dict[str, Any]:
    measured, scores = result.measured, result.measured.scores
    read = slice(measured.read)
    return {
        "model": result.name,
        "is_complete": measured.is_complete,
        "prompts_measured": len(measured.used),
        "prompts_left_out": int((measured.is_measured[read] & ~measured.uses_prompt[read]).sum()),
        "names_left_out": int((~measured.uses_name).sum()),
        "pairs": {"dev": scores[0].dev.pairs, "test": scores[0].test.pairs},
        "ties_test": sum(score.test.ties for score in scores),
    }


def _sentences(result: ModelResult, values: MeasureTable) -> Iterator[str]:
    measured, name = result.measured, result.name
    so_far = "" if measured.is_complete else f" (so far {len(measured.used)} of {measured.read} prompts)"
    mean, best, worst = (
        format_percent(values.get(measures.PROMPTS_M_MEM, model=name, side=measures.TEST, case=case).value)
        for case in ("mean", "best", "worst")
    )
    yield (
        f"{name}{so_far}: averaged over {pluralize(len(measured.used), 'prompt')}, the trained name has the higher "
        f"confidence in {mean} of {measured.scores[0].test.pairs:,} test pairs; from {worst} to "
        f"{best} by prompt. Without memorization, 50 % are expected, with a standard error of at "
        f"most {format_percent(values.get(measures.CHANCE_ERROR, model=name).value)}."
    )
    methods = {
        row.case: format_percent(row.estimate.value)
        for row in values.select(measures.M_MEM, model=name, side=measures.TEST)
    }
    # A single prompt has no order, and equal prompts have none.
    tau = values.get(measures.TAU, model=name, side=measures.BOTH_HALVES).value
    correlation = f" The orders of the prompts correlate with τ = {format_number(tau)}." if math.isfinite(tau) else ""
    yield (
        f"{name}: the best prompt on the dev half has an M-MEM of {methods[measures.BEST_ON_DEV]} on the test "
        f"half, the worst {methods[measures.WORST_ON_DEV]}.{correlation}"
    )
    if measures.BEST_MODIFIED in methods:
        yield (
            f"{name}: of the prompts with words dropped, the best on the dev half has an M-MEM of "
            f"{methods[measures.BEST_MODIFIED]} on the test half, the worst {methods[measures.WORST_MODIFIED]}."
        )
    if lost := int((~measured.uses_name).sum()):
        yield f"{name}: names left out because the vocabulary or most prompts lack them: {lost}."
    if lost := int((measured.is_measured & ~measured.uses_prompt).sum()):
        yield f"{name}: prompts left out because they exceed the model's context with some name: {lost}."


def _how_to_read(values: MeasureTable) -> Iterator[str]:
    yield (
        "M-MEM is the share of pairs of one trained and one other name in which the trained name has the higher "
        "confidence. Ties count as none and are listed. Prompts are selected on the dev half and judged on the names "
        "of the test half. Positions and lengths count words and punctuation marks, not a model's tokens."
    )
    if values.select(measures.ATTENTION):
        yield (
            "Attention to the name is the sum over its tokens, so a name with more tokens gets more of it. Compare "
            "lists of names with similar lengths."
        )
    if any(math.isfinite(row.estimate.value) for row in values.select(measures.COCHRAN_P)):
        yield (
            "Cochran's Q treats pairs that share a name as independent, as in the source, so its p-value is too small. "
            "The bootstrap over names does not; rely on it."
        )


def _conclusion(results: Sequence[ModelResult], values: MeasureTable) -> Conclusion:
    """Return the conclusion about each model.

    The test compares the mean M-MEM over all prompts with 0.5. Its standard error is that of a single prompt under
    chance, and a mean over prompts has at most this one, so the p-value is rather too large.
    """
    tested = []
    for result in results:
        mean = values.get(measures.PROMPTS_M_MEM, model=result.name, side=measures.TEST, case="mean").value
        p = NormalDist().cdf((_CHANCE - mean) / values.get(measures.CHANCE_ERROR, model=result.name).value)
        tested.append((result, mean, p, likelihood_words(p)))
    first_answer = tested[0][-1]
    is_same = all(answer == first_answer for *_, answer in tested)
    evidence = [
        f"{'' if is_same else f'{answer.lower()} '}{result.name} has the higher confidence in the trained name in "
        f"{format_percent(mean)} of the pairs ({format_p_value(p)})"
        for result, mean, p, answer in tested
    ]
    progress = [
        f"so far {len(result.measured.used):,} of {pluralize(result.measured.read, 'prompt')} with {result.name}"
        for result in results
        if not result.measured.is_complete
    ]
    figures = [
        KeyFigure(
            f"mean M-MEM, {result.name}",
            format_score(mean),
            f"{format_p_value(p)}, {pluralize(result.measured.scores[0].test.pairs, 'pair')}",
        )
        for result, mean, p, _ in tested
    ]
    answer = first_answer if is_same else "It depends on the model"
    return Conclusion(QUESTION, answer, "; ".join([*evidence, *progress]), _CAVEAT, figures)


def _tables(inputs: AuditInputs, results: Sequence[ModelResult], measured: MeasureTable) -> list[FoundTable]:
    """Return all tables for which there are results, at least one."""
    # Built-in prompts are public; a user's own may be confidential.
    texts = ("prompt", "word") if inputs.arrays.get("has_own_prompts", True) else ()

    def by_model(rows_of: Callable[[ModelResult], Iterator[Row]]) -> list[Row]:
        return [{"model": result.name, **row} for result in results for row in rows_of(result)]

    tests = [row for row in measured.select(*measures.TESTS) if row.side != measures.BETWEEN_MODELS]
    by_type = {"model": "model", "type": "case"}
    tables = [
        table_of("methods", "M-MEM by method", by_model(_method_rows), text_columns=texts),
        wide_table("analyses", "Differences between prompts", tests, by={"model": "model"}, intervals=(measures.LEAD,)),
        wide_table(
            "types",
            "Mean M-MEM by sentence type",
            measured.select(measures.BY_TYPE),
            by=by_type,
            intervals=(measures.BY_TYPE,),
            number="prompts",
        ),
    ]
    if between := measured.select(measures.TAU, measures.TAU_P, side=measures.BETWEEN_MODELS):
        title = "Rank correlation between models"
        tables.append(
            wide_table("between-models", title, between, by={"model": "model", "other": "case"}, number="prompts")
        )
    tables.append(measure_table(measured))
    for name, title, rows_of in (
        ("prompts", "Every prompt", _prompt_rows),
        ("engineered", "Prompts with words dropped", _engineered_rows),
        ("words", "Confidence added by each word", _word_rows),
        ("attention", "Attention to the name", _attention_rows),
    ):
        if rows := by_model(rows_of):
            tables.append(table_of(name, title, rows, is_detail=True, text_columns=texts))
    rows = by_model(lambda result: _name_rows(inputs, result))
    return [*tables, table_of("names", "Every name", rows, is_detail=True, text_columns=("name",))]


def _score_columns(scores: Scores, **after_dev: Any) -> Row:
    """Return the columns of the scores in both halves."""
    dev, test = scores
    return {"dev": dev.m_mem, **after_dev, "test": test.m_mem, "low": test.low, "high": test.high, "ties": test.ties}


def _method_rows(result: ModelResult) -> Iterator[Row]:
    for family, name, prompt, scores in result.methods:
        yield {"family": family, "method": name, "prompt": prompt or None, **_score_columns(scores)}


def _prompt_rows(result: ModelResult) -> Iterator[Row]:
    for place, scores in zip(result.measured.used.tolist(), result.measured.scores, strict=True):
        prompt = result.measured.prompts[place]
        yield {
            "number": place + 1,
            "prompt": prompt.text,
            "type": prompt.kind,
            "words": prompt.length,
            "position": prompt.position,
            **_score_columns(scores, **{"dev ties": scores.dev.ties}),
        }


def _engineered_rows(result: ModelResult) -> Iterator[Row]:
    for chain, step, prompt, scores in result.engineered:
        yield {
            "chain": chain.name.lower(),
            "words dropped": step,
            "prompt": prompt.text,
            **_score_columns(scores),
        }


def _word_rows(result: ModelResult) -> Iterator[Row]:
    columns = (result.words[name] for name in ("chain", "step", "word", "text", "added", "share"))
    for chain, step, place, word, added, share in zip(*columns, strict=True):
        yield {
            "chain": Chain(chain).name.lower(),
            "words dropped": step,
            "place": place,
            "word": word,
            "confidence added": added,
            "importance": share,
        }


def _attention_rows(result: ModelResult) -> Iterator[Row]:
    for prompt, _, words in result.attention:
        for word, inside, outside in zip(words["text"], words["inside"], words["outside"], strict=True):
            yield {
                "prompt": result.measured.prompts[prompt].text,
                "word": word,
                measures.INSIDE: inside,
                measures.OUTSIDE: outside,
            }


def _name_rows(inputs: AuditInputs, result: ModelResult) -> Iterator[Row]:
    measured = result.measured
    lists = [part.replace("_", ", ") for part in PARTS for _ in inputs.texts[part]]
    means = measured.used_confidences.mean(axis=0)
    for name, list_, mean, is_used in zip(all_names(inputs), lists, means, measured.uses_name, strict=True):
        yield {"name": name, "list": list_, "mean confidence": mean if is_used else None}


def _charts(results: Sequence[ModelResult], measured: MeasureTable) -> list[Chart]:
    """Return all charts for which there are results, at least one."""

    def bars(name: str, title: str, rows: Sequence[MeasureRow]) -> BarChart:
        return bars_of(name, title, _Y_LABEL, rows, label="case", group="model", reference=_CHANCE)

    def lines(name: str, title: str, x_label: str, rows: Sequence[MeasureRow]) -> LineChart:
        return lines_of(name, title, x_label, f"mean {_Y_LABEL}", rows, series="model", has_markers=True)

    words = "words and punctuation marks"
    before = f"{words} before the name"
    charts: list[Chart] = [
        _sorted_prompts(results),
        bars("m-mem-by-method", "M-MEM by method", measured.select(measures.M_MEM, side=measures.TEST)),
        bars("m-mem-by-type", "Mean M-MEM by sentence type", measured.select(measures.BY_TYPE)),
        lines("m-mem-by-position", "M-MEM by the name's position", before, measured.select(measures.BY_POSITION)),
        lines("m-mem-by-length", "M-MEM by the prompt's length", words, measured.select(measures.BY_LENGTH)),
    ]
    for number, result in enumerate(results, 1):
        title, ending = (f", {result.name}", f"-{number}") if len(results) > 1 else ("", "")
        charts += [_importance(result, Chain(chain), title, ending) for chain in sorted(set(result.words["chain"]))]
        if result.attention:
            charts += [
                _attention_to_names(result, measured, title, ending),
                _attention_of_words(result, title, ending),
            ]
    return charts


def _sorted_prompts(results: Sequence[ModelResult]) -> LineChart:
    series = []
    for result in results:
        scores = sorted((score.test for score in result.measured.scores), key=lambda score: score.m_mem)
        m_mem, low, high = np.array([(score.m_mem, score.low, score.high) for score in scores]).T
        series.append(Series(result.name, np.arange(1, len(scores) + 1), m_mem, low, high))
    longest = max(len(line.x) for line in series)
    series.append(Series("chance", np.array([1, longest]), np.full(2, _CHANCE), is_dashed=True))
    return LineChart("m-mem-by-prompt", "M-MEM of every prompt, lowest first", "prompt", _Y_LABEL, series)


def _importance(result: ModelResult, chain: Chain, title: str, ending: str) -> HeatMap:
    """Return a row of words per step, coloured by the confidence that is lost without the word."""
    is_chain = np.array(result.words["chain"]) == chain
    places, added, steps = (np.array(result.words[name])[is_chain] for name in ("word", "added", "step"))
    names, row = np.unique(steps, return_inverse=True)
    prompts = {prompt.step: prompt.prompt for prompt in result.engineered if prompt.chain is chain}
    words = [[word.text for word in prompts[step].words] for step in names.tolist()]
    values = np.full((len(names), max(map(len, words))), np.nan)
    values[row, places] = added
    which_prompt = chain.name.lower()
    return _word_map(
        f"importance-{which_prompt}{ending}",
        f"Confidence added by each word of the {which_prompt} prompt{title}",
        [f"{step} dropped" for step in names],
        words,
        values,
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
        measured.select(measures.ATTENTION, model=result.name),
        label=lambda row: f"{row.case} ({format_score(dev.get(row.case))})",
        group="side",
        controls=(f"{measures.OUTSIDE} names",),
    )


def _attention_of_words(result: ModelResult, title: str, ending: str) -> HeatMap:
    """Return the words of the best and of the worst prompt, for both lists."""
    shown = {"best": result.attention[0].words}
    if len(result.attention) > 1:
        shown["worst"] = result.attention[-1].words
    rows = [
        (f"{prompt}, {side}", words["text"], words[column])
        for prompt, words in shown.items()
        for side, column in ((measures.INSIDE, "inside"), (measures.OUTSIDE, "outside"))
    ]
    labels, words, weights = ([row[part] for row in rows] for part in range(3))
    values = np.full((len(rows), max(map(len, words))), np.nan)
    for cells, of_words in zip(values, weights, strict=True):
        cells[: len(of_words)] = of_words
    return _word_map(f"attention-words{ending}", f"Attention from each word to the name{title}", labels, words, values)


def _word_map(
    name: str,
    title: str,
    labels: Sequence[str],
    words: Sequence[Sequence[str]],
    values: Floats,
    *,
    is_diverging: bool = False,
) -> HeatMap:
    """Return a heat map of a row of words per label. values: [labels, words], NaN beyond the words of a row."""
    width = values.shape[1]
    cells = [[*row, *[""] * (width - len(row))] for row in words]
    columns = [str(column + 1) for column in range(width)]
    return HeatMap(name, title, labels, columns, values, cells, is_diverging=is_diverging)
