"""The environment variables of a sandboxed process: paths to programs, libraries and devices, and no secrets."""

import os
import re
import site
from pathlib import Path

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "USER", "LOGNAME")
_PASSED_ON_PREFIXES = ("CUDA_", "NVIDIA_", "PYTORCH_", "TORCH_", "OMP_", "GOMP_", "MKL_")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL|COOKIE")


def is_secret_name(name: str) -> bool:
    """Return True if a variable with this name may hold a secret."""
    return _SECRET.search(name) is not None


def plain_environment(home: Path) -> dict[str, str]:
    """Return the variables of this process that untrusted code may see, with `home` as HOME and TMPDIR."""
    passed = {
        name: value
        for name, value in os.environ.items()
        # NVIDIA_API_KEY has the same prefix as NVIDIA_VISIBLE_DEVICES.
        if name in _PASSED_ON or (name.startswith(_PASSED_ON_PREFIXES) and not is_secret_name(name))
    }
    # HOME changes, so packages that were installed for this user would not be found without PYTHONUSERBASE.
    user_base = {"PYTHONUSERBASE": site.getuserbase()} if site.ENABLE_USER_SITE else {}
    return passed | user_base | {"HOME": str(home), "TMPDIR": str(home)}
