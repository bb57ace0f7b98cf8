"""`replay` in real runs: recorded trials are ranked by the official rule, and a submission is copied."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Tokens
from harness.core.examples import load_prefixes
from harness.core.rounds import load_round
from harness.core.submission import write_submission
from tests.functional.command import run_command
from tests.functional.machine import homes
from tests.tools.data import DATA, RECORDED, SATML, require_data
from tests.tools.tiers import first_is_fast

ROWS = 20


def _run(folder: Path, *arguments: str, round_: str = "demo") -> dict[str, Any]:
    done = run_command(
        ["run", "replay", "--json", "--round", round_, *arguments],
        folder=folder,
        environment={**os.environ, **homes(folder), "HARNESS_DATA": str(DATA)},
    )
    summary: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"status": "refused", "reason": done.stderr}
    return summary


@pytest.fixture
def prefixes() -> Tokens:
    return load_prefixes(load_round("demo"))[:ROWS]


def _record(folder: Path, prefixes: Tokens, losses: dict[str, float]) -> Path:
    """Write recorded trials and return their directory. The suffix of trial t is fifty times t. losses: by trial."""
    for kind in ("generations", "losses"):
        (folder / "source" / kind).mkdir(parents=True)
    for trial, loss in losses.items():
        suffixes = np.full((len(prefixes), 50), int(trial))
        whole = np.concatenate([prefixes, suffixes], axis=1).astype(np.int64)
        np.save(folder / "source" / "generations" / f"{trial}.npy", whole)
        np.save(folder / "source" / "losses" / f"{trial}.npy", np.full((len(prefixes), 1), loss, np.float32))
    return folder / "source"


def _submitted(summary: dict[str, Any]) -> list[str]:
    return Path(summary["submission"]).read_text().splitlines()[1:]


def test_replay_prefers_the_first_of_equal_losses(tmp_path: Path, prefixes: Tokens) -> None:
    source = _record(tmp_path, prefixes, {"0": 3.0, "1": 2.0, "2": 2.0, "10": 1.0})
    summary = _run(tmp_path, "--limit", str(ROWS), "--set", f"source={source}", "--set", "trials=3")
    assert (summary["status"], summary["rows"]) == ("finished", ROWS)
    ones = ",".join(["1"] * 50)
    assert _submitted(summary) == [f'{example},"[{ones}]"' for example in range(ROWS)]


def test_replay_copies_a_submission_unchanged(tmp_path: Path) -> None:
    ids = np.array([3, 1, 3, 3, 0, 999])
    suffixes = np.repeat(np.array([[5], [6], [7], [5], [8], [9]]), 50, axis=1)
    write_submission(tmp_path / "theirs.csv", ids, suffixes)
    whole = _run(tmp_path, "--set", "source=theirs.csv")
    assert Path(whole["submission"]).read_bytes() == (tmp_path / "theirs.csv").read_bytes()
    part = _run(tmp_path, "--set", "source=theirs.csv", "--limit", str(ROWS))
    assert _submitted(part) == _submitted(whole)[:-1]


@pytest.mark.slow
def test_generations_for_other_prefixes_are_refused(tmp_path: Path, prefixes: Tokens) -> None:
    others = prefixes.copy()
    others[7, 0] ^= 1
    source = _record(tmp_path, others, {"0": 1.0})
    summary = _run(tmp_path, "--limit", str(ROWS), "--set", f"source={source}")
    assert summary["status"] == "crashed"
    assert "row 7 does not begin with the round's prefix 7:" in summary["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(("trials", "recall"), first_is_fast([(5, 0.301), (1, 0.244)]))
def test_recorded_outputs_of_gpt_neo_have_their_known_recall(tmp_path: Path, trials: int, recall: float) -> None:
    require_data(RECORDED, SATML)
    summary = _run(tmp_path, "--set", f"source={RECORDED}", "--set", f"trials={trials}", round_="satml-dev")
    assert (summary["status"], summary["recall_at_cap"]) == ("finished", recall)
