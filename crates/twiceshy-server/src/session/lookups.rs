//! Lookups of a session: GETs in a row, MGET and EXISTS, each in as many lookups as it takes.

use bytes::Bytes;

use super::turn::TURNS;
use super::{LOOKUPS, NoRoom, Session, WORK};
use crate::backend::{Failure, Fetched};
use crate::latency::Timed;
use crate::replies::Mark;
use crate::reply::Reply;

/// Keys that are looked for between two looks at the clock where only their presence is
/// asked for: that takes 4 ms for a value of 16 MiB that has to be read from the disk.
pub(super) const PROBES: usize = 16;

impl Session<'_> {
    /// Answers GETs in a row: of how many keys. The others have no room before the
    /// client reads.
    pub(super) async fn get(&mut self, keys: &[Bytes]) -> usize {
        let server = self.server;
        let (mut done, mut least, mut alone) = (0, 0, false);
        while done < keys.len() {
            if self.is_full() {
                return done;
            }
            let room = self.room();
            // What only just fits is asked for by itself.
            let single = alone || least > room;
            let asked = if single { &keys[done..=done] } else { &keys[done..] };
            match server.backend.get_many(asked, room.max(least)).await {
                Ok(Fetched { values, next }) => {
                    self.time_lookups(&values);
                    done += values.len();
                    self.answered += values.len() as u64;
                    let bytes = self.replies.len();
                    values.into_iter().for_each(|value| self.replies.value(value));
                    let mut work = (self.replies.len() - bytes) >> 10;
                    if let Some(size) = next {
                        // To find out how large it is may have taken as long as to get it.
                        work += WORK + (size >> 10);
                    }
                    self.breathe(work).await;
                    least = 0;
                    if let Some(size) = next {
                        match self.make_room_for_value(self.replies.len(), size) {
                            Ok(size) => least = size,
                            Err(NoRoom::Yet) => return done,
                            Err(NoRoom::Refused(reply)) => {
                                self.reply(reply);
                                done += 1;
                            }
                        }
                    }
                }
                // Each by itself: the filter may know that some are absent.
                Err(_) if asked.len() > 1 => alone = true,
                Err(failure) => {
                    self.reply(Reply::failure(failure));
                    done += 1;
                }
            }
        }
        done
    }

    /// EXISTS, in as many lookups as it takes.
    pub(super) async fn exist(&mut self, keys: &[Bytes]) -> Result<usize, Failure> {
        let server = self.server;
        let mut found = 0;
        for keys in keys.chunks(if server.backend.is_remote() { LOOKUPS } else { PROBES }) {
            found += server.backend.exists(keys).await?;
            self.breathe(if server.backend.is_remote() { WORK } else { TURNS * WORK }).await;
        }
        Ok(found)
    }

    /// MGET, in as many lookups as it takes.
    pub(super) async fn mget(&mut self, keys: &[Bytes]) -> Result<(), NoRoom> {
        let start = self.replies.mark();
        self.replies.array(keys.len());
        let fetched = self.mget_values(start, keys).await;
        if fetched.is_err() {
            self.replies.take_back(start);
        } else {
            self.answered += 1;
        }
        fetched
    }

    async fn mget_values(&mut self, start: Mark, keys: &[Bytes]) -> Result<(), NoRoom> {
        let server = self.server;
        let (mut done, mut least) = (0, 0);
        while done < keys.len() {
            let room = self.room();
            let count = if least > room { 1 } else { LOOKUPS.min(keys.len() - done) };
            let asked = &keys[done..done + count];
            let fetched = server.backend.get_many_or_nil(asked, room.max(least)).await;
            let Fetched { values, next } =
                fetched.map_err(|failure| NoRoom::Refused(Reply::failure(failure)))?;
            self.time_lookups(&values);
            done += values.len();
            let bytes = self.replies.len();
            values.into_iter().for_each(|value| self.replies.value(value));
            let read = self.replies.len() - bytes + next.unwrap_or(0);
            self.breathe(WORK + (read >> 10)).await;
            self.make_room(start.len(), 0)?;
            least = next.map_or(Ok(0), |size| self.make_room_for_value(start.len(), size))?;
        }
        Ok(())
    }

    fn time_lookups(&self, values: &[Option<Bytes>]) {
        let took = self.read_at.elapsed();
        let hits = values.iter().flatten().count();
        for (timed, count) in [(Timed::Hit, hits), (Timed::Miss, values.len() - hits)] {
            if count > 0 {
                self.server.latency.of(timed).record(took, count as u64);
            }
        }
    }
}
