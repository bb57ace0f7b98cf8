"""A loaded target and what attacks ask of it, on token ids alone: text and its encoding are somebody else's."""

import copy
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel

from harness.core.arrays import Floats, Ints, Tokens, token_dtype
from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.core.view import Combination, PrefixView
from harness.engine.branches import Predictor
from harness.engine.decoding import Paths, prefix_groups
from harness.engine.drawn import Drawn, Found, Scored
from harness.engine.ensemble import Ensemble
from harness.engine.exact import exact_logprobs
from harness.engine.finite import no_number, require_finite
from harness.engine.inexact import Inexact, Limits, drawn_substitutes, substituted
from harness.engine.likelihood import scored
from harness.engine.memory import default_rows_at_once, is_out_of_memory
from harness.engine.rows import drawn_rows, found_rows, nothing_drawn, nothing_found
from harness.engine.search import Bounds, searched_paths
from harness.engine.tree import sampled_paths
from harness.engine.trunk import Trunk
from harness.engine.walk import Walk

Result = TypeVar("Result")
_ROUNDING = 2e-6
"""Nats of a token's log-probability that float32 may lose."""
_THE_MODEL_ITSELF = Policy()
_AS_IN_TRAINING = PrefixView()


class CallRecord(Protocol):
    """Where the rows at once of engine calls are written down, so that a batch that is run again repeats them."""

    def rows_for_next_call(self) -> int | None:
        """What the call that begins now used when it was made before; None to leave it as it is."""
        ...

    def record_call(self, rows_at_once: int) -> None:
        """A call has ended with this many rows at once."""
        ...


