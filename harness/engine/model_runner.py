"""The only module that calls the model: tokens in, hidden states out, and logits of a few states at a time.

It knows nothing about policies, suffixes or batches.
"""

import functools
import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from harness.core.arrays import Bools, Tokens
from harness.core.errors import HarnessError
from harness.core.policy import PrefixView
from harness.engine.agreement import STEPS, agree, compared_range, decoding_starts
from harness.engine.architectures import own_decoder
from harness.engine.branches import Branches, Logits, Placement
from harness.engine.cached import CachedBranches, UncachedBranches, new_cache
from harness.engine.decoder import Decoder
from harness.engine.kernels import HeadProduct, soft_cap
from harness.engine.memory import is_out_of_memory, non_finite_error, total_bytes
from harness.engine.pieces import Piece

_LOGIT_BYTES = {"cpu": 13 << 20, "cuda": 512 << 20}
"""Size of the float32 logits that exist at once: what a CPU's caches hold, and 2,600 rows of GPT-Neo on a GPU."""
_WHOLE_PREFIX = PrefixView()
_CHECKED_IDS = 256
"""The comparison of decoding uses ids below this, because models of several media give meaning to some of the last."""
_FAULTS = (RuntimeError, TypeError, AttributeError, ValueError, LookupError, NotImplementedError)
"""The errors of decoding code that does not fit a model. RuntimeError includes running out of memory."""

Warn = Callable[[str], None]

Result = TypeVar("Result")


def forward_pass(call: Callable[..., Result], rows: Tensor, *rest: Any, **inputs: Any) -> Result:
    """Return `call(rows, …)`, where `rows` has one entry per sequence. All model memory is allocated in here."""
    return call(rows, *rest, **inputs)


