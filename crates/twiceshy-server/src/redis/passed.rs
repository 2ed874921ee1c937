//! Commands that are passed on as they came.

use bytes::Bytes;
use redis::Value;

use super::{RedisServer, count, own_error, unexpected};
use crate::backend::Failure;
use crate::reply::Reply;

impl RedisServer {
    /// Sends a command and returns the server's reply.
    pub(crate) async fn pass(&self, words: &[Bytes]) -> Result<Reply, Failure> {
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        match self.one(&words).await? {
            Value::Nil => Ok(Reply::Nil),
            Value::Okay => Ok(Reply::OK),
            Value::Int(number) => Ok(Reply::Integer(number)),
            Value::BulkString(bytes) => Ok(Reply::Bulk(bytes.into())),
            Value::SimpleString(text) => Ok(Reply::Simple(text.into())),
            reply => Err(unexpected(&reply)),
        }
    }

    /// The length of a key's value; 0 if there is none, or it is not a string.
    pub(crate) async fn length(&self, key: &[u8]) -> Result<usize, Failure> {
        match own_error(self.for_key("STRLEN", key).await?) {
            Ok(reply) => count(reply),
            Err(Failure::Reply(_)) => Ok(0),
            Err(failure) => Err(failure),
        }
    }

    /// Removes keys as UNLINK does; returns how many were stored.
    pub(crate) async fn unlink(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        let replies = self.each("UNLINK", keys, &[]).await?;
        replies.into_iter().map(count).sum()
    }
}
