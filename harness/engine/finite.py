"""What a target answers must be finite numbers; what is none is named in a sentence."""

import numpy as np
import torch

from harness.core.arrays import Floats
from harness.core.errors import HarnessError


def require_finite(logprobs: Floats, dtype: torch.dtype) -> None:
    """Raise HarnessError unless the log-probabilities that a target answered in `dtype` are finite."""
    if not np.isfinite(logprobs).all():
        raise no_number("the target answered NaN or infinity", dtype)


def no_number(what: str, dtype: torch.dtype) -> HarnessError:
    """The error for `what`, a clause, which was found in `dtype`."""
    return HarnessError(
        f"{what} in {str(dtype).removeprefix('torch.')}: its weights are damaged, or its numbers leave the range of "
        "that dtype; --dtype float32 and bfloat16 have the widest."
    )
