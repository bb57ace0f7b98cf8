"""The tables of a membership audit, and their rows as arrays by document."""

import numpy as np

from harness.audits.membership.params import MODEL_SCORES, Score
from harness.core.arrays import Floats
from harness.core.audit import RowsOf
from harness.core.rows import Kind, table

SCORES = table("score", document=Kind.INTEGER, **{score.value: Kind.REAL for score in MODEL_SCORES})
"""The scores of a document, NaN for those that were not computed."""
REFERENCE = table("reference", document=Kind.INTEGER, loss=Kind.REAL)
"""The mean log-probability of a document under the reference model."""
WORDS = table("word_score", document=Kind.INTEGER, score=Kind.REAL)
"""The score of membership by the words of a document alone."""
WORD_SHIFT = table("word_shift", p_value=Kind.REAL)
"""The p-value of the permutation test on the scores by words, one row; NaN if there are too few texts."""
TABLES = (SCORES, REFERENCE, WORDS, WORD_SHIFT)


def read_scores(rows: RowsOf, documents: int) -> dict[Score, Floats]:
    """Return each score of all documents, [documents], NaN where it was not computed."""
    found = rows(SCORES.name)
    numbers = np.asarray(found["document"], np.int64)
    scores = {score: np.full(documents, np.nan) for score in Score}
    for score in MODEL_SCORES:
        scores[score][numbers] = np.asarray(found[score.value], np.float64)
    for name, column, score in ((REFERENCE.name, "loss", Score.REFERENCE), (WORDS.name, "score", Score.WORDS)):
        part = rows(name)
        values = np.full(documents, np.nan)
        values[np.asarray(part["document"], np.int64)] = np.asarray(part[column], np.float64)
        if score is Score.REFERENCE:
            with np.errstate(divide="ignore", invalid="ignore"):
                values = -scores[Score.LOSS] / np.minimum(values, -1e-12)
        scores[score] = values
    return scores
