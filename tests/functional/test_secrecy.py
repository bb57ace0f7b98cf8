"""No attack gets the answers: they are not in its inputs, and the sandbox hides the files that contain them."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.core import paths
from harness.runs.folder import RunFolder
from tests.functional.machine import PLUGINS, Machine, write_round

pytestmark = pytest.mark.usefixtures("real_processes")

PATTERN = bytes(np.random.default_rng(99).integers(0, 256, 16, dtype=np.uint8))


@pytest.fixture
def listener() -> Iterator[int]:
    """A TCP port with a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _hide_pattern(folder: Path) -> None:
    """Write the pattern into every ninth answer, the first one included."""
    file = folder / "answer-64.npy"
    answers = np.load(file)
    answers[::9] = np.frombuffer(PATTERN, "<u2") % 50257
    np.save(file, answers)


def _pattern_on_disk(folder: Path) -> bytes:
    return np.load(folder / "answer-64.npy")[0].astype("<u2").tobytes()


def _searched(machine: Machine, *paths_to_try: Path) -> tuple[str, RunFolder]:
    """Run the attack that searches for the pattern. Return its log and its run."""
    inverted = bytes(byte ^ 255 for byte in _pattern_on_disk(machine.folder)).hex()
    listed = str([str(path) for path in paths_to_try]).replace("'", '"')
    summary = machine.attack("searching", "--set", f"complement={inverted}", "--set", f"paths={listed}")
    assert summary["status"] == "finished", summary
    folder = RunFolder(Path(summary["directory"]))
    return folder.log.read_text(), folder


def test_the_search_finds_an_answer_in_the_training_rows(unsandboxed_machine: Machine) -> None:
    _hide_pattern(unsandboxed_machine.folder)
    pattern = _pattern_on_disk(unsandboxed_machine.folder)
    shown = Machine(unsandboxed_machine.folder, unsandboxed_machine.environment | {"OMP_LEAK": "none"})
    answers = np.load(unsandboxed_machine.folder / "answer-64.npy")
    training = np.load(unsandboxed_machine.folder / "train_suffix-64.npy")
    training[0] = answers[0]
    np.save(unsandboxed_machine.folder / "train_suffix-64.npy", training)
    assert pattern in training.tobytes()
    log, _ = _searched(shown)
    assert "FOUND in" in log and "training.npz" in log


def test_the_inputs_of_an_attack_do_not_contain_the_answers(unsandboxed_machine: Machine) -> None:
    _hide_pattern(unsandboxed_machine.folder)
    assert _pattern_on_disk(unsandboxed_machine.folder) in (unsandboxed_machine.folder / "answer-64.npy").read_bytes()
    log, _ = _searched(unsandboxed_machine)
    assert "searched 16 bytes" in log
    assert "FOUND" not in log
    (descriptors,) = [line for line in log.splitlines() if line.startswith("descriptors")]
    opened = [part.partition("=")[2] for part in descriptors.split()[1:]]
    kinds = {link.partition(":")[0] for link in opened}
    assert kinds <= {"pipe", "/dev/null"} | {link for link in opened if link.startswith("/proc/")}
    (environment,) = [line for line in log.splitlines() if line.startswith("environment")]
    assert "HARNESS" not in environment


