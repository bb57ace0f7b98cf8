"""Check the models of the zoo: `python -m tests.zoo [--all] [NAME ...]`."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.zoo.checking import check
from tests.zoo.entries import ZOO


def main() -> int:
    """Check the named models, or those that run in CI, and print one line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description="Check small models of many kinds.")
    parser.add_argument("--all", action="store_true", help="check every model, not only those that run in CI")
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to check")
    arguments = parser.parse_args()
    names = arguments.names or [name for name, entry in ZOO.items() if arguments.all or entry.is_fast]
    failures = 0
    for name in names:
        start, problem = time.monotonic(), ""
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(ZOO[name], Path(folder) / "model")
            except Exception as error:
                failures += 1
                problem = f"{type(error).__name__}: {error}".splitlines()[0]
        print(f"{'FAILED' if problem else 'ok':7}{name}  {time.monotonic() - start:.1f} s  {problem}", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
