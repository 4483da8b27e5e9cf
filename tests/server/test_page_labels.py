"""The page over items with one to five labels of any length and script, and over their columns."""

from __future__ import annotations

import pytest
import test_service_page as pages
from services import running

from sihash.database import Database

pytestmark = pages.pytestmark
browser, checked = pages.browser, pages.checked
N = 120
FIVE = 77  # an item with five labels


def labels_of(k, digit):
    """What it is and whether it is odd; some have long labels, too, some none."""
    own = [f"digit {digit}", "odd" if digit % 2 else "even"]
    if k % 7 == 0:
        own += [pages.SCRIPTS[k // 7 % 7].strip(), "x" * 1000]
    if k % 11 == 0:
        own = [*own, "مجعد", "and, so on"][:5]
    return own[:1] if k % 5 == 1 else [] if k % 13 == 12 else own


@pytest.fixture(scope="module")
def service(digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "digits"
    labels = [labels_of(k, int(label)) for k, (_, label) in enumerate(digits[:N])]
    assert {len(own) for own in labels} == {0, 1, 2, 4, 5}
    columns = {"price": list(range(N)), "drawn by": ["Ada", "Emmy"] * (N // 2)}
    images = [data for data, _ in digits[:N]]
    Database.create(path, images, labels, columns=columns, n_bits=16, n_anchors=30).close()
    with running(path) as service:
        yield service


@pytest.fixture
def client(service):
    with service.client() as client:
        yield client


@pytest.fixture
def page(browser, service):
    for page in pages._page(browser, service):
        pages.unlock(page, service)
        yield page


def search_from(page, number):
    page.goto(f"{page.url.partition('#')[0]}#search?item={number}&k=30")
    pages.wait_for_text(page, "#results-title", "30 items found")


def look_at(page, number):
    search_from(page, number)
    page.get_by_role("button", name="look closer", exact=True).click()
    page.wait_for_selector("#viewer-near .item img")


def titles(tags):
    return [tag.get_attribute("title") for tag in tags.all()]


def test_hits_show_their_labels_and_which_the_query_has(page, client):
    search_from(page, 0)
    asked = set(client.item(0).labels)
    for hit in client.search_item(0, k=30).hits:
        card = page.locator(f"#results .item[data-id='{hit.id}']")
        shown = titles(card.locator(".tag:not(.more)"))  # whole, where the text of a long name is not
        n_shown = len(hit.labels) if len(hit.labels) <= 4 else 3
        assert len(shown) == n_shown
        assert set(shown) <= set(hit.labels)
        assert set(titles(card.locator(".tag.common"))) == asked & set(shown)
        assert card.locator(".tag.more").all_inner_texts() == (
            [f"+{len(hit.labels) - n_shown}"] if len(hit.labels) > 4 else []
        )
        assert card.locator(".why dt").first.inner_text() == "label in common"
    assert "label in common" in page.inner_text("#results-note")


def test_labels_are_edited_by_keyboard(page, client):
    def saved(expected):
        page.wait_for_function(
            """names => JSON.stringify([...document.querySelectorAll('#viewer-title .tag')]
                 .map(tag => tag.textContent).sort()) === JSON.stringify(names)""",
            arg=sorted(expected),
        )
        assert client.item(4).labels == tuple(sorted(expected))

    assert client.item(4).labels == ("digit 4", "even")
    look_at(page, 4)
    page.focus("#viewer-edit")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "viewer-label"
    page.keyboard.type("wavy, thin")
    page.keyboard.press("ArrowLeft")  # goes from letter to letter, not to the next item
    page.keyboard.press("Enter")
    saved(["digit 4", "even", "wavy, thin"])
    assert page.evaluate("document.activeElement.id") == "viewer-label"
    for _ in range(2):  # back over the tags, to the second one's cross
        page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.ariaLabel") == "Take away the label even"
    page.keyboard.press("Enter")
    saved(["digit 4", "wavy, thin"])
    assert page.evaluate("document.activeElement.ariaLabel") == "Take away the label wavy, thin"
    page.keyboard.press("Escape")
    page.wait_for_selector("#viewer", state="hidden")
    client.undo()
    client.undo()
    assert client.item(4).labels == ("digit 4", "even")


def test_what_cannot_be_saved_is_told_and_taken_back(page, client):
    look_at(page, 4)
    page.click("#viewer-edit")
    page.route("**/v1/items/relabel", lambda route: route.fulfill(status=422, json={"detail": "Not so."}))
    page.fill("#viewer-label", "wavy")
    page.keyboard.press("Enter")
    pages.wait_for_text(page, "#viewer-error", "Not so.")
    assert page.locator("#viewer-labels .tag span").all_inner_texts() == ["digit 4", "even"]


def test_without_the_token_editing_asks_for_it(browser, service):
    for page in pages._page(browser, service):
        look_at(page, 4)
        page.click("#viewer-edit")
        page.wait_for_selector("#token-dialog[open]")
        page.fill("#token", pages.TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_selector("#viewer-labels:not([hidden])")


def test_images_are_added_with_several_labels(page, client, digits, tmp_path):
    page.click("nav a[data-view=collection]")
    page.set_input_files("#add-files", pages.image_file(tmp_path, digits[N + 5][0], "new.png"))
    page.fill("#add-label", "new")
    page.keyboard.press("Enter")
    page.fill("#add-label", "even, or odd")  # what is still in the box counts
    page.click("#add-button")
    pages.wait_for_text(page, "#add-summary", "1 added")
    [item] = client.items(classes=["new"]).items
    assert item.labels == ("even, or odd", "new")
    page.set_input_files("#add-files", pages.image_file(tmp_path, digits[0][0], "known.png"))
    page.click("#add-button")
    pages.wait_for_text(page, "#add-results", "is there already, labelled ")
    client.undo()


def test_deleting_a_class_tells_who_goes_and_who_stays(page, client):
    [counts] = [one for one in client.info().classes if one.label == "digit 6"]
    go, stay = counts.n_only, counts.n_items - counts.n_only
    assert min(go, stay) > 1
    page.click("nav a[data-view=collection]")
    page.get_by_role("button", name="Delete the class digit 6").click()
    told = page.inner_text("#confirm-words")
    assert f"{go} items with no other label will be removed from all searches at once" in told
    assert f"{stay} items with other labels lose this one and stay" in told
    page.click("#confirm-button")
    pages.wait_for_text(page, "#status", f"{go} items removed, {stay} without this label now.")
    client.undo()
    page.reload()
    page.get_by_role("button", name="Delete the class even").click()
    assert page.inner_text("#confirm-words").startswith("No item goes.")
    page.keyboard.press("Escape")


def test_columns_filter_what_is_found(page, client):
    def ask(condition, n):
        page.fill("#where", condition)
        page.keyboard.press("Enter")
        page.wait_for_function("n => document.querySelectorAll('#results .item').length === n", arg=n)

    ask("price < 20 and \"drawn by\" = 'Ada'", 10)
    assert sorted(pages.ids(page)) == list(range(0, 20, 2))
    page.locator("#results .item[data-id='4'] .open").click()
    pages.wait_for_text(page, "#results-title", "9 items found")
    assert set(pages.ids(page)) == set(range(0, 20, 2)) - {4}
    found, address = pages.ids(page), page.url
    page.fill("#where", "cost < 3")
    page.keyboard.press("Enter")
    pages.wait_for_text(page, "#where-error", "No column is named 'cost'; there are price, drawn by.")
    page.goto("about:blank")
    page.goto(address)
    pages.wait_for_text(page, "#results-title", "9 items found")
    assert pages.ids(page) == found
    ask("price > 1000", 0)
    pages.wait_for_text(page, "#results", "No item matches the filter")


@pytest.mark.parametrize("width", [390, 1280, 3840])
def test_nothing_overlaps_and_nothing_is_too_wide(browser, service, width):
    for page in pages._page(browser, service, viewport={"width": width, "height": 900}):
        pages.unlock(page, service)

        def is_fine(page=page):
            page.wait_for_function(
                "() => ![...document.querySelectorAll('.loading')].some(one => one.checkVisibility())"
            )
            assert page.evaluate(pages.MEASURES) == []

        is_fine()
        look_at(page, FIVE)
        page.click("#viewer-edit")
        is_fine()
        page.keyboard.press("Escape")
        is_fine()
        page.click("nav a[data-view=collection]")
        page.wait_for_selector("#browse .item img")
        page.fill("#add-label", "y" * 300)
        page.keyboard.press("Enter")
        is_fine()
        page.click("nav a[data-view=doctor]")
        page.click("#examine")
        page.wait_for_selector("#findings > *")
        is_fine()


def test_axe_while_labels_are_edited(checked, service):
    page, check = checked
    page.goto(f"{service.address}/#token={pages.TOKEN}")
    page.wait_for_selector("#results .item img")
    look_at(page, FIVE)
    page.click("#viewer-edit")
    check("viewer")
    page.keyboard.press("Escape")
    page.fill("#where", "cost < 3")
    page.keyboard.press("Enter")
    page.wait_for_selector("#where-error:not([hidden])")
    check("search")
    page.click("nav a[data-view=collection]")
    page.fill("#add-label", "new")
    page.keyboard.press("Enter")
    check("collection")
