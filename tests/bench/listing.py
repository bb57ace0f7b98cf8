"""How long `harness runs` takes to list 1,000 finished runs: `python -m tests.bench.listing`."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 1_000
TURNS = 5
BAR_SECONDS = 1.0


def main() -> None:
    """Make a home of 1,000 copies of one finished run, and print the median time of the command, start included."""
    with tempfile.TemporaryDirectory(prefix="harness-listing-") as folder:
        home = Path(folder)
        places = {"HARNESS_HOME": "state", "HARNESS_CACHE": "cache", "HARNESS_DATA": "data", "HARNESS_CONFIG": "config"}
        environment = os.environ | {name: str(home / place) for name, place in places.items()}
        command = [sys.executable, "-m", "harness"]
        options = ["run", "lookup", "--round", "demo", "--limit", "16", "--quiet"]
        subprocess.run([*command, *options], env=environment, check=True, capture_output=True)
        (run,) = (home / "state" / "runs").iterdir()
        spec = json.loads((run / "spec.json").read_text())
        for number in range(RUNS - 1):
            copy = run.with_name(f"{number:04d}-lookup-demo")
            shutil.copytree(run, copy)
            (copy / "spec.json").write_text(json.dumps(spec | {"id": copy.name}))
        for words in (["runs"], ["runs", "--limit", "20"], ["runs", "--attack", "greedy"], ["runs", "--json"]):
            seconds = sorted(_seconds([*command, *words], environment) for _ in range(TURNS))[TURNS // 2]
            bar = f" (bar: {BAR_SECONDS:g} s)" if words == ["runs"] else ""
            print(f"harness {' '.join(words)}, {RUNS:,} finished runs: {seconds:.2f} s{bar}")


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    began = time.monotonic()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.monotonic() - began


if __name__ == "__main__":
    main()
