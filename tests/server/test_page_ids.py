"""The page over a database whose ids are paths, with characters that are hard on addresses."""

from __future__ import annotations

import pytest
import test_service_page as pages
from services import running

from sihash.database import Database

pytestmark = pages.pytestmark
browser = pages.browser


@pytest.fixture(scope="module")
def service(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("paths")
    for number, (data, label) in enumerate(digits[:60]):
        place = folder / "images" / f"class {int(label) % 2}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number} 50% #é?.png").write_bytes(data)
    Database.create(folder / "db", folder / "images", n_bits=16, n_anchors=20).close()
    with running(folder / "db") as service:
        yield service


def test_an_item_is_searched_from_and_kept_in_the_address(browser, service):
    for page in pages._page(browser, service):
        own = page.get_attribute("#results .item", "data-id")
        assert own.startswith("class 0/")
        page.click("#results .item .open")
        page.wait_for_selector("#results .item .distance")
        found = page.eval_on_selector_all("#results .item", "items => items.map(item => item.dataset.id)")
        assert found
        assert own not in found
        page.reload()
        page.wait_for_selector("#results .item .distance")
        pages.wait_for_text(page, "#query-words", own)
        again = page.eval_on_selector_all("#results .item", "items => items.map(item => item.dataset.id)")
        assert again == found
