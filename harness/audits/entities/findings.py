"""Findings of an entities audit, from complete or partial rows: figures, tables and sentences."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from harness.audits.entities.charts import entities_charts
from harness.audits.entities.conclusion import DEFINITIONS, NOT_MEASURED, entities_conclusion
from harness.audits.entities.inputs import PARTS
from harness.audits.entities.measurements import all_names
from harness.audits.entities.ranking import PairScore, chance_error
from harness.audits.entities.results import ModelResult, model_result
from harness.audits.entities.statistics import GroupMean, rank_correlation
from harness.audits.report import Row, finite_mean, table_of
from harness.core.audit import AuditInputs, RowsOf
from harness.core.findings import Findings, FoundTable
from harness.core.paths import model_names
from harness.core.text import format_interval, format_number, format_percent, json_value, pluralize


def entities_findings(inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows."""
    names = model_names(models)
    results, notes = [], list(inputs.texts.get("notes", []))
    for number, name in enumerate(names):
        result = model_result(inputs, rows, number, name)
        if result is None:
            notes.append(f"{name}: nothing to compare yet.")
        else:
            results.append(result)
    between = _between_models(results)
    figures: dict[str, Any] = {
        "names": {part: len(inputs.texts[part]) for part in PARTS},
        "prompts": len(inputs.texts["prompts"]),
        "models": [_model_figures(result) for result in results],
        "kendall_between_models": between,
        "left_out": notes,
    }
    if not results:
        return Findings(json_value(figures), notes, conclusion=NOT_MEASURED)
    sentences = [*(sentence for result in results for sentence in _sentences(result)), *_how_to_read(results), *notes]
    return Findings(
        json_value(figures),
        sentences,
        entities_tables(inputs, results, between),
        entities_charts(results),
        conclusion=entities_conclusion(results),
        definitions=DEFINITIONS,
    )


def _between_models(results: Sequence[ModelResult]) -> list[dict[str, Any]]:
    rows = []
    for one, other in combinations(results, 2):
        _, first, second = np.intersect1d(one.measured.used, other.measured.used, return_indices=True)
        tau = rank_correlation(one.measured.test_m_mem[first], other.measured.test_m_mem[second])
        rows.append({"model": one.name, "other": other.name, "prompts": len(first), **tau._asdict()})
    return rows


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
        "m_mem": {
            half: {
                "mean": values.mean(),
                "best": values.max(),
                "worst": values.min(),
                "spread": values.max() - values.min(),
            }
            for half, values in (("dev", measured.dev_m_mem), ("test", measured.test_m_mem))
        },
        "ties_test": sum(score.ties for score in measured.test_scores),
        "chance_error_test": chance_error(len(measured.test.inside), len(measured.test.outside)),
        "methods": {
            row["method"]: {column: value for column, value in row.items() if column != "method"}
            for row in _method_rows(result)
        },
        "cochran_q": result.cochran._asdict(),
        "bootstrap_over_names": result.spread._asdict(),
        "kendall_tau_dev_test": result.dev_to_test._asdict(),
        "by_kind": _group_figures(result.by_kind),
        "by_position": _group_figures(result.by_position),
        "by_length": _group_figures(result.by_length),
        "attention": [
            {
                "prompt": measured.prompts[one.prompt].text,
                "in_train": finite_mean(one.inside),
                "out_train": finite_mean(one.outside),
            }
            for one in result.attention
        ],
    }


def _group_figures(groups: Sequence[GroupMean]) -> dict[str, dict[str, float | int]]:
    return {str(group.group): {"prompts": group.prompts, "mean": group.value} for group in groups}


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


def entities_tables(
    inputs: AuditInputs, results: Sequence[ModelResult], between_models: Sequence[Row]
) -> list[FoundTable]:
    """Return all tables for which there are results, at least one."""
    # Shipped prompts are public; a user's own may be confidential.
    texts = ("prompt", "word") if inputs.arrays.get("has_own_prompts", True) else ()
    tables = []
    for name, title, rows_of, is_detail in (
        ("methods", "M-MEM by method", _method_rows, False),
        ("analyses", "Differences between prompts", _analysis_rows, False),
        ("types", "Mean M-MEM by sentence type", _type_rows, False),
        ("prompts", "Every prompt", _prompt_rows, True),
        ("groups", "Mean M-MEM by the name's position and the prompt's length", _place_rows, True),
        ("engineered", "Prompts with words dropped", _engineered_rows, True),
        ("words", "Confidence added by each word", _word_rows, True),
        ("attention", "Attention to the name", _attention_rows, True),
    ):
        rows = [{"model": result.name, **row} for result in results for row in rows_of(result)]
        if rows or not is_detail:
            tables.append(table_of(name, title, rows, is_detail=is_detail, text_columns=texts))
    if between_models:
        tables.insert(3, table_of("between-models", "Rank correlation between models", between_models))
    rows = [{"model": result.name, **row} for result in results for row in _name_rows(inputs, result)]
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


def _analysis_rows(result: ModelResult) -> Iterator[Row]:
    spread, tau = result.spread, result.dev_to_test
    lead = f"best − worst prompt, 95 % interval {format_interval(spread.low, spread.high)}; p: all prompts equal"
    for analysis, value, p, note in (
        ("Cochran's Q", *result.cochran[::2], "assumes independent pairs, as the source does"),
        ("bootstrap over names", spread.lead, spread.p, lead),
        ("Kendall's τ, dev and test", tau.tau, tau.p, "order of the prompts"),
    ):
        yield {"analysis": analysis, "value": value, "p": p, "note": note}


def _type_rows(result: ModelResult) -> Iterator[Row]:
    for group in result.by_kind:
        yield {"type": str(group.group), **_group_columns(group)}


def _place_rows(result: ModelResult) -> Iterator[Row]:
    for by, groups in (("words before the name", result.by_position), ("length in words", result.by_length)):
        for group in groups:
            yield {"by": by, "words": int(group.group), **_group_columns(group)}


def _group_columns(group: GroupMean) -> dict[str, Any]:
    low, high = (None, None) if group.prompts == 1 else (group.low, group.high)
    return {"prompts": group.prompts, "mean": group.value, "low": low, "high": high}


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
