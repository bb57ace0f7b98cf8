"""The only module that calls the model: tokens in, hidden states out, and logits of a few states at a time.

It knows nothing of policies, suffixes or batches.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from harness.core.arrays import Bools, Tokens
from harness.core.errors import HarnessError
from harness.core.view import PrefixView
from harness.engine.architectures import own_decoder
from harness.engine.branches import Branches, Logits, Placement
from harness.engine.decoder import Decoder
from harness.engine.kernels import Product
from harness.engine.memory import is_out_of_memory, non_finite_error, stored_positions, total_bytes
from harness.engine.pieces import Piece

_LOGIT_BYTES = {"cpu": 13 << 20, "cuda": 512 << 20}
"""Size of the float32 logits that exist at once: what a CPU's caches hold, and 2,600 rows of GPT-Neo on a GPU."""
_ALIGNED = 64
"""A GPU multiplies faster by a vocabulary that is padded to a multiple of this."""
_WHOLE_PREFIX = PrefixView()

Result = TypeVar("Result")


def forward_pass(call: Callable[..., Result], rows: Tensor, *rest: Any, **inputs: Any) -> Result:
    """Return `call(rows, …)`, where `rows` has one entry per sequence. All model memory is allocated in here."""
    return call(rows, *rest, **inputs)


