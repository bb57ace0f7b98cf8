"""The model as the engine sees it: tokens in, states out, and a head that turns a few states at a time into logits.

The one place that calls the model. It knows nothing of policies, suffixes or batches.
"""

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from harness.core.errors import HarnessError
from harness.target.cache import branched, fresh_cache

_LOGIT_BYTES = {"cpu": 16 << 20, "cuda": 256 << 20}
"""Float32 logits alive at once where many positions are scored: what caches well, and what fills a GPU."""


def forward_pass(module: nn.Module, **inputs: Any) -> Any:
    """`module(**inputs)`: every call into the model goes through here, so a test can make memory run out."""
    return module(**inputs)


class Trunk:
    """A causal language model split into what runs on every position and the head that runs on a few.

    Where the output embedding on top of the backbone gives the model's logits, states are hidden states; elsewhere
    (soft caps, logit scales) states are the logits of the last positions. Which of them holds is tried, not guessed.

    Raises HarnessError for a model that the engine cannot run.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.device: torch.device = model.device
        self.logit_bytes = _LOGIT_BYTES.get(self.device.type, 64 << 20)
        self.backbone: nn.Module | None = None
        self.head: nn.Module | None = None
        with torch.inference_mode():
            self._probe()

    def states(self, tokens: Tensor, cache: DynamicCache | None = None, *, keep: int) -> Tensor:
        """The states of the last `keep` of `tokens` [rows, new] int64, [rows, keep, width].

        `cache` holds what stands before them and is extended by them.
        """
        use = {"input_ids": tokens, "past_key_values": cache, "use_cache": cache is not None}
        if self.backbone is None:
            states: Tensor = forward_pass(self.model, **use, logits_to_keep=keep).logits
        else:
            states = forward_pass(self.backbone, **use).last_hidden_state[:, -keep:]
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Next-token logits of states [..., width], float32 [..., vocabulary]."""
        if self.head is not None:
            states = forward_pass(self.head, input=states)
        return states.float()

    def fresh_cache(self) -> DynamicCache:
        """An empty key/value cache."""
        return fresh_cache(self.model)

    def positions_at_once(self, rows: int) -> int | None:
        """How many positions of `rows` sequences may have states at once; None for any number."""
        return None if self.head is not None else max(1, self.logit_bytes // (4 * self.vocabulary * rows))

    def _probe(self) -> None:
        """Find head and vocabulary, and make sure that cached, branched decoding gives the model's own logits."""
        tokens = torch.tensor([[0, 1, 2, 1, 0, 1], [1, 1, 0, 2, 2, 0]], device=self.device)  # [2, 6]
        try:
            wanted = forward_pass(self.model, input_ids=tokens, use_cache=False).logits.float()  # [2, 6, vocabulary]
            self.vocabulary = int(wanted.shape[-1])
            self.backbone, self.head = _split(self.model)
            if self.head is not None and not _agree(self.logits(self.states(tokens, keep=6)), wanted, 1e-6):
                self.backbone = self.head = None
            if self.head is None and "logits_to_keep" not in inspect.signature(self.model.forward).parameters:
                raise HarnessError(
                    f"{_kind(self.model)} models give no logits of chosen positions, which attacks need."
                )
            cache = self.fresh_cache()
            self.states(tokens[:, :3], cache, keep=1)
            cache = branched(cache, torch.tensor([1, 0, 1], device=self.device))
            found = self.logits(self.states(tokens[[1, 0, 1], 3:], cache, keep=3))  # [3, 3, vocabulary]
        except (TypeError, ValueError, AttributeError, KeyError, IndexError, NotImplementedError) as error:
            raise HarnessError(f"{_kind(self.model)} models cannot be run by the engine ({error}).") from error
        if bool(torch.isnan(wanted).any()):
            raise HarnessError(f"this {_kind(self.model)} model answers NaN in {self.model.dtype}; try another dtype.")
        if not _agree(found, wanted[[1, 0, 1], 3:], 2e-2):
            raise HarnessError(f"{_kind(self.model)} models decode differently with cached keys and values.")


def _split(model: PreTrainedModel) -> tuple[nn.Module | None, nn.Module | None]:
    """Backbone and output embedding; None and None where the model has no such parts."""
    backbone, head = model.base_model, model.get_output_embeddings()  # type: ignore[no-untyped-call]
    return (backbone, head) if backbone is not model and isinstance(head, nn.Module) else (None, None)


def _agree(found: Tensor, wanted: Tensor, tolerance: float) -> bool:
    """Equal within a fraction of the spread of the logits wanted."""
    return found.shape == wanted.shape and bool(
        (found - wanted).abs().max() <= tolerance * max(1e-3, float(wanted.max() - wanted.min()))
    )


def _kind(model: PreTrainedModel) -> str:
    return type(model).__name__
