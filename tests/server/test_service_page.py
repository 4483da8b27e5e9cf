"""The page in a real browser, over a real service."""

from __future__ import annotations

import re
import shutil
import unicodedata
from urllib.parse import quote

import numpy as np
import pytest
from mutations import bombs
from services import FIRST_CLASSES, N_KNOWN, TOKEN, running

from sihash.database import Database

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
    page.on("console", lambda message: is_fault(message.text) and faults.append(message.text))

    def is_ours(url):
        return url.startswith((service.address, "blob:", "data:"))

    def is_fault(text):
        return "Security" in text or "404" in text

    page.goto(service.address)
    page.wait_for_selector("#results .item img")
    yield page
    context.close()
    assert faults == []


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


def ids(page):
    return page.eval_on_selector_all("#results .item", "items => items.map(item => Number(item.dataset.id))")


def wait_for_text(page, selector, text):
    page.wait_for_function(
        "([selector, text]) => document.querySelector(selector)?.textContent.includes(text)",
        arg=[selector, text],
    )


def draw_all(page, n):
    """Scroll until all cards are there: they are drawn as they come into view."""
    page.wait_for_function(
        """n => {
          scrollTo(0, document.body.scrollHeight);
          return document.querySelectorAll('#results .item').length === n;
        }""",
        arg=n,
    )
    page.evaluate("scrollTo(0, 0)")


# Starting.


def test_the_start_is_a_sample_of_all_classes(page):
    first = labels(page)
    assert set(first) == {str(digit) for digit in range(FIRST_CLASSES)}
    wait_for_text(page, "#results-note", "48 items from 7 classes")
    shown = ids(page)
    page.click("#others")
    page.wait_for_function(
        "id => document.querySelector('#results .item').dataset.id !== id", arg=str(shown[0])
    )
    assert set(labels(page)) == set(first)


