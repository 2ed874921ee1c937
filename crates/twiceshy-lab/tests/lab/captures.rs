//! Packet captures: written here byte by byte, and a real one (`captures/README.md`).

use std::fs;
use std::path::PathBuf;

use twiceshy_lab::workload::{Error, Recording, Size, Source};

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 6];
    frame.extend([4; 6]);
    frame.extend(ether_type.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A VLAN tag in front of what has its own type.
fn vlan(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut tagged = 7_u16.to_be_bytes().to_vec();
    tagged.extend(ether_type.to_be_bytes());
    tagged.extend(payload);
    ethernet(0x8100, &tagged)
}

/// `fragment`: the flags and offset of its header.
fn ipv4(source: u8, destination: u8, protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let length = 20 + payload.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, source, 10, 0, 0, destination]);
    packet.extend(payload);
    packet
}

fn ipv6(source: u8, destination: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([protocol, 64]);
    for host in [source, destination] {
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    packet.extend(payload);
    packet
}

fn tcp(source: u16, destination: u16) -> Vec<u8> {
    let mut header = source.to_be_bytes().to_vec();
    header.extend(destination.to_be_bytes());
    header.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    header
}

fn udp(source: u16, destination: u16) -> Vec<u8> {
    let mut header = source.to_be_bytes().to_vec();
    header.extend(destination.to_be_bytes());
    header.extend([0, 8, 0, 0]);
    header
}

const ICMP_ECHO: [u8; 8] = [8, 0, 0, 0, 0, 1, 0, 1];

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Ethernet frames, and the number of the flow that each belongs to; `None` for
/// what is no IP packet.
fn frames() -> Vec<(Vec<u8>, Option<u32>)> {
    const IPV4: u16 = 0x0800;
    const IPV6: u16 = 0x86dd;
    const ARP: u16 = 0x0806;
    let arp =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 2, 2, 2, 2, 2, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    let web = ipv4(1, 2, TCP, 0, &tcp(4000, 80));
    vec![
        (ethernet(IPV4, &web), Some(0)),
        (ethernet(ARP, &arp), None),
        // Another port, another protocol, another direction, another version.
        (ethernet(IPV4, &ipv4(1, 2, TCP, 0, &tcp(4001, 80))), Some(1)),
        (ethernet(IPV4, &ipv4(1, 2, UDP, 0, &udp(4000, 80))), Some(2)),
        (ethernet(IPV4, &ipv4(2, 1, TCP, 0, &tcp(80, 4000))), Some(3)),
        (ethernet(IPV6, &ipv6(1, 2, TCP, &tcp(4000, 80))), Some(4)),
        // A VLAN does not make another flow.
        (vlan(IPV4, &web), Some(0)),
        (vlan(IPV6, &ipv6(1, 2, TCP, &tcp(4000, 80))), Some(4)),
        // ICMP has no ports: what is there in its header does not count.
        (ethernet(IPV4, &ipv4(1, 2, ICMP, 0, &ICMP_ECHO)), Some(5)),
        (ethernet(IPV4, &ipv4(1, 2, ICMP, 0, &[0; 8])), Some(5)),
        (ethernet(IPV6, &ipv6(1, 2, ICMPV6, &[128, 0, 0, 0, 0, 1, 0, 1])), Some(6)),
        // Fragments, the first and a later one: no ports in either.
        (ethernet(IPV4, &ipv4(1, 2, UDP, 0x2000, &udp(4000, 80))), Some(7)),
        (ethernet(IPV4, &ipv4(1, 2, UDP, 0x0010, &[9; 8])), Some(7)),
        (ethernet(IPV4, &web), Some(0)),
    ]
}

fn expected() -> Vec<u32> {
    frames().into_iter().filter_map(|(_, flow)| flow).collect()
}

/// Numbers in the byte order of the file.
type Order = (fn(u16) -> [u8; 2], fn(u32) -> [u8; 4]);
const LITTLE: Order = (u16::to_le_bytes, u32::to_le_bytes);
const BIG: Order = (u16::to_be_bytes, u32::to_be_bytes);

fn pcap((two, four): Order, link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = four(0xa1b2_c3d4).to_vec();
    file.extend([two(2), two(4)].as_flattened());
    file.extend([four(0), four(0), four(65_535), four(link)].as_flattened());
    for packet in packets {
        let length = four(packet.len() as u32);
        file.extend([four(1), four(2), length, length].as_flattened());
        file.extend(packet);
    }
    file
}

fn block((_, four): Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let length = four(12 + body.len() as u32);
    [&four(kind), &length, body, &length].concat()
}

fn padded(packet: &[u8]) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    bytes.resize(packet.len().next_multiple_of(4), 0);
    bytes
}

