"""Findings of an entities audit, from complete or partial rows: figures, tables, sentences and the conclusion."""

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Any

from harness.audits.entities.charts import entities_charts
from harness.audits.entities.inputs import PARTS
from harness.audits.entities.measurements import all_names
from harness.audits.entities.results import (
    BETWEEN_MODELS,
    BY_TYPE,
    COCHRAN,
    COCHRAN_P,
    LEAD,
    LEAD_P,
    TAU,
    TAU_P,
    ModelResult,
    measured_values,
    model_result,
)
from harness.audits.entities.statistics import PairScore, chance_error
from harness.audits.report import Row, likelihood_words, measure_table, table_of, wide_table
from harness.core.audit import AuditInputs, RowsOf
from harness.core.findings import Conclusion, Findings, FoundTable, KeyFigure
from harness.core.measures import MeasureTable
from harness.core.paths import model_names
from harness.core.text import (
    format_number,
    format_p_value,
    format_percent,
    format_score,
    json_value,
    pluralize,
)

QUESTION = "Does the model recognize the names that it was trained on?"
NOT_MEASURED = Conclusion(QUESTION, "Not known yet", "there is nothing to compare")
_CAVEAT = (
    "This assumes that the two lists of names differ in the training alone. Names that are more common, or of another "
    "origin, can have a higher confidence without it."
)
DEFINITIONS = {
    "M-MEM": "the share of pairs of one trained and one other name in which the trained name has the higher confidence",
    "dev": "the half of the names on which prompts are selected",
    "test": "the half of the names on which the selected prompts are judged",
    "ties": "pairs with equal confidences, which count as not recognized",
}


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
        [*(sentence for result in results for sentence in _sentences(result)), *_how_to_read(results), *notes],
        _tables(inputs, results, measured),
        entities_charts(results, measured),
        conclusion=_conclusion(results),
        definitions=DEFINITIONS,
        measures=measured,
    )


def _model_figures(result: ModelResult) -> dict[str, Any]:
    measured = result.measured
    given = slice(measured.given)
    return {
        "model": result.name,
        "is_complete": measured.is_complete,
        "prompts_measured": len(measured.used),
        "prompts_left_out": int((measured.is_measured[given] & ~measured.uses_prompt[given]).sum()),
        "names_left_out": int((~measured.uses_name).sum()),
        "pairs": {"dev": measured.dev_scores[0].pairs, "test": measured.test_scores[0].pairs},
        "ties_test": sum(score.ties for score in measured.test_scores),
    }


def _sentences(result: ModelResult) -> Iterator[str]:
    measured, name = result.measured, result.name
    pairs = measured.test_scores[0].pairs
    error = chance_error(len(measured.test.inside), len(measured.test.outside))
    so_far = "" if measured.is_complete else f" (so far {len(measured.used)} of {measured.given} prompts)"
    test = measured.test_m_mem
    yield (
        f"{name}{so_far}: averaged over {pluralize(len(measured.used), 'prompt')}, the trained name has the higher "
        f"confidence in {format_percent(test.mean())} of {pairs:,} test pairs; from {format_percent(test.min())} to "
        f"{format_percent(test.max())} by prompt. Without memorization, 50 % are expected, with a standard error of at "
        f"most {format_percent(error)}."
    )
    methods = {method.name: method.test.m_mem for method in result.methods}
    # A single prompt has no order, and equal prompts have none.
    tau = result.dev_to_test.tau
    correlation = f" The orders of the prompts correlate with τ = {format_number(tau)}." if math.isfinite(tau) else ""
    yield (
        f"{name}: the best prompt on the dev half has an M-MEM of "
        f"{format_percent(methods['best prompt on dev'])} on the test half, the worst "
        f"{format_percent(methods['worst prompt on dev'])}.{correlation}"
    )
    if (best := methods.get("best modified prompt (BM-PT)")) is not None:
        worst = methods["worst modified prompt (WM-PT)"]
        yield (
            f"{name}: of the prompts with words dropped, the best on the dev half has an M-MEM of "
            f"{format_percent(best)} on the test half, the worst {format_percent(worst)}."
        )
    if lost := int((~measured.uses_name).sum()):
        yield f"{name}: names left out because the vocabulary or most prompts lack them: {lost}."
    if lost := int((measured.is_measured & ~measured.uses_prompt).sum()):
        yield f"{name}: prompts left out because they exceed the model's context with some name: {lost}."


def _how_to_read(results: Sequence[ModelResult]) -> Iterator[str]:
    yield (
        "M-MEM is the share of pairs of one trained and one other name in which the trained name has the higher "
        "confidence. Ties count as none and are listed. Prompts are selected on the dev half and judged on the names "
        "of the test half. Positions and lengths count words and punctuation marks, not a model's tokens."
    )
    if any(result.attention for result in results):
        yield (
            "Attention to the name is the sum over its tokens, so a name with more tokens gets more of it. Compare "
            "lists of names with similar lengths."
        )
    if any(math.isfinite(result.cochran.p) for result in results):
        yield (
            "Cochran's Q treats pairs that share a name as independent, as in the source, so its p-value is too small. "
            "The bootstrap over names does not; rely on it."
        )