def test_the_first_answer_waits_for_nothing_that_grows_with_the_classes(browser, service):
    """The facts and a sample; what the bits mean is asked for when somebody points at one."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(service.address)))
    page.goto(service.address)
    page.wait_for_selector("#results .item img")
    wanted = [path.partition("?")[0] for path in asked if path.startswith("/v1/")]
    assert wanted[:2] == ["/v1/info", "/v1/sample"]
    assert not {"/v1/bits", "/v1/items", "/v1/evaluation"} & set(wanted)
    page.locator("#results .open").first.click()
    page.wait_for_selector("#the-query-strip")
    assert "/v1/bits" not in "".join(asked)
    page.hover("#the-query-strip")
    wait_for_text(page, "#tooltip", "set in")
    context.close()


@pytest.mark.parametrize("late", ["**/v1/info", "**/page/main.js"], ids=["facts", "script"])
def test_a_file_chosen_before_the_first_answer_is_not_lost(browser, service, digits, tmp_path, late):
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    held = []
    page.route(late, lambda route: route.continue_() if held else held.append(route))
    page.goto(service.address, wait_until="commit")
    page.wait_for_selector("#query-file", state="attached")
    wait_until_held(page, held)
    page.set_input_files("#query-file", image_file(tmp_path, digits[N_KNOWN + 4][0], "early.png"))
    held[0].continue_()
    wait_for_text(page, "#results-title", "24 items found")
    wait_for_text(page, "#query-words", "early.png")
    context.close()


def wait_until_held(page, held):
    for _ in range(600):
        if held:
            return
        page.wait_for_timeout(100)
    raise TimeoutError


def test_a_search_that_got_no_answer_is_asked_again(page, digits, tmp_path):
    page.context.set_offline(True)
    page.set_input_files("#query-file", image_file(tmp_path, digits[N_KNOWN + 4][0]))
    page.wait_for_selector("#offline:not([hidden])")
    page.context.set_offline(False)
    wait_for_text(page, "#results-title", "24 items found")
    assert page.locator("#offline").is_hidden()


# Searching.


def test_search_by_upload(page, service, digits, tmp_path):
    data, _ = digits[N_KNOWN + 2]
    page.set_input_files("#query-file", image_file(tmp_path, data))
    wait_for_text(page, "#results-title", "24 items found")
    with Database(service.database) as library:
        [expected] = library.search([data], k=24)
    assert ids(page) == [hit.id for hit in expected.hits]
    assert page.locator("#query-classes .bar-row").count() == 3
    far = expected.hits[-1]
    card = page.locator(f"#results .item[data-id='{far.id}']")
    words = "same code" if far.distance == 0 else f"{far.distance} bit"
    assert words in card.locator(".distance").inner_text()
    assert card.locator(".why dt").all_inner_texts() == ["same class", "margin", "vector"]
    share, margin, cosine = card.locator(".why dd").all_inner_texts()
    assert share == f"{100 * far.why.same_class:.0f} %"
    assert float(margin.replace("−", "-")) == pytest.approx(far.why.margin, abs=0.006)
    assert float(cosine.replace("−", "-")) == pytest.approx(far.why.vector, abs=0.006)


def test_strips_show_which_bits_differ_and_hovering_says_what_they_separate(page, service, digits, tmp_path):
    page.fill("#k", "150")
    page.wait_for_function("() => location.hash.includes('k=150')")
    page.set_input_files("#query-file", image_file(tmp_path, digits[N_KNOWN + 3][0]))
    wait_for_text(page, "#results-title", "150 items found")
    draw_all(page, 150)
    differing = "picture => picture.bits.filter((bit, j) => bit !== picture.against[j]).length"
    for card in (page.locator("#results .item").nth(k) for k in (0, 60, 149)):
        words = card.locator(".distance").inner_text().split(" · ")[1]  # behind the score
        distance = 0 if words == "same code" else int(words.split()[0])
        assert card.locator(".strip").evaluate(differing) == distance
        assert card.locator(".strip path.off, .strip path.off-zero").count() > 0 or distance == 0
    last = page.locator("#results .item").nth(149).locator(".strip")
    last.scroll_into_view_if_needed()
    last.hover(position={"x": 60, "y": 6})
    wait_for_text(page, "#tooltip", "set in")
    told = page.inner_text("#tooltip")
    assert re.match(r"Bit \d+, set in \d+ % of the items", told)
    assert "Separates" in told
    assert "the query" in told


def test_filters_and_the_address(page, service):
    page.locator("#results .item:not([data-label='3']) button.open").first.click()
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


def test_everything_can_be_reached_by_tab_and_is_seen_to_be(page):
    """Each stop of the focus is on the page, has an outline, and the first card is among them."""
    page.locator("#results .item button.open").first.press("Enter")
    wait_for_text(page, "#results-title", "24 items found")
    page.evaluate("document.activeElement.blur()")
    stops = []
    for _ in range(45):
        page.keyboard.press("Tab")
        stops.append(
            page.evaluate(
                """() => {
                  const at = document.activeElement;
                  const outlined = [at, at.nextElementSibling, at.previousElementSibling].filter(Boolean)
                    .flatMap(one => [getComputedStyle(one), getComputedStyle(one, '::after')])
                    .some(style => style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1);
                  return [at.className || at.id || at.tagName, outlined];
                }"""
            )
        )
    assert [name for name, outlined in stops if not outlined] == []
    assert {"open", "corner closer"} <= {name for name, _ in stops}


# The larger view.


@pytest.fixture(scope="module")
def folder(folder_template, tmp_path_factory):
    """A service over images of a folder: ids are text, originals and columns are there."""
    with running(shutil.copytree(folder_template, tmp_path_factory.mktemp("folder") / "digits")) as service:
        yield service


@pytest.fixture
def album(browser, folder):
    yield from _page(browser, folder)


def test_a_closer_look(album, folder):
    page = album
    with Database(folder.database) as library:
        with page.expect_response("**/image") as original:
            page.locator("#results .closer").nth(1).press("Enter")
        page.wait_for_selector("#viewer[open]")
        shown = library.item(album.locator("#results .item").nth(1).get_attribute("data-id"))
        near = [hit.id for hit in library.search_ids([shown.id], k=10)[0].hits]
    assert page.inner_text("#viewer-title") == shown.label
    assert page.inner_text("#viewer-name") == shown.name
    wait_for_text(page, "#viewer-facts", shown.sha256)
    facts = page.inner_text("#viewer-facts")
    assert shown.columns["taken"] in facts
    assert re.search(rf"قياس\s+{shown.columns['قياس']}\b", facts)
    page.wait_for_function("n => document.querySelectorAll('#viewer-near [data-id]').length === n", arg=10)
    neighbours = page.eval_on_selector_all("#viewer-near .item", "all => all.map(one => one.dataset.id)")
    assert neighbours == near
    assert original.value.headers["content-type"] == "image/png"  # the thumbnails are JPEGs
    page.wait_for_function("() => document.getElementById('viewer-note').textContent === ''")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "name => document.getElementById('viewer-name').textContent !== name", arg=shown.name
    )
    page.keyboard.press("ArrowLeft")
    wait_for_text(page, "#viewer-name", shown.name)
    page.keyboard.press("Escape")
    page.wait_for_selector("#viewer", state="hidden")
    assert page.evaluate("document.activeElement.className") == "corner closer"  # back where it was opened

    page.locator("#results .closer").nth(1).click()
    page.locator("#viewer-near .open").first.click()
    page.wait_for_function(
        "name => document.getElementById('viewer-name').textContent !== name", arg=shown.name
    )
    page.click("#viewer-search")
    wait_for_text(page, "#results-title", "24 items found")
    assert f"item={quote(near[0], safe='')}" in page.url


def test_without_the_original_the_small_picture_stays(album, folder):
    page, first = album, album.locator("#results .item").first.get_attribute("data-id")
    with folder.client() as client, Database(folder.database) as library:
        path = library.item(first).path
        shutil.move(path, f"{path}.away")
        try:
            assert client.original(first) is None
            page.locator("#results .closer").first.click()
            wait_for_text(page, "#viewer-note", "missing or has changed")
            assert page.locator("#viewer-picture img").count() == 1
        finally:
            shutil.move(f"{path}.away", path)


def test_an_item_of_the_collection_starts_a_search(page):
    page.click("nav a[data-view=collection]")
    page.locator("#browse .item button.open").first.click()
    wait_for_text(page, "#results-title", "24 items found")
    assert page.locator("#view-search").is_visible()
    address = page.url
    page.click("nav a[data-view=learning]")
    page.click("nav a[data-view=search]")  # and whoever comes back finds what was found
    assert page.url == address
    wait_for_text(page, "#results-title", "24 items found")


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

    page.click("nav a[data-view=learning]")
    wait_for_text(page, "#waiting", "30 changes")
    page.check("#compare")
    page.click("#update-button")
    page.wait_for_selector("#update-progress:not([hidden])")
    page.wait_for_function("() => document.getElementById('update-bar').value > 0.05")
    page.wait_for_selector("#update-progress", state="hidden")
    wait_for_text(page, "#database-summary", "version 2")
    page.wait_for_selector("#chart svg")
    words = page.get_attribute("#chart svg", "aria-label")
    before, after, _ = (float(number) for number in re.findall(r"\d\.\d+", words))
    assert after > before
    wait_for_text(page, "#versions li.now", "Version 2")
    assert page.get_attribute("#history svg", "aria-label").endswith(f"version 2 {after:.3f}")
    assert page.locator("#history circle.after").count() == 1

    page.click("#undo")
    page.click("#confirm-button")
    wait_for_text(page, "#database-summary", "version 1")
    wait_for_text(page, "#versions li.undone", "Version 2")
    page.wait_for_selector("#history .undone circle.after")

    page.click("nav a[data-view=collection]")
    page.get_by_role("button", name="Delete the class brand new").click()
    wait_for_text(page, "#confirm-words", "30 items")
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
    with Database(copy) as database:
        database.remove([item.id for item in database.items(limit=10_000)])
    with running(copy) as service:
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(service.address)
        wait_for_text(page, "#results", "This collection is empty")
        page.click("nav a[data-view=collection]")
        wait_for_text(page, "#no-classes", "no labelled items")

        # And when the service goes away and comes back: it says so, and finds its way again.
        service.process.terminate()
        service.process.wait(timeout=30)
        page.wait_for_selector("#offline:not([hidden])")
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
    assert page.locator("#alternatives tr.own td").first.inner_text().endswith((" kB", " bytes"))
    assert "sihash" in page.inner_text("#advice")
    assert "asked a collection without them" in page.inner_text("#quality-note")


# The doctor.


def test_the_doctor_shows_what_is_wrong_and_mends_it(page, service):
    with service.client() as client:
        right = client.item(9).label
        client.relabel([9], "6" if right != "6" else "5")
        unlock(page, service)
        page.click("nav a[data-view=doctor]")
        page.click("#examine")
        card = page.locator(".finding[data-kind='wrong label']", has_text=re.compile("digits 9 "))
        card.wait_for()
        assert f"looks like {right}" in card.inner_text()
        assert card.locator("code").inner_text() == f"sihash relabel digits 9 {right}"
        card.get_by_role("button", name=f"Relabel as {right}").click()
        wait_for_text(page, ".finding.mended", f"Item 9 is now labelled {right}.")
        assert client.item(9).label == right
        client.undo()
        client.undo()


# Other places to look at it.


def test_on_a_phone(phone, service, digits, tmp_path):
    phone.set_input_files("#query-file", image_file(tmp_path, digits[N_KNOWN + 2][0]))
    wait_for_text(phone, "#results-title", "24 items found")
    for view in ("search", "map", "collection", "learning", "quality", "doctor"):
        phone.click(f"nav a[data-view={view}]")
        phone.wait_for_timeout(200)
        if view == "quality":
            phone.click("#measure")
            phone.wait_for_selector("#quality-result:not([hidden])")
        assert phone.evaluate("document.documentElement.scrollWidth") <= 360
    inside = "nav => nav.lastElementChild.getBoundingClientRect().right <= nav.getBoundingClientRect().right"
    assert phone.locator("nav").evaluate(inside)


def test_in_the_dark(dark, service, digits, tmp_path):
    assert dark.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 27)"
    dark.set_input_files("#query-file", image_file(tmp_path, digits[N_KNOWN + 2][0]))
    wait_for_text(dark, "#results-title", "24 items found")


def test_a_view_needs_a_module_and_a_place_in_the_list(browser, service):
    """As the comment in views.js promises: no line of HTML, and no other script knows of it."""
    extra = """const extra = {
      name: "extra", title: "Extra",
      setUp(section) { section.append("set up"); },
      setInfo(info) { document.getElementById("view-extra").append(`, ${info.n_items} items`); },
      show(parameters) { document.getElementById("view-extra").append(`, shown ${parameters.get("x")}`); },
    };"""

    def with_another(route):
        text = route.fetch().text()
        assert "doctor];" in text
        route.fulfill(
            body=f"{text.replace('doctor];', 'doctor, extra];')}\n".replace(
                "export const VIEWS", f"{extra}\nexport const VIEWS"
            ),
            content_type="text/javascript",
        )

    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.route("**/page/views.js", with_another)
    page.goto(f"{service.address}/#extra?x=7")
    wait_for_text(page, "#view-extra", "set up, shown 7")
    wait_for_text(page, "#view-extra", "items")
    assert page.locator("nav a").all_inner_texts()[-1] == "Extra"
    assert page.locator("#view-search").is_hidden()
    context.close()


# Any collection on any screen.

SCRIPTS = [
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "pneumonoultramicroscopicsilicovolcanoconiosis " * 4,
    "كلمات طويلة جدا مكتوبة من اليمين إلى اليسار " * 3,
    "とても長い名前のクラスで空白がまったくありません" * 4,
    "पुस्तकालय में रखी हुई बहुत पुरानी किताबें " * 3,
    "🏔️🏔️🏔️ ระบบจำแนกประเภทที่มีชื่อยาวมากและไม่มีช่องว่าง",
    "C:/photos/2026/holidays_with_the_whole_family_in_the_mountains/best_of_the_best/day_17_evening",
]
MEASURES = """() => {
  const faults = new Set();
  const tell = (what, one) => faults.add(`${what}: ${one.className || one.id} ${one.textContent.slice(0, 20)}`);
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)].filter(one => one.checkVisibility());
  const box = one => one.getBoundingClientRect();
  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;

  if (document.documentElement.scrollWidth > innerWidth) tell('wider than the screen', document.documentElement);
  for (const one of all('body *')) {
    const isScrolled = /auto|scroll/.test(getComputedStyle(one).overflowX);
    if (isScrolled && one.scrollWidth > one.clientWidth + 1) tell('scrolls sideways', one);
  }
  for (const one of all('.item, .card, .viewer, nav a, .chips label, .tag, .classes tr')) {
    if (box(one).left < -1 || box(one).right > innerWidth + 1) tell('outside the page', one);
  }
  for (const one of all('.item, nav a, .chips label, .tag')) {
    for (const other of one.parentElement.children) {
      if (other !== one && other.checkVisibility() && overlap(box(one), box(other))) tell('over another', one);
    }
  }
  for (const card of all('.item')) {
    for (const part of all('.words > *, .tag, .picture, .corner, .reason *', card)) {
      const [inner, outer] = [box(part), box(card)];
      const isInside = inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && inner.bottom <= outer.bottom + 1;
      if (!isInside) tell('outside its card', part);
    }
  }
  return [...faults];
}"""  # noqa: E501
SCREENS = [(390, 844), (768, 1024), (1280, 800), (3840, 2160)]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A service over vectors of 611 classes with long names in many scripts."""
    path = tmp_path_factory.mktemp("many") / "many"
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(611), 3)
    X = (3 * rng.standard_normal((611, 12))[y] + rng.standard_normal((len(y), 12))).astype(np.float32)
    names = [f"{k} {SCRIPTS[k % len(SCRIPTS)]}"[:200].strip() for k in range(611)]
    Database.create(path, X, [names[k] for k in y], n_bits=16).close()
    with running(path) as service:
        yield service


