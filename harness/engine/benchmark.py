"""How fast a target is sampled and searched here, beside the official arithmetic and what the machine can do.

One process, one turn after the other: in each turn everything is measured once, on prefixes of that turn's own, so that
a ratio compares neighbours in time. Rates and ratios are medians over turns, the roofline is of all turns together.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from harness.core.arrays import Tokens
from harness.core.policy import Policy
from harness.engine.loading import load_target
from harness.engine.official import BATCH, official_suffixes
from harness.engine.target import Target

TRIALS = (1, 10, 100)
WIDTHS = (1, 8, 32)
OFFICIAL = "official arithmetic"
ON_DEVICE = "official arithmetic, logits kept on the device"
_POLICY = Policy(top_k=10)
_RATE_SECONDS = 0.5
_LEAST_TIMES = 5


@dataclass(frozen=True)
class Row:
    """One way of making suffixes in one dtype, measured once a turn.

    suffixes_a_second: the median turn's, with the lowest and the highest; evaluations_a_suffix: next-token
    distributions asked of the model for each suffix; peak_bytes: the most memory that it took beyond what was held
    before, on the device, or in the process where that is the CPU; roofline: the least that a suffix can cost here;
    of_roofline: the fraction of its time that this is; times_official: the median over turns of its rate over that of
    the official arithmetic in the same dtype.
    """

    what: str
    dtype: str
    suffixes_a_second: float
    lowest: float
    highest: float
    evaluations_a_suffix: float
    peak_bytes: int
    roofline: "Roofline"
    of_roofline: float
    times_official: float


@dataclass(frozen=True)
class Roofline:
    """Microseconds of a suffix at the machine's measured rates (Williams et al. 2009): each part takes as long as its
    operations or its bytes do, whichever is longer.

    weights: products with the weights of the blocks; keys_and_values: attention, a prefix's keys and values read once a
    step where its branches share them; head: products with the output embedding, and their logits written.
    """

    weights: float
    keys_and_values: float
    head: float

    @property
    def whole(self) -> float:
        """One part after the other."""
        return self.weights + self.keys_and_values + self.head


@dataclass(frozen=True)
class Rates:
    """What the machine does in one dtype: operations a second in a large matrix product, bytes copied a second."""

    matmul: float
    copy: float


@dataclass(frozen=True)
class Measured:
    """Everything that was measured. ratios: `ratio_sample_100` and the like, over the official arithmetic."""

    target: str
    device: str
    threads: int
    prefixes: int
    turns: int
    rates: dict[str, Rates]
    rows: list[Row]
    ratios: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """One object, with the ratios at its top."""
        return self.ratios | {name: value for name, value in asdict(self).items() if name != "ratios"}


@dataclass(frozen=True)
class _Turn:
    seconds: float
    suffixes: int
    evaluations: int
    prefixes: int
    peak_bytes: int


OnProgress = Callable[[str, int, int], None]
"""Called with what is measured next, how many measurements are done, and how many there will be."""


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
    """Measure the target in the folder `path` on `prefixes` [prefixes, prefix length], suffixes of `length` tokens.

    dtypes: by default float32 and bfloat16, and on a GPU float16 too, which is the official script's. Raises
    HarnessError when the target cannot be loaded, its context is too short, or it answers NaN.
    """
    targets: dict[str, Target] = {}
    by_default = ("float32", "float16", "bfloat16") if device.startswith("cuda") else ("float32", "bfloat16")
    for dtype in dtypes or by_default:
        targets[dtype] = load_target(path, device=device, dtype=dtype, threads=threads, suffix_length=length)
        # What does not fit and what overflows is named here; `generate` would give its own words.
        targets[dtype].sample(prefixes[:2], Policy(top_k=1))
    is_gpu = next(iter(targets.values())).device.type == "cuda"
    plans = [
        (dtype, what, make)
        for dtype, target in targets.items()
        for what, make in _ways(target, length, trials, widths, keeps_logits=is_gpu)
    ]
    rates = {dtype: _rates(target) for dtype, target in targets.items()}
    for dtype, _, make in plans:
        on_progress(f"warming up in {dtype}", 0, turns * len(plans))
        make(prefixes[:2])
    found: dict[tuple[str, str], list[_Turn]] = {(dtype, what): [] for dtype, what, _ in plans}
    for turn in range(turns):
        for number, (dtype, what, make) in enumerate(plans):
            on_progress(f"{what}, {dtype}", turn * len(plans) + number, turns * len(plans))
            found[dtype, what].append(_timed(targets[dtype], make, prefixes[turn::turns]))
    rows = [
        _row(what, dtype, turns_, found[dtype, OFFICIAL], rates[dtype], targets[dtype], prefixes.shape[1], length)
        for (dtype, what), turns_ in found.items()
    ]
    one = next(iter(targets.values()))
    return Measured(
        target=str(path),
        device=torch.cuda.get_device_name(one.device) if is_gpu else one.device.type,
        threads=torch.get_num_threads(),
        prefixes=len(prefixes),
        turns=turns,
        rates=rates,
        rows=rows,
        ratios=_ratios(found),
    )


def _ways(
    target: Target, length: int, trials: tuple[int, ...], widths: tuple[int, ...], *, keeps_logits: bool
) -> Iterator[tuple[str, Callable[[Tokens], int]]]:
    """What is measured, and how: each takes prefixes and returns how many suffixes it has made of them."""
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


def _timed(target: Target, make: Callable[[Tokens], int], prefixes: Tokens) -> _Turn:
    gc.collect()
    before = target.evaluations
    held = _begin_peak(target.device)
    started = time.perf_counter()
    suffixes = make(prefixes)
    seconds = time.perf_counter() - started
    evaluations = target.evaluations - before or suffixes * target.suffix_length
    return _Turn(seconds, suffixes, evaluations, len(prefixes), max(0, _peak(target.device) - held))


def _begin_peak(device: torch.device) -> int:
    """Bytes held now; what is taken from here on counts for `_peak`."""
    if device.type != "cuda":
        with suppress(OSError):
            # Linux: the high-water mark falls to what is resident now (proc(5), clear_refs).
            Path("/proc/self/clear_refs").write_text("5")
        return _resident("VmRSS")
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return _resident("VmHWM")


def _resident(which: str) -> int:
    """Bytes of this process in memory, now (VmRSS) or at most (VmHWM); 0 where /proc does not say."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(which))
    return 0


