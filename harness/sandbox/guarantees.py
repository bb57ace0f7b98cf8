"""What the sandbox promises, each promise tried: a process inside attempts the deed, and whether it could is seen."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import psutil

from harness.core import paths
from harness.core.files import is_larger_than
from harness.core.paths import runs_home
from harness.sandbox import probe
from harness.sandbox.backends import SandboxBackend
from harness.sandbox.environment import looks_secret, plain_environment
from harness.sandbox.in_force import InForce
from harness.sandbox.policy import SandboxPolicy
from harness.sandbox.process import SandboxedProcess
from harness.sandbox.view import model_cache

_AT_ONCE = 4
_PROBE_SECONDS = 10.0
_FILES_A_PLACE = 5
_MIB = 1 << 20
_MEMORY, _PROCESSES, _FILE = 64 * _MIB, 24, _MIB
_SANDBOX = "install bubblewrap and allow user namespaces, or use a kernel with landlock."
_GROUPS = "needs control groups that this user may write to, version 2 or 1."


@dataclass(frozen=True)
class Guarantee:
    """One promise. means: what keeps it here; None where nothing does, and then `advice` says what would."""

    name: str
    means: str | None
    advice: str


@dataclass(frozen=True)
class _Scene:
    """What stands outside the sandbox for a probe to reach for: a folder with secrets, a listener, a victim."""

    folder: Path
    port: int
    socket: Path
    victim: "subprocess.Popen[bytes]"


@dataclass(frozen=True)
class _Trial:
    """A promise, the deed that would break it, and what keeps it under what is in force.

    is_broken: looks from outside whether the deed was done, where the probe's own word is not enough.
    """

    name: str
    deed: Callable[..., bool]
    arguments: Callable[[_Scene], list[str]]
    kept_by: Callable[[InForce], str]
    advice: str = _SANDBOX
    is_broken: Callable[[_Scene, Path], bool] | None = None


def tried_guarantees() -> list[Guarantee]:
    """Try every guarantee with the backend of this machine. Raises HarnessError as `detect_backend` does."""
    with _scene() as scene, ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda trial: _tried(trial, scene), _TRIALS))


def _tried(trial: _Trial, scene: _Scene) -> Guarantee:
    with tempfile.TemporaryDirectory(prefix="harness-probe-", ignore_cleanup_errors=True) as made:
        scratch = Path(made)
        confined = SandboxedProcess(
            [sys.executable, "-I", "-S", probe.__file__, trial.deed.__name__, *trial.arguments(scene)],
            SandboxPolicy(writable=(scratch,), memory=_MEMORY, processes=_PROCESSES, file_bytes=_FILE),
            cwd=scratch,
            environment=plain_environment(scratch),
        )
        try:
            in_force = confined.in_force()
            with contextlib.suppress(subprocess.TimeoutExpired):
                confined.popen.wait(_PROBE_SECONDS)
            is_done = confined.popen.poll() == 0
            # It may have been killed for what it did: then it was done.
            confined.kill()
        finally:
            confined.close()
        is_broken = is_done if trial.is_broken is None else trial.is_broken(scene, scratch)
    return Guarantee(trial.name, None if is_broken else trial.kept_by(in_force), trial.advice)


@contextlib.contextmanager
def _scene() -> Iterator[_Scene]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-outside-")))
        (folder / "answers.npy").write_bytes(b"answers")
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        unix = folder / "socket"
        for address in (str(unix), f"\0{unix}"):
            door = stack.enter_context(socket.socket(socket.AF_UNIX))
            door.bind(address)
            door.listen()
        victim = subprocess.Popen(["sleep", "60"], env={"SECRET": "secret", "PATH": os.environ.get("PATH", "")})
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        yield _Scene(folder, listener.getsockname()[1], unix, victim)


def _by_view(in_force: InForce) -> str:
    return "bubblewrap" if in_force.means == SandboxBackend.BWRAP else _landlock(in_force)


def _landlock(in_force: InForce) -> str:
    return next((word for word in in_force.applied if word.startswith("landlock")), "")


def _by_namespace(kind: str, otherwise: Callable[[InForce], str]) -> Callable[[InForce], str]:
    def kept_by(in_force: InForce) -> str:
        if in_force.means == SandboxBackend.BWRAP:
            return f"bubblewrap ({kind} namespace)"
        return f"a {kind} namespace" if kind in in_force.applied else otherwise(in_force)

    return kept_by


def _by_seccomp_and(kept_by: Callable[[InForce], str]) -> Callable[[InForce], str]:
    return lambda in_force: f"seccomp, {kept_by(in_force)}"


def _by_lack_of_rights(otherwise: str) -> Callable[[InForce], str]:
    return lambda in_force: "this user's own lack of rights" if in_force.means == SandboxBackend.NONE else otherwise


def _private_files(scene: _Scene) -> list[str]:
    """Some files of this very user's, as far as there are any, and one that lies in no place of the system's."""
    places = [Path.home(), Path.home() / ".ssh", paths.data_home(), paths.cache_home(), model_cache()]
    files = [scene.folder / "answers.npy"]
    for folder in (*places, *islice(runs_home().glob("*"), _FILES_A_PLACE)):
        with contextlib.suppress(OSError):
            files += islice((file for file in folder.iterdir() if file.is_file()), _FILES_A_PLACE)
    return [str(file) for file in files]


def _foreign_places(scene: _Scene) -> list[str]:
    source = paths.PACKAGE / "__init__.py"
    return [
        str(place) for place in (scene.folder, source, tempfile.gettempdir(), "/dev", "/proc/sys/kernel/core_pattern")
    ]


def _answers(scene: _Scene) -> list[str]:
    shipped = [str(file) for file in paths.SHIPPED_ROUNDS.rglob("*.npy")]
    return [*shipped, str(scene.folder / "answers.npy")]


def _mark(scene: _Scene) -> str:
    return f"orphan-of-{scene.folder.name}"


_TRIALS = (
    _Trial("answers unreadable", probe.reads, _answers, _by_view),
    _Trial("home, data, runs, other models unreadable", probe.reads, _private_files, _by_view),
    _Trial(
        "writes only to scratch",
        probe.writes,
        _foreign_places,
        _by_view,
    ),
    _Trial(
        "no network",
        probe.reaches,
        lambda scene: [str(scene.port), str(scene.socket)],
        _by_seccomp_and(_by_namespace("net", _landlock)),
    ),
    _Trial(
        "no secrets in its environment",
        probe.knows,
        lambda _: ["HF_TOKEN", "SSH_AUTH_SOCK", *filter(looks_secret, os.environ)],
        lambda _: "an allow-list",
    ),
    _Trial(
        "no signal to other processes",
        probe.signals,
        lambda scene: [str(scene.victim.pid)],
        _by_namespace("pid", _landlock),
        is_broken=lambda scene, _: scene.victim.poll() is not None,
    ),
    _Trial(
        "no look into other processes",
        probe.looks_into,
        lambda _: [str(os.getpid())],
        _by_seccomp_and(_by_namespace("pid", _landlock)),
    ),
    _Trial("clock not set", probe.sets_the_clock, lambda _: [], _by_lack_of_rights("seccomp, no capabilities")),
    _Trial("no rights to gain", probe.has_rights, lambda _: [], _by_lack_of_rights("no_new_privs, no capabilities")),
    _Trial(
        "memory limited",
        probe.holds,
        lambda _: [str(4 * _MEMORY)],
        lambda in_force: in_force.memory.by if in_force.memory else "",
        _GROUPS,
    ),
    _Trial(
        "processes limited",
        probe.forks,
        lambda _: [str(2 * _PROCESSES)],
        lambda in_force: in_force.processes.by if in_force.processes else "",
        _GROUPS,
    ),
    _Trial("size of a file limited", probe.grows, lambda _: [str(_FILE)], lambda _: "RLIMIT_FSIZE"),
    _Trial("open files limited", probe.opens, lambda _: ["5000"], lambda _: "RLIMIT_NOFILE"),
    _Trial(
        "size of scratch limited",
        probe.fills,
        lambda _: [str(_MIB)],
        lambda _: "polling, every 2 s",
        is_broken=lambda _, scratch: not is_larger_than(scratch, _MIB // 2),
    ),
    _Trial(
        "nothing left running",
        probe.leaves_a_process,
        lambda scene: [_mark(scene)],
        _by_namespace("pid", lambda _: "the reaper"),
        is_broken=lambda scene, _: _is_running(_mark(scene)),
    ),
)


def _is_running(mark: str) -> bool:
    return any(mark in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
