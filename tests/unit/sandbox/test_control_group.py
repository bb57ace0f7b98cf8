"""The limits of a control group, with directories in place of the kernel's."""

from pathlib import Path

import pytest

from harness.sandbox import control_group
from harness.sandbox.control_group import ControlGroup


@pytest.mark.parametrize(
    ("delegated", "version_by_controller", "values"),
    [
        ("cpu memory pids", {"memory": 2, "pids": 2}, {"memory.max": "4096", "memory.swap.max": "0", "pids.max": "7"}),
        ("pids", {"memory": 1, "pids": 2}, {"memory.limit_in_bytes": "4096", "memory.memsw.limit_in_bytes": "4096"}),
        ("", {"memory": 1, "pids": 1}, {"pids.max": "7"}),
    ],
)
def test_version_2_limits_what_it_delegates_and_version_1_the_rest(
    delegated: str,
    version_by_controller: dict[str, int],
    values: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parents = {name: [tmp_path / f"mount-{name}"] for name in ("", "memory", "pids")}
    for (parent,) in parents.values():
        parent.mkdir()
        (parent / "cgroup.procs").touch()
    (tmp_path / "mount-" / "cgroup.subtree_control").write_text(f"{delegated}\n")
    monkeypatch.setattr(control_group, "own_groups", lambda: parents)
    # In a cgroup file system, a file of a controller that is not delegated cannot be created.
    written = control_group._write
    monkeypatch.setattr(
        control_group,
        "_write",
        lambda file, value: (
            (file.parents[1].name != "mount-" or file.name.partition(".")[0] in delegated) and written(file, value)
        ),
    )
    group = ControlGroup(memory=4096, processes=7)
    assert group.version_by_controller == version_by_controller
    found = {file.name: file.read_text() for file in tmp_path.glob("*/harness-*/*")}
    assert found.items() >= values.items()
    for directory in tmp_path.glob("*/harness-*"):
        (directory / "memory.events").write_text("oom 3\noom_kill 2\n")
        (directory / "memory.oom_control").write_text("under_oom 0\noom_kill 2\n")
    assert group.memory_kills() == 2


def test_a_machine_without_control_groups_has_no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_group, "own_groups", dict)
    group = ControlGroup(memory=4096, processes=7)
    assert group.version_by_controller == {}
    assert group.enter_command(["true"]) == ["true"]
    assert (group.memory_kills(), group.kill()) == (None, True)
