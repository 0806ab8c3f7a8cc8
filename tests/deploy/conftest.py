"""The deployment of deploy/ for the tests of this folder, started when first asked for."""

from collections.abc import Iterator

import pytest

from tests.deploy.address import Address, Unusable, found
from tests.postgres import Postgres


@pytest.fixture(scope="session")
def nginx_program() -> str:
    """nginx, or a skip that says so."""
    try:
        return found()
    except Unusable as why:
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def address(
    nginx_program: str, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Address]:
    """Three stores, begun at once on an empty database, behind nginx."""
    folder = tmp_path_factory.mktemp("deployed")
    with Address(folder, postgres.new_database(empty=True)) as running:
        yield running
