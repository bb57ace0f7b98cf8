"""The environment that a confined process is handed: what finds programs, libraries and devices, and no secret."""

import os
import re
import site
from pathlib import Path

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "USER", "LOGNAME")
_PASSED_ON_PREFIXES = ("CUDA_", "NVIDIA_", "PYTORCH_", "TORCH_", "OMP_", "GOMP_", "MKL_")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL|COOKIE")


def looks_secret(name: str) -> bool:
    """Whether a variable of this name may hold what nobody else should know."""
    return _SECRET.search(name) is not None


def plain_environment(home: Path) -> dict[str, str]:
    """This process's environment, as far as a stranger's code may know it; `home` is its home and its scratch."""
    passed = {
        name: value
        for name, value in os.environ.items()
        # NVIDIA_API_KEY begins as NVIDIA_VISIBLE_DEVICES does.
        if name in _PASSED_ON or (name.startswith(_PASSED_ON_PREFIXES) and not looks_secret(name))
    }
    # With another home, packages that were installed for this user alone would no longer be found.
    own = {"PYTHONUSERBASE": site.getuserbase()} if site.ENABLE_USER_SITE else {}
    return passed | own | {"HOME": str(home), "TMPDIR": str(home)}
