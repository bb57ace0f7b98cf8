"""A transformer decoder for many branches of few prefixes: keys and values of a prefix are stored once for all of them.

It computes the function of a `transformers` model from that model's weights, which `architectures.py` finds, with fused
operations instead of a [queries, keys] table per layer. It processes one new token per row and knows nothing about
heads, policies or draws.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from harness.engine.branches import Placement
from harness.engine.kernels import Product, add_sinks, attend, attention_dtype, merge_parts, rotate
from harness.engine.pieces import Piece, move_to

Function = Callable[[Tensor], Tensor]
Angles = tuple[Tensor, Tensor]
"""Cosines and signed sines of positions for `rotate`, [positions, columns] each."""
Rotary = Callable[[Tensor], Angles]
"""The angles of positions [positions]."""
_SCORE_BYTES = 64 << 20
"""Size of the products of queries and keys that exist at once where no fused kernel applies."""


@dataclass(frozen=True)
class Attention:
    """The attention of one block.

    qkv: the product for query, key and value.
    output: the product of all heads' results.
    heads: query heads.
    key_value_heads: several query heads may share one.
    scale: of the products of queries and keys.
    is_by_head: query, key and value of one head stand side by side.
    query_norm, key_norm: of [..., heads, head width], before their rotation.
    clip: the largest absolute value of query, key and value.
    rotary: the rotary embedding of queries and keys, None for none. Blocks may share one.
    is_interleaved: neighbouring columns rotate together.
    window: the number of positions that a position sees, None for all.
    cap: scores are limited to this absolute value by tanh (Gemma 2).
    sinks: a score per head, [key/value heads, query heads of each], that only enlarges the denominator of the softmax.
    """

    qkv: Product
    output: Product
    heads: int
    key_value_heads: int
    scale: float
    is_by_head: bool = False
    query_norm: Function | None = None
    key_norm: Function | None = None
    clip: float | None = None
    rotary: Rotary | None = None
    is_interleaved: bool = False
    window: int | None = None
    cap: float | None = None
    sinks: Tensor | None = None

    def heads_of(self, states: Tensor, angles: Angles | None) -> tuple[Tensor, Tensor]:
        """Return query [..., heads, head width] and what is stored, [..., 2, key/value heads, head width].

        states: normalised, [..., width]. The second result is keys and values.
        """
        heads = self.qkv(states)
        if self.is_by_head:
            heads = torch.unflatten(heads, -1, (self.heads, 3, -1)).transpose(-3, -2).flatten(-3, -2)
        else:
            heads = torch.unflatten(heads, -1, (self.heads + 2 * self.key_value_heads, -1))
        parts = [self.heads, self.key_value_heads, self.key_value_heads]
        if self.query_norm is not None and self.key_norm is not None:
            query, key, value = torch.split(heads, parts, dim=-2)
            heads = torch.cat([self.query_norm(query), self.key_norm(key), value], dim=-2)
        if self.clip is not None:
            heads = heads.clamp(-self.clip, self.clip)
        if angles is None:
            query, stored = torch.split(heads, [self.heads, 2 * self.key_value_heads], dim=-2)
            return query, torch.unflatten(stored, -2, (2, -1))
        rotated, value = torch.split(heads, [self.heads + self.key_value_heads, self.key_value_heads], dim=-2)
        rotated = rotate(rotated, *angles, is_interleaved=self.is_interleaved)
        query, key = torch.split(rotated, parts[:2], dim=-2)
        return query, torch.stack([key, value], dim=-3)

    def attend_causally(self, query: Tensor, pair: Tensor) -> Tensor:
        """Return the attention of whole sequences, [rows, length, heads, head width], in the shape of the query.

        pair: keys and values, [2, rows, key/value heads, length, head width].
        """
        length, window = query.shape[1], self.window
        key, value = pair
        mask = None if window is None or length <= window else _window_mask(window, length, query.device)
        if self.cap is None and self.sinks is None:
            return F.scaled_dot_product_attention(
                query.transpose(1, 2),
                key,
                value,
                attn_mask=mask,
                is_causal=mask is None,
                scale=self.scale,
                enable_gqa=self.heads > self.key_value_heads,
            ).transpose(1, 2)
        mask = _window_mask(length, length, query.device) if mask is None else mask
        # [rows, key/value heads, query heads of each, length, head width]
        query = torch.unflatten(query, 2, (self.key_value_heads, -1)).permute(0, 2, 3, 1, 4)
        rows = max(1, _SCORE_BYTES // (4 * self.heads * length * length))
        parts = zip(*(torch.split(part, rows) for part in (query, key.unsqueeze(2), value.unsqueeze(2))), strict=True)
        mixed = torch.cat([self.attend(queries, keys, values, mask)[0] for queries, keys, values in parts])
        return mixed.permute(0, 3, 1, 2, 4).flatten(2, 3)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the results of `attend` with the cap and the sinks, for queries by their key/value heads."""
        mixed, total = attend(query, keys, values, self.scale, cap=self.cap, mask=mask)
        if self.sinks is None:
            return mixed, total
        return add_sinks(mixed, total, self.sinks if mask is None else self.sinks.unsqueeze(-1))


