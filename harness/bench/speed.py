"""The speed of sampling and searching, relative to the official arithmetic and to the hardware's limits.

Everything runs in one process. Each turn measures each method once, on prefixes of its own, so that a ratio compares
measurements that are close in time. Rates and ratios are medians over turns; the roofline is that of all turns
together.
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

from harness.bench.official import BATCH, official_suffixes
from harness.core.arrays import Tokens
from harness.core.policy import Policy
from harness.engine.loading import load_target
from harness.engine.memory import key_value_bytes
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
    """The measurements of one method in one dtype, once per turn.

    suffixes_a_second: the median over turns, with lowest and highest. evaluations_a_suffix: next-token distributions
    computed per suffix. peak_bytes: the maximum additional memory, on the device or, for a CPU, in the process.
    roofline: the minimum cost of a suffix on this machine. of_roofline: this minimum as a fraction of the measured
    time. times_official: the median over turns of the rate relative to the official arithmetic in the same dtype.
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
    """The minimum microseconds of a suffix at the machine's measured rates (Williams et al. 2009).

    Each part takes the time of its operations or of its bytes, whichever is longer. weights: products with the weights
    of the blocks. keys_and_values: attention; branches that share a prefix read its keys and values once per step.
    head: products with the output embedding, and writing the logits.
    """

    weights: float
    keys_and_values: float
    head: float

    @property
    def whole(self) -> float:
        """The sum of the three parts."""
        return self.weights + self.keys_and_values + self.head


@dataclass(frozen=True)
class Rates:
    """The machine's rates in one dtype: operations per second in a matrix product, and bytes copied per second."""

    matmul: float
    copy: float


@dataclass(frozen=True)
class Measured:
    """All measurements. ratios: `ratio_sample_100` and the like, relative to the official arithmetic."""

    target: str
    device: str
    threads: int
    prefixes: int
    turns: int
    rates: dict[str, Rates]
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
    prefixes: int
    peak_bytes: int


OnProgress = Callable[[str, int, int], None]
"""Called with the name of the next measurement, the number of completed measurements, and their total."""


def measure(
    path: Path,
    prefixes: Tokens,
    *,
    length: int,
    device: str,
    vocabulary: int | None = None,
    dtypes: tuple[str, ...] | None = None,
    threads: int | None = None,
    turns: int = 4,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Measured:
    """Measure the target in the folder `path` on `prefixes` [prefixes, prefix length] and suffixes of `length` tokens.

    vocabulary: the tokens of the round, None for all that the target predicts. dtypes: by default float32, bfloat16
    and, on a GPU, float16, which the official script uses. Raises HarnessError if the target cannot be loaded, its
    context is too short, or it returns NaN.
    """
    targets: dict[str, Target] = {}
    by_default = ("float32", "float16", "bfloat16") if device.startswith("cuda") else ("float32", "bfloat16")
    for dtype in dtypes or by_default:
        targets[dtype] = load_target(
            path, device=device, dtype=dtype, threads=threads, suffix_length=length, vocabulary=vocabulary
        )
        # A target that does not fit or overflows raises a clear error here. `generate` would raise its own.
        targets[dtype].sample(prefixes[:2], Policy(top_k=1))
    is_gpu = next(iter(targets.values())).device.type == "cuda"
    plans = [
        (dtype, what, make)
        for dtype, target in targets.items()
        for what, make in _methods(target, length, keeps_logits=is_gpu)
    ]
    rates = {dtype: _rates(target) for dtype, target in targets.items()}
    for dtype, _, make in plans:
        on_progress(f"warming up in {dtype}", 0, turns * len(plans))
        make(prefixes[:2])
    found: dict[tuple[str, str], list[_Turn]] = {(dtype, what): [] for dtype, what, _ in plans}
    for turn in range(turns):
        for number, (dtype, what, make) in enumerate(plans):
            on_progress(f"{what}, {dtype}", turn * len(plans) + number, turns * len(plans))
            found[dtype, what].append(_time_turn(targets[dtype], make, prefixes[turn::turns]))
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


def _methods(target: Target, length: int, *, keeps_logits: bool) -> Iterator[tuple[str, Callable[[Tokens], int]]]:
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
    for count in TRIALS:
        yield f"sample {count}", sample(count)
    for width in WIDTHS:
        yield f"search {width}", search(width)


def _time_turn(target: Target, make: Callable[[Tokens], int], prefixes: Tokens) -> _Turn:
    gc.collect()
    before = target.evaluations
    held = _begin_peak(target.device)
    started = time.perf_counter()
    suffixes = make(prefixes)
    seconds = time.perf_counter() - started
    evaluations = target.evaluations - before or suffixes * target.suffix_length
    return _Turn(seconds, suffixes, evaluations, len(prefixes), max(0, _peak(target.device) - held))


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
    work = _work(what, turns, prefix_length, length)
    roofline = _roofline(work, suffixes, rates, target.model, dtype=target.dtype, vocabulary=target.vocabulary)
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
    """The work of a model.

    passes: forward passes, at least. positions: positions that go through the blocks. logits: positions whose logits
    are computed. seen: pairs of a position and one that it attends to. read: positions whose keys and values are read.
    """

    passes: float
    positions: float
    logits: float
    seen: float
    read: float


def _work(what: str, turns: list[_Turn], prefix_length: int, length: int) -> _Work:
    """Return the work of all turns, for suffixes of `length` tokens after prefixes of `prefix_length`."""
    whole = prefix_length + length
    suffixes, evaluations, prefixes = (
        sum(getattr(turn, name) for turn in turns) for name in ("suffixes", "evaluations", "prefixes")
    )
    if what in (OFFICIAL, ON_DEVICE):
        # Each suffix is decoded alone. Then prefix and suffix go through the model once more for the loss.
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
        # The first evaluation of a prefix is the end of the pass over the prefix.
        positions=evaluations + prefixes * (prefix_length - 1),
        logits=evaluations,
        seen=own + (evaluations - prefixes) * prefix_length + prefixes * prefix_length**2 / 2,
        read=own + prefixes * length * prefix_length,
    )


