//! The type: how the server saves, loads, copies, measures and frees a filter.
//!
//! The payload in an RDB file or a `DUMP`, version 1; the filter's own file has a checksum:
//!
//! ```text
//! unsigned   1 if it is not to grow, 2 if chunks of it are still to come
//! unsigned   adaptations
//! unsigned   number of strings
//! strings    the filter's file, in pieces
//! ```

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use redis_module::raw;

use crate::commands::dump::{CHUNK, iterator};
use crate::object::Object;
use crate::server::known;

/// Nine characters, which the server writes in front of every payload.
const NAME: &std::ffi::CStr = c"twiceshyf";
const VERSION: c_int = 1;

const NONSCALING: u64 = 1;
const ARRIVING: u64 = 2;

/// The type as the server knows it. Set once, when the module is loaded.
struct Registered(Cell<*mut raw::RedisModuleType>);
// SAFETY: written once, before the server has more than one thread that calls us.
unsafe impl Sync for Registered {}
static REGISTERED: Registered = Registered(Cell::new(null_mut()));

/// The type as the server knows it.
pub fn pointer() -> *mut raw::RedisModuleType {
    REGISTERED.0.get()
}

/// Registers the type; `false` if the server refuses.
///
/// # Safety
/// The context is that of `RedisModule_OnLoad`.
pub unsafe fn register(context: *mut raw::RedisModuleCtx) -> bool {
    let mut methods = raw::RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
        rdb_load: Some(rdb_load),
        rdb_save: Some(rdb_save),
        aof_rewrite: Some(aof_rewrite),
        mem_usage: Some(mem_usage),
        digest: Some(digest),
        free: Some(free),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(free_effort),
        unlink: None,
        copy: Some(copy),
        defrag: Some(defrag),
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    };
    // SAFETY: the server copies the methods.
    let registered = unsafe {
        known(raw::RedisModule_CreateDataType)(context, NAME.as_ptr(), VERSION, &mut methods)
    };
    REGISTERED.0.set(registered);
    !registered.is_null()
}

/// Runs a callback's body; a panic ends here, and the callback returns `otherwise`.
fn guarded<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// The object behind a value of our type.
///
/// # Safety
/// The server passes values of our type only, which are boxes of objects, and lends them to one
/// thread at a time.
unsafe fn object<'a>(value: *mut c_void) -> &'a mut Object {
    // SAFETY: the caller's promise.
    unsafe { &mut *value.cast() }
}

unsafe extern "C" fn rdb_save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    guarded((), || {
        // SAFETY: the value is ours.
        let object = unsafe { object(value) };
        let (scaling, arriving) = (object.scaling, object.is_arriving());
        let flags = if scaling { 0 } else { NONSCALING } | if arriving { ARRIVING } else { 0 };
        raw::save_unsigned(io, flags);
        raw::save_unsigned(io, object.adaptations());
        let file = object.to_file();
        raw::save_unsigned(io, file.len().div_ceil(CHUNK) as u64);
        file.chunks(CHUNK).for_each(|chunk| raw::save_slice(io, chunk));
    });
}

unsafe extern "C" fn rdb_load(io: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    guarded(null_mut(), || match load(io, version) {
        Ok(object) => Box::into_raw(Box::new(object)).cast(),
        Err(reason) => {
            let text = format!("twiceshy: a filter cannot be loaded: {reason}");
            let text = std::ffi::CString::new(text.replace('\0', " ")).unwrap_or_default();
            // SAFETY: the text is copied, and has no format of its own.
            unsafe {
                known(raw::RedisModule_LogIOError)(
                    io,
                    c"warning".as_ptr(),
                    c"%s".as_ptr(),
                    text.as_ptr(),
                );
            }
            null_mut()
        }
    })
}

fn load(io: *mut raw::RedisModuleIO, version: c_int) -> Result<Object, String> {
    if version != VERSION {
        return Err(format!("its version is {version}, this module reads {VERSION}"));
    }
    let short = |error| format!("its payload is cut off ({error})");
    let flags = raw::load_unsigned(io).map_err(short)?;
    let adaptations = raw::load_unsigned(io).map_err(short)?;
    let strings = raw::load_unsigned(io).map_err(short)?;
    let mut file = Vec::new();
    for _ in 0..strings {
        let buffer = raw::load_string_buffer(io).map_err(short)?;
        if buffer.as_ref().is_empty() {
            return Err("it has an empty piece".into());
        }
        file.extend_from_slice(buffer.as_ref());
    }
    if flags & !(NONSCALING | ARRIVING) != 0 {
        return Err(format!("it has flags {flags}, which this module does not know"));
    }
    let scaling = flags & NONSCALING == 0;
    if flags & ARRIVING != 0 {
        return Ok(Object::arriving(file, scaling, adaptations));
    }
    Object::from_file(&file, scaling, adaptations).map_err(|error| error.to_string())
}

unsafe extern "C" fn aof_rewrite(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    guarded((), || {
        // SAFETY: the value is ours.
        let object = unsafe { object(value) };
        let file = object.to_file();
        let scaling = if object.scaling { c"SCALING" } else { c"NONSCALING" };
        let mut end = 0;
        for chunk in file.chunks(CHUNK) {
            end += chunk.len();
            let is_last = end == file.len() && !object.is_arriving();
            // SAFETY: a key, a number, a buffer and its length, a number and a text, as the format
            // says; all are written before the function returns.
            unsafe {
                known(raw::RedisModule_EmitAOF)(
                    io,
                    c"AF.LOADCHUNK".as_ptr(),
                    c"slbccl".as_ptr(),
                    key,
                    iterator(end, is_last),
                    chunk.as_ptr().cast::<c_char>(),
                    chunk.len(),
                    scaling.as_ptr(),
                    c"ADAPTATIONS".as_ptr(),
                    i64::try_from(object.adaptations()).unwrap_or(i64::MAX),
                );
            }
        }
    });
}

unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    // SAFETY: the value is ours, and is only read.
    guarded(0, || unsafe { object(value.cast_mut()) }.bytes())
}

unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guarded((), || {
        // SAFETY: the value is ours; the bytes are read before the function returns.
        unsafe {
            let file = object(value).to_file();
            known(raw::RedisModule_DigestAddStringBuffer)(digest, file.as_ptr().cast(), file.len());
            known(raw::RedisModule_DigestEndSequence)(digest);
        }
    });
}

unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server gives the box back, once.
    guarded((), || drop(unsafe { Box::from_raw(value.cast::<Object>()) }));
}

unsafe extern "C" fn free_effort(_key: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the value is ours, and is only read.
    guarded(1, || unsafe { object(value.cast_mut()) }.pieces())
}

unsafe extern "C" fn copy(
    _from: *mut raw::RedisModuleString,
    _to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    guarded(null_mut(), || {
        // SAFETY: the value is ours, and is only read.
        let copied = unsafe { object(value.cast_mut()) }.clone();
        Box::into_raw(Box::new(copied)).cast()
    })
}

/// Moves the object itself. Its tables stay: those of 16 KiB and more are of a size that the
/// allocator does not defragment, and smaller ones are few.
unsafe extern "C" fn defrag(
    context: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: the server copies the object to where it wants it, if anywhere, and frees the old
    // memory. The object has no address of itself.
    unsafe {
        if let Some(move_to) = raw::RedisModule_DefragAlloc {
            let moved = move_to(context, *value);
            if !moved.is_null() {
                *value = moved;
            }
        }
    }
    0
}
