"""A user's machine in one directory: home directories, a small round, and the test plugins."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from harness.core.examples import load_prefixes
from harness.core.rounds import load_round
from harness.core.submission import write_submission
from harness.core.submission_reader import SubmissionRules, read_submission
from harness.runs.folder import RunFolder, run_folder
from harness.runs.reader import RunReader
from harness.runs.specs import AttackSpec
from harness.runs.store import RunStore
from harness.runs.summary import run_summary
from harness.sandbox.backends import BACKENDS
from tests.functional.command import run_command
from tests.reference.printed import require_section

ROOT = Path(__file__).parents[2]
PLUGINS = Path(__file__).parent / "plugins"
VOCABULARY = 50257
EXAMPLES = 64
SHARED_CACHE = "HARNESS_TEST_CACHE"
"""The variable that names the cache of parameter schemas and file hashes that all machines of a session share."""
SANDBOXES = tuple(backend.name for backend in BACKENDS if backend.is_sandbox)
"""The names of the backends that isolate a process, the strongest first."""
OVER = ("finished", "out_of_time", "stopped", "crashed", "lost")


@dataclass(frozen=True)
class Machine:
    """Runs commands as a user types them, in one directory with its own environment."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    in_process: bool = True
    """True if `run` runs commands in this process. Set it to False if several threads run commands."""

    def __post_init__(self) -> None:
        (self.folder / "state").mkdir(parents=True, exist_ok=True)

    @property
    def runs(self) -> Path:
        return self.folder / "state" / "runs"

    def env(self) -> dict[str, str]:
        return {**os.environ, **homes(self.folder), "PYTHONPATH": str(ROOT), "COLUMNS": "200", **self.environment}

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        """Start a command and capture its output, unless `options` say otherwise."""
        defaults: dict[str, Any] = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            # A shell starts background jobs, such as these tests, with SIGINT ignored, and children inherit that.
            "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        }
        command = [sys.executable, "-m", "harness", *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=self.env(), **(defaults | options))

    def run(self, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        """Run a command in this process. It must exit with `code`. Runs that it starts are real processes."""
        if not self.in_process:
            return self.run_process(*arguments, code=code)
        done = run_command(arguments, folder=self.folder, environment=self.env())
        return _checked(done, code)

    def run_process(self, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        """Run a command in its own process, as a shell does. It must exit with `code`."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return _checked(subprocess.CompletedProcess(process.args, process.returncode, out, err), code)

    def json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Return the object that a command prints as its only line."""
        (line,) = self.run(*arguments, "--json", code=code).stdout.splitlines()
        value: dict[str, Any] = json.loads(line)
        require_section(value)
        return value

    def attack(self, name: str, *arguments: str, code: int = 0, round_: str = "round.toml") -> dict[str, Any]:
        """Run a plugin on a round of this directory. Return the summary."""
        return self.json("run", name, *self.plugin(round_), *arguments, code=code)

    def detached(self, name: str, *arguments: str, round_: str = "round.toml") -> RunFolder:
        """Start a plugin on a round of this directory. Return the run, which can be observed."""
        summary = self.json("run", name, *self.plugin(round_), "--detach", *arguments)
        return RunFolder(Path(summary["directory"]))

    def executed(self, name: str, *options: str, round_: str = "round.toml") -> RunFolder:
        """Return a finished run, executed in this process without supervisor and sandbox."""
        from tests.contract.execution import execute, new_run

        planned = self.json("run", name, *self.plugin(round_), *options, "--dry-run")
        spec = AttackSpec.model_validate(planned["spec"])
        directory = PLUGINS if (PLUGINS / spec.attack.file).exists() else ROOT / "attacks"
        folder = new_run(self.runs / spec.id, spec, directory / spec.attack.file)
        execute(folder)
        with contextlib.closing(RunStore(folder.store, spec.stored_tables)) as store, store.transaction():
            store.add_ledger("end", 1.0)
            store.add_event("phase", phase="finished")
        return folder

    def replayed(self, name: str, solved: range, *options: str) -> RunFolder:
        """Return a finished run of the attack replay with the options of `replaying`."""
        summary = self.attack("replay", *self.replaying(name, solved), *options)
        assert summary["status"] == "finished"
        return RunFolder(Path(summary["directory"]))

    def replaying(self, name: str, solved: range) -> tuple[str, str]:
        """Return options of the attack replay that submit the answers of `solved`, then a wrong row for each other."""
        answers = np.load(self.folder / f"answer-{EXAMPLES}.npy")
        others = np.setdiff1d(np.arange(EXAMPLES), solved)
        suffixes = np.concatenate([answers[solved], np.zeros((len(others), answers.shape[1]), np.uint16)])
        source = self.folder / f"{name}.csv"
        write_submission(source, np.array([*solved, *others]), suffixes)
        return "--set", f"source={source}"

    def json_list(self, *arguments: str) -> list[dict[str, Any]]:
        """Return the list in the object that a command prints."""
        (value,) = (value for value in self.json(*arguments).values() if isinstance(value, list))
        listed: list[dict[str, Any]] = value
        return listed

    def folders(self) -> list[RunFolder]:
        """Return all runs of this machine."""
        return [RunFolder(path) for path in self.runs.glob("*-*") if (path / "spec.json").is_file()]

    def summary(self, folder: RunFolder) -> dict[str, Any]:
        """Return what `show --json` prints for a run, without starting a process."""
        return run_summary(folder).as_json()

    def newest(self) -> dict[str, Any]:
        """Return the summary of the newest run."""
        return self.summary(run_folder("latest"))

    def plugin(self, round_: str = "round.toml") -> tuple[str, ...]:
        """Return the options that name the test plugins and a round of this directory."""
        return ("--attacks", str(PLUGINS), "--round", str(self.folder / round_))


def _checked(done: "subprocess.CompletedProcess[str]", code: int) -> "subprocess.CompletedProcess[str]":
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done


def is_valid(submission: Path, round_file: Path) -> bool:
    """Return True if `score` accepts the submission under the rules of the round."""
    round_ = load_round(str(round_file))
    rules = SubmissionRules(
        len(load_prefixes(round_)),
        suffix_length=round_.suffix_length,
        vocabulary=round_.vocabulary,
        row_cap=round_.row_cap,
    )
    read_submission(submission, rules)
    return True


def homes(folder: Path) -> dict[str, str]:
    """Return the harness's directories inside `folder`, except for the cache that all tests of a session share."""
    names = {"HARNESS_HOME": "state", "HARNESS_CACHE": "cache", "HARNESS_DATA": "data"}
    places = {name: str(folder / place) for name, place in names.items()}
    shared = os.environ.get(SHARED_CACHE)
    return places if shared is None else places | {"HARNESS_CACHE": shared}


def write_round(
    folder: Path,
    name: str = "round.toml",
    *,
    examples: int = EXAMPLES,
    length: int = 8,
    budget: str = "60s",
    rows: int = 100_000,
) -> None:
    """Write a round whose answers and training rows are random tokens."""
    rng = np.random.default_rng(7)
    arrays = {
        part: rng.integers(256, VOCABULARY, (examples, length), dtype=np.uint16)
        for part in ("prefix", "answer", "train_prefix", "train_suffix")
    }
    for part, array in arrays.items():
        np.save(folder / f"{part}-{examples}.npy", array)
    lines = [
        'name = "small"',
        'title = "A small round"',
        f'prefix_file = "prefix-{examples}.npy"',
        f'answer_file = "answer-{examples}.npy"',
        f'train_prefix_file = "train_prefix-{examples}.npy"',
        f'train_suffix_file = "train_suffix-{examples}.npy"',
        'clusters = "none"',
        f"prefix_length = {length}",
        f"suffix_length = {length}",
        f"row_cap = {rows}",
        f'budget = "{budget}"',
        'target = "none"',
    ]
    (folder / name).write_text("\n".join(lines) + "\n")


def write_tiny_demo(folder: Path) -> Path:
    """Write a round with the demo's examples and its smallest target, and return its file."""
    path = folder / "tiny.toml"
    path.write_text('base = "demo"\nname = "tiny"\ntarget = "demo-tiny"\n')
    return path


def leak_examples(folder: Path, rows: int) -> None:
    """Copy the first `rows` examples of the round in `folder` into its training rows."""
    for part, trained in (("prefix", "train_prefix"), ("answer", "train_suffix")):
        known = folder / f"{trained}-{EXAMPLES}.npy"
        np.save(known, np.concatenate([np.load(folder / f"{part}-{EXAMPLES}.npy")[:rows], np.load(known)[rows:]]))


def fill_disk(folder: Path) -> Path:
    """Fill the disk of `folder` with one file, and return it."""
    rest = folder / "rest"
    with contextlib.suppress(OSError), rest.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return rest


def processes_that_name(text: str) -> list[psutil.Process]:
    """Return the living processes with `text` in their arguments, without this one."""
    processes, name = [], os.fsencode(text)
    # psutil reads more files of each process, and every test ends with this search.
    for folder in Path("/proc").glob("[0-9]*"):
        # A process that ends in between has no files, and a zombie has no arguments.
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if int(folder.name) != os.getpid() and name in (folder / "cmdline").read_bytes():
                processes.append(psutil.Process(int(folder.name)))
    return processes


def kill_processes_that_name(text: str) -> None:
    """Kill all processes with `text` in their arguments."""
    for process in processes_that_name(text):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def pauses(seconds: float) -> Iterator[float]:
    """Yield how long to sleep before a condition is tried again, until `seconds` have passed."""
    end, pause = time.monotonic() + seconds, 0.01
    while time.monotonic() < end:
        yield pause
        # Conditions read stores and processes, which takes time from what the test waits for.
        pause = min(2 * pause, 0.05)


def wait_until(condition: Callable[[], Any], *, seconds: float = 120.0) -> Any:
    """Wait for the first true value of `condition`, and return it. The timeout allows for a busy machine."""
    for pause in pauses(seconds):
        if value := condition():
            return value
        time.sleep(pause)
    raise AssertionError(f"the condition was not met within {seconds:g} s")


def last_event(folder: RunFolder, name: str) -> dict[str, Any] | None:
    """Return the last event with this name in the record of the run."""
    with RunReader(folder.store) as reader:
        return reader.last_event(name)


def guess_count(folder: RunFolder) -> int:
    """Return the number of committed guesses."""
    with RunReader(folder.store) as reader:
        return reader.row_count("guess")


def spent_time(folder: RunFolder) -> float:
    """Return the seconds of its budget that the run has spent."""
    with RunReader(folder.store) as reader:
        entry = reader.last_ledger()
    return 0.0 if entry is None else entry.spent


def kill_supervisor(folder: RunFolder) -> None:
    """Kill the supervisor of the run, and wait until it is gone."""
    record = last_event(folder, "supervisor")
    assert record is not None
    kill_and_wait(int(record["pid"]))
    # The kernel releases the lock when the last thread is gone.
    wait_until(lambda: not folder.is_alive)


def kill_worker(folder: RunFolder, worker: int = 0) -> bool:
    """Kill the process of a worker, which runs the code of the attack. Return False if there is none."""
    for process in reversed(processes_that_name(str(folder.scratch_of(worker) / "inputs"))):
        with contextlib.suppress(psutil.Error):
            # The sandbox and the reaper have the same arguments after their own.
            if "harness.worker" in process.cmdline()[:5]:
                process.kill()
                return True
    return False


def kill_and_wait(pid: int) -> None:
    """Kill a process, and wait until it is gone or a zombie."""
    try:
        process = psutil.Process(pid)
        process.kill()
        wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        pass


def readable_bytes(file: Path) -> bytes:
    """Return the content of a file; of a Parquet file, which is compressed, the texts of its cells."""
    if file.suffix != ".parquet":
        return file.read_bytes()
    import pyarrow.parquet  # only few tests need it

    table = pyarrow.parquet.read_table(file)
    return "\n".join(str(cell) for column in table.columns for cell in column.to_pylist()).encode()
