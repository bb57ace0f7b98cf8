"""Findings of a membership audit, from complete or partial rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.audits.membership.inputs import (
    FALSE_POSITIVE_RATES,
    LABELS,
    MODEL_SCORES,
    NEAR_COPY_WINDOW,
    SCORES,
    WORD_SHIFT,
    Documents,
    MembershipParams,
    Score,
    read_scores,
)
from harness.audits.membership.statistics import FOLDS, PERMUTATIONS, Roc, roc_of
from harness.audits.report import bars_of, key_figure, measure_table, table_of, wide_table
from harness.core.arrays import Floats
from harness.core.audit import RowsOf
from harness.core.findings import BarChart, Conclusion, Findings, FoundTable, KeyFigure, LineChart, Series
from harness.core.measures import NO_ESTIMATE, Estimate, Measure, MeasureRow, MeasureTable, Unit
from harness.core.paths import model_names
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
_SIGNIFICANT = 0.025
"""The one-sided level of the test on the words; the ends of a 95 % interval have the same."""


@dataclass(frozen=True)
class _Results:
    """The scores that were computed, and the documents that have all of them."""

    documents: Documents
    scores: dict[Score, Floats]
    rocs: dict[Score, Roc]
    measured: MeasureTable
    p_value: float
    clusters: int
    members: int
    others: int
    unmeasured: int
    is_complete: bool

    @property
    def best(self) -> MeasureRow:
        """The area of the model's score with the largest one."""
        rows = [row for row in self.measured.select(AUC) if row.side == MODEL]
        return max(rows, key=lambda row: row.estimate.value)

    @property
    def words(self) -> Estimate | None:
        """The area of the classifier that sees only the words, None with too few texts."""
        return self.measured.get(AUC, side=WORDS_ALONE) if Score.WORDS in self.rocs else None

    @property
    def has_word_shift(self) -> bool | None:
        """True if the words alone tell the two sides apart, None if that is unknown."""
        return None if self.words is None else self.p_value <= _SIGNIFICANT


def membership_findings(
    params: MembershipParams, documents: Documents, rows: RowsOf, models: Sequence[str]
) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `members`, `non_members`, `word_shift`, `clusters`, `is_complete`.
    """
    results = _results(params, documents, rows, model_names(models)[0])
    if results is None:
        conclusion = Conclusion(QUESTION, "Not known yet", "members and non-members have not been scored")
        sentences = ["Members and non-members have not been scored yet."]
        return Findings({"is_complete": False}, sentences, conclusion=conclusion)
    figures = {
        "members": results.members,
        "non_members": results.others,
        "word_shift": results.has_word_shift,
        "clusters": results.clusters,
        "is_complete": results.is_complete,
    }
    return Findings(
        figures=figures,
        sentences=list(_sentences(params, results)),
        tables=_tables(results),
        charts=[_auc_chart(results), _roc_chart(results)],
        conclusion=_conclusion(results, model_names(models)[0]),
        definitions=DEFINITIONS,
        measures=results.measured,
    )


def _results(params: MembershipParams, documents: Documents, rows: RowsOf, target: str) -> _Results | None:
    scores = read_scores(rows, len(documents.tokens))
    is_scored = np.isfinite(scores[Score.LOSS])
    known = {score: values for score, values in scores.items() if np.isfinite(values[is_scored]).any()}
    chosen = is_scored.copy()
    for values in known.values():
        chosen &= np.isfinite(values)
    is_member = documents.is_member[chosen]
    members, others = int(is_member.sum()), int((~is_member).sum())
    if not members or not others:
        return None
    clusters = documents.clusters()[chosen]
    rocs = {score: roc_of(values[chosen], is_member, clusters, FALSE_POSITIVE_RATES) for score, values in known.items()}
    p_values = np.asarray(rows(WORD_SHIFT.name)["p_value"], np.float64)
    p_value = float(p_values[0]) if len(p_values) else np.nan
    scored = rows(SCORES.name)
    is_unmeasured = np.zeros(len(documents.tokens), bool)
    of_target = [np.asarray(scored[score.value], np.float64) for score in MODEL_SCORES if score in known]
    of_target = [values for values in of_target if np.isfinite(values).any()]
    is_unmeasured[np.asarray(scored["document"], np.int64)] = ~np.isfinite(of_target).all(axis=0)
    is_complete = bool((chosen | is_unmeasured).all()) and (Score.REFERENCE in known) == params.reference
    return _Results(
        documents=documents,
        scores=scores,
        rocs=rocs,
        measured=MeasureTable(_measured(rocs, p_value, target)),
        p_value=p_value,
        clusters=len(np.unique(clusters)),
        members=members,
        others=others,
        unmeasured=int(is_unmeasured.sum()),
        is_complete=is_complete,
    )


def _measured(rocs: Mapping[Score, Roc], p_value: float, target: str) -> list[MeasureRow]:
    """Return the area and the rates of every score, and the p-value of the words."""
    rows = []
    for score, roc in rocs.items():
        model, side = ("", WORDS_ALONE) if score is Score.WORDS else (target, MODEL)
        rows.append(MeasureRow(AUC, roc.auc, model, side, LABELS[score]))
        rows += [
            MeasureRow(TPR, NO_ESTIMATE if rate is None else rate, model, side, LABELS[score], at)
            for at, rate in zip(FALSE_POSITIVE_RATES, roc.at, strict=True)
        ]
        if score is Score.WORDS:
            rows.append(MeasureRow(WORDS_P, Estimate(p_value), model, side, LABELS[score]))
    return rows


def _conclusion(results: _Results, target: str) -> Conclusion:
    best, shift = results.best, results.words
    p_value = WORDS_P.unit.format(results.p_value)
    words = "" if shift is None else f"{AUC.unit.format_estimate(shift)} ({p_value})"
    if results.has_word_shift:
        answer = "The texts differ"
        evidence = (
            f"their words alone give an AUC of {words}, so the AUC of {best.text} by {best.case} under {target} is no "
            "evidence of membership"
        )
    elif shift is None:
        answer = "Not known"
        evidence = (
            f"a side has fewer than {FOLDS} texts that are not near-copies of each other, too few to see whether the "
            f"words differ; the AUC under {target} is {best.text}, by {best.case}"
        )
    else:
        answer = "Yes" if best.estimate.low > 0.5 else "No evidence"
        evidence = f"the largest AUC under {target} is {best.text}, by {best.case}; the words alone give {words}"
    so_far = "" if results.is_complete else "; not all documents are scored yet"
    return Conclusion(
        QUESTION,
        answer,
        f"{evidence}; {pluralize(results.members, 'member')} and {pluralize(results.others, 'non-member')}{so_far}",
        "Benchmarks whose members and non-members come from different sources or times measure this difference, not "
        "membership. Equal words do not show that the texts are of one kind, and the best of several scores is larger "
        "by chance.",
        (
            key_figure(best, best.case, name="largest AUC"),
            KeyFigure(
                "AUC of the words alone",
                AUC.unit.format(np.nan if shift is None else shift.value),
                "no model" if shift is None else f"no model, {p_value}",
            ),
            *(
                key_figure(
                    row, f"needs {_needed(row.at or 0):,} non-members" if np.isnan(row.estimate.value) else row.case
                )
                for row in results.measured.select(TPR, case=best.case)
            ),
        ),
    )


def _needed(rate: float) -> int:
    """Return the smallest number of non-members in which one false positive is at most `rate`."""
    return round(1 / rate)


def _sentences(params: MembershipParams, results: _Results) -> Iterator[str]:
    yield (
        "Membership benchmarks mislead if members and non-members differ in more than membership. The bag of words is "
        "a ridge regression on which words occur, judged on texts that are no near-copies of those it was trained on; "
        "it knows no model. Its p-value is that of a one-sided permutation test: the share of "
        f"{PERMUTATIONS + 1} labelings, the real one included, in which retraining gives at least this AUC. At "
        f"{_SIGNIFICANT} or below, the texts count as different."
    )
    yield (
        f"Each document counts with its first {params.tokens} tokens. Documents that share {NEAR_COPY_WINDOW} "
        f"consecutive tokens are near-copies, which makes {pluralize(results.clusters, 'cluster')}. Intervals are 95 % "
        "intervals of a bootstrap over clusters, members and non-members separately; one that reaches 0 or 1 is "
        "extended to Wilson's interval."
    )
    for rate in FALSE_POSITIVE_RATES:
        if results.others < _needed(rate):
            yield (
                f"The TPR at {format_bound(rate)} FPR is not resolvable with "
                f"{pluralize(results.others, 'non-member')}: it needs at least {_needed(rate):,}."
            )
    yield (
        f"The ROC curve begins at a false positive rate of 1/{results.others:,}, the smallest above 0 that these "
        "non-members can show."
    )
    if len(results.documents.shots):
        yield (
            f"ReCaLL puts up to {len(results.documents.shots):,} tokens of other non-members before each text, as far "
            "as the context has room."
        )
    if params.endpoint is not None:
        yield "Min-K %++ needs the whole distribution, which an endpoint does not return, and is left out."
    if results.unmeasured:
        missing = pluralize(results.unmeasured, "document")
        yield f"Left out {missing} that could not be measured through the endpoint."
    yield from results.documents.notes


def _tables(results: _Results) -> list[FoundTable]:
    documents = [
        {
            "document": results.documents.names[number],
            "is member": bool(results.documents.is_member[number]),
            "tokens": len(results.documents.tokens[number]),
            **{LABELS[score]: float(results.scores[score][number]) for score in results.rocs},
        }
        for number in range(len(results.documents.tokens))
    ]
    scores = results.measured.select(AUC, TPR)
    return [
        wide_table("scores", "Membership scores", scores, by={"score": "case"}, intervals=(AUC,)),
        measure_table(results.measured),
        table_of("documents", "Every document", documents, is_detail=True),
    ]


def _auc_chart(results: _Results) -> BarChart:
    areas = results.measured.select(AUC)
    return bars_of(
        "auc", "AUC by score", "AUC", areas, label="case", group="side", reference=0.5, controls=(WORDS_ALONE,)
    )


def _roc_chart(results: _Results) -> LineChart:
    least = 1 / results.others
    series = [
        Series(LABELS[score], *roc.steps(least), is_dashed=score is Score.WORDS) for score, roc in results.rocs.items()
    ]
    chance = np.geomspace(least, 1, 50)
    series.append(Series("chance", chance, chance, is_dashed=True))
    return LineChart("roc", "ROC curve", "FPR", "TPR", series, is_x_logarithmic=True, is_y_logarithmic=True)