@pytest.fixture(scope="module", params=["long labels", "no thumbnails", "611 classes, vectors only"])
def collection(request, digits, tmp_path_factory):
    """Services over collections as they come."""
    if "vectors" in request.param:
        yield request.getfixturevalue("many")
        return
    path = tmp_path_factory.mktemp("any") / "any"
    some = [(data, SCRIPTS[int(label)].strip()) for data, label in digits[:120] if int(label) < len(SCRIPTS)]
    images, names = zip(*some, strict=True)
    options = {"n_bits": 16, "n_anchors": 30, "thumbnails": request.param != "no thumbnails"}
    Database.create(path, list(images), list(names), **options).close()
    with running(path) as service:
        yield service


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: f"{screen[0]} wide")
def test_nothing_overlaps_and_nothing_is_too_wide(browser, collection, screen):
    context = browser.new_context(viewport={"width": screen[0], "height": screen[1]})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    told = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))

    def is_fine(selector):
        page.wait_for_selector(selector)
        page.wait_for_function(
            "() => ![...document.querySelectorAll('.loading')].some(one => one.checkVisibility())"
        )
        assert page.evaluate(MEASURES) == []

    page.goto(collection.address)
    is_fine("#results .item .label")
    page.evaluate("document.getElementById('filters-box').open = true")
    page.locator("#class-filter label").nth(2).click()
    page.locator("#results .open").first.click()
    is_fine("#results .item .why")
    page.locator("#results .closer").first.click()
    is_fine("#viewer-near .item .label:not(.placeholder *)")
    page.keyboard.press("Escape")
    for view, selector in [
        ("map", "#map-legend li"),
        ("collection", "#browse .item .label:not(.placeholder *)"),
        ("learning", "#versions li"),
        ("quality", "#measure"),
        ("doctor", "#examine"),
    ]:
        page.click(f"nav a[data-view={view}]")
        is_fine(selector)
    if screen[0] == 390:
        page.click("#examine")
        is_fine("#findings > *")
        page.click("nav a[data-view=quality]")
        page.click("#measure")
        is_fine("#alternatives tr")
    context.close()
    assert told == []  # no script failed, no picture was asked for that is not there


