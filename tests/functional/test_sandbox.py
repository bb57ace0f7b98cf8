"""Attacks that try to break out of the sandbox: refusals, the record, and what is still allowed."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core import paths
from harness.runs.folder import RunFolder
from harness.sandbox import SandboxPolicy, detect_backend
from harness.sandbox.backends import BACKENDS, backend_named, is_available
from tests.functional.machine import PLUGINS, ROOT, Machine, last_event, processes_that_name, wait_until
from tests.functional.sandboxed import output_of, start_sandboxed

pytestmark = pytest.mark.usefixtures("real_processes")

READING = (
    *("read_by_path", "read_by_link", "read_by_hard_link", "read_through_parent", "read_parents_environment"),
    *("read_through_descriptors", "read_through_pid_1", "read_package", "read_shadow"),
)
CONNECTING = ("tcp", "udp", "unix", "unix_datagram", "dns", "raw")
CHANGING = ("write_outside", "write_source", "write_sysctl", "clock", "mount", "namespaces")
OTHER_PROCESSES = ("kill_victim", "kill_all", "ptrace", "process_vm_readv")
PRIVILEGES = ("other_architecture", "setuid", "capabilities", "quota")
LIMITS = ("big_file", "many_files")


class Outside:
    """A process, a TCP listener, a Unix socket and a directory of the user, outside of the sandbox."""

    def __init__(self, folder: Path) -> None:
        self.victim = subprocess.Popen(["sleep", "600"], env={"SECRET": "of the supervisor"})
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.folder = folder / "outside"
        self.folder.mkdir()
        self.socket_path = folder / "socket"
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(self.socket_path))
        self.unix.listen()

    def close(self) -> None:
        self.victim.kill()
        self.victim.wait()
        self.tcp.close()
        self.unix.close()


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    outside = Outside(tmp_path)
    yield outside
    outside.close()


def _attack(machine: Machine, outside: Outside, *actions: str, code: int = 0) -> tuple[dict[str, Any], dict[str, str]]:
    """Run an attack that tries `actions`. Return the summary, and the outcome of each action by its name."""
    params = {
        "actions": json.dumps(actions),
        "answers": str(machine.folder / "answer-64.npy"),
        "victim": str(outside.victim.pid),
        "port": str(outside.tcp.getsockname()[1]),
        "unix_socket": str(outside.socket_path),
        "outside": json.dumps([str(outside.folder), str(machine.runs), str(paths.PACKAGE)]),
    }
    settings = [part for name, value in params.items() for part in ("--set", f"{name}={value}")]
    summary = machine.attack("breakout", *settings, code=code)
    lines = RunFolder(Path(summary["directory"])).log.read_text().splitlines()
    return summary, dict(line.partition(": ")[::2] for line in lines if line.partition(": ")[0] in actions)


def _has_recorded_sandbox(machine: Machine, summary: dict[str, Any]) -> bool:
    """Return True if the record names the backend and its mechanisms."""
    backend = machine.environment["HARNESS_SANDBOX"]
    event = last_event(RunFolder(Path(summary["directory"])), "worker")
    applied = summary["in_force"]["applied"]
    assert event is not None and event["in_force"] == summary["in_force"]
    assert ("seccomp" in applied) is (backend != "none")
    has_rules = backend_named(backend).launcher_setup(SandboxPolicy()).file_rules is not None
    assert any(name.startswith("landlock ") for name in applied) is has_rules
    return summary["sandbox"] == summary["in_force"]["backend"] == backend


def test_every_attempt_to_break_out_is_refused_and_recorded(sandboxed_machine: Machine, outside: Outside) -> None:
    actions = (*READING, *CONNECTING, *CHANGING, *OTHER_PROCESSES, *PRIVILEGES, *LIMITS)
    source = (paths.PACKAGE / "__init__.py").read_bytes()
    summary, outcomes = _attack(sandboxed_machine, outside, *actions)
    succeeded = {name for name, outcome in outcomes.items() if not outcome.startswith("refused")}
    assert (set(outcomes), succeeded) == (set(actions), set())
    assert outside.victim.poll() is None
    assert (paths.PACKAGE / "__init__.py").read_bytes() == source
    folders = (outside.folder, "/tmp", "/usr", "/etc", "/dev", "/")
    assert not any(Path(folder, "breakout").exists() for folder in folders)
    assert summary["status"] == "finished" and summary["network"] == "none"
    assert _has_recorded_sandbox(sandboxed_machine, summary)
    shown = sandboxed_machine.run("show", summary["id"]).stdout
    assert "4.0 GiB per file (RLIMIT_FSIZE)" in shown


def test_the_attempts_succeed_without_a_sandbox(unsandboxed_machine: Machine, outside: Outside) -> None:
    actions = ("read_by_path", "read_by_link", "read_parents_environment", "read_package", "tcp", "udp", "unix")
    summary, outcomes = _attack(
        unsandboxed_machine, outside, *actions, "unix_datagram", "write_outside", "kill_victim", *LIMITS
    )
    refused = {name for name, outcome in outcomes.items() if outcome.startswith("refused")}
    # Limits hold without a sandbox; the socket accepts no datagrams.
    assert refused == {*LIMITS, "unix_datagram"}
    assert outside.victim.wait(60) != 0
    assert _has_recorded_sandbox(unsandboxed_machine, summary)


@pytest.fixture(params=[backend.name for backend in BACKENDS])
def backend(request: pytest.FixtureRequest, use_backend: Callable[[str], object]) -> str:
    """Each backend, for processes that the test itself starts."""
    use_backend(request.param)
    return str(request.param)


def test_a_fork_bomb_is_limited_and_killed(backend: str, tmp_path: Path) -> None:
    mark = f"6{os.getpid()}.{len(backend)}"
    process = start_sandboxed(["sh", "-c", f"while :; do sleep {mark} & done"], tmp_path, processes=32)
    limit = process.wait_until_applied().processes
    if limit is None:
        process.close()
        pytest.skip("nothing on this machine limits the number of processes of this user.")
    process.popen.wait(240)  # the shell gives up when it cannot fork
    process.close()
    wait_until(lambda: not processes_that_name(mark))


def test_memory_beyond_the_limit_kills_the_process(sandboxed: str, tmp_path: Path) -> None:
    process = start_sandboxed([sys.executable, "-c", "b'1' * (1 << 28)"], tmp_path, memory=1 << 26)
    if process.wait_until_applied().memory is None:
        process.close()
        pytest.skip("this user may write to no control group.")
    process.popen.wait(240)
    assert process.oom_limit() == 1 << 26
    assert process.exit_signal_or_code()[0] == 9
    process.close()


def test_a_policy_with_network_allows_tcp_and_no_unix_sockets(sandboxed: str, tmp_path: Path, outside: Outside) -> None:
    script = """
