"""`make soak`: kill runs, fill their disk, suspend them, set the clock back, and read mutated submissions.

    python -m tests.soak [--kills N] [--target-kills N] [--files N] [--seed S] [--keep DIR] [--json]

By default 500 kills and 10,000 files. Prints counts to stdout and progress to stderr. If an invariant is violated, the
exit code is 1, the first violation is printed, and the directory with the run is kept.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

from tests.functional.machine import ROOT, Machine, homes, write_round
from tests.soak import acknowledgements, machine_faults
from tests.soak.files import checked_files
from tests.soak.runner import Runner, Workload

ATTACKS = Path(__file__).parent / "attacks"
RECORDER = ("--set", f"recorder={Path(acknowledgements.__file__)}")
_RUNNERS = 5
_PROGRESS_SECONDS = 15.0


class Soak:
    """All parts of a soak test. Runners work in threads; the first violation cancels the others."""

    def __init__(self, place: Path, options: argparse.Namespace) -> None:
        self._place = place
        self._options = options
        self._figures: dict[str, Any] = {}
        self._is_cancelled = threading.Event()
        self._runners = [self._steady_runner(number) for number in range(_RUNNERS)]
        command = ("steady_greedy", "--attacks", str(ATTACKS), "--round", "demo", "--limit", "256", "--threads", "1")
        demo = Workload((*command, *RECORDER), max_delay=6.0)
        self._runners.append(self._runner(self._machine("demo"), demo, options.target_kills))

    def run(self) -> None:
        """Run everything. Raises the exception of the first part that fails."""
        self._run_runners()
        # One after the other, because each of these affects the whole machine.
        for name, measure in {
            "full_disk": self._full_disk,
            "clock_set_back": partial(self._fault, "clock", machine_faults.clock_set_back),
            "suspension": partial(self._fault, "suspension", machine_faults.suspension),
            "files": lambda: checked_files(self._options.files, seed=self._options.seed, place=self._place / "files"),
        }.items():
            _print(f"{name.replace('_', ' ')} …")
            self._figures[name] = measure()

    def _run_runners(self) -> None:
        start, failed = time.monotonic(), []
        with ThreadPoolExecutor(len(self._runners)) as pool:
            running = {pool.submit(runner.run) for runner in self._runners}
            while running:
                ended, running = wait(running, _PROGRESS_SECONDS, FIRST_EXCEPTION)
                self._print_progress(time.monotonic() - start)
                failed += [future for future in ended if future.exception()]
                if failed:
                    self._is_cancelled.set()
        if failed:
            failed[0].result()

    def _machine(self, name: str, environment: dict[str, str] | None = None) -> Machine:
        folder = self._place / name
        folder.mkdir(parents=True, exist_ok=True)
        write_round(folder, budget="600s")
        return Machine(folder, environment or {}, in_process=False)

    def _steady_runner(self, number: int) -> Runner:
        # Every third runner uses the weakest sandbox backend.
        machine = self._machine(f"runner-{number}", {"HARNESS_SANDBOX": "none"} if number % 3 == 2 else {})
        share, rest = divmod(self._options.kills, _RUNNERS)
        return self._runner(machine, steady(machine, max_delay=1.2), share + (number < rest), number)

    def _runner(self, machine: Machine, workload: Workload, kills: int, number: int = _RUNNERS) -> Runner:
        seed = f"{self._options.seed}/{number}"
        return Runner(machine, workload, kills=kills, seed=seed, is_cancelled=self._is_cancelled.is_set)

    def _fault(self, name: str, fault: Callable[[Machine, Workload], dict[str, Any]]) -> dict[str, Any]:
        machine = self._machine(name)
        try:
            return fault(machine, steady(machine))
        except PermissionError as error:
            return {"skipped": str(error)}

    def _full_disk(self) -> dict[str, Any]:
        try:
            with machine_faults.small_disk(self._place / "disk" / "state"):
                return self._fault("disk", machine_faults.full_disk)
        except subprocess.CalledProcessError as error:
            return {"skipped": f"cannot mount a small disk: {error.stderr.decode().strip()}"}

    def _print_progress(self, elapsed: float) -> None:
        wanted = self._options.kills + self._options.target_kills
        victims = sum((runner.counts.kills for runner in self._runners), Counter[str]())
        kills = victims.total()
        left = f"{elapsed / kills * (wanted - kills):.0f} s left" if kills else "…"
        _print(f"{kills} of {wanted} kills in {elapsed:.0f} s, {left}: {dict(victims)}")

    def counts(self) -> dict[str, Any]:
        """Return the counts of the parts that have run."""
        counts = [runner.counts for runner in self._runners]
        *without_target, target = counts
        margins = [margin for one in counts for margin in one.margins]
        return {
            "kills": sum((one.kills for one in without_target), Counter[str]()),
            "kills_on_the_demo_target": target.kills,
            "statuses_after_a_kill": sum((one.statuses for one in counts), Counter[str]()),
            "resumes": sum(one.resumes for one in counts),
            "runs_finished_identical": sum(one.finished for one in counts),
            "acknowledged_guesses_checked": sum(one.acknowledged for one in counts),
            "clients_killed_after_first_paint": sum(one.clients_painted for one in counts),
            "charged_beyond_lifetime_s": [round(min(margins), 3), round(max(margins), 3)] if margins else [],
            **self._figures,
        }


def steady(machine: Machine, *, max_delay: float = 0.0) -> Workload:
    """Return runs with deterministic draws in many short batches and two stages on the round of a machine."""
    command = ("draws", *machine.plugin(), "--set", "trials=15", *RECORDER)
    return Workload(command, ("--set", "pause=0.2"), ("--set", "pause=0"), max_delay)


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Run the soak test, and print its counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=480, help="number of kills without a target (default 480)")
    parser.add_argument("--target-kills", type=int, default=20, help="number of kills on the demo target (default 20)")
    parser.add_argument("--files", type=int, default=10_000, help="number of mutated submissions (default 10,000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of kills and mutations (default 0)")
    parser.add_argument("--keep", type=Path, help="use this directory and keep its content")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args()
    place = options.keep or Path(tempfile.mkdtemp(prefix="harness-soak-"))
    place.mkdir(parents=True, exist_ok=True)
    os.environ |= {"PYTHONPATH": str(ROOT), **homes(place / "nowhere")}
    start = time.monotonic()
    soak, violation = Soak(place, options), ""
    try:
        soak.run()
    except Exception:
        violation = traceback.format_exc()
    counts = soak.counts() | {"seconds": round(time.monotonic() - start)}
    if options.json:
        print(json.dumps(counts))
    else:
        for name, value in counts.items():
            print(f"{name.replace('_', ' '):32} {dict(value) if isinstance(value, Counter) else value}")
    if violation:
        _print(f"An invariant is violated; the runs are in {place}.\n{violation}")
        sys.exit(1)
    if options.keep is None:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
