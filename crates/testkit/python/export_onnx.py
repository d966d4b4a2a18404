"""Writes ONNX's own tests of ops and models to a folder: `export_onnx.py FOLDER`, one folder a case as ONNX's tools write them.

`KIND/NAME/model.onnx` with `test_data_set_0/input_0.pb`, `output_0.pb` and so on. Cases with sequences, maps, optionals or strings are left out:
`left_out.txt` counts them.
"""

import pathlib
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

warnings.filterwarnings("ignore")


def message(value, name):
    """A value as a message; nothing where it is no tensor of numbers."""
    if isinstance(value, TensorProto):
        return value if value.data_type != TensorProto.STRING else None
    if isinstance(value, (list, dict)) or value is None or np.asarray(value).dtype.kind in "OUS":
        return None
    return numpy_helper.from_array(np.asarray(value), name)


def write(folder, model, data_sets):
    """One case; whether it could be written."""
    graph = model.graph
    sets = []
    for inputs, outputs in data_sets:
        given = [message(value, info.name) for value, info in zip(inputs, graph.input)]
        wanted = [message(value, info.name) for value, info in zip(outputs, graph.output)]
        if None in given or None in wanted:
            return False
        sets.append((given, wanted))
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for number, (given, wanted) in enumerate(sets):
        place = folder / f"test_data_set_{number}"
        place.mkdir()
        for kind, values in (("input", given), ("output", wanted)):
            for at, value in enumerate(values):
                (place / f"{kind}_{at}.pb").write_bytes(value.SerializeToString())
    return True


def main(root):
    data = pathlib.Path(onnx.__file__).parent / "backend/test/data"
    for kind in ("pytorch-converted", "pytorch-operator", "simple"):
        shutil.copytree(data / kind, root / kind)
    shutil.copytree(data / "light", root / "light")
    left_out = 0
    for case in collect_testcases(None):
        if case.model is None or not write(root / "node" / case.name, case.model, case.data_sets):
            left_out += 1
    (root / "left_out.txt").write_text(f"{left_out}\n")


main(pathlib.Path(sys.argv[1]))
