"""`harness audit compare`: of targets, of stored audits, redaction and invalid input."""

import numpy as np
import pytest

from harness.demo import ROUND_ARRAYS
from tests.functional.machine import Machine

ON_DEMO = ("audit", "compare", "--round", "demo", "--threads", "1", "--limit", "12")


@pytest.mark.slow
def test_stored_audits_and_targets_give_the_same_comparison(machine: Machine) -> None:
    measured = machine.json(*ON_DEMO, "--target", "demo-tiny", "--target", "demo", "--out", "measured")
    few = ("--threads", "1", "--limit", "12", "--inexact", "0", "--near", "0")
    leakage = ("audit", "leakage", "--round", "demo", *few)
    ids = []
    for target in ("demo-tiny", "demo"):
        machine.json(*leakage, "--target", target)
        ids.append(machine.newest()["id"])
    stored = machine.json("audit", "compare", "--run", ids[0], "--run", ids[1])
    assert stored["targets"] == measured["targets"] == ["demo-tiny", "demo"]
    assert len(stored["measures"]) == len(measured["measures"]) > 0
    for row, again in zip(measured["measures"], stored["measures"], strict=True):
        assert (again["measure"], again["model"], again["case"]) == (row["measure"], row["model"], row["case"])
        assert again["value"] == pytest.approx(row["value"], abs=1e-5)
    assert measured["conclusion"]["question"] == "Did memorization change?"
    assert {path.name for path in (machine.folder / "measured" / "figures").iterdir()} == {
        "measures.svg",
        "transitions.svg",
    }
    refused = machine.run("audit", "compare", "--run", machine.newest()["id"], "--run", ids[0], code=1)
    assert "and --run takes leakage audits" in refused.stderr


def test_a_control_and_copies_are_read_from_files(machine: Machine) -> None:
    rows = np.concatenate([np.load(ROUND_ARRAYS / f"{part}.npy") for part in ("prefix", "suffix")], axis=1)
    for name, some in (("pairs", rows[:10]), ("others", rows[10:16])):
        np.savez(machine.folder / f"{name}.npz", prefixes=some[:, :50], suffixes=some[:, 50:])
    np.save(machine.folder / "copies.npy", np.arange(1, 11))
    targets = ("--target", "demo-tiny", "--target", "demo-small", "--threads", "1")
    found = machine.json(
        *("audit", "compare", "pairs.npz", "--control", "others.npz", "--copies", "copies.npy"), *targets, "--redact"
    )
    assert (found["sequences"], found["control_sequences"]) == (10, 6)
    numbers = {row["side"]: row["of"] for row in found["measures"] if row["measure"] == "greedy"}
    assert numbers == {
        "text": 10,
        "control": 6,
        "copies: 1": 1,
        "copies: 2–3": 2,
        "copies: 4–7": 4,
        "copies: 8–15": 3,
    }
    assert "words, sha256" in str(found["passages"])


def test_bad_input_is_refused_in_one_sentence(machine: Machine) -> None:
    for arguments, code, sentence in (
        (("--round", "demo", "--target", "demo"), 2, "only demo is named, and a comparison needs two targets."),
        ((), 2, "no pairs are named"),
        (("--run", "none"), 2, "unknown run 'none'"),
        (("--round", "demo", "--run", "latest"), 2, "--run compares stored audits. Remove --round."),
        (("--round", "demo", "--target", "demo", "--target", "demo-tiny", "--queries", "0"), 2, "--queries: "),
    ):
        done = machine.run("audit", "compare", *arguments, code=code)
        assert sentence in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert machine.folders() == []
