#!/usr/bin/env python
"""Takes the pictures of the documentation: `python -m docs.screenshots [NAME ...]` rewrites docs/images/*.png.

They show the website itself: `demo` over the data that `shuffleboard demo --recorded` imports, the others over a small
registry of the shipped samples of MMLU and CommonsenseQA and the outputs of four simulated models, seeded, so that the
pictures are the same each time. Needs Playwright and Chromium.
"""

import base64
import json
import random
import shutil
import struct
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, expect, sync_playwright
from sqlalchemy import Engine
from werkzeug.serving import make_server

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import get_engine, write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.operations.migrate import upgrade
from registry.prompting.variants import QuestionShape, VariantShown, number_inserted, parse_variants
from registry.revisions.store import RevisionRequest, add_revision
from registry.studies.published import load_published
from shuffleboard.recorded import import_recorded
from web import create_app

IMAGES: Final = Path(__file__).resolve().parent / "images"
SAMPLES: Final = Path(__file__).resolve().parent.parent / "registry" / "benchmarks" / "samples"
OF_OTHER_PROGRAMS: Final = ("datasette.png", "superset.png")
"""Pictures on the page docs/how-to/analyse-with-other-tools.md, taken by hand, since those programs are separate."""
MOST_BYTES: Final = 150_000
CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")

# Simulated models: (share of questions known, share of the others answered with the first position).
MODELS: Final = {
    "reader": (0.8, 0.1),
    "half-reader": (0.5, 0.3),
    "first-place": (0.12, 0.75),
    "guesser": (0.0, 0.0),
}
BENCHMARKS: Final = {"mmlu-sample": "mmlu.jsonl", "csqa-sample": "csqa.jsonl"}
ASKED: Final = (
    ("cyclic", "symbols", tuple(MODELS), tuple(BENCHMARKS)),
    ("answer-moving", "symbols", ("reader", "half-reader", "first-place"), ("mmlu-sample",)),
    ("answer-moving", "hybrid", ("reader", "half-reader", "first-place"), ("mmlu-sample",)),
    ("shuffle", "symbols", ("half-reader",), ("mmlu-sample",)),
    ("adversarial", "symbols", ("half-reader",), ("csqa-sample",)),
)
BOARD: Final = {
    "name": "samples",
    "title": "How much survives when the options move?",
    "text": "Samples of MMLU and CommonsenseQA, every question under all rotations of its options.",
    "suite": "samples",
    "columns": tuple(
        f"{name}@cyclic" for name in ("accuracy", "average_accuracy", "worst_accuracy", "fluctuation_rate")
    ),
}

# Picture → page, and the elements at the top of the wide and of the narrow picture; None: the top of the page.
PICTURES: Final[dict[str, tuple[str, str | None, str | None]]] = {
    "demo": ("/boards/demo", None, None),
    "leaderboard": ("/?variants=cyclic", None, "#ranked"),
    "overview": ("/overview", None, None),
    "board": ("/boards/samples", None, "#standing"),
    "evaluation": ("/evaluations/{half-reader cyclic mmlu-sample}", None, None),
    "curve": ("/evaluations/{half-reader cyclic mmlu-sample}", "#bmca", "#bmca"),
    "subjects": ("/evaluations/{half-reader shuffle mmlu-sample}", "#shuffles", "#shuffles"),
    "adversarial": ("/evaluations/{half-reader adversarial csqa-sample}", "#adversarial", "#adversarial"),
    "question": ("/evaluations/{first-place cyclic mmlu-sample}/questions/{question}", None, "#orders"),
    "answer-moving": ("/benchmarks/mmlu-sample/answer-moving", None, "figure"),
    "compare": ("/compare?left=reader&right=half-reader&benchmark=mmlu-sample&variants=cyclic", None, "#differences"),
}
# Suffix of the file's name → width, height and pixels per point.
SIZES: Final[dict[str, tuple[int, int, float]]] = {"": (1200, 1100, 1.5), "-narrow": (390, 844, 2)}


# The registry


