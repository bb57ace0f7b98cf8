"""The entry point of `harness`: the first code that runs."""

import sys

from harness.cli.interrupts import keep_interrupts


def main() -> None:
    """Run the command line. An interrupt counts from its imports on."""
    keep_interrupts()
    try:
        from harness.cli import app

        app.main()
    except KeyboardInterrupt:
        sys.exit(130)
