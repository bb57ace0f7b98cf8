"""The built-in attacks, and fast settings for each."""

from pathlib import Path

import numpy as np

from harness.core.submission import write_submission
from harness.demo import ROUND_ARRAYS
from harness.plugins.discovery import find_attacks

BUILT_IN = [attack for attack in find_attacks() if attack.origin == "built-in"]


def write_short_demo(folder: Path) -> Path:
    """Write a round with the demo's examples, whose suffixes are cut to 6 tokens, and return its file."""
    for part in ("suffix", "train_suffix"):
        np.save(folder / f"{part}.npy", np.load(ROUND_ARRAYS / f"{part}.npy")[:, :6])
    path = folder / "short.toml"
    files = 'answer_file = "suffix.npy"\ntrain_suffix_file = "train_suffix.npy"'
    path.write_text(f'base = "demo"\nname = "short"\n{files}\nsuffix_length = 6\n')
    return path


def fast_settings(name: str, folder: Path, rows: int, suffix_length: int) -> list[str]:
    """Return `--set` options with which the attack is fast on the first `rows` examples of the demo."""
    recorded = folder / "recorded.csv"
    write_submission(recorded, np.arange(rows), np.ones((rows, suffix_length), np.int64))
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
        "two_step": ["candidates=both", "trials=3", "width=3", "examples=120"],
    }
    return [word for setting in settings.get(name, []) for word in ("--set", setting)]
