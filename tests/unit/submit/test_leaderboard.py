"""The ranking of bundles, and its page."""

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.arrays import tokens_sha256
from harness.core.rounds import Round
from harness.core.submission import write_submission
from harness.submit.archive import archive_bytes
from harness.submit.leaderboard import Entry, leaderboard, leaderboard_csv
from harness.submit.manifest import MANIFEST, Manifest, hashes_of
from harness.submit.rerun import JudgingData

PREFIXES = np.arange(40, dtype=np.uint16).reshape(20, 2)
ANSWERS = PREFIXES + 1
ROUND = Round(
    name="r",
    title="",
    prefix_file=Path("prefixes.npy"),
    prefix_length=2,
    suffix_length=2,
    vocabulary=100,
    error_cap=3,
    row_cap=100,
    target="none",
)
VERDICT = {"bundle": "b", "kind": "submission", "attack": "a", "round": "r", "findings": []}
SPEC = {
    "attack": {
        "name": "a",
        "origin": "bundle",
        "file": "a.py",
        "sha256": "0",
        "summary": "",
        "reference": "",
        "control": False,
        "uses_target": False,
        "reference_model": "",
        "guesses_per_example": 1,
        "requires": [],
        "models": [],
    },
    "params": {},
    "paths": {},
    "seed": 0,
    "budget": 60.0,
    "target": None,
    "reference": None,
    "trains": False,
    "versions": {"python": "3.11.7"},
}
HERE = {"processor": "this", "cores": 2, "gpus": []}


def _judging(answers: Any = ANSWERS) -> JudgingData:
    return JudgingData(ROUND, PREFIXES, answers, None)


def _bundle(
    folder: Path, name: str, solved: int, *, hardware: dict[str, Any] = HERE, seconds: float = 10, team: str = ""
) -> Path:
    content = io.BytesIO()
    suffixes = ANSWERS.copy()
    suffixes[solved:] = 0
    write_submission(content, np.arange(20), suffixes)
    files = {"submission.csv": content.getvalue(), "team.toml": f'[[members]]\nname = "{team or name}"\n'.encode()}
    files |= {"code/spec.json": json.dumps(SPEC).encode(), "code/round.toml": b'name = "r"\ntitle = "t"\n'}
    run = {
        "id": name,
        "status": "finished",
        "reason": "",
        "spent_s": seconds,
        "budget_s": 60,
        "examples": 20,
        "sandbox": "bwrap",
        "hardware": hardware,
        "versions": {},
        "unpromised": [],
    }
    manifest = Manifest(
        kind="submission",
        harness="1",
        data_sha256={},
        code_bundle_sha256=None,
        marks=[],
        run=run,
        prefixes_sha256=tokens_sha256(PREFIXES, 100),
        files=hashes_of(files),
    )
    (path := folder / f"{name}.zip").write_bytes(archive_bytes(files | {MANIFEST: manifest.json_bytes()}))
    return path


def _ranked(bundles: list[Path], judging: JudgingData | None = None) -> list[Entry]:
    return leaderboard(bundles, judging or _judging(), lambda name, number, of: None)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5))
@settings(deadline=None, max_examples=8)
def test_places_follow_recall_and_equal_recall_shares_a_place(tmp_path_factory, solved: list[int]) -> None:
    folder = tmp_path_factory.mktemp("bundles")
    entries = _ranked([_bundle(folder, f"b{number}", count) for number, count in enumerate(solved)])
    recalls = [entry.recall_at_cap for entry in entries]
    assert recalls == sorted((count / 20 for count in solved), reverse=True)
    assert [entry.place for entry in entries] == [1 + sum(other > one for other in recalls) for one in recalls]
    assert all(entry.ties for entry in entries[1:] if entry.recall_at_cap == entries[0].recall_at_cap)
    assert entries[0].difference is None


def test_times_are_relative_to_the_leader_on_equal_hardware(tmp_path: Path) -> None:
    first = _bundle(tmp_path, "first", 20, seconds=10)
    same = _bundle(tmp_path, "same", 10, seconds=25)
    other = _bundle(tmp_path, "other", 5, seconds=5, hardware=HERE | {"gpus": ["H200"]})
    entries = {entry.bundle: entry for entry in _ranked([first, same, other])}
    assert entries["same.zip"].time_of_leader == 2.5 and entries["first.zip"].time_of_leader is None
    assert entries["other.zip"].time_of_leader is None and entries["other.zip"].hardware == "this, 2 cores, H200"