def test_the_sandbox_hides_the_files_with_answers(sandboxed_machine: Machine, listener: int) -> None:
    machine = sandboxed_machine
    # No variable of this test reaches the worker, so the port is written into the source.
    source = machine.folder / "plugins"
    source.mkdir()
    plugin = (PLUGINS / "searching.py").read_text()
    (source / "searching.py").write_text(plugin.replace('"TEST_PORT", "9"', f'"TEST_PORT", "{listener}"'))
    _hide_pattern(machine.folder)
    data = machine.folder / "data"
    data.mkdir()
    (data / "copy.npy").write_bytes(b"data")
    other = machine.attack("draws", "--set", "pause=0")
    inverted = bytes(byte ^ 255 for byte in _pattern_on_disk(machine.folder)).hex()
    hidden = [
        machine.folder / "answer-64.npy",
        machine.folder / "prefix-64.npy",
        machine.folder / "train_suffix-64.npy",
        Path(other["directory"]),
        Path(other["directory"]) / "run.db",
        data,
        data / "copy.npy",
        paths.BUILT_IN_ROUNDS / "demo" / "suffix.npy",
        Path("/run/user"),
        Path("/run/systemd"),
        Path("/etc/shadow"),
        Path("/etc/ssh"),
        Path(f"/proc/{os.getpid()}/environ"),
    ]
    listed = str([str(path) for path in hidden]).replace("'", '"')
    summary = machine.json(
        "run",
        "searching",
        *("--attacks", str(source), "--round", str(machine.folder / "round.toml")),
        *("--set", f"complement={inverted}", "--set", f"paths={listed}"),
    )
    assert summary["status"] == "finished" and summary["sandbox"] == machine.environment["HARNESS_SANDBOX"]
    log = RunFolder(Path(summary["directory"])).log.read_text()
    assert [line for line in log.splitlines() if line.startswith("READ")] == []
    assert log.count("hidden ") == len(hidden)
    assert "socket refused" in log and "FOUND" not in log


def test_root_cannot_unmount_what_the_sandbox_hides(sandboxed_machine: Machine) -> None:
    machine = sandboxed_machine
    data = machine.folder / "data"
    data.mkdir()
    (data / "answers.npy").write_bytes(b"answers")
    hidden = str([str(data), str(machine.runs), str(paths.BUILT_IN_ROUNDS / "demo" / "suffix.npy")]).replace("'", '"')
    summary = machine.attack("unmounting", "--set", f"paths={hidden}")
    log = RunFolder(Path(summary["directory"])).log.read_text()
    assert "capabilities 0\n" in log
    assert log.count("refused") == 4 and "UNMOUNTED" not in log
    assert f"hidden {data}" in log and "suffix.npy" in log
    assert "SEEN" not in log.replace(f"SEEN {machine.runs}", "")


def test_the_answers_of_a_fold_are_refused_as_a_path_parameter(machine: Machine) -> None:
    answers = paths.BUILT_IN_ROUNDS / "demo" / "train_suffix.npy"
    options = ("--attacks", str(PLUGINS), "--round", "demo:fold0of5")
    refused = machine.run("run", "draws", *options, "--set", f"file={answers}", code=1)
    assert "contains the round's answers. An attack may not read it." in refused.stderr


def test_show_warns_about_a_run_without_a_sandbox(unsandboxed_machine: Machine) -> None:
    summary = unsandboxed_machine.attack("draws", "--set", "pause=0")
    assert summary["sandbox"] == "none"
    assert "no sandbox: an attack could read the answers by path" in unsandboxed_machine.run("show", "latest").stdout


def test_a_path_parameter_with_answers_is_refused(machine: Machine) -> None:
    write_round(machine.folder)
    copies = machine.folder / "copies"
    copies.mkdir()
    (copies / "innocent.bin").write_bytes((machine.folder / "answer-64.npy").read_bytes())
    for path in (machine.folder / "answer-64.npy", copies):
        refused = machine.run("run", "draws", *machine.plugin(), "--set", f"file={path}", code=1)
        assert "contains the round's answers. An attack may not read it." in refused.stderr
    link = machine.folder / "link"
    link.symlink_to(machine.folder / "answer-64.npy")
    assert (
        "contains the round's answers"
        in machine.run("run", "draws", *machine.plugin(), "--set", f"file={link}", code=1).stderr
    )


def test_a_path_parameter_can_be_read_inside_the_sandbox(machine: Machine) -> None:
    extra = machine.folder / "data"
    extra.mkdir()
    (extra / "notes.txt").write_text("x")
    assert machine.attack("draws", "--set", f"file={extra}", "--set", "pause=0")["status"] == "finished"
