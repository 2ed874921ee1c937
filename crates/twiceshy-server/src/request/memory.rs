//! The memory of a request that is arriving: the buffer that it is read into, and the
//! arguments, which are parts of that buffer.

use bytes::{Bytes, BytesMut};

use super::Requests;
use crate::memory::FREE;

/// What an argument takes besides its bytes: its place in this list, and in those that
/// commands make of it.
const OF_AN_ARGUMENT: usize = 3 * size_of::<Bytes>();

/// So much of a request is copied, rather than keep a large buffer for it.
const LITTLE: usize = 16 << 10;

impl Requests {
    /// Memory of the buffer and of the arguments that have come.
    pub(crate) fn memory(&self) -> usize {
        if !self.is_partial() {
            return self.allocated;
        }
        self.allocated + self.earlier + self.arguments.capacity() * OF_AN_ARGUMENT
    }

    /// How much more memory [`Requests::reserve`] takes.
    pub(crate) fn growth(&self, buffer: &mut BytesMut, bytes: usize) -> usize {
        match self.shared {
            _ if buffer.try_reclaim(bytes) => 0,
            true => buffer.len() + bytes,
            // It becomes twice as large.
            false => bytes.max(self.allocated),
        }
    }

    /// Makes room for so many bytes more. Nothing else may have parts of the buffer than
    /// the request that is arriving.
    pub(crate) fn reserve(&mut self, buffer: &mut BytesMut, bytes: usize) {
        if self.shared && self.allocated > FREE && self.is_little(0) && !buffer.try_reclaim(bytes) {
            self.detach();
        }
        if buffer.try_reclaim(bytes) {
            return;
        }
        buffer.reserve(bytes);
        if self.shared {
            (self.shared, self.earlier) = (false, self.earlier + self.allocated);
            self.allocated = buffer.capacity();
        } else {
            // `capacity` does not count the room of requests that are done.
            self.allocated = buffer.capacity().max(2 * self.allocated);
        }
    }

    /// Gives a large buffer back when little of it is needed. Nothing else may have parts
    /// of it than the request that is arriving.
    pub(crate) fn tidy(&mut self, buffer: &mut BytesMut) {
        if self.allocated > FREE && self.is_little(buffer.len()) {
            self.detach();
            *buffer = BytesMut::from(&buffer[..]);
            self.allocated = buffer.capacity();
        }
    }

    /// Whether little has come, with so many bytes besides the arguments.
    fn is_little(&self, besides: usize) -> bool {
        let arguments = if self.is_partial() { self.bytes - self.bulk.unwrap_or(0) } else { 0 };
        arguments + self.arguments.len() * OF_AN_ARGUMENT + besides <= LITTLE
    }

    /// Copies the arguments that have come.
    fn detach(&mut self) {
        for argument in &mut self.arguments {
            *argument = Bytes::copy_from_slice(argument);
        }
        (self.shared, self.earlier) = (false, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    /// Reads bytes as a session does, whose requests are done at once.
    fn take(requests: &mut Requests, buffer: &mut BytesMut, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            requests.reserve(buffer, LITTLE);
            let some = bytes.len().min(buffer.capacity() - buffer.len());
            buffer.extend_from_slice(&bytes[..some]);
            bytes = &bytes[some..];
            let limits = Limits::default();
            while let Some(request) = requests.next(buffer, &limits, false).expect("requests") {
                request.clear();
            }
            requests.tidy(buffer);
        }
    }

    #[test]
    fn what_an_argument_keeps_in_memory_is_counted() {
        const LARGE: usize = 4 << 20;
        let bulk = |size: usize| format!("${size}\r\n{}\r\n", "x".repeat(size));
        let large = format!("*2\r\n$3\r\nGET\r\n{}", bulk(LARGE));
        // Little that comes with the end of a large request does not keep its buffer.
        for part in ["", "*2\r\n", "*2\r\n$4\r\nECHO\r\n", "*2\r\n$4\r\nECHO\r\n$9\r\n12345"] {
            let (mut requests, mut buffer) = (Requests::default(), BytesMut::new());
            take(&mut requests, &mut buffer, format!("{large}{part}").as_bytes());
            assert!(requests.memory() <= FREE, "{part:?}: {}", requests.memory());
            take(&mut requests, &mut buffer, b"");
            assert_eq!(requests.is_partial(), !part.is_empty());
        }
        // More does, and it is counted, however little of it was asked for.
        let (mut requests, mut buffer) = (Requests::default(), BytesMut::new());
        let more = format!("{large}*3\r\n{}", bulk(2 * LITTLE));
        take(&mut requests, &mut buffer, more.as_bytes());
        let before = requests.memory();
        assert!(before >= LARGE, "{before}");
        take(&mut requests, &mut buffer, bulk(LARGE).as_bytes());
        assert!(requests.memory() >= 2 * LARGE, "{}", requests.memory());
        take(&mut requests, &mut buffer, bulk(1).as_bytes());
        assert!(requests.memory() <= FREE, "all is done: {}", requests.memory());
    }
}
