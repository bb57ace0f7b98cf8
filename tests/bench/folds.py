"""Compare `two_step` with ten trials of the baseline on folds that share no cluster: `python -m tests.bench.folds`.

The surrogate has half memorized the training rows 12,000 to 14,999. They are cut into three folds by cluster. For each
fold, the classifier of `two_step` is trained on the other two folds, which share no cluster with it.
"""

from dataclasses import dataclass, fields

import numpy as np

from attacks.two_step import TIE, FeaturedCandidates, TwoStepParams, find_candidates
from harness.candidate_ranker import CandidateRanker
from harness.core.arrays import Floats, Ints, Tokens
from harness.core.examples import folds_by_cluster
from harness.core.policy import Policy
from harness.core.scoring import correct_rows, exact_at_1, recall_at_errors, scaled_cap
from harness.core.windows import cluster_ids
from harness.engine.loading import load_target
from harness.engine.target import Target
from harness.rankers import official_loss
from harness.runs.machine import usable_cores
from tests.bench.inputs import SURROGATE, require_surrogate
from tests.bench.measuring import exit_on_error, markdown_table
from tests.tools.data import training_rows
from tests.tools.surrogate import FIRST_MEMORIZED

FOLDS, BATCH, TRIALS, WIDTH, CAP, EXAMPLES = 3, 64, 10, 8, 100, 1_000


@dataclass(frozen=True)
class Fold:
    """One fold, with Recall at 100 errors per 1,000 examples, exact@1 and any guess correct of each attack."""

    examples: int
    baseline: Floats
    two_step: Floats


def measure(*, rows: int | None = None) -> list[Fold]:
    """Return the scores of each fold.

    rows: how many training rows are used, None for all. Raises HarnessError if there is no surrogate.
    """
    require_surrogate()
    whole = training_rows()[FIRST_MEMORIZED:][:rows]
    prefixes = whole[:, 100:150]
    target = load_target(SURROGATE, device="cpu", threads=usable_cores())
    starts = range(0, len(prefixes), BATCH)
    batches = [
        (np.arange(first, min(first + BATCH, len(prefixes))), prefixes[first : first + BATCH]) for first in starts
    ]
    found = _joined([find_candidates(target, ids, batch, TwoStepParams(width=WIDTH), 0) for ids, batch in batches])
    return scores_by_fold(whole, found, _joined([_draws(target, ids, batch) for ids, batch in batches]))


def scores_by_fold(whole: Tokens, found: FeaturedCandidates, drawn: FeaturedCandidates) -> list[Fold]:
    """Return the scores of each fold of the rows `whole` [rows, 200], from candidates and draws for all of them.

    The likelihood of a draw is its official score.
    """
    answers = whole[:, 150:]
    clusters = cluster_ids([whole])
    fold = folds_by_cluster(clusters, FOLDS)
    is_right = correct_rows(found.ids, found.suffixes, answers)
    scores = []
    for number in range(FOLDS):
        attacked = np.flatnonzero(fold == number)
        mine = fold[found.ids] == number
        ranker = CandidateRanker(found.features[~mine], is_right[~mine])
        confidence = ranker.probabilities(found.features[mine]) + TIE * found.likelihood[mine]
        is_drawn = fold[drawn.ids] == number
        base = _scores(drawn.ids[is_drawn], drawn.suffixes[is_drawn], drawn.likelihood[is_drawn], attacked, answers)
        ours = _scores(found.ids[mine], found.suffixes[mine], confidence, attacked, answers, one_each=False)
        scores.append(Fold(len(attacked), base, ours))
    return scores


def _scores(
    ids: Ints, suffixes: Tokens, confidence: Floats, attacked: Ints, answers: Tokens, *, one_each: bool = True
) -> Floats:
    """Return recall, exact@1 and any guess correct of guesses for the rows `attacked`, [3].

    one_each: only the best guess of an example is submitted.
    """
    order = np.argsort(-confidence, kind="stable")
    ids, suffixes = np.searchsorted(attacked, ids[order]), suffixes[order]
    answers = answers[attacked]
    is_right = correct_rows(ids, suffixes, answers)
    upper_bound = len(np.unique(ids[is_right])) / len(answers)
    kept = np.sort(np.unique(ids, return_index=True)[1]) if one_each else slice(None)
    cap = scaled_cap(CAP, len(answers), EXAMPLES)
    recall = recall_at_errors(is_right[kept], ids[kept], cap=cap, examples=len(answers))
    return np.array([recall, exact_at_1(ids, suffixes, answers), upper_bound])


def _draws(target: Target, ids: Ints, prefixes: Tokens) -> FeaturedCandidates:
    """Return the guesses of the baseline for the examples `ids`, with the official score as their likelihood."""
    drawn = target.sample(prefixes, Policy(top_k=10), trials=TRIALS, seed=int(ids[0]))
    score = official_loss(drawn.token_logprobs, drawn.last_prefix_logprob[drawn.row])
    return FeaturedCandidates(ids[drawn.row], drawn.suffixes, score, np.zeros((len(score), 0)))


def _joined(parts: list[FeaturedCandidates]) -> FeaturedCandidates:
    return FeaturedCandidates(
        *(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(FeaturedCandidates))
    )


def table(folds: list[Fold]) -> str:
    """Return the scores of the baseline and of `two_step` as a Markdown table, with the mean over the folds."""
    means = (np.mean([getattr(fold, attack) for fold in folds], axis=0) for attack in ("baseline", "two_step"))
    rows = []
    for name, fold in [*enumerate(folds, 1), ("mean", Fold(sum(fold.examples for fold in folds), *means))]:
        recall, exact, any_ = (
            f"{one:.3f}, {other:.3f}" for one, other in zip(fold.baseline, fold.two_step, strict=True)
        )
        ratio = fold.two_step[0] / fold.baseline[0] if fold.baseline[0] else float("nan")
        rows.append((str(name), f"{fold.examples:,}", recall, f"{ratio:.2f}", exact, any_))
    return markdown_table(("fold", "examples", "Recall@100", "ratio", "exact@1", "any guess correct"), rows)


if __name__ == "__main__":
    with exit_on_error():
        print(table(measure()))
