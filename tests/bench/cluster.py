"""Measure sweeps on simulated nodes: `python -m tests.bench.cluster [--nodes 2,4,8,16] [--seconds 30] [--each 6]`.

Each node is a real Ray node with one place, all of them on this machine. The runs sleep, so that its cores limit only
what the harness and Ray themselves do. The time of a sweep is that from the plan of its first run to the last record in
the store. Speed-up is relative to the sleeping time of all runs, as on one node without any overhead. The first run of
each node starts Ray's processes there, for all nodes on the same cores, so the later runs are also measured alone.
`--home` measures what each run costs the machine of the command.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple
from unittest import mock

from harness.cli.resolving import resolve_run
from harness.cluster.node import Message, ReceivedRecord, compute_run
from harness.cluster.shipment import Packer, Shipment, chunks_of
from harness.core.run_request import RunRequest
from harness.runs.folder import RunFolder
from harness.sweeps.running import PlannedRun
from tests.bench.inputs import environment_in
from tests.bench.measuring import in_turns, markdown_table, median_seconds, print_figures
from tests.functional.machine import EXAMPLES, PLUGINS, ROOT, write_round
from tests.tools.ray_cluster import RayCluster

_NODES = (2, 4, 8, 16)
_RUNS_OF_EACH_NODE = 6
_SECONDS = 30.0
_PAUSES = 2 * EXAMPLES / 8
"""The attack sleeps in each batch of eight examples, in two stages."""


class Measured(NamedTuple):
    """A sweep of `runs` runs that sleep for `seconds`, on `nodes` nodes.

    wall: seconds of the whole sweep. each: seconds from the end of a run to the end of the next one of its node, the
    mean over all runs after the first of each node.
    """

    nodes: int
    runs: int
    seconds: float
    wall: float
    each: float

    @property
    def whole_efficiency(self) -> float:
        """The sleeping time of all runs, relative to the time of all nodes from the first plan to the last record."""
        return self.runs * self.seconds / self.wall / self.nodes

    @property
    def efficiency(self) -> float:
        """The sleeping time of a run, relative to the time that its node spends on it."""
        return self.seconds / self.each


def measure(nodes: int, *, seconds: float = _SECONDS, runs_of_each_node: int = _RUNS_OF_EACH_NODE) -> Measured:
    """Run one sweep on a cluster of `nodes` nodes with one place each."""
    runs = nodes * runs_of_each_node
    with tempfile.TemporaryDirectory() as name, RayCluster(Path(name) / "cluster") as cluster:
        folder = Path(name)
        write_round(folder)
        file = folder / "sweep.toml"
        file.write_text(
            f'attacks = ["draws"]\nrounds = ["./round.toml"]\nbudget = "1h"\nseeds = {list(range(runs))}\n'
            f"[params.draws]\npause = {seconds / _PAUSES}\n"
        )
        cluster.add_nodes(nodes)
        command = [sys.executable, "-m", "harness", "sweep", str(file), "--ray", cluster.address, "--json"]
        command += ["--attacks", str(PLUGINS)]
        environment = {**environment_in(folder), **cluster.token, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        if done.returncode:
            subprocess.run([sys.executable, "-m", "harness", "list", "runs"], env=environment, check=False)
            sys.exit(done.stderr)
        folders = [RunFolder(path) for path in (folder / "state" / "runs").iterdir()]
        assert len(folders) == runs
        began = min(run.attack_spec().created_at for run in folders)
        ends = sorted(run.path.stat().st_ctime for run in folders)
    first, last = fmean(ends[:nodes]), fmean(ends[-nodes:])
    return Measured(nodes, runs, seconds, ends[-1] - began, (last - first) / (runs_of_each_node - 1))


def measure_home(*, repeats: int = 20) -> dict[str, float]:
    """Return what a run costs the machine of the command: to plan it, to store its record, and the record's size.

    The run is a `baseline` with 10 trials on 1,000 examples of the demo, computed here as a node does it.
    """
    with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, environment_in(Path(name))):
        os.environ["HARNESS_NODE_HOME"] = f"{name}/node"
        request = RunRequest(attack="baseline", round="demo", settings=("trials=10",), device="cpu", threads=1)
        packer = Packer()

        def plan() -> Shipment:
            resolved = resolve_run(request, run_id="test-run")
            return packer.shipment(PlannedRun(resolved.spec, resolved.attack))

        shipment = plan()
        spec = resolve_run(request, run_id="test-run").spec
        with mock.patch.dict(os.environ):
            sent = compute_run(shipment, lambda sha256: chunks_of(packer.contents[sha256]), device="cpu")
            messages = [one for one in sent if one[0] != "status"]
        calls = {"plan": lambda turn: plan(), "store": lambda turn: _store(ReceivedRecord(spec), messages)}
        taken = in_turns(calls, repeats)
    return {
        **{f"milliseconds to {name}": 1e3 * median_seconds(times) for name, times in taken.items()},
        "KiB of the record": sum(len(content[1]) for kind, content in messages if kind == "file") / 1024,
    }


def _store(received: ReceivedRecord, messages: Sequence[Message]) -> None:
    for kind, content in messages:
        if kind == "file":
            received.add(*content)
        elif kind == "end":
            received.store(content)


def table(rows: list[Measured]) -> str:
    """Return the measurements as a Markdown table."""
    columns = ("nodes", "runs", "whole sweep", "speed-up", "efficiency")
    columns += ("speed-up after the first run of each node", "efficiency", "overhead of a run")
    return markdown_table(
        columns,
        [
            (
                *(str(row.nodes), str(row.runs), f"{row.wall:.0f} s"),
                *(f"{row.nodes * row.whole_efficiency:.1f}", f"{row.whole_efficiency:.0%}"),
                *(f"{row.nodes * row.efficiency:.1f}", f"{row.efficiency:.0%}", f"{row.each - row.seconds:.1f} s"),
            )
            for row in rows
        ],
    )


def main() -> None:
    """Print the table, one line as soon as it is measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", default=",".join(map(str, _NODES)))
    parser.add_argument("--seconds", type=float, default=_SECONDS)
    parser.add_argument("--each", type=int, default=_RUNS_OF_EACH_NODE)
    parser.add_argument("--home", action="store_true", help="measure the machine of the command alone")
    options = parser.parse_args()
    if options.home:
        print_figures(measure_home())
        return
    rows = []
    for nodes in map(int, options.nodes.split(",")):
        print(f"{nodes} nodes …", file=sys.stderr, flush=True)
        rows.append(measure(nodes, seconds=options.seconds, runs_of_each_node=options.each))
        print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