def test_verified_time_and_hardware_replace_the_team_s(tmp_path: Path) -> None:
    bundle = _bundle(tmp_path, "one", 3, seconds=10)
    verdict = {"outcome": "reproduced", "sentence": "x", "elapsed_s": 99.0, "hardware": HERE | {"processor": "judge's"}}
    sha256 = hashlib.sha256(bundle.read_bytes()).hexdigest()
    (tmp_path / "one.verdict.json").write_text(json.dumps(VERDICT | verdict | {"bundle_sha256": sha256}))
    (entry,) = _ranked([bundle])
    assert (entry.elapsed_s, entry.hardware, entry.verified) == (99.0, "judge's, 2 cores, no GPU", "reproduced")


def _write_verdict(bundle: Path, outcome: str, produced: int | None = None) -> None:
    """Write a verdict, and optionally a produced submission that solves `produced` examples."""
    verdict: dict[str, Any] = {"outcome": outcome, "sentence": "a reason", "elapsed_s": 1.0, "hardware": HERE}
    verdict["bundle_sha256"] = hashlib.sha256(bundle.read_bytes()).hexdigest()
    if produced is not None:
        suffixes = ANSWERS.copy()
        suffixes[produced:] = 0
        path = bundle.with_name(f"{bundle.stem}.produced.csv")
        write_submission(path, np.arange(20), suffixes)
        verdict["produced_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        verdict["scores"] = {"submitted": {"recall_at_cap": 1.0}}
    bundle.with_name(f"{bundle.stem}.verdict.json").write_text(json.dumps(VERDICT | verdict))


@pytest.mark.parametrize("outcome", ["measured", "reproduced_up_to_ties"])
def test_the_produced_submission_is_ranked(tmp_path: Path, outcome: str) -> None:
    claims_all, honest = _bundle(tmp_path, "claims", 20), _bundle(tmp_path, "honest", 10)
    _write_verdict(claims_all, outcome, produced=4)
    first, second = _ranked([claims_all, honest])
    assert (first.bundle, first.recall_at_cap) == ("honest.zip", 0.5)
    assert (second.bundle, second.recall_at_cap) == ("claims.zip", 0.2)
    assert second.verified == ("measured, 1.000 submitted" if outcome == "measured" else "reproduced up to ties")


def test_refused_bundles_and_changed_results_are_not_ranked(tmp_path: Path) -> None:
    refused, altered = _bundle(tmp_path, "refused", 20), _bundle(tmp_path, "altered", 20)
    _write_verdict(refused, "refused")
    _write_verdict(altered, "measured", produced=4)
    (tmp_path / "altered.produced.csv").write_bytes(b"Example ID,Suffix Guess\n")
    first, second = _ranked([refused, altered])
    assert first.unranked.startswith("altered.produced.csv, which its code produced, is missing or was changed")
    assert second.unranked == "verification refused the bundle of refused: a reason"


def test_a_blind_round_has_no_places(tmp_path: Path) -> None:
    (entry,) = _ranked([_bundle(tmp_path, "one", 3)], _judging(None))
    assert (entry.place, entry.recall_at_cap, entry.unranked) == (
        None,
        None,
        "the round is blind: its answers are not known yet",
    )


def test_unreadable_bundles_come_last(tmp_path: Path) -> None:
    (bad := tmp_path / "a-bad.zip").write_bytes(b"PK")
    entries = _ranked([bad, _bundle(tmp_path, "none", 0)])
    assert [entry.place for entry in entries] == [1, None] and "not a valid zip" in entries[1].unranked


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\\tx"])
def test_csv_cells_are_not_formulas(name: str, tmp_path: Path) -> None:
    (row,) = csv.DictReader(io.StringIO(leaderboard_csv(_ranked([_bundle(tmp_path, "one", 1, team=name)]))))
    assert not row["team"].startswith(("=", "+", "-", "@", "\t"))
    assert float(row["recall_at_cap"]) == 0.05
