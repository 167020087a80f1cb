"""The browser of the tests of pages."""

import shutil

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def until(page, expression):
    """Wait until it is true; the page's policy forbids the driver's own way, an eval."""
    for _ in range(900):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(expression)


def open_page(chromium, address, width=1440, height=900, scheme="light"):
    """A page whose errors and requests are recorded in `problems` and `requests`."""
    size = {"width": width, "height": height}
    page = chromium.new_context(viewport=size, color_scheme=scheme).new_page()
    page.problems, page.requests = [], []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(address)
    return page
