"""Findings of a membership audit, from complete or partial rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.audits.membership.inputs import NEAR_COPY_WINDOW, Documents
from harness.audits.membership.params import (
    FALSE_POSITIVE_RATES,
    LABELS,
    MODEL_SCORES,
    MembershipParams,
    Score,
)
from harness.audits.membership.roc import Rate, Roc, roc_of
from harness.audits.membership.rows import SCORES, WORD_SHIFT, read_scores
from harness.audits.membership.word_shift import FOLDS, PERMUTATIONS
from harness.audits.report import bar_chart, table_of
from harness.core.arrays import Floats
from harness.core.audit import RowsOf
from harness.core.findings import Conclusion, Findings, FoundTable, KeyFigure, LineChart, Series
from harness.core.paths import model_names
from harness.core.text import format_bound, format_interval, format_p_value, format_score, json_value, pluralize

QUESTION = "Can the members of the training data be told from other texts?"
DEFINITIONS = {
    "AUC": "area under the ROC curve: the probability that a member has a larger score than a non-member (chance: 0.5)",
    "TPR": "true positive rate: the share of members above the threshold",
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
    p_value: float
    clusters: int
    members: int
    others: int
    unmeasured: int
    is_complete: bool

    @property
    def best(self) -> Score:
        """The score of the model with the largest area."""
        return max((score for score in self.rocs if score is not Score.WORDS), key=lambda score: self.rocs[score].auc)

    @property
    def words(self) -> Roc | None:
        """The curve of the classifier that sees only the words, None with too few texts."""
        return self.rocs.get(Score.WORDS)

    @property
    def has_word_shift(self) -> bool | None:
        """True if the words alone tell the two sides apart, None if that is unknown."""
        return None if self.words is None else self.p_value <= _SIGNIFICANT


def membership_findings(
    params: MembershipParams, documents: Documents, rows: RowsOf, models: Sequence[str]
) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `members`, `non_members`, `scores` (by name: `auc`, `tpr_at_fpr`), `word_shift`,
    `word_shift_p_value`, `clusters`, `is_complete`.
    """
    results = _results(params, documents, rows)
    if results is None:
        nothing: dict[str, Any] = {"scores": {}, "is_complete": False}
        conclusion = Conclusion(QUESTION, "Not known yet", "members and non-members have not been scored")
        return Findings(nothing, ["Members and non-members have not been scored yet."], conclusion=conclusion)
    figures = {
        "members": results.members,
        "non_members": results.others,
        "scores": {
            score.value: {
                "auc": roc.auc._asdict(),
                "tpr_at_fpr": {
                    f"{rate:g}": None if one is None else one._asdict()
                    for rate, one in zip(FALSE_POSITIVE_RATES, roc.at, strict=True)
                },
            }
            for score, roc in results.rocs.items()
        },
        "word_shift": results.has_word_shift,
        "word_shift_p_value": results.p_value,
        "clusters": results.clusters,
        "is_complete": results.is_complete,
    }
    return Findings(
        figures=json_value(figures),
        sentences=list(_sentences(params, results)),
        tables=_tables(results),
        charts=[_auc_chart(results), _roc_chart(results)],
        conclusion=_conclusion(results, model_names(models)[0]),
        definitions=DEFINITIONS,
    )


def _results(params: MembershipParams, documents: Documents, rows: RowsOf) -> _Results | None:
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
    found = rows(SCORES.name)
    is_unmeasured = np.zeros(len(documents.tokens), bool)
    of_target = [np.asarray(found[score.value], np.float64) for score in MODEL_SCORES if score in known]
    of_target = [values for values in of_target if np.isfinite(values).any()]
    is_unmeasured[np.asarray(found["document"], np.int64)] = ~np.isfinite(of_target).all(axis=0)
    is_complete = bool((chosen | is_unmeasured).all()) and (Score.REFERENCE in known) == params.reference
    return _Results(
        documents=documents,
        scores=scores,
        rocs=rocs,
        p_value=float(p_values[0]) if len(p_values) else np.nan,
        clusters=len(np.unique(clusters)),
        members=members,
        others=others,
        unmeasured=int(is_unmeasured.sum()),
        is_complete=is_complete,
    )


