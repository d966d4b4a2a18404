"""Attention of queries to keys and values: splash and flash kernels of JAX, or plain dot-product attention."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jax.sharding import NamedSharding, PartitionSpec

from layout import BATCH, Layout
from rows import DEFAULTS, Run


@dataclass(frozen=True)
class Mask:
    """Causal, and within a window or a chunk where one is given."""

    window: int | None = None
    chunk: int | None = None


def attend(
    run: Run,
    layout: Layout,
    mask: Mask,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    segments: jax.Array | None,
    sinks: jax.Array | None = None,
) -> jax.Array:
    """Attention over arrays of [batch, length, heads, head]; keys and values may have fewer heads than queries."""
    of_2023 = run.model["family"] == "parallel2023"
    kind = str(run.row.get("attention") or ("dot_product" if of_2023 else run.setting("attention")))
    if "dot_product" in kind or kind == "?":
        return _dot_product(mask, q, k, v)
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    if of_2023:
        out = _flash_2023(layout, q, k, v)
    else:
        out = _splash(run, layout, mask, q, k, v, segments, sinks)
    return jnp.swapaxes(out, 1, 2)


def _dot_product(mask: Mask, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    batch, length, heads, head = q.shape
    kv_heads = k.shape[2]
    grouped = q.reshape(batch, length, kv_heads, heads // kv_heads, head)
    scores = jnp.einsum("bqkgd,bskd->bkgqs", grouped, k, preferred_element_type=jnp.float32)
    allowed = np.tril(np.ones((length, length), bool))
    if mask.window is not None:
        allowed &= ~np.tril(np.ones((length, length), bool), -mask.window)
    scores = jnp.where(allowed, scores, -0.7 * float(np.finfo(np.float32).max))
    weights = jax.nn.softmax(scores, -1).astype(q.dtype)
    return jnp.einsum("bkgqs,bskd->bqkgd", weights, v).reshape(batch, length, heads, v.shape[-1])


def _flash_2023(layout: Layout, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """The Pallas flash attention of 2023, whose every block was 512."""
    block = min(512, q.shape[2])
    names = [name for name in flash.BlockSizes.__dataclass_fields__ if name != "block_b"]
    sizes = flash.BlockSizes(block_b=1, **{name: block for name in names})
    spec = PartitionSpec(BATCH, "tensor", None, None)

    @functools.partial(jax.shard_map, mesh=layout.mesh, in_specs=(spec,) * 3, out_specs=spec, check_vma=False)
    def local(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return flash.flash_attention(q, k, v, causal=True, block_sizes=sizes)

    return local(q, k, v)


def _block_sizes(run: Run, length: int, windowed: bool) -> splash.BlockSizes:
    def size(name: str) -> int:
        own = run.settings.get(f"local_sa_{name}") if windowed else None
        default = DEFAULTS["sa_block"]
        return min(own or run.settings.get(f"sa_{name}", default), length)

    fused = bool(run.setting("sa_use_fused_bwd_kernel"))
    layouts = {
        f"{which}_layout": splash.QKVLayout[run.settings.get(f"sa_{which}_layout", "HEAD_DIM_MINOR")] for which in "qkv"
    }
    backward = {} if fused else {"block_q_dq": size("block_q_dq"), "block_kv_dq": size("block_kv_dq")}
    return splash.BlockSizes(
        block_q=size("block_q"),
        block_kv=size("block_kv"),
        block_kv_compute=min(size("block_kv_compute"), size("block_kv")),
        block_q_dkv=size("block_q_dkv"),
        block_kv_dkv=size("block_kv_dkv"),
        block_kv_dkv_compute=min(size("block_kv_dkv_compute"), size("block_kv_dkv")),
        use_fused_bwd_kernel=fused,
        **backward,
        **layouts,
    )


def balanced_order(length: int, shards: int) -> np.ndarray:
    """Positions in the order that gives every shard of a causal sequence the same work: a chunk from each end."""
    chunks = np.arange(length).reshape(2 * shards, -1)
    return np.concatenate([np.concatenate([chunks[i], chunks[2 * shards - 1 - i]]) for i in range(shards)])


class _LongCausalMask(masks.CausalMask):
    """A causal mask that answers for a block without comparing its elements, where the block is all one value."""

    def __getitem__(self, index: tuple[slice, slice]) -> np.ndarray:
        rows, columns = self.q_sequence[index[0]], range(self.shape[1])[index[1]]
        if len(columns) == 1:
            return rows[:, None] >= columns[0]
        if rows.min() >= columns[-1]:
            return np.ones((1, 1), bool)
        if rows.max() < columns[0]:
            return np.zeros((1, 1), bool)
        return super().__getitem__(index)


def _splash_mask(mask: Mask, length: int, heads: int, shards: int) -> masks.MultiHeadMask:
    shape = (length, length)
    if mask.window is not None and mask.window < length:
        one = masks.LocalMask(shape, window_size=(mask.window - 1, 0), offset=0, shard_count=shards)
    elif mask.chunk is not None and mask.chunk < length:
        one = masks.ChunkedCausalMask(shape, mask.chunk, shard_count=shards)
    else:
        one = _LongCausalMask(shape, shard_count=shards)
        if shards > 1:
            one.q_sequence = balanced_order(length, shards).astype(np.int32)
    return masks.MultiHeadMask([one] * heads)


def _splash(
    run: Run,
    layout: Layout,
    mask: Mask,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    segments: jax.Array | None,
    sinks: jax.Array | None,
) -> jax.Array:
    heads, length = q.shape[1], q.shape[2]
    tensor, context = layout.sizes["tensor"], layout.sizes["context"]
    kernel = splash.make_splash_mha(
        mask=_splash_mask(mask, length, heads, context),
        head_shards=tensor,
        q_seq_shards=context,
        block_sizes=_block_sizes(run, length // context, mask.window is not None),
        attn_logits_soft_cap=run.settings.get("attn_logits_soft_cap") or run.model.get("attn_logits_soft_cap"),
    )
    kernel_spec = kernel.manual_sharding_spec(NamedSharding(layout.mesh, PartitionSpec("tensor", "context")))
    query = PartitionSpec(BATCH, "tensor", "context", None)
    # Fewer key heads than tensor shards: every shard gets the head it needs by having all of them.
    split = "tensor" if k.shape[1] % tensor == 0 else None
    key = PartitionSpec(BATCH, split, None, None)
    if split is None:
        k, v = (jnp.repeat(x, heads // x.shape[1], axis=1) for x in (k, v))
        key = PartitionSpec(BATCH, "tensor", None, None)
    ids = None if segments is None else splash.SegmentIds(segments, segments)
    split_ids = None if ids is None else splash.SegmentIds(PartitionSpec(BATCH, "context"), PartitionSpec(BATCH, None))
    arguments = [q, k, v, ids]
    specs = [query, key, key, split_ids]
    if sinks is not None:
        arguments.append(sinks)
        specs.append(PartitionSpec("tensor"))

    @functools.partial(
        jax.shard_map, mesh=layout.mesh, in_specs=(kernel_spec, *specs), out_specs=query, check_vma=False
    )
    def local(kernel, q, k, v, ids, sinks=None):  # noqa: ANN001, ANN202
        def one(q, k, v, ids):  # noqa: ANN001, ANN202
            return kernel(q, k, v, ids) if sinks is None else kernel(q, k, v, ids, sinks=sinks)

        return jax.vmap(one)(q, k, v, ids)

    return local(kernel, *arguments)
