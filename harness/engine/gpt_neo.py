"""GPT-Neo for many branches of few prefixes: a prefix's keys and values lie in memory once, a branch's beside them.

Reads the weights of a `transformers` model and computes what it computes, with fused attention instead of a
[queries, keys] table a layer. It knows one new token a row, and nothing of heads, policies or draws.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPTNeoModel

from harness.core.arrays import Ints
from harness.engine.attention import attended, joined

_SCALE = 1.0
"""GPT-Neo does not scale its attention by the width of a head."""


class NeoBranches:
    """Branches of prefixes, one token longer at each step.

    keys, values: of the prefixes, for each layer [prefixes, heads, prefix length, head width]; rows: how many branches
    to make place for at once (more cost a copy); room: how long they can become; shift: where the first token stands.
    """

    def __init__(
        self, body: "NeoBody", keys: list[Tensor], values: list[Tensor], rows: int, room: int, shift: int
    ) -> None:
        self._body = body
        self._keys, self._values = keys, values
        prefixes, heads, self._prefix_length, width = keys[0].shape
        self._shift = shift
        self._owner: Ints = np.arange(prefixes)
        self._own_keys = [key.new_empty(rows, heads, room, width) for key in keys]
        self._own_values = [value.new_empty(rows, heads, room, width) for value in values]
        self._grown = 0

    def advance(self, tokens: Tensor, parents: Ints) -> Tensor:
        """As `Branches` has it: `tokens` [rows] behind the branches `parents` [rows]; their states, [rows, width]."""
        self.select(parents)
        body, rows = self._body, len(parents)
        position = self._prefix_length + self._grown
        slots, most = self._slots()
        states = body.embedded(tokens, self._shift + position)  # [rows, width]
        for number, block in enumerate(body.blocks):
            query, key, value = body.heads_of(block, states)  # [rows, heads, head width] each
            self._own_keys[number][:rows, :, self._grown] = key
            self._own_values[number][:rows, :, self._grown] = value
            first = 0 if block.window is None else max(0, position + 1 - block.window)
            mixed = self._attended(number, query, first, slots, most)
            states = body.after_attention(block, states, mixed)
        self._grown += 1
        return body.normed(states)

    def _attended(self, number: int, query: Tensor, first: int, slots: Tensor, most: int) -> Tensor:
        """What `query` [rows, heads, head width] sees of the positions from `first` on, in its shape."""
        rows, heads, width = query.shape
        own = slice(max(0, first - self._prefix_length), self._grown + 1)
        keys, values = self._own_keys[number][:rows, :, own], self._own_values[number][:rows, :, own]
        found, total = attended(query.unsqueeze(2), keys, values, _SCALE)
        parts = [(found.squeeze(2), total.squeeze(2))]
        if first < self._prefix_length:
            keys, values = self._keys[number][:, :, first:], self._values[number][:, :, first:]
            prefixes = len(keys)
            padded = query.new_zeros(prefixes * most, heads, width)
            padded[slots] = query
            padded = padded.view(prefixes, most, heads, width).transpose(1, 2)
            found, total = attended(padded, keys, values, _SCALE)  # [prefixes, heads, most, width], without width
            by_slot = found.transpose(1, 2).reshape(prefixes * most, heads, width)
            parts.append((by_slot[slots], total.transpose(1, 2).reshape(prefixes * most, heads)[slots]))
        return joined(parts)

    def _slots(self) -> tuple[Tensor, int]:
        """Each row's place in a table [prefixes, most] of the prefixes' branches, and how many `most` is."""
        counts = np.bincount(self._owner, minlength=len(self._keys[0]))
        order = np.argsort(self._owner, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        most = int(counts.max())
        return torch.as_tensor(self._owner * most + rank, device=self._body.device), most

    def select(self, rows: Ints) -> None:
        """As `Branches` has it; only rows that move are copied."""
        self._owner = self._owner[rows]
        self._make_place(len(rows))
        moved = np.flatnonzero(rows != np.arange(len(rows)))
        if len(moved) == 0 or self._grown == 0:
            return
        to = torch.as_tensor(moved, device=self._body.device)
        origin = torch.as_tensor(rows[moved], device=self._body.device)
        for room in (*self._own_keys, *self._own_values):
            grown = room[:, :, : self._grown]
            # Indexing copies first, so that a row may be read and overwritten in one step.
            grown[to] = grown[origin]

    def _make_place(self, rows: int) -> None:
        for rooms in (self._own_keys, self._own_values):
            for number, room in enumerate(rooms):
                if rows > len(room):
                    rooms[number] = room.new_empty(rows + rows // 2, *room.shape[1:])
                    rooms[number][: len(room), :, : self._grown] = room[:, :, : self._grown]


class _Block:
    """The parts of one transformer block, and how far it sees; None where it sees everything."""

    def __init__(self, block: Any) -> None:
        attention = block.attn.attention
        config = attention.config
        self.attention = attention
        self.first_norm: nn.LayerNorm = block.ln_1
        self.second_norm: nn.LayerNorm = block.ln_2
        self.mlp = block.mlp
        self.activation = block.mlp.act
        if config.activation_function == "gelu_new":
            # The same function in one kernel instead of eight.
            self.activation = partial(F.gelu, approximate="tanh")
        self.heads = int(attention.num_heads)
        self.window = int(config.window_size) if attention.attention_type == "local" else None


class NeoBody:
    """The blocks of a GPT-Neo, without its head."""

    def __init__(self, model: GPTNeoModel) -> None:
        self._model = model
        self.device = model.device
        self.blocks = [_Block(block) for block in model.h]

    def begin(
        self, tokens: Tensor, rows: int, room: int, shift: int = 0, prompt: Tensor | None = None
    ) -> tuple[Tensor, NeoBranches]:
        """States [prefixes, length, width] of tokens [prefixes, length], and `rows` branches to be of `room` tokens.

        shift: the position of the first token; prompt: embeddings [tokens, width] that stand before the tokens.
        """
        keys, values = [], []
        states = self._model.wte(tokens)
        if prompt is not None:
            states = torch.cat([prompt.expand(len(tokens), -1, -1), states], dim=1)
        states = states + self._model.wpe.weight[shift : shift + states.shape[1]]
        for block in self.blocks:
            query, key, value = (part.transpose(1, 2) for part in self.heads_of(block, states))
            mask = self._mask(block, states.shape[1])
            mixed = F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, is_causal=mask is None, scale=_SCALE
            )
            states = self.after_attention(block, states, mixed.transpose(1, 2))
            keys.append(key)
            values.append(value)
        return self.normed(states), NeoBranches(self, keys, values, rows, room, shift)

    def embedded(self, tokens: Tensor, position: int) -> Tensor:
        """Embeddings of tokens [rows] that all stand at `position`, [rows, width]."""
        return self._model.wte(tokens) + self._model.wpe.weight[position]  # type: ignore[no-any-return]

    def heads_of(self, block: _Block, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of states [..., width], each [..., heads, head width]."""
        normed = block.first_norm(states)
        shape = (*states.shape[:-1], block.heads, -1)
        attention = block.attention
        return (
            attention.q_proj(normed).view(shape),
            attention.k_proj(normed).view(shape),
            attention.v_proj(normed).view(shape),
        )

    def after_attention(self, block: _Block, states: Tensor, mixed: Tensor) -> Tensor:
        """States [..., width] behind the block, from what its heads [..., heads, head width] have seen."""
        states = states + block.attention.out_proj(mixed.flatten(-2))
        inner = block.activation(block.mlp.c_fc(block.second_norm(states)))
        return states + block.mlp.c_proj(inner)  # type: ignore[no-any-return]

    def normed(self, states: Tensor) -> Tensor:
        """States as the head takes them."""
        return self._model.ln_f(states)  # type: ignore[no-any-return]

    def _mask(self, block: _Block, length: int) -> Tensor | None:
        """True where a position [length, 1] sees another [1, length]; None for all that stand before it."""
        if block.window is None or length <= block.window:
            return None
        distance = torch.arange(length, device=self.device)[:, None] - torch.arange(length, device=self.device)
        return (distance >= 0) & (distance < block.window)
