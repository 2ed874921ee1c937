"""The flow of every IP packet in a capture, one a line, as scapy reads it; with a second
argument, the same packets as a pcapng file.

python flows.py veth.pcap veth.pcapng > veth.flows
"""
import sys
from scapy.all import IP, IPv6, TCP, UDP, PcapNgWriter, rdpcap
from scapy.layers.inet6 import IPv6ExtHdrFragment

packets = rdpcap(sys.argv[1])
for packet in packets:
    ports = "- -"
    if IP in packet:
        ip, protocol = packet[IP], packet[IP].proto
        whole = not ip.flags.MF and ip.frag == 0
    elif IPv6 in packet:
        ip = layer = packet[IPv6]
        whole = IPv6ExtHdrFragment not in packet
        # Past the extension headers.
        while "ExtHdr" in type(layer.payload).__name__:
            layer = layer.payload
        protocol = layer.nh
    else:
        continue
    for transport in (TCP, UDP):
        if whole and transport in ip:
            ports = f"{ip[transport].sport} {ip[transport].dport}"
    print(ip.src, ip.dst, protocol, ports)
if len(sys.argv) > 2:
    with PcapNgWriter(sys.argv[2]) as file:
        file.write(packets)
