"""The speed of sampling and searching, relative to the official arithmetic.

Everything runs in one process. Each turn measures each method once, on prefixes of its own, so that a ratio compares
measurements that are close in time. Rates and ratios are medians over turns.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from transformers import PreTrainedModel

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.loading import load_target
from harness.engine.target import Target

TRIALS = (1, 10, 100)
WIDTHS = (1, 8, 32)
OFFICIAL = "official arithmetic"
ON_DEVICE = "official arithmetic, logits kept on the device"
_POLICY = Policy(top_k=10)
OnProgress = Callable[[str, int, int], None]
"""Called with the name of the next measurement, the number of completed measurements, and their total."""
_BATCH = 32


@dataclass(frozen=True)
class Row:
    """The measurements of one method in one dtype, once per turn.

    suffixes_a_second: the median over turns, with lowest and highest. evaluations_a_suffix: next-token distributions
    computed per suffix. peak_bytes: the maximum additional memory, on the device or, for a CPU, in the process.
    times_official: the median over turns of the rate relative to the official arithmetic in the same dtype.
    """

    what: str
    dtype: str
    suffixes_a_second: float
    lowest: float
    highest: float
    evaluations_a_suffix: float
    peak_bytes: int
    times_official: float


@dataclass(frozen=True)
class Measured:
    """All measurements. ratios: `ratio_sample_100` and the like, relative to the official arithmetic."""

    target: str
    device: str
    threads: int
    prefixes: int
    turns: int
    rows: list[Row]
    ratios: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return one object with the ratios at the top level."""
        return self.ratios | {name: value for name, value in asdict(self).items() if name != "ratios"}


@dataclass(frozen=True)
class _Turn:
    seconds: float
    suffixes: int
    evaluations: int
    peak_bytes: int


