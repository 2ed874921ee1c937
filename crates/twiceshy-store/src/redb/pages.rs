//! A `redb` file read page by page, without `redb`: every checksum verified, nothing
//! written, and what is whole found even where `redb` gives up.
//!
//! The layout is that of `redb`'s design document, file format 3:
//!
//! ```text
//! first page   | magic 9 | flags 1 | - 2 | page size 4 | region header pages 4 |
//!              | region data pages 4 | ... 64 | slot 0: 128 | slot 1: 128 |
//! slot         | version 1 | user root? 1 | system root? 1 | - 5 | user root 32 |
//!              | system root 32 | - 32 | transaction 8 | - | checksum 16 |
//! root         | page 8 | checksum 16 | entries 8 |
//! page number  | order 5 bits | - 19 | region 20 | index in the region 20 |
//! leaf         | 1 | - 1 | entries 2 | ends of keys 4 each, unless of fixed width |
//!              | ends of values 4 each, likewise | keys | values |
//! branch       | 2 | - 1 | keys 2 | - 4 | checksums 16 each | pages 8 each |
//!              | ends of keys 4 each, unless of fixed width | keys |
//! ```
//!
//! A page's checksum, XXH3-128 of what is used of it, is in its parent; that of a root
//! is in its slot or in the definition of its table, which is a value of the tree of
//! tables. So the checksums of the two slots cover everything.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
const FLAGS: usize = MAGIC.len();
const PAGE_SIZE: usize = FLAGS + 1 + 2;
const REGION_HEADER_PAGES: usize = PAGE_SIZE + 4;
const REGION_DATA_PAGES: usize = REGION_HEADER_PAGES + 4;
const SLOTS: usize = 64;
const SLOT: usize = 128;
const HEADER: usize = SLOTS + 2 * SLOT;

const SECOND_IS_PRIMARY: u8 = 1;
const TWO_PHASE: u8 = 4;

const VERSION: u8 = 3;
const HAS_USER_ROOT: usize = 1;
const HAS_SYSTEM_ROOT: usize = 2;
const USER_ROOT: usize = 8;
const ROOT: usize = 8 + CHECKSUM + 8;
const SYSTEM_ROOT: usize = USER_ROOT + ROOT;
const TRANSACTION: usize = SYSTEM_ROOT + 2 * ROOT;
const CHECKSUM: usize = 16;

const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// Orders above this are of no file.
const LARGEST_ORDER: u32 = 20;
const DEEPEST: usize = 128;

/// A tree of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Root {
    page: u64,
    checksum: u128,
}

/// The widths of a table's keys and values, where they are fixed.
#[derive(Clone, Copy, Debug, Default)]
struct Widths {
    key: Option<usize>,
    value: Option<usize>,
}

/// A commit: the roots of its trees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    user: Option<Root>,
    system: Option<Root>,
    transaction: u64,
}

/// What a walk comes by.
pub(crate) enum Found<'a> {
    /// A page of so many bytes.
    Page(u64),
    /// A page that is not as it should be.
    Damage {
        /// Where it is in the file.
        offset: u64,
        reason: String,
    },
    /// A record of a table.
    Entry {
        table: &'a str,
        key: &'a [u8],
        value: &'a [u8],
        /// Whether the checksums of its page and of all above are right.
        sound: bool,
    },
}

/// A file of pages.
pub(crate) struct Pages {
    file: File,
    length: u64,
    page_size: u64,
    region_pages: u64,
    region_header_pages: u64,
    /// The commits of the file, the one to use first.
    pub(crate) commits: Vec<Commit>,
}

impl Pages {
    /// Reads the first page. An error says what is wrong with it.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let mut file = File::open(path).map_err(text)?;
        let length = file.metadata().map_err(text)?.len();
        let mut header = [0; HEADER];
        file.read_exact(&mut header).map_err(|error| format!("its first page: {error}"))?;
        if !header.starts_with(MAGIC) {
            return Err("its first page is not that of a redb file".into());
        }
        let number = |at| u64::from(u32_at(&header, at).expect("within the header"));
        let (page_size, region_pages) = (number(PAGE_SIZE), number(REGION_DATA_PAGES));
        let region_header_pages = number(REGION_HEADER_PAGES);
        let sane = page_size.is_power_of_two()
            && (512..=1 << 16).contains(&page_size)
            && (1..=1 << 20).contains(&region_pages)
            && region_header_pages <= 1 << 20;
        if !sane {
            return Err("the sizes in its first page make no sense".into());
        }
        let commit = |index: usize| Commit::read(&header[SLOTS + index * SLOT..][..SLOT]);
        let primary = usize::from(header[FLAGS] & SECOND_IS_PRIMARY);
        let commits = match (commit(primary), commit(1 - primary)) {
            (Err(first), Err(second)) => return Err(format!("both commits: {first}, {second}")),
            (Err(first), _) if header[FLAGS] & TWO_PHASE != 0 => return Err(first),
            (Ok(first), _) if header[FLAGS] & TWO_PHASE != 0 => vec![first],
            // A crash may have left the newer one as the second.
            (Ok(first), Ok(second)) if second.transaction > first.transaction => {
                vec![second, first]
            }
            (Ok(first), Ok(second)) => vec![first, second],
            (Ok(only), Err(_)) | (Err(_), Ok(only)) => vec![only],
        };
        Ok(Pages { file, length, page_size, region_pages, region_header_pages, commits })
    }

    /// Bytes of the file.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Visits every page and entry of a commit, whatever is wrong with others.
    pub(crate) fn walk(&mut self, commit: Commit, found: &mut dyn FnMut(Found<'_>)) {
        for root in [commit.user, commit.system].into_iter().flatten() {
            let mut tables = Vec::new();
            let mut walk = Walk { pages: self, seen: HashSet::new(), found };
            walk.tree(root, Widths::default(), &mut |name, definition, sound| {
                tables.push((String::from_utf8_lossy(name).into_owned(), definition.to_vec(), sound));
            });
            for (name, definition, sound) in tables {
                match table(&definition) {
                    Some((Some(root), widths)) => {
                        let mut entries = Vec::new();
                        walk.table(&name, root, widths, sound, &mut entries);
                    }
                    Some((None, _)) => (),
                    None => (walk.found)(Found::Damage {
                        offset: 0,
                        reason: format!("the definition of table {name:?} makes no sense"),
                    }),
                }
            }
        }
    }
}
