"""Record the guesses of `baseline` on the demo round, which `harness demo` replays where torch is not installed.

python -m tests.demo_target.recording
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.core.paths import environment_with_package
from harness.demo import BASELINE_GUESSES


def recorded_run(home: Path) -> Path:
    """Run the demo with torch in the state directory `home`, and return the directory of its run."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "harness", "demo", "--json"],
        env=environment_with_package() | {"HARNESS_HOME": str(home)},
        cwd=os.sep,
        stdout=subprocess.PIPE,
        check=True,
    )
    return home / "runs" / json.loads(done.stdout)["id"]


def main() -> None:
    """Replace the file in the package with the submission of a new run."""
    with tempfile.TemporaryDirectory(prefix="recording-") as home:
        shutil.copyfile(recorded_run(Path(home)) / "submission.csv", BASELINE_GUESSES)
    print(f"wrote {BASELINE_GUESSES}, {BASELINE_GUESSES.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
