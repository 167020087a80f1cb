"""The browser of the tests of pages."""

import shutil

import pytest

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
NEEDS_BROWSER = [
    pytest.mark.extra,
    pytest.mark.skipif(BROWSER is None, reason="no browser: run scripts/install-browser"),
]
