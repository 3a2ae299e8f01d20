"""A browser without a network, for pages that scripts change."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
)


@pytest.fixture(scope="module")
def browser():
    # Only here: other tests of this folder do without it.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Opens a file without a network; at the end nothing may have been asked for or gone wrong."""
    contexts, faults = [], []

    def opened(path, *, width=1400, height=900, scheme="light", before=""):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(before)
        page.set_default_timeout(10_000)
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requested.append(request.url))
        requested = []
        page.goto(path.as_uri())
        outside = [url for url in requested if not url.startswith(("file:", "data:", "blob:"))]
        assert outside == []
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []
