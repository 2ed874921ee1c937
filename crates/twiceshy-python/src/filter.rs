//! [`Filter`]: the Python class.

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use pyo3::exceptions::{PyKeyError, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::RwLockExt as _;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};

use twiceshy::KeyHasher;
use twiceshy::filter::Kind;

use crate::error::no_panic;
use crate::{batch, error, key};

/// An approximate set of keys in memory, about 13 bits per key.
///
/// It answers "definitely absent" or "maybe present", and never "absent" for a key that was
/// added. When your store does not have a key that was answered "maybe", report it with
/// ``adapt``: the filter answers "absent" to that key from then on.
///
/// >>> from twiceshy import Filter
/// >>> seen = Filter(capacity=1_000_000, rate=0.004)
/// >>> seen.add("alice")
/// True
/// >>> "alice" in seen
/// True
/// >>> if "bob" in seen:      # one in 250
/// ...     seen.adapt("bob")  # you looked: your store does not have it
/// >>> "bob" in seen
/// False
///
/// Keys are str, bytes, int, or tuples of these; "a" and b"a" are the same key. They are hashed
/// with a secret that is saved with the filter, so answers are the same in every process and on
/// every machine.
///
/// :param capacity: The number of keys to make room for. The filter takes more and grows, but a
///     good estimate makes it smaller and faster.
/// :param rate: The share of absent keys that may be answered "maybe" the first time; by default
///     one in 450.
/// :param bits_per_key: The memory per key in bits, instead of a rate.
/// :param kind: The filter underneath: ``"line"`` (one cache line per lookup), ``"plain"`` (a
///     cuckoo filter) or ``"rsqf"`` (a quotient filter: smaller and slower).
/// :param exceptions: The size of the table of adapted keys in bits per key, by default 0.5 or 0.25.
///     With 0 the filter does not adapt.
/// :param hasher: ``"siphash"``, or ``"xxh3"``: faster, for keys that no attacker chooses.
/// :param secret: 16 bytes (8 for ``"xxh3"``), by default random. Filters can be joined if they
///     have the same secret. Protect it as well as the keys.
#[pyclass(frozen, module = "twiceshy", weakref)]
pub(crate) struct Filter {
    filter: RwLock<twiceshy::Filter>,
    /// The filter's own, to hash keys before the lock is taken.
    hasher: KeyHasher,
}

impl From<twiceshy::Filter> for Filter {
    fn from(filter: twiceshy::Filter) -> Self {
        let hasher = filter.hasher().clone();
        Filter { filter: RwLock::new(filter), hasher }
    }
}

/// Answers that memory is reserved for at once.
const MOST_RESERVED: usize = 1 << 24;

/// The lock of a filter that another thread left in an unknown state.
fn poisoned<T>(_: PoisonError<T>) -> PyErr {
    PyRuntimeError::new_err(
        "an earlier change of this filter failed halfway; build or load it anew",
    )
}

impl Filter {
    /// Looks at the filter while attached to the interpreter: for what is quick.
    #[inline]
    fn look<T>(&self, py: Python<'_>, at: impl FnOnce(&twiceshy::Filter) -> T) -> PyResult<T> {
        no_panic(|| Ok(at(&*self.filter.read_py_attached(py).map_err(poisoned)?)))
    }

    /// [`Filter::look`] while detached from it, which other threads can use meanwhile.
    fn look_detached<T: Send>(
        &self,
        py: Python<'_>,
        at: impl FnOnce(&twiceshy::Filter) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| no_panic(|| at(&*self.filter.read().map_err(poisoned)?)))
    }

    /// Changes the filter while attached to the interpreter: for what is quick.
    #[inline]
    fn change<T>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut twiceshy::Filter) -> T,
    ) -> PyResult<T> {
        no_panic(|| Ok(change(&mut *self.filter.write_py_attached(py).map_err(poisoned)?)))
    }

    /// Calls `change` with the digests of all keys; returns how often it returned `true`.
    fn change_many(
        &self,
        keys: &Bound<'_, PyAny>,
        change: fn(&mut twiceshy::Filter, twiceshy::Digest) -> bool,
    ) -> PyResult<usize> {
        let mut changed = 0;
        batch::for_each_chunk(keys, &self.hasher, |digests| {
            let filter = &mut *self.filter.write().map_err(poisoned)?;
            changed += digests.iter().filter(|&&digest| change(filter, digest)).count();
            Ok(())
        })?;
        Ok(changed)
    }

    /// Hides a key; `false` if it is definitely absent already.
    fn hide(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let digest = key::digest(&self.hasher, key)?;
        let (was_there, hidden) = self.change(key.py(), |filter| {
            (filter.contains_digest(digest), filter.adapt_digest(digest))
        })?;
        if was_there && !hidden {
            return Err(PyValueError::new_err(
                "this filter was made with exceptions=0, so it cannot remove a key",
            ));
        }
        Ok(was_there)
    }
}

