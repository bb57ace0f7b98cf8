"""Attacks that try to break out, once for each means: what is refused, how that is named, and what goes on working."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core import paths
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.sandbox import SandboxedProcess, SandboxPolicy
from harness.sandbox.environment import plain_environment
from tests.functional.machine import PLUGINS, ROOT, Machine, last_event, processes_that_name, wait_until

LOOKING = (
    *("read_by_path", "read_by_link", "read_by_hard_link", "read_through_parent", "read_parents_environment"),
    *("read_through_descriptors", "read_through_pid_1", "read_package", "read_shadow"),
)
REACHING = ("tcp", "udp", "unix", "unix_datagram", "dns", "raw")
CHANGING = ("write_outside", "write_source", "write_sysctl", "clock", "mount", "namespaces")
TOUCHING = ("kill_victim", "kill_everybody", "ptrace", "process_vm_readv")
GAINING = ("other_architecture", "setuid", "capabilities")
LIMITED = ("big_file", "many_files")
REFUSED_BY_NAME = {"network", "tracing", "clock", "namespaces"}


class Scene:
    """What stands outside: a victim, a listener for TCP and UDP, a Unix socket, and a folder of the user's."""

    def __init__(self, folder: Path) -> None:
        self.victim = subprocess.Popen(["sleep", "600"], env={"SECRET": "of the supervisor's"})
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.folder = folder / "outside"
        self.folder.mkdir()
        self.door = folder / "door"
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(self.door))
        self.unix.listen()

    def close(self) -> None:
        self.victim.kill()
        self.victim.wait()
        self.tcp.close()
        self.unix.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.close()


def _tried(machine: Machine, scene: Scene, *deeds: str, code: int = 0) -> tuple[dict[str, Any], dict[str, str]]:
    """The run's summary, and how each deed ended, by its name."""
    params = {
        "deeds": json.dumps(deeds),
        "answers": str(machine.folder / "answer-64.npy"),
        "victim": str(scene.victim.pid),
        "port": str(scene.tcp.getsockname()[1]),
        "door": str(scene.door),
        "outside": json.dumps([str(scene.folder), str(machine.runs), str(paths.PACKAGE)]),
    }
    settings = [part for name, value in params.items() for part in ("--set", f"{name}={value}")]
    summary = machine.attack("trespassing", *settings, code=code)
    lines = RunFolder(Path(summary["directory"])).log.read_text().splitlines()
    return summary, dict(line.partition(": ")[::2] for line in lines if line.partition(": ")[0] in deeds)


def test_what_an_attack_reaches_for_is_refused_and_named(sandboxed_machine: Machine, scene: Scene) -> None:
    deeds = (*LOOKING, *REACHING, *CHANGING, *TOUCHING, *GAINING, *LIMITED)
    source = (paths.PACKAGE / "__init__.py").read_bytes()
    summary, ended = _tried(sandboxed_machine, scene, *deeds)
    done = {name for name, how in ended.items() if not how.startswith("refused")}
    assert (set(ended), done) == (set(deeds), set())
    assert scene.victim.poll() is None
    assert (paths.PACKAGE / "__init__.py").read_bytes() == source
    assert not any(
        Path(folder, "trespassed").exists() for folder in (scene.folder, "/tmp", "/usr", "/etc", "/dev", "/")
    )
    assert set(summary["refused"]) >= REFUSED_BY_NAME
    assert summary["status"] == "finished" and summary["network"] == "none"
    shown = sandboxed_machine.run("show", summary["id"]).stdout
    assert "refused       a network socket (" in shown and "a change of the clock (once)" in shown


def test_the_deeds_would_succeed_without_a_sandbox(bare_machine: Machine, scene: Scene) -> None:
    deeds = ("read_by_path", "read_by_link", "read_parents_environment", "read_package", "tcp", "udp", "unix")
    _, ended = _tried(bare_machine, scene, *deeds, "unix_datagram", "write_outside", "kill_victim", *LIMITED)
    refused = {name for name, how in ended.items() if how.startswith("refused")}
    # Limits hold under every means; the socket takes no datagrams.
    assert refused == {*LIMITED, "unix_datagram"}
    assert scene.victim.wait(5) != 0


def test_the_record_keeps_what_was_in_force_and_show_tells_it(confined_machine: Machine, scene: Scene) -> None:
    summary, _ = _tried(confined_machine, scene)
    means = confined_machine.environment["HARNESS_SANDBOX"]
    event = last_event(RunFolder(Path(summary["directory"])), "worker")
    assert event is not None and event["in_force"] == summary["in_force"]
    assert summary["sandbox"] == summary["in_force"]["means"] == means
    applied = summary["in_force"]["applied"]
    assert ("seccomp with a listener" in applied) is (means != "none")
    assert any(word.startswith("landlock ") for word in applied) is (means == "landlock")
    assert "4.0 GiB a file (RLIMIT_FSIZE)" in confined_machine.run("show", summary["id"]).stdout


