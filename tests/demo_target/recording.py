"""Record the guesses of `baseline` on the demo round, which `harness demo` replays where torch is not installed.

python -m tests.demo_target.recording
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from harness.core.extras import require_extra
from harness.core.paths import environment_with_package
from harness.demo import BASELINE_GUESSES


def main() -> None:
    """Run the demo with torch, and replace the file in the package with its submission."""
    require_extra("torch", "a recording")
    with tempfile.TemporaryDirectory(prefix="recording-") as home:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "harness", "demo", "--json"],
            env=environment_with_package() | {"HARNESS_HOME": home},
            cwd=os.sep,
            stdout=subprocess.PIPE,
            check=True,
        )
        shutil.copyfile(json.loads(done.stdout)["submission"], BASELINE_GUESSES)
    print(f"wrote {BASELINE_GUESSES}, {BASELINE_GUESSES.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
