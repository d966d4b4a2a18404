"""One exported program: what to trace, how to lower it, and the forms it is written in."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import export
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo


@dataclasses.dataclass(frozen=True)
class Program:
    """A function with its example arguments and everything that changes how JAX lowers it."""

    name: str
    function: Callable[..., Any]
    arguments: Sequence[Any]
    features: Sequence[str] = ()
    platform: str = "tpu"
    jit: dict[str, Any] = dataclasses.field(default_factory=dict)
    mesh: Any = None
    x64: bool = False
    shardy: bool = True
    # "jit" takes the module of jax.jit(...).lower; "export" the one of jax.export with its calling convention.
    route: str = "jit"
    # Portable-artifact version to write; None means the newest one this jaxlib knows.
    artifact_version: str | None = None
    # Whether sdy stays sdy in the bytecode, or becomes mhlo.sharding and frontend attributes.
    keep_sdy: bool = True
    generic: bool = False
    locations: bool = False


@dataclasses.dataclass(frozen=True)
class Forms:
    """The written forms of one program. `pretty` and `bytecode` describe the same module."""

    lowered: str
    pretty: str
    generic: str | None
    located: str | None
    bytecode: bytes
    partitions: int


def spec(shape: Sequence[Any], dtype: Any = jnp.float32, sharding: Any = None) -> jax.ShapeDtypeStruct:
    """An abstract array argument."""
    return jax.ShapeDtypeStruct(tuple(shape), dtype, sharding=sharding)


def export_forms(program: Program) -> Forms:
    """Lowers a program and produces its text and bytecode."""
    with _settings(program):
        lowered_text, bytecode = _export(program) if program.route == "export" else _lower(program)
    with jax_mlir.make_ir_context() as context:
        module = stablehlo.deserialize_portable_artifact(context, bytecode)
        module.operation.verify()
        return Forms(
            lowered=lowered_text,
            pretty=str(module),
            generic=module.operation.get_asm(print_generic_op_form=True) if program.generic else None,
            located=module.operation.get_asm(enable_debug_info=True) if program.locations else None,
            bytecode=bytecode,
            partitions=_partitions(module),
        )


@contextlib.contextmanager
def _settings(program: Program) -> Iterator[None]:
    shardy_before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", program.shardy)
    mesh = jax.set_mesh(program.mesh) if program.mesh is not None else contextlib.nullcontext()
    try:
        with jax.enable_x64(program.x64), mesh:
            yield
    finally:
        jax.config.update("jax_use_shardy_partitioner", shardy_before)


def _lower(program: Program) -> tuple[str, bytes]:
    jitted = jax.jit(_named(program.function, program.name), **program.jit)
    lowered = jitted.trace(*program.arguments).lower(lowering_platforms=(program.platform,))
    module = lowered.compiler_ir("stablehlo")
    return str(module), _serialize(module, program)


def _export(program: Program) -> tuple[str, bytes]:
    jitted = jax.jit(_named(program.function, program.name), **program.jit)
    checks = [export.DisabledSafetyCheck.custom_call("*")]
    exported = export.export(jitted, platforms=program.platform.split("+"), disabled_checks=checks)(*program.arguments)
    return exported.mlir_module(), exported.mlir_module_serialized


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def traced(*arguments):
        return function(*arguments)

    traced.__name__ = traced.__qualname__ = name
    return traced


def _serialize(module: ir.Module, program: Program) -> bytes:
    version = program.artifact_version or stablehlo.get_current_version()
    with jax_mlir.make_ir_context():
        # Serialisation rewrites its module in place, so it works on a copy.
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
        return _jax.mlir.serialize_portable_artifact(copy, version, program.keep_sdy)


def _partitions(module: ir.Module) -> int:
    attributes = module.operation.attributes
    if "mhlo.num_partitions" not in attributes:
        return 1
    return ir.IntegerAttr(attributes["mhlo.num_partitions"]).value
