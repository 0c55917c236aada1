"""The loopback listeners."""

import socket
from collections.abc import Iterator

import pytest

from tests.egress.children import Listener, listen


@pytest.fixture
def tcp() -> Iterator[Listener]:
    yield from listen(socket.AF_INET, socket.SOCK_STREAM)


@pytest.fixture
def tcp6() -> Iterator[Listener]:
    yield from listen(socket.AF_INET6, socket.SOCK_STREAM)


@pytest.fixture
def udp() -> Iterator[Listener]:
    yield from listen(socket.AF_INET, socket.SOCK_DGRAM)


@pytest.fixture
def udp6() -> Iterator[Listener]:
    yield from listen(socket.AF_INET6, socket.SOCK_DGRAM)
