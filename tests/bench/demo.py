"""Measure the recall of the baseline on the demo, by seed and number of trials: `python -m tests.bench.demo`."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.rounds import load_round
from harness.demo import ROUND_ARRAYS
from tests.bench.inputs import run_attack
from tests.bench.measuring import print_figures
from tests.functional.test_demo import exact_examples

TRIALS = load_round("demo").presets["baseline"]["trials"]
RUNS = {f"seed_{seed}": ("baseline", "--set", f"trials={TRIALS}", "--seed", str(seed)) for seed in range(3)}
RUNS |= {f"trials_{trials}": ("baseline", "--set", f"trials={trials}") for trials in (1, 10)}
RUNS |= {"greedy": ("greedy",)}
OCTAVES = ((1, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 64))


def measure() -> dict[str, Any]:
    """Return Recall@100 of six runs, and the fraction of exact suffixes of the first run by number of repetitions."""
    with tempfile.TemporaryDirectory() as name:
        runs = {case: run_attack(Path(name), *run, "--round", "demo") for case, run in RUNS.items()}
        exact = exact_examples(runs["seed_0"][0].submission)
    repetitions = np.load(ROUND_ARRAYS / "repetitions.npy")
    return {case: summary["recall_at_cap"] for case, (_, summary) in runs.items()} | {
        "exact_by_repetitions": {
            f"{low}-{high}": round(float(exact[(low <= repetitions) & (repetitions <= high)].mean()), 3)
            for low, high in OCTAVES
        }
    }


if __name__ == "__main__":
    print_figures(measure())
