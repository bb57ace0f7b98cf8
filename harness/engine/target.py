"""A loaded target and the methods that attacks call. It works on token ids and knows nothing about text."""

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel

from harness.core.arrays import Ints, Tokens, token_dtype
from harness.core.errors import HarnessError
from harness.core.policy import Combination, Policy, PrefixView
from harness.engine.branches import Predictor
from harness.engine.completing import complete_prompts
from harness.engine.ensemble import Ensemble
from harness.engine.kernels import attention_dtype
from harness.engine.likelihood import score_suffixes
from harness.engine.memory import (
    Room,
    default_rows_at_once,
    non_finite_error,
    require_finite,
    run_within_memory,
    stored_positions,
)
from harness.engine.model_runner import ModelRunner, Warn
from harness.engine.pieces import Piece
from harness.engine.resolving import has_chat_template
from harness.engine.results import Samples, Scores, SearchResult, samples_from_paths, search_result_from_paths
from harness.engine.sampling import sample_paths
from harness.engine.search import Bounds, search_paths
from harness.engine.tree import Paths, prefix_groups, step_name
from harness.engine.walk import Walk

Result = TypeVar("Result")
_ROUNDING = 2e-6
"""The rounding error of a token's log-probability in float32, in nats."""
_UNMODIFIED = Policy()
_WHOLE_PREFIX = PrefixView()


class CallProgress(Protocol):
    """Receives the progress of engine calls."""

    def record_call(self) -> None:
        """Record that a call has ended."""
        ...

    def record_step(self, share: float, step: str) -> None:
        """Record how much of the current call is done, from 0 to 1, and its last step, such as "token 20 of 50"."""
        ...


