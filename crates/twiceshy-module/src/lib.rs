//! A filter type for Redis and Valkey that adapts to reported false positives.
//!
//! ```text
//! AF.ADD seen alice            1
//! AF.EXISTS seen bob           1: maybe. Your database says there is no bob ...
//! AF.ADAPT seen bob            fixed
//! AF.EXISTS seen bob           0: ... and is not asked again
//! ```
//!
//! | file | knows |
//! | --- | --- |
//! | `object.rs`, `exact.rs`, `recent.rs` | filters and what comes with them; nothing of the server |
//! | `commands/` | the commands: arguments in, replies out |
//! | `kind.rs` | the type: saving, loading, copying, freeing |
//! | `docs.rs`, `options.rs`, `errors.rs` | what clients and operators read and write |
//! | `server.rs`, `allocator.rs` | the server's API (with `kind.rs`, all `unsafe` there is) |
//!
//! `docs/guide/module.md` is the manual.

mod allocator;
mod commands;
mod docs;
mod errors;
mod exact;
mod kind;
mod object;
mod options;
mod recent;
mod server;

use std::ffi::{CStr, CString, c_int};

use redis_module::raw;

use commands::{Command, entry};
use options::Options;
use server::{Call, known};

#[global_allocator]
static ALLOCATOR: allocator::ServerAllocator = allocator::ServerAllocator;

/// The module's name and version, as `MODULE LIST` shows them.
const NAME: &CStr = c"twiceshy";
const VERSION: c_int = 100;

/// The ACL category of all commands, where the server lets modules have one.
const CATEGORY: &CStr = c"twiceshy";

/// What the server calls when it loads the module.
///
/// # Safety
/// Called by the server, once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    context: *mut raw::RedisModuleCtx,
    arguments: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    let (ok, failed) = (raw::REDISMODULE_OK as c_int, raw::REDISMODULE_ERR as c_int);
    // Nothing is allocated before this: it also sets the functions of the allocator.
    // SAFETY: the server's context; the name is copied.
    let initialised = unsafe {
        let version = raw::REDISMODULE_APIVER_1 as c_int;
        raw::Export_RedisModule_Init(context, NAME.as_ptr(), VERSION, version)
    };
    if initialised != ok {
        return failed;
    }
    // SAFETY: the server's arguments.
    match unsafe { load(context, Call::new(context, arguments, count)) } {
        Ok(()) => ok,
        Err(reason) => {
            let text = CString::new(format!("twiceshy: {reason}")).unwrap_or_default();
            // SAFETY: the text is copied, and is no format.
            unsafe {
                known(raw::RedisModule_Log)(
                    context,
                    c"warning".as_ptr(),
                    c"%s".as_ptr(),
                    text.as_ptr(),
                );
            }
            failed
        }
    }
}

/// Registers the type and the commands.
///
/// # Safety
/// The context is that of `RedisModule_OnLoad`.
unsafe fn load(context: *mut raw::RedisModuleCtx, call: Call<'_>) -> Result<(), String> {
    let arguments = (0..call.len()).map_while(|index| call.argument(index).ok());
    let options = Options::parse(&arguments.collect::<Vec<_>>())?;
    options.apply();
    let handled =
        raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    // SAFETY: the context is that of the loading.
    unsafe {
        known(raw::RedisModule_SetModuleOptions)(context, handled as c_int);
        if !kind::register(context) {
            return Err("the server refuses the type; is another version loaded?".into());
        }
        if let Some(add_category) = raw::RedisModule_AddACLCategory {
            add_category(context, CATEGORY.as_ptr());
        }
        register::<commands::reserve::Reserve>(context, &options)?;
        register::<commands::add::Add>(context, &options)?;
        register::<commands::add::Madd>(context, &options)?;
        register::<commands::add::Insert>(context, &options)?;
        register::<commands::query::Exists>(context, &options)?;
        register::<commands::query::Mexists>(context, &options)?;
        register::<commands::query::Card>(context, &options)?;
        register::<commands::adapt::Adapt>(context, &options)?;
        register::<commands::adapt::Del>(context, &options)?;
        register::<commands::adapt::Mdel>(context, &options)?;
        register::<commands::info::Info>(context, &options)?;
        register::<commands::dump::Scandump>(context, &options)?;
        register::<commands::dump::Loadchunk>(context, &options)?;
        register::<commands::merge::Merge>(context, &options)
    }
}

/// Registers a command, and its alias if the operator wants it.
///
/// # Safety
/// The context is that of `RedisModule_OnLoad`.
unsafe fn register<C: Command>(
    context: *mut raw::RedisModuleCtx,
    options: &Options,
) -> Result<(), String> {
    let alias = C::ALIAS.filter(|_| options.bf_commands);
    for name in [Some(C::NAME), alias].into_iter().flatten() {
        let flags = C::FLAGS.text();
        // SAFETY: the context is that of the loading, and the texts are static.
        unsafe {
            let created = known(raw::RedisModule_CreateCommand)(
                context,
                name.as_ptr(),
                Some(entry::<C>),
                flags.as_ptr(),
                1,
                C::LAST_KEY,
                1,
            );
            if created != raw::REDISMODULE_OK as c_int {
                let name = name.to_string_lossy();
                return Err(format!(
                    "another module has the command {name}: load only one of them, or this one \
                     without BF-COMMANDS"
                ));
            }
            let Some(get) = raw::RedisModule_GetCommand else { continue };
            let command = get(context, name.as_ptr());
            C::DOCS.set(command, C::FLAGS.writes(), C::LAST_KEY);
            if let Some(set_categories) = raw::RedisModule_SetCommandACLCategories {
                set_categories(command, CATEGORY.as_ptr());
            }
        }
    }
    Ok(())
}
