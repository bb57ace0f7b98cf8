"""Several windows of the prefix choose each token together: all of it, and parts without its beginning.

Memorized text does not always begin where the prefix begins. Each window gives its own next-token distribution, with
positions counted from its own beginning. They are combined by votes (five points for a window's likeliest token, down
to one for the fifth) or by the weighted mean of the log-probabilities. Decoding is greedy, as in the released code of
the paper. That code never chooses the last id, which is end of text in GPT-2's vocabulary. This attack may choose the
last id, because it is another token in other vocabularies. No training suffix of the SaTML 2023 challenge contains end
of text.
"""

from collections.abc import Iterator
from typing import Literal

from harness import (
    Attack,
    Combination,
    Context,
    Field,
    Guesses,
    HarnessError,
    Params,
    Policy,
    PrefixView,
    Ranker,
)


class WindowParams(Params):
    windows: int = Field(4, ge=1, le=49, description="Number of windows; each is shorter than the one before.")
    stride: int = Field(1, ge=1, le=49, description="Tokens by which a window is shorter than the one before.")
    decay: float = Field(0.9, gt=0, le=1, description="Weight of a window relative to the one before (logits only).")
    combine: Literal["votes", "logits"] = Field("votes", description="How the windows' predictions are combined.")
    ranker: Ranker = "mean_loss"


class Window(Attack[WindowParams]):
    name = "window"
    reference = "Yu et al., Bag of Tricks for Training Data Extraction from Language Models, ICML 2023"

    def run(self, context: Context) -> Iterator[Guesses]:
        params = self.params
        prefix_length = context.prefixes.shape[1]
        if (params.windows - 1) * params.stride > prefix_length - 2:
            raise HarnessError(
                f"windows={params.windows} with stride={params.stride} leave fewer than two tokens of a prefix of "
                f"{prefix_length}. Use fewer windows or a smaller stride."
            )
        # With votes all windows have equal weight, as published. Weights apply to the mean.
        decay = params.decay if params.combine == "logits" else 1.0
        views = [PrefixView(start=number * params.stride, weight=decay**number) for number in range(params.windows)]
        for batch in context.batches(size=128):
            ensemble = context.target.viewed(views, Combination(params.combine))
            drawn = ensemble.sample(batch.prefixes, Policy(top_k=1))
            score = context.rank(batch.prefixes[drawn.row], drawn.suffixes, params.ranker)
            yield Guesses(batch.ids[drawn.row], drawn.suffixes, score)
