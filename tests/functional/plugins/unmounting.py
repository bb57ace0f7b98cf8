"""An attack that tries to unmount what hides files from it, as root could."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from harness import Attack, Context, Field, Guesses, Params


class UnmountingParams(Params):
    paths: list[str] = Field(description="Hidden paths.")


class Unmounting(Attack[UnmountingParams]):
    name = "unmounting"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        yield Guesses(context.ids[:1], context.prefixes[:1, : context.suffix_length], [0.0])
        (effective,) = [
            line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff")
        ]
        print("capabilities", int(effective, 16))
        commands = [["umount", "-l", place] for place in self.params.paths] + [["mount", "-o", "remount,rw", "/"]]
        for command in commands:
            code = subprocess.run(command, capture_output=True, check=False).returncode
            print("UNMOUNTED" if code == 0 else "refused", *command)
        for place in self.params.paths:
            print("SEEN" if _can_be_seen(Path(place)) else "hidden", place)


def _can_be_seen(place: Path) -> bool:
    try:
        return any(place.iterdir()) if place.is_dir() else bool(place.read_bytes())
    except OSError:
        return False
