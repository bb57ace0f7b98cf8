"""Public texts that Debian packages carry: licences, and the founding documents of the United States (miscfiles)."""

import gzip
import re
import shutil
import subprocess
from pathlib import Path

_LICENCES = Path("/usr/share/common-licenses")
_STATE = Path("usr/share/state")


def paragraphs_of(text: str, *, min_words: int = 1) -> list[str]:
    """Return the paragraphs of a text, without the ends of its lines, that have at least `min_words` words."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    return [paragraph for paragraph in paragraphs if len(paragraph.split()) >= min_words]


def licence(name: str) -> str:
    """Return the text of a licence of Debian's base-files. Raises OSError where there is none."""
    return (_LICENCES / name).read_text(encoding="utf-8")


def founding_documents(folder: Path) -> dict[str, str]:
    """Return the Declaration of Independence and the Constitution, from an installed or downloaded `miscfiles`.

    Raises SystemExit if there is no apt-get, or no network.
    """
    root = Path("/")
    if not (root / _STATE).is_dir():
        root = folder / "miscfiles"
        if not (root / _STATE).is_dir():
            root.mkdir(parents=True, exist_ok=True)
            if (
                shutil.which("apt-get") is None
                or subprocess.run(
                    ["apt-get", "download", "-q", "miscfiles"], cwd=root, check=False, capture_output=True
                ).returncode
            ):
                raise SystemExit("Debian's package miscfiles cannot be downloaded. Install it, or run this on Debian.")
            package = next(root.glob("miscfiles_*.deb"))
            subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
    return {
        name: gzip.decompress((root / _STATE / f"us-{name}.gz").read_bytes()).decode("latin-1")
        for name in ("declaration", "constitution")
    }