@pytest.mark.slow
def test_an_attack_that_fails_at_what_it_was_refused_is_crashed_with_both_words(
    sandboxed_machine: Machine, scene: Scene
) -> None:
    summary, _ = _tried(sandboxed_machine, scene, "tcp", "no_such_deed", code=1)
    assert summary["status"] == "crashed"
    assert summary["reason"].endswith(". The sandbox refused it a network socket (once).")


@pytest.mark.slow
def test_refusals_without_end_do_not_hold_up_the_supervisor(sandboxed_machine: Machine, scene: Scene) -> None:
    summary, _ = _tried(sandboxed_machine, scene, "sockets_without_end")
    assert summary["refused"] == {"network": 3000}
    with_refusals = [name for name in _events(summary) if name == "refused"]
    assert len(with_refusals) <= 2


def test_a_fork_bomb_ends_with_its_run(confined_machine: Machine, scene: Scene) -> None:
    summary, ended = _tried(confined_machine, scene, "fork_bomb")
    if summary["in_force"]["processes"] is None:
        pytest.skip("no means of this machine's limits processes for this user.")
    assert ended["fork_bomb"].startswith("refused") and summary["status"] == "finished"
    assert summary["refused"]["processes"] >= 1
    wait_until(lambda: not processes_that_name(str(Path(summary["directory"]) / "scratch")))


def test_a_process_that_detaches_itself_does_not_outlive_its_run(confined_machine: Machine, scene: Scene) -> None:
    summary, _ = _tried(confined_machine, scene, "detach")
    assert summary["status"] == "finished"
    left = [process for process in processes_that_name(str(scene.door)) if "time.sleep(600)" in str(process.cmdline())]
    assert left == []


def _events(summary: dict[str, Any]) -> list[str]:
    with RunReader(RunFolder(Path(summary["directory"])).store) as reader:
        return [name for _, _, name, _ in reader.events()]


def _confined(
    argv: list[str], scratch: Path, environment: dict[str, str] | None = None, **allowed: Any
) -> SandboxedProcess:
    confinement = SandboxPolicy(writable=(scratch,), **allowed)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    environment = plain_environment(scratch) | (environment or {})
    return SandboxedProcess(argv, confinement, cwd=scratch, environment=environment, **streams)


def _output(confined: SandboxedProcess) -> str:
    try:
        return confined.popen.communicate(timeout=60)[0].decode()
    finally:
        confined.close()


def test_memory_beyond_the_limit_ends_the_process_and_is_told(sandboxed: str, tmp_path: Path) -> None:
    confined = _confined([sys.executable, "-c", "b'1' * (1 << 28)"], tmp_path, memory=1 << 26)
    if confined.in_force().memory is None:
        pytest.skip("this user may write to no control group.")
    confined.popen.wait(30)
    assert confined.struck_memory_limit() == 1 << 26
    assert confined.exit_signal_or_code()[0] == 9
    confined.close()


def test_with_network_a_confined_process_reaches_the_internet_and_still_no_unix_socket(
    sandboxed: str, tmp_path: Path, scene: Scene
) -> None:
    script = """
import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=2)
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[2])
except PermissionError:
    print("reached the one, not the other")
"""
    argv = [sys.executable, "-c", script, str(scene.tcp.getsockname()[1]), str(scene.door)]
    assert "reached the one, not the other" in _output(_confined(argv, scene.folder, network=True))


def test_shared_memory_is_there_and_limited(sandboxed: str, tmp_path: Path) -> None:
    script = """
import multiprocessing, os
multiprocessing.Lock()
try:
    with open("/dev/shm/full", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 2 << 30)
except OSError as error:
    print(error.strerror)
"""
    assert "No space left on device" in _output(_confined([sys.executable, "-c", script], tmp_path))


def _run_inside(machine: Machine, means: str, name: str, *settings: str) -> tuple[str, str]:
    """What `harness run` prints inside a sandbox, with a sandbox of its own by `means`, and what its worker printed."""
    scratch = machine.folder / "inner"
    scratch.mkdir()
    places = {f"HARNESS_{place}": str(scratch / place.lower()) for place in ("HOME", "CACHE", "DATA")}
    environment = places | {"HARNESS_SANDBOX": means, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "harness", "run", name, *machine.plugin(), *settings, "--json"]
    files = tuple(machine.folder.glob("*.npy"))
    out = _output(_confined(command, scratch, environment, readable=(PLUGINS, machine.folder / "round.toml", *files)))
    assert '"status": "finished"' in out and f'"sandbox": "{means}"' in out, out
    (log,) = (scratch / "home" / "runs").glob("*/worker.log")
    return out, log.read_text()


@pytest.mark.slow
def test_a_run_without_a_sandbox_of_its_own_goes_through_inside_one(sandboxed: str, machine: Machine) -> None:
    _run_inside(machine, "none", "draws", "--set", "pause=0")


