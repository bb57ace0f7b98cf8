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
from pathlib import Path
from typing import Any

from tests.functional.machine import ROOT, Machine, homes, write_round
from tests.soak import acknowledgements, machine_faults
from tests.soak.files import checked_files
from tests.soak.runner import Runner, Workload

ATTACKS = Path(__file__).parent / "attacks"
RECORDER = ("--set", f"recorder={Path(acknowledgements.__file__)}")
_RUNNERS = 5
_POLL_SECONDS, _PROGRESS_SECONDS = 0.2, 15.0


class Soak:
    """All parts of a soak test. Runners work in threads; the first violation cancels the others."""

    def __init__(self, place: Path, options: argparse.Namespace) -> None:
        self._place = place
        self._options = options
        self._runners: list[Runner] = []
        self._violations: list[str] = []
        self._figures: dict[str, Any] = {}
        self._start = time.monotonic()

    def run(self) -> tuple[dict[str, Any], list[str]]:
        """Run everything. Return the counts and the violations."""
        options = self._options
        share, rest = divmod(options.kills, _RUNNERS)
        for number in range(_RUNNERS):
            # Every third runner uses the weakest sandbox backend.
            machine = self._machine(f"runner-{number}", {"HARNESS_SANDBOX": "none"} if number % 3 == 2 else {})
            self._add_runner(machine, self._steady(machine, max_delay=1.2), share + (number < rest))
        demo = self._machine("demo")
        demo_options = ("--round", "demo", "--limit", "256", "--threads", "1")
        command = ("steady_greedy", "--attacks", str(ATTACKS), *demo_options, *RECORDER)
        self._add_runner(demo, Workload(command, max_delay=6.0), options.target_kills)
        threads = [self._thread(runner.run) for runner in self._runners]
        progress_due = 0.0
        while any(thread.is_alive() for thread in threads):
            time.sleep(_POLL_SECONDS)
            if time.monotonic() >= progress_due:
                progress_due = time.monotonic() + _PROGRESS_SECONDS
                self._print_progress()
        # One after the other, because each of these affects the whole machine.
        for name, measure in (
            ("full_disk", self._full_disk),
            ("clock_set_back", lambda: self._fault("clock", machine_faults.clock_set_back)),
            ("suspension", lambda: self._fault("suspension", machine_faults.suspension)),
            ("files", lambda: checked_files(options.files, seed=options.seed, place=self._place / "files")),
        ):
            if not self._violations:
                _print(f"{name.replace('_', ' ')} …")
                self._thread(lambda name=name, measure=measure: self._figures.update({name: measure()})).join()
        return self._counts() | self._figures, self._violations

    def _machine(self, name: str, environment: dict[str, str] | None = None) -> Machine:
        folder = self._place / name
        folder.mkdir(parents=True, exist_ok=True)
        write_round(folder, budget="600s")
        return Machine(folder, environment or {}, in_process=False)

    def _steady(self, machine: Machine, *, max_delay: float = 0.0) -> Workload:
        command = ("steady", "--attacks", str(ATTACKS), "--round", str(machine.folder / "round.toml"), *RECORDER)
        return Workload(command, ("--set", "pause=0.2"), ("--set", "pause=0"), max_delay)

    def _add_runner(self, machine: Machine, workload: Workload, kills: int) -> None:
        seed = f"{self._options.seed}/{len(self._runners)}"
        runner = Runner(machine, workload, kills=kills, seed=seed, is_cancelled=lambda: bool(self._violations))
        self._runners.append(runner)

    def _thread(self, function: Callable[[], object]) -> threading.Thread:
        """Start a thread that records the exception of `function`."""

        def guarded() -> None:
            try:
                function()
            except Exception:
                self._violations.append(traceback.format_exc())

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    def _fault(self, name: str, fault: Callable[[Machine, Workload], dict[str, Any]]) -> dict[str, Any]:
        machine = self._machine(name)
        try:
            return fault(machine, self._steady(machine))
        except PermissionError as error:
            return {"skipped": str(error)}

    def _full_disk(self) -> dict[str, Any]:
        try:
            with machine_faults.small_disk(self._place / "disk" / "state"):
                return self._fault("disk", machine_faults.full_disk)
        except subprocess.CalledProcessError as error:
            return {"skipped": f"cannot mount a small disk: {error.stderr.decode().strip()}"}

    def _print_progress(self) -> None:
        wanted = self._options.kills + self._options.target_kills
        victims = sum((runner.counts.kills for runner in self._runners), Counter[str]())
        kills = victims.total()
        elapsed = time.monotonic() - self._start
        left = f"{elapsed / kills * (wanted - kills):.0f} s left" if kills else "…"
        _print(f"{kills} of {wanted} kills in {elapsed:.0f} s, {left}: {dict(victims)}")

    def _counts(self) -> dict[str, Any]:
        counts = [runner.counts for runner in self._runners]
        *steady, target = counts
        margins = [margin for one in counts for margin in one.margins]
        return {
            "kills": sum((one.kills for one in steady), Counter[str]()),
            "kills_on_the_demo_target": target.kills,
            "statuses_after_a_kill": sum((one.statuses for one in counts), Counter[str]()),
            "resumes": sum(one.resumes for one in counts),
            "runs_finished_identical": sum(one.finished for one in counts),
            "acknowledged_guesses_checked": sum(one.acknowledged for one in counts),
            "clients_killed_after_first_paint": sum(one.clients_painted for one in counts),
            "charged_beyond_lifetime_s": [round(min(margins), 3), round(max(margins), 3)] if margins else [],
        }


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
    counts, violations = Soak(place, options).run()
    counts["seconds"] = round(time.monotonic() - start)
    if options.json:
        print(json.dumps(counts))
    else:
        for name, value in counts.items():
            print(f"{name.replace('_', ' '):32} {dict(value) if isinstance(value, Counter) else value}")
    if violations:
        _print(f"{len(violations)} violations; the runs are in {place}. The first:\n{violations[0]}")
        sys.exit(1)
    if options.keep is None:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