class Target:
    """The model under attack.

    model: the `transformers` model, for attacks that need more than the methods of this class.
    pieces: where its blocks are if it is split over several devices, empty if it is on one.
    device: where draws and logits are.
    place: the names of all of its devices.
    vocabulary: the number of token ids that it predicts.
    bos_token: the id that it sees before every prefix that does not begin with it, None for none.
    context_length: the number of tokens that it can attend to, None if unbounded.
    tokenizer_file: its tokenizer.json, None if there is none.
    suffix_length: the default length of generated suffixes.
    rows_at_once: the number of sequences that go through the model together; when memory runs out it is halved for all
    later calls.
    progress: the object that receives the progress of calls, None for none.
    evaluations: the number of next-token distributions that `sample`, `complete` and `search` have computed.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        pieces: Sequence[Piece] = (),
        *,
        path: Path | None = None,
        rows_at_once: int | None = None,
        prefix_length: int = 50,
        suffix_length: int = 50,
        vocabulary: int | None = None,
        bos_token: int | None = None,
        stored_dtype: torch.dtype | None = None,
        warn: Warn | None = None,
    ) -> None:
        """Wrap a model that is on its device, or split over `pieces`, and in evaluation mode.

        vocabulary: the ids that it may predict, from 0 on, by default all that it has; ids above get no probability.
        bos_token: the id that it sees before every prefix that does not begin with it, None for none.
        prefix_length, suffix_length: those of the round, from which the default of rows_at_once is derived.
        stored_dtype: that of the files, None if it is unknown.
        warn: gets the sentence that decoding is slow.
        Raises HarnessError if the engine cannot run it.
        """
        if rows_at_once is not None and rows_at_once < 1:
            raise HarnessError(f"rows_at_once is {rows_at_once}. It must be at least 1.")
        self.model = model
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self._stored_dtype = stored_dtype
        self._has_chat_template = path is not None and has_chat_template(path)
        self.pieces = tuple(pieces)
        self.runner = ModelRunner(model, pieces, vocabulary=vocabulary, bos_token=bos_token, warn=warn)
        self.bos_token = bos_token
        self.predictor: Predictor = self.runner
        self._views: tuple[PrefixView, ...] = (_WHOLE_PREFIX,)
        self.vocabulary = self.runner.vocabulary
        config = model.config.get_text_config(decoder=True)
        self.context_length: int | None = getattr(config, "max_position_embeddings", None)
        tokenizer_file = None if path is None else path / "tokenizer.json"
        self.tokenizer_file = tokenizer_file if tokenizer_file is not None and tokenizer_file.exists() else None
        self.suffix_length = suffix_length
        positions = suffix_length if self.runner.shares_prefixes else stored_positions(prefix_length + suffix_length)
        stored = attention_dtype(self.device, self.dtype) if self.runner.shares_prefixes else self.dtype
        shares: dict[torch.device, float] = {} if self.pieces else {self.device: 1.0}
        for piece in self.pieces:
            shares[piece.device] = shares.get(piece.device, 0) + len(piece) / self.pieces[-1].end
        self.place = ", ".join(map(str, shares))
        self._room = Room(
            rows_at_once or default_rows_at_once(config, positions=positions, itemsize=stored.itemsize, shares=shares)
        )
        self.progress: CallProgress | None = None
        self.evaluations = 0

    @property
    def rows_at_once(self) -> int:
        """The number of sequences that go through the model together."""
        return max(1, self._room.rows // len(self._views))

    @rows_at_once.setter
    def rows_at_once(self, rows: int) -> None:
        self._room.rows = rows * len(self._views)

    @property
    def record(self) -> dict[str, str | int | None]:
        """The properties of the loaded target that a run records, ready for JSON."""
        return {
            "architecture": type(self.model).__name__,
            "parameters": self.model.num_parameters(),
            "vocabulary": self.vocabulary,
            "bos_token": self.bos_token,
            "context_length": self.context_length,
            "device": str(self.device),
            "blocks": " + ".join(str(len(piece)) for piece in self.pieces) or None,
            "device_name": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else None,
            "dtype": str(self.dtype).removeprefix("torch."),
            "stored_dtype": None if self._stored_dtype is None else str(self._stored_dtype).removeprefix("torch."),
            "has_chat_template": self._has_chat_template,
            "decoding": self.runner.decoding,
            "rows_at_once": self.rows_at_once,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    @property
    def end_tokens(self) -> frozenset[int]:
        """The ids of the end-of-text tokens in the model's configuration, empty if it names none."""
        ids = getattr(self.model.generation_config, "eos_token_id", None)
        if ids is None:
            ids = getattr(self.model.config, "eos_token_id", None)
        return frozenset([ids] if isinstance(ids, int) else ids or [])

    def require(
        self, *, prefix_length: int, suffix_length: int, vocabulary: int | None = None, further: int = 0
    ) -> None:
        """Raise HarnessError unless the model predicts `vocabulary` tokens and its context holds prefix and suffix.

        further: positions before the prefix that a shift or a soft prompt takes.
        """
        if vocabulary is not None and vocabulary != self.vocabulary:
            raise HarnessError(
                f"the model predicts {self.vocabulary} tokens and the round has {vocabulary}. Choose another model."
            )
        taken = max(0, further + len(self.runner.bos))
        if self.context_length is None or prefix_length + suffix_length + taken <= self.context_length:
            return
        before = f" after {taken} positions of a shift or a soft prompt" if further > 0 else ""
        if further <= 0 < taken:
            before = " after the first token of its tokenizer"
        raise HarnessError(
            f"the model's context of {self.context_length} tokens is shorter than prefix and suffix, "
            f"{prefix_length} + {suffix_length} tokens{before}. "
            + ("Use a smaller shift or soft prompt." if further > 0 else "Choose another model.")
        )

    def viewed(self, views: Sequence[PrefixView], combination: Combination = Combination.LOGITS) -> "Target":
        """Return a target that shows each prefix in `views` and samples and searches with their combined prediction.

        The new target and this target share one limit of rows, which halves for both if memory runs out. The
        log-probabilities in the new target's results are those of the combined prediction. Its `score` still uses the
        model without views.
        Raises HarnessError if there is no view or a soft prompt has the wrong width.
        """
        width = int(getattr(self.model.get_input_embeddings(), "embedding_dim", 0))
        for view in views:
            if view.prompt is not None and (view.prompt.ndim != 2 or view.prompt.shape[1] != width):
                raise HarnessError(
                    f"the soft prompt has shape {list(view.prompt.shape)}. This target needs [tokens, {width}]."
                )
        if not views or any(view.start < 0 or view.shift < 0 or not view.weight > 0 for view in views):
            raise HarnessError("viewed() needs one view or more, each with start >= 0, shift >= 0 and weight > 0.")
        target = copy.copy(self)
        target._views = tuple(views)
        target.predictor = Ensemble(self.runner, views, combination)
        return target

    def sample(
        self,
        prefixes: Tokens,
        policy: Policy = _UNMODIFIED,
        trials: int = 1,
        seed: int = 0,
        length: int | None = None,
    ) -> Samples:
        """Draw `trials` suffixes of `length` tokens for each of `prefixes` [prefixes, prefix length].

        Draw d of a prefix at position t depends only on (seed, the prefix's tokens, d, t): not on the other prefixes
        and, except where rounding moves a draw to the neighbouring token, not on `rows_at_once`. The default Policy()
        is the model's own distribution. Raises HarnessError for tokens outside the vocabulary, a context that is too
        long, NaN, or if memory does not suffice for one sequence.
        """
        length = self.suffix_length if length is None else length
        self._check_tokens("prefixes", prefixes)
        if trials < 1 or length < 1:
            raise HarnessError(f"sample() needs trials and length of at least 1, not {trials} and {length}.")
        # Greedy decoding is deterministic, so one draw stands for all trials.
        draws = 1 if policy.top_k == 1 else trials
        find = partial(sample_paths, policy=policy, draws=draws, seed=seed)
        drawn, distinct_of_prefix = self._find_paths(find, prefixes, length)
        return samples_from_paths(drawn, distinct_of_prefix, trials // draws, self.vocabulary)

    def complete(
        self, prompts: Sequence[Tokens], policy: Policy = _UNMODIFIED, *, lengths: Sequence[int] | Ints, seed: int = 0
    ) -> list[Ints]:
        """Draw one suffix after each of `prompts`, which may differ in length. `lengths`: tokens of each suffix.

        A suffix is the one that `sample` draws in a single trial: up to rounding, it depends only on the seed and on
        the prompt's own tokens. Raises HarnessError as `sample` does.
        """
        for prompt, length in zip(prompts, lengths, strict=True):
            self._check_tokens("prompts", prompt[None])
            self._require_views(len(prompt), length)
        if min(lengths, default=1) < 1:
            raise HarnessError(f"complete() needs lengths of at least 1, not {min(lengths)}.")
        if not prompts:
            return []
        draw = partial(complete_prompts, self.predictor, prompts, np.asarray(lengths), policy=policy, seed=seed)
        suffixes, evaluations = self.run_within_memory(
            lambda rows_at_once: draw(rows_at_once=rows_at_once, on_step=self.report_step)
        )
        self.evaluations += evaluations * len(self._views)
        return suffixes

    def search(
        self,
        prefixes: Tokens,
        width: int | None = None,
        policy: Policy = _UNMODIFIED,
        least: float | None = None,
        length: int | None = None,
    ) -> SearchResult:
        """Find likely distinct suffixes of `length` tokens for each of `prefixes` [prefixes, prefix length].

        width: the beam width, which is also the maximum number of suffixes per prefix.
        least: a probability under `policy`; partial suffixes below it are dropped. With `least` and without `width` the
        result contains every suffix of at least that probability, and suffixes that miss it by a rounding error. The
        default Policy() is the model's own distribution.
        Raises HarnessError as `sample` does, and if neither `width` nor `least` is given.
        """
        length = self.suffix_length if length is None else length
        self._check_tokens("prefixes", prefixes)
        if width is None and least is None:
            raise HarnessError("search() needs a width or a least probability. Pass `width` or `least`.")
        if (width is not None and width < 1) or length < 1 or (least is not None and not 0 < least <= 1):
            raise HarnessError(
                f"search() got width {width}, length {length} and least {least}. Width and length must be at least 1 "
                "and least in (0, 1]."
            )
        bounds = Bounds(width, -math.inf if least is None else math.log(least) - _ROUNDING * length)
        find = partial(search_paths, policy=policy, bounds=bounds)
        purpose = "the suffixes of one prefix" if width is None else f"a search of width {width} for one prefix"
        likely, distinct_of_prefix = self._find_paths(find, prefixes, length, minimum=width or 1, purpose=purpose)
        return search_result_from_paths(likely, distinct_of_prefix, self.vocabulary)

    def walk(
        self, prefixes: Tokens, follow: Callable[[Walk], Tokens], *, branches: int = 1, length: int | None = None
    ) -> Tokens:
        """Return the suffix that `follow` chooses for each of `prefixes` [prefixes, prefix length], [prefixes, length].

        follow: a function from a walk over some of the prefixes to their suffixes, [some, length]. Its result must
        depend on the walk alone, because it may be called again with fewer prefixes.
        branches: the maximum number of branches that `follow` keeps for each prefix.
        Raises HarnessError as `sample` does, and for a target with views, because each view has its own hidden states.
        """
        if self.predictor is not self.runner:
            raise HarnessError("walk() does not support a target with views. Call it on the target without them.")
        length = self.suffix_length if length is None else length
        self._check_tokens("prefixes", prefixes)
        self.require(prefix_length=prefixes.shape[1], suffix_length=length)

        def followed(rows_at_once: int) -> Tokens:
            groups = prefix_groups(self.runner, prefixes, rows_at_once // branches)

            def report(group: slice, step: int) -> None:
                share = (group.start + (group.stop - group.start) * step / length) / len(prefixes)
                self.report_step(share, step_name(len(prefixes), step, length))

            options = {"branches": branches, "length": length}
            walks = (Walk(self.runner, prefixes[group], partial(report, group), **options) for group in groups)
            return np.concatenate([np.empty((0, length), np.int64), *(follow(walk) for walk in walks)])

        suffixes = self.run_within_memory(followed, minimum=branches, purpose=f"the {branches} branches of one prefix")
        return suffixes.astype(token_dtype(self.vocabulary))

    def score(self, prefixes: Tokens, suffixes: Tokens, view: PrefixView = _WHOLE_PREFIX) -> Scores:
        """Return log-probabilities, margins and ranks of suffixes after prefixes.

        prefixes: [rows, any].
        suffixes: [rows, length].
        view: how the prefixes are shown.
        Raises HarnessError as `sample` does.
        """
        self.check_pairs(prefixes, suffixes, further=view.further)
        if len(prefixes) == 0:
            nothing = np.empty((0, suffixes.shape[1]))
            return Scores(nothing, nothing, nothing.astype(np.int64), np.empty(0))
        result = self.run_within_memory(
            lambda rows_at_once: score_suffixes(
                self.runner, prefixes, suffixes, view, rows_at_once=rows_at_once, on_step=self.report_step
            )
        )
        # The log-probability of an impossible token is -inf.
        if np.isnan(result.token_logprobs).any():
            raise non_finite_error("the target returned NaN", self.dtype)
        return result

    def check_pairs(self, prefixes: Tokens, suffixes: Tokens, *, further: int = 0) -> None:
        """Raise HarnessError unless there is one prefix for each suffix and the context holds both."""
        self._check_tokens("prefixes", prefixes)
        self._check_tokens("suffixes", suffixes)
        if len(prefixes) != len(suffixes):
            raise HarnessError(f"{len(prefixes)} prefixes and {len(suffixes)} suffixes. Pass one suffix per prefix.")
        self.require(prefix_length=prefixes.shape[1], suffix_length=suffixes.shape[1], further=further)

    def report_step(self, share: float, step: str) -> None:
        """Record the progress of the current call, if `progress` is set."""
        if self.progress is not None:
            self.progress.record_step(share, step)

    def run_within_memory(
        self, call: Callable[[int], Result], *, minimum: int = 1, purpose: str = "one sequence at a time"
    ) -> Result:
        """Return `call(rows_at_once)`, repeated with half as many rows each time memory runs out.

        An audit that measures the model in its own way uses this method, too.
        minimum: the rows below which halving saves nothing.
        purpose: the name of that many rows in an error.
        """
        dtype = str(self.dtype).removeprefix("torch.")
        problem = f"no room for {purpose}. Free memory or use a smaller --dtype than {dtype}."
        with torch.inference_mode():
            result, rows = run_within_memory(
                call, self.rows_at_once, minimum=minimum, place=self.place, problem=problem
            )
        if rows != self.rows_at_once:
            self.rows_at_once = rows
        if self.progress is not None:
            self.progress.record_call()
        return result

    def _require_views(self, prefix_length: int, suffix_length: int) -> None:
        """Raise HarnessError if a view leaves too little of a prefix or its suffix does not fit into the context."""
        if (dropped := max(view.start for view in self._views)) > max(0, prefix_length - 2):
            raise HarnessError(f"a view drops {dropped} of {prefix_length} prefix tokens. At least two must remain.")
        further = max(view.further for view in self._views)
        self.require(prefix_length=prefix_length, suffix_length=suffix_length, further=further)

    def _check_tokens(self, role: str, tokens: Tokens) -> None:
        if tokens.ndim != 2 or tokens.shape[1] == 0 or not np.issubdtype(tokens.dtype, np.integer):
            raise HarnessError(
                f"{role} must be integers of shape [rows, tokens], not {tokens.dtype} of shape {list(tokens.shape)}."
            )
        if tokens.size and (int(tokens.min()) < 0 or int(tokens.max()) >= self.vocabulary):
            raise HarnessError(f"{role} contain a token outside the target's vocabulary 0..{self.vocabulary - 1}.")

    def _find_paths(
        self, find: Callable[..., Paths], prefixes: Tokens, length: int, **limits: Any
    ) -> tuple[Paths, Ints]:
        """Return what `find` finds for the distinct prefixes, and the distinct prefix that each of `prefixes` equals.

        find: `sample_paths` or `search_paths`, with the arguments that they do not share.
        """
        self._require_views(prefixes.shape[1], length)
        distinct, distinct_of_prefix = np.unique(prefixes, axis=0, return_inverse=True)
        result = Paths.empty(length)
        if len(prefixes):
            find = partial(find, self.predictor, distinct, length=length, on_step=self.report_step)
            result = self.run_within_memory(lambda rows_at_once: find(rows_at_once=rows_at_once), **limits)
        self.evaluations += result.evaluations * len(self._views)
        require_finite(result.token_logprobs, self.dtype)
        return result, distinct_of_prefix.reshape(-1)
