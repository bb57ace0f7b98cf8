"""A Ray cluster of several nodes on this machine, each in processes of its own that can be killed like a machine."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import psutil

from tests.functional.machine import ROOT, kill_processes_that_name, wait_until

_OBJECT_STORE_BYTES = 80 << 20


class RayNode:
    """One node: its processes, and the directory of its store."""

    def __init__(self, folder: Path, *options: str, cores: int, token: Mapping[str, str]) -> None:
        """Start the node, whose store is in `folder`. `options` are those of `ray start`.

        `token` are the environment variables with the password of the cluster.
        """
        self.home = folder
        folder.mkdir(parents=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HARNESS_NODE_HOME": str(folder),
            "HARNESS_CACHE": str(folder / "cache"),
            # Only what a run needs, because all nodes share the cores of this machine.
            "RAY_prestart_worker_first_driver": "0",
            "RAY_enable_metrics_collection": "0",
            **token,
        }
        command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--disable-usage-stats"]
        command += ["--include-log-monitor=false", "--node-ip-address=127.0.0.1", "--num-gpus=0", f"--num-cpus={cores}"]
        command += [f"--object-store-memory={_OBJECT_STORE_BYTES}", *options]
        with (folder / "ray.log").open("wb") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def wait_for_start(self) -> None:
        """Wait until the node's Ray is running."""
        wait_until(lambda: "Ray runtime started" in (self.home / "ray.log").read_text())

    def kill(self) -> None:
        """Kill every process of the node, as if its machine lost power."""
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        wait_until(lambda: not self._processes())

    def _processes(self) -> list[psutil.Process]:
        """Return the living processes with this node's store in their environment."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                is_here = process.environ().get("HARNESS_NODE_HOME") == str(self.home)
                if is_here and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found


class RayCluster:
    """A head node without places for tasks, and nodes that are added to it. Their stores are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.nodes: list[RayNode] = []
        self.token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        """The environment variables that a client of the cluster needs."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        """Start the head."""
        # The path of a socket may have 107 characters.
        self._temporary = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
        options = ("--head", f"--port={self._port}", "--include-dashboard=false", f"--temp-dir={self._temporary}")
        self._head = RayNode(self._folder / "head", *options, cores=0, token=self.token)
        try:
            self._head.wait_for_start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill all nodes."""
        for node in (*self.nodes, self._head):
            node.kill()
        kill_processes_that_name(self._temporary)
        shutil.rmtree(self._temporary, ignore_errors=True)

    def add_node(self, *, cores: int = 1) -> RayNode:
        """Add a node with places for `cores` runs of one thread, and wait until the cluster knows it."""
        self.add_nodes(1, cores=cores)
        return self.nodes[-1]

    def add_nodes(self, number: int, *, cores: int = 1) -> None:
        """Add several nodes, each with `cores` places."""
        for _ in range(number):
            folder = self._folder / f"node{len(self.nodes)}"
            self.nodes.append(RayNode(folder, f"--address={self.address}", cores=cores, token=self.token))
            # Nodes that start at the same moment take each other's ports.
            self.nodes[-1].wait_for_start()
        wait_until(lambda: self._known() > len(self.nodes))

    def _known(self) -> int:
        """Return the number of nodes that the cluster has known, with the head and those that have died."""
        code = (
            "from harness.cluster.executor import connected\n"
            f"with connected({self.address!r}) as ray: number = len(ray.nodes())\n"
            "print(number)"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **self.token}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        return int(done.stdout) if done.returncode == 0 else 0
