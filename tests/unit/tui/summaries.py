"""Summaries of runs without a record."""

from typing import Any

from harness.runs.status import Status
from harness.runs.summary import RunSummary


def summary_of(id_: str, **fields: Any) -> RunSummary:
    """Return the summary of a finished run with typical values, except for `fields`."""
    values: dict[str, Any] = {
        "kind": "attack",
        "status": Status.FINISHED,
        "reason": "",
        "attack": "baseline",
        "is_control": False,
        "round": "demo",
        "target": "demo",
        "is_blind": False,
        "is_partial": False,
        "error_cap": 100,
        "recall_at_cap": 0.5,
        "exact_at_1": 0.5,
        "any_guess_correct": 0.6,
        "figures": {},
        "guesses": 64,
        "rows": 64,
        "elapsed_s": 12.0,
        "budget_s": 60.0,
        "progress": 1.0,
        "created_at": 1_700_000_000.0,
        "directory": f"/runs/{id_}",
        "submission": None,
        "device": "cpu",
        "sandbox": None,
        "in_force": None,
        "network": "none",
        "note": "",
        "tags": (),
        "parent": None,
        "changed": {},
    }
    values |= fields
    return RunSummary(id=id_, **values)
