"""What may be seen, what is handed over and how refusals are told: as far as it shows without a process."""

import sys
from pathlib import Path

import pytest

from harness.core import paths
from harness.core.errors import HarnessError
from harness.jobs.attack.spec import AttackSpec
from harness.plugins.declarations import declaration_in
from harness.sandbox import SandboxPolicy
from harness.sandbox.environment import plain_environment
from harness.sandbox.in_force import InForce, Limit
from harness.sandbox.refusals import Refusal, in_words
from harness.sandbox.seccomp import filter_program, refusals_by_number
from harness.sandbox.view import Access, view_for

ATTACK = """
from harness import Attack, Params
class A(Attack[Params]):
    name = "a"
    network = {!r}
"""


def test_a_view_holds_the_system_the_interpreter_and_the_package_and_no_home_and_no_answers(tmp_path: Path) -> None:
    view = view_for(SandboxPolicy(writable=(tmp_path,)))
    for seen in ("/usr/bin/env", paths.PACKAGE / "__init__.py", Path(sys.executable), "/etc/passwd"):
        assert view.access(Path(seen).resolve()) is Access.READ
    assert view.access(tmp_path.resolve()) is Access.WRITE
    unseen = (
        Path.home(),
        paths.SHIPPED_ROUNDS / "demo",
        tmp_path.parent,
        "/etc/shadow",
        "/root",
        "/var",
        "/mnt",
        "/srv",
    )
    for place in unseen:
        assert view.access(Path(place)) in (None, Access.HIDDEN)


def test_an_interpreter_in_whose_folder_somebody_lives_is_shown_without_what_else_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bin", "lib", "diary", "data"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    view = view_for(SandboxPolicy())
    assert view.access(tmp_path / "bin" / "python") is Access.READ
    assert view.access(tmp_path / "diary") is Access.HIDDEN and view.access(tmp_path / "data") is Access.HIDDEN


def test_links_on_the_way_to_a_place_are_part_of_the_view(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "way").symlink_to("real")
    (tmp_path / "real" / "again").symlink_to(tmp_path / "real" / "deep")
    view = view_for(SandboxPolicy(readable=(tmp_path / "way" / "again",)))
    assert view.links[tmp_path / "way"] == "real"
    assert view.links[tmp_path / "real" / "again"] == str(tmp_path / "real" / "deep")
    assert view.access(tmp_path / "real" / "deep") is Access.READ and view.access(tmp_path / "real") is None


def test_links_are_followed_in_a_model_s_folder_and_in_none_that_a_stranger_could_fill(tmp_path: Path) -> None:
    for name in ("theirs", "model", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("secret")
    for name in ("theirs", "model"):
        (tmp_path / name / "link").symlink_to(tmp_path / "elsewhere" / "secret")
    secret = (tmp_path / "elsewhere" / "secret").resolve()
    assert view_for(SandboxPolicy(readable=(tmp_path / "theirs",))).access(secret) is None
    assert view_for(SandboxPolicy(linked=(tmp_path / "model",))).access(secret) is Access.READ


def test_no_secret_of_the_users_environment_is_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("HF_TOKEN", "NVIDIA_API_KEY", "CUDA_AUTH", "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY", "HARNESS_DATA")
    for name in (*secrets, "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "value")
    handed = plain_environment(tmp_path)
    assert not set(handed) & set(secrets)
    assert handed["CUDA_VISIBLE_DEVICES"] == handed["OMP_NUM_THREADS"] == "value"
    assert handed["HOME"] == handed["TMPDIR"] == str(tmp_path)


def test_refusals_are_told_as_one_clause() -> None:
    assert in_words({}) == ""
    assert in_words({Refusal.NETWORK: 3}) == "a network socket (3 times)"
    several = {Refusal.KERNEL: 1200, Refusal.NETWORK: 1, Refusal.CLOCK: 2}
    assert in_words(several) == (
        "a network socket (once), a change of the clock (twice) and a system call for administrators (1,200 times)"
    )


def test_what_was_in_force_is_read_back_as_it_was_written() -> None:
    limit = Limit(4096, "cgroup v1")
    in_force = InForce("landlock", ("pid", "landlock 7"), None, limit, None, limit)
    assert InForce.from_record(in_force.as_record()) == in_force
    assert in_force.words == "pid, landlock 7; memory not limited, 4,096 processes (cgroup v1), files not limited"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_a_program_whose_jumps_stay_inside_and_which_ends_in_an_answer(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    for network in (False, True):
        for is_heard in (False, True):
            program = filter_program(network=network, is_heard=is_heard)
            steps = [program[at : at + 8] for at in range(0, len(program), 8)]
            assert len(program) % 8 == 0 and len(steps) < 4096
            jumps = [(at, step) for at, step in enumerate(steps) if step[0] in (0x15, 0x35, 0x45)]
            assert all(at + 1 + max(step[2], step[3]) < len(steps) for at, step in jumps)
            assert steps[-1][0] == 0x06
    assert Refusal.NETWORK in refusals_by_number().values()


def test_a_declared_network_is_none_or_an_endpoint() -> None:
    assert declaration_in(ATTACK.format("endpoint").encode()).network == "endpoint"
    with pytest.raises(HarnessError, match="`network` is one of 'none', 'endpoint', not 'internet'"):
        declaration_in(ATTACK.format("internet").encode())


def test_a_spec_from_before_networks_were_declared_had_none() -> None:
    assert AttackSpec.model_fields["network"].default == "none"