import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[2])
except PermissionError:
    print("reached the one, not the other")
"""
    argv = [sys.executable, "-c", script, str(outside.tcp.getsockname()[1]), str(outside.socket_path)]
    assert "reached the one, not the other" in output_of(start_sandboxed(argv, outside.folder, network=True))


def test_the_kernel_refuses_what_needs_a_capability(sandboxed: str, tmp_path: Path) -> None:
    script = """
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
name = socket.gethostname().encode()
for call, arguments in ((libc.acct, [None]), (libc.swapoff, [b"/"]), (libc.sethostname, [name, len(name)])):
    print(call(*arguments) == -1 and errno.errorcode[ctypes.get_errno()])
"""
    assert output_of(start_sandboxed([sys.executable, "-c", script], tmp_path)).split() == ["EPERM"] * 3


def test_shared_memory_exists_and_is_limited(sandboxed: str, tmp_path: Path) -> None:
    script = """
import multiprocessing, os
multiprocessing.Lock()
try:
    with open("/dev/shm/full", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 2 << 30)
except OSError as error:
    print(error.strerror)
"""
    assert "No space left on device" in output_of(start_sandboxed([sys.executable, "-c", script], tmp_path))


def _run_inside(machine: Machine, backend: str, name: str, *settings: str) -> tuple[str, str]:
    """Run an attack under `backend` inside a sandbox. Return what `harness run` printed, and the worker's log."""
    if not detect_backend().is_sandbox:
        pytest.skip("no sandbox backend works on this machine.")
    scratch = machine.folder / "inner"
    scratch.mkdir()
    homes = {f"HARNESS_{name}": str(scratch / name.lower()) for name in ("HOME", "CACHE", "DATA")}
    environment = homes | {"HARNESS_SANDBOX": backend, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "harness", "run", name, *machine.plugin(), *settings, "--json"]
    files = tuple(machine.folder.glob("*.npy"))
    out = output_of(
        start_sandboxed(
            command, scratch, environment=environment, readable=(PLUGINS, machine.folder / "round.toml", *files)
        )
    )
    assert '"status": "finished"' in out and f'"sandbox": "{backend}"' in out, out
    (log,) = (scratch / "home" / "runs").glob("*/worker.log")
    return out, log.read_text()


