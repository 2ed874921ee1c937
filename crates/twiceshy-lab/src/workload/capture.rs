//! Packet captures: pcap and pcapng files as streams of flows.

use std::net::IpAddr;
use std::path::Path;

use etherparse::{IpNumber, LaxNetSlice, LaxSlicedPacket};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

use super::input::Input;
use super::key_file::name;
use super::recording::Numbering;
use super::{Error, Recording};

/// Bytes that a reader holds at first.
const BUFFER: usize = 1 << 16;

/// The most that it may hold: no block of a sound capture is as large.
const LARGEST_BLOCK: usize = 1 << 26;

impl Recording {
    /// Reads the flows of a packet capture, pcap or pcapng, also one that is
    /// compressed (.gz, .zst). Packets other than IPv4 and IPv6 are left out.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged or ends too early, with the offset
    /// of the block; captures of links other than Ethernet and raw IP.
    pub fn of_capture(path: &Path) -> Result<Self, Error> {
        let mut input = Input::open(path)?;
        let mut flows = Flows::default();
        let outcome = read(&mut input, &mut flows);
        // The parser knows of a failed read only that it failed.
        if let Some(failure) = input.failure() {
            return Err(failure);
        }
        outcome.map_err(|stop| match stop {
            Stop::Damage { offset, reason } => input.damaged(offset, reason),
            Stop::Error(error) => error,
        })?;
        let Flows { numbering, stream, .. } = flows;
        Ok(Recording { name: name(path), distinct: numbering.len(), stream, stored: None })
    }
}

/// Why a capture is not read to its end.
enum Stop {
    Damage { offset: u64, reason: String },
    Error(Error),
}

/// Reads all blocks.
fn read(input: &mut Input, flows: &mut Flows) -> Result<(), Stop> {
    let damage = |offset: usize, reason: String| Stop::Damage { offset: offset as u64, reason };
    let reader = create_reader(BUFFER, input);
    let mut reader = reader.map_err(|error| damage(0, explain(&error)))?;
    let mut capacity = BUFFER;
    loop {
        let offset = reader.consumed();
        let reason = match reader.next() {
            Ok((length, block)) => {
                flows.take(block).map_err(|stop| match stop {
                    Stop::Damage { reason, .. } => damage(offset, reason),
                    error => error,
                })?;
                reader.consume(length);
                continue;
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_) | PcapError::BufferTooSmall) => None,
            Err(error) => Some(explain(&error)),
        };
        if let Some(reason) = reason {
            return Err(damage(offset, reason));
        }
        let held = reader.data().len();
        reader.refill().map_err(|error| damage(offset, explain(&error)))?;
        if reader.data().len() == held && !reader.reader_exhausted() {
            // The buffer is full, and the block goes on.
            capacity *= 2;
            if capacity > LARGEST_BLOCK || !reader.grow(capacity) {
                let reason = format!("a block of more than {} bytes", capacity / 2);
                return Err(damage(offset, reason));
            }
        }
    }
}

/// An error of the parser in words; its own would print the input.
fn explain<I>(error: &PcapError<I>) -> String {
    match error {
        PcapError::HeaderNotRecognized => "it is neither a pcap nor a pcapng file".into(),
        PcapError::Eof => "it is empty".into(),
        PcapError::Incomplete(_) | PcapError::UnexpectedEof => {
            "it ends in the middle of this block; capture or copy it again".into()
        }
        PcapError::NomError(_, kind) | PcapError::OwnedNomError(_, kind) => {
            format!("a block that makes no sense ({})", kind.description())
        }
        PcapError::BufferTooSmall | PcapError::ReadError => "it cannot be read".into(),
    }
}

/// The flows of the packets so far.
#[derive(Default)]
struct Flows {
    /// The link of each interface of the section; a pcap file has one.
    links: Vec<Linktype>,
    numbering: Numbering<Flow>,
    stream: Vec<u32>,
}

impl Flows {
    fn take(&mut self, block: PcapBlockOwned<'_>) -> Result<(), Stop> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                // The upper half has other uses.
                self.links = vec![Linktype(header.network.0 & 0xffff)];
                Ok(())
            }
            PcapBlockOwned::Legacy(packet) => self.packet(0, packet.data),
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.links.clear();
                Ok(())
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.links.push(interface.linktype);
                Ok(())
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                self.packet(packet.if_id, packet.packet_data())
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => self.packet(0, packet.packet_data()),
            // Names, statistics, comments.
            PcapBlockOwned::NG(_) => Ok(()),
        }
    }

    fn packet(&mut self, interface: u32, data: &[u8]) -> Result<(), Stop> {
        let damage = |reason| Err(Stop::Damage { offset: 0, reason });
        let Some(&link) = usize::try_from(interface).ok().and_then(|at| self.links.get(at)) else {
            return damage(format!("a packet of interface {interface}, which is not described"));
        };
        let packet = match link {
            Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
            Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | Linktype(12 | 14) => {
                LaxSlicedPacket::from_ip(data).ok()
            }
            Linktype(other) => {
                return damage(format!(
                    "packets of link type {other}; Ethernet (1) and raw IP (101) can be read"
                ));
            }
        };
        if let Some(flow) = packet.as_ref().and_then(Flow::of) {
            self.stream.push(self.numbering.number(&flow).map_err(Stop::Error)?);
        }
        Ok(())
    }
}

/// The directed 5-tuple of a packet. Ports are 0 where the protocol has none,
/// in fragments, and in packets that were cut before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flow {
    source: IpAddr,
    destination: IpAddr,
    /// Source and destination, as in the packet.
    ports: [u8; 4],
    protocol: IpNumber,
}

impl Flow {
    fn of(packet: &LaxSlicedPacket<'_>) -> Option<Self> {
        let (source, destination) = match packet.net.as_ref()? {
            LaxNetSlice::Ipv4(ip) => {
                let header = ip.header();
                (header.source_addr().into(), header.destination_addr().into())
            }
            LaxNetSlice::Ipv6(ip) => {
                let header = ip.header();
                (header.source_addr().into(), header.destination_addr().into())
            }
            LaxNetSlice::Arp(_) => return None,
        };
        let payload = packet.net.as_ref()?.ip_payload_ref()?;
        let protocol = payload.ip_number;
        let has_ports = matches!(protocol, IpNumber::TCP | IpNumber::UDP) && !payload.fragmented;
        // Both headers begin with the ports, which even a cut packet may still have.
        let ports = payload.payload.first_chunk().filter(|_| has_ports).copied();
        Some(Flow { source, destination, ports: ports.unwrap_or_default(), protocol })
    }
}
