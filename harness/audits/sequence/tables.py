"""The tables of a sequence audit: rates, documents, and every paragraph."""

from typing import Any

import numpy as np

from harness.audits.report import Row, number_or_none, table_of
from harness.audits.sequence.dataset import Control, Dataset
from harness.audits.sequence.measures import TOO_SHORT, Results
from harness.audits.sequence.rates import SIDES, UNSHARED, Contrasts
from harness.audits.sequence.thresholds import TITLES, Threshold
from harness.core.findings import FoundTable

_SHOWN_DOCUMENTS = 20


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
                    "share": number_or_none(rate.share.value),
                    "low": number_or_none(rate.share.low),
                    "high": number_or_none(rate.share.high),
                    "judged": rate.judged,
                    "too short": rate.too_short,
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
            "document": dataset.documents[int(dataset.document[place])],
            "number": int(dataset.number[place]),
            "occurrences": int(dataset.occurrences[place]),
            "shared": bool(dataset.is_shared[place]),
            "state": state.value if state else "pending",
            **{one.value: _verdict(own.verdicts[one][place]) for one in Threshold},
            "longest_run_words": int(own.run_words[place]) if is_compared else None,
            "longest_run_characters": int(own.run_characters[place]) if is_compared else None,
            "edit_similarity": number_or_none(own.edit_similarity[place]),
            **{
                f"permuted_{one.value}": _verdict(results.by_chance.verdicts[one][place])
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
