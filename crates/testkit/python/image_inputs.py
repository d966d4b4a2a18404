"""Pixels as transformers' own image processors make them: the peer of crates/data's reader of `preprocessor_config.json`.

    python image_inputs.py crates/data/tests/data/image_inputs.json

Each case has the settings, a PNG file and some of the pixels. Needs transformers, torch, torchvision and pillow
(requirements-models.txt); Pillow does the scaling.
"""
import base64
import importlib
import io
import json
import sys

import numpy
import transformers
from PIL import Image

CASES = {
    "clip": ("CLIPImageProcessor", dict(size=dict(shortest_edge=14), crop_size=dict(height=12, width=12))),
    "clip-small": ("CLIPImageProcessor", dict(do_resize=False, crop_size=dict(height=28, width=21))),
    "siglip": ("SiglipImageProcessor", dict(size=dict(height=12, width=10))),
    "siglip-large": ("SiglipImageProcessor", dict(size=dict(height=40, width=44))),
    "vit": ("ViTImageProcessor", dict(size=dict(height=11, width=13))),
    "vit-plain": ("ViTImageProcessor", dict(size=dict(height=9, width=9), do_normalize=False, resample=3)),
    "convnext": ("ConvNextImageProcessor", dict(size=dict(shortest_edge=14), crop_pct=0.875)),
}


def main(path):
    rng = numpy.random.default_rng(7)
    rows, columns = numpy.mgrid[0:17, 0:23]
    smooth = numpy.stack([8 * columns, 12 * rows, 5 * (rows + columns)], axis=-1)
    pixels = numpy.clip(smooth + rng.integers(0, 60, (17, 23, 3)), 0, 255).astype("uint8")
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    cases = []
    for name, (kind, settings) in CASES.items():
        # The processors over Pillow, to whose pixels the others come near.
        family = kind.removesuffix("ImageProcessor").lower()
        module = importlib.import_module(f"transformers.models.{family}.image_processing_pil_{family}")
        processor = getattr(module, kind + "Pil")
        made = processor(**settings)(images=Image.fromarray(pixels), return_tensors="np")["pixel_values"][0]
        # Features last.
        made = numpy.asarray(made).transpose(1, 2, 0)
        values = [round(float(value), 6) for value in made.reshape(-1)[::5]]
        cases.append(dict(name=name, settings=dict(image_processor_type=kind, **settings), shape=list(made.shape), values=values))
    with open(path, "w") as out:
        json.dump(dict(transformers=transformers.__version__, png=base64.b64encode(file.getvalue()).decode(), cases=cases), out,
                  separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
