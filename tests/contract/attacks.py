"""The built-in attacks, and fast settings for each."""

from pathlib import Path

import numpy as np

from harness.core.submission import write_submission
from harness.plugins.discovery import find_attacks

BUILT_IN = [attack for attack in find_attacks() if attack.origin == "built-in"]


def fast_settings(name: str, folder: Path, rows: int) -> list[str]:
    """Return `--set` options with which the attack is fast on the first `rows` examples of the demo."""
    recorded = folder / "recorded.csv"
    write_submission(recorded, np.arange(rows), np.ones((rows, 50), np.int64))
    settings = {
        "baseline": ["trials=2"],
        "ethicist": ["tokens=4", "epochs=2", "examples=60", "batch=20", "trials=2"],
        "contrastive": ["top_k=2"],
        "lookahead": ["candidates=2"],
        "multi_prefix": ["lengths=50 20", "width=1"],
        "enumerate": ["width=3"],
        "replay": [f"source={recorded}"],
        "sampling": ["trials=2"],
        "soft_prompt": ["tokens=4", "epochs=2", "examples=60", "batch=20"],
        "two_step": ["width=3", "examples=120"],
    }
    return [word for setting in settings.get(name, []) for word in ("--set", setting)]
