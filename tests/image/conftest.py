"""The image, built where the cache has none for these files; skipped where this machine cannot."""

from __future__ import annotations

import pytest

from tools.image import debian
from tools.image.build import Image
from tools.image.build import image as build


@pytest.fixture(scope="session")
def image(pytestconfig: pytest.Config) -> Image:
    """The image that users build from this checkout."""
    if reason := debian.missing():
        pytest.skip(f"no image is built here: {reason}")
    capture = pytestconfig.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    # Minutes of building must not look like a test that hangs.
    with capture.global_and_fixture_disabled():
        return build()