def test_many_classes_are_found_and_drawn_as_they_are_seen(browser, many):
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(many.address)
    page.wait_for_selector("#class-filter label")
    chips = page.locator("#class-filter label")
    assert chips.count() < 200
    assert [text.split()[0] for text in chips.all_inner_texts()[:12]] == [str(k) for k in range(12)]
    page.wait_for_function(
        """() => {
          const box = document.getElementById('class-filter');
          box.scrollTo(0, box.scrollHeight);
          return box.childElementCount === 611;
        }"""
    )
    page.fill("#class-search", "no class is called this")
    page.wait_for_selector("#class-none:not([hidden])")
    page.fill("#class-search", "ELEKTRIZITATEN")  # whatever the case and the accents
    page.wait_for_function(
        "() => document.querySelector('#class-filter label').textContent.startsWith('0 Donau')"
    )
    assert all("Donau" in text for text in chips.all_inner_texts())
    page.fill("#class-search", "600")
    page.wait_for_function("() => document.querySelectorAll('#class-filter label').length === 1")
    chips.first.click()
    page.wait_for_function("() => document.querySelectorAll('#results .item').length === 3")
    assert page.locator("#chosen-classes label").count() == 1
    page.fill("#class-search", "610")
    page.wait_for_function("() => document.querySelectorAll('#class-filter label').length === 1")
    chips.first.click()
    page.wait_for_function("() => document.querySelectorAll('#results .item').length === 6")
    assert {label.split()[0] for label in labels(page)} == {"600", "610"}
    page.click("#all-classes")
    page.wait_for_function("() => document.querySelectorAll('#results .item').length === 48")
    assert len(set(labels(page))) == 48

    page.click("nav a[data-view=collection]")
    page.wait_for_selector("#classes tr")
    assert page.locator("#classes tr").count() < 200
    page.fill("#find-class", "601")
    page.wait_for_function("() => document.querySelectorAll('#classes tr').length === 1")
    page.locator("#classes button.link").click()
    wait_for_text(page, "#browse-title", "Items of 601")
    page.wait_for_function("() => document.querySelectorAll('#browse .item').length === 3")
    context.close()


