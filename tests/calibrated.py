"""Calibrations and budget machines for tests."""

import json
from pathlib import Path

from harness.core.calibration import WORKLOAD, BudgetMachine, Calibration


def calibration(device: str = "a GPU", *, official: float = 10.0, threads: int | None = None) -> Calibration:
    """Return the calibration of a device that completes `official` suffixes per second."""
    return Calibration(
        device=device,
        threads=threads,
        workload=WORKLOAD,
        measured_at=1.7e9,
        turns=3,
        official_per_s=official,
        official_lowest=official * 0.9,
        official_highest=official * 1.1,
        engine_per_s=official * 3,
        engine_lowest=official * 2,
        engine_highest=official * 4,
        versions={},
    )


def machine(official: float, name: str = "reference") -> BudgetMachine:
    """Return a measured budget machine of this rate."""
    return BudgetMachine(name=name, official_per_s=official, is_measured=True, source="a test.")


def write_machine(path: Path, *, official: float) -> None:
    """Write what `harness bench --calibrate --json` prints."""
    printed = {"schema_version": 1, **calibration(official=official).model_dump(), "file": "x", "relative_to": {}}
    path.write_text(json.dumps(printed))
