"""The page in a real browser, over a real service. Screenshots are kept where SIHASH_SCREENSHOTS points."""

from __future__ import annotations

import io
import os
import re
import shutil
from pathlib import Path

import pytest
from mutations import bombs
from PIL import Image
from services import FIRST_CLASSES, N_KNOWN, TOKEN, running

from sihash.database import ImageDatabase

CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt install chromium)")
PATIENCE = 60_000  # milliseconds; a busy machine is slow, and nothing here measures time


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def service(template, tmp_path_factory):
    copy = shutil.copytree(template, tmp_path_factory.mktemp("page") / "digits")
    with running(copy) as service:
        yield service


@pytest.fixture
def page(browser, service):
    """A fresh tab, which fails the test if a script fails or anything is asked of another machine."""
    yield from _page(browser, service)


@pytest.fixture
def phone(browser, service):
    yield from _page(browser, service, viewport={"width": 360, "height": 740})


@pytest.fixture
def dark(browser, service):
    yield from _page(browser, service, color_scheme="dark")


def _page(browser, service, **options):
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: is_ours(request.url) or faults.append(request.url))
    page.on("console", lambda message: "Security" in message.text and faults.append(message.text))

    def is_ours(url):
        return url.startswith((service.address, "blob:", "data:"))

    page.goto(service.address)
    page.wait_for_selector("#results .item img")
    yield page
    context.close()
    assert faults == []


def keep(page, name):
    """A screenshot, for the docs and for whoever looks at the artifacts."""
    folder = Path(os.environ.get("SIHASH_SCREENSHOTS", "/nowhere"))
    if folder.is_dir():
        page.wait_for_timeout(500)  # for thumbnails
        with Image.open(io.BytesIO(page.screenshot())) as picture:
            picture.convert("RGB").quantize(160).save(folder / f"{name}.png", optimize=True)


def unlock(page, service):
    page.goto(f"{service.address}/#token={TOKEN}")
    page.reload()  # the fragment alone does not load the page anew
    page.wait_for_selector("#results .item img")


def image_file(tmp_path, data, name="query.png"):
    path = tmp_path / name
    path.write_bytes(data)
    return str(path)


def labels(page):
    return page.eval_on_selector_all("#results .item", "items => items.map(item => item.dataset.label)")


def wait_for_text(page, selector, text):
    page.wait_for_function(
        "([selector, text]) => document.querySelector(selector)?.textContent.includes(text)",
        arg=[selector, text],
    )


# Searching.


def test_search_by_upload(page, service, digits, tmp_path):
    data, _ = digits[N_KNOWN + 2]
    page.set_input_files("#query-file", image_file(tmp_path, data))
    wait_for_text(page, "#results-title", "24 items found")
    with ImageDatabase(service.database) as library:
        [expected] = library.search([data], k=24)
    shown = page.eval_on_selector_all("#results .item", "items => items.map(item => Number(item.dataset.id))")
    assert shown == [hit.id for hit in expected.hits]
    assert page.locator("#query-classes .bar-row").count() == 3
    far = expected.hits[-1]
    card = page.locator(f"#results .item[data-id='{far.id}']")
    words = "same code" if far.distance == 0 else f"{far.distance} bit"
    assert words in card.locator(".distance").inner_text()
    keep(page, "search")


def test_strips_show_which_bits_differ_and_hovering_says_what_they_separate(page, service, digits, tmp_path):
    page.fill("#k", "150")
    page.set_input_files("#query-file", image_file(tmp_path, digits[N_KNOWN + 3][0]))
    wait_for_text(page, "#results-title", "150 items found")
    differing = "picture => picture.bits.filter((bit, j) => bit !== picture.against[j]).length"
    for card in (page.locator("#results .item").nth(k) for k in (0, 60, 149)):
        words = card.locator(".distance").inner_text().split(" · ")[1]  # behind the score
        distance = 0 if words == "same code" else int(words.split()[0])
        assert card.locator(".strip").evaluate(differing) == distance
        assert card.locator(".strip path.off, .strip path.off-zero").count() > 0 or distance == 0
    last = page.locator("#results .item").nth(149).locator(".strip")
    last.scroll_into_view_if_needed()
    last.hover(position={"x": 60, "y": 6})
    told = page.inner_text("#tooltip")
    assert re.match(r"Bit \d+, set in \d+ % of the items", told)
    assert "Separates" in told
    assert "the query" in told
    keep(page, "bits")