def test_long_names_keep_their_ends(page):
    """Names of one collection often differ at their ends only; no letter is cut in two."""
    names = [f"{script.strip()} {k}" for script in SCRIPTS for k in range(3)]
    shorten = (
        "async names => { const { shortName } = await import('/page/dom.js'); return names.map(shortName); }"
    )
    short = page.evaluate(shorten, [*names, "cat"])
    assert short.pop() == "cat"
    assert len(set(short)) == len(names)
    for name, shown in zip(names, short, strict=True):
        start, end = shown.split("…")
        assert name.startswith(start)
        assert name.endswith(end)
        assert not unicodedata.combining(end[0])


def test_long_names_do_not_show_what_they_all_share(page):
    shorten = """async names => {
        const { learnNames, shortName } = await import('/page/dom.js');
        learnNames(names);
        const short = names.map(shortName);
        learnNames([]);
        return short;
    }"""
    forms = [
        "circle, red",
        "circle, black",
        "checks, red",
        "waves in a rather long sentence, and with the end: red",
    ]
    names = [f"Catalogue of forms and areas, 2026: {form} (series B, part 4)" for form in forms]
    circle, black, checks, waves, cat = page.evaluate(shorten, [*names, "cat"])
    assert (circle, black, checks, cat) == ("…circle, red…", "…circle, black…", "…checks, red…", "cat")
    assert waves.startswith("…waves in a")
    assert waves.endswith("end: red…")
    alike = [f"the same words at the beginning {k}" for k in ("", "and more")]
    assert len(set(page.evaluate(shorten, alike))) == 2
    assert page.evaluate(shorten, ["a single name that is far too long to be shown"]) == [
        "a single name that… be shown"
    ]


