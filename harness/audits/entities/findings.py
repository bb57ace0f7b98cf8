"""Findings of an entities audit, from complete or partial rows: figures, sentences, the conclusion, tables, charts."""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Any

from harness.audits.entities import measures
from harness.audits.entities.charts import CHANCE, entities_charts
from harness.audits.entities.inputs import Names
from harness.audits.entities.results import Chain, ModelResult, Scores, measured_values, model_result
from harness.audits.report import Row, case_table, likelihood_words, measure_table, table_of, wide_table
from harness.audits.smallest_result import changing_share
from harness.core.audit import RowsOf
from harness.core.findings import Conclusion, Findings, FoundTable, KeyFigure
from harness.core.measures import MeasureTable
from harness.core.multiple_comparisons import ALPHA
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
    "importance": "the softmax of the M-MEM that each word of a prompt adds on dev",
}


def entities_findings(inputs: Names, rows: RowsOf, models: tuple[str, ...]) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `names` (of each list), `prompts`, `models` (what was measured and left out of each), `left_out`.
    """
    results, notes = [], list(inputs.notes)
    for number, name in enumerate(model_names(models)):
        result = model_result(inputs, rows, number, name)
        if result is None:
            notes.append(f"{name}: nothing to compare yet.")
        else:
            results.append(result)
    figures: dict[str, Any] = {
        "names": {part: len(names) for part, names in inputs.parts.items()},
        "prompts": len(inputs.prompts),
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
        entities_charts(results, measured),
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
        (row.case, row.side): format_percent(row.estimate.value) for row in values.select(measures.M_MEM, model=name)
    }

    def both_halves(method: str) -> str:
        return f"{methods[method, measures.DEV]} on dev and {methods[method, measures.TEST]} on test"

    # A single prompt has no order, and equal prompts have none.
    tau = values.get(measures.TAU, model=name, side=measures.DEV_TO_TEST, case="").value
    correlation = f" The orders of the prompts correlate with τ = {format_number(tau)}." if math.isfinite(tau) else ""
    best, worst = (
        f"{both_halves(case)} (rank {int(values.get(measures.RANK, model=name, case=case).value)})"
        for case in (measures.BEST_ON_DEV, measures.WORST_ON_DEV)
    )
    yield (
        f"{name}: the best prompt on the dev half has an M-MEM of {best}, the worst {worst}. Rank 1 is the best of "
        f"{pluralize(len(measured.used), 'prompt')} on test, and -1 the worst.{correlation}"
    )
    if (measures.BEST_MODIFIED, measures.DEV) in methods:
        yield (
            f"{name}: of the prompts with words dropped, the best on the dev half has an M-MEM of "
            f"{both_halves(measures.BEST_MODIFIED)}, the worst {both_halves(measures.WORST_MODIFIED)}."
        )
    if lost := int((~measured.uses_name).sum()):
        yield f"{name}: names left out because the vocabulary or most prompts lack them: {lost}."
    if lost := int((measured.is_measured & ~measured.uses_prompt).sum()):
        yield f"{name}: prompts left out because they exceed the model's context with some name: {lost}."


def _how_to_read(values: MeasureTable) -> Iterator[str]:
    yield (
        "M-MEM is the share of pairs of one trained and one other name in which the trained name has the higher "
        "confidence. Ties count as none and are listed. Prompts are selected on the dev half and judged on the names "
        "of the test half. Lengths and positions count the model's tokens, and the name is one token."
    )
    if values.select(measures.ATTENTION):
        yield (
            "Attention is the mean over heads, layers and a name's tokens, for the names of the dev half. Its maps "
            "include special tokens."
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
        for result, mean, p, *_ in tested
    ]
    answer = first_answer if is_same else "It depends on the model"
    return Conclusion(QUESTION, answer, "; ".join([*evidence, *progress]), _CAVEAT, figures)


def _tables(inputs: Names, results: Sequence[ModelResult], measured: MeasureTable) -> list[FoundTable]:
    """Return all tables for which there are results, at least one."""
    # Built-in prompts are public; a user's own may be confidential.
    texts = ("prompt", "word", "token", "other token") if inputs.has_own_prompts else ()

    def by_model(rows_of: Callable[[ModelResult], Iterator[Row]]) -> list[Row]:
        return [{"model": result.name, **row} for result in results for row in rows_of(result)]

    tests = measured.select(*measures.TESTS, case="")
    between = [row for row in measured.select(measures.TAU, measures.TAU_P) if row.case]
    by_type = {"model": "model", "type": "case"}
    tables = [
        table_of(
            "methods", "M-MEM by method", by_model(lambda result: _method_rows(result, measured)), text_columns=texts
        ),
        wide_table("analyses", "Differences between prompts", tests, by={"model": "model"}, intervals=(measures.LEAD,)),
        case_table(
            "spread",
            "M-MEM of the prompts",
            measured.select(measures.PROMPTS_M_MEM),
            by={"model": "model", "half": "side"},
        ),
        wide_table(
            "types",
            "Mean M-MEM by sentence type, dev half",
            measured.select(measures.BY_TYPE),
            by=by_type,
            intervals=(measures.BY_TYPE,),
            number="prompts",
        ),
        case_table(
            "properties",
            "Correlation of M-MEM with properties of the prompts, dev half",
            measured.select(measures.PROPERTY),
            by={"model": "model"},
        ),
    ]
    if between:
        title = "Rank correlation between models"
        by = {"model": "model", "other": "case", "halves": "side"}
        tables.append(wide_table("between-models", title, between, by=by, number="prompts"))
    tables.append(measure_table(measured))
    for name, title, rows_of in (
        ("prompts", "Every prompt", _prompt_rows),
        ("engineered", "Prompts with words dropped", _engineered_rows),
        ("words", "M-MEM added by each word, dev half", _word_rows),
        ("attention", "Attention between tokens, dev half", _attention_rows),
    ):
        if rows := by_model(rows_of):
            tables.append(table_of(name, title, rows, is_detail=True, text_columns=texts))
    rows = by_model(lambda result: _name_rows(inputs, result))
    return [*tables, table_of("names", "Every name", rows, is_detail=True, text_columns=("name",))]


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
    for place, scores in zip(result.measured.used.tolist(), result.measured.scores, strict=True):
        prompt = result.measured.prompts[place]
        yield {
            "number": place + 1,
            "prompt": prompt.text,
            "type": prompt.kind,
            "tokens": int(result.measured.lengths[place]),
            "position": int(result.measured.positions[place]),
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
                "prompt": result.measured.prompts[of_prompt.prompt].text,
                "token": token,
                "other token": tokens[key],
                measures.INSIDE: inside,
                measures.OUTSIDE: outside,
            }


def _name_rows(inputs: Names, result: ModelResult) -> Iterator[Row]:
    measured = result.measured
    lists = [part.replace("_", ", ") for part, names in inputs.parts.items() for _ in names]
    means = measured.used_confidences.mean(axis=0)
    for name, list_, mean, is_used in zip(inputs.all, lists, means, measured.uses_name, strict=True):
        yield {"name": name, "list": list_, "mean confidence": mean if is_used else None}
