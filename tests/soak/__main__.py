"""`make soak`: runs killed, starved of disk, put to sleep and set back in time, and submissions that are mangled.

    python -m tests.soak [--kills N] [--target-kills N] [--files N] [--seed S] [--keep DIR] [--json]

500 kills and 10,000 files by default. Counts on stdout, progress on stderr. The exit code is 1 when a law is broken:
the first breach is told, and the folder with the run that broke it stays.
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
from tests.soak import acknowledgements, calamities
from tests.soak.files import checked_files
from tests.soak.lane import Lane, Work

_ATTACKS = Path(__file__).parent / "attacks"
_WITNESS = ("--set", f"witness={Path(acknowledgements.__file__)}")
_LANES = 5
_LOOK_SECONDS, _PROGRESS_SECONDS = 0.2, 15.0
_MARGIN_DIGITS = 3


class Soak:
    """All of it, in threads that each have a machine; the first that finds a law broken calls the others off."""

    def __init__(self, place: Path, options: argparse.Namespace) -> None:
        self._place = place
        self._options = options
        self._lanes: list[Lane] = []
        self._faults: list[str] = []
        self._figures: dict[str, Any] = {}
        self._began = time.monotonic()

    def go(self) -> tuple[dict[str, Any], list[str]]:
        """The counts, and what was found broken."""
        options = self._options
        share, rest = divmod(options.kills, _LANES)
        for number in range(_LANES):
            # Every third lane confines its workers with the weakest means.
            machine = self._machine(f"lane-{number}", {"HARNESS_SANDBOX": "none"} if number % 3 == 2 else {})
            self._add_lane(machine, self._steady(machine, "0.2", reach=1.2), share + (number < rest))
        demo = self._machine("demo")
        command = (
            "steady_greedy",
            "--attacks",
            str(_ATTACKS),
            "--round",
            "demo",
            "--limit",
            "256",
            "--threads",
            "1",
            *_WITNESS,
        )
        self._add_lane(demo, Work(command, reach=6.0), options.target_kills)
        threads = [self._thread(lane.go) for lane in self._lanes]
        progress_due = 0.0
        while any(thread.is_alive() for thread in threads):
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() >= progress_due:
                progress_due = time.monotonic() + _PROGRESS_SECONDS
                self._say_progress()
        # One after the other: each of these concerns the whole machine.
        for name, calamity in (
            ("full_disk", self._full_disk),
            ("wall_clock_set_back", lambda: self._befallen("clock", calamities.wall_clock_set_back)),
            ("suspended", lambda: self._befallen("sleep", calamities.suspended)),
            ("files", lambda: checked_files(options.files, seed=options.seed, place=self._place / "files")),
        ):
            if not self._faults:
                _say(f"{name.replace('_', ' ')} …")
                self._thread(lambda name=name, calamity=calamity: self._figures.update({name: calamity()})).join()
        return self._counts() | self._figures, self._faults

    def _machine(self, name: str, environment: dict[str, str] | None = None) -> Machine:
        folder = self._place / name
        folder.mkdir(parents=True, exist_ok=True)
        write_round(folder, budget="600s")
        return Machine(folder, environment or {}, in_process=False)

    def _steady(self, machine: Machine, pause: str, *, reach: float = 0.0) -> Work:
        command = ("steady", "--attacks", str(_ATTACKS), "--round", str(machine.folder / "round.toml"), *_WITNESS)
        return Work(command, ("--set", f"pause={pause}"), ("--set", "pause=0"), reach)

    def _add_lane(self, machine: Machine, work: Work, kills: int) -> None:
        seed = f"{self._options.seed}/{len(self._lanes)}"
        self._lanes.append(Lane(machine, work, kills=kills, seed=seed, is_called_off=lambda: bool(self._faults)))

    def _thread(self, work: Callable[[], object]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except Exception:
                self._faults.append(traceback.format_exc())

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    def _befallen(self, name: str, calamity: Callable[[Machine, Work], dict[str, Any]]) -> dict[str, Any]:
        machine = self._machine(name)
        try:
            return calamity(machine, self._steady(machine, "0.2"))
        except PermissionError as error:
            return {"not_done": str(error)}

    def _full_disk(self) -> dict[str, Any]:
        try:
            with calamities.small_disk(self._place / "disk" / "state"):
                return self._befallen("disk", calamities.full_disk)
        except subprocess.CalledProcessError as error:
            return {"not_done": f"no small disk can be mounted: {error.stderr.decode().strip()}"}

    def _say_progress(self) -> None:
        wanted = self._options.kills + self._options.target_kills
        kills = sum(lane.tally.kills.total() for lane in self._lanes)
        passed = time.monotonic() - self._began
        left = f"{passed / kills * (wanted - kills):.0f} s left" if kills else "…"
        victims = sum((lane.tally.kills for lane in self._lanes), Counter[str]())
        _say(f"{kills} of {wanted} kills in {passed:.0f} s, {left}: {dict(victims)}")

    def _counts(self) -> dict[str, Any]:
        tallies = [lane.tally for lane in self._lanes]
        steady, target = tallies[:_LANES], tallies[_LANES]
        margins = [margin for tally in tallies for margin in tally.margins]
        return {
            "kills": sum((tally.kills for tally in steady), Counter[str]()),
            "kills_on_the_demo_target": target.kills,
            "ends_seen": sum((tally.ends for tally in tallies), Counter[str]()),
            "resumes": sum(tally.resumes for tally in tallies),
            "runs_finished_identical": sum(tally.finished for tally in tallies),
            "acknowledged_guesses_checked": sum(tally.acknowledged for tally in tallies),
            "clients_that_had_shown_the_run": sum(tally.clients_painted for tally in tallies),
            "charged_beyond_life_s": [round(pick(margins), _MARGIN_DIGITS) for pick in (min, max)] if margins else [],
        }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Soak, and say what held."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=480, help="on an attack without a target (480)")
    parser.add_argument("--target-kills", type=int, default=20, help="on the demo target (20)")
    parser.add_argument("--files", type=int, default=10_000, help="mutated submissions (10,000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="work here, and keep everything")
    parser.add_argument("--json", action="store_true", help="one line of JSON on stdout")
    options = parser.parse_args()
    place = options.keep or Path(tempfile.mkdtemp(prefix="harness-soak-"))
    place.mkdir(parents=True, exist_ok=True)
    os.environ |= {"PYTHONPATH": str(ROOT), **homes(place / "nowhere")}
    began = time.monotonic()
    counts, faults = Soak(place, options).go()
    counts["seconds"] = round(time.monotonic() - began)
    if options.json:
        print(json.dumps(counts))
    else:
        for name, value in counts.items():
            print(f"{name.replace('_', ' '):32} {dict(value) if isinstance(value, Counter) else value}")
    if faults:
        _say(f"{len(faults)} broken; {place} keeps what there is to see. The first:\n{faults[0]}")
        sys.exit(1)
    if options.keep is None:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
