"""Importing an audit loads no model and no slow library."""

import subprocess
import sys


def test_importing_the_audit_loads_no_slow_library() -> None:
    heavy = ("torch", "transformers", "pyarrow", "scipy", "httpx", "pandas", "matplotlib", "tokenizers")
    modules = "harness.audits.sequence.audit, harness.audits.sequence.inputs, harness.cli.audit_sequence"
    program = f"import sys, {modules}; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
