"""The environment of a sandboxed process, and the record of its sandbox."""

import itertools
import json
from pathlib import Path

import pytest

from harness.sandbox.policy import AppliedSandbox, Limit, plain_environment
from harness.sandbox.seccomp import filter_program


def test_the_environment_contains_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("HF_TOKEN", "NVIDIA_API_KEY", "CUDA_AUTH", "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY", "HARNESS_DATA")
    for name in (*secrets, "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "value")
    environment = plain_environment(tmp_path)
    assert not set(environment) & set(secrets)
    assert environment["CUDA_VISIBLE_DEVICES"] == environment["OMP_NUM_THREADS"] == "value"
    assert environment["HOME"] == environment["TMPDIR"] == str(tmp_path)


def test_an_applied_sandbox_is_read_from_its_record() -> None:
    limit = {"most": 4096, "by": "cgroup v1"}
    record = {"backend": "landlock", "applied": ["pid", "landlock 7"], "memory": None, "processes": limit}
    record |= {"file_bytes": None, "open_files": limit, "readable": ["/models/gpt-neo"]}
    applied = AppliedSandbox.model_validate(record)
    assert applied.processes == Limit(most=4096, by="cgroup v1")
    assert json.loads(applied.model_dump_json()) == record
    assert applied.summary == "pid, landlock 7; memory not limited, 4,096 processes (cgroup v1), files not limited"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_jumps_only_forward_inside_itself(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    for network, has_read_only_files in itertools.product((False, True), repeat=2):
        program = filter_program(network=network, has_read_only_files=has_read_only_files)
        steps = [program[at : at + 8] for at in range(0, len(program), 8)]
        assert len(program) % 8 == 0 and len(steps) < 4096
        jumps = [(at, step) for at, step in enumerate(steps) if step[0] in (0x15, 0x35, 0x45)]
        assert all(at + 1 + max(step[2], step[3]) < len(steps) for at, step in jumps)
        assert steps[-1][0] == 0x06
