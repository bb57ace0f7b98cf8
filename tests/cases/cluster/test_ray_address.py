"""`--ray local` computes on this machine, also where the environment names a cluster, as modules of Slurm do."""

from typing import Any

import pytest

from harness.cluster import executor


def test_local_does_not_join_the_cluster_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="ray is an extra")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6399")
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(ray, "init", lambda **options: started.append(options))
    executor.connect(executor.LOCAL)
    (options,) = started
    # By the rules of Ray, this value is the only one for which it does not read RAY_ADDRESS.
    assert options["address"] == "local"
