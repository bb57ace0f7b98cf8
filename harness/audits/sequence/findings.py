"""Findings of a sequence audit, from complete or partial rows: figures, tables, charts and passages."""

from collections import Counter
from typing import Any

import numpy as np

from harness.audits.report import Row, bar_chart, share_of, table_of
from harness.audits.sequence.completion import State
from harness.audits.sequence.conclusion import DEFINITIONS, sequence_conclusion
from harness.audits.sequence.dataset import Control, Dataset
from harness.audits.sequence.measures import TOO_SHORT, Results, read_results
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.rates import (
    SIDES,
    UNSHARED,
    Contrast,
    Contrasts,
    Rate,
    contrast_sides,
    control_side,
    run_p_value,
)
from harness.audits.sequence.sentences import sequence_sentences
from harness.audits.sequence.similarity import mark_common_runs
from harness.audits.sequence.thresholds import TITLES, Threshold
from harness.core.arrays import Ints
from harness.core.audit import RowsOf
from harness.core.findings import Chart, Findings, FoundTable, LineChart, Marked, Passage, Series, Stretch
from harness.core.text import json_value, pluralize

_MOST_PASSAGES = 10
_SHORTEST_RUN = 5
"""Words of the shortest run that is shown as a passage: as many as the shorter exact start."""
_SHOWN_DOCUMENTS = 20


