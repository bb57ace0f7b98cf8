"""Findings of a membership audit, from complete or partial rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from harness.audits.membership.inputs import (
    FALSE_POSITIVE_RATES,
    REFERENCE,
    SCORES,
    WORD_SHIFT,
    WORDS,
    Documents,
    MembershipParams,
)
from harness.audits.membership.roc import Roc, roc_of
from harness.audits.membership.scores import LABELS, MODEL_SCORES, Score, reference_ratio
from harness.audits.membership.words import FOLDS
from harness.audits.report import (
    bars_of,
    draw_sections,
    key_figure,
    measure_table,
    section,
    table_of,
    unmeasured_findings,
    wide_table,
)
from harness.audits.smallest_result import changing_share, smallest_at_spread
from harness.core.arrays import Floats
from harness.core.audit import RowsOf
from harness.core.findings import Conclusion, Findings, FoundTable, KeyFigure, LineChart, Series
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable, Unit
from harness.core.paths import model_names
from harness.core.rows import Table
from harness.core.text import format_bound, pluralize

MODEL, WORDS_ALONE = "target", "words alone"
QUESTION = "Can the members of the training data be told from other texts?"
AUC = Measure(
    "auc",
    "AUC",
    "area under the ROC curve: the probability that a member has a larger score than a non-member (chance: 0.5)",
)
TPR = Measure(
    "tpr_at_fpr",
    "TPR",
    "true positive rate: the share of members above the threshold",
    at="{} FPR",
    at_unit=Unit.BOUND,
    at_name="share of non-members above the threshold",
)
WORDS_P = Measure(
    "words_p_value",
    "p-value of the words",
    "the share of labelings in which retraining on the words gives at least this AUC",
    unit=Unit.P_VALUE,
)
MEASURES = (AUC, TPR, WORDS_P)
DEFINITIONS = {
    AUC.title: AUC.meaning,
    TPR.title: TPR.meaning,
    "FPR": "false positive rate: the share of non-members above the threshold",
}
_SECTIONS = (
    section(wide_table, "scores", "Membership scores", AUC, TPR, by={"score": "case"}, intervals=(AUC,)),
    section(
        bars_of,
        "auc",
        "AUC by score",
        AUC,
        y_label="AUC",
        label="case",
        group="side",
        reference=0.5,
        controls=(WORDS_ALONE,),
    ),
)
_SIGNIFICANT = 0.025
"""The one-sided level of the test on the words; the ends of a 95 % interval have the same."""


@dataclass(frozen=True)
class _Results:
    """The scores of the documents that have all of those that were computed."""

    documents: Documents
    scores: dict[Score, Floats]
    """Each score of all documents, [documents], NaN where it was not computed."""
    rocs: dict[Score, Roc]
    measures: MeasureTable
    figures: dict[str, Any]
    unmeasured: int

    @property
    def best(self) -> MeasureRow:
        """The area of the model's score with the largest one."""
        return max(self.measures.select(AUC, side=MODEL), key=lambda row: row.estimate.value)


