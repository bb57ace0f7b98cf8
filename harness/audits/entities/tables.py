"""The tables of an entities audit."""

from collections.abc import Iterator, Sequence
from typing import Any

from harness.audits.entities.inputs import PARTS
from harness.audits.entities.measurements import all_names
from harness.audits.entities.ranking import PairScore
from harness.audits.entities.results import ModelResult
from harness.audits.entities.statistics import GroupMean
from harness.audits.report import Row, number_or_none, table_of
from harness.core.audit import AuditInputs
from harness.core.findings import FoundTable


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


def score_columns(test: PairScore) -> dict[str, Any]:
    """Return the columns of a score in the test half."""
    score = {"test": test.m_mem, "low": test.low, "high": test.high}
    return {name: number_or_none(value) for name, value in score.items()} | {"ties": test.ties}


def _method_rows(result: ModelResult) -> Iterator[Row]:
    for method in result.methods:
        yield {
            "family": method.family,
            "method": method.name,
            "prompt": method.prompt or None,
            "dev": number_or_none(method.dev.m_mem),
            **score_columns(method.test),
        }


def _analysis_rows(result: ModelResult) -> Iterator[Row]:
    spread, tau = result.spread, result.dev_to_test
    lead = f"best − worst prompt, 95 % interval {spread.low:.3f} to {spread.high:.3f}; p: all prompts equal"
    for analysis, value, p, note in (
        ("Cochran's Q, all pairs", *result.all_pairs[::2], "assumes independent pairs, as the source does"),
        ("Cochran's Q, disjoint pairs", *result.disjoint_pairs[::2], "each name in one random pair"),
        ("bootstrap over names", spread.lead, spread.p, lead),
        ("Kendall's τ, dev and test", tau.tau, tau.p, "order of the prompts"),
    ):
        yield {"analysis": analysis, "value": number_or_none(value), "p": number_or_none(p), "note": note}


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
            "dev": number_or_none(dev.m_mem),
            "dev ties": dev.ties,
            **score_columns(test),
        }


def _engineered_rows(result: ModelResult) -> Iterator[Row]:
    for one in result.engineered:
        yield {
            "chain": one.chain.name.lower(),
            "words dropped": one.step,
            "prompt": one.prompt.text,
            "dev": number_or_none(one.dev.m_mem),
            **score_columns(one.test),
        }


def _word_rows(result: ModelResult) -> Iterator[Row]:
    for one in result.importances:
        for place, word, added, share in zip(one.places, one.words, one.added, one.share, strict=True):
            yield {
                "chain": one.chain.name.lower(),
                "words dropped": one.step,
                "place": int(place),
                "word": word,
                "confidence added": number_or_none(added),
                "importance": number_or_none(share),
            }


def _attention_rows(result: ModelResult) -> Iterator[Row]:
    for one in result.attention:
        for word, inside, outside in zip(one.words, one.of_inside, one.of_outside, strict=True):
            yield {
                "prompt": result.measured.prompts[one.prompt].text,
                "word": word,
                "in-train": number_or_none(inside),
                "out-of-train": number_or_none(outside),
            }


def _name_rows(inputs: AuditInputs, result: ModelResult) -> Iterator[Row]:
    measured = result.measured
    lists = [part.replace("_", ", ") for part in PARTS for _ in inputs.texts[part]]
    means = measured.used_confidences.mean(axis=0)
    for name, list_, mean, is_used in zip(all_names(inputs), lists, means, measured.uses_name, strict=True):
        yield {"name": name, "list": list_, "mean confidence": number_or_none(mean) if is_used else None}
