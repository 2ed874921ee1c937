//! Digests are the same everywhere and for ever: saved filters depend on it.

use crate::harness::Random;
use twiceshy_filters::{Digest, KeyHasher};

/// Keys and their hashes, computed by other programs: a SipHash-1-3 with 128
/// bits written from its description (it gives the published vectors of
/// SipHash-2-4), and the xxhash package of Python, seed 7.
const GOLDEN: [(&str, [u64; 2], [u64; 2]); 4] = [
    (
        "",
        [0xbea5_8827_b2bc_7ee7, 0x0130_30dd_6adb_62fd],
        [0x76a3_0bdf_56cd_fa2c, 0xcb4a_a04f_e72c_771f],
    ),
    (
        "a",
        [0xa84f_7c63_de37_3c08, 0x678a_ae37_5dd7_2f49],
        [0xceb2_adbc_ec78_c249, 0x9ed5_888b_c5a2_a094],
    ),
    (
        "twiceshy",
        [0xfd5c_93e8_96a8_7552, 0x5bc6_c288_19e3_bae9],
        [0xa5a3_e58e_672b_048e, 0x247b_a407_b0db_5f59],
    ),
    (
        "once bitten, twice shy",
        [0x3923_5f64_1d85_f421, 0x2afa_4fff_38b5_05b9],
        [0x9fff_baf4_fb84_6c7b, 0x8b87_fd92_c7fe_b6c8],
    ),
];

#[test]
fn both_hashers_give_the_golden_digests() {
    let secret = KeyHasher::keyed(std::array::from_fn(|index| index as u8));
    let fast = KeyHasher::fast(7);
    for (key, sip, xxh) in GOLDEN {
        assert_eq!(secret.digest(key).words(), sip, "SipHash-1-3 of {key:?}");
        assert_eq!(fast.digest(key).words(), xxh, "XXH3 of {key:?}");
    }
}

#[test]
fn derived_words_and_rehashed_digests_are_golden_too() {
    let digest = Digest::new(GOLDEN[2].1);
    assert_eq!(digest.word(2), 0x89d6_9278_2323_3a42);
    assert_eq!(digest.word(3), 0xc052_0f36_92c5_4462);
    assert_eq!(digest.word(9), 0x0592_2af8_292c_7e9e);
    assert_eq!(digest.rehashed(0), digest);
    assert_eq!(digest.rehashed(5).words(), [0xc40a_33a9_e1c5_25f1, 0xe2c5_c358_7294_ccf2]);
}

#[test]
fn bits_are_cut_from_one_endless_string() {
    let mut random = Random(1);
    for digest in random.digests(20) {
        let string: String = (0..6).map(|index| format!("{:064b}", digest.word(index))).collect();
        for at in 0..300 {
            for count in 1..=64 {
                let cut = u64::from_str_radix(&string[at..at + count], 2).expect("binary digits");
                assert_eq!(digest.bits(at as u32, count as u32), cut, "{count} bits at {at}");
            }
        }
    }
}

#[test]
fn a_random_secret_differs_every_time_and_is_not_shown() {
    let (one, other) = (KeyHasher::random(), KeyHasher::random());
    assert_ne!(one.digest("key"), other.digest("key"));
    assert_eq!(format!("{one:?}"), "KeyHasher(SipHash-1-3, secret key)");
}
