//! Hash slots of a Redis or Valkey cluster, and which node has which.

/// Slots of a cluster.
pub const SLOTS: u16 = 16384;

/// The slot of a key: CRC16 of what is between the first `{` and the next `}`, or of the whole key
/// if there is nothing between them.
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let behind = &key[open + 1..];
        behind.iter().position(|&byte| byte == b'}').map(|close| &behind[..close])
    });
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

/// CRC16 as clusters have it (XMODEM: polynomial 0x1021, start 0), bit by bit: there are few keys.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

/// The node of each slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotMap {
    owners: Vec<usize>,
}

impl SlotMap {
    /// Ranges of equal length, as `redis-cli --cluster create` makes them.
    pub(super) fn even(nodes: usize) -> Self {
        let owners = quotas(nodes)
            .into_iter()
            .enumerate()
            .flat_map(|(node, quota)| std::iter::repeat_n(node, quota));
        SlotMap { owners: owners.collect() }
    }

    pub(super) fn owner(&self, slot: u16) -> usize {
        self.owners[usize::from(slot)]
    }

    pub(super) fn assign(&mut self, slot: u16, node: usize) {
        self.owners[usize::from(slot)] = node;
    }

    /// The fewest moves (slot, new node) after which nodes `0..nodes` have equally many slots.
    pub(super) fn moves(&self, nodes: usize) -> Vec<(u16, usize)> {
        let mut room = quotas(nodes);
        let mut homeless = Vec::new();
        for (slot, &owner) in (0..SLOTS).zip(&self.owners) {
            match room.get_mut(owner).filter(|room| **room > 0) {
                Some(room) => *room -= 1,
                None => homeless.push(slot),
            }
        }
        let free =
            room.iter().enumerate().flat_map(|(node, &room)| std::iter::repeat_n(node, room));
        homeless.into_iter().zip(free).collect()
    }
}

/// How many slots each of so many nodes gets: the borders are multiples of `SLOTS / nodes`, rounded.
fn quotas(nodes: usize) -> Vec<usize> {
    let border = |node: usize| (usize::from(SLOTS) * node * 2 + nodes) / (2 * nodes);
    (0..nodes).map(|node| border(node + 1) - border(node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first is the check value of this CRC; the others are in the specification of Redis
    /// Cluster, which says what a hash tag is.
    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(slot(b"123456789"), 12739);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        for (key, hashed) in [
            (&b"foo{}{bar}"[..], &b"foo{}{bar}"[..]),
            (b"foo{{bar}}zap", b"{bar"),
            (b"foo{bar}{zap}", b"bar"),
            (b"foo{bar", b"foo{bar"),
        ] {
            assert_eq!(slot(key), crc16(hashed) % SLOTS, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn three_nodes_have_the_usual_ranges() {
        let map = SlotMap::even(3);
        let last = |node| (0..SLOTS).filter(|&slot| map.owner(slot) == node).max();
        assert_eq!([last(0), last(1), last(2)], [Some(5460), Some(10922), Some(16383)]);
    }

    #[test]
    fn resharding_moves_no_more_than_it_must() {
        for (before, after) in [(3, 4), (3, 3), (4, 3), (1, 100), (100, 7)] {
            let mut map = SlotMap::even(before);
            let moves = map.moves(after);
            for &(slot, node) in &moves {
                assert_ne!(map.owner(slot), node, "slot {slot} moves to where it is");
                map.assign(slot, node);
            }
            let have = |node| (0..SLOTS).filter(|&slot| map.owner(slot) == node).count();
            assert_eq!((0..after).map(have).collect::<Vec<_>>(), quotas(after));
            // What the new nodes get, or the old ones had.
            let (more, fewer) = (quotas(before.max(after)), before.min(after));
            let least: usize = more[fewer..].iter().sum();
            // Quotas differ by rounding, which may cost a slot per node.
            assert!(moves.len() >= least && moves.len() <= least + fewer, "{before} to {after}");
        }
    }
}
