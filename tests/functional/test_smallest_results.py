"""The answers "No clear change" and "No evidence" of real audits say which result would have changed them."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.demo import CONTROL_TEXT, SIZES
from tests.functional.machine import Machine
from tests.tools.demo_texts import TOKENIZER

TINY = ("--target", "demo-tiny", "--threads", "1")


def _measure(found: dict[str, Any], **fields: str) -> dict[str, Any]:
    (row,) = (row for row in found["measures"] if fields.items() <= row.items())
    return dict(row)


def _write_similar_target(folder: Path) -> None:
    """Write a copy of the smallest demo target with weights that differ by 0.2 % of their spread."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(SIZES[-1].weights, folder)
    generator = torch.Generator().manual_seed(1)
    weights = load_file(folder / "model.safetensors")
    for weight in (weight for weight in weights.values() if weight.dim() == 2):
        weight += 0.002 * weight.std() * torch.randn(weight.shape, generator=generator)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.slow
def test_a_comparison_without_a_clear_change_names_the_changes_that_would_be_clear(machine: Machine) -> None:
    _write_similar_target(machine.folder / "similar")
    targets = (*TINY, "--target", "similar")
    found = machine.json("audit", "compare", "--round", "demo", "--limit", "30", *targets)
    conclusion = found["conclusion"]
    assert conclusion["answer"] == "No clear change"
    strength = {"case": "extraction strength", "side": "text", "model": "similar"}
    change = _measure(found, measure="change", **strength)
    before = _measure(found, measure="extraction_strength", side="text", model="demo-tiny")["value"]
    # A change is clear if its interval, as wide as this one, excludes 0.
    possible = np.linspace(-before, 1 - before, 100_001)
    of_low, of_high = possible + change["high"] - change["value"], possible + change["low"] - change["value"]
    (clause,) = re.findall(r"at this spread, a change ([^;]*) would have been clear", conclusion["evidence"])
    bounds = {word: float(bound) for word, bound in re.findall(r"(below|above) ([-+.0-9]+)", clause)}
    expected = {"below": possible[of_low < 0][-1:], "above": possible[of_high > 0][:1]}
    assert bounds == {word: pytest.approx(bound[0], abs=0.0006) for word, bound in expected.items() if len(bound)}
    assert bounds


@pytest.mark.slow
def test_a_comparison_of_too_few_sequences_says_that_no_change_could_be_clear(machine: Machine) -> None:
    _write_similar_target(machine.folder / "similar")
    targets = (*TINY, "--target", "similar")
    conclusion = machine.json("audit", "compare", "--round", "demo", "--limit", "5", *targets)["conclusion"]
    assert conclusion["answer"] == "Too few sequences"
    assert "with fewer than 10 clusters, no change could have been clear" in conclusion["evidence"]


@pytest.mark.slow
@pytest.mark.parametrize("texts", [6, 40])
def test_members_that_cannot_be_told_apart_come_with_the_area_that_would_be_evidence(
    machine: Machine, texts: int
) -> None:
    arrays = np.load(CONTROL_TEXT)
    rows = np.concatenate([arrays["prefixes"], arrays["suffixes"]], axis=1)
    # Both sides are of one kind, and neither is in the training data.
    for side, chosen in (("members", rows[:texts]), ("others", rows[texts : 2 * texts])):
        lines = (json.dumps({"text": TOKENIZER.decode(row.tolist())}) for row in chosen)
        (machine.folder / f"{side}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    found = machine.json("audit", "membership", "members.jsonl", "--non-members", "others.jsonl", *TINY)
    conclusion = found["conclusion"]
    assert conclusion["answer"] == "No evidence", conclusion
    areas = [row for row in found["measures"] if row["measure"] == "auc" and row["side"] == "target"]
    best = max(areas, key=lambda row: row["value"])
    # An area is evidence if its interval, as wide as this one, lies above one half.
    possible = np.linspace(0, 1, 100_001)[:-1]
    is_evidence = possible + best["low"] - best["value"] > 0.5
    if is_evidence.any():
        (bound,) = re.findall(r"at this spread AUC above ([.0-9]+) would have changed this", conclusion["evidence"])
        assert float(bound) == pytest.approx(possible[is_evidence].min(), abs=0.0006)
    else:
        assert "at this spread no AUC could have changed this" in conclusion["evidence"]
