"""The CPU device for JAX: JAX finds this module by the entry point `jax_plugins` and calls `initialize`.

The platform is `tpubridge_cpu`, so that it does not take the place of XLA:CPU: JAX uses it only where a program or `JAX_PLATFORMS` names it.
With `TPUBRIDGE_JAX_PLATFORM=cpu` in the environment it does take that place.
"""

from __future__ import annotations

import os

from ._command import plugin_path

#: What the platform is called unless `TPUBRIDGE_JAX_PLATFORM` says otherwise.
PLATFORM = "tpubridge_cpu"

#: Below XLA:CPU, which has 0: the device is never JAX's default by itself.
_PRIORITY = -100


def initialize() -> None:
    """Registers the device with JAX."""
    import jax
    from jax._src import xla_bridge

    name = os.environ.get("TPUBRIDGE_JAX_PLATFORM") or PLATFORM
    library = plugin_path()
    if not library.is_file():
        return
    # JAX looks up a device's platform by the name that the device itself says.
    options = {"platform_name": name}
    asked = name in str(jax.config.jax_platforms or "").split(",") or name == "cpu"
    xla_bridge.register_plugin(name, priority=1 if name == "cpu" else _PRIORITY, library_path=str(library), options=options)
    if asked:
        return
    # JAX makes a client of every platform it knows. Who did not ask for this one hears nothing of it, even where it fails.
    try:
        registration = xla_bridge._backend_factories[name]
        registration.fail_quietly, registration.experimental = True, False
    except (AttributeError, KeyError):
        pass
