# Run as: unshare -n bash capture.sh OUT   (needs root; touches no network but its own)
set -eu
out=$1
unshare -n sleep 600 & other=$!
trap 'kill $other' EXIT
sleep 0.3
there() { nsenter -t "$other" -n "$@"; }
ip link set lo up
ip link add left type veth peer name right
ip link set right netns "$other"
for side in "left 1" "right 2"; do
  set -- $side
  run=""; [ "$1" = right ] && run=there
  $run sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 || true
  $run ip link set "$1" up
  $run ip addr add 10.9.0.$2/24 dev "$1"
  $run ip -6 addr add fd09::$2/64 dev "$1" nodad
done
there ip link set lo up
sleep 1
tcpdump -i left -U -w "$out/veth.pcap" -s 128 2>/dev/null & dump=$!
sleep 1
there python3 - <<'PY' &
import socket, threading, time
def tcp(family, host, port):
    s = socket.socket(family); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((host, port)); s.listen()
    while True:
        c, _ = s.accept(); c.sendall(c.recv(100)); c.close()
def udp(family, host, port):
    s = socket.socket(family, socket.SOCK_DGRAM); s.bind((host, port))
    while True:
        data, who = s.recvfrom(4000); s.sendto(data, who)
for host in ["10.9.0.2"]:
    threading.Thread(target=tcp, args=(socket.AF_INET, host, 7000), daemon=True).start()
    threading.Thread(target=udp, args=(socket.AF_INET, host, 7001), daemon=True).start()
for host in ["fd09::2"]:
    threading.Thread(target=tcp, args=(socket.AF_INET6, host, 7000), daemon=True).start()
    threading.Thread(target=udp, args=(socket.AF_INET6, host, 7001), daemon=True).start()
time.sleep(8)
PY
sleep 1
python3 - <<'PY'
import socket
for host in ["10.9.0.2", "fd09::2"]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for _ in range(2):
        c = socket.create_connection((host, 7000), 3); c.sendall(b"twice"); c.recv(100); c.close()
    for size in [5, 5]:
        s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(3)
        s.sendto(b"x" * size, (host, 7001)); s.recv(4000)
# One datagram that is larger than the link: fragments both ways.
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
s.sendto(b"y" * 2000, ("10.9.0.2", 7001)); s.recv(4000)
PY
ping -q -c 3 -i 0.2 10.9.0.2 >/dev/null
ping -q -c 3 -i 0.2 fd09::2 >/dev/null
"$SCAPY" - <<'PY'
# This kernel has no VLAN devices: tagged frames come from scapy, through the same link.
from scapy.all import *
conf.verb = 0
tag = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / Dot1Q(vlan=7)
frames = [
    tag / IP(src="10.9.7.1", dst="10.9.7.2") / TCP(sport=5000, dport=7000, flags="S"),
    tag / IP(src="10.9.7.1", dst="10.9.7.2") / UDP(sport=5000, dport=7001) / b"twice",
    tag / IP(src="10.9.7.1", dst="10.9.7.2") / ICMP() / b"shy",
    tag / IPv6(src="fd09:7::1", dst="fd09:7::2") / TCP(sport=5000, dport=7000, flags="S"),
    tag / IPv6(src="fd09:7::1", dst="fd09:7::2") / UDP(sport=5000, dport=7001) / b"twice",
    Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01", type=0x88a8) / Dot1Q(vlan=9, type=0x8100)
        / Dot1Q(vlan=7) / IP(src="10.9.7.1", dst="10.9.7.2") / UDP(sport=5000, dport=7001) / b"twice",
]
sendp(frames * 2, iface="left")
PY
sleep 1
kill $dump
wait $dump || true
