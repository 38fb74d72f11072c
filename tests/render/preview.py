"""Look at the renderer: ``python -m tests.render.preview OUT.png [moment] [camera] [quality]``."""

import argparse
import time

from PIL import Image

from tests.render import sample
from visualizer.render.context import create_context
from visualizer.render.renderer import Renderer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--moment", default="verify")
    parser.add_argument("--camera", default="default")
    parser.add_argument("--quality", default="high")
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--age", type=float, default=0.35)
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--time", type=int, default=0, help="frames to time")
    given = parser.parse_args()
    width, height = map(int, given.size.split("x"))
    context = create_context()
    renderer = Renderer(context, (width, height), given.quality)
    lighting = sample.LIGHT if given.light else sample.DARK
    frame = sample.frame(given.moment, given.camera, lighting, given.age)
    renderer.draw(frame)
    Image.frombytes("RGB", renderer.size, renderer.read()).save(given.out)
    if given.time:
        spent = []
        for _ in range(given.time):
            begin = time.perf_counter()
            renderer.draw(frame)
            context.finish()
            spent.append(1e3 * (time.perf_counter() - begin))
        print(f"{given.quality}: median {sorted(spent)[len(spent) // 2]:.1f} ms")
    print("GL error:", context.error)


if __name__ == "__main__":
    main()
