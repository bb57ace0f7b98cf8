"""One run whose workers are on the nodes of a real Ray cluster: the bytes of one device, also when a node dies."""

from pathlib import Path

import pytest

from harness.runs.folder import RunFolder
from harness.runs.summary import run_status
from tests.contract.attacks import fast_settings
from tests.functional.machine import Machine, guess_count, last_event, wait_until, write_tiny_demo
from tests.tools.ray_cluster import RayCluster

# Nodes of a cluster start and are given up slowly on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def _finished_bytes(folder: RunFolder) -> bytes:
    wait_until(lambda: run_status(folder).is_over, seconds=240)
    assert str(run_status(folder)) == "finished", folder.log.read_text()
    return folder.submission.read_bytes()


@pytest.mark.long
def test_a_sharded_run_has_the_bytes_of_one_device(machine: Machine) -> None:
    tiny = ("--round", str(write_tiny_demo(machine.folder)), "--limit", "40", "--threads", "1")
    commands = {
        "draws": (*machine.plugin(), "--set", "pause=0.1"),
        # It trains a ranker, so its workers exchange what they have stored.
        "two_step": (*tiny, *fast_settings("two_step", machine.folder, 40, 50)),
    }
    with RayCluster(machine.folder / "cluster") as cluster:
        for _ in range(2):
            cluster.add_node()
        client = Machine(machine.folder, cluster.token)
        for name, options in commands.items():
            alone = client.json("run", name, *options)
            shared = client.json("run", name, *options, "--shards", "2", "--ray", cluster.address)
            assert shared["status"] == "finished"
            assert Path(shared["submission"]).read_bytes() == Path(alone["submission"]).read_bytes(), name
            log = (Path(shared["directory"]) / "worker.log").read_text()
            assert "worker 0 is on" in log and "worker 1 is on" in log


def test_a_sharded_run_goes_on_when_a_node_dies(machine: Machine) -> None:
    expected = machine.executed("draws", "--set", "pause=0").submission.read_bytes()
    with RayCluster(machine.folder / "cluster") as cluster:
        nodes = [cluster.add_node(cores=2), cluster.add_node()]
        client = Machine(machine.folder, cluster.token)
        folder = client.detached("draws", "--set", "pause=1", "--shards", "3", "--ray", cluster.address)
        wait_until(lambda: guess_count(folder) > 0 and any(nodes[1].home.glob("workers/*/inputs")))
        nodes[1].kill()
        nodes[1] = cluster.add_node()
        assert _finished_bytes(folder) == expected
    restarted = last_event(folder, "worker_restarted")
    assert restarted is not None


def test_shards_need_a_cluster(machine: Machine) -> None:
    command = ("run", "draws", *machine.plugin(), "--shards", "2")
    assert "give --shards and --ray together" in machine.run(*command, code=2).stderr
    assert "--devices shares a run" in " ".join(machine.run(*command, "--ray", "local", code=2).stderr.split())