def measure(
    path: Path,
    prefixes: Tokens,
    *,
    length: int,
    device: str,
    dtypes: tuple[str, ...] | None = None,
    threads: int | None = None,
    turns: int = 4,
    trials: tuple[int, ...] = TRIALS,
    widths: tuple[int, ...] = WIDTHS,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Measured:
    """Measure the target in the folder `path` on `prefixes` [prefixes, prefix length] and suffixes of `length` tokens.

    dtypes: by default float32, bfloat16 and, on a GPU, float16, which the official script uses. Raises HarnessError if
    the target cannot be loaded, its context is too short, or it returns NaN.
    """
    targets: dict[str, Target] = {}
    by_default = ("float32", "float16", "bfloat16") if device.startswith("cuda") else ("float32", "bfloat16")
    for dtype in dtypes or by_default:
        targets[dtype] = load_target(path, device=device, dtype=dtype, threads=threads, suffix_length=length)
        # A target that does not fit or overflows raises a clear error here. `generate` would raise its own.
        targets[dtype].sample(prefixes[:2], Policy(top_k=1))
    is_gpu = next(iter(targets.values())).device.type == "cuda"
    plans = [
        (dtype, what, make)
        for dtype, target in targets.items()
        for what, make in _methods(target, length, trials, widths, keeps_logits=is_gpu)
    ]
    for dtype, _, make in plans:
        on_progress(f"warming up in {dtype}", 0, turns * len(plans))
        make(prefixes[:2])
    found: dict[tuple[str, str], list[_Turn]] = {(dtype, what): [] for dtype, what, _ in plans}
    for turn in range(turns):
        for number, (dtype, what, make) in enumerate(plans):
            on_progress(f"{what}, {dtype}", turn * len(plans) + number, turns * len(plans))
            found[dtype, what].append(_time_turn(targets[dtype], make, prefixes[turn::turns]))
    one = next(iter(targets.values()))
    return Measured(
        target=str(path),
        device=torch.cuda.get_device_name(one.device) if is_gpu else one.device.type,
        threads=torch.get_num_threads(),
        prefixes=len(prefixes),
        turns=turns,
        rows=[_row(what, dtype, turns_, found[dtype, OFFICIAL]) for (dtype, what), turns_ in found.items()],
        ratios=_ratios(found),
    )


def _methods(
    target: Target, length: int, trials: tuple[int, ...], widths: tuple[int, ...], *, keeps_logits: bool
) -> Iterator[tuple[str, Callable[[Tokens], int]]]:
    """Yield the name of each method and a function from prefixes to the number of suffixes that it generated."""
    model: PreTrainedModel = target.model

    def official(logits_to_host: bool) -> Callable[[Tokens], int]:
        return lambda prefixes: len(official_suffixes(model, prefixes, length=length, logits_to_host=logits_to_host)[0])

    def sample(count: int) -> Callable[[Tokens], int]:
        return lambda prefixes: int(target.sample(prefixes, _POLICY, trials=count, length=length).count.sum())

    def search(width: int) -> Callable[[Tokens], int]:
        return lambda prefixes: len(target.search(prefixes, width, length=length))

    yield OFFICIAL, official(True)
    if keeps_logits:
        yield ON_DEVICE, official(False)
    for count in trials:
        yield f"sample {count}", sample(count)
    for width in widths:
        yield f"search {width}", search(width)


def _time_turn(target: Target, make: Callable[[Tokens], int], prefixes: Tokens) -> _Turn:
    gc.collect()
    before = target.evaluations
    held = _begin_peak(target.device)
    started = time.perf_counter()
    suffixes = make(prefixes)
    seconds = time.perf_counter() - started
    evaluations = target.evaluations - before or suffixes * target.suffix_length
    return _Turn(seconds, suffixes, evaluations, max(0, _peak(target.device) - held))


def _begin_peak(device: torch.device) -> int:
    """Reset the peak and return the bytes in use now."""
    if device.type != "cuda":
        with suppress(OSError):
            # Reset the high-water mark to the memory resident now (proc(5), clear_refs).
            Path("/proc/self/clear_refs").write_text("5")
        return _resident("VmRSS")
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return _resident("VmHWM")


def _resident(which: str) -> int:
    """Return the process's resident bytes, now (VmRSS) or at most (VmHWM), 0 if /proc does not report them."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(which))
    return 0


def _row(what: str, dtype: str, turns: list[_Turn], official: list[_Turn]) -> Row:
    speeds = [turn.suffixes / turn.seconds for turn in turns]
    return Row(
        what=what,
        dtype=dtype,
        suffixes_a_second=statistics.median(speeds),
        lowest=min(speeds),
        highest=max(speeds),
        evaluations_a_suffix=sum(turn.evaluations for turn in turns) / sum(turn.suffixes for turn in turns),
        peak_bytes=max(turn.peak_bytes for turn in turns),
        times_official=_median_ratio(turns, official),
    )


def _median_ratio(turns: list[_Turn], official: list[_Turn]) -> float:
    return statistics.median(
        (turn.suffixes / turn.seconds) / (other.suffixes / other.seconds)
        for turn, other in zip(turns, official, strict=True)
    )


def _ratios(found: dict[tuple[str, str], list[_Turn]]) -> dict[str, float]:
    """Return rates relative to the official arithmetic, for the fastest dtype of each method and for float32."""
    dtypes = list(dict.fromkeys(dtype for dtype, _ in found))
    official = min((found[dtype, OFFICIAL] for dtype in dtypes), key=_median_seconds)
    ratios = {}
    for what in dict.fromkeys(what for _, what in found):
        if what in (OFFICIAL, ON_DEVICE):
            continue
        name = "ratio_" + what.replace(" ", "_")
        ratios[name] = _median_ratio(min((found[dtype, what] for dtype in dtypes), key=_median_seconds), official)
        if "float32" in dtypes:
            ratios[f"{name}_float32"] = _median_ratio(found["float32", what], found["float32", OFFICIAL])
    return ratios


def _median_seconds(turns: list[_Turn]) -> float:
    return statistics.median(turn.seconds / turn.suffixes for turn in turns)


def official_suffixes(
    model: PreTrainedModel, prefixes: Tokens, *, length: int, logits_to_host: bool = True
) -> tuple[Ints, Floats]:
    """Return one suffix for each of `prefixes` [prefixes, prefix length], and its mean loss over the official window.

    The arithmetic is that of baseline/simple_baseline.py in github.com/google-research/lm-extraction-benchmark: top-k
    10, then a second pass over prefix and suffix. logits_to_host: copy all logits to the CPU before computing the loss,
    as the script does. Returns [prefixes, length] int64 and [prefixes] float64.
    """
    suffixes, losses = [], []
    for first in range(0, len(prefixes), _BATCH):
        tokens = torch.as_tensor(prefixes[first : first + _BATCH].astype(np.int64), device=model.device)
        whole = tokens.shape[1] + length
        with torch.no_grad():
            # The script lets generate() infer the mask, which costs the same and prints a warning.
            generated = model.generate(  # type: ignore[operator]
                tokens,
                attention_mask=torch.ones_like(tokens),
                max_length=whole,
                do_sample=True,
                top_k=10,
                top_p=1,
                pad_token_id=0,
            )
            # If every suffix of a batch has ended early, the rest is padding.
            generated = F.pad(generated, (0, whole - generated.shape[1]))
            logits = model(generated, labels=generated).logits
            if logits_to_host:
                logits, generated = logits.cpu(), generated.cpu()
            logits = logits[:, :-1].reshape(-1, logits.shape[-1]).float()
            loss = F.cross_entropy(logits, generated[:, 1:].flatten(), reduction="none")
            loss = loss.reshape(-1, whole - 1)[:, -length - 1 : -1].mean(1)
        suffixes.append(generated[:, -length:].cpu().numpy())
        losses.append(loss.cpu().numpy().astype(np.float64))
    return np.concatenate(suffixes), np.concatenate(losses)
