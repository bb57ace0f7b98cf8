"""What the shipped baseline reaches on the demo: by seed, by trials, by repetition: `python -m tests.bench.demo`."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from harness.cli.demo import TRIALS
from harness.core.examples import load_answers
from harness.core.rounds import load_round
from harness.core.scoring import correct_rows
from harness.core.submission_reader import SubmissionRules, read_submission
from harness.engine.demo import ROUND_ARRAYS

ROOT = Path(__file__).parents[2]
SEEDS = (0, 1, 2)
BAND = (0.20, 0.50)


def measure() -> dict[str, Any]:
    """Recall at 100 errors of six runs, and the share of examples that one of them has right by repetition."""
    with tempfile.TemporaryDirectory() as place:
        runs = {seed: _run(place, "baseline", f"trials={TRIALS}", seed) for seed in SEEDS}
        figures: dict[str, Any] = {f"seed_{seed}": run["recall_at_cap"] for seed, run in runs.items()}
        figures["band"] = BAND
        for trials in (1, 10):
            figures[f"trials_{trials}"] = _run(place, "baseline", f"trials={trials}", 0)["recall_at_cap"]
        figures["greedy"] = _run(place, "greedy", None, 0)["recall_at_cap"]
        figures["exact_by_repetition"] = _exact_by_repetition(Path(runs[0]["submission"]))
    return figures


def _run(place: str, attack: str, setting: str | None, seed: int) -> dict[str, Any]:
    homes = {name: str(Path(place) / name.lower()) for name in ("HARNESS_HOME", "HARNESS_CACHE", "HARNESS_DATA")}
    command = [sys.executable, "-m", "harness", "run", attack, "--round", "demo", "--seed", str(seed), "--json"]
    done = subprocess.run(
        [*command, *(("--set", setting) if setting else ())],
        env={**os.environ, **homes, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        timeout=600,
    )
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def _exact_by_repetition(submission: Path) -> dict[str, float]:
    """The share of examples whose submitted suffix is right, by how often their document stood in the corpus."""
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
