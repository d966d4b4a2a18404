"""Arrays in and out of the tests of crates/trace: `arrays.bin` has the bytes, `arrays.json` says what is where."""

import json
import pathlib

import ml_dtypes
import numpy as np

TYPES = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32),
    "i16": np.dtype(np.int16),
    "ui8": np.dtype(np.uint8),
    "ui16": np.dtype(np.uint16),
    "ui32": np.dtype(np.uint32),
    "ui64": np.dtype(np.uint64),
    "i1": np.dtype(np.bool_),
}
NAMES = {dtype: name for name, dtype in TYPES.items()}


def read(folder):
    """The arrays of a folder by name."""
    folder = pathlib.Path(folder)
    data = (folder / "arrays.bin").read_bytes()
    index = json.loads((folder / "arrays.json").read_text())

    def array(place):
        count = int(np.prod(place["dims"], dtype=np.int64))
        return np.frombuffer(data, TYPES[place["type"]], count, place["start"]).reshape(place["dims"])

    return {name: array(place) for name, place in index.items()}


def write(folder, arrays):
    """Writes arrays by name to a folder."""
    folder = pathlib.Path(folder)
    index, start = {}, 0
    with open(folder / "arrays.bin", "wb") as file:
        for name, array in arrays.items():
            array = np.asarray(array)
            index[name] = {"type": NAMES[array.dtype], "dims": array.shape, "start": start}
            start += file.write(array.tobytes())
    (folder / "arrays.json").write_text(json.dumps(index))
