"""An attack that ignores signals, never ends, and starts children and grandchildren in their own sessions."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from harness import Attack, Context, Field, Guesses, Params

_CHILD = """
import os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
depth = int(sys.argv[2])
if depth:
    for new_session in (False, True):
        subprocess.Popen([sys.executable, '-c', sys.argv[3], sys.argv[1], str(depth - 1), sys.argv[3]],
                         start_new_session=new_session)
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
while True:
    time.sleep(60)
"""


class UnkillableParams(Params):
    marker: str = Field("", description="Text in the arguments of every child.")


class Unkillable(Attack[UnkillableParams]):
    name = "unkillable"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        suffixes = context.prefixes[:, : context.suffix_length]
        yield Guesses(context.ids, suffixes, context.ids / 2)
        for new_session in (False, True):
            command = [sys.executable, "-c", _CHILD, self.params.marker, "2", _CHILD]
            subprocess.Popen(command, start_new_session=new_session)
        while True:
            try:
                time.sleep(60)
            except BaseException:
                continue
