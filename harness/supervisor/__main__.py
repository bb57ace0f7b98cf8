"""`python -m harness.supervisor RUN_DIRECTORY LAST`: supervise one run, unless another supervisor does or did.

LAST is `Process.key` of the run's last supervisor so far, empty for a new run.
"""

import contextlib
import signal
import sys
from pathlib import Path

from harness.core.files import try_lock
from harness.runs.folder import RunFolder
from harness.runs.launch import last_supervisor
from harness.runs.status import ALREADY_SUPERVISED
from harness.sandbox import reaper
from harness.supervisor.supervisor import Supervisor


def main() -> None:
    """Hold the run's lock and supervise it to its end."""
    folder = RunFolder(Path(sys.argv[1]))
    lock = try_lock(folder.lock)
    last = None if lock is None else last_supervisor(folder)
    # The command that started this process decided by the record, which another supervisor may have changed since.
    if lock is None or ("" if last is None else last.key) != sys.argv[2]:
        sys.exit(ALREADY_SUPERVISED)
    reaper.adopt_orphans()
    supervisor = Supervisor(folder)
    signal.signal(signal.SIGTERM, lambda *_: supervisor.ask_to_stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervisor.run()


if __name__ == "__main__":
    main()