def _tables(inputs: AuditInputs, results: Sequence[ModelResult], measured: MeasureTable) -> list[FoundTable]:
    """Return all tables for which there are results, at least one."""
    # Built-in prompts are public; a user's own may be confidential.
    texts = ("prompt", "word") if inputs.arrays.get("has_own_prompts", True) else ()

    def by_model(rows_of: Callable[[ModelResult], Iterator[Row]]) -> list[Row]:
        return [{"model": result.name, **row} for result in results for row in rows_of(result)]

    tests = [row for row in measured.select(COCHRAN, COCHRAN_P, LEAD, LEAD_P, TAU, TAU_P) if row.side != BETWEEN_MODELS]
    by_type = {"model": "model", "type": "case"}
    tables = [
        table_of("methods", "M-MEM by method", by_model(_method_rows), text_columns=texts),
        wide_table("analyses", "Differences between prompts", tests, by={"model": "model"}, intervals=(LEAD,)),
        wide_table(
            "types",
            "Mean M-MEM by sentence type",
            measured.select(BY_TYPE),
            by=by_type,
            intervals=(BY_TYPE,),
            number="prompts",
        ),
    ]
    if between := measured.select(TAU, TAU_P, side=BETWEEN_MODELS):
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


def _score_columns(test: PairScore) -> dict[str, Any]:
    """Return the columns of a score in the test half."""
    return {"test": test.m_mem, "low": test.low, "high": test.high, "ties": test.ties}


def _method_rows(result: ModelResult) -> Iterator[Row]:
    for method in result.methods:
        yield {
            "family": method.family,
            "method": method.name,
            "prompt": method.prompt or None,
            "dev": method.dev.m_mem,
            **_score_columns(method.test),
        }


def _prompt_rows(result: ModelResult) -> Iterator[Row]:
    measured = result.measured
    for place, dev, test in zip(measured.used.tolist(), measured.dev_scores, measured.test_scores, strict=True):
        prompt = measured.prompts[place]
        yield {
            "number": place + 1,
            "prompt": prompt.text,
            "type": prompt.kind,
            "words": prompt.length,
            "position": prompt.position,
            "dev": dev.m_mem,
            "dev ties": dev.ties,
            **_score_columns(test),
        }


def _engineered_rows(result: ModelResult) -> Iterator[Row]:
    for one in result.engineered:
        yield {
            "chain": one.chain.name.lower(),
            "words dropped": one.step,
            "prompt": one.prompt.text,
            "dev": one.dev.m_mem,
            **_score_columns(one.test),
        }


def _word_rows(result: ModelResult) -> Iterator[Row]:
    for one in result.importances:
        for place, word, added, share in zip(one.places, one.words, one.added, one.share, strict=True):
            yield {
                "chain": one.chain.name.lower(),
                "words dropped": one.step,
                "place": int(place),
                "word": word,
                "confidence added": added,
                "importance": share,
            }


def _attention_rows(result: ModelResult) -> Iterator[Row]:
    for one in result.attention:
        for word, inside, outside in zip(one.words, one.of_inside, one.of_outside, strict=True):
            yield {
                "prompt": result.measured.prompts[one.prompt].text,
                "word": word,
                "in-train": inside,
                "out-of-train": outside,
            }


def _name_rows(inputs: AuditInputs, result: ModelResult) -> Iterator[Row]:
    measured = result.measured
    lists = [part.replace("_", ", ") for part in PARTS for _ in inputs.texts[part]]
    means = measured.used_confidences.mean(axis=0)
    for name, list_, mean, is_used in zip(all_names(inputs), lists, means, measured.uses_name, strict=True):
        yield {"name": name, "list": list_, "mean confidence": mean if is_used else None}


def _conclusion(results: Sequence[ModelResult]) -> Conclusion:
    """Return the conclusion about each model.

    The test compares the mean M-MEM over all prompts with 0.5. Its standard error is that of a single prompt under
    chance, and a mean over prompts has at most this one, so the p-value is rather too large.
    """
    tested = [(result, _p_value(result)) for result in results]
    answers = [likelihood_words(p) for _, p in tested]
    same = len(set(answers)) == 1
    evidence = [
        f"{'' if same else f'{answer.lower()} '}{result.name} has the higher confidence in the trained name in "
        f"{format_percent(float(result.measured.test_m_mem.mean()))} of the pairs ({format_p_value(p)})"
        for (result, p), answer in zip(tested, answers, strict=True)
    ]
    progress = [
        f"so far {len(result.measured.used):,} of {pluralize(result.measured.given, 'prompt')} with {result.name}"
        for result in results
        if not result.measured.is_complete
    ]
    return Conclusion(
        QUESTION,
        answers[0] if same else "It depends on the model",
        "; ".join([*evidence, *progress]),
        _CAVEAT,
        [
            KeyFigure(
                f"mean M-MEM, {result.name}",
                format_score(float(result.measured.test_m_mem.mean())),
                f"{format_p_value(p)}, {pluralize(result.measured.test_scores[0].pairs, 'pair')}",
            )
            for result, p in tested
        ],
    )


def _p_value(result: ModelResult) -> float:
    measured = result.measured
    error = chance_error(len(measured.test.inside), len(measured.test.outside))
    return NormalDist().cdf((0.5 - float(measured.test_m_mem.mean())) / error)