def minimum_seconds(what: str, model: PreTrainedModel, rates: Rates, *, dtype: torch.dtype, length: int) -> float:
    """Return the roofline of one suffix in a full batch of the official arithmetic `what`, in seconds.

    length: tokens of the prefix, and of the suffix. Only the shapes of the model are read.
    """
    turn = _Turn(seconds=0.0, suffixes=BATCH, evaluations=BATCH * length, prefixes=BATCH, peak_bytes=0)
    work = _work(what, [turn], length, length)
    vocabulary = model.config.get_text_config(decoder=True).vocab_size
    return 1e-6 * _roofline(work, BATCH, rates, model, dtype=dtype, vocabulary=vocabulary).whole


def _roofline(
    work: _Work, suffixes: int, rates: Rates, model: PreTrainedModel, *, dtype: torch.dtype, vocabulary: int
) -> Roofline:
    """Return the roofline, with two operations per weight and position (Kaplan et al. 2020, section 2.1)."""
    config = model.config.get_text_config(decoder=True)
    layers, width, itemsize = config.num_hidden_layers, config.hidden_size, dtype.itemsize
    heads_width = config.num_attention_heads * (
        getattr(config, "head_dim", None) or width // config.num_attention_heads
    )
    block_weights, head_weights = _block_weights(model), width * vocabulary
    logits = work.logits * vocabulary

    def microseconds(operations: float, bytes_: float) -> float:
        return float(1e6 * max(operations / rates.matmul, bytes_ / rates.copy) / suffixes)

    return Roofline(
        weights=microseconds(2 * work.positions * block_weights, work.passes * block_weights * itemsize),
        keys_and_values=microseconds(
            4 * layers * heads_width * work.seen, key_value_bytes(config, itemsize=itemsize) * work.read
        ),
        head=microseconds(2 * work.logits * head_weights, (work.passes * head_weights + logits) * itemsize),
    )


def _block_weights(model: PreTrainedModel) -> int:
    """Return the number of weights of a dense model's blocks, which each position is multiplied by."""
    modules = [module for module in model.base_model.modules() if not isinstance(module, torch.nn.Embedding)]
    weights = [getattr(module, "weight", None) for module in modules]
    return sum(weight.numel() for weight in weights if isinstance(weight, torch.Tensor) and weight.ndim == 2)


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


def _rates(target: Target) -> Rates:
    """Return the best rates of repeated products of square matrices and of copies of a table larger than any cache."""
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
