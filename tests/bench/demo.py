"""Measure the recall of the baseline on the demo, by seed and number of trials: `python -m tests.bench.demo`."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.examples import load_answers
from harness.core.rounds import load_round
from harness.core.scoring import correct_rows
from harness.core.submission_reader import SubmissionRules, read_submission
from harness.demo import ROUND_ARRAYS
from tests.bench.inputs import run_harness

SEEDS = (0, 1, 2)
TRIALS = load_round("demo").presets["baseline"]["trials"]


def measure() -> dict[str, Any]:
    """Return Recall@100 of six runs, and the fraction of exact suffixes of the first run by number of repetitions."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        runs = {seed: _run(folder, "baseline", f"trials={TRIALS}", seed) for seed in SEEDS}
        figures: dict[str, Any] = {f"seed_{seed}": run["recall_at_cap"] for seed, run in runs.items()}
        for trials in (1, 10):
            figures[f"trials_{trials}"] = _run(folder, "baseline", f"trials={trials}", 0)["recall_at_cap"]
        figures["greedy"] = _run(folder, "greedy", None, 0)["recall_at_cap"]
        figures["exact_by_repetitions"] = _exact_by_repetitions(Path(runs[0]["submission"]))
    return figures


def _run(folder: Path, attack: str, setting: str | None, seed: int) -> dict[str, Any]:
    """Run an attack on the demo, and return its summary."""
    options = ("--set", setting) if setting else ()
    printed = run_harness(folder, "run", attack, "--round", "demo", "--seed", str(seed), "--json", *options)
    summary: dict[str, Any] = json.loads(printed)
    return summary


def _exact_by_repetitions(submission: Path) -> dict[str, float]:
    """Return the fraction of examples with a correct suffix, by how often their document is in the corpus."""
    round_ = load_round("demo")
    answers = load_answers(round_)
    assert answers is not None
    rows = read_submission(submission, SubmissionRules(len(answers), round_.suffix_length, round_.vocabulary))
    exact = np.zeros(len(answers), np.bool_)
    exact[rows.ids] = correct_rows(rows.ids, rows.suffixes, answers)
    repetitions = np.load(ROUND_ARRAYS / "repetitions.npy")
    octaves = [(1, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 64)]
    return {
        f"{low}-{high}": round(float(exact[(low <= repetitions) & (repetitions <= high)].mean()), 3)
        for low, high in octaves
    }


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:20} {value}")