class ModelRunner:
    """A causal language model, split into a backbone that runs on every position and a head that runs on a few.

    If the output embedding applied to the backbone gives the model's logits, states are hidden states. Otherwise (soft
    caps, logit scales) states are the logits of the last positions. The constructor tests which of the two holds, and
    whether the engine's own decoder can replace the model's code.

    Raises HarnessError for a model that the engine cannot run.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        pieces: Sequence[Piece] = (),
        *,
        vocabulary: int | None = None,
        bos_token: int | None = None,
    ) -> None:
        """Wrap a model. vocabulary: the ids that it may predict, from 0 on, None for all that it has.

        pieces: those of a model that is split over devices. bos_token: the id that it sees before every prefix, None
        for none.
        """
        self.model = model
        self._pieces = pieces
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.logit_bytes = _LOGIT_BYTES.get(self.device.type, 64 << 20)
        self.backbone: nn.Module | None = None
        self.head: nn.Module | None = None
        self.decoder: Decoder | None = None
        self.head_product: HeadProduct | None = None
        # Half of the memory stays for keys and values. What is free now would differ between executions.
        bytes_ = sum(parameter.nbytes for parameter in model.parameters())
        self._is_packed = self.device.type == "cpu" and 4 * bytes_ <= total_bytes()
        # The id that comes before every prefix, [0 or 1].
        self.bos = torch.tensor([] if bos_token is None else [bos_token], dtype=torch.long, device=self.device)
        with torch.inference_mode():
            self._probe(vocabulary)

    @property
    def shares_prefixes(self) -> bool:
        """True if the keys and values of a prefix are stored once for all its branches."""
        return self.decoder is not None

    def begin(
        self, tokens: Tensor, *, room: int, keep: int, view: PrefixView = _WHOLE_PREFIX, is_shared: bool = True
    ) -> tuple[Tensor, Branches]:
        """Return the states of the last `keep` of tokens [prefixes, length] int64, and branches.

        States are [prefixes, keep, width]. The branches have room for `room` more tokens. view: how the tokens are
        shown. is_shared: a prefix will have several branches.
        """
        tokens, prompt = self.shown(tokens[:, view.start :], view)
        if self.decoder is not None:
            states, branches = forward_pass(self.decoder.begin, tokens, room, view.shift, prompt, is_shared=is_shared)
            return states[:, -keep:], branches
        cache = self.new_cache()
        states = self.states(tokens, cache, keep=keep, shift=view.shift, prompt=prompt)
        return states, CachedBranches(self, cache, len(tokens), view.shift)

    def shown(self, tokens: Tensor, view: PrefixView) -> tuple[Tensor, Tensor | None]:
        """Return tokens [rows, length] of prefixes as the model sees them in a view, and embeddings before them.

        The bos token comes before all others, also before a soft prompt. Rows that all begin with it have it once.
        """
        if view.prompt is None:
            if self.begin_with_bos(tokens):
                return tokens, None
            return torch.cat([self.bos.expand(len(tokens), -1), tokens], dim=1), None
        prompt = torch.as_tensor(view.prompt, dtype=self.dtype, device=self.device)
        return tokens[:, 1:] if self.begin_with_bos(tokens) else tokens, self.after_bos(prompt)

    def has_bos(self, prefixes: Tokens) -> Bools:
        """Return which prefixes [prefixes, length] begin with the bos token themselves, [prefixes, 1]."""
        return np.isin(prefixes[:, :1], self.bos.cpu().numpy())

    def begin_with_bos(self, tokens: Tensor) -> bool:
        """Return True if all rows of tokens [rows, length] begin with the bos token themselves."""
        return len(self.bos) > 0 and bool((tokens[:, 0] == self.bos).all())

    def after_bos(self, prompt: Tensor) -> Tensor:
        """Return a soft prompt [tokens, width] after the embedding of the bos token, if there is one."""
        with torch.no_grad():
            bos = self.model.get_input_embeddings()(self.bos)
        return torch.cat([bos, prompt.to(bos.dtype)])

    def advance(self, branches: Branches, tokens: Tensor, placement: Placement) -> Tensor:
        """Append `tokens` [rows] int64 to the branches in their new rows and return their new states, [rows, width]."""
        return forward_pass(branches.advance, tokens, placement)

    def states(
        self,
        tokens: Tensor,
        cache: DynamicCache | None = None,
        *,
        keep: int,
        shift: int = 0,
        prompt: Tensor | None = None,
    ) -> Tensor:
        """Return the states of the last `keep` of `tokens` [rows, new] int64, [rows, keep, width].

        cache: holds the tokens before them and is extended by them. shift: the number of empty positions before
        everything. prompt: embeddings [tokens, width] before the tokens.
        """
        if self.decoder is not None and cache is None:
            return forward_pass(self.decoder.states, tokens, shift, prompt)[:, -keep:]
        use: dict[str, Any] = {"past_key_values": cache, "use_cache": cache is not None}
        if shift:
            first = shift + (cache.get_seq_length() if cache is not None else 0)
            length = tokens.shape[1] + (0 if prompt is None else len(prompt))
            use["position_ids"] = torch.arange(first, first + length, device=self.device).unsqueeze(0)
        if prompt is not None:
            embeddings = self.model.get_input_embeddings()(tokens)
            tokens = torch.cat([prompt.expand(len(tokens), -1, -1), embeddings], dim=1)
        if self.backbone is None:
            states: Tensor = forward_pass(_run, tokens, self.model, **use, logits_to_keep=keep).logits
        else:
            states = forward_pass(_run, tokens, self.backbone, **use).last_hidden_state[:, -keep:]
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Return next-token logits of states [..., width], float32 [..., vocabulary]."""
        if self.head is not None:
            states = forward_pass(self.head_product or self.head, states)
        return states[..., : self.vocabulary].float()

    def logit_blocks(self, states: Tensor, *, multiple: int = 1) -> Iterator[Logits]:
        """Yield next-token logits of states [rows, width], some rows at a time.

        The number of rows of a block is a multiple of `multiple`. The next block may overwrite it.
        """
        some = multiple * max(1, self.logit_bytes // (4 * self.vocabulary * multiple))
        for first in range(0, len(states), some):
            scores = self.logits(states[first : first + some])
            yield Logits(slice(first, first + len(scores)), scores)

    def new_cache(self) -> DynamicCache:
        """Return an empty key/value cache."""
        return new_cache(self.model)

    def positions_at_once(self, rows: int) -> int | None:
        """Return how many positions of `rows` sequences may have states at once, None for any number."""
        return None if self.head is not None else max(1, self.logit_bytes // (4 * self.vocabulary * rows))

    def _probe(self, vocabulary: int | None) -> None:
        """Find head and vocabulary, and check that cached, branched decoding gives the model's own logits."""
        tokens = torch.tensor([[0, 1, 2, 1, 0, 1], [1, 1, 0, 2, 2, 0]], device=self.device)  # [2, 6]
        whole, _ = self.shown(tokens, _WHOLE_PREFIX)
        try:
            wanted = forward_pass(self.model, whole, use_cache=False).logits[:, -6:].float()  # [2, 6, vocabulary]
            wanted = wanted[..., :vocabulary]
            self.vocabulary = int(wanted.shape[-1])
            if not bool(torch.isfinite(wanted).all()):
                what = "NaN" if bool(torch.isnan(wanted).any()) else "infinity"
                raise non_finite_error(f"this {_kind(self.model)} model returns {what}", self.dtype)
            self.backbone, self.head = _split(self.model)
            if self.head is not None and not self._is_head_last(tokens):
                self.backbone = self.head = None
            if isinstance(self.head, nn.Linear):
                self.head_product = HeadProduct(self.head, self.vocabulary, is_packed=self._is_packed)
            if self.head is None and "logits_to_keep" not in inspect.signature(self.model.forward).parameters:
                raise HarnessError(
                    f"{_kind(self.model)} models cannot be run: attacks need the logits of selected positions, and "
                    "forward() has no logits_to_keep. Choose another model."
                )
            wanted = wanted[[1, 0, 1], 3:]
            is_the_same = self._try_decoder(tokens, wanted) or self._agree(self._branched_logits(tokens), wanted)
        except (TypeError, ValueError, AttributeError, KeyError, IndexError, NotImplementedError) as error:
            raise HarnessError(
                f"{_kind(self.model)} models cannot be run by the engine ({error}). Choose another model."
            ) from error
        if not is_the_same:
            raise HarnessError(
                f"{_kind(self.model)} models cannot be run: they decode differently with cached keys and values. "
                "Choose another model."
            )

    def _is_head_last(self, tokens: Tensor) -> bool:
        """Return True if the head maps the backbone's states to the model's logits, without a cap or scale around it.

        The head's input and output within the model are compared, because in 16 bits a cap is as small as rounding.
        """
        assert self.head is not None
        seen: list[tuple[Tensor, Tensor]] = []
        hook = self.head.register_forward_hook(lambda head, inputs, output: seen.append((inputs[0], output)))
        try:
            logits = forward_pass(self.model, tokens, use_cache=False).logits
            states = self.states(tokens, keep=tokens.shape[1])
        finally:
            hook.remove()
        return len(seen) == 1 and torch.equal(seen[0][1], logits) and self._agree(states, seen[0][0])

    def _try_decoder(self, tokens: Tensor, wanted: Tensor) -> bool:
        """Use the engine's own decoder if there is one and it gives the model's logits [3, 3, vocabulary].

        Returns True if it is used. Otherwise the user is warned.
        """
        reason = "it does not know this architecture"
        try:
            if self.head is not None:
                self.decoder = own_decoder(self.model, self._pieces, is_packed=self._is_packed)
            if self.decoder is not None:
                if self._agree(self._branched_logits(tokens), wanted):
                    return True
                reason = "its logits differ"
        except (RuntimeError, TypeError, AttributeError, ValueError) as error:
            # A kernel that is missing on this GPU or in this torch costs only speed.
            if is_out_of_memory(error):
                raise
            reason = f"{type(error).__name__}: {error}"
        self.decoder = None
        warnings.warn(
            f"the engine's own decoder is not used for this {_kind(self.model)} ({reason}); decoding is slower.",
            stacklevel=2,
        )
        return False

    def _agree(self, found: Tensor, wanted: Tensor) -> bool:
        """Return True if two tensors of states or logits are equal but for rounding, relative to their range.

        The largest difference counts in float32. In 16 bits it can be 2 % of the range by rounding alone, so the root
        mean square counts, which rounding leaves below 1 %.
        """
        if found.shape != wanted.shape:
            return False
        difference = (found - wanted).float()
        bound = max(1e-3, float(wanted.max() - wanted.min()))
        if self.dtype is torch.float32:
            return bool(difference.abs().max() <= 1e-3 * bound)
        return bool(difference.square().mean().sqrt() <= 1e-2 * bound)

    def _branched_logits(self, tokens: Tensor) -> Tensor:
        """Return logits [3, 3, vocabulary] of the last three of tokens [2, 6], as branches 1, 0 and 1."""
        _, branches = self.begin(tokens[:, :3], room=3, keep=1)
        owner = parents = np.array([1, 0, 1])
        found = []
        for position in range(3, 6):
            placement = Placement.of(parents, owner, self.device)
            found.append(self.logits(self.advance(branches, tokens[[1, 0, 1], position], placement)))
            parents = np.arange(3)
        return torch.stack(found, dim=1)


class HeadProduct:
    """The product of states with an output embedding, in float32 where a GPU computes it without a further pass."""

    def __init__(self, head: nn.Linear, vocabulary: int, *, is_packed: bool) -> None:
        """Prepare the product for the first `vocabulary` rows of the head's weights."""
        self._vocabulary = vocabulary
        weight = head.weight[:vocabulary]
        self._bias = None if head.bias is None else head.bias[:vocabulary]
        self.product = Product(weight, self._bias, is_packed=is_packed)
        self._padded: Tensor | None = None
        if weight.device.type == "cuda" and weight.dtype != torch.float32:
            padding = -vocabulary % _ALIGNED
            self._padded = (F.pad(weight.detach(), (0, 0, 0, padding)) if padding else weight.detach()).T

    def __call__(self, states: Tensor) -> Tensor:
        if self._padded is None:
            return self.product(states)
        # 16 bits would make one row of seven tie at the cut of top-k 10.
        found = torch.mm(states.flatten(0, -2), self._padded, out_dtype=torch.float32)[:, : self._vocabulary]
        found = found if self._bias is None else found + self._bias
        return found.view(*states.shape[:-1], -1)


class CachedBranches:
    """Branches of any model of `transformers`, each with its own copy of keys and values."""

    def __init__(self, runner: ModelRunner, cache: DynamicCache, prefixes: int, shift: int) -> None:
        self._runner = runner
        self._cache = cache
        self._rows = prefixes
        self._shift = shift

    def advance(self, tokens: Tensor, placement: Placement) -> Tensor:
        self.select(placement)
        return self._runner.states(tokens.unsqueeze(1), self._cache, keep=1, shift=self._shift)[:, 0]

    def select(self, placement: Placement) -> None:
        if len(placement.moved) or len(placement) != self._rows:
            layers: list[Any] = self._cache.layers
            for layer in layers:
                # The blocks of a model that is split are on several devices.
                layer.batch_select_indices(placement.parents.to(getattr(layer, "device", self._runner.device)))
            self._rows = len(placement)


class PreallocatedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values [rows, heads, positions, width] of one layer, with spare capacity after the last position.

    The base class copies everything at each new token.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append [rows, heads, new, width] of each and return all positions so far as views."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length = self.get_seq_length()
        end = length + key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < end:
            self._buffers = (
                _preallocate(self.keys if length else None, key_states, end),
                _preallocate(self.values if length else None, value_states, end),
            )
        keys, values = self._buffers
        keys[..., length:end, :] = key_states
        values[..., length:end, :] = value_states
        self.keys, self.values = keys[..., :end, :], values[..., :end, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the rows at `indices`, each as often as it occurs."""
        super().batch_select_indices(indices)
        self._buffers = None


def new_cache(model: PreTrainedModel) -> DynamicCache:
    """Return an empty cache for `model` in which plain layers have spare capacity and other kinds are unchanged."""
    cache = DynamicCache(config=model.config)
    cache.layers = [PreallocatedLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def _preallocate(filled: Tensor | None, new: Tensor, positions: int) -> Tensor:
    *rows_and_heads, _, width = new.shape
    buffer = torch.empty(*rows_and_heads, stored_positions(positions), width, dtype=new.dtype, device=new.device)
    if filled is not None:
        buffer[..., : filled.shape[-2], :] = filled
    return buffer


def _run(inputs: Tensor, module: nn.Module, **use: Any) -> Any:
    """Run `module` on token ids [rows, new] or on embeddings [rows, new, width]."""
    return module(**{"inputs_embeds" if inputs.is_floating_point() else "input_ids": inputs}, **use)


def _split(model: PreTrainedModel) -> tuple[nn.Module | None, nn.Module | None]:
    """Return backbone and output embedding, or None twice if the model has no such parts."""
    backbone, head = model.base_model, model.get_output_embeddings()  # type: ignore[no-untyped-call]
    return (backbone, head) if backbone is not model and isinstance(head, nn.Module) else (None, None)


def _kind(model: PreTrainedModel) -> str:
    return type(model).__name__
