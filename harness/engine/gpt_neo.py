"""GPT-Neo for many branches of few prefixes: the keys and values of a prefix are stored once for all its branches.

This module reads the weights of a `transformers` model and computes the same function with fused operations instead of
a [queries, keys] table per layer. It processes one new token per row and knows nothing of heads, policies or draws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPTNeoModel

from harness.engine.branches import Placement
from harness.engine.kernels import Product, attend, attention_dtype, merge_parts

_SCALE = 1.0
"""GPT-Neo does not scale its attention by the head width."""


@dataclass(frozen=True)
class Slots:
    """The rows of each prefix side by side, as attention over the keys of a prefix needs them.

    rows: [prefixes, most], the row at each place; places without a row have any row. place: [rows], where each row is
    among those of its prefix. owner: [rows], its prefix.
    """

    rows: Tensor
    place: Tensor
    owner: Tensor

    @classmethod
    def of(cls, placement: Placement, prefixes: int) -> "Slots":
        """Return the slots of the branches of `prefixes` prefixes."""
        owner, most = placement.owner, placement.most
        order = owner.argsort(stable=True)
        sorted_owner = owner[order]
        numbers = torch.arange(len(owner), device=owner.device)
        sorted_place = numbers - torch.searchsorted(sorted_owner, sorted_owner)
        rows = owner.new_zeros(prefixes * most).scatter_(0, sorted_owner * most + sorted_place, order)
        return cls(rows.view(prefixes, most), torch.empty_like(owner).scatter_(0, order, sorted_place), owner)


class NeoBranches:
    """Branches of prefixes, one token longer after each step.

    prefix: the keys and values of the prefixes, for each layer [2, prefixes, heads, prefix length, head width]. room:
    the maximum length of a branch. shift: the position of the first token. is_shared: if False, each prefix has one
    branch, which contains the prefix, so that attention reads one place instead of two.
    """

    def __init__(self, body: "NeoBackbone", prefix: list[Tensor], room: int, shift: int, *, is_shared: bool) -> None:
        self._body = body
        self._shift = shift
        _, prefixes, heads, length, width = prefix[0].shape
        self._prefix = prefix if is_shared else None
        self._prefix_length = length if is_shared else 0
        self._grown = 0 if is_shared else length
        room = room if is_shared else length + room
        # [layers, 2, rows, heads, positions, head width]
        self._own = prefix[0].new_empty(len(prefix), 2, prefixes, heads, room, width)
        if not is_shared:
            for own, whole in zip(self._own, prefix, strict=True):
                own[..., :length, :] = whole

    def advance(self, tokens: Tensor, placement: Placement) -> Tensor:
        """Append `tokens` [rows] to the branches in their new rows and return their states, [rows, width]."""
        self.select(placement)
        slots = None if self._prefix is None else Slots.of(placement, self._prefix[0].shape[1])
        own = self._own[:, :, : len(placement), :, : self._grown + 1]
        states = self._body.step(tokens, self._shift + self._prefix_length + self._grown, own, self._prefix, slots)
        self._grown += 1
        return states

    def select(self, placement: Placement) -> None:
        """Give the branches their new rows. Only rows that move are copied."""
        rows = len(placement)
        if rows > self.reserved:
            # Trees grow step by step, so there is room for an eighth more.
            own = self._own.new_empty(*self._own.shape[:2], rows + rows // 8, *self._own.shape[3:])
            own[:, :, : self.reserved, :, : self._grown] = self._own[:, :, :, :, : self._grown]
            self._own = own
        if len(placement.moved) and self._grown:
            grown = self._own[:, :, :, :, : self._grown]
            # Indexing copies first, so a row may be read and overwritten in one step.
            for layer in grown:
                layer[:, placement.moved] = layer[:, placement.parents[placement.moved]]

    @property
    def reserved(self) -> int:
        """The number of rows that there is memory for."""
        return self._own.shape[2]


class _Block:
    """The parts of one transformer block, with the products of query, key and value joined.

    window: the number of positions that it sees, None for all.
    """

    def __init__(self, block: Any, *, is_packed: bool) -> None:
        product = partial(Product, is_packed=is_packed)
        attention = block.attn.attention
        config = attention.config
        self.first_norm: nn.LayerNorm = block.ln_1
        self.second_norm: nn.LayerNorm = block.ln_2
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        self.project = product(torch.cat([each.weight for each in projections]))
        self.join = product(attention.out_proj.weight, attention.out_proj.bias)
        is_gelu = config.activation_function == "gelu_new"
        self.widen = product(block.mlp.c_fc.weight, block.mlp.c_fc.bias, is_gelu=is_gelu)
        self.activation: Callable[[Tensor], Tensor] | None = None if is_gelu else block.mlp.act
        self.narrow = product(block.mlp.c_proj.weight, block.mlp.c_proj.bias)
        self.heads = int(attention.num_heads)
        self.window = int(config.window_size) if attention.attention_type == "local" else None

    def heads_of(self, states: Tensor) -> Tensor:
        """Return query, key and value of states [..., width], [..., 3, heads, head width]."""
        return self.project(self.first_norm(states)).view(*states.shape[:-1], 3, self.heads, -1)

    def finish(self, states: Tensor, mixed: Tensor) -> Tensor:
        """Return states [..., width] after the block, from the attention of its heads [..., heads, head width]."""
        states = self.join(mixed.to(states.dtype).flatten(-2), states)
        inner = self.widen(self.second_norm(states))
        return self.narrow(inner if self.activation is None else self.activation(inner), states)


class NeoBackbone:
    """The blocks of a GPT-Neo without its head."""

    def __init__(self, model: GPTNeoModel, *, is_packed: bool = True) -> None:
        """Read the weights of a model. is_packed: as in `Product`."""
        self._model = model
        self.device = model.device
        self._stored = attention_dtype(model.device, model.dtype)
        self.blocks = [_Block(block, is_packed=is_packed) for block in model.h]

    def begin(
        self, tokens: Tensor, room: int, shift: int = 0, prompt: Tensor | None = None, *, is_shared: bool = True
    ) -> tuple[Tensor, NeoBranches]:
        """Return states [prefixes, length, width] of tokens [prefixes, length], and their branches.

        room: the maximum length of a branch. shift: the position of the first token. prompt: embeddings [tokens, width]
        before the tokens. is_shared: a prefix will have several branches.
        """
        stored: list[Tensor] = []
        states = self.states(tokens, shift, prompt, stored)
        return states, NeoBranches(self, stored, room, shift, is_shared=is_shared)

    def states(
        self, tokens: Tensor, shift: int = 0, prompt: Tensor | None = None, stored: list[Tensor] | None = None
    ) -> Tensor:
        """Return states [prefixes, length, width] of tokens [prefixes, length].

        stored: gets the keys and values of each layer, [2, prefixes, heads, length, head width]. Without it none are
        kept.
        """
        states = self._model.wte(tokens)
        if prompt is not None:
            states = torch.cat([prompt.expand(len(tokens), -1, -1), states], dim=1)
        states = states + self._model.wpe.weight[shift : shift + states.shape[1]]
        for block in self.blocks:
            # [3, prefixes, heads, length, head width]
            query, key, value = heads = block.heads_of(states).permute(2, 0, 3, 1, 4)
            mask = self._mask(block, states.shape[1])
            mixed = F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, is_causal=mask is None, scale=_SCALE
            )
            states = block.finish(states, mixed.transpose(1, 2))
            if stored is not None:
                stored.append(heads[1:].to(self._stored, memory_format=torch.contiguous_format, copy=True))
        return self._model.ln_f(states)  # type: ignore[no-any-return]

    def step(
        self, tokens: Tensor, position: int, own: Tensor, prefix: list[Tensor] | None, slots: Slots | None
    ) -> Tensor:
        """Return the states of tokens [rows] at `position`, [rows, width], and write their keys and values.

        own: [layers, 2, rows, heads, positions, head width], those of the branches; the last position is written.
        prefix: those of the prefixes, which come before them, for each layer [2, prefixes, heads, length, head width],
        with `slots`; None if a branch contains its prefix.
        """
        states = self._model.wte(tokens) + self._model.wpe.weight[position]
        shared = 0 if prefix is None else prefix[0].shape[3]
        positions = shared + own.shape[4]
        for number, block in enumerate(self.blocks):
            heads = block.heads_of(states)  # [rows, 3, heads, head width]
            own[number, ..., -1, :] = heads[:, 1:].transpose(0, 1)
            query = heads[:, 0].to(self._stored)
            first = 0 if block.window is None else max(0, positions - block.window)
            keys, values = own[number, ..., max(0, first - shared) :, :]
            mixed, total = attend(query.unsqueeze(2), keys, values, _SCALE)
            mixed, total = mixed.squeeze(2), total.squeeze(2)  # [rows, heads, head width], without width
            if prefix is not None and slots is not None and first < shared:
                mixed = merge_parts(_attend_prefix(query, prefix[number][..., first:, :], slots), (mixed, total))
            states = block.finish(states, mixed)
        return self._model.ln_f(states)  # type: ignore[no-any-return]

    def _mask(self, block: _Block, length: int) -> Tensor | None:
        """Return True where position [length, 1] sees position [1, length], or None for plain causal attention."""
        if block.window is None or length <= block.window:
            return None
        distance = torch.arange(length, device=self.device)[:, None] - torch.arange(length, device=self.device)
        return (distance >= 0) & (distance < block.window)


def _attend_prefix(query: Tensor, prefix: Tensor, slots: Slots) -> tuple[Tensor, Tensor]:
    """Return attention of query [rows, heads, head width] over the rows' prefixes, and its normalisers [rows, heads].

    prefix: keys and values, [2, prefixes, heads, length, head width].
    """
    keys, values = prefix
    table = query[slots.rows].transpose(1, 2)  # [prefixes, heads, most, head width]
    found, total = attend(table, keys, values, _SCALE)
    return found[slots.owner, :, slots.place], total[slots.owner, :, slots.place]