class ModelRunner:
    """A causal language model, split into a backbone that runs on every position and a head that runs on a few.

    If the output embedding applied to the backbone gives the model's logits, after the soft cap that the configuration
    names, states are hidden states. Otherwise (logit scales) states are the logits of the last positions. The
    constructor tests which of the two holds, and whether the engine's own decoder can replace the model's code.

    Decoding is compared with passes of the model's code without a cache, at the lengths that are decoded: rotary
    embeddings, windows and chunks change at some length. The first of these that agrees is used: the engine's own
    decoder, the model's code with cached keys and values, the model's code on the whole sequence at every step.

    Raises HarnessError for a model that the engine cannot run.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        pieces: Sequence[Piece] = (),
        *,
        vocabulary: int | None = None,
        bos_token: int | None = None,
        warn: Warn | None = None,
    ) -> None:
        """Wrap a model. vocabulary: the ids that it may predict, from 0 on, None for all that it has.

        pieces: those of a model that is split over devices.
        bos_token: the id that it sees before every prefix, None for none.
        warn: gets the sentence that decoding is slow, by default `warnings.warn`.
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
        config = model.config.get_text_config(decoder=True)
        self._logit_cap: float | None = getattr(config, "final_logit_softcapping", None)
        # Half of the memory stays for keys and values. What is free now would differ between executions.
        bytes_ = sum(parameter.nbytes for parameter in model.parameters())
        self._is_packed = self.device.type == "cpu" and 4 * bytes_ <= total_bytes()
        # The id that comes before every prefix, [0 or 1].
        self.bos = torch.tensor([] if bos_token is None else [bos_token], dtype=torch.long, device=self.device)
        self._warn = warn or functools.partial(warnings.warn, stacklevel=2)
        # Whether cached decoding agrees, by the first and the last length and the shift. Nothing is stored on disk:
        # the check takes seconds, and a file that attacks can write could disable it.
        self._agrees_at: dict[tuple[int, int, int], bool] = {}
        # Why the model cannot be decoded with a cache, "" if it can.
        self._cache_fault = ""
        self._warned: set[str] = set()
        # The time of these checks, which says nothing about the pace of the work.
        self.checking_seconds = 0.0
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

        States are [prefixes, keep, width]. The branches have room for `room` more tokens.
        view: how the tokens are view_tokens.
        is_shared: a prefix will have several branches.
        """
        tokens, prompt = self.view_tokens(tokens[:, view.start :], view)
        length = tokens.shape[1] + (0 if prompt is None else len(prompt))
        if not self.can_cache(length, room, view.shift):
            self._warn_of_slow_decoding(length, room)
            states = self.states(tokens, keep=keep, shift=view.shift, prompt=prompt)
            return states, UncachedBranches(self.states, tokens, prompt, view.shift)
        if self.decoder is not None:
            states, shared = forward_pass(self.decoder.begin, tokens, room, view.shift, prompt, is_shared=is_shared)
            return states[:, -keep:], shared
        return self._begin_cached(tokens, keep=keep, shift=view.shift, prompt=prompt)

    def _begin_cached(
        self, tokens: Tensor, *, keep: int, shift: int = 0, prompt: Tensor | None = None
    ) -> tuple[Tensor, Branches]:
        cache = self.new_cache()
        states = self.states(tokens, cache, keep=keep, shift=shift, prompt=prompt)
        return states, CachedBranches(self.states, cache, len(tokens), shift)

    def can_cache(self, length: int, room: int, shift: int = 0) -> bool:
        """Return True if decoding `room` tokens after `length` with a cache gives what the model gives without one.

        This is compared once for each range of these numbers. shift: the position of the first token.
        """
        if room < 1 or self._cache_fault:
            return room < 1
        first, last = compared_range(self.model.config, length, length + room, shift)
        key = (first, last, shift)
        if key not in self._agrees_at:
            began_at = time.monotonic()
            starts = decoding_starts(self.model.config, first, last, shift)
            agrees = all(self._decodes_from(start, min(STEPS, last - start), shift) for start in starts)
            self.checking_seconds += time.monotonic() - began_at
            if not agrees and self.decoder is not None:
                self.decoder = None
                self._agrees_at.clear()
                self._warn_of_decoder(f"its logits differ between {first} and {last} tokens")
                return self.can_cache(length, room, shift)
            self._agrees_at[key] = agrees
        return self._agrees_at[key]

    @property
    def decoding(self) -> str:
        """The way in which suffixes are decoded: the engine's decoder, the model's code, or whole sequences."""
        if self._cache_fault or not all(self._agrees_at.values()):
            return "whole sequences"
        return "the model's code" if self.decoder is None else "the engine's decoder"

    def _decodes_from(self, start: int, steps: int, shift: int) -> bool:
        """Return True if decoding `steps` tokens after `start` gives the logits of a pass of the whole sequence."""
        generator = torch.Generator().manual_seed(start)
        made = torch.randint(min(self.vocabulary, _CHECKED_IDS), (2, start + steps), generator=generator)
        made[1, :start] = made[0, :start]
        tokens = made.to(self.device)  # [2, start + steps], one prefix with two suffixes
        try:
            branches: Branches
            if self.decoder is not None:
                _, branches = forward_pass(self.decoder.begin, tokens[:1, :start], steps, shift, None)
            else:
                _, branches = self._begin_cached(tokens[:1, :start], keep=1, shift=shift)
            parents, owner = np.zeros(2, np.int64), np.zeros(2, np.int64)
            for position in range(start, start + steps):
                states = self.advance(branches, tokens[:, position], Placement.of(parents, owner, self.device))
                parents = np.arange(2)
        except _FAULTS as error:
            if is_out_of_memory(error):
                raise
            return False
        # This pass takes most of the time. The constructor has compared several branches, so one is enough.
        expected = self.logits(self.states(tokens[1:], keep=1, shift=shift, uses_decoder=False)[:, 0])
        # Numbers that are not finite are an error of the call that gets them.
        return not bool(torch.isfinite(expected).all()) or agree(self.logits(states[1:]), expected, self.dtype)

    def _warn_of_slow_decoding(self, length: int, room: int) -> None:
        reason = self._cache_fault or f"between {length} and {length + room} tokens its logits with a cache differ"
        if reason not in self._warned:
            self._warned.add(reason)
            self._warn(
                f"this {_kind(self.model)} reads the whole sequence again for each token ({reason}): sampling and "
                "search are correct and many times slower."
            )

    def view_tokens(self, tokens: Tensor, view: PrefixView) -> tuple[Tensor, Tensor | None]:
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
        uses_decoder: bool = True,
    ) -> Tensor:
        """Return the states of the last `keep` of `tokens` [rows, new] int64, [rows, keep, width].

        cache: holds the tokens before them and is extended by them.
        shift: the number of empty positions before everything.
        prompt: embeddings [tokens, width] before the tokens.
        uses_decoder: by the engine's decoder if there is one, else by the model's own code.
        """
        if uses_decoder and self.decoder is not None and cache is None:
            return forward_pass(self.decoder.states, tokens, shift, prompt)[:, -keep:]
        # Models without keys and values have no such argument.
        use: dict[str, Any] = {"use_cache": False} if cache is None else {"past_key_values": cache, "use_cache": True}
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
            states = self.cap_logits(forward_pass(self.head_product or self.head, states))
        return states[..., : self.vocabulary].float()

    def cap_logits(self, logits: Tensor) -> Tensor:
        """Return logits from the results of the head."""
        return logits if self._logit_cap is None else soft_cap(logits, self._logit_cap)

    def logit_blocks(self, states: Tensor, *, multiple: int = 1) -> Iterator[Logits]:
        """Yield next-token logits of states [rows, width], some rows at a time.

        The number of rows of a block is a multiple of `multiple`. The next block may overwrite it.
        """
        at_once = multiple * max(1, self.logit_bytes // (4 * self.vocabulary * multiple))
        for first in range(0, len(states), at_once):
            scores = self.logits(states[first : first + at_once])
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
        whole, _ = self.view_tokens(tokens, _WHOLE_PREFIX)
        try:
            expected = forward_pass(self.model, whole, use_cache=False).logits[:, -6:].float()  # [2, 6, vocabulary]
            expected = expected[..., :vocabulary]
            self.vocabulary = int(expected.shape[-1])
            if not bool(torch.isfinite(expected).all()):
                problem = "NaN" if bool(torch.isnan(expected).any()) else "infinity"
                raise non_finite_error(f"this {_kind(self.model)} model returns {problem}", self.dtype)
            self._require_causal(whole, expected)
            self.backbone, self.head = _backbone_and_head(self.model)
            if self.head is not None and not self._is_head_last(tokens):
                self.backbone = self.head = None
            if isinstance(self.head, nn.Linear):
                self.head_product = HeadProduct(self.head, self.vocabulary, is_packed=self._is_packed)
            if self.head is None and "logits_to_keep" not in inspect.signature(self.model.forward).parameters:
                raise HarnessError(
                    f"{_kind(self.model)} models cannot be run: attacks need the logits of selected positions, and "
                    "forward() has no logits_to_keep. Choose another model."
                )
            expected = expected[[1, 0, 1], 3:]
            if not self._try_decoder(tokens, expected):
                self._cache_fault = self._fault_of_cache(tokens, expected)
        except _FAULTS as error:
            if is_out_of_memory(error) or isinstance(error, RuntimeError):
                raise
            raise HarnessError(
                f"{_kind(self.model)} models cannot be run by the engine ({error}). Choose another model."
            ) from error

    def _require_causal(self, tokens: Tensor, expected: Tensor) -> None:
        """Raise HarnessError if the logits [rows, length, vocabulary] of a token depend on later tokens."""
        half = expected.shape[1] // 2
        changed = tokens.clone()
        changed[:, half - expected.shape[1] :] = 3 - changed[:, half - expected.shape[1] :]
        logits = forward_pass(self.model, changed, use_cache=False).logits[:, -expected.shape[1] :].float()
        if not agree(logits[:, :half, : expected.shape[-1]], expected[:, :half], self.dtype):
            raise HarnessError(
                f"{_kind(self.model)} models cannot be run: the prediction of a token depends on later tokens, as in "
                "an encoder. Choose a causal language model."
            )

    def _fault_of_cache(self, tokens: Tensor, expected: Tensor) -> str:
        """Return why the model cannot be decoded with its own cache, "" if it can."""
        try:
            return (
                "" if agree(self._branched_logits(tokens), expected, self.dtype) else "its logits with a cache differ"
            )
        except _FAULTS as error:
            if is_out_of_memory(error):
                raise
            return "its cache cannot hold several suffixes of a prefix"

    def _is_head_last(self, tokens: Tensor) -> bool:
        """Return True if the head and the cap map the backbone's states to the model's logits, without another step.

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
        if len(seen) != 1:
            return False
        head_input, head_output = seen[0]
        return torch.equal(self.cap_logits(head_output), logits) and agree(states, head_input, self.dtype)

    def _try_decoder(self, tokens: Tensor, expected: Tensor) -> bool:
        """Use the engine's own decoder if there is one and it gives the model's logits [3, 3, vocabulary].

        Returns True if it is used. Otherwise the user is warned.
        """
        reason = "it does not know this architecture"
        try:
            if self.head is not None:
                self.decoder = own_decoder(self.model, self._pieces, is_packed=self._is_packed)
            if self.decoder is not None:
                if agree(self._branched_logits(tokens), expected, self.dtype):
                    return True
                reason = "its logits differ"
        except _FAULTS as error:
            # A kernel that is missing on this GPU or in this torch costs only speed.
            if is_out_of_memory(error):
                raise
            reason = f"{type(error).__name__}: {error}"
        self.decoder = None
        self._warn_of_decoder(reason)
        return False

    def _warn_of_decoder(self, reason: str) -> None:
        self._warn(f"the engine's own decoder is not used for this {_kind(self.model)} ({reason}); decoding is slower.")

    def _branched_logits(self, tokens: Tensor) -> Tensor:
        """Return logits [3, 3, vocabulary] of the last three of tokens [2, 6], as branches 1, 0 and 1."""
        _, branches = self.begin(tokens[:, :3], room=3, keep=1)
        owner = parents = np.array([1, 0, 1])
        logits = []
        for position in range(3, 6):
            placement = Placement.of(parents, owner, self.device)
            logits.append(self.logits(self.advance(branches, tokens[[1, 0, 1], position], placement)))
            parents = np.arange(3)
        return torch.stack(logits, dim=1)


def _run(inputs: Tensor, module: nn.Module, **use: Any) -> Any:
    """Run `module` on token ids [rows, new] or on embeddings [rows, new, width]."""
    return module(**{"inputs_embeds" if inputs.is_floating_point() else "input_ids": inputs}, **use)


def _backbone_and_head(model: PreTrainedModel) -> tuple[nn.Module | None, nn.Module | None]:
    """Return backbone and output embedding, or None twice if the model has no such parts."""
    backbone, head = model.base_model, model.get_output_embeddings()  # type: ignore[no-untyped-call]
    return (backbone, head) if backbone is not model and isinstance(head, nn.Module) else (None, None)


def _kind(model: PreTrainedModel) -> str:
    return type(model).__name__
