"""The attack in the README runs."""

import re

import pytest

from tests.functional.machine import ROOT, Machine


@pytest.mark.slow
def test_the_attack_in_the_readme_runs_on_the_demo(machine: Machine) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    folder = machine.folder / "attacks"
    folder.mkdir()
    (folder / "blunt.py").write_text(source)
    summary = machine.json("run", "blunt", "--round", "demo", "--set", "drop=5", "--limit", "40")
    assert summary["status"] == "finished"
    assert summary["rows"] == 40
    assert summary["recall_at_cap"] > 0
