"""`harness doctor` takes its advice about the sandbox from the backends."""

import pytest

from harness.cli import doctor
from harness.sandbox.backends import BACKENDS, backend_named
from harness.sandbox.control_group import ADVICE
from harness.sandbox.policy import AppliedSandbox, Limit

LIMIT = Limit(most=4096, by="cgroup v2")
APPLIED = AppliedSandbox(
    backend="x",
    applied=("seccomp",),
    memory=LIMIT,
    processes=LIMIT,
    file_bytes=LIMIT,
    open_files=LIMIT,
    readable=(),
)


@pytest.mark.parametrize(
    ("backend", "memory", "expected"),
    [
        ("bwrap", LIMIT, [None, None]),
        ("bwrap", None, [None, ADVICE]),
        ("landlock", None, [None, ADVICE]),
        ("none", None, [BACKENDS[0].advice, None]),
    ],
)
def test_the_advice_is_that_of_what_is_missing(
    backend: str, memory: Limit | None, expected: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = APPLIED.model_copy(update={"memory": memory})
    monkeypatch.setattr(doctor, "applied_sandbox", lambda: applied)
    monkeypatch.setattr(doctor, "detect_backend", lambda: backend_named(backend))
    named = {finding.name: finding for finding in doctor.findings()}
    assert [named["sandbox"].advice, named["in force"].advice] == expected
    assert named["in force"].value == applied.summary
