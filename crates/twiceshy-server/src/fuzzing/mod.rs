//! What the fuzzers of `fuzz/` run, for a moment and from a seed.

mod http;
mod resp;
mod source;

/// Runs a target on inputs of all lengths up to 400 bytes; with a panic comes the input.
fn drive(seed: u64, inputs: usize, target: fn(&[u8])) {
    let mut state = seed;
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    for number in 0..inputs {
        let length = (next() % 400) as usize;
        let input: Vec<u8> = (0..length).map(|_| next() as u8).collect();
        if std::panic::catch_unwind(|| target(&input)).is_err() {
            panic!("input {number} of seed {seed}: {}", input.escape_ascii());
        }
    }
}

#[test]
fn resp() {
    drive(1, 20_000, resp::run);
}

#[test]
fn http() {
    drive(2, 20_000, http::run);
}