@pytest.mark.slow
def test_a_run_without_a_sandbox_works_inside_one(machine: Machine) -> None:
    _run_inside(machine, "none", "draws", "--set", "pause=0")


@pytest.mark.slow
def test_landlock_works_without_namespaces(machine: Machine) -> None:
    actions = ("read_by_path", "read_parents_environment", "tcp", "unix", "write_outside", "kill_victim", "ptrace")
    answers = f"answers={machine.folder / 'answer-64.npy'}"
    settings = ("--set", f"actions={json.dumps(actions)}", "--set", answers, "--set", "victim=1")
    out, log = _run_inside(machine, "landlock", "breakout", *settings)
    # The outer sandbox refuses namespaces.
    assert '"applied": ["landlock ' in out and '"seccomp"]' in out
    assert [line for line in log.splitlines() if ": refused" not in line] == []
    assert log.count(": refused") == len(actions)


def test_a_cached_model_is_readable_and_others_are_not(
    sandboxed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    snapshots = []
    for name in ("models--a", "models--b"):
        (cache / name / "blobs").mkdir(parents=True)
        (cache / name / "blobs" / "hash").write_text(f"weights of {name}")
        (cache / name / "blobs" / "older").write_text("another revision")
        snapshots.append(cache / name / "snapshots" / "commit")
        snapshots[-1].mkdir(parents=True)
        (snapshots[-1] / "model.safetensors").symlink_to("../../blobs/hash")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    files = [*(snapshot / "model.safetensors" for snapshot in snapshots), cache / "models--a" / "blobs" / "older"]
    script = "for f in {}; do cat $f || echo; done".format(" ".join(map(str, files)))
    out = output_of(start_sandboxed(["sh", "-c", script], scratch, readable=(snapshots[0],)))
    assert "weights of models--a" in out
    assert "weights of models--b" not in out and "another revision" not in out


def test_the_deepest_path_decides_and_hidden_paths_stay_hidden(sandboxed: str, tmp_path: Path) -> None:
    shown, scratch = tmp_path / "shown", tmp_path / "scratch"
    for folder in (shown / "hidden" / "shown again", shown / "beside", scratch):
        folder.mkdir(parents=True)
    for path in (shown, shown / "hidden", shown / "hidden" / "shown again", shown / "beside", tmp_path):
        (path / "file").write_text(f"<{path.name}>")
    (shown / "secret.npy").write_text("<secret>")
    script = 'find "$1" -type f -print0 2>/dev/null | xargs -0 cat; cat "$1/secret.npy" "$1/hidden/file" "$1/../file"'
    readable, hidden = (shown, shown / "hidden" / "shown again"), (shown / "hidden", shown / "secret.npy")
    argv = ["sh", "-c", script, "sh", str(shown)]
    out = output_of(start_sandboxed(argv, scratch, readable=readable, hidden=hidden))
    assert "<shown>" in out and "<beside>" in out
    assert "<hidden>" not in out and "<secret>" not in out and f"<{tmp_path.name}>" not in out
    assert "<shown again>" not in out


@pytest.mark.long
def test_the_demo_target_gives_the_same_submission_under_each_backend(machine: Machine) -> None:
    submissions = set()
    for backend in [backend.name for backend in BACKENDS if is_available(backend)]:
        options = ("--round", "demo", "--target", "demo-tiny", "--limit", "4", "--set", "trials=1", "--device", "cpu")
        summary = Machine(machine.folder, {"HARNESS_SANDBOX": backend}).json("run", "baseline", *options)
        assert (summary["status"], summary["sandbox"]) == ("finished", backend)
        submissions.add(Path(summary["submission"]).read_bytes())
    assert len(submissions) == 1


def test_doctor_prints_the_sandbox_in_force(machine_per_backend: Machine) -> None:
    findings = machine_per_backend.json("doctor")["findings"]
    backend = machine_per_backend.environment["HARNESS_SANDBOX"]
    assert findings["sandbox"]["value"].startswith(f"{backend}: ")
    assert ("seccomp" in findings["in force"]["value"]) is (backend != "none")
    assert "4.0 GiB per file (RLIMIT_FSIZE)" in findings["in force"]["value"]


def test_doctor_fails_if_something_needed_is_missing(machine: Machine) -> None:
    refused = Machine(machine.folder, {"HARNESS_SANDBOX": "chroot"}).run("doctor", code=1)
    names = ", ".join(backend.name for backend in BACKENDS)
    assert f"HARNESS_SANDBOX=chroot is not a sandbox backend. Use one of: {names}." in refused.stdout
