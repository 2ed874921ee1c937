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
pub(super) const HEADER: usize = SLOTS + 2 * SLOT;

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

pub(super) const LEAF: u8 = 1;
pub(super) const BRANCH: u8 = 2;
/// Orders above this are of no file.
const LARGEST_ORDER: u32 = 20;
pub(super) const DEEPEST: usize = 128;

/// A tree of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) page: u64,
    pub(super) checksum: u128,
}

/// The widths of a table's keys and values, where they are fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Widths {
    pub(super) key: Option<usize>,
    pub(super) value: Option<usize>,
}

/// A commit: the roots of its trees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(super) user: Option<Root>,
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

/// Where pages are in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    page_size: u64,
    region_pages: u64,
    region_header_pages: u64,
}

/// A file of pages.
pub(crate) struct Pages {
    file: File,
    length: u64,
    layout: Layout,
    /// The commits of the file, the one to use first.
    pub(crate) commits: Vec<Commit>,
}

impl Layout {
    /// The layout that the first page describes.
    pub(super) fn read(header: &[u8; HEADER]) -> Result<Self, String> {
        if !header.starts_with(MAGIC) {
            return Err("its first page is not that of a redb file".into());
        }
        let number = |at| u64::from(u32_at(header, at).expect("within the header"));
        let (page_size, region_pages) = (number(PAGE_SIZE), number(REGION_DATA_PAGES));
        let region_header_pages = number(REGION_HEADER_PAGES);
        let sane = page_size.is_power_of_two()
            && (512..=1 << 16).contains(&page_size)
            && (1..=1 << 20).contains(&region_pages)
            && region_header_pages <= 1 << 20;
        if !sane {
            return Err("the sizes in its first page make no sense".into());
        }
        Ok(Layout { page_size, region_pages, region_header_pages })
    }

    /// Where a page is in the file.
    pub(super) fn place(&self, page: u64) -> Option<Range<u64>> {
        let order = (page >> 59) as u32;
        if order > LARGEST_ORDER {
            return None;
        }
        let index = page & (0xf_ffff >> order);
        let region = page >> 20 & 0xf_ffff;
        let first = region * (self.region_header_pages + self.region_pages);
        let pages = 1 + first + self.region_header_pages + (index << order);
        let start = pages * self.page_size;
        Some(start..start + (self.page_size << order))
    }
}

impl Pages {
    /// Reads the first page. An error says what is wrong with it.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let mut file = File::open(path).map_err(text)?;
        let length = file.metadata().map_err(text)?.len();
        let mut header = [0; HEADER];
        file.read_exact(&mut header).map_err(|error| format!("its first page: {error}"))?;
        let layout = Layout::read(&header)?;
        let primary = Commit::primary(&header);
        let commits = match (Commit::read(&header, primary), Commit::read(&header, 1 - primary)) {
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
        Ok(Pages { file, length, layout, commits })
    }

    /// Bytes of the file.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Visits every page and entry of a commit, whatever is wrong with others.
    pub(crate) fn walk(&mut self, commit: Commit, found: &mut dyn FnMut(Found<'_>)) {
        let mut seen = HashSet::new();
        for root in [commit.user, commit.system].into_iter().flatten() {
            let mut tables = Vec::new();
            self.tree(root, Widths::default(), true, &mut seen, &mut |seen| match seen {
                Seen::Page(bytes) => found(Found::Page(bytes)),
                Seen::Damage(offset, reason) => found(Found::Damage { offset, reason }),
                Seen::Entry(name, definition, sound) => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    tables.push((name, table(definition), sound));
                }
            });
            for (name, definition, sound) in tables {
                let table = &name[..];
                let Some(Table { root, widths, .. }) = definition else {
                    let reason = format!("the definition of table {table:?} makes no sense");
                    found(Found::Damage { offset: 0, reason });
                    continue;
                };
                let Some(root) = root else { continue };
                self.tree(root, widths, sound, &mut seen, &mut |seen| match seen {
                    Seen::Page(bytes) => found(Found::Page(bytes)),
                    Seen::Damage(offset, reason) => found(Found::Damage { offset, reason }),
                    Seen::Entry(key, value, sound) => {
                        found(Found::Entry { table, key, value, sound });
                    }
                });
            }
        }
    }