class Target:
    """The model under attack.

    model: for attacks that go below `sample` and `score`; vocabulary: how many token ids it predicts;
    context_length: tokens that it can attend to, None where unbounded; tokenizer_file: its tokenizer.json, None where
    it came without; suffix_length: what `sample` draws unless told otherwise. rows_at_once: how many sequences go
    through the model together; halved for good when memory runs out. calls: where each call's rows at once are written
    down and asked for, if anywhere: a batch that is run again with them repeats its results to the last bit.
    evaluations: next-token distributions that `sample` and `search` have asked of the model so far.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        path: Path | None = None,
        rows_at_once: int | None = None,
        suffix_length: int = 50,
    ) -> None:
        """Take a model that lies on its device and is in evaluation mode. Raises HarnessError if it cannot be run."""
        if rows_at_once is not None and rows_at_once < 1:
            raise HarnessError(f"at least one sequence goes through the model at once, not {rows_at_once}.")
        self.model = model
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.trunk = Trunk(model)
        self.predictor: Predictor = self.trunk
        self._views: tuple[PrefixView, ...] = (PrefixView(),)
        self.vocabulary = self.trunk.vocabulary
        config = model.config.get_text_config(decoder=True)
        self.context_length: int | None = getattr(config, "max_position_embeddings", None)
        tokenizer_file = None if path is None else path / "tokenizer.json"
        self.tokenizer_file = tokenizer_file if tokenizer_file is not None and tokenizer_file.exists() else None
        self.suffix_length = suffix_length
        self.rows_at_once = rows_at_once or default_rows_at_once(
            config, copies=self.trunk.copies, itemsize=self.dtype.itemsize, device=self.device
        )
        self.calls: CallRecord | None = None
        self.evaluations = 0

    @property
    def record(self) -> dict[str, str | int | None]:
        """What a run's record says about the loaded target, ready for JSON."""
        return {
            "architecture": type(self.model).__name__,
            "parameters": self.model.num_parameters(),
            "vocabulary": self.vocabulary,
            "context_length": self.context_length,
            "device": str(self.device),
            "device_name": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else None,
            "dtype": str(self.dtype).removeprefix("torch."),
            "rows_at_once": self.rows_at_once,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    @property
    def end_tokens(self) -> frozenset[int]:
        """The ids that end a text, as the model's configuration names them; none where it names none."""
        named = getattr(self.model.generation_config, "eos_token_id", None)
        if named is None:
            named = getattr(self.model.config, "eos_token_id", None)
        return frozenset([named] if isinstance(named, int) else named or [])

    def require(
        self, *, prefix_length: int, suffix_length: int, vocabulary: int | None = None, further: int = 0
    ) -> None:
        """Raise HarnessError unless the model predicts `vocabulary` tokens and has room for prefix and suffix.

        further: positions that a shift or a soft prompt takes before them.
        """
        if vocabulary is not None and vocabulary != self.vocabulary:
            raise HarnessError(
                f"the target predicts {self.vocabulary} tokens and the round has {vocabulary}; it needs another target."
            )
        if self.context_length is None or prefix_length + suffix_length + max(0, further) <= self.context_length:
            return
        where = f" behind {further} positions of a shift or a soft prompt; take fewer." if further > 0 else "."
        raise HarnessError(
            f"the target's context of {self.context_length} tokens is shorter than "
            f"prefix and suffix, {prefix_length} + {suffix_length} tokens{where}"
        )

    def viewed(self, views: Sequence[PrefixView], combination: Combination = Combination.LOGITS) -> "Target":
        """This target shown each prefix in `views`: what `sample` and `search` follow is what these say together.

        Their log-probabilities then are those of the combined prediction; `score` stays the model's own. Raises
        HarnessError when there is no view, or a soft prompt of another width.
        """
        width = int(getattr(self.model.get_input_embeddings(), "embedding_dim", 0))
        for view in views:
            if view.prompt is not None and (view.prompt.ndim != 2 or view.prompt.shape[1] != width):
                raise HarnessError(f"a soft prompt has shape [tokens, {width}] here, not {list(view.prompt.shape)}.")
        if not views or any(view.start < 0 or view.shift < 0 or not view.weight > 0 for view in views):
            raise HarnessError("a target needs at least one view, with start and shift from 0 on and a weight above 0.")
        shown = copy.copy(self)
        shown._views = tuple(views)
        shown.predictor = Ensemble(self.trunk, views, combination)
        shown.rows_at_once = max(1, self.rows_at_once // len(views))
        return shown

    def sample(
        self,
        prefixes: Tokens,
        policy: Policy = _THE_MODEL_ITSELF,
        trials: int = 1,
        seed: int = 0,
        length: int | None = None,
    ) -> Drawn:
        """Draw `trials` suffixes of `length` tokens for each of `prefixes` [prefixes, prefix length].

        Draw d of a prefix at position t depends on (seed, the prefix's tokens, d, t) and on nothing else: neither on
        the other prefixes nor on `rows_at_once`, as long as rounding moves no draw across the edge of a token.
        Policy(), the default, is the model's own distribution. Raises HarnessError for tokens that the model does not
        have, too long a context, NaN, or when memory does not suffice for one sequence.
        """
        length = self.suffix_length if length is None else length
        self._check_tokens("prefixes", prefixes)
        if trials < 1 or length < 1:
            raise HarnessError(f"sampling needs at least one trial and one token, not {trials} and {length}.")
        self._require_views(prefixes.shape[1], length)
        if len(prefixes) == 0:
            return nothing_drawn(length, self.vocabulary)
        distinct, distinct_of_prefix = np.unique(prefixes, axis=0, return_inverse=True)
        # The most likely token leaves nothing to chance: one draw stands for all trials.
        draws = 1 if policy.top_k == 1 else trials

        def paths(rows_at_once: int) -> Paths:
            return sampled_paths(
                self.predictor, distinct, policy, draws=draws, seed=seed, length=length, rows_at_once=rows_at_once
            )

        found = self._within_memory(paths)
        self.evaluations += found.evaluations * len(self._views)
        require_finite(found.token_logprobs, self.dtype)
        return drawn_rows(found, distinct_of_prefix.reshape(-1), trials // draws, self.vocabulary)

    def search(
        self,
        prefixes: Tokens,
        width: int | None = None,
        policy: Policy = _THE_MODEL_ITSELF,
        least: float | None = None,
        length: int | None = None,
    ) -> Found:
        """Likely distinct suffixes of `length` tokens for each of `prefixes` [prefixes, prefix length].

        width: beginnings followed at a time, and so suffixes returned at most, of each prefix; least: a probability
        under `policy` below which none is followed. With `least` alone the result is every suffix of at least that
        probability, and those that miss it by a rounding. Policy(), the default, is the model's own distribution.
        Raises HarnessError as `sample` does, and when neither bound is given.
        """
        length = self.suffix_length if length is None else length
        self._check_tokens("prefixes", prefixes)
        if width is None and least is None:
            raise HarnessError("a search needs a width or a least probability; without one it has no end.")
        if (width is not None and width < 1) or length < 1 or (least is not None and not 0 < least <= 1):
            raise HarnessError(
                "a search needs a width and a length of at least 1 and a least probability in (0, 1], "
                f"not {width}, {length} and {least}."
            )
        self._require_views(prefixes.shape[1], length)
        if len(prefixes) == 0:
            return nothing_found(length, self.vocabulary)
        distinct, distinct_of_prefix = np.unique(prefixes, axis=0, return_inverse=True)
        bounds = Bounds(width, -math.inf if least is None else math.log(least) - _ROUNDING * length)

        def paths(rows_at_once: int) -> Paths:
            return searched_paths(self.predictor, distinct, policy, bounds, length=length, rows_at_once=rows_at_once)

        what = "the suffixes of one prefix" if width is None else f"a search of width {width} of one prefix"
        found = self._within_memory(paths, together=width or 1, what=what)
        self.evaluations += found.evaluations * len(self._views)
        require_finite(found.token_logprobs, self.dtype)
        return found_rows(found, distinct_of_prefix.reshape(-1), self.vocabulary)

    def walk(
        self, prefixes: Tokens, follow: Callable[[Walk], Tokens], *, branches: int = 1, length: int | None = None
    ) -> Tokens:
        """The suffix that `follow` chooses for each of `prefixes` [prefixes, prefix length], [prefixes, length].

        follow: from a walk of some of the prefixes to their suffixes, [some, length], and to nothing else: it may be
        called again with fewer of them. branches: how many it keeps of each prefix at most. Raises HarnessError as
        `sample` does, and for a target that is `viewed`: hidden states of several views are not one state.
        """
        if self.predictor is not self.trunk:
            raise HarnessError("a walk follows the target itself: ask one without views.")
        length = self.suffix_length if length is None else length
        self._check_tokens("prefixes", prefixes)
        self.require(prefix_length=prefixes.shape[1], suffix_length=length)

        def followed(rows_at_once: int) -> Tokens:
            groups = prefix_groups(self.trunk, len(prefixes), prefixes.shape[1], rows_at_once // branches)
            walks = (Walk(self.trunk, prefixes[group], branches=branches, length=length) for group in groups)
            return np.concatenate([np.empty((0, length), np.int64), *(follow(walk) for walk in walks)])

        what = f"the branches of one prefix, {branches} of them"
        return self._within_memory(followed, together=branches, what=what).astype(token_dtype(self.vocabulary))

    def score(self, prefixes: Tokens, suffixes: Tokens, view: PrefixView = _AS_IN_TRAINING) -> Scored:
        """Log-probabilities, margins, ranks and entropies of `suffixes` [rows, length] after `prefixes` [rows, any].

        view: how the prefixes are shown. Raises HarnessError as `sample` does.
        """
        self._check_tokens("prefixes", prefixes)
        self._check_tokens("suffixes", suffixes)
        if len(prefixes) != len(suffixes):
            raise HarnessError(f"scoring needs one prefix a suffix, not {len(prefixes)} and {len(suffixes)}.")
        length = suffixes.shape[1]
        self.require(prefix_length=prefixes.shape[1], suffix_length=length, further=view.further)
        if len(prefixes) == 0:
            nothing = np.empty((0, length))
            return Scored(nothing, nothing, nothing.astype(np.int64), nothing, np.empty(0))
        result = self._within_memory(
            lambda rows_at_once: scored(self.trunk, prefixes, suffixes, view, rows_at_once=rows_at_once)
        )
        # An impossible token has log-probability -inf; where a distribution is none, its entropy is NaN.
        if np.isnan(result.token_logprobs).any() or np.isnan(result.entropy).any():
            raise no_number("the target answered NaN", self.dtype)
        return result

    def exact(self, prefixes: Tokens, suffixes: Tokens, policies: Sequence[Policy]) -> Floats:
        """Log-probabilities of `suffixes` [rows, length] after `prefixes` [rows, any] under each of `policies`.

        [policies, rows, length] float64, each token's under the policy's renormalised distribution behind what stands
        before it; -inf where the policy does not allow it. Raises HarnessError as `sample` does.
        """
        self._check_pairs(prefixes, suffixes)
        if len(prefixes) == 0 or not policies:
            return np.empty((len(policies), *suffixes.shape))
        found = self._within_memory(
            lambda rows_at_once: exact_logprobs(self.trunk, prefixes, suffixes, policies, rows_at_once=rows_at_once)
        )
        if np.isnan(found).any():
            raise no_number("the target answered NaN", self.dtype)
        return found

    def inexact(
        self,
        prefixes: Tokens,
        suffixes: Tokens,
        policy: Policy = _THE_MODEL_ITSELF,
        *,
        errors: int = 2,
        branches: int = 256,
        least: float = 1e-5,
        best: int = 8,
    ) -> Inexact:
        """How likely `policy` draws `suffixes` [rows, length] behind `prefixes` with exactly 0 … `errors` wrong tokens.

        Where top-k leaves few possibilities the answer is exact; elsewhere the likeliest `branches` beginnings of each
        suffix are followed, none of a probability below `least`, and `bound` says what the rest can add. best: the
        likeliest inexact matches returned of each. Raises HarnessError as `sample` does.
        """
        self._check_pairs(prefixes, suffixes)
        limits = Limits(errors, branches, least, best)
        if len(prefixes) == 0:
            none, length = np.empty((0, errors + 1)), suffixes.shape[1]
            return Inexact(none, none, np.empty(0, np.int64), np.empty((0, length), np.int64), np.empty(0))

        def found(rows_at_once: int) -> Inexact:
            return substituted(self.trunk, prefixes, suffixes, policy, limits, rows_at_once=rows_at_once)

        return self._within_memory(found, what="the substitutions of one suffix")

    def substitutes(
        self, prefixes: Tokens, suffixes: Tokens, positions: Ints, uniform: Floats, policy: Policy = _THE_MODEL_ITSELF
    ) -> Ints:
        """Tokens drawn from `policy` at `positions` [rows, draws] of the suffixes, other than the suffixes' own there.

        uniform: [rows, draws] in [0, 1); the result [rows, draws] depends on nothing else. The policy must leave
        another token some probability there. Raises HarnessError as `sample` does.
        """
        self._check_pairs(prefixes, suffixes)
        return self._within_memory(
            lambda rows_at_once: drawn_substitutes(
                self.trunk, prefixes, suffixes, positions, uniform, policy, rows_at_once=rows_at_once
            )
        )

    def _check_pairs(self, prefixes: Tokens, suffixes: Tokens) -> None:
        """Raise HarnessError unless there is a prefix for each suffix, and room for both."""
        self._check_tokens("prefixes", prefixes)
        self._check_tokens("suffixes", suffixes)
        if len(prefixes) != len(suffixes):
            raise HarnessError(f"scoring needs one prefix a suffix, not {len(prefixes)} and {len(suffixes)}.")
        self.require(prefix_length=prefixes.shape[1], suffix_length=suffixes.shape[1])

    def _require_views(self, prefix_length: int, suffix_length: int) -> None:
        """Raise HarnessError when a view leaves nothing of a prefix, or a suffix behind it leaves the context."""
        if (most := max(view.start for view in self._views)) > max(0, prefix_length - 2):
            raise HarnessError(f"a view leaves out {most} tokens of prefixes of {prefix_length}; two have to stay.")
        further = max(view.further for view in self._views)
        self.require(prefix_length=prefix_length, suffix_length=suffix_length, further=further)

    def _check_tokens(self, what: str, tokens: Tokens) -> None:
        if tokens.ndim != 2 or tokens.shape[1] == 0 or not np.issubdtype(tokens.dtype, np.integer):
            raise HarnessError(
                f"{what} must be integers of shape [rows, tokens]; found {tokens.dtype} {list(tokens.shape)}."
            )
        if tokens.size and (int(tokens.min()) < 0 or int(tokens.max()) >= self.vocabulary):
            raise HarnessError(f"{what} hold a token outside the target's 0..{self.vocabulary - 1}.")

    def _within_memory(
        self, call: Callable[[int], Result], *, together: int = 1, what: str = "one sequence at a time"
    ) -> Result:
        """`call(rows_at_once)`, begun anew with half as many rows each time memory runs out.

        together: rows that cannot be parted, so that fewer rows at once save nothing; what: their name in a sentence.
        """
        if self.calls is not None and (recorded := self.calls.rows_for_next_call()) is not None:
            self.rows_at_once = recorded
        while True:
            try:
                with torch.inference_mode():
                    result = call(self.rows_at_once)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if self.rows_at_once <= together:
                    raise HarnessError(
                        f"the memory of {self.device} does not suffice for {what}; "
                        f"free some, or take a smaller --dtype than {str(self.dtype).removeprefix('torch.')}."
                    ) from None
            else:
                if self.calls is not None:
                    self.calls.record_call(self.rows_at_once)
                return result
            # Here and not in the handler above, where the traceback still holds the failed call's tensors.
            self.rows_at_once //= 2
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
