"""What holds for all tests, and what tests of several rooms need."""

import socket

import pytest
from hypothesis import HealthCheck, settings
from raw_files import Bomb

from hgeo.graph import BACKENDS, backends

# Equal code gives equal verdicts, on a slow machine too: no deadline, and no complaint about slow examples.
settings.register_profile("hgeo", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hgeo")


@pytest.fixture
def no_network(monkeypatch):
    """As on a machine without one."""

    def refuse(*_, **__):
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "create_connection", refuse)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bomb(tmp_path):
    """A pickle that creates a file when it is opened as pickles usually are."""
    return Bomb(tmp_path / "went off")


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.scatter] * (name == "scatter")) for name in BACKENDS])
def backend(request) -> str:
    """Each backend of attention in turn; one that cannot run here is skipped and says why."""
    reason = backends()[request.param]
    if reason is not None:
        pytest.skip(f"backend {request.param}: {reason}")
    return request.param