    /// Visits the pages and entries of one tree; `seen` are the pages of others, since
    /// each page belongs to one.
    fn tree(
        &mut self,
        root: Root,
        widths: Widths,
        sound: bool,
        seen: &mut HashSet<u64>,
        visit: &mut dyn FnMut(Seen<'_>),
    ) {
        // From left to right: children go onto the stack in reverse.
        let mut stack = vec![(root, sound, 0)];
        while let Some((Root { page, checksum }, above, depth)) = stack.pop() {
            let place = self.place(page);
            let offset = place.as_ref().map_or(0, |place| place.start);
            let mut damaged = |reason: String| visit(Seen::Damage(offset, reason));
            let Some(place) = place else {
                damaged(format!("page {page:#x} would be outside of the file"));
                continue;
            };
            if depth > DEEPEST || !seen.insert(place.start) {
                damaged("a page is part of the tree twice".into());
                continue;
            }
            let bytes = match self.read(&place) {
                Ok(bytes) => bytes,
                Err(error) => {
                    damaged(format!("a page cannot be read: {error}"));
                    continue;
                }
            };
            let right = is_sound(&bytes, widths, checksum);
            if !right {
                damaged("the checksum of a page is wrong".into());
            }
            let sound = above && right;
            visit(Seen::Page(place.end - place.start));
            match bytes[0] {
                LEAF => {
                    let leaf = Leaf::of(&bytes, widths);
                    for (key, value) in (0..leaf.entries).filter_map(|index| leaf.entry(index)) {
                        visit(Seen::Entry(key, value, sound));
                    }
                }
                BRANCH => {
                    let children = (0..=count(&bytes)).rev().filter_map(|at| child(&bytes, at));
                    stack.extend(children.map(|root| (root, sound, depth + 1)));
                }
                _ => (),
            }
        }
    }

    /// Where a page is in the file.
    fn place(&self, page: u64) -> Option<Range<u64>> {
        self.layout.place(page).filter(|place| place.end <= self.length)
    }

    fn read(&mut self, place: &Range<u64>) -> io::Result<Vec<u8>> {
        let size = usize::try_from(place.end - place.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; size];
        self.file.seek(SeekFrom::Start(place.start))?;
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// What a walk of one tree comes by; see [`Found`].
enum Seen<'a> {
    Page(u64),
    Damage(u64, String),
    Entry(&'a [u8], &'a [u8], bool),
}

impl Commit {
    /// Which slot of the first page is the one to use.
    pub(super) fn primary(header: &[u8; HEADER]) -> usize {
        usize::from(header[FLAGS] & SECOND_IS_PRIMARY)
    }

    /// The commit in a slot of the first page.
    pub(super) fn read(header: &[u8; HEADER], index: usize) -> Result<Self, String> {
        let slot = &header[SLOTS + index * SLOT..][..SLOT];
        let (rest, checksum) = slot.split_last_chunk::<CHECKSUM>().expect("a slot is longer");
        if xxh3_128(rest) != u128::from_le_bytes(*checksum) {
            return Err("its checksum is wrong".into());
        }
        if slot[0] != VERSION {
            return Err(format!("it is of file format {}, not {VERSION}", slot[0]));
        }
        let root = |has: usize, at| (slot[has] != 0).then(|| Root::read(slot, at)).flatten();
        Ok(Commit {
            user: root(HAS_USER_ROOT, USER_ROOT),
            system: root(HAS_SYSTEM_ROOT, SYSTEM_ROOT),
            transaction: u64_at(slot, TRANSACTION).expect("within the slot"),
        })
    }
}

impl Root {
    fn read(bytes: &[u8], at: usize) -> Option<Self> {
        Some(Root { page: u64_at(bytes, at)?, checksum: u128_at(bytes, at + 8)? })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// What the definition of a table says.
pub(super) struct Table {
    pub(super) root: Option<Root>,
    pub(super) widths: Widths,
    pub(super) entries: u64,
}

/// Reads the definition of a table: the value of its name in the tree of tables.
///
/// ```text
/// | kind 1 | entries 8 | root? 1 | root 32 | fixed? 1 | width of keys 4 |
/// | fixed? 1 | width of values 4 | alignments 8 | names of the types |
/// ```
pub(super) fn table(definition: &[u8]) -> Option<Table> {
    const NORMAL: u8 = 3;
    const ENTRIES: usize = 1;
    const HAS_ROOT: usize = ENTRIES + 8;
    const KEYS: usize = HAS_ROOT + 1 + ROOT;
    const VALUES: usize = KEYS + 1 + 4;
    let width = |at: usize| -> Option<Option<usize>> {
        let width = u32_at(definition, at + 1)?;
        Some((*definition.get(at)? != 0).then_some(width as usize))
    };
    if *definition.first()? != NORMAL {
        return None;
    }
    let root = Root::read(definition, HAS_ROOT + 1)?;
    let root = (*definition.get(HAS_ROOT)? != 0).then_some(root);
    let widths = Widths { key: width(KEYS)?, value: width(VALUES)? };
    Some(Table { root, widths, entries: u64_at(definition, ENTRIES)? })
}

/// How many entries a leaf has, or keys a branch.
pub(super) fn count(page: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([page[2], page[3]]))
}

/// The bytes of a page that its checksum is of.
fn used(page: &[u8], widths: Widths) -> Option<usize> {
    let last = count(page).checked_sub(1)?;
    let end = match page[0] {
        LEAF => Leaf::of(page, widths).value_end(last)?,
        BRANCH => {
            let start = BRANCH_START + (CHECKSUM + 8) * (last + 2);
            match widths.key {
                Some(width) => start + width * (last + 1),
                None => u32_at(page, start + 4 * last)? as usize,
            }
        }
        _ => return None,
    };
    (end <= page.len()).then_some(end)
}

/// Whether a page is as its checksum says.
pub(super) fn is_sound(page: &[u8], widths: Widths, checksum: u128) -> bool {
    used(page, widths).is_some_and(|used| xxh3_128(&page[..used]) == checksum)
}

const BRANCH_START: usize = 8;

/// A child of a branch.
pub(super) fn child(page: &[u8], index: usize) -> Option<Root> {
    let pages = BRANCH_START + CHECKSUM * (count(page) + 1);
    let checksum = u128_at(page, BRANCH_START + CHECKSUM * index)?;
    Some(Root { page: u64_at(page, pages + 8 * index)?, checksum })
}

/// A key of a branch of numbers: the largest that is in the child of the same index.
pub(super) fn separator(page: &[u8], index: usize) -> Option<u128> {
    let keys = BRANCH_START + (CHECKSUM + 8) * (count(page) + 1);
    u128_at(page, keys + size_of::<u128>() * index)
}

/// Where the entries of a leaf are.
pub(super) struct Leaf<'a> {
    page: &'a [u8],
    widths: Widths,
    pub(super) entries: usize,
}

impl<'a> Leaf<'a> {
    const START: usize = 4;

    pub(super) fn of(page: &'a [u8], widths: Widths) -> Self {
        Leaf { page, widths, entries: count(page) }
    }

    fn keys_start(&self) -> usize {
        let tables =
            usize::from(self.widths.key.is_none()) + usize::from(self.widths.value.is_none());
        Self::START + 4 * self.entries * tables
    }

    fn key_end(&self, index: usize) -> Option<usize> {
        match self.widths.key {
            Some(width) => Some(self.keys_start() + width * (index + 1)),
            None => Some(u32_at(self.page, Self::START + 4 * index)? as usize),
        }
    }

    fn value_end(&self, index: usize) -> Option<usize> {
        match self.widths.value {
            Some(width) => Some(self.key_end(self.entries - 1)? + width * (index + 1)),
            None => {
                let table = if self.widths.key.is_none() { 4 * self.entries } else { 0 };
                Some(u32_at(self.page, Self::START + table + 4 * index)? as usize)
            }
        }
    }

    /// A key and its value, if they are within the page.
    pub(super) fn entry(&self, index: usize) -> Option<(&'a [u8], &'a [u8])> {
        let (key_start, value_start) = match index.checked_sub(1) {
            Some(before) => (self.key_end(before)?, self.value_end(before)?),
            None => (self.keys_start(), self.key_end(self.entries.checked_sub(1)?)?),
        };
        let key = self.page.get(key_start..self.key_end(index)?)?;
        Some((key, self.page.get(value_start..self.value_end(index)?)?))
    }
}