def _conclusion(results: _Results, target: str) -> Conclusion:
    best = results.rocs[results.best].auc
    shift = results.words
    words = "" if shift is None else f"{_rate(shift.auc)} ({format_p_value(results.p_value)})"
    if results.has_word_shift:
        answer = "The texts differ"
        evidence = (
            f"their words alone give an AUC of {words}, so the AUC of {_rate(best)} by "
            f"{LABELS[results.best]} under {target} is no evidence of membership"
        )
    elif shift is None:
        answer = "Not known"
        evidence = (
            f"a side has fewer than {FOLDS} texts that are not near-copies of each other, too few to see whether the "
            f"words differ; the AUC under {target} is {_rate(best)}, by {LABELS[results.best]}"
        )
    else:
        answer = "Yes" if best.low > 0.5 else "No evidence"
        evidence = f"the largest AUC under {target} is {_rate(best)}, by {LABELS[results.best]}"
        evidence += f"; the words alone give {words}"
    so_far = "" if results.is_complete else "; not all documents are scored yet"
    return Conclusion(
        QUESTION,
        answer,
        f"{evidence}; {pluralize(results.members, 'member')} and {pluralize(results.others, 'non-member')}{so_far}",
        "Benchmarks whose members and non-members come from different sources or times measure this difference, not "
        "membership. Equal words do not show that the texts are of one kind, and the best of several scores is larger "
        "by chance.",
        (
            KeyFigure("largest AUC", format_score(best.value), LABELS[results.best]),
            KeyFigure(
                "AUC of the words alone",
                "–" if shift is None else format_score(shift.auc.value),
                _words_details(results),
            ),
            *(
                KeyFigure(
                    f"TPR at {format_bound(rate)} FPR",
                    "–" if (found := results.rocs[results.best].at[place]) is None else format_score(found.value),
                    LABELS[results.best] if found is not None else f"needs {_needed(rate):,} non-members",
                )
                for place, rate in enumerate(FALSE_POSITIVE_RATES)
            ),
        ),
    )


def _words_details(results: _Results) -> str:
    return "no model" if results.words is None else f"no model, {format_p_value(results.p_value)}"


def _needed(rate: float) -> int:
    """Return the smallest number of non-members in which one false positive is at most `rate`."""
    return round(1 / rate)


def _rate(rate: Rate) -> str:
    return f"{format_score(rate.value)} {format_interval(rate.low, rate.high)}"


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
    scores = [
        {"score": LABELS[score], "AUC": roc.auc.value, "low": roc.auc.low, "high": roc.auc.high}
        | {
            f"TPR at {format_bound(rate)} FPR": np.nan if one is None else one.value
            for rate, one in zip(FALSE_POSITIVE_RATES, roc.at, strict=True)
        }
        for score, roc in results.rocs.items()
    ]
    rates = [
        {"score": LABELS[score], "FPR": rate, "TPR": one.value, "low": one.low, "high": one.high}
        for score, roc in results.rocs.items()
        for rate, one in zip(FALSE_POSITIVE_RATES, roc.at, strict=True)
        if one is not None
    ]
    documents = [
        {
            "document": results.documents.names[number],
            "is member": bool(results.documents.is_member[number]),
            "tokens": len(results.documents.tokens[number]),
            **{LABELS[score]: float(results.scores[score][number]) for score in results.rocs},
        }
        for number in range(len(results.documents.tokens))
    ]
    return [
        table_of("scores", "Membership scores", scores),
        table_of("rates", "TPR at few false positives", rates, is_detail=True),
        table_of("documents", "Every document", documents, is_detail=True),
    ]


def _auc_chart(results: _Results) -> Any:
    labels = [LABELS[score] for score in results.rocs]
    groups = {
        "target": {LABELS[score]: roc.auc for score, roc in results.rocs.items() if score in MODEL_SCORES},
        "words alone": {LABELS[score]: roc.auc for score, roc in results.rocs.items() if score not in MODEL_SCORES},
    }
    return bar_chart("auc", "AUC by score", "AUC", groups, labels, reference=0.5, controls=("words alone",))


def _roc_chart(results: _Results) -> LineChart:
    least = 1 / results.others
    series = [
        Series(
            LABELS[score],
            *roc.steps(least),
            is_dashed=score is Score.WORDS,
        )
        for score, roc in results.rocs.items()
    ]
    chance = np.geomspace(least, 1, 50)
    series.append(Series("chance", chance, chance, is_dashed=True))
    return LineChart("roc", "ROC curve", "FPR", "TPR", series, is_x_logarithmic=True, is_y_logarithmic=True)
