"""Findings of an entities audit, from complete or partial rows: figures, sentences, the conclusion, tables, charts."""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Any

from harness.audits.entities import measures
from harness.audits.entities.charts import CHANCE, entities_charts
from harness.audits.entities.inputs import Names
from harness.audits.entities.results import Chain, ModelResult, Scores, measured_values
from harness.audits.report import (
    Part,
    Row,
    bars_of,
    case_table,
    draw_sections,
    grouped_chart,
    likelihood_words,
    measure_table,
    section,
    table_of,
    wide_table,
)
from harness.audits.smallest_result import changing_share
from harness.core.audit import RowsOf
from harness.core.findings import Conclusion, Findings, FoundTable, KeyFigure
from harness.core.measures import MeasureTable
from harness.core.multiple_comparisons import ALPHA
from harness.core.paths import model_names
from harness.core.text import format_p_value, format_percent, format_score, json_value, pluralize

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
    "importance": "the softmax of the M-MEM that each word of a prompt adds on dev",
}


_MODEL: dict[str, Part] = {"model": "model"}
_BARS: dict[str, Any] = {"label": "case", "group": "model", "reference": CHANCE}
_BY_TYPE, _SPREAD = "Mean M-MEM by sentence type, dev half", "M-MEM of the prompts"
_PROPERTIES = "Correlation of M-MEM with properties of the prompts, dev half"
_ANALYSES = section(
    wide_table,
    "analyses",
    "Differences between prompts",
    *measures.TESTS,
    only={"case": ""},
    by=_MODEL,
    intervals=(measures.LEAD,),
)
_TYPES = section(
    wide_table,
    "types",
    _BY_TYPE,
    measures.BY_TYPE,
    by=_MODEL | {"type": "case"},
    intervals=(measures.BY_TYPE,),
    number="prompts",
)
_METHODS = section(
    bars_of,
    "m-mem-by-method",
    "M-MEM by method",
    measures.M_MEM,
    only={"side": measures.TEST},
    y_label="M-MEM, test half",
    **_BARS,
)
_BETWEEN_MODELS = section(
    wide_table,
    "between-models",
    "Rank correlation between models",
    measures.TAU,
    measures.TAU_P,
    by=_MODEL | {"other": "case", "halves": "side"},
    number="prompts",
)
_SECTIONS = (
    _ANALYSES,
    section(case_table, "spread", _SPREAD, measures.PROMPTS_M_MEM, by=_MODEL | {"half": "side"}),
    _TYPES,
    section(case_table, "properties", _PROPERTIES, measures.PROPERTY, by=_MODEL),
    _METHODS,
    section(bars_of, "m-mem-by-type", _BY_TYPE, measures.BY_TYPE, y_label="mean M-MEM", **_BARS),
    section(grouped_chart, "m-mem-by-position", "M-MEM by the name's position, dev half", measures.BY_POSITION),
    section(grouped_chart, "m-mem-by-length", "M-MEM by the prompt's length, dev half", measures.BY_LENGTH),
)


