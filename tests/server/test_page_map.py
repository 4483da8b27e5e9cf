"""The page over vectors: the map, many items at once, the find box, an update's effect, quality by class."""

from __future__ import annotations

import json

import numpy as np
import pytest
import test_service_page as pages
from services import running

from sihash.database import Database

pytestmark = pages.pytestmark
browser = pages.browser
wait_for_text = pages.wait_for_text
WIDTH = 16
WORDS = ["mountain_view", "urban/street", "lake-side", "night market", "old_town", "harbour"]


def name_of(k):
    """80 characters, with all that joins words."""
    return f"class_{k:04d}/{'-'.join(WORDS[(k + j) % 6] for j in range(9))}"[:80]


def rows(n, n_classes, seed=0):
    """Vectors of classes that overlap a little, class after class."""
    y = np.arange(n) % n_classes
    means = np.random.default_rng(0).standard_normal((1700, WIDTH))[:n_classes]
    noise = np.random.default_rng(seed).standard_normal((n, WIDTH))
    return (2 * means[y] + 0.6 * noise).astype(np.float32), y


def make(path, n_classes, n):
    X, y = rows(n, n_classes)
    columns = {"kind": ["a", "b"] * (n // 2), "caption": [f"Höhe {k} of roll_{k // 36}" for k in range(n)]}
    Database.create(path, X, [name_of(k) for k in y], columns=columns, n_bits=24, n_anchors=200).close()
    return path


@pytest.fixture(scope="module", params=[10, 150, 1600])
def collection(request, tmp_path_factory):
    path = make(tmp_path_factory.mktemp("sizes") / "db", request.param, max(600, 2 * request.param))
    with running(path) as service:
        yield service


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Ten classes; two more came, were learned, and one item was given a wrong label."""
    path = make(tmp_path_factory.mktemp("map") / "db", 10, 400)
    X, y = rows(1200, 12, seed=1)
    new = y >= 10
    with Database(path) as database:
        n = int(new.sum())
        columns = {"kind": ["c"] * n, "caption": [f"new {k}" for k in range(n)]}
        database.add(X[new], [name_of(k) for k in y[new]], columns=columns)
        database.update()
    with running(path) as service:
        yield service


@pytest.fixture
def page(browser, service):
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    context.set_default_timeout(pages.PATIENCE)
    page = context.new_page()
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text))
    page.goto(f"{service.address}/#token={pages.TOKEN}")
    page.wait_for_selector("#results .item")
    yield page
    context.close()
    assert faults == []


@pytest.fixture
def client(service):
    with service.client() as client:
        yield client


def open_map(page):
    page.click("nav a[data-view=map]")
    page.wait_for_selector("#map-legend li")
    page.wait_for_selector("#map-waiting", state="hidden")


def places(page, service):
    """Where each item is on the screen: the answer of the service, and the margins of the canvas."""
    found = page.evaluate("fetch('/v1/map').then(answer => answer.json())")
    box = page.locator("#map-canvas").bounding_box()
    side = min(box["width"], box["height"]) * 0.92
    x = box["x"] + (box["width"] - side) / 2 + np.array(found["x"]) / 65535 * side
    y = box["y"] + (box["height"] - side) / 2 + (1 - np.array(found["y"]) / 65535) * side
    return found["ids"], np.column_stack([x, y])


def drag(page, *corners):
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*corner, steps=4)
    page.mouse.up()


def selected(page):
    return page.evaluate("import('/page/selection.js').then(module => module.selectedIds())")


def by_button(page, name):
    page.locator("#selection").get_by_role("button", name=name, exact=True).click()


# Any size, any screen.


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (1280, "dark")])
def test_every_view_fits(browser, collection, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    context.set_default_timeout(pages.PATIENCE)
    page = context.new_page()
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text))
    page.goto(collection.address)
    for view, selector in [
        ("search", "#results .item .title"),
        ("map", "#map-legend li"),
        ("collection", "#browse .item .title"),
        ("learning", "#versions li"),
        ("quality", "#measure"),
        ("doctor", "#examine"),
    ]:
        page.click(f"nav a[data-view={view}]")
        page.wait_for_selector(selector)
        if view in ("search", "collection"):
            page.locator(f"#view-{view} .pick").first.check(force=True)  # the bar of the selection is there
        assert page.evaluate(pages.MEASURES) == [], view
    assert "selected." in page.inner_text("#selection-words")
    context.close()
    assert faults == []


def test_names_break_behind_what_joins_words(page):
    title = page.locator("#results .item .title", has_text="roll_").first
    title.wait_for()
    assert title.locator("wbr").count() == 1
    label = page.locator("#results .item .label").first
    assert label.locator("wbr").count() >= 3


# The map.


def test_a_click_selects_a_lasso_circles_and_shift_adds(page, service):
    open_map(page)
    ids, points = places(page, service)
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    np.fill_diagonal(apart, np.inf)
    lonely = int(apart.min(axis=1).argmax())
    page.mouse.click(*points[lonely])
    wait_for_text(page, "#selection-words", "1 item selected.")
    assert selected(page) == [ids[lonely]]
    page.wait_for_selector(f"#map-selected .item[data-id='{ids[lonely]}']")

    page.locator("label", has_text="Lasso").click()
    low, high = np.quantile(points, 0.2, axis=0), np.quantile(points, 0.6, axis=0)
    corners = [low, (high[0], low[1]), high, (low[0], high[1])]
    drag(page, *corners)
    inside = ((points > low) & (points < high)).all(axis=1)
    edge = (np.abs(points[:, None] - np.array([low, high])) < 1.5).any(axis=(1, 2))
    found = set(selected(page))
    assert found >= {ids[k] for k in np.flatnonzero(inside & ~edge)}
    assert found <= {ids[k] for k in np.flatnonzero(inside | edge)}
    page.keyboard.down("Shift")
    page.mouse.click(*points[lonely])
    page.keyboard.up("Shift")
    assert set(selected(page)) == found ^ {ids[lonely]}
    by_button(page, "Clear")
    page.click("#map-select-seen")
    assert len(selected(page)) == len(ids)


def test_a_drag_moves_the_points_and_the_wheel_zooms(page, service):
    open_map(page)
    _, points = places(page, service)
    middle = points.mean(axis=0)
    picture = "() => document.getElementById('map-canvas').toDataURL()"
    page.wait_for_timeout(200)
    before = page.evaluate(picture)
    drag(page, middle, middle + 60)
    page.wait_for_function(f"before => ({picture})() !== before", arg=before)
    assert selected(page) == []
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(200)
    page.click("#map-select-seen")
    assert 0 < len(selected(page)) < len(points)
    page.get_by_role("button", name="Whole").click()
    page.wait_for_function(f"before => ({picture})() !== before", arg=before)  # they are marked as selected
    by_button(page, "Clear")
    page.mouse.move(5, 5)
    page.wait_for_function(f"before => ({picture})() === before", arg=before)


def test_by_keyboard_alone_from_a_point_to_another_label_and_back(page, client):
    page.keyboard.press("Tab")
    page.focus("nav a[data-view=map]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#map-legend li")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "map-canvas":
            break
    page.keyboard.press("ArrowRight")
    first = page.inner_text("#map-point")
    assert ", item " in first
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#map-point") != first
    page.keyboard.press("Space")
    wait_for_text(page, "#selection-words", "1 item selected.")
    [own] = selected(page)
    before = client.item(own).labels
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Relabel":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("#relabel-dialog[open]")
    page.focus("#relabel-label")
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "submit":
            break
    page.keyboard.press("Enter")
    wait_for_text(page, "#selection-words", "1 item relabelled: by keyboard.")
    assert client.item(own).labels == ("by keyboard",)
    page.focus("#selection-undo")
    page.keyboard.press("Enter")
    wait_for_text(page, "#selection-words", "Undone: relabel.")
    assert client.item(own).labels == before


def test_filters_and_hits_are_those_of_the_search(page, client):
    """A class chosen on the map filters the search, too; what a search finds is ringed."""
    open_map(page)
    name = name_of(3)
    page.locator("#map-legend button", has_text="class_0003").click()
    page.wait_for_selector("#map-legend button[aria-pressed=true]")
    page.click("nav a[data-view=search]")
    page.wait_for_selector(f"#results .item[data-label='{name}']")
    assert set(pages.labels(page)) == {name}
    page.click("#all-classes")
    page.locator("#results .open").first.click()
    wait_for_text(page, "#results-title", "24 items found")
    page.click("#on-map")
    wait_for_text(page, "#map-marked", "Ringed: 24 items that the search found")
    page.get_by_role("button", name="select them").click()
    assert len(selected(page)) == 24


# Many at once.


def test_shift_selects_a_range_and_one_step_takes_all_back(page, client):
    boxes = page.locator("#results .pick")
    boxes.nth(2).click(force=True)
    boxes.nth(6).click(force=True, modifiers=["Shift"])
    wait_for_text(page, "#selection-words", "5 items selected.")
    chosen = selected(page)
    before = {own: client.item(own).labels for own in chosen}
    by_button(page, "Relabel")
    page.fill("#relabel-label", "many")
    page.locator("#relabel-dialog button[type=submit]").click()
    wait_for_text(page, "#selection-words", "5 items relabelled: many.")
    assert {client.item(own).labels for own in chosen} == {("many",)}
    page.click("#selection-undo")
    wait_for_text(page, "#selection-words", "Undone: relabel.")
    assert {own: client.item(own).labels for own in chosen} == before
    assert page.locator("#selection-undo").is_hidden()

    page.locator("#results .pick").nth(0).click(force=True)
    page.locator("#results .pick").nth(3).click(force=True)
    gone = selected(page)
    by_button(page, "Remove")
    page.click("#confirm-button")
    wait_for_text(page, "#selection-words", "2 items removed.")
    assert not {item.id for item in client.items(limit=1000).items} & set(gone)
    page.click("#selection-undo")
    wait_for_text(page, "#selection-words", "Undone: remove.")


def test_export_is_a_table_of_what_is_selected(page, client):
    for k in (1, 4):
        page.locator("#results .pick").nth(k).click(force=True)
    with page.expect_download() as download:
        by_button(page, "Export")
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "id,label,name,kind,caption"
    assert {line.split(",")[0] for line in lines[1:]} == {str(own) for own in selected(page)}
    assert client.item(int(lines[1].split(",")[0])).columns["caption"] in lines[1]


def test_the_doctors_suggestions_are_accepted_at_once_and_undone_at_once(page, client):
    own = [5, 16, 27]
    right = [client.item(one).labels for one in own]
    client.relabel(own, name_of(0))
    page.click("nav a[data-view=doctor]")
    page.click("#examine")
    page.wait_for_selector(".finding[data-kind='wrong label']")
    findings = page.locator(".finding[data-kind='wrong label']")
    n = findings.count()
    assert n >= 3
    page.locator("button.accept").first.click()
    wait_for_text(page, "#selection-words", "relabelled as the doctor says.")
    assert [client.item(one).labels for one in own] == right
    assert page.locator(".finding.mended").count() == n
    page.click("#selection-undo")
    wait_for_text(page, "#selection-words", "Undone: relabel.")
    assert {client.item(one).labels for one in own} == {(name_of(0),)}
    client.undo()


# Vectors are not blind.


def test_the_find_box_takes_an_id_a_text_and_a_vector(page, service):
    def find(text):
        page.fill("#find-text", text)
        page.keyboard.press("Enter")

    assert "caption" in page.get_attribute("#find-text", "placeholder")  # the guessed title
    find("höhe 39")
    wait_for_text(page, "#results-title", "11 items with this text")
    assert page.locator("#results .title").first.inner_text() == "Höhe 39 of roll_1"
    assert "text=" in page.url
    find("17")
    wait_for_text(page, "#results-title", "24 items found")
    wait_for_text(page, "#query-words", "Höhe 17 of roll_0")
    assert "item=17" in page.url
    X, _ = rows(400, 10)
    find(json.dumps(X[17].tolist()))
    wait_for_text(page, "#query-words", "Your vector")
    page.wait_for_selector("#results .item[data-id='17']")
    with Database(service.database) as database:
        [expected] = database.search(X[17:18], k=24)
    assert pages.ids(page) == [hit.id for hit in expected.hits]
    find("1 2 3")
    wait_for_text(page, "#query-error", "Expected a vector of 16 numbers, got 3.")
    find("no item has this")
    wait_for_text(page, "#results", "No item has this text")
    find("")
    wait_for_text(page, "#results-title", "Pick an item to start from")


def test_what_the_update_changed_for_a_query(page, service):
    with Database(service.database) as database:
        [item] = database.items(limit=1, classes=[name_of(10)])
        past = database.before_update()
        [before] = past.search_ids(item.id, k=24)
        [now] = database.search_ids(item.id, k=24)
    page.goto(f"{page.url.partition('#')[0]}#search?item={item.id}&k=24")
    wait_for_text(page, "#results-title", "24 items found")
    page.click("#beside")
    page.wait_for_selector("#beside-results section >> nth=1")
    for title, answer in [("Before", before), ("Now", now)]:
        section = page.locator(f"#beside-results section[aria-label={title}]")
        cards = section.locator(".item").evaluate_all("all => all.map(one => Number(one.dataset.id))")
        assert cards == [hit.id for hit in answer.hits]
        n = sum(item.label in hit.labels for hit in answer.hits)
        assert f"{n} of 24 hits with the label of the query" in section.inner_text()
        assert f"version {answer.version}" in section.inner_text()
    new = {hit.id for hit in now.hits} - {hit.id for hit in before.hits}
    assert page.locator("#beside-results .moved.new").count() == len(new)


def test_quality_by_class_leads_to_the_items(page, service):
    page.click("nav a[data-view=quality]")
    page.click("#measure")
    page.wait_for_selector("#measured-classes tr")
    with Database(service.database) as database:
        measured = database.evaluate(max_queries=5000, max_items=50_000).classes
    worst = min(measured, key=lambda one: (one.p_at_1, one.p_at_10))
    first = page.locator("#measured-classes tr").first
    assert first.locator("th").get_attribute("title") == worst.label
    assert f"{worst.p_at_1:.3f}" in first.inner_text()
    confused = [one for one in measured if one.confused]
    if confused:
        button = page.locator("#measured-classes .taken button").first
        button.click()
        page.wait_for_selector("#viewer[open]")


# Updates.


def test_an_update_with_nothing_to_learn_is_not_offered_and_says_why(page, client):
    page.click("nav a[data-view=learning]")
    wait_for_text(
        page, "#waiting", "Nothing has changed since the last update, so there is nothing to learn."
    )
    assert page.is_disabled("#update-button")
    page.locator("label", has_text="from scratch").first.click()
    assert page.is_enabled("#update-button")
    page.locator("label", has_text="incrementally").click()
    assert page.is_disabled("#update-button")
    client.relabel([3], "another")
    page.reload()
    wait_for_text(page, "#waiting", "1 change since the last update")
    assert page.is_enabled("#update-button")
    client.undo()