fn section_and_interface(order: Order, link: u16) -> Vec<u8> {
    let (two, four) = order;
    let mut section = four(0x1a2b_3c4d).to_vec();
    section.extend([two(1), two(0)].as_flattened());
    section.extend([0xff; 8]);
    let mut file = block(order, 0x0a0d_0d0a, &section);
    let mut interface = [two(link), two(0)].as_flattened().to_vec();
    interface.extend(four(65_535));
    file.extend(block(order, 1, &interface));
    file
}

/// Enhanced packet blocks, but for the last packet a simple one.
fn pcapng(order: Order, packets: &[Vec<u8>]) -> Vec<u8> {
    let (_, four) = order;
    let mut file = section_and_interface(order, 1);
    let (last, others) = packets.split_last().expect("packets");
    for packet in others {
        let length = four(packet.len() as u32);
        let mut body = [four(0), four(0), four(0), length, length].as_flattened().to_vec();
        body.extend(padded(packet));
        file.extend(block(order, 6, &body));
    }
    let mut body = four(last.len() as u32).to_vec();
    body.extend(padded(last));
    file.extend(block(order, 3, &body));
    file
}

fn packets() -> Vec<Vec<u8>> {
    frames().into_iter().map(|(frame, _)| frame).collect()
}

/// Reads bytes as a file.
fn read(name: &str, bytes: &[u8]) -> Result<Recording, Error> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).expect("a file for the test");
    let recording = Recording::of_capture(&path);
    fs::remove_file(&path).expect("it was written");
    recording
}

#[test]
fn packets_become_flows_in_every_format() {
    for (name, file) in [
        ("flows-le.pcap", pcap(LITTLE, 1, &packets())),
        ("flows-be.pcap", pcap(BIG, 1, &packets())),
        ("flows-le.pcapng", pcapng(LITTLE, &packets())),
        ("flows-be.pcapng", pcapng(BIG, &packets())),
    ] {
        let recording = read(name, &file).expect(name);
        assert_eq!(recording.stream, expected(), "{name}");
        assert_eq!(recording.distinct, 8, "{name}");
        assert_eq!(recording.name, name);
    }
}

#[test]
fn packets_without_a_link_are_read() {
    let packets: Vec<Vec<u8>> = frames()
        .into_iter()
        .filter(|(frame, flow)| flow.is_some() && frame[12] != 0x81)
        .map(|(frame, _)| frame[14..].to_vec())
        .collect();
    for link in [101, 12] {
        let recording = read(&format!("raw-{link}.pcap"), &pcap(LITTLE, link, &packets)).unwrap();
        assert_eq!(recording.stream, [0, 1, 2, 3, 4, 5, 5, 6, 7, 7, 0]);
    }
}

/// A capture may keep only the first bytes of each packet. Ports are known as
/// long as they are among them.
#[test]
fn cut_packets_keep_what_they_have() {
    let web = ethernet(0x0800, &ipv4(1, 2, TCP, 0, &tcp(4000, 80)));
    let mail = ethernet(0x0800, &ipv4(1, 2, TCP, 0, &tcp(4000, 25)));
    let cut = |length: usize| {
        let packets = [&web, &mail, &web].map(|packet| packet[..length].to_vec());
        read(&format!("cut-{length}.pcap"), &pcap(LITTLE, 1, &packets)).unwrap().stream
    };
    assert_eq!(cut(14 + 20 + 4), [0, 1, 0]);
    assert_eq!(cut(14 + 20), [0, 0, 0], "without ports");
    assert_eq!(cut(14 + 19), [], "without addresses");
    assert_eq!(cut(3), []);
}

/// Wherever a file ends: an error that says where, or the packets until there.
#[test]
fn a_file_that_ends_early_gives_an_error_or_the_packets_until_there() {
    for (name, file) in
        [("early.pcap", pcap(LITTLE, 1, &packets())), ("early.pcapng", pcapng(LITTLE, &packets()))]
    {
        let mut clean = 0;
        let mut last_offset = 0;
        for length in 0..file.len() {
            match read(name, &file[..length]) {
                Ok(recording) => {
                    clean += 1;
                    assert!(expected().starts_with(&recording.stream), "{name} {length}");
                }
                Err(Error::Damaged { offset, .. }) => {
                    assert!(offset <= length as u64, "{name} {length}: {offset}");
                    assert!(offset >= last_offset, "{name} {length}: {offset}");
                    last_offset = offset;
                }
                Err(error) => panic!("{name} {length}: {error}"),
            }
        }
        // Between two blocks nothing is missing: after the header of the file or
        // of the section, the interface, and all packets but the last.
        let headers = if name == "early.pcap" { 1 } else { 2 };
        assert_eq!(clean, headers + packets().len() - 1, "{name}");
    }
}