@dataclass(frozen=True)
class Mlp:
    """The feed-forward part of one block. The activation is applied by `gate` if there is one, else by `up`."""

    up: Product
    down: Product
    gate: Product | None = None

    def __call__(self, states: Tensor, residual: Tensor | None) -> Tensor:
        """Return the result for normalised states [..., width], plus `residual` in the same shape."""
        gate = None if self.gate is None else self.gate(states)
        return self.down(self.up(states, times=gate), plus=residual)


@dataclass(frozen=True)
class Block:
    """One transformer block.

    mlp: from normalised states [..., width] and a residual in the same shape, or None, to their sum.
    attention_norm, mlp_norm: of the inputs of attention and MLP, None if they take the states as they are.
    attention_post_norm, mlp_post_norm: of their results, None if these are added as they are.
    is_parallel: the MLP reads the block's input.
    """

    attention: Attention
    mlp: Callable[[Tensor, Tensor | None], Tensor]
    attention_norm: Function | None = None
    mlp_norm: Function | None = None
    attention_post_norm: Function | None = None
    mlp_post_norm: Function | None = None
    is_parallel: bool = False

    def finish(self, states: Tensor, mixed: Tensor) -> Tensor:
        """Return states [..., width] after the block, from the attention of its heads [..., heads, head width]."""
        mixed = mixed.to(states.dtype).flatten(-2)
        if self.attention_post_norm is None:
            joined = self.attention.output(mixed, plus=states)
        else:
            joined = states + self.attention_post_norm(self.attention.output(mixed))
        inner = states if self.is_parallel else joined
        inner = inner if self.mlp_norm is None else self.mlp_norm(inner)
        if self.mlp_post_norm is None:
            return self.mlp(inner, joined)
        return joined + self.mlp_post_norm(self.mlp(inner, None))


@dataclass(frozen=True)
class Parts:
    """A decoder without its output embedding.

    embed: from token ids [...] to embeddings [..., width].
    norm: of the last states.
    position_embeddings: [positions, width], None if there are none.
    """

    embed: Function
    blocks: Sequence[Block]
    norm: Function | None
    position_embeddings: Tensor | None = None


@dataclass(frozen=True)
class Slots:
    """The rows of each prefix side by side, as attention over the keys of a prefix needs them.

    rows: [prefixes, max_branches], the row at each place; places without a row have any row.
    place: [rows], where each row is among those of its prefix.
    owner: [rows], its prefix.
    """

    rows: Tensor
    place: Tensor
    owner: Tensor

    @classmethod
    def of(cls, placement: Placement, prefixes: int) -> "Slots":
        """Return the slots of the branches of `prefixes` prefixes."""
        owner, max_branches = placement.owner, placement.max_branches
        order = owner.argsort(stable=True)
        sorted_owner = owner[order]
        numbers = torch.arange(len(owner), device=owner.device)
        sorted_place = numbers - torch.searchsorted(sorted_owner, sorted_owner)
        rows = owner.new_zeros(prefixes * max_branches).scatter_(0, sorted_owner * max_branches + sorted_place, order)
        return cls(rows.view(prefixes, max_branches), torch.empty_like(owner).scatter_(0, order, sorted_place), owner)

    def to(self, device: torch.device) -> "Slots":
        """Return the slots on `device`."""
        return Slots(self.rows.to(device), self.place.to(device), self.owner.to(device))


