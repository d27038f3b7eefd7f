"""What all tests of the data room share."""

import os

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_fsync():
    """Hundreds of files are written, and nobody pulls the plug; tests of fsync set their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield
