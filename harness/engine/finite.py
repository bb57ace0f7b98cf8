"""Errors for targets whose output is not finite."""

import numpy as np
import torch

from harness.core.arrays import Floats
from harness.core.errors import HarnessError


def require_finite(logprobs: Floats, dtype: torch.dtype) -> None:
    """Raise HarnessError unless all log-probabilities, which a target computed in `dtype`, are finite."""
    if not np.isfinite(logprobs).all():
        raise non_finite_error("the target returned NaN or infinity", dtype)


def non_finite_error(problem: str, dtype: torch.dtype) -> HarnessError:
    """Return the error for `problem`, a clause that says what was found in a computation in `dtype`."""
    return HarnessError(
        f"{problem} in {str(dtype).removeprefix('torch.')}. Its weights are damaged or its values overflow: try "
        "--dtype float32 or bfloat16, which have the widest range."
    )
