"""`harness doctor` takes its advice about the sandbox from the backends."""

import pytest

from harness.cli import doctor
from harness.sandbox.backends import BACKENDS, backend_named
from harness.sandbox.guarantees import Guarantee

STRONGEST = BACKENDS[0].advice


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("bwrap", [None, None, "use control groups.", None]),
        ("landlock", [None, STRONGEST, "use control groups.", None]),
        ("none", [STRONGEST, None, None, None]),
    ],
)
def test_a_missing_guarantee_has_the_advice_that_helps(
    backend: str, expected: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = [
        Guarantee("no signals", "", ""),
        Guarantee("memory limited", "", "use control groups."),
        Guarantee("no network", "seccomp", ""),
    ]
    monkeypatch.setattr(doctor, "check_guarantees", lambda: checked)
    monkeypatch.setattr(doctor, "detect_backend", lambda: backend_named(backend))
    found = [finding for finding in doctor.findings() if finding.name == "sandbox" or finding.name[:2] == "  "]
    assert [finding.advice for finding in found] == expected
    assert [finding.value for finding in found[1:]] == ["not guaranteed here", "not guaranteed here", "by seccomp"]