def fill(engine: Engine, folder: Path) -> dict[str, int]:
    """Fill an empty registry; return the ids of evaluations by "model variants benchmark"."""
    evaluations: dict[str, int] = {}
    with write_session(engine) as session:
        load_published(session)
        for name in MODELS:
            add_revision(session, name, RevisionRequest("external"))
        for name, file in BENCHMARKS.items():
            import_benchmark(session, read_benchmark(SAMPLES / file), name=name)
    for variants, protocol, models, benchmarks in ASKED:
        for benchmark in benchmarks:
            questions = _questions(SAMPLES / BENCHMARKS[benchmark])
            for model in models:
                path = folder / "outputs.jsonl"
                lines = list(_outputs(model, variants, protocol, questions))
                path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
                evaluation_id = import_outputs(engine, ImportRequest(path, model, benchmark, variants, protocol))
                evaluations.setdefault(f"{model} {variants} {benchmark}", evaluation_id)
    with write_session(engine) as session:
        suite = {"name": "samples", "variants": ["cyclic"], "tasks": [{"benchmark": "*"}]}
        import_suite(session, SuiteDefinition.model_validate(suite))
        import_board(session, BoardDefinition.model_validate(BOARD | {"benchmarks": tuple(BENCHMARKS)}))
    refresh_boards(engine)
    return evaluations


