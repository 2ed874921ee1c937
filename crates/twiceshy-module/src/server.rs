//! The server's module API, as far as commands use it: the arguments of a call, keys, replies,
//! replication. With the allocator and the callbacks of the type (`kind.rs`), all `unsafe` there is.

use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::ptr::{null_mut, slice_from_raw_parts};

use redis_module::raw;

use crate::kind;
use crate::object::Object;

/// A function of the API that every server since Redis 6.2 has.
pub fn known<F>(function: Option<F>) -> F {
    function.expect("every server since Redis 6.2 has it")
}

/// One call of a command.
pub struct Call<'a> {
    context: *mut raw::RedisModuleCtx,
    arguments: &'a [*mut raw::RedisModuleString],
}

/// Why a command did nothing.
#[derive(Debug, PartialEq)]
pub enum Failure {
    /// Too few arguments or too many.
    Arity,
    /// The key holds something else.
    Type,
    /// What is wrong, and what to do.
    Message(String),
}

impl From<twiceshy_filters::Error> for Failure {
    fn from(error: twiceshy_filters::Error) -> Self {
        Failure::Message(crate::errors::text(&error))
    }
}

/// The answer to a command.
#[derive(Debug, PartialEq)]
pub enum Reply {
    Ok,
    Integer(i64),
    Double(f64),
    Text(&'static str),
    Bytes(Vec<u8>),
    Error(String),
    Array(Vec<Reply>),
    Map(Vec<(&'static str, Reply)>),
}

pub type Outcome = Result<Reply, Failure>;

impl<'a> Call<'a> {
    /// # Safety
    /// The three are those of a command callback that has not returned.
    pub unsafe fn new(
        context: *mut raw::RedisModuleCtx,
        arguments: *mut *mut raw::RedisModuleString,
        count: c_int,
    ) -> Self {
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the server passes that many strings.
        let arguments = unsafe { &*slice_from_raw_parts(arguments, count) };
        Call { context, arguments }
    }

    /// The number of arguments, the command's name included.
    pub fn len(&self) -> usize {
        self.arguments.len()
    }

    /// An argument; the first is the command's name.
    ///
    /// # Errors
    /// [`Failure::Arity`] if there are not so many.
    pub fn argument(&self, index: usize) -> Result<&'a [u8], Failure> {
        let string = *self.arguments.get(index).ok_or(Failure::Arity)?;
        let mut len = 0;
        // SAFETY: the string lives as long as the call, and its bytes do not change meanwhile.
        unsafe {
            let start = known(raw::RedisModule_StringPtrLen)(string, &mut len);
            Ok(&*slice_from_raw_parts(start.cast(), len))
        }
    }

    /// The arguments from one on, at least one of them.
    ///
    /// # Errors
    /// [`Failure::Arity`] if there is none.
    pub fn arguments_from(&self, index: usize) -> Result<Vec<&'a [u8]>, Failure> {
        if index >= self.len() {
            return Err(Failure::Arity);
        }
        (index..self.len()).map(|index| self.argument(index)).collect()
    }

    /// Opens the key that an argument names, to read it.
    ///
    /// # Errors
    /// [`Failure::Arity`] if there is no such argument.
    pub fn read(&self, index: usize) -> Result<Key<'_>, Failure> {
        self.open(index, raw::REDISMODULE_READ as c_int)
    }

