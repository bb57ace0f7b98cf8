"""Compare `two_step` with ten trials of the baseline on folds that share no cluster: `python -m tests.bench.folds`.

Each surrogate has half memorized the training rows 12,000 to 14,999. They are cut into three folds by cluster. Each
fold is attacked by a classifier that was trained on the other two, which therefore do not give its answers away.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from attacks.two_step import TIE, Candidates, Classifier, candidate_features
from harness.core.arrays import Ints, Tokens
from harness.core.clusters import cluster_ids
from harness.core.examples import folds_by_cluster
from harness.core.policy import Policy
from harness.core.scoring import exact_at_1, recall_at_errors
from harness.engine.loading import load_target
from harness.engine.target import Target
from harness.rankers import official_loss
from harness.runs.machine import usable_cores
from tests.bench.inputs import OFFSETS, SURROGATE
from tests.surrogate import FIRST_MEMORIZED, training_rows

FOLDS, BATCH, TRIALS, WIDTH, ERRORS_PER_EXAMPLE = 3, 64, 10, 8, 0.1
REQUIRED = 1.25


@dataclass(frozen=True)
class Fold:
    """The scores of one fold: Recall at 100 errors per 1,000 examples, exact@1, and the upper bound by any guess."""

    examples: int
    baseline: float
    two_step: float
    baseline_exact: float
    two_step_exact: float
    baseline_any: float
    two_step_any: float


def measure(folder: Path, *, rows: int | None = None) -> list[Fold]:
    """Return the scores of each fold with the target in `folder`.

    rows: how many training rows are used, None for all.
    """
    whole = training_rows()[FIRST_MEMORIZED:][:rows]
    prefixes, answers = whole[:, 100:150], whole[:, 150:]
    clusters = cluster_ids([whole])
    fold = folds_by_cluster(clusters, FOLDS)
    target = load_target(folder, device="cpu", threads=usable_cores())
    found = _joined(list(_candidates(target, prefixes)))
    drawn = _joined(list(_draws(target, prefixes)))
    is_right = (found.suffixes == answers[found.ids]).all(axis=1)
    scores = []
    for number in range(FOLDS):
        mine = fold[found.ids] == number
        classifier = Classifier(found.features[~mine], is_right[~mine], folds_by_cluster(clusters, 5)[found.ids[~mine]])
        confidence = classifier.probabilities(found.features[mine]) + TIE * found.likelihood[mine]
        attacked = np.flatnonzero(fold == number)
        new_id = np.full(len(fold), -1)
        new_id[attacked] = np.arange(len(attacked))
        figures = []
        for guesses, score, part in ((drawn, drawn.likelihood, fold[drawn.ids] == number), (found, None, mine)):
            ids, suffixes = new_id[guesses.ids[part]], guesses.suffixes[part]
            order = np.argsort(-(confidence if score is None else score[part]), kind="stable")
            figures.append(_scores(ids[order], suffixes[order], answers[attacked], one_each=score is not None))
        (base, base_exact, base_any), (ours, ours_exact, ours_any) = figures
        scores.append(Fold(len(attacked), base, ours, base_exact, ours_exact, base_any, ours_any))
    return scores


def _scores(ids: Ints, suffixes: Tokens, answers: Tokens, *, one_each: bool) -> tuple[float, float, float]:
    """Return recall, exact@1 and upper bound of rows in submission order. one_each: only the best row of an example."""
    is_right = (suffixes == answers[ids]).all(axis=1)
    any_ = len(np.unique(ids[is_right])) / len(answers)
    exact = exact_at_1(ids, suffixes, answers)
    kept = np.sort(np.unique(ids, return_index=True)[1]) if one_each else slice(None)
    cap = max(1, round(ERRORS_PER_EXAMPLE * len(answers)))
    return recall_at_errors(is_right[kept], ids[kept], cap=cap, examples=len(answers)), exact, any_


def _candidates(target: Target, prefixes: Tokens) -> Iterator[Candidates]:
    """Yield the candidates of `two_step` for each batch of prefixes."""
    for first in range(0, len(prefixes), BATCH):
        batch = prefixes[first : first + BATCH]
        found = target.search(batch, WIDTH)
        own = target.score(batch[:, :1], batch[:, 1:]).token_logprobs
        features = candidate_features(batch, own, found.row, found.suffixes, found.token_logprobs)
        yield Candidates(first + found.row, found.suffixes, found.token_logprobs.sum(axis=1), features)


def _draws(target: Target, prefixes: Tokens) -> Iterator[Candidates]:
    """Yield the guesses of the baseline for each batch, whose likelihood is the official score."""
    for first in range(0, len(prefixes), BATCH):
        batch = prefixes[first : first + BATCH]
        drawn = target.sample(batch, Policy(top_k=10), trials=TRIALS, seed=first)
        score = official_loss(drawn.token_logprobs, drawn.last_prefix_logprob[drawn.row])
        yield Candidates(first + drawn.row, drawn.suffixes, score, np.zeros((len(score), 0)))


def _joined(parts: list[Candidates]) -> Candidates:
    return Candidates(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Candidates)))


def table(found: dict[str, list[Fold]]) -> str:
    """Return the scores as a Markdown table."""
    lines = [
        "| surrogate | fold | examples | baseline | `two_step` | ratio | upper bounds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, folds in found.items():
        for number, fold in enumerate(folds, 1):
            ratio = fold.two_step / fold.baseline if fold.baseline else float("nan")
            lines.append(
                f"| {name} | {number} | {fold.examples} | {fold.baseline:.3f} | {fold.two_step:.3f} | {ratio:.2f} "
                f"| {fold.baseline_any:.3f}, {fold.two_step_any:.3f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    surrogates = {"rounds' positions": SURROGATE, "random offsets": OFFSETS}
    found = {}
    for name, folder in surrogates.items():
        if not folder.is_dir():
            print(f"{name}: no target in {folder}.", file=sys.stderr)
            continue
        found[name] = measure(folder)
    print(table(found))
