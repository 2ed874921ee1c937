"""What tests do to clusters."""

import redis
from redis.cluster import ClusterNode, RedisCluster

SLOTS = 16384


def first_slot(number, masters=3):
    """Of a master, as `redis-cli --cluster create` gives them out."""
    return round(number * SLOTS / masters)


def nodes_info(server):
    info = server.client.execute_command("CLUSTER INFO")
    if isinstance(info, dict):
        return info
    return dict(line.split(":") for line in info.decode().split())


def node_id(server):
    found = server.client.execute_command("CLUSTER MYID")
    return found.decode() if isinstance(found, bytes) else found


def client_of(servers):
    nodes = [ClusterNode("127.0.0.1", server.port) for server in servers]
    return RedisCluster(startup_nodes=nodes, socket_timeout=10)


def move(slot, source, target, clients):
    """Moves one slot with its keys, as redis-cli does."""
    target.client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", node_id(source))
    source.client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", node_id(target))
    while keys := source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, 10):
        source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 10_000, "KEYS", *keys)
    for server in (target, source, *clients):
        server.client.execute_command("CLUSTER SETSLOT", slot, "NODE", node_id(target))


def owns(server, slot):
    try:
        server.client.execute_command("CLUSTER COUNTKEYSINSLOT", slot)
        ranges = server.client.execute_command("CLUSTER NODES")
    except redis.ConnectionError:
        return False
    text = ranges.decode() if isinstance(ranges, bytes) else str(ranges)
    if isinstance(ranges, dict):
        mine = [node for node in ranges.values() if "myself" in node["flags"]][0]["slots"]
        return any(int(part[0]) <= slot <= int(part[-1]) for part in mine)
    line = next(line for line in text.splitlines() if "myself" in line)
    parts = [part.split("-") for part in line.split()[8:] if not part.startswith("[")]
    return any(int(part[0]) <= slot <= int(part[-1]) for part in parts)