def test_filters_and_the_address(page, service):
    page.locator("#results .item").first.locator("button.open").click()
    wait_for_text(page, "#results-title", "24 items found")
    page.locator("#class-filter label", has_text="3").click()
    page.wait_for_function("() => document.querySelector('#results .item')?.dataset.label === '3'")
    assert set(labels(page)) == {"3"}
    page.fill("#k", "5")
    wait_for_text(page, "#results-title", "5 items found")
    assert "class=3" in page.url
    address = page.url
    page.locator("label", has_text="within a radius").click()
    page.locator("#radius").fill("0")
    wait_for_text(page, "#results-title", "Nothing found")
    keep(page, "nothing-found")
    page.locator("#radius").fill("32")
    page.wait_for_function("() => document.querySelectorAll('#results .item').length > 5")
    # The address is the search: opened anew it shows the same.
    page.goto("about:blank")
    page.goto(address)
    wait_for_text(page, "#results-title", "5 items found")
    assert set(labels(page)) == {"3"}
    assert page.locator("#class-filter input:checked").count() == 1
    page.go_back()


def test_the_filter_offers_what_can_be_asked_for(page, service, digits):
    """Items without a class are in the collection, and no class to filter by."""
    with service.client() as client:
        client.add(digits[N_KNOWN + 50][0])
        page.reload()
        page.wait_for_selector("#class-filter label")
        offered = page.locator("#class-filter label").all_inner_texts()
        known = [one.label for one in client.info().classes]
        assert None in known
        assert offered == [label for label in known if label is not None]
        client.undo()


def test_pasting_an_image_searches(page, digits):
    values = list(digits[N_KNOWN + 5][0])
    page.evaluate(
        """values => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([new Uint8Array(values)], 'pasted.png', {type: 'image/png'}));
          dispatchEvent(new ClipboardEvent('paste', {clipboardData: transfer}));
        }""",
        values,
    )
    wait_for_text(page, "#results-title", "24 items found")
    wait_for_text(page, "#query-words", "pasted.png")


def test_dropping_an_image_searches(page, digits):
    page.evaluate(
        """values => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([new Uint8Array(values)], 'dropped.png', {type: 'image/png'}));
          dispatchEvent(new DragEvent('dragover', {dataTransfer: transfer}));
          dispatchEvent(new DragEvent('drop', {dataTransfer: transfer}));
        }""",
        list(digits[N_KNOWN + 6][0]),
    )
    wait_for_text(page, "#query-words", "dropped.png")
    wait_for_text(page, "#results-title", "24 items found")


@pytest.mark.parametrize("data", [b"no image", bombs()[0], b""], ids=["text", "bomb", "empty"])
def test_a_broken_upload_is_told_in_a_sentence(page, tmp_path, data):
    page.set_input_files("#query-file", image_file(tmp_path, data))
    page.wait_for_selector("#query-error:not([hidden])")
    assert page.inner_text("#query-error").startswith("This image cannot be used")
    wait_for_text(page, "#results", "cannot be searched for")
    keep(page, "broken-upload")
    page.locator("#query-words button", has_text="clear").click()
    page.wait_for_selector("#results .item img")


