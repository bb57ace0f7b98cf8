"""Measure how long `harness runs` takes to list 1,000 finished runs: `python -m tests.bench.listing`."""

import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from tests.bench.inputs import run_harness

RUNS = 1_000
REPEATS = 5
REQUIRED_SECONDS = 1.0


def main() -> None:
    """Copy one finished run 1,000 times, and print the median time of the command, including its start-up."""
    with tempfile.TemporaryDirectory(prefix="harness-listing-") as place:
        folder = Path(place)
        run_harness(folder, "run", "lookup", "--round", "demo", "--limit", "16", "--quiet")
        (run,) = (folder / "state" / "runs").iterdir()
        spec = json.loads((run / "spec.json").read_text())
        for number in range(RUNS - 1):
            copy = run.with_name(f"{number:04d}-lookup-demo")
            shutil.copytree(run, copy)
            (copy / "spec.json").write_text(json.dumps(spec | {"id": copy.name}))
        for words in (["runs"], ["runs", "--limit", "20"], ["runs", "--attack", "greedy"], ["runs", "--json"]):
            seconds = statistics.median(_seconds(folder, words) for _ in range(REPEATS))
            required = f" (required: {REQUIRED_SECONDS:g} s)" if words == ["runs"] else ""
            print(f"harness {' '.join(words)}, {RUNS:,} finished runs: {seconds:.2f} s{required}")


def _seconds(folder: Path, words: list[str]) -> float:
    start = time.monotonic()
    run_harness(folder, *words)
    return time.monotonic() - start


if __name__ == "__main__":
    main()
