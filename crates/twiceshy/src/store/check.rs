//! [`check()`] finds damage in a directory, and [`repair()`] saves what is undamaged.
//!
//! A check reads the records page by page, without the engine ([`crate::store::redb::pages`]),
//! and writes nothing. It verifies:
//!
//! - every page of the engine's file, against the checksum in the page above it;
//! - every record: its checksum, and that it is filed under the digest of its key;
//! - the secret, against the tag in the store's header;
//! - the filters of the snapshot: they answer "maybe" for every stored key. A stale snapshot is
//!   ignored, as it is when the directory is opened.

use std::fs::{self, File, TryLockError};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::Guard;
use crate::guard::{Change, Header, Opened, Store, read_record, snapshot_options};
use twiceshy_filters::{Digest, KeyHasher, RemoteError};

use crate::store::engine::{Durability, Engine as _, EngineOptions};
use crate::store::error::{Error, Result};
use crate::store::files::{LOCK, SECRET, SNAPSHOT, failed};
use crate::store::kept::Kept;
use crate::store::options::{Options, Place, Purpose, engine_path};
use crate::store::redb::pages::{Commit, Found, Pages};
use crate::store::redb::{GENERATION, Redb, TAG};
use crate::store::report::{Damage, Report};

/// Verifies a directory that is not open, and changes nothing in it. `progress` receives the
/// number of bytes read and of all bytes. Takes 16 bytes of memory per key.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// twiceshy::open(&directory)?.put("ada", "Ada Lovelace")?;
/// let report = twiceshy::store::check(&directory, &mut |_, _| ())?;
/// assert!(report.is_whole() && report.records == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Directory`] when there is no store of engine `redb`, [`Error::Locked`] when the
/// directory is open, [`Error::Io`] when a file cannot be read. Damage is no error.
pub fn check(directory: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<Report> {
    let patient = Patient::new(directory.as_ref())?;
    Ok(patient.examine(progress)?.report)
}

/// Copies the undamaged records of a directory to a new one with the same secret, and changes
/// nothing in the old one. Returns the damage; what is damaged is missing in the new directory,
/// which has [`Report::records`] records.
///
/// Missing records of a store can be stored again. A sidecar with missing digests would deny
/// their keys: report all keys again before using it.
///
/// # Errors
/// As [`check()`]; [`Error::Directory`] when `to` exists; [`Error::Secret`] when the secret
/// is missing or damaged, since no record could be verified.
pub fn repair(
    directory: impl AsRef<Path>,
    to: impl AsRef<Path>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report> {
    let (to, patient) = (to.as_ref(), Patient::new(directory.as_ref())?);
    if fs::symlink_metadata(to).is_ok() {
        let reason = "it exists already; name a directory that does not".into();
        return Err(Error::Directory { path: to.into(), reason });
    }
    let Some(hasher) = patient.hasher()? else {
        let path = patient.directory.join(SECRET);
        return Err(Error::Secret { path, reason: "is missing".into() });
    };
    let Examined { mut report, commit } = patient.examine(progress)?;
    let options = EngineOptions::default().durability(Durability::Process);
    let mut place = Place::<Redb>::open(to, patient.purpose, &options)?;
    place.use_secret(hasher)?;
    if let Some(commit) = commit {
        // Records on sound pages come last, so that they replace those that may be out of date.
        for sound in [false, true] {
            patient.copy(commit, sound, &place)?;
        }
    }
    place.engine.sync().map_err(Error::engine("sync", place.path()))?;
    // A damaged link may show a record twice, in its present and in an earlier state.
    let records = place.engine.count();
    report.records = records.map_err(Error::engine("read", place.path()))?;
    let (guard, files, origin) = place.guard(&Options::default().guard, progress)?;
    Kept::new(guard, files, origin).close()?;
    Ok(report)
}

/// The directory that is checked.
struct Patient {
    directory: PathBuf,
    purpose: Purpose,
    path: PathBuf,
    /// Keeps others from opening the directory meanwhile.
    _lock: Option<File>,
}

/// The result of an examination.
struct Examined {
    report: Report,
    /// The state of the store that was examined.
    commit: Option<Commit>,
}

impl Patient {
    fn new(directory: &Path) -> Result<Self> {
        let purposes = [Purpose::Store, Purpose::Sidecar];
        let found = purposes.into_iter().find_map(|purpose| {
            let path = engine_path::<Redb>(directory, purpose);
            path.exists().then_some((purpose, path))
        });
        let Some((purpose, path)) = found else {
            let reason = "there is no store here: neither records.redb nor digests.redb (a store \
                          of the engine fjall needs no check: fjall verifies each block that it \
                          reads)"
                .into();
            return Err(Error::Directory { path: directory.into(), reason });
        };
        let _lock = lock(directory)?;
        Ok(Patient { directory: directory.into(), purpose, path, _lock })
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        crate::store::files::read(&self.directory.join(name))
    }

    /// The secret; `None` if there is none.
    fn hasher(&self) -> Result<Option<KeyHasher>> {
        let Some(bytes) = self.read(SECRET)? else { return Ok(None) };
        let damaged =
            |_| Error::Secret { path: self.directory.join(SECRET), reason: "is damaged".into() };
        KeyHasher::from_bytes(&bytes).map(Some).map_err(damaged)
    }

    fn examine(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Examined> {
        let name = self.purpose.file_name();
        let mut findings = Findings::new(self);
        let hasher = match self.hasher() {
            Err(Error::Secret { reason, .. }) => {
                findings.file(SECRET, reason);
                None
            }
            hasher => hasher?,
        };
        let mut pages = match Pages::open(&self.path) {
            Ok(pages) => pages,
            Err(reason) => {
                findings.file(name, reason);
                return Ok(Examined { report: findings.report, commit: None });
            }
        };
        let before = findings;
        let mut chosen = None;
        for (index, commit) in pages.commits.clone().into_iter().enumerate() {
            let mut findings = before.clone();
            findings.report.interrupted = index > 0;
            findings.walk(&mut pages, commit, hasher.as_ref(), progress);
            let whole = findings.report.damage.len() == before.report.damage.len();
            if index == 0 || whole {
                chosen = Some((findings, commit));
            }
            if whole {
                break;
            }
        }
        let (mut findings, commit) = chosen.expect("a file that was opened has a commit");
        findings.secret(hasher.as_ref());
        let snapshot = self.read(SNAPSHOT)?;
        findings.filters(hasher, snapshot.as_deref());
        Ok(Examined { report: findings.report, commit: Some(commit) })
    }

    /// Copies the undamaged records on sound pages, or those on other pages.
    fn copy(&self, commit: Commit, wanted: bool, place: &Place<Redb>) -> Result<()> {
        /// The size of a write: so many records, or a little more than so many bytes.
        const RECORDS_AT_ONCE: usize = 1 << 16;
        const BYTES_AT_ONCE: usize = 16 << 20;
        let refused = |reason| Error::Directory { path: self.path.clone(), reason };
        let mut pages = Pages::open(&self.path).map_err(refused)?;
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        let mut outcome = Ok(());
        let write = |chunk: &mut Vec<(Digest, Vec<u8>)>| {
            let changes: Vec<Change<'_>> =
                chunk.iter().map(|(digest, record)| (*digest, Some(&record[..]))).collect();
            let written = place.engine.write(&changes);
            chunk.clear();
            written
        };
        pages.walk(commit, &mut |found| {
            let Found::Entry { table, key, value, sound } = found else { return };
            let Ok(number) = <[u8; 16]>::try_from(key) else { return };
            if table != RECORDS_NAME || sound != wanted || outcome.is_err() {
                return;
            }
            let digest = Digest::from_number(u128::from_le_bytes(number));
            if self.verdict(digest, value, Some(&place.hasher)).is_err() {
                return;
            }
            bytes += value.len();
            chunk.push((digest, value.to_vec()));
            if chunk.len() >= RECORDS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                bytes = 0;
                outcome = write(&mut chunk);
            }
        });
        let written = outcome.and_then(|()| write(&mut chunk));
        written.map_err(Error::engine("write to", place.path()))
    }

    /// Whether a record is undamaged and filed under the digest of its key.
    fn verdict(
        &self,
        digest: Digest,
        record: &[u8],
        hasher: Option<&KeyHasher>,
    ) -> Result<(), Damage> {
        let damage = |key: Option<&[u8]>, reason| {
            Err(Damage::Record { digest, key: key.map(<[u8]>::to_vec), reason })
        };
        match (self.purpose, read_record(record)) {
            (Purpose::Sidecar, _) if record.is_empty() => Ok(()),
            (Purpose::Sidecar, _) => damage(None, "it is not empty, as a sidecar's records are"),
            (Purpose::Store, None) => damage(None, "its checksum is wrong"),
            (Purpose::Store, Some((key, _))) => match hasher {
                Some(hasher) if hasher.digest(key) != digest => {
                    damage(Some(key), "it is filed under another digest than that of its key")
                }
                _ => Ok(()),
            },
        }
    }
}

/// The findings so far.
#[derive(Clone)]
struct Findings<'a> {
    patient: &'a Patient,
    report: Report,
    tag: Option<u64>,
    generation: Option<u64>,
    /// The digests of undamaged records, in order.
    digests: Vec<Digest>,
}

/// Names of tables.
const RECORDS_NAME: &str = "records";
const META_NAME: &str = "meta";

impl<'a> Findings<'a> {
    fn new(patient: &'a Patient) -> Self {
        let report = Report { path: patient.path.clone(), ..Report::default() };
        Findings { patient, report, tag: None, generation: None, digests: Vec::new() }
    }

    fn file(&mut self, name: &'static str, reason: String) {
        self.report.damage.push(Damage::File { name, reason });
    }

    /// Every page and record of a commit.
    fn walk(
        &mut self,
        pages: &mut Pages,
        commit: Commit,
        hasher: Option<&KeyHasher>,
        progress: &mut dyn FnMut(u64, u64),
    ) {
        let total = pages.length();
        pages.walk(commit, &mut |found| match found {
            Found::Page(bytes) => {
                self.report.pages += 1;
                self.report.bytes += bytes;
                progress(self.report.bytes.min(total), total);
            }
            Found::Damage { offset, reason } => {
                self.report.damage.push(Damage::Page { offset, reason });
            }
            Found::Entry { table, key, value, sound } => {
                let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
                match (table, key.try_into().map(u128::from_le_bytes)) {
                    (RECORDS_NAME, Ok(key)) => {
                        self.record(Digest::from_number(key), value, sound, hasher)
                    }
                    (META_NAME, _) if key == TAG.as_bytes() => self.tag = number(value),
                    (META_NAME, _) if key == GENERATION.as_bytes() => {
                        self.generation = number(value);
                    }
                    _ => (),
                }
            }
        });
        progress(total, total);
        if !self.digests.is_sorted() && self.report.is_whole() {
            let name = self.patient.purpose.file_name();
            self.file(name, "its records are not in order".into());
        }
        if self.header().is_none() && self.report.records > 0 && self.report.is_whole() {
            let name = self.patient.purpose.file_name();
            self.file(name, "it has no header: an earlier build was interrupted".into());
        }
    }

    fn record(&mut self, digest: Digest, value: &[u8], sound: bool, hasher: Option<&KeyHasher>) {
        match self.patient.verdict(digest, value, hasher) {
            Ok(()) => {
                self.report.records += 1;
                self.report.doubtful += u64::from(!sound);
                self.digests.push(digest);
            }
            Err(damage) => self.report.damage.push(damage),
        }
    }

    fn header(&self) -> Option<Header> {
        self.tag.zip(self.generation).map(|(tag, generation)| Header { tag, generation })
    }

    /// Verifies that the secret is the store's.
    fn secret(&mut self, hasher: Option<&KeyHasher>) {
        match (hasher, self.header()) {
            (Some(hasher), Some(header)) if header.check(hasher).is_err() => {
                self.file(
                    SECRET,
                    "does not belong to this store, or is from another version".into(),
                );
            }
            (None, Some(_)) if self.report.damage.iter().all(|damage| !is_secret(damage)) => {
                self.file(SECRET, "it is missing".into());
            }
            _ => (),
        }
    }

    /// Verifies that the filters answer "maybe" for every stored key.
    fn filters(&mut self, hasher: Option<KeyHasher>, snapshot: Option<&[u8]>) {
        let digests = std::mem::take(&mut self.digests);
        self.report.snapshot = match (snapshot, hasher, self.header()) {
            (None, ..) => "there is none".into(),
            (Some(_), Some(hasher), Some(header)) if self.report.is_whole() => {
                match answers_all(digests, header, hasher, snapshot) {
                    Ok(text) => text,
                    Err(reason) => {
                        self.file(SNAPSHOT, reason);
                        "it is damaged".into()
                    }
                }
            }
            _ => "not compared, since the store is damaged".into(),
        };
    }
}

fn is_secret(damage: &Damage) -> bool {
    matches!(damage, Damage::File { name: SECRET, .. })
}

/// Compares a snapshot with the digests of the store. An error says what is wrong.
fn answers_all(
    digests: Vec<Digest>,
    header: Header,
    hasher: KeyHasher,
    snapshot: Option<&[u8]>,
) -> Result<String, String> {
    let options = match snapshot_options(snapshot.unwrap_or_default()) {
        Ok(options) => options,
        Err(error) => return Ok(format!("ignored: {error}")),
    };
    let store = Digests { digests, header };
    let guard = Guard::open_with(store, hasher, &options, snapshot, &mut |_, _| ())
        .map_err(|error| error.to_string())?;
    match guard.opened() {
        Opened::Rebuilt { reason } => Ok(format!("ignored: {reason}")),
        Opened::Empty | Opened::Snapshot => guard.check().map(|_| "it fits the store".into()),
    }
}

/// A read-only store with digests and no records.
struct Digests {
    digests: Vec<Digest>,
    header: Header,
}

impl Store for Digests {
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        let start = self.digests.partition_point(|digest| digest < range.start());
        let rest = self.digests[start..].iter();
        rest.take_while(|digest| *digest <= range.end()).for_each(|&digest| visitor(digest, &[]));
        Ok(())
    }

    fn write(&self, _: &[Change<'_>]) -> Result<(), RemoteError> {
        Err("it is only read".into())
    }

    fn count(&self) -> Result<u64, RemoteError> {
        Ok(self.digests.len() as u64)
    }

    fn exact_count(&self) -> Result<Option<u64>, RemoteError> {
        self.count().map(Some)
    }

    fn header(&self) -> Result<Option<Header>, RemoteError> {
        Ok(Some(self.header))
    }

    fn set_header(&self, _: Header) -> Result<(), RemoteError> {
        Err("it is only read".into())
    }
}

/// Locks a directory without making a file in it.
fn lock(directory: &Path) -> Result<Option<File>> {
    let path = directory.join(LOCK);
    // Without the file nobody has the lock, and where the file cannot be read or locked (in a
    // read-only copy) nobody is writing.
    let Ok(file) = File::open(&path) else { return Ok(None) };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: directory.into() }),
        Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {
            Ok(None)
        }
        Err(TryLockError::Error(error)) => Err(failed("lock", &path)(error)),
    }
}
