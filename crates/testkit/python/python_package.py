"""Uses the installed Python package as its users do: `python_package.py PART FOLDER`. Every part fails by an exception.

Parts: `commands` asks the TPU compiler, `devices` runs JAX on the CPU device, `torch` starts from a module of PyTorch, `documents FOLDER FILE...`
runs the examples of documents and notebooks.
"""

import doctest
import importlib
import io
import os
import pathlib
import subprocess
import sys
import textwrap

PART, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])


def python(code, **environment):
    """Standard output and standard error of a fresh interpreter."""
    variables = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"} | environment
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=variables, capture_output=True, text=True, cwd=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip(), done.stderr.strip()


def raises(kind, call, *parts):
    """Fails unless a call raises this kind of error, with these parts in its text."""
    try:
        call()
    except kind as error:
        assert all(part in str(error) for part in parts), str(error)
        return error
    raise AssertionError(f"no {kind.__name__}")


def whole(answer, *beside):
    """Fails unless a record says nothing that its object leaves out."""
    import dataclasses

    known = {field.name for field in dataclasses.fields(answer)} | {"version", *beside}
    assert set(answer.record) <= known, set(answer.record) - known


def commands():
    import jax
    import jax.numpy as jnp
    import numpy as np

    import tpubridge as tb

    assert tb.command_path().parent == pathlib.Path(sys.executable).parent, tb.command_path()
    version = subprocess.run(["tpu", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert version == tb.__version__, (version, tb.__version__)
    assert tb.libtpu_path().name == "libtpu.so"

    def step(params, x):
        def loss(params):
            return jnp.mean(jnp.tanh(x @ params["w"]) ** 2)

        value, gradients = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value

    params, x = {"w": jnp.ones((256, 512))}, jnp.ones((128, 256))
    lowered = jax.jit(step, donate_argnums=0).lower(params, x)
    cache = {"cache_dir": FOLDER / "cache"}

    fit = tb.fit(lowered, slice="v5e-1", tokens=128, **cache)
    whole(fit)
    assert fit.fits and fit.verdict.space == "HBM" and fit.step_s > 0, fit
    assert fit.memory.class_bytes("parameters") >= 256 * 512 * 4, fit.memory
    assert "v5litepod-1" in str(fit) and "HBM per device" in str(fit), fit
    assert fit._repr_html_().startswith("<iframe") and "Device memory" in fit._repr_html_()
    fit.save_html(FOLDER / "fit.html")
    assert (FOLDER / "fit.html").read_text().lstrip().lower().startswith("<!doctype html>")
    assert fit == tb.fit(lowered, slice="v5e-1", tokens=128, **cache) or fit.cached is False
    # The same program in other forms.
    for same in (lowered.as_text(), jax.export.export(jax.jit(step), platforms=["tpu"])(params, x)):
        assert tb.fit(same, slice="v5e-1", **cache).devices == 1
    assert tb.fit(jax.jit(step), (params, x), slice="v5e-1", **cache).estimate.flops > 0

    # Progress is for people: a terminal sees it, others do not.
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    kept, sys.stderr = sys.stderr, Terminal()
    try:
        tb.fit(lowered, slice="v5e-1", no_cache=True)
        assert "fit:" in sys.stderr.getvalue(), sys.stderr.getvalue()
    finally:
        sys.stderr = kept

    explained = tb.explain(lowered, slice="v5e-1", trials=False, **cache)
    whole(explained)
    assert explained.roofline.ops and isinstance(explained.advice, tuple)

    compiled = tb.compile(lowered, slice="v5e-1", out=FOLDER / "step.tpb", **cache)
    whole(compiled)
    assert compiled.fits and compiled.report.executable_bytes > 0
    head, executable = tb._bundle.read(FOLDER / "step.tpb")
    assert len(executable) == compiled.report.executable_bytes and head["signature"]["donated"] == [True, False]

    plan = tb.plan(lowered, slices=["v5e-1", "v5e-4"], compiles=2, **cache)
    whole(plan)
    assert plan.recommended.chips in (1, 4) and "recommended" in str(plan), plan

    ran = tb.run(jax.jit(step), (params, x), device="cpu")
    whole(ran)
    expected = jax.tree.leaves(step(params, x))
    for got, want in zip(ran.outputs.values(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    assert tb.run(lowered, (params, x), device="cpu", expect=expected).agrees
    assert not tb.run(lowered, (params, x), device="cpu", expect=[each + 1 for each in expected]).agrees

    small = "module { func.func @main(%a: tensor<4xbf16>) -> tensor<4xbf16> { return %a : tensor<4xbf16> } }"
    assert list(tb.run(small, (jnp.arange(4, dtype=jnp.bfloat16),), device="cpu").outputs.values())[0].itemsize == 2

    refused = raises(tb.TpuError, lambda: tb.fit(lowered, slice="v5e-3"), "v5litepod-3", "hint:")
    assert refused.exit_code == 2 and "tpu chips" in refused.hint
    raises(tb.TpuError, lambda: tb.fit("missing.mlir", slice="v5e-1"), "missing.mlir")
    raises(tb.TpuError, lambda: tb.fit("module {\n nonsense }", slice="v5e-1"), "hint:")
    raises(tb.TpuError, lambda: tb.fit(3, slice="v5e-1"), "is no program")
    raises(tb.TpuError, lambda: tb.fit(jax.jit(step), slice="v5e-1"), "example inputs")
    raises(tb.TpuError, lambda: tb.plan(lowered, price="cheap"), "cheap")
    raises(TypeError, lambda: tb.fit(lowered, slice="v5e-1", token=3), "did you mean tokens")
    too_large = jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((2**33,), jnp.float32))
    assert not tb.fit(too_large, slice="v5e-1", **cache).fits
    assert tb.compile(too_large, slice="v5e-1", **cache).out_of_memory.space == "HBM"

    generations = tb.chips().generations
    assert {each.name for each in generations} >= {"v5e", "v6e"}
    assert tb.chips("v6e-16").slice.hosts == 4
    raises(tb.TpuError, lambda: tb.chips("v99"), "v99")
    for path in pathlib.Path(tb.__file__).parent.glob("*.py"):
        if path.stem not in ("__init__", "torch_xla_plugin"):
            assert doctest.testmod(importlib.import_module(f"tpubridge.{path.stem}")).failed == 0, path
    assert doctest.testmod(tb).failed == 0


BUNDLE = """
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    from pathlib import Path
    import tpubridge as tb

    def f(params, x, unused):
        return {"y": x @ params["w"] + params["b"], "sum": x.sum().astype(jnp.bfloat16), "more": (x > 3, x.astype(jnp.int32))}

    def example(count):
        params, x = {"w": jnp.ones((4, 3)), "b": jnp.arange(3.0)}, np.arange(32, dtype=np.float32).reshape(8, 4)
        if count == 1:
            return jax.jit(f), (params, x, 1.0)
        mesh = jax.make_mesh((count // 2, 2), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
        rows, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
        shardings = {"y": rows, "sum": whole, "more": (NamedSharding(mesh, P("data", "model")), whole)}
        return jax.jit(f, out_shardings=shardings), (jax.device_put(params, whole), jax.device_put(x, rows), 1.0)
"""

WRITE = BUNDLE + """
    for count in (1, 4):
        function, arguments = example(count)
        lowered = function.lower(*arguments)
        executable = lowered.compile().runtime_executable()
        serialized = executable.client.serialize_executable(executable)
        # Without jaxlib's header: what a compiler wrote.
        length, at, shift = 0, 0, 0
        while True:
            byte = serialized[at]
            length, at, shift = length | (byte & 127) << shift, at + 1, shift + 7
            if byte < 128:
                break
        tb._bundle.write(Path(f"f{count}.tpb"), serialized[at + length:], tb._bundle.signature(lowered, None), {"slice": "this machine"})
"""

READ = BUNDLE + """
    for count in (1, 4):
        loaded = tb.load(f"f{count}.tpb")
        assert type(loaded).__name__ == "Compiled", type(loaded)
        arguments = example(count)[1]
        got, want = loaded(*arguments), f(*arguments)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_array_equal(np.asarray(a, np.float32), np.asarray(b, np.float32))
            assert len(a.sharding.device_set) == count, a.sharding
        assert jax.tree.structure(got) == jax.tree.structure(want)

    def refused(part, name, **options):
        try:
            tb.load(name, **options)
        except tb.TpuError as error:
            assert part in str(error), error
        else:
            raise AssertionError(name)

    refused("runs on 4 devices", "f4.tpb", devices=jax.devices()[:1])
    refused("cannot read", "missing.tpb")
    bundle = Path("f1.tpb").read_bytes()
    for contents, part in [(b"nonsense", "is no bundle"), (bundle[:-200], "is no bundle")]:
        Path("bad.tpb").write_bytes(contents)
        refused(part, "bad.tpb")
    head, executable = tb._bundle.read("f1.tpb")
    tb._bundle.write(Path("bad.tpb"), b"no executable", head["signature"], head["target"])
    refused("refuses the executable", "bad.tpb")
    tb._bundle._VERSION = 9
    tb._bundle.write(Path("bad.tpb"), executable, head["signature"], head["target"])
    tb._bundle._VERSION = 1
    refused("of version 9", "bad.tpb")
"""


def devices():
    ours = {"JAX_PLATFORMS": "tpubridge_cpu"}
    code = "import jax, jax.numpy as jnp\n"
    out, _ = python(code + "x = jnp.arange(8.0)\nprint(jax.devices()[0].platform, x.devices().pop().platform, (x @ x))", **ours)
    assert out == "tpubridge_cpu tpubridge_cpu 140.0", out
    # Nobody who did not ask for it gets it or hears of it; by its name it is there.
    named = "d = jax.devices('tpubridge_cpu')[0]\nprint(jax.default_backend(), jax.device_put(jnp.ones(3), d).sum())"
    out, err = python(code + "print(jax.devices()[0].client.platform_version)\n" + named)
    first, second = out.splitlines()
    assert "tpubridge" not in first and "tpubridge" not in err and second == "cpu 3.0", (out, err)
    out, _ = python(code + "print(jax.devices()[0].client.platform_version, jnp.linalg.svd(jnp.eye(3))[1])", TPUBRIDGE_JAX_PLATFORM="cpu")
    assert "tpubridge" in out and "[1. 1. 1.]" in out, out
    several = ours | {"JAX_PJRT_CLIENT_CREATE_OPTIONS": "cpu_device_count:4"}
    python(WRITE, **several)
    python(READ, **several)


def torch():
    import numpy as np
    import torch

    import tpubridge as tb

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 8)).eval()
    x = torch.randn(4, 64)
    fit = tb.fit(model, (x,), slice="v5e-1", cache_dir=FOLDER / "cache")
    assert fit.fits and fit.memory.class_bytes("parameters") > 0, fit
    ran = tb.run(model, (x,), device="cpu")
    (got,) = ran.outputs.values()
    np.testing.assert_allclose(got, model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    exported = torch.export.export(model, (x,))
    (got,) = tb.run(exported, (x,), device="cpu").outputs.values()
    np.testing.assert_allclose(got, model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    raises(tb.TpuError, lambda: tb.fit(model, slice="v5e-1"), "example inputs")
    # PyTorch/XLA on the CPU device: three steps of training give what PyTorch itself gives.
    code = """
        import torch, torch_xla
        losses = []
        for device in ("cpu", torch_xla.device()):
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            x = torch.linspace(-1, 1, 20).reshape(5, 4).to(device)
            for _ in range(3):
                optimizer.zero_grad()
                loss = (model(x) - 1).pow(2).mean()
                loss.backward()
                optimizer.step()
                torch_xla.sync()
                losses.append(loss.item())
        assert all(abs(a - b) < 1e-5 for a, b in zip(losses[:3], losses[3:])) and losses[2] < losses[0], losses
    """
    python(code, PJRT_DEVICE="TPUBRIDGE_CPU")


def documents():
    for name in sys.argv[3:]:
        path = pathlib.Path(name).resolve()
        os.chdir(FOLDER)
        if path.suffix == ".ipynb":
            import nbformat
            from nbclient import NotebookClient

            notebook = nbformat.read(path, as_version=4)
            NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
            shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
            assert any("<iframe" in "".join(data.get("text/html", "")) for data in shown), "no report is shown"
        else:
            failed, tried = doctest.testfile(str(path), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            assert tried > 0 and failed == 0, f"{failed} of {tried} failed in {name}"


globals()[PART]()
print(f"ok {PART}")
