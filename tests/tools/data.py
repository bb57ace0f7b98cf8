"""Data that is not in the repository. Tests that need it are skipped where it is missing, and say what is missing."""

import os
from pathlib import Path

import numpy as np
import pytest

from harness.core.arrays import Tokens, mapped_array
from harness.core.errors import HarnessError

DATA = Path(os.environ.get("HARNESS_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
"""The directory of the data: HARNESS_TEST_DATA. By default it is beside the clone."""
SATML = DATA / "satml"
SURROGATE = DATA / "surrogate-11m"
RECORDED = DATA / "recorded" / "gpt-neo-1.3b"
TRIALS = DATA / "recorded" / "gpt-neo-1.3b-1000"
_MISSING = {
    SATML: "the public files of the SaTML 2023 challenge are not on this machine. Run `harness data fetch satml`, and "
    "set HARNESS_TEST_DATA to the directory of data that `harness doctor` prints.",
    SURROGATE: "the surrogate of GPT-Neo 1.3B, an unpublished model of 11 M parameters, is not on this machine.",
    RECORDED: "recorded outputs of GPT-Neo 1.3B, from baseline/ of Tungi97/lm-extraction-benchmark, are not on this "
    "machine. --no-prior of tests.bench.real_target does without them.",
    TRIALS: "1,000 recorded trials of GPT-Neo 1.3B, suffixes.npy.xz and losses.npy.xz, are not on this machine. "
    "--source DIR of tests.bench.real_target reads tmp/baseline_3000 of weichen-yu/lm-ex instead.",
}


def what_is_missing(*folders: Path) -> str | None:
    """Return a sentence that names the first of the folders that is not on this machine, None if all are."""
    return next((_MISSING[folder] for folder in folders if not folder.is_dir()), None)


def training_rows() -> Tokens:
    """Return the training rows of the challenge, [15000, 200]: 100 tokens before the prefix, prefix and suffix."""
    parts = [mapped_array(SATML / f"train_{part}.npy") for part in ("preprefix", "prefix", "suffix")]
    return np.concatenate(parts, axis=1).astype(np.int64)


def gpt2_tokenizer() -> Path:
    """Return the tokenizer.json of GPT-2: the file in the directory of the data, or one from the Hugging Face hub.

    Raises HarnessError if there is neither.
    """
    if (file := DATA / "surrogate-11m" / "tokenizer.json").is_file():
        return file
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download("openai-community/gpt2", "tokenizer.json"))
    except (OSError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise HarnessError(f"the tokenizer of GPT-2 could not be downloaded: {error}") from None


def require_data(*folders: Path) -> None:
    """Skip the test if one of the folders is not on this machine."""
    if missing := what_is_missing(*folders):
        pytest.skip(missing)