#[pymethods]
impl Filter {
    #[new]
    #[pyo3(signature = (
        capacity, rate=None, *, bits_per_key=None, kind="line", exceptions=None,
        hasher="siphash", secret=None,
    ))]
    fn new(
        capacity: i64,
        rate: Option<f64>,
        bits_per_key: Option<f64>,
        kind: &str,
        exceptions: Option<f64>,
        hasher: &str,
        secret: Option<PyBackedBytes>,
    ) -> PyResult<Self> {
        let kind = match kind {
            "line" => Kind::Line,
            "plain" => Kind::Plain,
            "rsqf" => Kind::Rsqf,
            other => {
                return Err(PyValueError::new_err(format!(
                    "kind={other:?}: there are \"line\", \"plain\" and \"rsqf\""
                )));
            }
        };
        let hasher = key_hasher(hasher, secret.as_deref())?;
        // The builder names a capacity of zero.
        let capacity = usize::try_from(capacity)
            .map_err(|_| PyValueError::new_err(format!("capacity={capacity}: at least 1")))?;
        let mut builder = twiceshy::Filter::builder().capacity(capacity).kind(kind).hasher(hasher);
        if let Some(rate) = rate {
            builder = builder.rate(rate);
        }
        if let Some(bits) = bits_per_key {
            builder = builder.bits_per_key(bits);
        }
        if let Some(bits) = exceptions {
            builder = builder.exceptions(bits);
        }
        no_panic(|| {
            let bytes = builder.bytes().map_err(error::from_filter)?;
            // The filter's own allocation would end the process.
            Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| {
                PyMemoryError::new_err(format!("capacity={capacity} takes {bytes} bytes"))
            })?;
            Ok(builder.build().map_err(error::from_filter)?.into())
        })
    }

    /// Whether the key may be present. False is certain.
    #[inline]
    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let digest = key::digest(&self.hasher, key)?;
        self.look(key.py(), |filter| filter.contains_digest(digest))
    }

    /// Adds a key. False if the filter already answered "maybe".
    fn add(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let digest = key::digest(&self.hasher, key)?;
        self.change(key.py(), |filter| filter.insert_digest(digest))
    }

    /// Adds all keys of the iterables.
    #[pyo3(signature = (*keys))]
    fn update(&self, keys: &Bound<'_, PyTuple>) -> PyResult<()> {
        keys.iter().try_for_each(|keys| self.add_many(&keys).map(drop))
    }

    /// Adds many keys: a list, an array of numpy (integers, ``S`` or ``U``), a column of pyarrow,
    /// pandas or polars, or any iterable. Returns how many the filter did not answer "maybe"
    /// before.
    fn add_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.change_many(keys, twiceshy::Filter::insert_digest)
    }

    /// ``key in filter`` for many keys, which are given as for ``add_many``. Returns an array of
    /// bools for an array or a column (a list if there is no numpy), and a list for anything else.
    /// Other threads run meanwhile.
    ///
    /// >>> from twiceshy import Filter
    /// >>> seen = Filter(1000)
    /// >>> seen.update(["a", "b"])
    /// >>> seen.contains_many(["a", "b"])
    /// [True, True]
    fn contains_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // What has a length need not have as many keys.
        let mut found = Vec::with_capacity(keys.len().unwrap_or_default().min(MOST_RESERVED));
        let form = batch::for_each_chunk(keys, &self.hasher, |digests| {
            let start = found.len();
            found.resize(start + digests.len(), false);
            self.filter.read().map_err(poisoned)?.answer_digests(digests, &mut found[start..]);
            Ok(())
        })?;
        batch::answers(keys.py(), form, &found)
    }

    /// Reports that a key which the filter answered "maybe" is not stored. It answers "absent"
    /// from now on, until the key is added, or until its exception makes room for others.
    /// Exceptions in use stay. False if it already answers "absent".
    ///
    /// Report absent keys only: a stored key would be hidden.
    fn adapt(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let digest = key::digest(&self.hasher, key)?;
        self.change(key.py(), |filter| filter.adapt_digest(digest))
    }

    /// ``adapt`` for many keys. Returns how many the filter adapted to.
    fn adapt_many(&self, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.change_many(keys, twiceshy::Filter::adapt_digest)
    }

    /// Hides a key, if the filter answers "maybe" to it; otherwise does nothing.
    ///
    /// The filter keeps no copies of its keys, so it cannot erase one. It notes an exception, as
    /// ``adapt`` does: the key reads as absent until you add it again, or until other exceptions
    /// push this one out. ``len`` and memory stay the same. Each hidden key takes one of the
    /// ``exceptions_room`` of ``stats()``, by default about one per 200 keys of capacity; where
    /// many keys come and go, use a ``Guard``, which really removes them.
    ///
    /// :raises ValueError: If the filter was made with ``exceptions=0`` and answers "maybe".
    fn discard(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.hide(key).map(drop)
    }

    /// ``discard`` of a key that must be there.
    ///
    /// :raises KeyError: If the key is definitely absent. A key that was never added, but is
    ///     answered "maybe", is hidden without an error.
    /// :raises ValueError: As ``discard`` does.
    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.hide(key)? {
            true => Ok(()),
            // In a tuple, or the parts of a key that is one would be the arguments.
            false => Err(PyKeyError::new_err((key.clone().unbind(),))),
        }
    }

    /// Removes all keys and exceptions.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            no_panic(|| self.filter.write().map(|mut filter| filter.clear()).map_err(poisoned))
        })
    }

    /// A copy with the same secret.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        self.look_detached(py, |filter| Ok(filter.clone().into()))
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Self> {
        self.copy(py)
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.copy(py)
    }

    /// Equal filters have the same secret and answer every query alike.
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.cast::<Filter>() else { return Ok(py.NotImplemented()) };
        let other = other.get();
        let equal = std::ptr::eq(self, other)
            || py.detach(|| {
                no_panic(|| {
                    // In one order, so that no two threads wait for each other.
                    let mut both = [self, other];
                    both.sort_unstable_by_key(|filter| std::ptr::from_ref(*filter));
                    let first = both[0].filter.read().map_err(poisoned)?;
                    let second = both[1].filter.read().map_err(poisoned)?;
                    Ok(*first == *second)
                })
            })?;
        Ok(equal.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    /// A filter that answers "maybe" exactly where one of the two does. Both must have the same
    /// secret.
    fn __or__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if !other.is_instance_of::<Filter>() {
            return Ok(py.NotImplemented());
        }
        let joined = self.copy(py)?;
        // Of one filter with itself nothing has to be joined.
        if !std::ptr::eq(self, other.cast::<Filter>()?.get()) {
            joined.__ior__(other)?;
        }
        Ok(Bound::new(py, joined)?.into_any().unbind())
    }

    fn __ior__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(other) = other.cast::<Filter>() else {
            let name = other.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "only a Filter can be joined to a Filter, not {name}; update() takes keys"
            )));
        };
        let py = other.py();
        let other = other.get();
        if other.hasher != self.hasher {
            return Err(PyValueError::new_err(
                "two filters can be joined only if they have the same hasher and secret: make \
                 both with secret=..., or one as a copy() of the other",
            ));
        }
        if std::ptr::eq(self, other) {
            return Ok(());
        }
        py.detach(|| {
            no_panic(|| {
                let copy = other.filter.read().map_err(poisoned)?.clone();
                self.filter.write().map_err(poisoned)?.absorb(copy).map_err(error::from_filter)
            })
        })
    }

    /// About how many keys were added: those that were false positives then are not counted.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.look(py, twiceshy::Filter::len)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.look(py, |filter| !filter.is_empty())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let stats = self.look(py, twiceshy::Filter::stats)?;
        Ok(format!(
            "<twiceshy.Filter: about {} keys of {}, rate {:.2e}, {} of {} exceptions, {} bytes>",
            stats.len,
            stats.capacity,
            stats.rate,
            stats.exceptions,
            stats.exceptions_room,
            stats.bytes
        ))
    }

    /// Counts and sizes: ``len``, ``capacity``, ``layers`` (more than 1 if the filter has grown),
    /// ``rate`` (with the keys of now), ``exceptions``, ``exceptions_room``, ``bytes`` (all of its
    /// memory), ``fingerprint_bytes`` and ``exception_bytes``.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.look(py, twiceshy::Filter::stats)?;
        let dict = PyDict::new(py);
        dict.set_item("len", stats.len)?;
        dict.set_item("capacity", stats.capacity)?;
        dict.set_item("layers", stats.layers)?;
        dict.set_item("rate", stats.rate)?;
        dict.set_item("exceptions", stats.exceptions)?;
        dict.set_item("exceptions_room", stats.exceptions_room)?;
        dict.set_item("bytes", stats.bytes)?;
        dict.set_item("fingerprint_bytes", stats.fingerprint_bytes)?;
        dict.set_item("exception_bytes", stats.exception_bytes)?;
        Ok(dict)
    }

    /// Saves the filter in a file, with its secret, so that only the file's owner can read it. The
    /// file is replaced atomically. ``twiceshy query`` and Rust's ``Filter::load`` read it.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.look_detached(py, |filter| filter.save(path).map_err(error::from_io))
    }

    /// Loads a filter that ``save``, Rust's ``Filter::save`` or ``twiceshy build --never`` wrote.
    ///
    /// :raises ValueError: If the file is damaged or is not a filter.
    #[classmethod]
    fn load(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| no_panic(|| Ok(twiceshy::Filter::load(path).map_err(error::from_io)?.into())))
    }

    /// The bytes of ``save``, secret included.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.look_detached(py, |filter| Ok(filter.to_bytes()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The filter that ``to_bytes`` gave.
    ///
    /// :raises ValueError: For other bytes.
    #[classmethod]
    fn from_bytes(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        data: PyBackedBytes,
    ) -> PyResult<Self> {
        let load = || twiceshy::Filter::from_bytes(&data).map_err(error::from_filter);
        py.detach(|| no_panic(|| Ok(load()?.into())))
    }

    /// Pickles the bytes of ``to_bytes``, secret included.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let bytes = slf.get().to_bytes(slf.py())?;
        Ok((slf.get_type().getattr("from_bytes")?, PyTuple::new(slf.py(), [bytes])?))
    }
}

fn key_hasher(name: &str, secret: Option<&[u8]>) -> PyResult<KeyHasher> {
    let wrong_length = |bytes: usize| {
        PyValueError::new_err(format!("a secret for hasher={name:?} has {bytes} bytes"))
    };
    match (name, secret) {
        ("siphash", None) => Ok(KeyHasher::random()),
        ("siphash", Some(secret)) => {
            Ok(KeyHasher::keyed(secret.try_into().map_err(|_| wrong_length(16))?))
        }
        ("xxh3", None) => {
            // Half of a random secret; the seed is none.
            let [_, bytes @ ..] = KeyHasher::random().to_bytes();
            let (seed, _) = bytes.split_first_chunk().expect("16 bytes");
            Ok(KeyHasher::fast(u64::from_le_bytes(*seed)))
        }
        ("xxh3", Some(secret)) => {
            let seed = secret.try_into().map_err(|_| wrong_length(8))?;
            Ok(KeyHasher::fast(u64::from_le_bytes(seed)))
        }
        _ => Err(PyValueError::new_err(format!(
            "hasher={name:?}: there are \"siphash\" and \"xxh3\""
        ))),
    }
}