def entities_findings(inputs: Names, rows: RowsOf, models: tuple[str, ...]) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `names` (of each list), `prompts`, `models` (what was measured and left out of each), `left_out`.
    """
    results, notes = [], list(inputs.notes)
    for number, name in enumerate(model_names(models)):
        result = ModelResult(inputs, rows, number, name)
        if result.has_pairs:
            results.append(result)
        else:
            notes.append(f"{name}: nothing to compare yet.")
    figures: dict[str, Any] = {
        "names": {part: len(names) for part, names in inputs.parts.items()},
        "prompts": len(inputs.prompts),
        "models": [_model_figures(result) for result in results],
        "left_out": notes,
    }
    if not results:
        return Findings(json_value(figures), notes, conclusion=NOT_MEASURED)
    values = measured_values(results)
    sentences = [sentence for result in results for sentence in _left_out(result)]
    if any(math.isfinite(row.estimate.value) for row in values.select(measures.COCHRAN_P)):
        sentences.append(
            "Cochran's Q treats pairs that share a name as independent, as Xia et al. do, so its p-value is too small. "
            "The bootstrap over names does not; rely on it."
        )
    tables, charts = draw_sections(values, _SECTIONS)
    between = [row for row in values.select(measures.TAU, measures.TAU_P) if row.case]
    tables += draw_sections(between, [_BETWEEN_MODELS])[0]
    return Findings(
        json_value(figures),
        [*sentences, *notes],
        _tables(inputs, results, values, tables),
        entities_charts(results, values, charts),
        conclusion=_conclusion(results, values),
        definitions=DEFINITIONS,
        measures=values,
    )


def _model_figures(result: ModelResult) -> dict[str, Any]:
    read = slice(result.input_prompts)
    return {
        "model": result.name,
        "is_complete": result.is_complete,
        "prompts_measured": len(result.used),
        "prompts_left_out": int((result.is_measured[read] & ~result.uses_prompt[read]).sum()),
        "names_left_out": int((~result.uses_name).sum()),
        "pairs": {"dev": result.scores[0].dev.pairs, "test": result.scores[0].test.pairs},
        "ties_test": sum(score.test.ties for score in result.scores),
    }


def _left_out(result: ModelResult) -> Iterator[str]:
    if lost := int((~result.uses_name).sum()):
        yield f"{result.name}: names left out because the vocabulary or most prompts lack them: {lost}."
    if lost := int((result.is_measured & ~result.uses_prompt).sum()):
        yield f"{result.name}: prompts left out because they exceed the model's context with some name: {lost}."


def _conclusion(results: Sequence[ModelResult], values: MeasureTable) -> Conclusion:
    """Return the conclusion about each model.

    The test compares the mean M-MEM over all prompts with 0.5. Its standard error is that of a single prompt under
    chance, and a mean over prompts has at most this one, so the p-value is rather too large.
    """
    tested = []
    for result in results:
        mean = values.get(measures.PROMPTS_M_MEM, model=result.name, side=measures.TEST, case="mean").value
        error = values.get(measures.CHANCE_ERROR, model=result.name).value
        p = NormalDist().cdf((CHANCE - mean) / error)
        needed = changing_share(CHANCE + NormalDist().inv_cdf(1 - ALPHA) * error, "share")
        words = format_p_value(p) if p < ALPHA else f"{format_p_value(p)}; {needed}"
        tested.append((result, mean, p, words, likelihood_words(p)))
    first_answer = tested[0][-1]
    is_same = all(answer == first_answer for *_, answer in tested)
    evidence = [
        f"{'' if is_same else f'{answer.lower()} '}{result.name} has the higher confidence in the trained name in "
        f"{format_percent(mean)} of the pairs ({words})"
        for result, mean, _, words, answer in tested
    ]
    progress = [
        f"so far {len(result.used):,} of {pluralize(result.input_prompts, 'prompt')} with {result.name}"
        for result in results
        if not result.is_complete
    ]
    figures = [
        KeyFigure(
            f"mean M-MEM, {result.name}",
            format_score(mean),
            f"{format_p_value(p)}, {pluralize(result.scores[0].test.pairs, 'pair')}",
        )
        for result, mean, p, *_ in tested
    ]
    answer = first_answer if is_same else "It depends on the model"
    return Conclusion(QUESTION, answer, "; ".join([*evidence, *progress]), _CAVEAT, figures)


def _tables(
    inputs: Names, results: Sequence[ModelResult], values: MeasureTable, of_values: Sequence[FoundTable]
) -> list[FoundTable]:
    """Return the tables of the source's methods, of measured values, and of all prompts, words and names."""
    # Built-in prompts are public; a user's own may be confidential.
    texts = ("prompt", "word", "token", "other token") if inputs.has_own_prompts else ()

    def table(
        name: str,
        title: str,
        rows_of: Callable[[ModelResult], Iterator[Row]],
        *,
        is_detail: bool = True,
        text_columns: tuple[str, ...] = texts,
    ) -> FoundTable:
        rows = [{"model": result.name, **row} for result in results for row in rows_of(result)]
        return table_of(name, title, rows, is_detail=is_detail, text_columns=text_columns)

    details = (
        table("prompts", "Every prompt", _prompt_rows),
        table("engineered", "Prompts with words dropped", _engineered_rows),
        table("words", "M-MEM added by each word, dev half", _word_rows),
        table("attention", "Attention between tokens, dev half", _attention_rows),
        table("names", "Every name", _name_rows, text_columns=("name",)),
    )
    return [
        table("methods", "M-MEM by method", lambda result: _method_rows(result, values), is_detail=False),
        *of_values,
        measure_table(values),
        *(detail for detail in details if detail.columns),
    ]


def _score_columns(scores: Scores, **after_dev: Any) -> Row:
    """Return the columns of the scores in both halves."""
    dev, test = scores
    return {"dev": dev.m_mem, **after_dev, "test": test.m_mem, "low": test.low, "high": test.high, "ties": test.ties}


def _method_rows(result: ModelResult, values: MeasureTable) -> Iterator[Row]:
    for family, name, prompt, scores in result.methods:
        rank = values.get(measures.RANK, model=result.name, case=name).value
        columns = _score_columns(scores)
        yield {"family": family, "method": name, "prompt": prompt or None, **columns, measures.RANK.title: rank}


def _prompt_rows(result: ModelResult) -> Iterator[Row]:
    for place, scores in zip(result.used.tolist(), result.scores, strict=True):
        prompt = result.prompts[place]
        yield {
            "number": place + 1,
            "prompt": prompt.text,
            "type": prompt.kind,
            "tokens": int(result.lengths[place]),
            "position": int(result.positions[place]),
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
            "M-MEM added": added,
            "importance": share,
        }


def _attention_rows(result: ModelResult) -> Iterator[Row]:
    for of_prompt in result.attention:
        tokens = of_prompt.tokens
        columns = (of_prompt.weights[name] for name in ("text", "key", "inside", "outside"))
        for token, key, inside, outside in zip(*columns, strict=True):
            yield {
                "prompt": result.prompts[of_prompt.prompt].text,
                "token": token,
                "other token": tokens[key],
                measures.INSIDE: inside,
                measures.OUTSIDE: outside,
            }


def _name_rows(result: ModelResult) -> Iterator[Row]:
    lists = [part.replace("_", ", ") for part, names in result.inputs.parts.items() for _ in names]
    means = result.used_confidences.mean(axis=0)
    for name, list_, mean, is_used in zip(result.inputs.all, lists, means, result.uses_name, strict=True):
        yield {"name": name, "list": list_, "mean confidence": mean if is_used else None}