    /// Opens the key that an argument names, to change it.
    ///
    /// # Errors
    /// [`Failure::Arity`] if there is no such argument.
    pub fn write(&self, index: usize) -> Result<Key<'_>, Failure> {
        self.open(index, (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE) as c_int)
    }

    fn open(&self, index: usize, mode: c_int) -> Result<Key<'_>, Failure> {
        let name = *self.arguments.get(index).ok_or(Failure::Arity)?;
        // SAFETY: context and name are those of the call.
        let key = unsafe { known(raw::RedisModule_OpenKey)(self.context, name, mode) };
        Ok(Key { key, call: PhantomData })
    }

    /// Whether the call comes from a primary or from the append-only file: it was accepted once,
    /// and has to be again.
    pub fn is_repeated(&self) -> bool {
        let repeated = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        // SAFETY: the context is that of the call.
        let flags = unsafe { known(raw::RedisModule_GetContextFlags)(self.context) };
        flags & repeated as c_int != 0
    }

    /// Sends a command to replicas and to the append-only file.
    pub fn replicate(&self, command: &CStr, arguments: &[&[u8]]) {
        let create = known(
            // SAFETY: function pointers are set once, when the module is loaded.
            unsafe { raw::RedisModule_CreateString },
        );
        let mut strings: Vec<*mut raw::RedisModuleString> = arguments
            .iter()
            // SAFETY: the bytes are read before the function returns.
            .map(|bytes| unsafe { create(self.context, bytes.as_ptr().cast(), bytes.len()) })
            .collect();
        // SAFETY: "v" takes a vector of strings and their number; they are freed afterwards, once.
        unsafe {
            known(raw::RedisModule_Replicate)(
                self.context,
                command.as_ptr(),
                c"v".as_ptr(),
                strings.as_mut_ptr(),
                strings.len(),
            );
            for string in strings {
                known(raw::RedisModule_FreeString)(self.context, string);
            }
        }
    }

    /// Sends the call itself to replicas and to the append-only file.
    pub fn replicate_verbatim(&self) {
        // SAFETY: the context is that of the call.
        unsafe { known(raw::RedisModule_ReplicateVerbatim)(self.context) };
    }

    /// Tells subscribers of keyspace events what happened to the key that an argument names.
    pub fn notify(&self, event: &CStr, index: usize) {
        let (notify, kind) = (
            // SAFETY: function pointers are set once, when the module is loaded.
            known(unsafe { raw::RedisModule_NotifyKeyspaceEvent }),
            raw::REDISMODULE_NOTIFY_GENERIC as c_int,
        );
        // SAFETY: the name of the key is an argument of the call.
        unsafe { notify(self.context, kind, event.as_ptr(), self.arguments[index]) };
    }

    /// Answers the call.
    pub fn answer(&self, outcome: Outcome) {
        match outcome {
            Ok(reply) => self.send(&reply),
            // SAFETY: the context is that of the call.
            Err(Failure::Arity) => unsafe {
                known(raw::RedisModule_WrongArity)(self.context);
            },
            Err(Failure::Type) => self.send_error(
                "WRONGTYPE Operation against a key holding the wrong kind of value".into(),
            ),
            Err(Failure::Message(text)) => self.send_error(format!("ERR {text}")),
        }
    }

    fn send_error(&self, text: String) {
        // An error is one line of text.
        let line = text.replace(['\0', '\r', '\n'], " ");
        let line = CString::new(line).expect("no zeros are left");
        // SAFETY: the text is copied.
        unsafe { known(raw::RedisModule_ReplyWithError)(self.context, line.as_ptr()) };
    }

    fn send(&self, reply: &Reply) {
        let context = self.context;
        // SAFETY: the context is that of the call, and everything else is copied. Arrays and maps
        // are followed by as many replies as they announce.
        unsafe {
            match reply {
                Reply::Ok => {
                    known(raw::RedisModule_ReplyWithSimpleString)(context, c"OK".as_ptr());
                }
                Reply::Integer(number) => {
                    known(raw::RedisModule_ReplyWithLongLong)(context, *number);
                }
                Reply::Double(number) => {
                    known(raw::RedisModule_ReplyWithDouble)(context, *number);
                }
                Reply::Text(text) => send_bytes(context, text.as_bytes()),
                Reply::Bytes(bytes) => send_bytes(context, bytes),
                Reply::Error(text) => self.send_error(format!("ERR {text}")),
                Reply::Array(replies) => {
                    known(raw::RedisModule_ReplyWithArray)(context, length(replies.len()));
                    replies.iter().for_each(|reply| self.send(reply));
                }
                Reply::Map(entries) => {
                    // Redis 6.2 has no maps; clients of the old protocol get an array anyway.
                    match raw::RedisModule_ReplyWithMap {
                        Some(map) => map(context, length(entries.len())),
                        None => known(raw::RedisModule_ReplyWithArray)(
                            context,
                            length(2 * entries.len()),
                        ),
                    };
                    for (name, value) in entries {
                        send_bytes(context, name.as_bytes());
                        self.send(value);
                    }
                }
            }
        }
    }
}

/// # Safety
/// The context is that of a call.
unsafe fn send_bytes(context: *mut raw::RedisModuleCtx, bytes: &[u8]) {
    // SAFETY: the bytes are copied.
    unsafe {
        known(raw::RedisModule_ReplyWithStringBuffer)(
            context,
            bytes.as_ptr().cast::<c_char>(),
            bytes.len(),
        );
    }
}

fn length(len: usize) -> std::ffi::c_long {
    len.try_into().expect("as many as there are arguments")
}

/// A key that is open.
pub struct Key<'a> {
    /// Null for a missing key that was opened to be read.
    key: *mut raw::RedisModuleKey,
    call: PhantomData<&'a ()>,
}

impl Key<'_> {
    /// The object of the key; `None` if there is no such key.
    ///
    /// # Errors
    /// [`Failure::Type`] if it holds something else.
    fn pointer(&self) -> Result<Option<*mut Object>, Failure> {
        // SAFETY: the key is open, or null, which counts as empty. An object of our type is a box
        // that `Key::set` or a callback of the type made.
        unsafe {
            if known(raw::RedisModule_KeyType)(self.key) == raw::REDISMODULE_KEYTYPE_EMPTY as c_int
            {
                return Ok(None);
            }
            if known(raw::RedisModule_ModuleTypeGetType)(self.key) != kind::pointer() {
                return Err(Failure::Type);
            }
            Ok(Some(known(raw::RedisModule_ModuleTypeGetValue)(self.key).cast()))
        }
    }

    /// The object of the key; `None` if there is no such key.
    ///
    /// # Errors
    /// [`Failure::Type`] if it holds something else.
    pub fn get(&self) -> Result<Option<&Object>, Failure> {
        // SAFETY: commands run one at a time, and the object lives as long as the key is open.
        Ok(self.pointer()?.map(|object| unsafe { &*object }))
    }

    /// The same, to be changed. The key has to be open for that.
    ///
    /// # Errors
    /// Likewise.
    pub fn get_mut(&mut self) -> Result<Option<&mut Object>, Failure> {
        // SAFETY: likewise; `self` is borrowed exclusively.
        Ok(self.pointer()?.map(|object| unsafe { &mut *object }))
    }

    /// Makes an object the value of the key, and drops the one that it has.
    pub fn set(&mut self, object: Object) -> &mut Object {
        let object = Box::into_raw(Box::new(object));
        // SAFETY: the key is open for changes; from now on the server owns the box, and gives it
        // back to the type's `free`.
        unsafe {
            known(raw::RedisModule_ModuleTypeSetValue)(self.key, kind::pointer(), object.cast());
            &mut *object
        }
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: it was opened once, and null is allowed.
        unsafe { known(raw::RedisModule_CloseKey)(std::mem::replace(&mut self.key, null_mut())) };
    }
}

/// A number that an argument spells out.
pub fn number<T: std::str::FromStr>(name: &str, bytes: &[u8]) -> Result<T, Failure> {
    let text = std::str::from_utf8(bytes).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        Failure::Message(format!("{name} is not a number: {}", String::from_utf8_lossy(bytes)))
    })
}
