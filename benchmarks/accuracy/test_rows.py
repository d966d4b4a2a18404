"""Checks of how rows are read and counted, without JAX, libtpu or the tpu command: run with pytest."""

from __future__ import annotations

import pytest

import flops
import models
import rows
import slices


@pytest.mark.parametrize(
    ("text", "inside", "between"),
    [
        ("fsdp", {"fsdp": -1}, {}),
        ("fsdp256", {"fsdp": 256}, {}),
        ("fsdp256dev", {"fsdp": 256}, {}),
        ("fsdp64 x tensor8", {"fsdp": 64, "tensor": 8}, {}),
        ("fsdp256 x dcn_fsdp2", {"fsdp": 256}, {"fsdp": 2}),
        ("fsdp_transpose x dcn4", {"fsdp_transpose": -1}, {"data": 4}),
        ("fsdp16 x tensor16 + dcn data 2", {"fsdp": 16, "tensor": 16}, {"data": 2}),
    ],
)
def test_mesh(text: str, inside: dict[str, int], between: dict[str, int]) -> None:
    assert rows.parse_mesh(text) == (inside, between)


def test_mesh_of_unknown_axis_is_refused() -> None:
    with pytest.raises(rows.Unreadable, match="'pipeline4' is no axis"):
        rows.parse_mesh("fsdp x pipeline4")


@pytest.mark.parametrize(
    ("text", "save", "offload"),
    [
        ("full(default)", (), ()),
        ("full, int8 quantization (AQT)", (), ()),
        ("save out_proj,mlpwo", ("decoder_layer_input", "out_proj", "mlpwo"), ()),
        ("custom: save decoder_layer_input only", ("decoder_layer_input",), ()),
        ("offload layer_input,mlpwo", (), ("decoder_layer_input", "mlpwo")),
        ("custom: offload decoder_layer_input,q,k,v to host; capacity 1.25 dropped", (), None),
    ],
)
def test_remat(text: str, save: tuple[str, ...], offload: tuple[str, ...] | None) -> None:
    read = rows.parse_remat(text)
    assert read is not None
    assert read.save == save
    assert read.offload == (("decoder_layer_input", "query_proj", "key_proj", "value_proj") if offload is None else offload)


def test_remat_that_refers_to_a_recipe_says_nothing_itself() -> None:
    assert rows.parse_remat("same") is None


def test_remat_of_unknown_tensor_is_refused() -> None:
    with pytest.raises(rows.Unreadable, match="no tensor is called banana"):
        rows.parse_remat("offload banana")


def _slice(devices: int, num_slices: int = 1) -> slices.Slice:
    return slices.Slice("any", num_slices, devices, devices, {})


def test_open_axis_takes_what_is_left() -> None:
    row = {"mesh": "fsdp x tensor4", "id": "x"}
    inside, between = rows._mesh(row, {}, _slice(128, 2), [])
    assert (inside["fsdp"], inside["tensor"], between["data"]) == (16, 4, 2)


def test_mesh_that_does_not_cover_the_slice_is_refused() -> None:
    with pytest.raises(rows.Unreadable, match="does not cover"):
        rows._mesh({"mesh": "fsdp8"}, {}, _slice(16), [])


# Model, sequences per chip, length, published TFLOP/s and tokens/s per chip, convention.
PUBLISHED = [
    ("llama3.1-8b", 3, 8192, 413.433, 7138.89, "full"),
    ("gemma3-12b", 1, 32768, 349.442, 4477.768, "halved"),
    ("mixtral-8x7b", 12, 4096, 302.311, 3645.203, "full"),
    ("deepseek-v3", 16, 4096, 607.53, 2425.75, "halved"),
    ("gemma4-2b", 4, 8192, 892.84, 57873.71, "causal"),
    ("gemma4-26b", 32, 4096, 592.31, 23655.73, "causal"),
    ("gpt-oss-120b", 20, 8192, 330.25, 9581.66, "halved"),
    ("llama4-scout-17b-16e", 8, 8192, 225.491, 2070.487, "halved"),
    ("qwen3-235b-a22b", 32, 4096, 629.79, 4245.89, "halved"),
]


@pytest.mark.parametrize(("name", "sequences", "seq", "rate", "tokens", "convention"), PUBLISHED)
def test_model_flops_equal_the_published_rate(
    name: str, sequences: float, seq: int, rate: float, tokens: float, convention: str
) -> None:
    model, _ = models.find(name, None, "")
    total = flops.step_flops(model, sequences, seq, 0).total(convention)
    assert total / (sequences * seq) * tokens / 1e12 == pytest.approx(rate, rel=1e-3)


def test_unknown_model_without_dimensions_is_refused() -> None:
    with pytest.raises(models.UnknownModel, match="has no dims"):
        models.find("52B", None, "")
