"""A sweep on a real Ray cluster of two nodes: a node dies, the driver dies, and no acknowledged record is lost."""

import json
import shutil
from pathlib import Path

import numpy as np
import psutil
import pytest

from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.status import Status
from harness.runs.summary import run_status
from tests.functional.machine import EXAMPLES, PLUGINS, Machine, guess_count, wait_until
from tests.tools.ray_cluster import RayCluster, RayNode

# Nodes of a cluster start and are given up slowly on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SEEDS = 12


def _write_sweep(machine: Machine, *, pause: float, seeds: int = SEEDS) -> Path:
    file = machine.folder / "sweep.toml"
    file.write_text(
        'attacks = ["draws"]\nrounds = ["./round.toml"]\n'
        f"seeds = {list(range(seeds))}\n\n[params.draws]\n"
        f"pause = {pause}\nfile = '{machine.folder / 'prefix-64.npy'}'\n"
    )
    return file


def _with(cluster: RayCluster, machine: Machine) -> Machine:
    """Return the machine as a client of the cluster."""
    return Machine(machine.folder, cluster.token)


def _runs_of(node: RayNode) -> list[RunFolder]:
    return [RunFolder(path) for path in node.home.glob("runs/*") if (path / "run.db").exists()]


def _is_working(node: RayNode) -> bool:
    return any(run_status(folder) is Status.RUNNING and guess_count(folder) for folder in _runs_of(node))


def _expected(machine: Machine, seed: int) -> bytes:
    return machine.executed("draws", "--set", "pause=0", "--seed", str(seed)).submission.read_bytes()


def test_a_sweep_that_loses_a_node_ends_complete(machine: Machine) -> None:
    file = _write_sweep(machine, pause=0.2)
    with RayCluster(machine.folder / "cluster") as cluster:
        cluster.add_nodes(2)
        nodes = cluster.nodes
        options = ("sweep", str(file), "--attacks", str(PLUGINS), "--ray", cluster.address, "--json")
        driver = _with(cluster, machine).start(*options)
        wait_until(lambda: all(_is_working(node) for node in nodes))
        nodes[1].kill()
        out, err = driver.communicate(timeout=240)
        assert driver.returncode == 0, err
        assert "its node died" in err
        answers = np.load(machine.folder / f"answer-{EXAMPLES}.npy")
        for node in nodes:
            for path in node.home.rglob("*"):
                assert not path.is_file() or answers[5].tobytes() not in path.read_bytes(), f"answers in {path}"
        wait_until(lambda: not _runs_of(nodes[0]))
    result = json.loads(out)
    assert len(result["finished"]) == SEEDS and not result["failed"] and not result["unfinished"]
    folders = {folder.attack_spec().seed: folder for folder in machine.folders()}
    assert set(folders) == set(range(SEEDS))
    assert {folder.attack_spec().parent for folder in folders.values()} == {result["id"]}
    for seed in (0, SEEDS - 1):
        assert folders[seed].submission.read_bytes() == _expected(machine, seed)
    scored = machine.summary(folders[0])
    assert scored["recall_at_cap"] is not None and scored["recall_interval"] is not None


@pytest.mark.long
def test_a_killed_driver_is_resumed_and_runs_nothing_twice(machine: Machine) -> None:
    file = _write_sweep(machine, pause=0.1, seeds=6)
    with RayCluster(machine.folder / "cluster") as cluster:
        nodes = [cluster.add_node(), cluster.add_node()]
        client = _with(cluster, machine)
        driver = client.start("sweep", str(file), "--attacks", str(PLUGINS), "--ray", cluster.address)
        wait_until(lambda: len(machine.folders()) >= 2 and any(_is_working(node) for node in nodes))
        driver.kill()
        driver.communicate()
        before = {folder.id: folder.store.stat().st_ino for folder in machine.folders()}
        result = json.loads(client.run_process("resume", "latest", "--ray", cluster.address, "--json").stdout)
    assert len(result["finished"]) == 6 and not result["failed"]
    assert {id_: RunFolder(machine.runs / id_).store.stat().st_ino for id_ in before} == before
    again = machine.json("resume", "latest", "--ray", "none")
    assert len(again["finished"]) == 6


