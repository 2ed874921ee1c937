//! What `COMMAND DOCS` says, and the hints that `redis-cli` shows.

use std::ffi::{CStr, c_int};
use std::ptr::{null, null_mut};

use redis_module::raw;

/// The documentation of a command.
pub struct Docs {
    pub summary: &'static CStr,
    pub complexity: &'static CStr,
    /// The number of arguments with the name, or minus the least.
    pub arity: c_int,
    pub args: &'static [Arg],
}

/// An argument of a command.
#[derive(Clone, Copy)]
pub struct Arg {
    pub name: &'static CStr,
    pub kind: Kind,
    /// A word in front of it.
    pub token: Option<&'static CStr>,
    pub is_optional: bool,
    pub is_multiple: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Key,
    String,
    Integer,
    Double,
    /// The token and nothing else.
    Flag,
}

impl Arg {
    pub const KEY: Self = Self::of(c"key", Kind::Key);
    pub const ITEM: Self = Self::string(c"item");
    pub const ITEMS: Self = Arg { is_multiple: true, ..Self::ITEM };

    const fn of(name: &'static CStr, kind: Kind) -> Self {
        Arg { name, kind, token: None, is_optional: false, is_multiple: false }
    }

    pub const fn string(name: &'static CStr) -> Self {
        Self::of(name, Kind::String)
    }

    pub const fn integer(name: &'static CStr) -> Self {
        Self::of(name, Kind::Integer)
    }

    pub const fn double(name: &'static CStr) -> Self {
        Self::of(name, Kind::Double)
    }

    /// An optional word.
    pub const fn flag(name: &'static CStr, token: &'static CStr) -> Self {
        Self::option(Self::of(name, Kind::Flag), token)
    }

    /// An optional value behind a word.
    pub const fn option(value: Self, token: &'static CStr) -> Self {
        Arg { token: Some(token), is_optional: true, ..value }
    }

    fn raw(self) -> raw::RedisModuleCommandArg {
        let type_ = match self.kind {
            Kind::Key => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
            Kind::String => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
            Kind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
            Kind::Double => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_DOUBLE,
            Kind::Flag => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
        };
        let optional = if self.is_optional { raw::REDISMODULE_CMD_ARG_OPTIONAL } else { 0 };
        let multiple = if self.is_multiple { raw::REDISMODULE_CMD_ARG_MULTIPLE } else { 0 };
        raw::RedisModuleCommandArg {
            name: self.name.as_ptr(),
            type_,
            key_spec_index: if self.kind == Kind::Key { 0 } else { -1 },
            token: self.token.map_or(null(), CStr::as_ptr),
            flags: (optional | multiple) as c_int,
            ..EMPTY_ARG
        }
    }
}

/// Also the end of a list.
const EMPTY_ARG: raw::RedisModuleCommandArg = raw::RedisModuleCommandArg {
    name: null(),
    type_: 0,
    key_spec_index: -1,
    token: null(),
    summary: null(),
    since: null(),
    flags: 0,
    deprecated_since: null(),
    subargs: null_mut(),
    display_text: null(),
};

static VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

impl Docs {
    /// Documents a command whose keys are the first `last_key` arguments, all of them if that is
    /// -1. Redis before 7.0 has no such documentation.
    ///
    /// # Safety
    /// The command is one that the module has just registered.
    pub unsafe fn set(&self, command: *mut raw::RedisModuleCommand, writes: bool, last_key: c_int) {
        // SAFETY: function pointers are set once, when the module is loaded.
        let Some(set) = (unsafe { raw::RedisModule_SetCommandInfo }) else { return };
        let access = if writes {
            raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE
        } else {
            raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS
        };
        // SAFETY: zeros are a value of this C structure, and the end of a list of them.
        let end: raw::RedisModuleCommandKeySpec = unsafe { std::mem::zeroed() };
        let mut keys = [end; 2];
        keys[0].flags = u64::from(access);
        keys[0].begin_search_type =
            raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
        keys[0].bs.index.pos = 1;
        keys[0].find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
        keys[0].fk.range.lastkey = if last_key < 0 { last_key } else { last_key - 1 };
        keys[0].fk.range.keystep = 1;
        let args = self.args.iter().map(|arg| arg.raw()).chain([EMPTY_ARG]);
        let mut args: Vec<raw::RedisModuleCommandArg> = args.collect();
        let info = raw::RedisModuleCommandInfo {
            version: &raw const VERSION,
            summary: self.summary.as_ptr(),
            complexity: self.complexity.as_ptr(),
            since: c"0.2.0".as_ptr(),
            history: null_mut(),
            tips: null(),
            arity: self.arity,
            key_specs: keys.as_mut_ptr(),
            args: args.as_mut_ptr(),
        };
        // SAFETY: the lists end with an empty entry, and the server copies everything.
        unsafe { set(command, &raw const info) };
    }
}