def membership_findings(
    params: MembershipParams, documents: Documents, rows: RowsOf, models: Sequence[str]
) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `members`, `non_members`, `word_shift`, `clusters`, `is_complete`.
    """
    target = model_names(models)[0]
    results = _results(params, documents, rows, target)
    if results is None:
        return unmeasured_findings(QUESTION, "members and non-members have not been scored")
    tables, charts = draw_sections(
        results.measures,
        [*_SECTIONS, _roc_chart(results), measure_table(results.measures), _document_table(results)],
    )
    return Findings(
        figures=results.figures,
        sentences=list(_sentences(params, results)),
        tables=tables,
        charts=charts,
        conclusion=_conclusion(results, target),
        definitions=DEFINITIONS,
        measures=results.measures,
    )


def read_scores(rows: RowsOf, documents: int) -> dict[Score, Floats]:
    """Return each score of all documents, [documents], NaN where it was not computed."""

    def read(table: Table, column: str) -> Floats:
        values, columns = np.full(documents, np.nan), rows(table.name)
        values[np.asarray(columns["document"], np.int64)] = np.asarray(columns[column], np.float64)
        return values

    scores = {score: read(SCORES, score.value) for score in MODEL_SCORES}
    ratio = reference_ratio(scores[Score.LOSS], read(REFERENCE, "loss"))
    return scores | {Score.REFERENCE: ratio, Score.WORDS: read(WORDS, "score")}


def _results(params: MembershipParams, documents: Documents, rows: RowsOf, target: str) -> _Results | None:
    scores = read_scores(rows, len(documents.tokens))
    is_scored = np.isfinite(scores[Score.LOSS])
    computed = {score: values for score, values in scores.items() if np.isfinite(values[is_scored]).any()}
    has_all = np.all([is_scored, *map(np.isfinite, computed.values())], axis=0)
    is_member = documents.is_member[has_all]
    if is_member.all() or not is_member.any():
        return None
    clusters = documents.clusters()[has_all]
    rocs = {
        score: roc_of(values[has_all], is_member, clusters, FALSE_POSITIVE_RATES) for score, values in computed.items()
    }
    # An endpoint may not measure a document.
    columns = rows(SCORES.name)
    of_target = [np.asarray(columns[score.value], np.float64) for score in MODEL_SCORES if score in computed]
    of_target = [values for values in of_target if np.isfinite(values).any()]
    is_unmeasured = np.zeros(len(documents.tokens), bool)
    is_unmeasured[np.asarray(columns["document"], np.int64)] = ~np.isfinite(of_target).all(axis=0)
    measures = MeasureTable(list(_measures(rocs, rows, target)))
    p_value = measures.get(WORDS_P).value
    figures = {
        "members": int(is_member.sum()),
        "non_members": int((~is_member).sum()),
        # None with too few texts
        "word_shift": p_value <= _SIGNIFICANT if Score.WORDS in rocs else None,
        "clusters": len(np.unique(clusters)),
        "is_complete": bool((has_all | is_unmeasured).all()) and (Score.REFERENCE in computed) == params.reference,
    }
    return _Results(documents, scores, rocs, measures, figures, int(is_unmeasured.sum()))


def _measures(rocs: Mapping[Score, Roc], rows: RowsOf, target: str) -> Iterator[MeasureRow]:
    """Yield the area and the rates of every score, and the p-value of the words."""
    for score, roc in rocs.items():
        model, side = ("", WORDS_ALONE) if score is Score.WORDS else (target, MODEL)
        row = partial(MeasureRow, model=model, side=side, case=LABELS[score])
        yield row(AUC, roc.auc)
        for at, rate in zip(FALSE_POSITIVE_RATES, roc.at, strict=True):
            yield row(TPR, rate, at=at)
        if score is Score.WORDS:
            yield row(WORDS_P, Estimate(float(rows(WORD_SHIFT.name)["p_value"][0])))


def _conclusion(results: _Results, target: str) -> Conclusion:
    best, words = results.best, results.measures.get(AUC, side=WORDS_ALONE)
    members, non_members, word_shift, is_complete = (
        results.figures[name] for name in ("members", "non_members", "word_shift", "is_complete")
    )
    p_value = WORDS_P.unit.format(results.measures.get(WORDS_P).value)
    of_words = f"{AUC.unit.format_estimate(words)} ({p_value})"
    if word_shift:
        answer = "The texts differ"
        evidence = (
            f"their words alone give an AUC of {of_words}, so the AUC of {best.text} by {best.case} under {target} is "
            "no evidence of membership"
        )
    elif word_shift is None:
        answer = "Not known"
        evidence = (
            f"a side has fewer than {FOLDS} texts that are not near-copies of each other, too few to see whether the "
            f"words differ; the AUC under {target} is {best.text}, by {best.case}"
        )
    else:
        answer = "Yes" if best.estimate.low > 0.5 else "No evidence"
        evidence = f"the largest AUC under {target} is {best.text}, by {best.case}; the words alone give {of_words}"
        if answer == "No evidence":
            evidence += f"; at this spread {changing_share(smallest_at_spread(best.estimate, 0.5)[1], 'AUC')}"
    so_far = "" if is_complete else "; not all documents are scored yet"
    sides = f"{pluralize(members, 'member')} and {pluralize(non_members, 'non-member')}"
    rates = [
        key_figure(row, f"needs {_needed(row.at or 0):,} non-members" if np.isnan(row.estimate.value) else row.case)
        for row in results.measures.select(TPR, case=best.case)
    ]
    of_no_model = "no model" if word_shift is None else f"no model, {p_value}"
    return Conclusion(
        QUESTION,
        answer,
        f"{evidence}; {sides}{so_far}",
        "Benchmarks whose members and non-members come from different sources or times measure this difference, not "
        "membership. Equal words do not show that the texts are of one kind, and the best of several scores is larger "
        "by chance.",
        (
            key_figure(best, best.case, name="largest AUC"),
            KeyFigure("AUC of the words alone", AUC.unit.format(words.value), of_no_model),
            *rates,
        ),
    )


def _needed(rate: float) -> int:
    """Return the smallest number of non-members in which one false positive is at most `rate`."""
    return round(1 / rate)


def _sentences(params: MembershipParams, results: _Results) -> Iterator[str]:
    non_members = results.figures["non_members"]
    for rate in FALSE_POSITIVE_RATES:
        if non_members < _needed(rate):
            yield (
                f"The TPR at {format_bound(rate)} FPR is not resolvable with {pluralize(non_members, 'non-member')}: "
                f"it needs at least {_needed(rate):,}."
            )
    if params.endpoint is not None:
        yield "Min-K %++ needs the whole distribution, which an endpoint does not return, and is left out."
    if results.unmeasured:
        missing = pluralize(results.unmeasured, "document")
        yield f"Left out {missing} that could not be measured through the endpoint."
    yield from results.documents.notes


def _document_table(results: _Results) -> FoundTable:
    documents = [
        {
            "document": results.documents.names[number],
            "is member": bool(results.documents.is_member[number]),
            "tokens": len(results.documents.tokens[number]),
            **{LABELS[score]: float(results.scores[score][number]) for score in results.rocs},
        }
        for number in range(len(results.documents.tokens))
    ]
    return table_of("documents", "Every document", documents, is_detail=True)


def _roc_chart(results: _Results) -> LineChart:
    lowest_rate = 1 / results.figures["non_members"]
    series = [
        Series(LABELS[score], *roc.steps(lowest_rate), is_dashed=score is Score.WORDS)
        for score, roc in results.rocs.items()
    ]
    chance = np.geomspace(lowest_rate, 1, 50)
    series.append(Series("chance", chance, chance, is_dashed=True))
    return LineChart("roc", "ROC curve", "FPR", "TPR", series, is_x_logarithmic=True, is_y_logarithmic=True)
