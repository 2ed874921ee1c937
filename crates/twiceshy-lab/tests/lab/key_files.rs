//! Key lists and access logs from files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use twiceshy_lab::workload::{Error, Format, KeyFile, Recording, Size, Source};

fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).expect("a file for the test");
    path
}

fn file(text: &str) -> KeyFile {
    text.parse().expect("every text is a key file")
}

/// Reads bytes as a file whose format its name tells.
fn read(name: &str, bytes: &[u8]) -> Result<Recording, Error> {
    Recording::of_keys(&file(write(name, bytes).to_str().expect("a plain path")))
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("a vector takes all");
    encoder.finish().expect("a vector takes all")
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

const LINES: &[u8] = b"/index\r\n/about\n\n/index\n/about\n/contact";

#[test]
fn lines_are_numbered_by_first_appearance() {
    for (name, bytes) in [
        ("log.txt", LINES.to_vec()),
        ("log.txt.gz", gz(LINES)),
        ("log.txt.zst", zst(LINES)),
        // Told by their first bytes.
        ("log-gzip", gz(LINES)),
        ("log-zstd.txt", zst(LINES)),
        // Two members or frames, of which the first ends within a line.
        ("log-two.gz", [gz(&LINES[..12]), gz(&LINES[12..])].concat()),
        ("log-two.zst", [zst(&LINES[..12]), zst(&LINES[12..])].concat()),
        // A frame to skip, with three bytes.
        (
            "log-skip.zst",
            [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3], zst(LINES).as_slice()].concat(),
        ),
    ] {
        let recording = read(name, &bytes).expect(name);
        assert_eq!(recording.stream, [0, 1, 0, 1, 2], "{name}");
        assert_eq!((recording.distinct, recording.stored), (3, None), "{name}");
    }
}

#[test]
fn numbers_are_keys_of_their_width() {
    let four: Vec<u8> = [7_u32, 9, 7, u32::MAX].iter().flat_map(|n| n.to_le_bytes()).collect();
    let eight: Vec<u8> = [7_u64, 9, 7, u64::MAX].iter().flat_map(|n| n.to_le_bytes()).collect();
    for (name, bytes) in [("n.u32le", &four), ("n.u64le", &eight)] {
        assert_eq!(read(name, bytes).expect(name).stream, [0, 1, 0, 2], "{name}");
        let zipped = format!("{name}.zst");
        assert_eq!(read(&zipped, &zst(bytes)).expect(name).stream, [0, 1, 0, 2], "{name}");
    }
}

/// Only a name says that numbers are compressed: these are the first bytes of zstd files.
#[test]
fn numbers_are_not_taken_for_a_compressed_file() {
    let numbers: Vec<u8> = [0xfd2f_b528_u32, 0x184d_2a50].map(u32::to_le_bytes).concat();
    assert_eq!(read("magic.u32le", &numbers).expect("numbers").stream, [0, 1]);
    assert!(matches!(read("magic.txt", &numbers), Err(Error::Io { .. })));
}

#[test]
fn a_nul_byte_is_in_no_list_of_lines() {
    let error = read("binary.txt", b"one\ntwo\n\0three\n").unwrap_err().to_string();
    assert!(error.contains("damaged at byte 8") && error.contains("u32:FILE"), "{error}");
}

/// More than one buffer of lines and numbers.
#[test]
fn long_files_are_read_to_the_end() {
    let lines: Vec<String> = (0..100_000).map(|number| format!("{}\n", number % 30_000)).collect();
    let recording = read("long.txt.zst", &zst(lines.concat().as_bytes())).unwrap();
    let expected: Vec<u32> = (0..100_000).map(|number| number % 30_000).collect();
    assert_eq!((recording.distinct, &recording.stream), (30_000, &expected));
    let bytes: Vec<u8> = expected.iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(read("long.u32le", &bytes).unwrap().stream, expected);
}

#[test]
fn formats_are_told_by_prefix_or_ending() {
    for (text, path, format) in [
        ("a/keys", "a/keys", Format::Lines),
        ("keys.u32le", "keys.u32le", Format::U32),
        ("keys.u32le.zst", "keys.u32le.zst", Format::U32),
        ("keys.u64.gz", "keys.u64.gz", Format::U64),
        ("u32:keys.bin", "keys.bin", Format::U32),
        ("u64:keys.txt", "keys.txt", Format::U64),
        ("lines:keys.u32", "keys.u32", Format::Lines),
        ("odd:name", "odd:name", Format::Lines),
    ] {
        assert_eq!(file(text), KeyFile { path: path.into(), format }, "{text}");
    }
}