def _questions(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [line for line in lines if line["split"] == "test"]


def _outputs(model: str, variants: str, protocol: str, questions: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a line per prompt, in the format that `shuffleboard evaluations import` reads."""
    names = {ordinal: name for name, ordinal in number_inserted(variants).items()}
    for question in questions:
        shape = QuestionShape(question["id"], len(question["options"]), question["answer"])
        knows = random.Random(f"{model}:{question['id']}").random() < MODELS[model][0]  # noqa: S311 - a simulation
        for variant in parse_variants(variants).variants(shape):
            draw = random.Random(f"{model}:{protocol}:{variants}:{question['id']}:{variant.ordinal}")  # noqa: S311
            position = _simulate_answer(model, shape, variant, draw, knows=knows)
            logprobs = [-2.6 - draw.random() + (2.3 if place == position else 0) for place in range(len(variant.order))]
            yield {
                "question_id": question["id"],
                "variant": variant.ordinal,
                "order": [names.get(option, option) for option in variant.order],
                "position": position,
                "logprobs": logprobs,
            }


def _simulate_answer(
    model: str, shape: QuestionShape, variant: VariantShown, draw: random.Random, *, knows: bool
) -> int:
    """Return the position that a simulated model answers with."""
    if min(variant.order) < 0 and draw.random() < 0.25:
        return variant.order.index(min(variant.order))
    if knows and draw.random() < 0.97 and shape.answer in variant.order:
        return variant.order.index(shape.answer)
    return 0 if draw.random() < MODELS[model][1] else draw.randrange(len(variant.order))


# The pictures


@contextmanager
def serve(url: str) -> Iterator[str]:
    """Serve the website over a database; yield its address."""
    server = make_server("127.0.0.1", 0, create_app(database_url=url), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def shoot(browser: Browser, base: str, names: Sequence[str], address: Callable[[str], str]) -> None:
    """Take the named pictures in every size. address: fills the ids into an address in PICTURES."""
    tools = browser.new_page()
    for ending, (width, height, scale) in SIZES.items():
        window = browser.new_context(
            viewport={"width": width, "height": height}, device_scale_factor=scale, color_scheme="light"
        )
        window.set_default_timeout(180_000)  # a comparison is computed when it is first opened
        page = window.new_page()
        for name in names:
            pattern, *begins = PICTURES[name]
            anchor = begins[list(SIZES).index(ending)]
            page.goto(base + address(pattern))
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
            expect(page.locator("figure[data-chart]:not([data-chart=drawn])")).to_have_count(0, timeout=60_000)
            if anchor is not None:
                page.evaluate("(at) => document.querySelector(at).scrollIntoView()", anchor)
            path = IMAGES / f"{name}{ending}.png"
            path.write_bytes(png(pixels(tools, page.screenshot())))
            size = path.stat().st_size
            sys.stderr.write(f"{path.name}: {size / 1000:.0f} kB\n")
            if size > MOST_BYTES:
                message = f"{path}: {size} bytes are more than {MOST_BYTES}; show less of the page"
                raise SystemExit(message)
        window.close()


def pixels(tools: Page, screenshot: bytes) -> NDArray[np.uint8]:
    """Return a picture as an array (height, width, 3), which the browser decodes."""
    width, height, encoded = tools.evaluate(
        """async (encoded) => {
          const bytes = Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
          const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
          const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
          canvas.drawImage(bitmap, 0, 0);
          const { data } = canvas.getImageData(0, 0, bitmap.width, bitmap.height);
          let text = "";
          for (let at = 0; at < data.length; at += 32768) {
            text += String.fromCharCode(...data.subarray(at, at + 32768));
          }
          return [bitmap.width, bitmap.height, btoa(text)];
        }""",
        base64.b64encode(screenshot).decode(),
    )
    values = np.frombuffer(base64.b64decode(encoded), np.uint8)
    return values.reshape(height, width, 4)[:, :, :3]


def png(picture: NDArray[np.uint8], colours: int = 128) -> bytes:
    """Return a picture as a PNG with a palette: a third of the size, with no visible difference for text and charts."""
    rough = picture & 0xF8
    keys = (rough.astype(np.uint32) * np.array([1 << 16, 1 << 8, 1], np.uint32)).sum(axis=2)
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    places = places.reshape(keys.shape)
    # Use the exact mean of merged colours; otherwise white would turn grey.
    flat = picture.reshape(-1, 3).astype(np.float64)
    means = np.stack([np.bincount(places.ravel(), flat[:, channel]) for channel in range(3)], axis=1) / counts[:, None]
    kept = np.argsort(-counts)[:colours]
    nearest = ((means[:, None, :] - means[kept][None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
    palette = np.rint(means[kept]).astype(np.uint8)
    indices = nearest[places].astype(np.uint8)
    height, width = indices.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), indices], axis=1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"PLTE", palette.tobytes()),
            chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            chunk(b"IEND", b""),
        )
    )


def shoot_demo(browser: Browser, folder: Path) -> None:
    """Take the picture of the demo's own board."""
    with registry(folder / "demo.db") as (url, engine):
        import_recorded(engine)
        with serve(url) as base:
            shoot(browser, base, ["demo"], str)


def shoot_simulated(browser: Browser, folder: Path, names: Sequence[str]) -> None:
    """Take the pictures of simulated models."""
    with registry(folder / "pictures.db") as (url, engine):
        evaluations = fill(engine, folder)
        with serve(url) as base:
            page = browser.new_page()
            page.goto(f"{base}/evaluations/{evaluations['first-place cyclic mmlu-sample']}?only=flips")
            question = page.locator("#questions ~ .scroll tbody a").first.get_attribute("href") or ""
            ids = {name: str(number) for name, number in evaluations.items()} | {"question": question.split("/")[-1]}

            def address(pattern: str) -> str:
                for name, value in ids.items():
                    pattern = pattern.replace(f"{{{name}}}", value)
                return pattern

            shoot(browser, base, names, address)


@contextmanager
def registry(path: Path) -> Iterator[tuple[str, Engine]]:
    """Create an empty registry; yield its database's URL, and the engine on it."""
    url = f"sqlite:///{path}"
    upgrade(url)
    engine = get_engine(url)
    yield url, engine
    engine.dispose()


def main() -> None:
    """Take the pictures that the arguments name, or all."""
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if chromium is None:
        message = f"none of {', '.join(CHROMIUM)} is installed: install Chromium"
        raise SystemExit(message)
    names = sys.argv[1:] or list(PICTURES)
    if unknown := set(names) - set(PICTURES):
        message = f"no picture {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}"
        raise SystemExit(message)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        if "demo" in names:
            shoot_demo(browser, Path(folder))
        if simulated := [name for name in names if name != "demo"]:
            shoot_simulated(browser, Path(folder), simulated)
        browser.close()


if __name__ == "__main__":
    main()