def sequence_findings(params: SequenceParams, dataset: Dataset, rows: RowsOf, model: str) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    Among the figures, `rates` has the `corpus` and the `control` for each threshold (`value`, `low`, `high`, `of`),
    their `difference` among the tested completions and its `p_value`. `longest_run_words`, `longest_run_characters` and
    `edit_similarity` have quantiles on both sides. `prompt_length` is null for a round's own prefixes. `counts` has the
    numbers behind the rates (`passed`, `judged`, `too_short`) and behind the tests. `read` and `control_read` tell what
    happened to the paragraphs that were read, and `shared` how many share a long run of words with the other side.
    """
    results = read_results(rows, len(dataset))
    contrasts = {threshold: contrast_sides(threshold, dataset, results) for threshold in Threshold}
    return Findings(
        figures=json_value(_figures(params, dataset, results, contrasts, model)),
        sentences=sequence_sentences(params, dataset, results, contrasts, model),
        tables=[rates_table(dataset, contrasts), *document_tables(dataset, results), paragraph_table(dataset, results)],
        charts=sequence_charts(dataset, results, contrasts),
        passages=_passages(dataset, results),
        conclusion=sequence_conclusion(dataset, results, contrasts),
        definitions=DEFINITIONS,
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
        "corpus": contrast.corpus.share._asdict(),
        "control": contrast.control.share._asdict(),
        "difference": contrast.tested_corpus.share.value - contrast.tested_control.share.value,
        "p_value": contrast.p_value,
    }


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
        Marked.EQUAL,
    )


def rates_table(dataset: Dataset, contrasts: Contrasts) -> FoundTable:
    """Return a row for each threshold and side. The p-value stands beside the rate that is tested."""
    has_shared = bool(dataset.is_shared.any())
    rows = []
    for threshold, one in contrasts.items():
        sides = [("corpus", one.corpus, None if has_shared else one.p_value)]
        if has_shared:
            sides.append((UNSHARED, one.tested_corpus, one.p_value))
        for side, rate, p_value in [*sides, (SIDES[dataset.control], one.control, None)]:
            rows.append(
                {
                    "threshold": TITLES[threshold],
                    "of": side,
                    "share": rate.share.value,
                    "low": rate.share.low,
                    "high": rate.share.high,
                    "judged": rate.judged,
                    "suffix too short": rate.too_short,
                    "p": p_value,
                }
            )
    return table_of("rates", "Completions that pass each threshold", rows)


def document_tables(dataset: Dataset, results: Results) -> list[FoundTable]:
    """Return the documents of the corpus, most memorized first: the first 20 to be shown, and all as a file."""
    own = results.own
    compared = np.flatnonzero(own.is_compared & ~dataset.is_control)
    compared = compared[np.argsort(dataset.document[compared], kind="stable")]
    documents, starts = np.unique(dataset.document[compared], return_index=True)
    rows = []
    for document, kept in zip(documents.tolist(), np.split(compared, starts[1:]), strict=False):
        verdicts = {threshold: own.verdicts[threshold][kept] for threshold in Threshold}
        shares = {TITLES[threshold]: _mean(values[values != TOO_SHORT]) for threshold, values in verdicts.items()}
        rows.append(
            {
                "document": dataset.documents[document],
                "paragraphs": len(kept),
                **shares,
                "longest run, words": int(own.run_words[kept].max()),
                "edit similarity": float(own.edit_similarity[kept].mean()),
            }
        )
    rows.sort(
        key=lambda row: (-(row[TITLES[Threshold.TRIGRAM]] or 0), -row["longest run, words"], -row["edit similarity"])
    )
    title = "Documents of the corpus, most memorized first"
    if len(rows) <= _SHOWN_DOCUMENTS:
        return [table_of("documents", title, rows)]
    shown = table_of("documents", f"{title} ({_SHOWN_DOCUMENTS} of {len(rows):,})", rows[:_SHOWN_DOCUMENTS])
    return [shown, table_of("all_documents", title, rows, is_detail=True)]


def paragraph_table(dataset: Dataset, results: Results) -> FoundTable:
    """Return a row for each paragraph. Verdicts are true, false or None."""
    has_partners = dataset.control is Control.PERMUTED

    def row(place: int) -> Row:
        state, own = results.states[place], results.own
        is_compared = bool(own.is_compared[place])
        return {
            "side": "control" if dataset.is_control[place] else "corpus",
            "document": dataset.documents[dataset.document[place]],
            "number": dataset.number[place],
            "occurrences": dataset.occurrences[place],
            "shared": dataset.is_shared[place],
            "state": state.value if state else "pending",
            **{one.value: _verdict(own.verdicts[one][place]) for one in Threshold},
            "longest_run_words": own.run_words[place] if is_compared else None,
            "longest_run_characters": own.run_characters[place] if is_compared else None,
            "edit_similarity": own.edit_similarity[place],
            **{
                f"permuted_{one.value}": _verdict(results.permuted.verdicts[one][place])
                for one in Threshold
                if has_partners
            },
            "prompt": dataset.prompts[place],
            "suffix": dataset.suffixes[place],
            "completion": results.texts[place],
        }

    rows = [row(place) for place in range(len(dataset))]
    texts = ("prompt", "suffix", "completion")
    return table_of("paragraphs", "Every paragraph", rows, is_detail=True, text_columns=texts)


def _verdict(number: Any) -> bool | None:
    return None if number == TOO_SHORT else bool(number)


def _mean(verdicts: Any) -> float | None:
    return float(verdicts.mean()) if len(verdicts) else None


def sequence_charts(dataset: Dataset, results: Results, contrasts: Contrasts) -> list[Chart]:
    """Return the charts, none before the first completion."""
    is_corpus = ~dataset.is_control & results.own.is_compared
    if not is_corpus.any():
        return []
    side = SIDES[dataset.control]
    control, is_control = control_side(dataset, results)
    runs = [("corpus", results.own.run_words[is_corpus], False), (side, control.run_words[is_control], True)]
    runs = [one for one in runs if len(one[1])]
    longest = max(int(lengths.max()) for _, lengths, _ in runs)
    groups = {"corpus": {TITLES[threshold]: one.corpus.share for threshold, one in contrasts.items()}}
    if dataset.is_shared.any():
        groups[UNSHARED] = {TITLES[threshold]: one.tested_corpus.share for threshold, one in contrasts.items()}
    if is_control.any():
        groups[side] = {TITLES[threshold]: one.control.share for threshold, one in contrasts.items()}
    labels = [TITLES[threshold] for threshold in contrasts]
    return [
        bar_chart(
            "rates", "Completions that pass each threshold", "share of completions", groups, labels, controls=(side,)
        ),
        LineChart(
            "verbatim_runs",
            "Longest verbatim run of each completion",
            "words in the run, at least",
            "share of completions",
            [_survival(name, lengths, longest, is_dashed) for name, lengths, is_dashed in runs],
        ),
    ]


def _survival(name: str, runs: Ints, longest: int, is_dashed: bool) -> Series:
    """Return the share of `runs` that have at least 0, 1, … `longest` words, with Wilson intervals."""
    lengths = np.arange(longest + 1)
    shares = [share_of(int((runs >= length).sum()), len(runs)) for length in lengths]
    value, low, high, _ = np.array(shares).T
    return Series(name, lengths, value, low, high, is_dashed)