def _row(
    what: str,
    dtype: str,
    turns: list[_Turn],
    official: list[_Turn],
    rates: Rates,
    target: Target,
    prefix_length: int,
    length: int,
) -> Row:
    speeds = [turn.suffixes / turn.seconds for turn in turns]
    suffixes = sum(turn.suffixes for turn in turns)
    roofline = _roofline(_work(what, turns, prefix_length, length), suffixes, rates, target)
    return Row(
        what=what,
        dtype=dtype,
        suffixes_a_second=statistics.median(speeds),
        lowest=min(speeds),
        highest=max(speeds),
        evaluations_a_suffix=sum(turn.evaluations for turn in turns) / suffixes,
        peak_bytes=max(turn.peak_bytes for turn in turns),
        roofline=roofline,
        of_roofline=1e-6 * roofline.whole * suffixes / sum(turn.seconds for turn in turns),
        times_official=_median_ratio(turns, official),
    )


@dataclass(frozen=True)
class _Work:
    """What is asked of a model: passes, at least; positions that pass its blocks; positions whose logits are taken;
    pairs of a position and one that it sees; positions whose keys and values are read."""

    passes: float
    positions: float
    logits: float
    seen: float
    read: float


def _work(what: str, turns: list[_Turn], prefix_length: int, length: int) -> _Work:
    """The work of all turns, of suffixes of `length` tokens behind prefixes of `prefix_length`."""
    whole = prefix_length + length
    suffixes, evaluations, prefixes = (
        sum(getattr(turn, name) for turn in turns) for name in ("suffixes", "evaluations", "prefixes")
    )
    if what in (OFFICIAL, ON_DEVICE):
        # Each suffix decodes alone, and all of prefix and suffix passes once more for the loss, with its logits.
        decoded = length * (prefix_length + length / 2)
        again = whole * whole / 2
        return _Work(
            passes=sum(-(-turn.suffixes // BATCH) for turn in turns) * (length + 1),
            positions=suffixes * 2 * whole,
            logits=suffixes * (length + whole),
            seen=suffixes * (decoded + again),
            read=suffixes * (decoded + whole),
        )
    own = evaluations * length / 2
    return _Work(
        passes=len(turns) * length,
        # The first evaluation of a prefix is the end of the pass over it.
        positions=evaluations + prefixes * (prefix_length - 1),
        logits=evaluations,
        seen=own + (evaluations - prefixes) * prefix_length + prefixes * prefix_length**2 / 2,
        read=own + prefixes * length * prefix_length,
    )


def _roofline(work: _Work, suffixes: int, rates: Rates, target: Target) -> Roofline:
    """A multiplication and an addition for each weight and position (Kaplan et al. 2020, section 2.1)."""
    config = target.model.config
    layers, width, itemsize = config.num_hidden_layers, config.hidden_size, target.dtype.itemsize
    block_weights, head_weights = 12 * layers * width * width, width * target.vocabulary
    logits = work.logits * target.vocabulary

    def microseconds(operations: float, bytes_: float) -> float:
        return float(1e6 * max(operations / rates.matmul, bytes_ / rates.copy) / suffixes)

    return Roofline(
        weights=microseconds(2 * work.positions * block_weights, work.passes * block_weights * itemsize),
        keys_and_values=microseconds(4 * layers * width * work.seen, 2 * layers * width * itemsize * work.read),
        head=microseconds(2 * work.logits * head_weights, (work.passes * head_weights + logits) * itemsize),
    )


def _median_ratio(turns: list[_Turn], official: list[_Turn]) -> float:
    return statistics.median(
        (turn.suffixes / turn.seconds) / (other.suffixes / other.seconds)
        for turn, other in zip(turns, official, strict=True)
    )


def _ratios(found: dict[tuple[str, str], list[_Turn]]) -> dict[str, float]:
    """Rates over the official arithmetic's: the fastest dtype of each, and both in float32."""
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


def _rates(target: Target) -> Rates:
    """The best of repeated products of square matrices, and of repeated copies of a table that no cache holds."""
    side = 8192 if target.device.type == "cuda" else 2048
    one, other = (torch.randn(side, side, device=target.device, dtype=target.dtype) for _ in range(2))
    table = torch.zeros((1 << 31 if target.device.type == "cuda" else 1 << 28), dtype=torch.uint8, device=target.device)
    copy = torch.empty_like(table)
    return Rates(
        matmul=2 * side**3 / _best_seconds(target.device, lambda: one @ other),
        copy=2 * table.numel() / _best_seconds(target.device, lambda: copy.copy_(table)),
    )


def _best_seconds(device: torch.device, work: Callable[[], Any]) -> float:
    work()
    best, ends, times = float("inf"), time.perf_counter() + _RATE_SECONDS, 0
    while times < _LEAST_TIMES or time.perf_counter() < ends:
        times += 1
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - started)
    return best
