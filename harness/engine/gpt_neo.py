"""GPT-Neo for many branches of few prefixes: the keys and values of a prefix are stored once for all its branches.

This module reads the weights of a `transformers` model and computes the same function with fused attention instead of a
[queries, keys] table per layer. It processes one new token per row and knows nothing of heads, policies or draws.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPTNeoModel

from harness.core.arrays import Ints
from harness.engine.attention import attend, merge_parts

_SCALE = 1.0
"""GPT-Neo does not scale its attention by the head width."""


class NeoBranches:
    """Branches of prefixes, one token longer after each step.

    keys, values: of the prefixes, for each layer [prefixes, heads, prefix length, head width]. room: the maximum length
    of a branch. shift: the position of the first token.
    """

    def __init__(self, body: "NeoBackbone", keys: list[Tensor], values: list[Tensor], room: int, shift: int) -> None:
        self._body = body
        self._keys, self._values = keys, values
        prefixes, heads, self._prefix_length, width = keys[0].shape
        self._shift = shift
        self._owner: Ints = np.arange(prefixes)
        self._own_keys = [key.new_empty(prefixes, heads, room, width) for key in keys]
        self._own_values = [value.new_empty(prefixes, heads, room, width) for value in values]
        self._grown = 0

    def advance(self, tokens: Tensor, parents: Ints) -> Tensor:
        """Append `tokens` [rows] to the branches `parents` [rows] and return their states, [rows, width]."""
        self.select(parents)
        body, rows = self._body, len(parents)
        position = self._prefix_length + self._grown
        slots, most = self._slots()
        states = body.embed(tokens, self._shift + position)  # [rows, width]
        for number, block in enumerate(body.blocks):
            query, key, value = body.project_heads(block, states)  # [rows, heads, head width] each
            self._own_keys[number][:rows, :, self._grown] = key
            self._own_values[number][:rows, :, self._grown] = value
            first = 0 if block.window is None else max(0, position + 1 - block.window)
            mixed = self._attend(number, query, first, slots, most)
            states = body.finish_block(block, states, mixed)
        self._grown += 1
        return body.final_norm(states)

    def _attend(self, number: int, query: Tensor, first: int, slots: Tensor, most: int) -> Tensor:
        """Return attention of `query` [rows, heads, head width] over the positions from `first` on, in its shape."""
        rows, heads, width = query.shape
        own = slice(max(0, first - self._prefix_length), self._grown + 1)
        keys, values = self._own_keys[number][:rows, :, own], self._own_values[number][:rows, :, own]
        found, total = attend(query.unsqueeze(2), keys, values, _SCALE)
        parts = [(found.squeeze(2), total.squeeze(2))]
        if first < self._prefix_length:
            keys, values = self._keys[number][:, :, first:], self._values[number][:, :, first:]
            prefixes = len(keys)
            padded = query.new_zeros(prefixes * most, heads, width)
            padded[slots] = query
            padded = padded.view(prefixes, most, heads, width).transpose(1, 2)
            found, total = attend(padded, keys, values, _SCALE)  # [prefixes, heads, most, width], without width
            by_slot = found.transpose(1, 2).reshape(prefixes * most, heads, width)
            parts.append((by_slot[slots], total.transpose(1, 2).reshape(prefixes * most, heads)[slots]))
        return merge_parts(parts)

    def _slots(self) -> tuple[Tensor, int]:
        """Return each row's place in a table [prefixes, most] of the prefixes' branches, and `most`."""
        counts = np.bincount(self._owner, minlength=len(self._keys[0]))
        order = np.argsort(self._owner, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        most = int(counts.max())
        return torch.as_tensor(self._owner * most + rank, device=self._body.device), most

    def select(self, rows: Ints) -> None:
        """Keep the branches `rows` in that order. Only rows that move are copied."""
        self._owner = self._owner[rows]
        self._reserve_rows(len(rows))
        moved = np.flatnonzero(rows != np.arange(len(rows)))
        if len(moved) == 0 or self._grown == 0:
            return
        to = torch.as_tensor(moved, device=self._body.device)
        origin = torch.as_tensor(rows[moved], device=self._body.device)
        for room in (*self._own_keys, *self._own_values):
            grown = room[:, :, : self._grown]
            # Indexing copies first, so a row may be read and overwritten in one step.
            grown[to] = grown[origin]

    @property
    def reserved(self) -> int:
        """The number of rows that there is memory for."""
        return len(self._own_keys[0])

    def _reserve_rows(self, rows: int) -> None:
        """Let there be memory for `rows` branches. Trees grow step by step, so it grows by an eighth more."""
        for rooms in (self._own_keys, self._own_values):
            for number, room in enumerate(rooms):
                if rows > len(room):
                    rooms[number] = room.new_empty(rows + rows // 8, *room.shape[1:])
                    rooms[number][: len(room), :, : self._grown] = room[:, :, : self._grown]


class _Block:
    """The parts of one transformer block. window: the number of positions that it sees, None for all."""

    def __init__(self, block: Any) -> None:
        attention = block.attn.attention
        config = attention.config
        self.attention = attention
        self.first_norm: nn.LayerNorm = block.ln_1
        self.second_norm: nn.LayerNorm = block.ln_2
        self.mlp = block.mlp
        self.activation = block.mlp.act
        if config.activation_function == "gelu_new":
            # One kernel computes the same function as the eight of the model's code.
            self.activation = partial(F.gelu, approximate="tanh")
        self.heads = int(attention.num_heads)
        self.window = int(config.window_size) if attention.attention_type == "local" else None


class NeoBackbone:
    """The blocks of a GPT-Neo without its head."""

    def __init__(self, model: GPTNeoModel) -> None:
        self._model = model
        self.device = model.device
        self.blocks = [_Block(block) for block in model.h]

    def begin(
        self, tokens: Tensor, room: int, shift: int = 0, prompt: Tensor | None = None
    ) -> tuple[Tensor, NeoBranches]:
        """Return states [prefixes, length, width] of tokens [prefixes, length], and their branches.

        room: the maximum length of a branch. shift: the position of the first token. prompt: embeddings [tokens, width]
        before the tokens.
        """
        stored: list[tuple[Tensor, Tensor]] = []
        states = self.states(tokens, shift, prompt, stored)
        return states, NeoBranches(self, [key for key, _ in stored], [value for _, value in stored], room, shift)

    def states(
        self,
        tokens: Tensor,
        shift: int = 0,
        prompt: Tensor | None = None,
        stored: list[tuple[Tensor, Tensor]] | None = None,
    ) -> Tensor:
        """Return states [prefixes, length, width] of tokens [prefixes, length].

        stored: gets the keys and values of each layer, [prefixes, heads, length, head width] each. Without it none are
        kept.
        """
        states = self._model.wte(tokens)
        if prompt is not None:
            states = torch.cat([prompt.expand(len(tokens), -1, -1), states], dim=1)
        states = states + self._model.wpe.weight[shift : shift + states.shape[1]]
        for block in self.blocks:
            query, key, value = (part.transpose(1, 2) for part in self.project_heads(block, states))
            mask = self._mask(block, states.shape[1])
            mixed = F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, is_causal=mask is None, scale=_SCALE
            )
            states = self.finish_block(block, states, mixed.transpose(1, 2))
            if stored is not None:
                stored.append((key, value))
        return self.final_norm(states)

    def embed(self, tokens: Tensor, position: int) -> Tensor:
        """Return embeddings of tokens [rows] that are all at `position`, [rows, width]."""
        return self._model.wte(tokens) + self._model.wpe.weight[position]  # type: ignore[no-any-return]

    def project_heads(self, block: _Block, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value of states [..., width], each [..., heads, head width]."""
        normed = block.first_norm(states)
        shape = (*states.shape[:-1], block.heads, -1)
        attention = block.attention
        return (
            attention.q_proj(normed).view(shape),
            attention.k_proj(normed).view(shape),
            attention.v_proj(normed).view(shape),
        )

    def finish_block(self, block: _Block, states: Tensor, mixed: Tensor) -> Tensor:
        """Return states [..., width] after the block, from the attention of its heads [..., heads, head width]."""
        states = states + block.attention.out_proj(mixed.flatten(-2))
        inner = block.activation(block.mlp.c_fc(block.second_norm(states)))
        return states + block.mlp.c_proj(inner)  # type: ignore[no-any-return]

    def final_norm(self, states: Tensor) -> Tensor:
        """Return states after the final layer norm, which the head expects."""
        return self._model.ln_f(states)  # type: ignore[no-any-return]

    def _mask(self, block: _Block, length: int) -> Tensor | None:
        """Return True where position [length, 1] sees position [1, length], or None for plain causal attention."""
        if block.window is None or length <= block.window:
            return None
        distance = torch.arange(length, device=self.device)[:, None] - torch.arange(length, device=self.device)
        return (distance >= 0) & (distance < block.window)
