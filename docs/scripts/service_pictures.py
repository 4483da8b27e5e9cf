"""Make the pictures of the service: ``python docs/scripts/service_pictures.py``. Needs chromium.

Install ``sihash[dev]``. The script draws a small collection, serves it, uses the page as people do, and
writes screenshots to ``docs/images/service``. It fetches nothing, and all random numbers have a seed.
"""

from __future__ import annotations

import colorsys
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from playwright.sync_api import Browser, Page, sync_playwright

from sihash import Client
from sihash.database import Database

OUT = Path(__file__).parents[1] / "images" / "service"
TOKEN = "a-token-for-the-pictures-in-the-docs"
SIZE = 480  # pixels of a drawing's side
PER_CLASS = 26

# The collection: scenes of a few shapes, each a little different. Coordinates run from 0 to 1.


class Scene:
    """A drawing on a coloured sky, with the dice of its own class."""

    def __init__(self, rng: np.random.Generator, hue: float, light: float = 0.9) -> None:
        self.rng = rng
        self.hue = hue + rng.normal(0, 0.07)
        top, bottom = self.colour(0, 0.35, light - 0.08), self.colour(0.06, 0.2, light + 0.05)
        ramp = np.linspace(0, 1, SIZE)[:, None, None]
        sky = (1 - ramp) * np.array(top) + ramp * np.array(bottom)
        self.image = Image.fromarray(np.broadcast_to(sky, (SIZE, SIZE, 3)).astype(np.uint8))
        self.draw = ImageDraw.Draw(self.image)

    def colour(self, turn: float, saturation: float, value: float) -> tuple[int, int, int]:
        r, g, b = colorsys.hsv_to_rgb((self.hue + turn) % 1, min(saturation, 1), min(value, 1))
        return round(255 * r), round(255 * g), round(255 * b)

    def vary(self, value: float, by: float = 0.04) -> float:
        return value + self.rng.uniform(-by, by)

    def shape(self, points: list[tuple[float, float]], fill: tuple[int, int, int]) -> None:
        self.draw.polygon([(SIZE * x, SIZE * y) for x, y in points], fill)

    def disc(self, x: float, y: float, rx: float, ry: float, fill: tuple[int, int, int]) -> None:
        self.draw.ellipse((SIZE * (x - rx), SIZE * (y - ry), SIZE * (x + rx), SIZE * (y + ry)), fill)

    def bar(self, x: float, y: float, width: float, height: float, fill: tuple[int, int, int]) -> None:
        box = (SIZE * (x - width / 2), SIZE * y, SIZE * (x + width / 2), SIZE * (y + height))
        self.draw.rounded_rectangle(box, SIZE * min(width, height) / 3, fill)

    def jpeg(self) -> bytes:
        """As if by hand: turned a little, nearer or farther, not quite in the middle."""
        margin = SIZE // 4
        wide = np.pad(np.asarray(self.image), ((margin, margin), (margin, margin), (0, 0)), mode="reflect")
        turned = Image.fromarray(wide).rotate(self.rng.normal(0, 9), Image.Resampling.BICUBIC)
        side = SIZE * self.rng.uniform(0.72, 1.0)
        x, y = (turned.width / 2 - side / 2 + self.rng.normal(0, SIZE / 14) for _ in range(2))
        view = turned.crop((int(x), int(y), int(x + side), int(y + side)))
        small = view.filter(ImageFilter.GaussianBlur(1)).resize((SIZE // 2, SIZE // 2))
        noise = self.rng.normal(0, 3, (SIZE // 2, SIZE // 2, 1))
        file = io.BytesIO()
        Image.fromarray((np.asarray(small) + noise).clip(0, 255).astype(np.uint8)).save(
            file, "JPEG", quality=88
        )
        return file.getvalue()


def mountains(rng: np.random.Generator) -> Scene:
    s = Scene(rng, 0.58)
    for depth, value in ((0.0, 0.75), (0.12, 0.58), (0.25, 0.42)):
        x = 0.0
        points = [(0.0, 1.0)]
        while x < 1.1:
            points += [(x, s.vary(0.75 + depth / 2, 0.05)), (x + 0.15, s.vary(0.4 + depth, 0.09))]
            x += s.vary(0.32, 0.06)
        s.shape([*points, (1.2, 1.0)], s.colour(0.02, 0.3, value))
    return s


def sailing_boats(rng: np.random.Generator) -> Scene:
    s = Scene(rng, 0.55, 0.95)
    s.shape([(0, 0.68), (1, 0.68), (1, 1), (0, 1)], s.colour(0, 0.55, 0.65))
    x, high = s.vary(0.5, 0.1), s.vary(0.22, 0.05)
    s.shape([(x, high), (x, 0.66), (x - s.vary(0.26), 0.66)], s.colour(0.5, 0.1, 1))
    s.shape([(x + 0.03, high + 0.08), (x + 0.03, 0.66), (x + s.vary(0.22), 0.66)], s.colour(0.45, 0.6, 0.95))
    s.shape([(x - 0.3, 0.7), (x + 0.3, 0.7), (x + 0.2, 0.8), (x - 0.2, 0.8)], s.colour(0.45, 0.6, 0.4))
    return s


def conifers(rng: np.random.Generator) -> Scene:
    s = Scene(rng, 0.36)
    for x in sorted(rng.uniform(0.12, 0.88, 3)):
        top, wide = s.vary(0.25, 0.12), s.vary(0.15, 0.03)
        s.bar(x, 0.8, 0.04, 0.16, s.colour(0.72, 0.5, 0.4))
        for k in range(3):
            y = top + k * (0.84 - top) / 4
            s.shape(
                [(x, y), (x - wide * (k + 2) / 4, y + 0.28), (x + wide * (k + 2) / 4, y + 0.28)],
                s.colour(0.02 * k, 0.6, 0.45 - 0.06 * k),
            )
    return s


def houses(rng: np.random.Generator) -> Scene:
    s = Scene(rng, 0.09, 0.97)
    s.shape([(0, 0.8), (1, 0.8), (1, 1), (0, 1)], s.colour(0.22, 0.4, 0.6))
    left, right, eaves = s.vary(0.24), s.vary(0.76), s.vary(0.48)
    s.shape([(left, eaves), (right, eaves), (right, 0.84), (left, 0.84)], s.colour(0, 0.25, 0.95))
    s.shape(
        [(left - 0.07, eaves), (right + 0.07, eaves), ((left + right) / 2, s.vary(0.2))],
        s.colour(-0.07, 0.7, 0.7),
    )
    for x in (0.25, 0.75):
        s.bar(left + x * (right - left), eaves + 0.09, 0.11, 0.12, s.colour(0.48, 0.4, 0.55))
    s.bar((left + right) / 2, 0.64, 0.11, 0.2, s.colour(-0.05, 0.6, 0.4))
    return s


def flowers(rng: np.random.Generator) -> Scene:
    s = Scene(rng, 0.92, 0.97)
    x, y, n = s.vary(0.5, 0.07), s.vary(0.4, 0.06), int(rng.integers(6, 10))
    s.bar(x, y, 0.035, 1 - y, s.colour(0.42, 0.6, 0.5))
    s.shape([(x, 0.88), (x + 0.2, 0.66), (x + 0.06, 0.9)], s.colour(0.42, 0.6, 0.6))
    for angle in np.arange(n) * 2 * np.pi / n + rng.uniform(0, 1):
        s.disc(x + 0.17 * np.cos(angle), y + 0.17 * np.sin(angle), 0.1, 0.1, s.colour(0, 0.65, 0.85))
    s.disc(x, y, 0.1, 0.1, s.colour(0.2, 0.7, 0.95))
    return s


def fish(rng: np.random.Generator) -> Scene:
    s = Scene(rng, 0.5, 0.8)
    for _ in range(int(rng.integers(2, 4))):
        x, y, size = rng.uniform(0.3, 0.7), rng.uniform(0.2, 0.8), s.vary(0.16, 0.04)
        body = s.colour(0.55 + rng.normal(0, 0.02), 0.75, 0.95)
        s.shape([(x - size, y), (x - 1.7 * size, y - 0.6 * size), (x - 1.7 * size, y + 0.6 * size)], body)
        s.disc(x, y, 1.15 * size, 0.6 * size, body)
        s.disc(x + 0.7 * size, y - 0.12 * size, 0.1 * size, 0.1 * size, s.colour(0.55, 0.9, 0.2))
    for _ in range(6):
        s.disc(rng.uniform(), rng.uniform(), 0.012, 0.012, s.colour(0, 0.1, 1))
    return s


def mushrooms(rng: np.random.Generator) -> Scene:
    s = Scene(rng, 0.12, 0.93)
    x, cap, wide = s.vary(0.5, 0.08), s.vary(0.48, 0.05), s.vary(0.32, 0.05)
    s.bar(x, cap, 0.17, 0.42, s.colour(0, 0.12, 0.98))
    box = (SIZE * (x - wide), SIZE * (cap - 0.28), SIZE * (x + wide), SIZE * (cap + 0.28))
    s.draw.pieslice(box, 180, 360, s.colour(-0.11, 0.8, 0.8))
    for dx, dy in ((-0.15, -0.1), (0.02, -0.18), (0.15, -0.08)):
        s.disc(x + dx, cap + dy, 0.04, 0.035, s.colour(0, 0.05, 1))
    return s


def cacti(rng: np.random.Generator) -> Scene:
    s = Scene(rng, 0.1, 0.95)
    s.shape([(0, 0.82), (1, 0.78), (1, 1), (0, 1)], s.colour(-0.01, 0.5, 0.85))
    x, green = s.vary(0.5, 0.08), s.colour(0.27, 0.55, 0.5)
    s.bar(x, s.vary(0.2), 0.15, 0.68, green)
    for side in (-1, 1):
        y = s.vary(0.5, 0.07)
        s.bar(x + side * 0.12, y, 0.22, 0.09, green)
        s.bar(x + side * 0.22, y - s.vary(0.16), 0.09, 0.24, green)
    return s


def nights(rng: np.random.Generator) -> Scene:
    s = Scene(rng, 0.66, 0.4)
    x, y, r = s.vary(0.55, 0.15), s.vary(0.35, 0.1), s.vary(0.18, 0.03)
    for _ in range(25):
        s.disc(rng.uniform(), rng.uniform(0, 0.8), 0.007, 0.007, s.colour(0.5, 0.1, 1))
    s.disc(x, y, r, r, s.colour(0.48, 0.2, 1))
    s.disc(x + 0.45 * r, y - 0.15 * r, 0.85 * r, 0.85 * r, s.colour(0, 0.36, 0.36))
    s.shape([(0, 1), (0, 0.85), (0.3, s.vary(0.75)), (0.7, 0.88), (1, s.vary(0.8)), (1, 1)], (22, 24, 48))
    return s


def balloons(rng: np.random.Generator) -> Scene:
    s = Scene(rng, 0.53, 0.98)
    x, y, r = s.vary(0.5, 0.12), s.vary(0.4, 0.06), s.vary(0.25, 0.03)
    for k, width in enumerate((1.0, 0.66, 0.3)):
        s.disc(x, y, r * width, r * 1.1, s.colour(0.46 + 0.06 * (k % 2), 0.75, 0.95))
    s.shape(
        [(x - 0.6 * r, y + 0.8 * r), (x + 0.6 * r, y + 0.8 * r), (x, y + 1.9 * r)], s.colour(0.5, 0.7, 0.8)
    )
    s.bar(x, y + 1.6 * r, 0.12, 0.1, s.colour(0.55, 0.6, 0.45))
    return s


FIRST = [mountains, sailing_boats, conifers, houses, flowers, fish, mushrooms]
LATER = [cacti, nights, balloons]  # one after the other, an update after each
SEVERAL = {  # further labels, given at the end
    "conifers": ["plants", "wild"],
    "flowers": ["plants"],
    "cacti": ["plants", "wild", "warm places"],
    "fish": ["animals", "wild"],
}


def name_of(scene: Callable[..., Any]) -> str:
    return scene.__name__.replace("_", " ")


def draw_class(scene: Callable[[np.random.Generator], Scene], folder: Path, n: int = PER_CLASS) -> Path:
    rng = np.random.default_rng(sum(map(ord, scene.__name__)))
    place = folder / name_of(scene)
    place.mkdir(parents=True)
    for number in range(n):
        (place / f"{number:03d}.jpg").write_bytes(scene(rng).jpeg())
    return place


def make_drawings(folder: Path) -> Path:
    """A database that has lived: some classes at first, others since."""
    for scene in FIRST:
        draw_class(scene, folder / "drawings")
    for number, (scene, wrong) in enumerate([(fish, "flowers"), (houses, "fish"), (conifers, "mountains")]):
        data = scene(np.random.default_rng(number)).jpeg()  # somebody put it into the wrong folder
        (folder / "drawings" / wrong / f"{900 + number}.jpg").write_bytes(data)
    path = folder / "drawn scenes"
    drawn = columns(PER_CLASS * len(FIRST) + 3)
    with Database.create(path, folder / "drawings", columns=drawn, n_bits=32, n_anchors=120) as database:
        for scene in LATER:
            draw_class(scene, folder / "later" / scene.__name__)
            database.add(folder / "later" / scene.__name__, columns=columns(PER_CLASS))
            if scene is not LATER[-1]:
                database.update(compare=True)
    return path


def columns(n: int) -> dict[str, list[Any]]:
    """What a user would know of drawings."""
    return {
        "artist": [("Ada", "Grace", "Emmy")[k % 3] for k in range(n)],
        "drawn on": [f"2026-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(n)],
        "price": [round(9.5 + 1.25 * (k % 17), 2) for k in range(n)],
    }


def make_vectors(folder: Path) -> Path:
    """Vectors of 611 classes, as of documents, without a picture."""
    subjects = [
        "tax",
        "travel",
        "health",
        "school",
        "garden",
        "music",
        "weather",
        "bank",
        "insurance",
        "sport",
    ]
    kinds = ["question", "complaint", "order", "thanks", "cancellation", "change of address", "reminder"]
    places = [
        "north",
        "south",
        "east",
        "west",
        "abroad",
        "online",
        "by telephone",
        "at the counter",
        "by letter",
    ]
    names = [f"{subject}: {kind}, {place}" for subject in subjects for kind in kinds for place in places][
        :611
    ]
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(len(names)), 6)
    X = 1.4 * rng.standard_normal((len(names), 32))[y] + rng.standard_normal((len(y), 32))
    path = folder / "letters"
    Database.create(path, X.astype(np.float32), [names[k] for k in y], n_bits=32).close()
    return path


# The pictures.


@contextmanager
def served(database: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "sihash", "serve", str(database), "--port", str(port)]
    process = subprocess.Popen(command, env={**os.environ, "SIHASH_TOKEN": TOKEN}, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urlopen(f"{address}/v1/ready").close()
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


@contextmanager
def tab(
    browser: Browser, address: str, width: int = 1280, height: int = 860, **options: Any
) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page = context.new_page()
    page.goto(f"{address}/#token={TOKEN}")
    ready(page)
    yield page
    context.close()


def ready(page: Page, words: str = "") -> None:
    """Wait until the results say ``words``, and until nothing is being loaded."""
    page.wait_for_function(
        """words => document.getElementById('results').ariaBusy === 'false'
             && document.getElementById('results-title').textContent.includes(words)
             && ![...document.querySelectorAll('.loading, .placeholder')]
               .some(one => one.checkVisibility())""",
        arg=words,
    )


def take(page: Page, name: str, pause: int = 400) -> None:
    """A picture, after a pause in which what fades has faded."""
    page.wait_for_timeout(pause)
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        few = picture.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=2)
        few.save(OUT / f"{name}.png", optimize=True)
    print(OUT / f"{name}.png")


def upload(page: Page, scene: Callable[[np.random.Generator], Scene], seed: int = 99) -> None:
    data = scene(np.random.default_rng(seed)).jpeg()
    page.set_input_files(
        "#query-file", {"name": "from-my-phone.jpg", "mimeType": "image/jpeg", "buffer": data}
    )
    ready(page, "found")


def take_searches(browser: Browser, address: str) -> None:
    with tab(browser, address) as page:
        take(page, "start")
        upload(page, sailing_boats)
        take(page, "search")
        page.locator("#results .item .strip").nth(2).hover(position={"x": 60, "y": 6})
        page.wait_for_function("() => document.getElementById('tooltip').textContent.includes('Separates')")
        take(page, "bits")
        page.locator("#results .closer").first.click()
        page.wait_for_function("() => document.querySelector('#viewer-picture img')?.naturalWidth > 200")
        page.wait_for_selector("#viewer-near .item img")
        take(page, "viewer")
    with tab(browser, address, color_scheme="dark") as page:
        upload(page, flowers)
        take(page, "dark-search")
    with tab(browser, address, 390, 844, device_scale_factor=2, has_touch=True) as page:
        upload(page, mushrooms)
        page.locator("#results-title").scroll_into_view_if_needed()
        take(page, "phone-search")


def take_views(browser: Browser, address: str) -> None:
    """Every view that there is; those with something to start, after it was started."""
    with tab(browser, address) as page:
        for name in page.eval_on_selector_all("nav a", "links => links.map(link => link.dataset.view)"):
            page.click(f"nav a[data-view={name}]")
            page.wait_for_timeout(500)
            if name == "collection":
                page.wait_for_selector("#balance svg")
                ready(page)
            if name == "learning":
                page.check("#compare")
                page.click("#update-button")
                page.wait_for_function("() => document.getElementById('update-bar').value > 0.1")
                take(page, "updating", pause=0)
                page.wait_for_selector("#update-progress", state="hidden")
                page.wait_for_function(
                    "() => document.querySelector('#versions .now').textContent.includes('4')"
                )
            if name == "quality":
                page.click("#measure")
                page.wait_for_selector("#quality-result:not([hidden])")
            if name == "doctor":
                page.click("#examine")
                page.wait_for_selector("#findings > *")
            if name != "search":
                take(page, name)
        page.click("nav a[data-view=collection]")
        page.get_by_role("button", name="Delete the class fish").click()
        take(page, "delete-class")


def take_labels(browser: Browser, address: str) -> None:
    """Items with several labels: found, and edited."""
    with Client(address, TOKEN) as client:
        for label, others in SEVERAL.items():
            client.relabel_classes([label], [label, *others])
        client.update(reencode=True)
        [plant] = client.items(limit=1, classes=["flowers"]).items
    with tab(browser, address) as page:
        page.goto(f"{address}/#search?item={quote(str(plant.id), safe='')}&k=24")
        ready(page, "found")
        take(page, "labels")
        page.get_by_role("button", name="look closer", exact=True).click()
        page.wait_for_selector("#viewer-near .item img")
        page.click("#viewer-edit")
        page.fill("#viewer-label", "pink")
        page.keyboard.press("Enter")
        take(page, "edit-labels", pause=1500)


def take_many_classes(browser: Browser, address: str) -> None:
    with tab(browser, address) as page:
        page.fill("#class-search", "thanks")
        page.locator("#class-filter label").nth(3).click()
        page.locator("#class-filter label").nth(5).click()
        page.locator("#results .item .open").first.click()
        ready(page, "found")
        take(page, "many-classes")


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        folder = Path(scratch)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with served(make_drawings(folder)) as address:
            take_searches(browser, address)
            take_views(browser, address)
            take_labels(browser, address)
        with served(make_vectors(folder)) as address:
            take_many_classes(browser, address)
        browser.close()


if __name__ == "__main__":
    main()
