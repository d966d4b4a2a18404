"""Executables that were compiled without a TPU, with what JAX must know to call them on one."""

from __future__ import annotations

import base64
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._command import TpuError
from ._programs import is_torch, lowered

#: What is written, and its version.
_FORMAT, _VERSION = "tpubridge-bundle", 1

#: Numbers of element types in the header that jaxlib puts before an executable.
_TYPES = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8, "uint64": 9,
    "float16": 10, "float32": 11, "float64": 12, "complex64": 15, "bfloat16": 16, "complex128": 18,
    "float8_e5m2": 19, "float8_e4m3fn": 20, "int4": 21, "uint4": 22,
}  # fmt: skip


def signature(program: Any, example_inputs: Any) -> dict[str, Any] | None:
    """What JAX must know to call a program; nothing for programs that are not JAX's."""
    is_program = isinstance(program, (str, bytes, bytearray, os.PathLike)) or hasattr(program, "mlir_module_serialized")
    if is_program or "jax" not in sys.modules or is_torch(program):
        return None
    program = lowered(program, example_inputs)
    inner = program._lowering
    arguments = inner.compile_args
    if arguments["unordered_effects"] or arguments["ordered_effects"] or arguments["host_callbacks"]:
        raise TpuError("a program with callbacks cannot be kept in a bundle", "leave jax.debug and io_callback out of it")
    if getattr(inner, "const_args", None) or arguments.get("mut"):
        raise TpuError("a program that closes over arrays cannot be kept in a bundle", "make them arguments of the function")
    flat = _tree().tree_leaves(program.args_info)
    return {
        "jax": sys.modules["jax"].__version__,
        "name": str(inner._name),
        "num_devices": int(arguments["num_devices"]),
        "committed": bool(arguments["committed"]),
        "kept": sorted(arguments["kept_var_idx"]),
        "donated": [bool(each.donated) for each in flat],
        "all_inputs": [_described(_aval(each), None) for each in flat],
        "inputs": _described_all(arguments["global_in_avals"], arguments["in_shardings"]),
        "outputs": _described_all(arguments["global_out_avals"], arguments["out_shardings"]),
        "in_tree": _written_tree(program.in_tree),
        "out_tree": _written_tree(program.out_tree),
        "no_kwargs": bool(program._no_kwargs),
    }


def _aval(info: Any) -> Any:
    return getattr(info, "_aval", None) or info.aval


def _described_all(avals: Sequence[Any], shardings: Sequence[Any]) -> list[dict[str, Any]]:
    return [_described(aval, sharding) for aval, sharding in zip(avals, shardings, strict=True)]


def _described(aval: Any, sharding: Any) -> dict[str, Any]:
    return {
        "shape": [int(size) for size in aval.shape],
        "dtype": aval.dtype.name,
        "weak_type": bool(aval.weak_type),
        "sharding": _described_sharding(sharding),
    }


def _described_sharding(sharding: Any) -> dict[str, Any] | None:
    """A named sharding over a mesh of any devices; nothing where the program leaves it open or names one device."""
    spec, mesh = getattr(sharding, "spec", None), getattr(sharding, "mesh", None)
    if spec is None or mesh is None:
        return None
    return {
        "axes": [[str(name), int(size)] for name, size in dict(mesh.shape).items()],
        "spec": [list(each) if isinstance(each, tuple) else each for each in spec],
        "memory_kind": sharding.memory_kind,
    }


def _written_tree(tree: Any) -> str:
    try:
        return base64.b64encode(tree.serialize_using_proto()).decode()
    except Exception as error:
        hint = "give and return tuples, lists and dicts; classes of one's own have no form that can be kept"
        raise TpuError(f"the structure of the arguments or results cannot be kept: {error}", hint) from error


def _tree() -> Any:
    import jax.tree_util

    return jax.tree_util


def write(path: Path, executable: bytes, signature: Mapping[str, Any] | None, target: Mapping[str, Any]) -> None:
    """Writes a bundle, or the bare executable where there is no signature; whole or not at all."""
    file = tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False)
    try:
        with file:
            if signature is None:
                file.write(executable)
            else:
                head = {"format": _FORMAT, "version": _VERSION, "target": dict(target), "signature": dict(signature)}
                with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                    archive.writestr("bundle.json", json.dumps(head, indent=1))
                    archive.writestr("executable", executable)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], bytes]:
    """What a bundle says, and its executable."""
    try:
        with zipfile.ZipFile(path) as archive:
            head, executable = json.loads(archive.read("bundle.json")), archive.read("executable")
    except OSError as error:
        raise TpuError(f"cannot read {os.fspath(path)}: {error.strerror}", "check the path") from error
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        hint = "tpubridge.compile(lowered, slice=..., out=FILE) of a JAX program writes one"
        raise TpuError(f"{os.fspath(path)} is no bundle: {error}", hint) from error
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise TpuError(f"{os.fspath(path)} is no bundle")
    if head.get("version") != _VERSION:
        raise TpuError(f"{os.fspath(path)} is of version {head.get('version')}; this package reads {_VERSION}")
    return head, executable


