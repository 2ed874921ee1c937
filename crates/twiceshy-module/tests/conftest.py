import pytest

from clusters import first_slot, node_id, nodes_info
from servers import PROGRAMS, Server, free_ports, wait_until


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


@pytest.fixture
def cluster(new_server):
    """Three masters with a replica each."""
    servers = []
    for name, port in enumerate(free_ports(6)):
        # On a busy machine a master may look dead for a second. A replica that took over by itself would lack
        # what was acknowledged last.
        servers.append(new_server("--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
                                  "--cluster-replica-no-failover", "yes", "--appendonly", "yes",
                                  "--appendfsync", "always", "--repl-diskless-sync-delay", "0",
                                  "--cluster-config-file", "nodes.conf", name=str(name), port=port))
    masters, replicas = servers[:3], servers[3:]
    for number, master in enumerate(masters):
        first, last = first_slot(number), first_slot(number + 1) - 1
        master.client.execute_command("CLUSTER ADDSLOTSRANGE", first, last) if "6.2" not in master.program else \
            master.client.execute_command("CLUSTER ADDSLOTS", *range(first, last + 1))
        master.client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
    for server in servers[1:]:
        server.client.execute_command("CLUSTER MEET", "127.0.0.1", servers[0].port)
    def known(server):
        return int(nodes_info(server)["cluster_known_nodes"])
    wait_until(lambda: all(known(server) == 6 for server in servers), what="the meeting")
    for master, replica in zip(masters, replicas):
        replica.client.execute_command("CLUSTER REPLICATE", node_id(master))
    wait_until(lambda: all(nodes_info(server)["cluster_state"] == "ok" for server in servers), what="the cluster")
    wait_until(lambda: all(replica.client.info("replication").get("master_link_status") == "up" for replica in replicas),
               what="the replicas")
    return masters, replicas