@pytest.mark.slow
def test_landlock_holds_where_no_namespace_is_to_be_had(sandboxed: str, machine: Machine) -> None:
    deeds = ("read_by_path", "read_parents_environment", "tcp", "unix", "write_outside", "kill_victim", "ptrace")
    answers = f"answers={machine.folder / 'answer-64.npy'}"
    settings = ("--set", f"deeds={json.dumps(deeds)}", "--set", answers, "--set", "victim=1")
    out, log = _run_inside(machine, "landlock", "trespassing", *settings)
    # The outer filter refuses namespaces and listens already.
    assert '"applied": ["landlock ' in out and '"seccomp"]' in out
    assert [line for line in log.splitlines() if ": refused" not in line] == []
    assert log.count(": refused") == len(deeds)


def test_a_model_in_the_hubs_cache_is_readable_and_its_neighbours_are_not(
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
    out = _output(_confined(["sh", "-c", script], scratch, linked=(snapshots[0],)))
    assert "weights of models--a" in out
    assert "weights of models--b" not in out and "another revision" not in out


def test_the_deepest_place_decides_what_can_be_read(sandboxed: str, tmp_path: Path) -> None:
    shown, scratch = tmp_path / "shown", tmp_path / "scratch"
    for folder in (shown / "hidden" / "shown again", shown / "beside", scratch):
        folder.mkdir(parents=True)
    for place in (shown, shown / "hidden", shown / "hidden" / "shown again", shown / "beside", tmp_path):
        (place / "file").write_text(f"<{place.name}>")
    (shown / "secret.npy").write_text("<secret>")
    script = 'find "$1" -type f -print0 2>/dev/null | xargs -0 cat; cat "$1/secret.npy" "$1/hidden/file" "$1/../file"'
    readable, hidden = (shown, shown / "hidden" / "shown again"), (shown / "hidden", shown / "secret.npy")
    argv = ["sh", "-c", script, "sh", str(shown)]
    out = _output(_confined(argv, scratch, readable=readable, hidden=hidden))
    assert "<shown>" in out and "<beside>" in out
    assert "<hidden>" not in out and "<secret>" not in out and f"<{tmp_path.name}>" not in out
    again = ["cat", str(shown / "hidden" / "shown again" / "file")]
    assert _output(_confined(again, scratch, readable=readable, hidden=hidden)) == "<shown again>"


def test_an_attack_that_asks_for_a_network_is_refused_before_it_starts(machine: Machine) -> None:
    folder = machine.folder / "asking"
    folder.mkdir()
    source = (PLUGINS / "hoarding.py").read_text()
    (folder / "hoarding.py").write_text(source.replace("uses_target", 'network = "endpoint"\n    uses_target', 1))
    options = ("--attacks", str(folder), "--round", str(machine.folder / "round.toml"))
    refused = machine.run("run", "hoarding", *options, code=1)
    assert "declares network = 'endpoint'; an attack runs without one" in refused.stderr


@pytest.mark.slow
def test_the_demo_target_answers_the_same_under_each_means(bubblewrap: None, machine: Machine) -> None:
    submissions = {}
    for means in ("bwrap", "landlock", "none"):
        confined = Machine(machine.folder, {"HARNESS_SANDBOX": means})
        options = ("--round", "demo", "--limit", "16", "--set", "trials=1", "--device", "cpu")
        summary = confined.json("run", "baseline", *options)
        assert summary["status"] == "finished" and summary["sandbox"] == means
        assert summary["refused"] == {}
        submissions[means] = Path(summary["submission"]).read_bytes()
    assert submissions["bwrap"] == submissions["landlock"] == submissions["none"]


def test_doctor_tries_each_promise_and_says_what_keeps_it(confined_machine: Machine) -> None:
    report = confined_machine.json("doctor")
    means = confined_machine.environment["HARNESS_SANDBOX"]
    promises = {name.strip(): said["value"] for name, said in report.items() if name.startswith("  ")}
    assert len(promises) == 15
    not_given = {name for name, value in promises.items() if value == "not given here"}
    if means == "none":
        assert {"answers unreadable", "writes only to scratch", "no network"} <= not_given
        assert promises["nothing left running"] == "by the reaper"
    elif os.getuid() == 0:
        assert not not_given - {"memory limited", "processes limited"}
    assert promises["size of a file limited"] == "by RLIMIT_FSIZE"


def test_an_unknown_means_is_refused_in_a_sentence(machine: Machine) -> None:
    odd = Machine(machine.folder, {"HARNESS_SANDBOX": "chroot"})
    options = ("--attacks", str(PLUGINS), "--round", str(machine.folder / "round.toml"))
    refused = odd.run("run", "draws", *options, code=1)
    assert "HARNESS_SANDBOX='chroot': the means are bwrap, landlock and none." in refused.stderr
