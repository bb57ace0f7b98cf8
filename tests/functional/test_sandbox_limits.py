"""A run that exceeds its memory limit, and the sandbox of a user without privileges."""

import os
import subprocess
import sys

import pytest

from harness.core import paths
from harness.core.rounds import load_round
from harness.core.run_request import RunRequest
from harness.plugins.discovery import attack_named
from harness.plugins.schema import validated_params
from harness.runs import launch
from harness.runs.folder import RunFolder, new_run_id
from harness.runs.planning import plan_attack, start_attack
from harness.runs.summary import run_summary
from tests.functional.machine import PLUGINS, ROOT, SANDBOXES, Machine

_WITH_LESS_MEMORY = """
import functools, sys
from harness.supervisor import __main__, execution
execution.SandboxPolicy = functools.partial(execution.SandboxPolicy, memory=400 << 20)
__main__.main()
"""
# The interpreter and the checkout may be in directories that only root can enter. A mount namespace makes them visible.
_AS_NOBODY = """
set -e
for path in "$@"; do
  [ "$path" = -- ] && break
  at=$path
  while [ "$at" != / ]; do
    at=$(dirname "$at")
    [ "$(stat -c %A "$at" | cut -c10)" = - ] && closed=$at
  done
  [ -n "$closed" ] || continue
  kept=$(mktemp -d)
  mount --bind "$path" "$kept"
  mount -t tmpfs -o mode=755 none "$closed"
  mkdir -p "$path"
  mount --bind "$kept" "$path"
  closed=
done
while [ "$1" != -- ]; do shift; done
shift
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
"""


def test_a_run_that_exceeds_its_memory_limit_names_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    attack = attack_named("breakout", PLUGINS)
    params = validated_params(attack.path, {"actions": '["memory"]'})
    round_ = load_round(str(machine.folder / "round.toml"))
    spec = plan_attack(attack, params, round_, None, RunRequest(budget="60"), id_=new_run_id("x"))

    def supervise(folder: RunFolder, **_: object) -> None:
        command = [sys.executable, "-c", _WITH_LESS_MEMORY, str(folder.path), ""]
        subprocess.run(command, check=True, env=machine.env(), timeout=240)

    monkeypatch.setattr(launch, "start_supervisor", supervise)
    summary = run_summary(start_attack(spec, attack))
    if summary.in_force is not None and summary.in_force.memory is None:
        pytest.skip("this user may write to no control group.")
    assert summary.status == "crashed" and summary.guesses == 1
    assert summary.reason == "the attack used more than 0.4 GB of memory, its limit, and was killed."


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user, and the other tests run as this one")
@pytest.mark.parametrize("backend", SANDBOXES)
def test_the_sandbox_of_a_user_without_privileges(backend: str, machine: Machine) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not create mount namespaces.")
    for folder in (machine.folder, *machine.folder.parents):
        if folder.owner() == "root" and not folder.stat().st_mode & 1:
            folder.chmod(folder.stat().st_mode | 0o111)
    home = machine.folder / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    environment = machine.env() | {"HARNESS_SANDBOX": backend, "HOME": str(home), "HARNESS_HOME": str(home / "state")}
    environment |= {"HARNESS_CACHE": str(home / "cache"), "HARNESS_DATA": str(home / "data")}
    actions = '["read_by_path", "read_by_link", "read_shadow", "tcp", "unix", "write_outside", "write_source", "clock"]'
    settings = ("--set", f"actions={actions}", "--set", f"answers={machine.folder / 'answer-64.npy'}")
    settings += ("--set", f'outside=["{home}"]', "--json")
    command = [sys.executable, "-m", "harness", "run", "breakout", *machine.plugin(), *settings]
    visible = [sys.prefix, sys.base_prefix, str(paths.PACKAGE.parent), str(ROOT)]
    as_nobody = ["unshare", "--mount", "sh", "-c", _AS_NOBODY, "sh", *dict.fromkeys(visible), "--", *command]
    process = subprocess.run(as_nobody, cwd=home, env=environment, capture_output=True, text=True, timeout=240)
    assert process.returncode == 0, process.stdout + process.stderr
    assert f'"sandbox": "{backend}"' in process.stdout
    (log,) = (home / "state" / "runs").glob("*/worker.log")
    assert log.read_text().count(": refused") == 8