def test_by_keyboard(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#results .item button.open").nth(3).focus()
    page.keyboard.press("Enter")
    wait_for_text(page, "#results-title", "24 items found")
    page.focus("#the-query-strip")
    wait_for_text(page, "#bit-words", "Bit 1,")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    wait_for_text(page, "#bit-words", "Bit 3,")
    for name in ("Search", "Collection", "Learning"):
        page.get_by_role("link", name=name).press("Enter")
        assert page.get_by_role("link", name=name).get_attribute("aria-current") == "page"
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('main button, main input, select, a')].filter(e =>
             !(e.textContent.trim() || e.ariaLabel || e.labels?.length || e.title)).map(e => e.outerHTML)"""
    )
    assert unnamed == []


# Editing, in the order of a session.


def test_editing_needs_the_token(page, service):
    page.click("nav a[data-view=collection]")
    page.get_by_role("button", name="Delete the class 3").click()
    page.wait_for_selector("#token-dialog[open]")
    page.fill("#token", "not the token of this service")
    page.keyboard.press("Enter")
    page.wait_for_selector("#token-error:not([hidden])")
    assert page.inner_text("#token-error") == "That is not the token of this service."
    page.keyboard.press("Escape")
    assert page.inner_text("#token-button") == "Unlock editing"
    page.click("#token-button")
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    wait_for_text(page, "#token-button", "Lock editing")


def test_a_session_of_editing(page, service, digits, tmp_path):
    """A new class comes, is learned, is undone; another goes and comes back."""
    unlock(page, service)
    assert "token" not in page.url
    new = [data for data, label in digits[N_KNOWN:] if int(label) >= FIRST_CLASSES][:30]
    files = [image_file(tmp_path, data, f"new-{k}.png") for k, data in enumerate(new)]
    broken = image_file(tmp_path, b"GIF89a and nothing else", "broken.gif")

    page.click("nav a[data-view=collection]")
    page.set_input_files("#add-files", [*files, files[0], broken])
    page.fill("#add-label", "brand new")
    page.click("#add-button")
    wait_for_text(page, "#add-summary", "30 added, 1 known already, 1 rejected.")
    assert "cannot be used" in page.locator("#add-results .rejected").inner_text()
    row = page.locator("#classes tr", has_text="brand new")
    assert row.locator(".number").inner_text() == "30"
    row.get_by_role("button", name="brand new", exact=True).click()
    wait_for_text(page, "#browse-title", "Items of brand new")
    keep(page, "collection")

    page.click("nav a[data-view=learning]")
    wait_for_text(page, "#waiting", "30 changes")
    page.check("#compare")
    page.click("#update-button")
    page.wait_for_selector("#update-progress:not([hidden])")
    page.wait_for_function("() => document.getElementById('update-bar').value > 0.05")
    keep(page, "updating")
    page.wait_for_selector("#update-progress", state="hidden")
    wait_for_text(page, "#database-summary", "version 2")
    page.wait_for_selector("#chart svg")
    words = page.get_attribute("#chart svg", "aria-label")
    before, after, _ = (float(number) for number in re.findall(r"\d\.\d+", words))
    assert after > before
    wait_for_text(page, "#versions li.now", "Version 2")
    keep(page, "learning")

    page.click("#undo")
    page.click("#confirm-button")
    wait_for_text(page, "#database-summary", "version 1")

    page.click("nav a[data-view=collection]")
    page.get_by_role("button", name="Delete the class brand new").click()
    wait_for_text(page, "#confirm-words", "30 items")
    keep(page, "delete-class")
    page.click("#confirm-button")
    page.wait_for_function("() => !document.getElementById('classes').textContent.includes('brand new')")
    page.locator("#browse .item").first.hover()
    n_items = page.inner_text("#database-summary").split()[0]
    page.locator("#browse .item .remove").first.click()
    page.click("#confirm-button")
    page.wait_for_function(
        "n => !document.getElementById('database-summary').textContent.startsWith(n)", arg=n_items
    )


def test_an_empty_collection(browser, template, tmp_path):
    copy = shutil.copytree(template, tmp_path / "empty")
    with ImageDatabase(copy) as database:
        database.remove([item.id for item in database.items(limit=10_000)])
    with running(copy) as service:
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(service.address)
        wait_for_text(page, "#results", "This collection is empty")
        keep(page, "empty")
        page.click("nav a[data-view=collection]")
        wait_for_text(page, "#no-classes", "no labelled items")

        # And when the service goes away and comes back: it says so, and finds its way again.
        service.process.terminate()
        service.process.wait(timeout=30)
        page.wait_for_selector("#offline:not([hidden])")
        keep(page, "offline")
        with running(copy, port=service.port):
            page.wait_for_selector("#offline", state="hidden")
        context.close()


# Quality.


def test_quality_shows_the_table_and_the_advice(page, service):
    page.click("nav a[data-view=quality]")
    assert page.locator("#quality-result").is_hidden()
    page.click("#measure")
    page.wait_for_selector("#quality-result:not([hidden])")
    names = page.locator("#alternatives th").all_inner_texts()
    assert names[:4] == ["sihash", "cosine", "sign bits", "sign bits, rescored"]
    assert page.locator("#alternatives tr.own td").first.inner_text() == "2.1 kB"
    assert "sihash" in page.inner_text("#advice")
    assert "as if they had not been" in page.inner_text("#quality-note")
    keep(page, "quality")


# The doctor.


def test_the_doctor_shows_what_is_wrong_and_mends_it(page, service):
    with service.client() as client:
        right = client.item(9).label
        client.relabel([9], "6" if right != "6" else "5")
        unlock(page, service)
        page.click("nav a[data-view=doctor]")
        page.click("#examine")
        card = page.locator(".finding[data-kind='wrong label']", has_text="digits 9 ")
        card.wait_for()
        assert f"looks like {right}" in card.inner_text()
        assert card.locator("code").inner_text() == f"sihash relabel digits 9 {right}"
        keep(page, "doctor")
        card.get_by_role("button", name=f"Relabel as {right}").click()
        wait_for_text(page, ".finding.mended", f"Item 9 is labelled {right} now.")
        assert client.item(9).label == right
        client.undo()
        client.undo()


# Other places to look at it.


def test_on_a_phone(phone, service, digits, tmp_path):
    phone.set_input_files("#query-file", image_file(tmp_path, digits[N_KNOWN + 2][0]))
    wait_for_text(phone, "#results-title", "24 items found")
    for view in ("search", "collection", "learning", "quality", "doctor"):
        phone.click(f"nav a[data-view={view}]")
        phone.wait_for_timeout(200)
        if view == "quality":
            phone.click("#measure")
            phone.wait_for_selector("#quality-result:not([hidden])")
        assert phone.evaluate("document.documentElement.scrollWidth") <= 360
        keep(phone, f"phone-{view}")
    inside = "nav => nav.lastElementChild.getBoundingClientRect().right <= nav.getBoundingClientRect().right"
    assert phone.locator("nav").evaluate(inside)


def test_in_the_dark(dark, service, digits, tmp_path):
    assert dark.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 27)"
    dark.set_input_files("#query-file", image_file(tmp_path, digits[N_KNOWN + 2][0]))
    wait_for_text(dark, "#results-title", "24 items found")
    keep(dark, "dark-search")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_have_contrast(browser, service, scheme):
    """WCAG AA: 4.5 to 1 for the colours that words are written in."""
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(service.address)
    names = ["paper", "card", "ink", "quiet", "accent", "accent-ink", "danger", "good"]
    read = "name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()"
    colours = {name: page.evaluate(read, name) for name in names}
    context.close()
    pairs = [
        (name, ground)
        for name in ("ink", "quiet", "accent", "danger", "good")
        for ground in ("paper", "card")
    ]
    for word, ground in [*pairs, ("accent-ink", "accent"), ("card", "danger")]:
        assert contrast(colours[word], colours[ground]) >= 4.5, (word, ground)


def contrast(first, second):
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
