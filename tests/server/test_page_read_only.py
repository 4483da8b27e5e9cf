"""The page of a service that changes nothing offers no changes, and of one in private asks for its token."""

from __future__ import annotations

import shutil

import pytest
import test_service_page as pages
from services import TOKEN, running

pytestmark = pages.pytestmark
browser = pages.browser


@pytest.fixture(scope="module")
def service(template, tmp_path_factory):
    copy = shutil.copytree(template, tmp_path_factory.mktemp("read-only") / "digits")
    with running(
        copy, "--read-only", "--allow-host", "localhost"
    ) as service:  # so that reading needs the token
        yield service


def test_it_reads_with_the_token_and_offers_no_change(browser, service):
    page = browser.new_page()
    page.goto(service.address)
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector("#results .item img")
    assert not page.is_visible("#token-button")
    page.click("#results .item .closer")
    page.wait_for_selector("#viewer[open] #viewer-search")
    assert not page.is_visible("#viewer-edit")
    page.keyboard.press("Escape")
    page.click("nav [data-view=collection]")
    page.wait_for_selector("#classes tr")
    for control in ("#add", "#classes .quiet-danger", "#browse .corner.remove"):
        assert not page.is_visible(control), control
    page.click("nav [data-view=learning]")
    page.wait_for_selector("#versions li")
    assert not page.is_visible("#update")
    assert not page.is_visible("#undo")
    page.close()
