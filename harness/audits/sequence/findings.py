"""Findings of a sequence audit, from complete or partial rows: figures and passages, and the other parts assembled."""

from collections import Counter
from typing import Any

import numpy as np

from harness.audits.report import Share, number_or_none
from harness.audits.sequence.charts import sequence_charts
from harness.audits.sequence.completion import State
from harness.audits.sequence.dataset import Dataset
from harness.audits.sequence.measures import Results, read_results
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.rates import Contrast, Contrasts, Rate, contrast_sides, control_side, run_p_value
from harness.audits.sequence.sentences import sequence_sentences
from harness.audits.sequence.similarity import mark_common_runs
from harness.audits.sequence.tables import document_tables, paragraph_table, rates_table
from harness.audits.sequence.thresholds import TITLES, Threshold
from harness.core.audit import RowsOf
from harness.core.findings import Findings, Passage, Stretch
from harness.core.text import pluralize

_MOST_PASSAGES = 10
_SHORTEST_RUN = 5
"""Words of the shortest run that is shown as a passage: as many as the shorter exact start."""


def sequence_findings(params: SequenceParams, dataset: Dataset, rows: RowsOf, model: str) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `rates`: for each threshold the `corpus` and the `control` (`value`, `low`, `high`, `of`), their
    `difference` among the tested completions and its `p_value`; `longest_run_words`, `longest_run_characters` and
    `edit_similarity`: quantiles on both sides; `model`; `prompt_length` (null for a round's own prefixes);
    `completion`; `overlap`; `control`; `paragraphs` by state; `counts`: the numbers behind the rates (`passed`,
    `judged`, `too_short`) and behind the tests; `read` and `control_read`: what happened to the paragraphs that were
    read; `shared`: how many share a long run of words with the other side; `is_complete`.
    """
    results = read_results(rows, len(dataset))
    contrasts = {threshold: contrast_sides(threshold, dataset, results) for threshold in Threshold}
    return Findings(
        figures=_figures(params, dataset, results, contrasts, model),
        sentences=sequence_sentences(params, dataset, results, contrasts, model),
        tables=[rates_table(dataset, contrasts), *document_tables(dataset, results), paragraph_table(dataset, results)],
        charts=sequence_charts(dataset, results, contrasts),
        passages=_passages(dataset, results),
    )


def _figures(
    params: SequenceParams, dataset: Dataset, results: Results, contrasts: Contrasts, model: str
) -> dict[str, Any]:
    states = Counter(state.value if state else "pending" for state in results.states)
    is_corpus = ~dataset.is_control & results.own.is_compared
    control, is_control = control_side(dataset, results)
    quantiles = {
        name: {
            "corpus": _quantiles(getattr(results.own, measure)[is_corpus]),
            "control": _quantiles(getattr(control, measure)[is_control]),
        }
        for name, measure in (
            ("longest_run_words", "run_words"),
            ("longest_run_characters", "run_characters"),
            ("edit_similarity", "edit_similarity"),
        )
    }
    return {
        "rates": {threshold.value: _contrast_figures(contrast) for threshold, contrast in contrasts.items()},
        **quantiles,
        "longest_run_words": {**quantiles["longest_run_words"], "p_value": run_p_value(dataset, results)},
        "model": model,
        "prompt_length": dataset.prompt_length,
        "completion": "greedy" if params.temperature == 0 else "sampled",
        "overlap": params.overlap.value,
        "control": dataset.control.value,
        "paragraphs": {name: states.get(name, 0) for name in (*(state.value for state in State), "pending")},
        "counts": {threshold.value: _count_figures(contrast) for threshold, contrast in contrasts.items()},
        "read": dataset.corpus_counts._asdict(),
        "control_read": dataset.control_counts._asdict() if dataset.control_counts else None,
        "shared": {
            "corpus": int((dataset.is_shared & ~dataset.is_control).sum()),
            "control": int((dataset.is_shared & dataset.is_control).sum()),
        },
        "is_complete": states.get("pending", 0) == 0,
    }


def _contrast_figures(contrast: Contrast) -> dict[str, Any]:
    return {
        "corpus": _share_figures(contrast.corpus.share),
        "control": _share_figures(contrast.control.share),
        "difference": number_or_none(contrast.tested_corpus.share.value - contrast.tested_control.share.value),
        "p_value": contrast.p_value,
    }


def _share_figures(share: Share) -> dict[str, float | None]:
    return {name: number_or_none(value) for name, value in share._asdict().items()} | {"of": share.of}


def _count_figures(contrast: Contrast) -> dict[str, Any]:
    rates = contrast._asdict()
    return {name: rate._asdict() for name, rate in rates.items() if isinstance(rate, Rate)}


def _quantiles(values: np.ndarray[Any, Any]) -> dict[str, float] | None:
    """Return mean, median, 90 % quantile and maximum, or None without values."""
    if len(values) == 0:
        return None
    median, p90, largest = np.quantile(values, (0.5, 0.9, 1.0)).tolist()
    return {"mean": float(values.mean()), "median": median, "p90": p90, "max": largest}


def _passages(dataset: Dataset, results: Results) -> list[Passage]:
    """Return at most ten paragraphs of the corpus, longest verbatim run first, with common runs marked."""
    own = results.own
    candidates = np.flatnonzero(~dataset.is_control & own.is_compared & (own.run_words >= _SHORTEST_RUN))
    order = np.lexsort((candidates, -own.run_characters[candidates], -own.run_words[candidates]))
    return [_passage(dataset, results, int(paragraph)) for paragraph in candidates[order[:_MOST_PASSAGES]]]


def _passage(dataset: Dataset, results: Results, paragraph: int) -> Passage:
    suffix, completion = dataset.suffixes[paragraph], results.texts[paragraph]
    passed = [TITLES[threshold] for threshold in Threshold if results.own.verdicts[threshold][paragraph] == 1]
    run = pluralize(int(results.own.run_words[paragraph]), "word")
    title = f"{dataset.documents[int(dataset.document[paragraph])]}, paragraph {int(dataset.number[paragraph])}"
    return Passage(
        f"{title}: longest run {run}; passes {', '.join(passed) or 'no threshold'}",
        (
            ("prompt", [Stretch(dataset.prompts[paragraph])]),
            ("suffix", mark_common_runs(suffix, completion)),
            ("completion", mark_common_runs(completion, suffix)),
        ),
    )