class SharedBranches:
    """Branches of prefixes, one token longer after each step.

    prefix: the keys and values of the prefixes, for each block [2, prefixes, key/value heads, prefix length, head
    width].
    room: the maximum length of a branch.
    shift: the position of the first token.
    is_shared: if False, each prefix has one branch, which contains the prefix, so that attention reads one place
    instead of two.
    """

    def __init__(self, decoder: "Decoder", prefix: list[Tensor], room: int, shift: int, *, is_shared: bool) -> None:
        self._decoder = decoder
        self._shift = shift
        _, prefixes, heads, length, width = prefix[0].shape
        self._prefix = prefix if is_shared else None
        self._prefix_length = length if is_shared else 0
        self._grown = 0 if is_shared else length
        room = room if is_shared else length + room
        # Those of each piece of the decoder: [blocks, 2, rows, key/value heads, positions, head width]
        self._pairs: list[Tensor] = []
        for piece in decoder.pieces:
            pairs = prefix[piece.first].new_empty(len(piece), 2, prefixes, heads, room, width)
            self._pairs.append(pairs)
            if not is_shared:
                for of_block, whole in zip(pairs, prefix[piece.numbers], strict=True):
                    of_block[..., :length, :] = whole

    def advance(self, tokens: Tensor, placement: Placement) -> Tensor:
        """Append `tokens` [rows] to the branches in their new rows and return their states, [rows, width]."""
        self.select(placement)
        slots = None if self._prefix is None else Slots.of(placement, self._prefix[0].shape[1])
        pairs = [pairs[:, :, : len(placement), :, : self._grown + 1] for pairs in self._pairs]
        states = self._decoder.step(tokens, self._shift + self._prefix_length + self._grown, pairs, self._prefix, slots)
        self._grown += 1
        return states

    def select(self, placement: Placement) -> None:
        """Give the branches their new rows. Only rows that move are copied."""
        rows = len(placement)
        reserved = self.reserved
        if rows > reserved:
            for number, pairs in enumerate(self._pairs):
                # Trees grow step by step, so there is room for an eighth more.
                larger = pairs.new_empty(*pairs.shape[:2], rows + rows // 8, *pairs.shape[3:])
                larger[:, :, :reserved, :, : self._grown] = pairs[:, :, :, :, : self._grown]
                self._pairs[number] = larger
        if len(placement.moved) and self._grown:
            parents = placement.parents[placement.moved]
            for pairs in self._pairs:
                to, from_ = placement.moved.to(pairs.device), parents.to(pairs.device)
                # Indexing copies first, so a row may be read and overwritten in one step.
                for of_block in pairs[:, :, :, :, : self._grown]:
                    of_block[:, to] = of_block[:, from_]

    @property
    def reserved(self) -> int:
        """The number of rows that there is memory for."""
        return self._pairs[0].shape[2]


class Decoder:
    """A decoder that continues branches of prefixes. Its blocks may be on several devices, all else is on the first."""

    def __init__(self, parts: Parts, pieces: Sequence[Piece], dtype: torch.dtype) -> None:
        """Wrap the parts of a model that computes in `dtype`. pieces: of all blocks, in their order."""
        self.parts = parts
        self.pieces = tuple(pieces)
        self.device = self.pieces[0].device
        rotaries = dict.fromkeys(block.attention.rotary for block in parts.blocks)
        self._rotaries = [rotary for rotary in rotaries if rotary is not None]
        self._stored = attention_dtype(self.device, dtype)

    def begin(
        self, tokens: Tensor, room: int, shift: int = 0, prompt: Tensor | None = None, *, is_shared: bool = True
    ) -> tuple[Tensor, SharedBranches]:
        """Return states [prefixes, length, width] of tokens [prefixes, length], and their branches.

        room: the maximum length of a branch.
        shift: the position of the first token.
        prompt: embeddings [tokens, width] before the tokens.
        is_shared: a prefix will have several branches.
        """
        stored: list[Tensor] = []
        states = self.states(tokens, shift, prompt, stored)
        return states, SharedBranches(self, stored, room, shift, is_shared=is_shared)

    def states(
        self, tokens: Tensor, shift: int = 0, prompt: Tensor | None = None, stored: list[Tensor] | None = None
    ) -> Tensor:
        """Return states [prefixes, length, width] of tokens [prefixes, length].

        stored: gets the keys and values of each block, [2, prefixes, key/value heads, length, head width], on the
        block's device. Without it none are kept.
        """
        states = self.parts.embed(tokens)
        if prompt is not None:
            states = torch.cat([prompt.expand(len(tokens), -1, -1), states], dim=1)
        length = states.shape[1]
        states, angles = self._place(states, shift, length)
        for piece in self.pieces:
            states, angles = move_to((states, angles), piece.device)
            for block in self.parts.blocks[piece.numbers]:
                query, pair = self._heads_of(block, states, angles)
                pair = pair.permute(2, 0, 3, 1, 4)  # [2, prefixes, key/value heads, length, head width]
                states = block.finish(states, block.attention.attend_causally(query, pair))
                if stored is not None:
                    stored.append(pair.to(self._stored, memory_format=torch.contiguous_format, copy=True))
        return self._normalize(states)

    def step(
        self, tokens: Tensor, position: int, of_branches: list[Tensor], prefix: list[Tensor] | None, slots: Slots | None
    ) -> Tensor:
        """Return the states of tokens [rows] at `position`, [rows, width], and write their keys and values.

        of_branches: those of the branches, for each piece [blocks, 2, rows, key/value heads, positions, head width];
        the last position is written.
        prefix: those of the prefixes, which come before them, for each block [2, prefixes, key/value heads, length,
        head width], with `slots`; None if a branch contains its prefix.
        """
        states, angles = self._place(self.parts.embed(tokens), position, 1)
        shared = 0 if prefix is None else prefix[0].shape[3]
        positions = shared + of_branches[0].shape[4]
        for piece, of_piece in zip(self.pieces, of_branches, strict=True):
            states, angles = move_to((states, angles), piece.device)
            slots = None if slots is None else slots.to(piece.device)
            for number, of_block in enumerate(of_piece, piece.first):
                block = self.parts.blocks[number]
                attention = block.attention
                query, new = self._heads_of(block, states, angles)
                of_block[..., -1, :] = new.transpose(0, 1)
                # [rows, key/value heads, query heads of each, head width]
                query = torch.unflatten(query.to(self._stored), 1, (attention.key_value_heads, -1))
                first = 0 if attention.window is None else max(0, positions - attention.window)
                keys, values = of_block[..., max(0, first - shared) :, :]
                mixed, total = attention.attend(query, keys, values)
                if prefix is not None and slots is not None and first < shared:
                    before = _attend_prefix(query, prefix[number][..., first:, :], slots, attention)
                    mixed = merge_parts(before, (mixed, total))
                states = block.finish(states, mixed.flatten(1, 2))
        return self._normalize(states)

    def _place(self, states: Tensor, first: int, length: int) -> tuple[Tensor, dict[Rotary, Angles]]:
        """Return embeddings [..., width] of `length` positions from `first` on with their positions, and the angles."""
        embeddings = self.parts.position_embeddings
        if embeddings is not None:
            states = states + embeddings[first : first + length]
        positions = torch.arange(first, first + length, device=self.device)
        angles = {}
        for rotary in self._rotaries:
            cosines, sines = rotary(positions)
            # One dimension more, for the heads.
            angles[rotary] = cosines.unsqueeze(-2), sines.unsqueeze(-2)
        return states, angles

    def _heads_of(self, block: Block, states: Tensor, angles: dict[Rotary, Angles]) -> tuple[Tensor, Tensor]:
        attention = block.attention
        normed = states if block.attention_norm is None else block.attention_norm(states)
        return attention.heads_of(normed, None if attention.rotary is None else angles[attention.rotary])

    def _normalize(self, states: Tensor) -> Tensor:
        """Return the states of the last block on the first device, after the last norm."""
        states = states.to(self.device)
        return states if self.parts.norm is None else self.parts.norm(states)


def _window_mask(window: int, length: int, device: torch.device) -> Tensor:
    """Return True where position [length, 1] sees position [1, length]."""
    distance = torch.arange(length, device=device)[:, None] - torch.arange(length, device=device)
    return (distance >= 0) & (distance < window)


def _attend_prefix(query: Tensor, prefix: Tensor, slots: Slots, attention: Attention) -> tuple[Tensor, Tensor]:
    """Return attention of the rows over their prefixes, in the shape of the query, and its normalisers without width.

    query: [rows, key/value heads, query heads of each, head width].
    prefix: keys and values, [2, prefixes, key/value heads, length, head width].
    """
    keys, values = prefix
    queries = query.shape[2]
    table = (
        query[slots.rows].transpose(1, 2).flatten(2, 3)
    )  # [prefixes, key/value heads, max_branches * each, head width]
    parts = attend(table, keys, values, attention.scale, cap=attention.cap)
    mixed, total = (torch.unflatten(part, 2, (-1, queries)) for part in parts)
    return mixed[slots.owner, :, slots.place], total[slots.owner, :, slots.place]
