"""What several packages' tests share: one headless GL context for the whole process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import moderngl
import pytest

from visualizer.render.context import create_context

# A busy machine is no failure of a property; each test has pytest's own time limit.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would every program
# they start: those are to be asked to stop like that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def gl() -> moderngl.Context:
    """Drivers run out of contexts (cases G27), and only one at a time is current."""
    return create_context()


@pytest.fixture(autouse=True, scope="session")
def nothing_of_the_user_s(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests neither look up the replies remembered on this machine nor add to them."""
    os.environ["VERIFYBOX_REPLIES"] = str(tmp_path_factory.mktemp("replies"))


@pytest.fixture(autouse=True)
def no_gl_error(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that uses GL begins and ends without a pending error."""
    if "gl" not in request.fixturenames:
        yield
        return
    context = request.getfixturevalue("gl")
    context.error  # noqa: B018  # reading clears what an earlier test left
    yield
    assert context.error == "GL_NO_ERROR"


@pytest.fixture(scope="session")
def target_folder() -> Path:
    """The real default target, fetched once into the cache if it is not there."""
    from engine.fetch import fetch

    return fetch()
