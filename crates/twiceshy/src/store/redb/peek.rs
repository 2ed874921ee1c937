//! A look at a file of `redb`, which is as it was afterwards.
//!
//! A file that was not closed `redb` verifies itself, page by page, when it is opened; but
//! not one that was opened and not written to yet, nor one whose first page was copied
//! when it was closed and the others later. What may be such a file is verified here.

use std::fmt;
use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase as _, ReadableTableMetadata as _,
    RepairSession, TableError,
};
use twiceshy_filters::RemoteError;

use crate::store::engine::{OpenError, Peeked};

use super::overlay::Overlay;
use super::{META, RECORDS, header_of};

/// What a file has, if that can be told without writing to it. With `verify`, every page
/// belongs to it.
pub(super) fn peek(path: &Path, cache: usize, verify: bool) -> Result<Option<Peeked>, OpenError> {
    let look = || {
        let Some(mut database) = open(path, cache)? else { return Ok(None) };
        let is_well = !verify || database.check_integrity().map_err(not_one_state)?;
        if is_well { peeked(&database).map(Some) } else { Ok(None) }
    };
    // Pages that do not belong together may break what `redb` takes for granted.
    let looked = panic::catch_unwind(AssertUnwindSafe(look));
    match looked.unwrap_or_else(|_| Err(not_one_state("redb panicked").into())) {
        // That it is damaged is for those to say who open it.
        Err(OpenError::Other(_)) if !verify => Ok(None),
        looked => looked,
    }
}

/// Opens a database over its file; `None` if it has to be repaired first.
fn open(path: &Path, cache: usize) -> Result<Option<Database>, OpenError> {
    let backend = Overlay::new(File::options().read(true).write(true).open(path)?)?;
    let mut builder = Builder::new();
    builder.set_cache_size(cache);
    builder.set_repair_callback(RepairSession::abort);
    match builder.create_with_backend(backend) {
        Ok(database) => Ok(Some(database)),
        Err(DatabaseError::RepairAborted) => Ok(None),
        Err(DatabaseError::DatabaseAlreadyOpen) => Err(OpenError::Locked),
        Err(error) => Err(OpenError::Other(error.into())),
    }
}

fn peeked(database: &Database) -> Result<Peeked, OpenError> {
    let view = database.begin_read()?;
    let records = match view.open_table(RECORDS) {
        Ok(records) => records.len()?,
        Err(TableError::TableDoesNotExist(_)) => 0,
        Err(error) => return Err(not_ours(error).into()),
    };
    let header = match view.open_table(META) {
        Ok(_) => header_of(&view)?,
        Err(TableError::TableDoesNotExist(_)) => None,
        Err(error) => return Err(not_ours(error).into()),
    };
    Ok(Peeked { records, header })
}

/// Why a table cannot be had: there is one of that name with other contents.
pub(super) fn not_ours(error: TableError) -> RemoteError {
    if let TableError::Storage(error) = error {
        return error.into();
    }
    format!(
        "{error} (it was made by another program, or by another version of this one: open it \
         with that, or use another directory)"
    )
    .into()
}

/// Why a file is not opened whose pages do not belong together.
pub(super) fn not_one_state(error: impl fmt::Display) -> RemoteError {
    format!(
        "it is damaged, or was copied while it was written ({error}); restore another copy \
         (`twiceshy backup` makes good ones), or see what `twiceshy check` finds"
    )
    .into()
}
