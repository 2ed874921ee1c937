import pytest

from servers import PROGRAMS, Server


@pytest.fixture(scope="session", params=sorted(PROGRAMS), ids=str)
def program(request):
    """Every kind of server in turn."""
    return PROGRAMS[request.param]


@pytest.fixture(scope="session")
def shared_server(program, tmp_path_factory):
    server = Server(program, tmp_path_factory.mktemp("server"), module_options=("BF-COMMANDS", "yes"))
    yield server
    server.stop()


@pytest.fixture
def server(shared_server):
    """A server with no keys."""
    shared_server.client.flushall()
    return shared_server


@pytest.fixture
def db(server):
    return server.client


@pytest.fixture
def new_server(program, tmp_path):
    """Makes servers that end with the test."""
    servers = []

    def make(*options, name="server", **more):
        servers.append(Server(program, tmp_path / name, *options, **more))
        return servers[-1]

    yield make
    for each in servers:
        each.stop()