#[test]
fn damage_is_named_with_its_offset() {
    let sound = pcap(LITTLE, 1, &packets()[..2]);
    let first = 24 + 16 + packets()[0].len();
    let error = read("damage-end.pcap", &sound[..first + 20]).unwrap_err().to_string();
    let place = format!("damage-end.pcap is damaged at byte {first}: it ends in the middle");
    assert!(error.contains(&place), "{error}");

    let error =
        read("damage-none.pcap", b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n").unwrap_err();
    assert!(error.to_string().contains("neither a pcap nor a pcapng"), "{error}");

    let error = read("damage-empty.pcap", b"").unwrap_err();
    assert!(error.to_string().contains("damaged at byte 0: it is empty"), "{error}");

    let error = read("damage-link.pcap", &pcap(LITTLE, 127, &packets())).unwrap_err().to_string();
    assert!(error.contains("at byte 24: packets of link type 127"), "{error}");

    // A packet of an interface that was not described.
    let mut file = section_and_interface(LITTLE, 1);
    let offset = file.len();
    let body: Vec<u8> = [3_u32, 0, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    file.extend(block(LITTLE, 6, &body));
    let error = read("damage-interface.pcapng", &file).unwrap_err().to_string();
    assert!(error.contains(&format!("at byte {offset}: a packet of interface 3")), "{error}");

    // A block that claims four gigabytes does not take them.
    let mut file = section_and_interface(LITTLE, 1);
    file.extend([6, 0, 0, 0, 0xf0, 0xff, 0xff, 0xff]);
    file.resize(file.len() + 100_000, 0);
    let error = read("damage-huge.pcapng", &file).unwrap_err().to_string();
    assert!(error.contains(&format!("damaged at byte {offset}")), "{error}");

    let error = Recording::of_capture("/no/such/file.pcap".as_ref()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

/// A packet that is larger than the reader's first buffer.
#[test]
fn large_packets_are_read() {
    let mut large = ethernet(0x0800, &ipv4(1, 2, TCP, 0, &tcp(4000, 80)));
    large.resize(200_000, 0);
    let packets = [packets()[0].clone(), large, packets()[2].clone()];
    let recording = read("large.pcap", &pcap(LITTLE, 1, &packets)).unwrap();
    assert_eq!(recording.stream, [0, 0, 1]);
}

/// Every byte of a small capture, set to a few values: any outcome but a panic.
#[test]
fn a_changed_byte_never_panics() {
    for (name, sound) in [
        ("changed.pcap", pcap(LITTLE, 1, &packets()[..3])),
        ("changed.pcapng", pcapng(LITTLE, &packets()[..3])),
    ] {
        let mut refused = 0;
        for at in 0..sound.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut file = sound.clone();
                file[at] = value;
                refused += u32::from(read(name, &file).is_err());
            }
        }
        assert!(refused > 0, "a wrong magic at least is refused");
    }
}

/// A capture is a source: the first distinct flows are stored, the packets of
/// the others are asked for.
#[test]
fn a_capture_is_a_workload() {
    let recording = read("source.pcap", &pcap(LITTLE, 1, &packets())).unwrap();
    let source = Source::Recording(recording.into());
    let workload = source.workload(&Size { ratio: 1.0, ..Size::default() }, 1).unwrap();
    assert_eq!(workload.name, "source.pcap");
    // Flows 0 to 3 of 8, and the packets of flows 4 to 7.
    assert_eq!(workload.stored.len(), 4);
    assert_eq!(workload.ranks().collect::<Vec<_>>(), [0, 0, 1, 1, 2, 3, 3]);
}

/// A real capture, in both formats, against what scapy and tcpdump read in it. Flows are
/// numbered by their first packet.
#[test]
fn a_real_capture_has_the_flows_that_others_see_in_it() {
    let captures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let flows = fs::read_to_string(captures.join("veth.flows")).expect("scapy's list");
    let mut known = Vec::new();
    let mut expected = Vec::new();
    for flow in flows.lines() {
        let number = known.iter().position(|&seen| seen == flow).unwrap_or_else(|| {
            known.push(flow);
            known.len() - 1
        });
        expected.push(u32::try_from(number).expect("a few flows"));
    }
    // As `sort -u | wc -l` and tcpdump count them.
    assert_eq!((known.len(), expected.len()), (36, 92));
    for name in ["veth.pcap", "veth.pcapng"] {
        let recording = Recording::of_capture(&captures.join(name)).expect(name);
        assert_eq!(recording.stream, expected, "{name}");
        assert_eq!(recording.distinct, 36, "{name}");
    }
}
