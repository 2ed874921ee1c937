"""`twiceshy scale` simulates a cluster; a real one that gets the same requests does the same."""

import collections
import json
import os
import subprocess

import pytest
import redis.crc

from clusters import SLOTS, first_slot, move
from test_commands import REMOTES, info

# Per kind of remote. Without one, the attacker collects enough for some sets of exceptions to be full.
FLAGS = {
    "none": ["--rate", "0.03", "--attack", "400"],
    "memory": ["--remote", "memory", "--attack", "20"],
}
KEYS, FIRST_PASS, ROUNDS = 50_000, 100_000, 10
SIZES = ["--nodes", 3, "--partitions", 48, "--keys", KEYS, "--first-pass", FIRST_PASS, "--queries", 10_000,
         "--rounds", ROUNDS]
# Without delays a report comes before the next request, as it does below.
AT_ONCE = ["--times", "exists=0s,add=0s,adapt=0s,round-trip=0s,store-read=0s,migrate=0s,slot-move=0s"]
# After the traffic, before the attack.
EVENTS = ["--events", "1000s:reshard:2"]


def simulated(remote, path):
    """The rows of a run, and its requests: phase, command, filter, key, and "stored" or "absent"."""
    program = os.environ["TWICESHY_CLI"]
    run = subprocess.run([program, "scale", *map(str, SIZES), *FLAGS[remote], *AT_ONCE, *EVENTS, "--json", "--commands", path],
                         capture_output=True, text=True, check=True)
    rows, requests = collections.defaultdict(list), collections.defaultdict(list)
    for line in run.stdout.splitlines():
        row = json.loads(line)
        rows[row["row"]].append(row)
    for line in path.read_text().splitlines():
        phase, *request = line.split("\t")
        requests[phase].append(request)
    return rows, requests


