"""Measure orders of recorded trials of GPT-Neo 1.3B: `python -m tests.bench.real_target`.

The trials are outputs of the official baseline for the last 1,000 training rows of the challenge. They are ordered by
the official loss, by the number of draws, and by `harness.candidate_ranker`. The ranker is cross-validated in ten folds
that share no cluster, and has the log-odds of a prior ranker as a feature. The prior ranker is trained on recorded
guesses for the other 14,000 training rows, without the rows whose cluster has one of the 1,000. The ranker without this
feature is also cross-validated on all of the 14,000 rows. docs/explanation/results.md says which features come from
which rows.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from tokenizers import Tokenizer

from harness.candidate_ranker import (
    CandidateRanker,
    Candidates,
    candidate_features,
    drawn_candidates,
    prior_features,
    with_prior,
)
from harness.candidate_text import TextOf
from harness.core.arrays import Bools, Floats, Ints, Tokens
from harness.core.errors import HarnessError
from harness.core.examples import folds_by_cluster
from harness.core.files import write_export
from harness.core.findings import LineChart, Series
from harness.core.intervals import JudgedRows
from harness.core.multiple_comparisons import paired_difference
from harness.core.scoring import Score, correct_rows, recall_at_errors, scaled_cap, score_rows
from harness.figures.charts import draw_charts
from tests.bench.measuring import exit_on_error, markdown_table, replace_part
from tests.bench.recorded_trials import (
    EARLIER_ROWS,
    TrainingRows,
    Trials,
    earlier_candidates,
    published_trials,
    recorded_trials,
    training_rows,
)
from tests.functional.machine import ROOT
from tests.tools.data import RECORDED, SATML, TRIALS, gpt2_tokenizer, what_is_missing

EXAMPLES, CAP, FOLDS, SEEDS, KEPT = 1_000, 100, 10, 3, 4
TRIAL_COUNTS, DRAWN_COUNTS = (1, 5, 10, 100, 1_000), (1, 10, 100, 1_000)
PICTURE = ROOT / "docs" / "pictures" / "real-target.svg"


_COLUMNS = {
    "any_guess_correct": "any guess correct",
    "any_candidate_correct": "any candidate correct",
    "exact_at_1_by_loss": "exact@1 by loss",
    "by_loss": "Recall@100 by loss",
    "by_count": "by number of draws",
    "by_ranker": "by the trained ranker",
    "gain": "ranker − number of draws",
}
_OTHER_COLUMNS = {
    "by_loss": "Recall@100 by loss",
    "by_ranker": "by the trained ranker, without a prior",
    "pooled_gain": "ranker − loss, pooled",
}
"""The columns of the two tables, by the name of their figure."""


class Measured(NamedTuple):
    """The results after some trials.

    figures: by name. "any_candidate_correct" is the share of examples with the right suffix among the candidates of the
    ranker; "by_ranker" is Recall@100, the mean over all seeds; its interval, and "gain", its advantage over the number
    of draws, are those of the first seed.
    by_loss, by_ranker: the scores of two orders; `by_ranker` is that of the first seed.
    """

    trials: int
    figures: dict[str, Any]
    by_loss: Score
    by_ranker: Score


def measure(source: Path | None, seeds: int, *, has_prior: bool = True) -> tuple[list[Measured], dict[str, Any] | None]:
    """Return the results after each of TRIAL_COUNTS, and figures of the 14,000 rows if the ranker has a prior.

    source: a directory in the published layout, or None for the trials in TRIALS.
    Raises HarnessError if a file is missing.
    """
    folders = (SATML, *((RECORDED,) if has_prior else ()), *(() if source else (TRIALS,)))
    if missing := what_is_missing(*folders):
        raise HarnessError(missing)
    loaded = Tokenizer.from_file(str(gpt2_tokenizer()))

    def text_of(tokens: Tokens) -> list[str]:
        texts: list[str] = loaded.decode_batch(tokens.tolist(), skip_special_tokens=False)
        return texts

    training = training_rows()
    earlier, attacked = training.part(slice(EARLIER_ROWS)), training.part(slice(-EXAMPLES, None))
    trials = recorded_trials() if source is None else published_trials(source, attacked.prefixes)
    prior = on_other_rows = None
    if has_prior:
        candidates = earlier_candidates()
        features = candidate_features(earlier.prefixes, candidates, text_of)
        is_right = correct_rows(candidates.row, candidates.suffixes, earlier.suffixes)
        is_apart = has_other_cluster(earlier, attacked)[candidates.row]
        prior = CandidateRanker(prior_features(features[is_apart]), is_right[is_apart])
        on_other_rows = measured_earlier(features, candidates, is_right, earlier.clusters, seeds)
    measured = [
        measured_after(trials.first(count), attacked, text_of, prior, seeds)
        for count in TRIAL_COUNTS
        if count <= trials.losses.shape[1]
    ]
    return measured, on_other_rows


def measure_all() -> dict[str, Any]:
    """Return the results with the default options as `figures` does."""
    return figures(*measure(None, SEEDS))


def has_other_cluster(rows: TrainingRows, attacked: TrainingRows) -> Bools:
    """Return for each of `rows` whether no attacked example is in its cluster, [rows]."""
    return ~np.isin(rows.clusters, attacked.clusters)


def measured_after(
    trials: Trials, attacked: TrainingRows, text_of: TextOf | None, prior: CandidateRanker | None, seeds: int
) -> Measured:
    """Return the results of `trials` of the examples `attacked`."""
    row, suffixes, count, loss, logprob = distinct_draws(trials)
    is_drawn_right = correct_rows(row, suffixes, attacked.suffixes)
    lowest = trials.losses.argmin(axis=1)  # the first of equal losses
    examples = np.arange(len(lowest))
    is_lowest_right = correct_rows(examples, trials.suffixes[examples, lowest], attacked.suffixes)
    loss_order = np.argsort(trials.losses[examples, lowest], kind="stable")
    count_order = one_per_example(row, np.lexsort((loss, -count)))
    candidates = drawn_candidates(row, suffixes, count, logprob, kept=KEPT)
    is_right = correct_rows(candidates.row, candidates.suffixes, attacked.suffixes)
    features = candidate_features(attacked.prefixes, candidates, text_of)
    if prior is not None:
        features = with_prior(features, candidates.row, prior)
    orders = ranker_orders(features, is_right, candidates.row, attacked.clusters, seeds)
    rankings = [JudgedRows(is_right[order], candidates.row[order]) for order in orders]
    by_count = JudgedRows(is_drawn_right[count_order], row[count_order])
    cap, clusters = scaled_cap(CAP, len(lowest), EXAMPLES), attacked.clusters
    by_loss, count_score, by_ranker = (
        score_rows(*judged, cap=cap, examples=len(lowest), clusters=clusters)
        for judged in (JudgedRows(is_lowest_right[loss_order], loss_order), by_count, rankings[0])
    )
    recalls = [recall_at_errors(*ranking, cap=cap, examples=len(lowest)) for ranking in rankings]
    figures = {
        "any_guess_correct": len(np.unique(row[is_drawn_right])) / len(lowest),
        "any_candidate_correct": len(np.unique(candidates.row[is_right])) / len(lowest),
        "exact_at_1_by_loss": float(is_lowest_right.mean()),
        "by_loss": by_loss.recall_at_cap,
        "by_count": count_score.recall_at_cap,
        "by_ranker": float(np.mean(recalls)),
        "by_ranker_interval": by_ranker.interval[:2],
        **_gain("gain", rankings[0], by_count, cap=cap, examples=len(lowest), clusters=clusters),
    }
    return Measured(trials.losses.shape[1], figures, by_loss, by_ranker)


def _gain(name: str, first: JudgedRows, second: JudgedRows, **options: Any) -> dict[str, Any]:
    found = paired_difference(first, second, **options)
    return {name: found.difference, f"{name}_interval": found.interval[:2]}


def measured_earlier(
    features: Floats, candidates: Candidates, is_right: Bools, clusters: Ints, seeds: int
) -> dict[str, Any]:
    """Return figures of the ranker without a prior on all rows, in blocks of EXAMPLES, by lowest loss and by it.

    "by_loss" and "by_ranker" are means of Recall@100 over blocks. "pooled_gain" is that of all rows over the loss.
    """
    row, loss = candidates.row, -candidates.logprob
    orders = ranker_orders(features, is_right, row, clusters, seeds)
    loss_order = one_per_example(row, np.argsort(loss, kind="stable"))

    def mean_recall(order: Ints) -> float:
        blocks = [order[row[order] // EXAMPLES == block] for block in range(len(clusters) // EXAMPLES)]
        recalls = [recall_at_errors(is_right[part], row[part], cap=CAP, examples=EXAMPLES) for part in blocks]
        return float(np.mean(recalls))

    first, second = (JudgedRows(is_right[order], row[order]) for order in (orders[0], loss_order))
    cap = scaled_cap(CAP, len(clusters), EXAMPLES)
    return {
        "by_loss": mean_recall(loss_order),
        "by_ranker": float(np.mean([mean_recall(order) for order in orders])),
        **_gain("pooled_gain", first, second, cap=cap, examples=len(clusters), clusters=clusters),
    }


def distinct_draws(trials: Trials) -> tuple[Ints, Tokens, Ints, Floats, Floats]:
    """Return the distinct draws, by example: row, suffixes [rows, 50], count, lowest loss and log-probability.

    The window of the official loss starts at the last prefix token and omits the last suffix token, so the loss cannot
    tell suffixes that differ only there. The draws give its conditional probability: the share of the trials with the
    same tokens before it that drew this token, smoothed. Its logarithm is added to 50 times the negative mean loss.
    """
    examples, number, length = trials.suffixes.shape
    # Big-endian bytes sort like the tokens, and example by example.
    owned = np.empty((examples * number, 1 + length), ">u2")
    owned[:, 0] = np.repeat(np.arange(examples), number)
    owned[:, 1:] = trials.suffixes.reshape(-1, length)
    _, first, inverse, count = np.unique(_bytes(owned), return_index=True, return_inverse=True, return_counts=True)
    loss = np.full(len(first), np.inf)
    np.minimum.at(loss, inverse.reshape(-1), trials.losses.reshape(-1))
    draws = owned[first]
    beginning = np.unique(_bytes(draws[:, :-1]), return_inverse=True)[1].reshape(-1)
    together = np.bincount(beginning, weights=count)[beginning]
    logprob = -length * loss + np.log((count + 0.1) / (together + 1))
    return draws[:, 0].astype(np.int64), draws[:, 1:].astype(np.int64), count, loss, logprob


def _bytes(rows: Tokens) -> Any:
    """Return each row of tokens as one value."""
    rows = np.ascontiguousarray(rows)
    return rows.view(f"V{rows.shape[1] * rows.itemsize}").reshape(-1)


def one_per_example(row: Ints, order: Ints) -> Ints:
    """Return `order` [candidates], best first, with the first candidate of each example alone, [examples]."""
    return order[np.sort(np.unique(row[order], return_index=True)[1])]


def ranker_orders(features: Floats, is_right: Bools, row: Ints, clusters: Ints, seeds: int) -> list[Ints]:
    """Return for each seed the likeliest candidate of each example, best first, [examples].

    A candidate is judged by a ranker that was trained on the other folds.
    """
    orders = []
    for seed in range(seeds):
        print(f"{len(row):,} candidates, cut {seed + 1} of {seeds} …", file=sys.stderr, flush=True)
        fold = shuffled_folds(clusters, FOLDS, seed)[row]
        probability = np.empty(len(row))
        for number in range(FOLDS):
            is_held_out = fold == number
            with threadpool_limits(1):  # Threads cost more than they save, and sums depend on their number.
                ranker = CandidateRanker(features[~is_held_out], is_right[~is_held_out])
                probability[is_held_out] = ranker.probabilities(features[is_held_out])
        orders.append(one_per_example(row, np.argsort(-probability, kind="stable")))
    return orders


def shuffled_folds(clusters: Ints, folds: int, seed: int) -> Ints:
    """Return the fold of each row, [rows]. Clusters of the same size are assigned in a random order."""
    names, numbers = np.unique(clusters, return_inverse=True)
    return folds_by_cluster(np.random.default_rng(seed).permutation(len(names))[numbers.reshape(-1)], folds)


def table(measured: list[Measured], earlier: dict[str, Any] | None) -> str:
    """Return the results as Markdown: one table, and a second one if there are results on the other rows."""
    rows = [(f"{result.trials:,}", *(_cell(result.figures, name) for name in _COLUMNS)) for result in measured]
    tables = [markdown_table(("trials", *_COLUMNS.values()), rows)]
    if earlier is not None:
        row = (f"the other {EARLIER_ROWS:,}, five trials", *(_cell(earlier, name) for name in _OTHER_COLUMNS))
        tables.append(markdown_table(("rows", *_OTHER_COLUMNS.values()), [row]))
    return "\n\n".join(tables)


def _cell(figures: dict[str, Any], name: str) -> str:
    """Return a figure with its interval, if it has one."""
    form = "+.3f" if "gain" in name else ".3f"
    interval = ", ".join(format(end, form) for end in figures.get(f"{name}_interval", ()))
    return f"{figures[name]:{form}}" + (f" [{interval}]" if interval else "")


def figures(measured: list[Measured], earlier: dict[str, Any] | None) -> dict[str, Any]:
    """Return the results as a JSON object, {part: {name: number}}."""
    by_trials = {f"{result.trials} trials": result.figures for result in measured}
    return by_trials if earlier is None else {**by_trials, "other rows": earlier}


def picture(measured: list[Measured]) -> str:
    """Return recall vs. errors after each of DRAWN_COUNTS by loss, dashed, and by the ranker, as SVG."""
    series = []
    for result in measured:
        if result.trials in DRAWN_COUNTS:
            for order, score in (("ranker", result.by_ranker), ("loss", result.by_loss)):
                errors, recall, _ = score.recall_curve(480)
                name = f"{result.trials:,} {'trial' if result.trials == 1 else 'trials'}, {order}"
                series.append(Series(name, errors, recall, is_dashed=order == "loss"))
    series.sort(key=lambda line: line.is_dashed)
    label = f"recall of {EXAMPLES:,} examples"
    chart = LineChart("real-target", "Recall vs. errors", "errors (wrong rows)", label, series, is_x_logarithmic=True)
    return draw_charts([chart])[0].svg


def main() -> None:
    """Print the table, or write it and the picture to the documentation."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--source", type=Path, metavar="DIR", help="directory with generations/N.npy and losses/N.npy")
    parser.add_argument("--no-prior", action="store_true", help="do without recorded guesses for the other 14,000 rows")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"number of cuts into folds (default: {SEEDS})")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write", action="store_true", help="write table and picture to the documentation")
    chosen = parser.parse_args()
    if chosen.write and chosen.no_prior:
        parser.error("--write: the documentation shows both tables, so it needs the prior. Remove --no-prior.")
    if chosen.seeds < 1:
        parser.error("--seeds: expected a number of at least 1.")
    with exit_on_error():
        measured, earlier = measure(chosen.source, chosen.seeds, has_prior=not chosen.no_prior)
        print(json.dumps(figures(measured, earlier)) if chosen.json else table(measured, earlier))
        if chosen.write:
            replace_part("real target", table(measured, earlier))
            write_export(PICTURE, picture(measured))


if __name__ == "__main__":
    main()