def load(path: str | os.PathLike[str], *, backend: str | None = None, devices: Sequence[Any] | None = None) -> Any:
    """A bundle as a `jax.stages.Compiled`, on the devices of this machine: nothing is compiled again.

    `backend` is a platform of JAX, by default its first one; `devices` are those to run on, in the order of the mesh. A bundle is
    machine code that runs as you: load only those of people you trust. The device's runtime must accept what the compiler wrote, which
    holds for the libtpu version that compiled it; JAX's version must be one that `jax.experimental.serialize_executable` would accept.
    """
    head, executable = read(path)
    try:
        import jax
        from jax._src.interpreters import pxla
        from jax._src.lib import xla_client
    except ImportError as error:
        raise TpuError(f"JAX is needed to load a bundle: {error}", "pip install jax") from error
    said = head["signature"]
    chosen = list(devices) if devices is not None else jax.devices(backend)[: said["num_devices"]]
    if len(chosen) != said["num_devices"]:
        raise TpuError(
            f"the program runs on {said['num_devices']} devices, {len(chosen)} are here",
            f"it was compiled for {head['target'].get('slice', 'another machine')}",
        )
    client = chosen[0].client
    device_list = xla_client.DeviceList(tuple(chosen))
    (inputs, in_shardings), (outputs, out_shardings) = (_values(said[each], chosen) for each in ("inputs", "outputs"))
    header = _header(said["name"], outputs, out_shardings)
    try:
        loaded = client.deserialize_executable(header + executable, executable_devices=device_list)
    except Exception as error:
        hint = f"it was compiled for {head['target'].get('slice')} by {head['target'].get('plugin')}; this is {client.platform_version}"
        raise TpuError(f"the device refuses the executable: {error}", hint) from error
    unloaded = pxla.UnloadedMeshExecutable(
        xla_executable=loaded,
        device_list=device_list,
        backend=client,
        input_avals=inputs,
        input_shardings=in_shardings,
        output_avals=outputs,
        output_shardings=out_shardings,
        committed=said["committed"],
        name=said["name"],
        unordered_effects=[],
        ordered_effects=[],
        keepalive=[],
        host_callbacks=[],
        kept_var_idx=set(said["kept"]),
        mut=None,
        xla_in_layouts=[None] * len(inputs),
        dispatch_in_layouts=[None] * len(inputs),
        xla_out_layouts=[None] * len(outputs),
        all_args_info=None,
        pgle_profiler=None,
    )
    in_tree, out_tree = _read_tree(said["in_tree"]), _read_tree(said["out_tree"])
    infos = [jax.stages.ArgInfo(_aval_of(each), donated) for each, donated in zip(said["all_inputs"], said["donated"], strict=True)]
    return jax.stages.Compiled(unloaded.load(), [], in_tree.unflatten(infos), out_tree, no_kwargs=said["no_kwargs"])


def _read_tree(text: str) -> Any:
    from jax._src import tree_util

    return tree_util.PyTreeDef.deserialize_using_proto(tree_util.default_registry, base64.b64decode(text))


def _values(described: Sequence[Mapping[str, Any]], devices: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return [_aval_of(each) for each in described], [_sharding_of(each["sharding"], devices) for each in described]


def _aval_of(described: Mapping[str, Any]) -> Any:
    import jax.core
    import jax.numpy as jnp

    return jax.core.ShapedArray(tuple(described["shape"]), jnp.dtype(described["dtype"]), weak_type=described["weak_type"])


def _sharding_of(described: Mapping[str, Any] | None, devices: Sequence[Any]) -> Any:
    import jax
    import numpy as np

    if len(devices) == 1:
        return jax.sharding.SingleDeviceSharding(devices[0])
    # What a program leaves open, the compiler replicates.
    described = described or {"axes": [["devices", len(devices)]], "spec": [], "memory_kind": None}
    names, sizes = zip(*described["axes"], strict=True)
    mesh = jax.sharding.Mesh(np.asarray(devices).reshape(sizes), names)
    spec = [tuple(each) if isinstance(each, list) else each for each in described["spec"]]
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec), memory_kind=described["memory_kind"])


# The header is a message of jaxlib's own (IFRT), which it writes before what the compiler wrote, with the message's length in front.


def _varint(number: int) -> bytes:
    written = b""
    while number > 0x7F:
        written, number = written + bytes([number & 0x7F | 0x80]), number >> 7
    return written + bytes([number])


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _header(name: str, outputs: Sequence[Any], shardings: Sequence[Any]) -> bytes:
    message = _field(1, 3) + _field(2, b"pjrt_ifrt")
    for aval, sharding in zip(outputs, shardings, strict=True):
        if aval.dtype.name not in _TYPES:
            raise TpuError(f"a result of type {aval.dtype.name} cannot be loaded")
        shape = _field(1, b"".join(map(_varint, aval.shape))) if aval.shape else b""
        kind = sharding.memory_kind or "device"
        output = _field(1, shape) + _field(2, _field(1, _TYPES[aval.dtype.name])) + _field(4, kind.encode())
        if len(sharding.device_set) > 1:
            output += _field(5, sharding._to_xla_hlo_sharding(aval.ndim).to_proto().SerializeToString())
        message += _field(5, output + _field(6, shape))
    message += _field(7, name.encode())
    return _varint(len(message)) + message