# For everybody.


@pytest.fixture(params=["light", "dark"])
def checked(request, browser):
    """A tab, and a function that fails where axe has something serious to say of it."""
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=request.param, viewport={"width": 1280, "height": 860})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()

    def check(place):
        page.wait_for_function("() => !document.getAnimations().some(one => one.playState === 'running')")
        serious = [
            (place, one["id"], [node["target"] for node in one["nodes"]][:3])
            for one in Axe().run(page).response["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []

    yield page, check
    context.close()


def test_axe_in_views_and_dialogs(checked, service, digits, tmp_path):
    page, check = checked
    page.goto(service.address)
    page.wait_for_selector("#results .item img")
    check("start")
    page.set_input_files("#query-file", image_file(tmp_path, digits[N_KNOWN + 2][0]))
    wait_for_text(page, "#results-title", "24 items found")
    check("search")
    page.locator("#results .closer").first.click()
    page.wait_for_selector("#viewer-near .item img")
    check("viewer")
    page.keyboard.press("Escape")
    page.set_input_files("#query-file", image_file(tmp_path, b"no image"))
    page.wait_for_selector("#query-error:not([hidden])")
    check("error")
    for view in page.eval_on_selector_all("nav a", "links => links.map(link => link.dataset.view)"):
        page.click(f"nav a[data-view={view}]")
        check(view)
    page.click("#token-button")
    check("token")


def test_axe_in_what_was_measured(checked, folder):
    page, check = checked
    page.goto(f"{folder.address}/#quality")
    page.click("#measure")
    page.wait_for_selector("#quality-result:not([hidden])")
    check("quality")
    page.click("nav a[data-view=doctor]")
    page.click("#examine")
    page.wait_for_selector("#findings > *")
    check("doctor")


def test_axe_among_vectors_and_many_classes(checked, many):
    page, check = checked
    page.goto(many.address)
    page.locator("#class-filter label").nth(5).click()
    page.wait_for_selector("#chosen-classes label")
    page.locator("#results .open").first.click()
    page.wait_for_selector("#results .why")
    check("search")
    page.locator("#results .closer").first.click()
    check("viewer")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_have_contrast(browser, service, scheme):
    """WCAG AA: 4.5 to 1 for the colours that words are written in."""
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(service.address)
    names = [
        "paper",
        "card",
        "sunken",
        "ink",
        "quiet",
        "accent",
        "accent-ink",
        "accent-soft",
        "danger",
        "good",
    ]
    read = "name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()"
    colours = {name: page.evaluate(read, name) for name in names}
    context.close()
    pairs = [
        (name, ground)
        for name in ("ink", "quiet", "accent", "danger", "good")
        for ground in ("paper", "card")
    ]
    others = [("accent-ink", "accent"), ("card", "danger"), ("quiet", "sunken")]
    others += [(word, "accent-soft") for word in ("ink", "accent")]
    for word, ground in [*pairs, *others]:
        assert contrast(colours[word], colours[ground]) >= 4.5, (word, ground)


def contrast(first, second):
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