@pytest.mark.long
def test_a_run_that_was_begun_here_is_continued_on_a_node(machine: Machine) -> None:
    file = _write_sweep(machine, pause=0.5, seeds=1)
    driver = machine.start("sweep", str(file), "--attacks", str(PLUGINS), "--ray", "none")
    wait_until(lambda: any(guess_count(folder) for folder in machine.folders() if folder.store.exists()))
    driver.kill()
    driver.communicate()
    (folder,) = machine.folders()
    machine.run("stop", folder.id)
    before = machine.summary(folder)
    machine.run_process("resume", "latest", "--ray", "local")
    with RunReader(folder.store) as reader:
        assert len([name for _, _, name, _ in reader.events() if name == "supervisor"]) == 2
        assert reader.row_count("guess") > before["guesses"]
    after = machine.summary(folder)
    assert after["status"] == "finished" and after["elapsed_s"] > before["elapsed_s"] > 0
    assert folder.submission.read_bytes() == _expected(machine, 0)


@pytest.mark.long
def test_sigterm_says_how_to_continue_and_nothing_else(machine: Machine) -> None:
    file = _write_sweep(machine, pause=0.5, seeds=1)
    driver = machine.start("sweep", str(file), "--attacks", str(PLUGINS), "--ray", "local")
    node = machine.folder / "state" / "node" / "runs"
    wait_until(lambda: any(RunFolder(path).store.exists() for path in node.glob("*")))
    driver.terminate()
    _, err = driver.communicate(timeout=120)
    assert driver.returncode == 130 and "harness resume" in err.splitlines()[-1]
    assert len(err.splitlines()) < 5, err


@pytest.mark.long
@pytest.mark.parametrize("victim", ["ray::DashboardAgent", "raylet/raylet"])
def test_a_dead_process_of_ray_ends_the_command_with_a_sentence(machine: Machine, victim: str) -> None:
    file = _write_sweep(machine, pause=0.5, seeds=4)
    driver = machine.start("sweep", str(file), "--attacks", str(PLUGINS), "--ray", "local")
    node = machine.folder / "state" / "node" / "runs"
    wait_until(lambda: any(RunFolder(path).store.exists() for path in node.glob("*")))
    for child in psutil.Process(driver.pid).children(recursive=True):
        if any(victim in part for part in child.cmdline()[:1]):
            child.kill()
    _, err = driver.communicate(timeout=240)
    assert driver.returncode == 1
    assert err.splitlines()[-1].startswith(
        "harness: --ray local: this command was killed, or ended by a process of Ray"
    )
    machine.run_process("resume", "latest", "--ray", "none")
    assert [run_status(folder) for folder in machine.folders()] == [Status.FINISHED] * 4


@pytest.mark.long
def test_a_run_that_fails_on_a_node_does_not_stop_the_others(machine: Machine) -> None:
    shutil.copy(PLUGINS / "misbehaving.py", machine.folder / "misbehaving.py")
    shutil.copy(PLUGINS / "draws.py", machine.folder / "draws.py")
    file = machine.folder / "sweep.toml"
    file.write_text(
        'attacks = ["misbehaving", "draws"]\nrounds = ["./round.toml"]\n'
        '[params.misbehaving]\naction = ["raises"]\n[params.draws]\npause = 0\n'
    )
    options = ("--attacks", str(machine.folder), "--ray", "local", "--json")
    done = machine.run_process("sweep", str(file), *options, code=3)
    result = json.loads(done.stdout)
    assert len(result["finished"]) == 1 and len(result["unfinished"]) == 1
    crashed = RunFolder(machine.runs / result["unfinished"][0])
    assert run_status(crashed) is Status.CRASHED
    assert "Traceback" in crashed.log.read_text()


def test_a_cluster_that_does_not_answer_is_refused(machine: Machine) -> None:
    file = _write_sweep(machine, pause=0, seeds=1)
    done = machine.run_process("sweep", str(file), "--attacks", str(PLUGINS), "--ray", "127.0.0.1:1", code=1)
    assert "--ray 127.0.0.1:1: no cluster answers" in done.stderr.splitlines()[-1]


@pytest.mark.long
def test_a_cluster_with_another_token_is_refused(machine: Machine) -> None:
    file = _write_sweep(machine, pause=0, seeds=1)
    with RayCluster(machine.folder / "cluster") as cluster:
        client = Machine(machine.folder, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64})
        options = ("--attacks", str(PLUGINS), "--ray", cluster.address)
        done = client.run_process("sweep", str(file), *options, code=1)
    assert "the cluster refuses the token" in done.stderr.splitlines()[-1]