/// Keys and queries in files of their own, and of different formats: 3 of the
/// queries are for keys that are not stored.
#[test]
fn lists_are_stored_and_asked_for() {
    let keys = write("stored.txt", b"10\n20\n10\n30\n");
    let numbers: Vec<u8> = [20_u32, 40, 50, 30, 40].iter().flat_map(|n| n.to_le_bytes()).collect();
    let queries = write("asked.u32le", &numbers);
    let [keys, queries] = [keys, queries].map(|path| file(path.to_str().expect("a plain path")));
    let recording = Recording::of_lists(&keys, &queries).unwrap();
    assert_eq!(recording.stored, Some(3));
    assert_eq!(recording.name, "asked.u32le in stored.txt");
    let workload = Source::Recording(recording.into()).workload(&Size::default(), 1).unwrap();
    assert_eq!((workload.stored.len(), workload.len(), workload.distinct()), (3, 3, 2));
    assert_eq!(workload.ranks().collect::<Vec<_>>(), [0, 1, 0]);

    // All queries are for stored keys: nothing is left to ask.
    let recording = Recording::of_lists(&keys, &keys).unwrap();
    let error = Source::Recording(recording.into()).workload(&Size::default(), 1).unwrap_err();
    assert!(error.to_string().contains("has 3 distinct keys"), "{error}");
}

#[test]
fn damaged_files_are_errors() {
    let error = read("odd.u32le", &[1, 0, 0, 0, 2, 0]).unwrap_err().to_string();
    assert!(error.contains("odd.u32le is damaged at byte 4: it ends in the middle"), "{error}");
    let error = read("odd.u64le", &[1, 0, 0, 0, 0, 0, 0]).unwrap_err().to_string();
    assert!(error.contains("damaged at byte 0"), "{error}");
    assert!(matches!(read("text.gz", LINES), Err(Error::Io { .. })));
    assert!(matches!(read("text.zst", LINES), Err(Error::Io { .. })));
    let error = Recording::of_keys(&file("/no/such/keys")).unwrap_err().to_string();
    assert!(error.contains("/no/such/keys cannot be read"), "{error}");
}

/// A compressed file that ends early or has a changed byte in its middle is an
/// error and no shorter list.
#[test]
fn compressed_files_are_checked() {
    let text: String = (0..100).map(|number| format!("{}\n", number * number)).collect();
    for (name, bytes) in [("cut.gz", gz(text.as_bytes())), ("cut.zst", zst(text.as_bytes()))] {
        assert_eq!(read(name, &bytes).expect(name).distinct, 100);
        for length in 1..bytes.len() {
            let outcome = read(name, &bytes[..length]);
            assert!(matches!(outcome, Err(Error::Io { .. })), "{name} {length}: {outcome:?}");
        }
        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 1;
        assert!(matches!(read(name, &changed), Err(Error::Io { .. })), "{name}");
    }
}

/// A file of the real data, or a word that it is not there.
fn real(path: &str) -> Option<KeyFile> {
    let data = std::env::var_os("TWICESHY_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = data.join(path);
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
        return None;
    }
    Some(file(path.to_str().expect("a plain path")))
}

/// The counts of the data's own README.
#[test]
fn real_streams_have_the_counts_that_are_stated() {
    for (path, records, distinct) in [
        ("streams/web07.u32le.zst", 76_118, 20_484),
        ("streams/web12.u32le.zst", 95_607, 13_756),
        ("packets/ndpi42.idx.u32le.zst", 220_759, 10_373),
        ("queries/nasa_19950801_urls.txt.zst", 30_969, 2_088),
    ] {
        let Some(file) = real(path) else { continue };
        let recording = Recording::of_keys(&file).unwrap();
        assert_eq!((recording.stream.len(), recording.distinct), (records, distinct), "{path}");
    }
}

/// Of the names in dependency fields, 81,283 are no packages (9,291 distinct).
#[test]
fn real_lists_have_the_counts_that_are_stated() {
    let keys = real("sets/debian_bookworm_packages.txt.zst");
    let queries = real("queries/debian_dependency_names.txt.zst");
    let (Some(keys), Some(queries)) = (keys, queries) else { return };
    let recording = Recording::of_lists(&keys, &queries).unwrap();
    assert_eq!(recording.stream.len(), 626_405);
    let workload = Source::Recording(recording.into()).workload(&Size::default(), 1).unwrap();
    let counts = (workload.stored.len(), workload.len(), workload.distinct());
    assert_eq!(counts, (63_436, 81_283, 9_291));
}