class Real:
    """Three masters, and what clients of them count."""

    def __init__(self, masters):
        self.masters = masters
        self.owners = [number for number in range(3) for _ in range(first_slot(number), first_slot(number + 1))]
        self.counts = collections.Counter()
        self.fixed = set()

    def slot(self, key):
        return redis.crc.key_slot(key.encode())

    def owner(self, key):
        return self.owners[self.slot(key)]

    def do(self, command, key, *arguments):
        # A master that does not have the slot answers with an error.
        return self.masters[self.owner(key)].client.execute_command(command, key, *arguments)

    def do_many(self, command, requests):
        """One command for up to 1,000 requests to a filter; the sum of the answers."""
        items, answers = collections.defaultdict(list), 0
        for _, key, item, _ in requests:
            items[key].append(item)
        for key, all_items in items.items():
            for at in range(0, len(all_items), 1000):
                answers += sum(self.do(command, key, *all_items[at:at + 1000]))
        return answers

    def play(self, command, key, item, truth):
        """A client: asks, reads the store, and reports; whether the read was wasted."""
        if command == "add":
            self.counts["inserts"] += 1
            self.counts["new"] += self.do("AF.ADD", key, item)
            return False
        maybe = self.do("AF.EXISTS", key, item)
        self.counts["lookups"] += 1
        self.counts[{(1, "stored"): "hits", (0, "absent"): "avoided", (1, "absent"): "wasted",
                     (0, "stored"): "false_negatives"}[maybe, truth]] += 1
        if not maybe or truth == "stored":
            return False
        self.counts["repeated"] += item in self.fixed
        if self.do("AF.ADAPT", key, item) == [b"fixed"]:
            self.counts["adaptations"] += 1
            self.fixed.add(item)
        return True

    def take_counts(self):
        counts, self.counts = self.counts, collections.Counter()
        return counts

    def reshard_to_two(self, keys):
        """The third master's slots go to the first until that has half of all, then to the second.
        Moves those that have filters; returns how many have moved, and the bytes of their files."""
        room = [SLOTS // 2 - self.owners.count(number) for number in (0, 1)]
        by_slot = {self.slot(key): key for key in keys}
        moved = size = 0
        for slot in range(first_slot(2), SLOTS):
            target = 0 if slot < first_slot(2) + room[0] else 1
            if slot in by_slot:
                moved, size = moved + 1, size + len(self.do("AF.SCANDUMP", by_slot[slot], 0)[1])
                others = [self.masters[1 - target]]
                move(slot, self.masters[2], self.masters[target], others)
            self.owners[slot] = target
        return moved, size

    def requests(self):
        """Those that each master has answered since its counters were reset."""
        for master in self.masters:
            stats = {name.lower(): of["calls"] for name, of in master.client.info("commandstats").items()}
            yield sum(stats.get(f"cmdstat_af.{name}", 0) for name in ("exists", "add", "adapt"))


def assert_same_counts(simulated, real):
    names = ["lookups", "hits", "avoided", "wasted", "repeated", "inserts", "adaptations", "false_negatives"]
    assert {name: simulated[name] for name in names} == {name: real[name] for name in names}


@pytest.mark.parametrize("remote", REMOTES)
def test_a_real_cluster_does_what_the_simulator_says(cluster, tmp_path, remote):
    rows, requests = simulated(remote, tmp_path / "requests")
    [run], phases = rows["run"], {row["phase"]: row for row in rows["phase"]}
    masters, replicas = cluster
    for server in masters + replicas:
        # Nothing dies here, so a machine that is busy must not look like it; no disk has to be waited for.
        server.client.config_set("cluster-node-timeout", 60_000)
        server.client.config_set("appendonly", "no")
    real = Real(masters)

    reserved = [request for request in requests["load"] if request[0] == "reserve"]
    loaded = [request for request in requests["load"] if request[0] == "add"]
    keys = [key for _, key, _, _ in reserved]
    # The same secrets, so that all that follows is the same, and not only as likely.
    for _, key, arguments, _ in reserved:
        real.do("AF.RESERVE", key, *arguments.split())
    new = real.do_many("AF.MADD", loaded)
    positives = real.do_many("AF.MEXISTS", requests["first pass"])
    assert (len(loaded), len(requests["first pass"])) == (KEYS, FIRST_PASS)
    assert positives == round(run["first_pass_per_million"] * FIRST_PASS / 1e6) > 50

    for master in masters:
        master.client.config_resetstat()
    for request in requests["traffic"]:
        real.play(*request)
    assert real.counts["wasted"] > 0 and real.counts["inserts"] > 300
    new += real.counts["new"]
    assert_same_counts(phases["traffic"], real.take_counts())

    [event] = rows["event"]
    moved, size = real.reshard_to_two(keys)
    assert moved == event["partitions"] > 3
    # The simulator leaves out what holds a filter and its digests together: as much for each.
    assert size - event["bytes"] in (moved * header for header in range(200))

    # The attacker collects false positives, and repeats them in turn.
    wanted, found, asked = phases["replay"]["lookups"] // ROUNDS, [], iter(requests["collect"])
    while len(found) < wanted:
        request = next(asked)
        if real.play(*request):
            found.append(request)
    assert next(asked, None) is None, "it asks as often as in the simulation"
    assert_same_counts(phases["collect"], real.take_counts())
    assert found * ROUNDS == requests["replay"]
    for request in found * ROUNDS:
        real.play(*request)
    assert real.counts["wasted"] == run["attack_wasted"]
    assert (real.counts["wasted"] > 0) == (remote == "none"), "full sets forget"
    assert_same_counts(phases["replay"], real.take_counts())

    # What each node has, and its share of the requests.
    mine = [[key for key in keys if real.owner(key) == number] for number in range(3)]
    sent = [sum(request[0] == "add" and real.owner(request[1]) == number
                for phase in ("load", "traffic") for request in requests[phase]) for number in range(3)]
    assert [(row["partitions"], row["keys"]) for row in rows["node"]] == [(len(a), b) for a, b in zip(mine, sent)]
    assert [master.client.dbsize() for master in masters] == [row["partitions"] for row in rows["node"]]
    assert sum(real.do("AF.CARD", key) for key in keys) == new
    assert [row["requests"] for row in rows["node"]] == list(real.requests())
    # The simulator leaves out some words of each filter, always as many.
    more = {(sum(info_of(real, key)["Bytes"] for key in mine[number]) - rows["node"][number]["bytes"]) / len(mine[number])
            for number in (0, 1)}
    assert len(more) == 1 and 0 <= min(more) <= 1000, more


def info_of(real, key):
    return info(real.masters[real.owner(key)].client, key)
