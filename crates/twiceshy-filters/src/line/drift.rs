//! Drift: a full line hands buckets at its border to a neighbour.
//!
//! The windows of all lines tile the buckets, so each border between two lines is one number.
//! To make room in a line, the border to its right or left neighbour moves until the line has a
//! slot less than it can hold; a neighbour that has no room for what it gets moves its own far
//! border, and so on. The shorter of the two chains is taken.
//!
//! ```text
//! line       j           j+1          j+2
//! before   [a b c d e]  [f g h i]    [j k]
//! after    [a b c d]    [e f g]      [h i j k]      a chain of two to the right
//! ```
//!
//! A chain is planned on the lines as they are. Then buckets move from its far end on, and every
//! bucket moves by one line.

use alloc::vec::Vec;

use super::cells::Run;
use super::fingerprint::{Epoch, Hash};
use super::hot::Found;
use super::shape::{GROUPS, MOST_BUCKETS, MOST_DRIFT, MOST_SLOTS, Shape};
use super::table::Table;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::remote::{Ordered, strangers};

/// The most lines of a chain that hand something on.
const MOST_STEPS: usize = 200;

/// The most lines of a chain that makes room for a copy.
const STEPS_FOR_A_COPY: usize = 4;

/// To which neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// Lines from `first` on to one side, each of which hands buckets to the next.
pub(super) struct Chain {
    first: usize,
    side: Side,
    /// How many buckets each line hands on.
    buckets: [u8; MOST_STEPS],
    steps: usize,
    /// Slots and buckets that come into the next line.
    slots: usize,
}

/// A chain that will make room, and the digests of the buckets that get other hash functions.
pub(super) struct Drift {
    chain: Chain,
    /// One list for each such bucket, in the order in which they move.
    rehashed: Vec<Vec<Digest>>,
}

impl Drift {
    /// Whether it moves few lines' buckets: what a copy is worth.
    pub(super) fn is_short(&self) -> bool {
        self.chain.steps <= STEPS_FOR_A_COPY
    }
}

impl Chain {
    fn new(first: usize, side: Side) -> Self {
        Chain { first, side, buckets: [0; MOST_STEPS], steps: 0, slots: 0 }
    }

    /// The line that step number `step` is of.
    fn line(&self, step: usize) -> usize {
        match self.side {
            Side::Left => self.first - step,
            Side::Right => self.first + step,
        }
    }
}

/// What one more step of a chain finds.
enum Step {
    /// The next line has room for all it gets.
    Done,
    /// It has to hand something on itself.
    More,
    /// There is no next line, or a bound is reached.
    Stuck,
}

impl Table {
    /// How to make room for a key of a bucket whose line is full; `None` if no chain of moves
    /// does.
    ///
    /// # Errors
    /// [`Error::Remote`], where buckets move to other hash functions and are read for it.
    pub(super) fn plan(
        &self,
        bucket: Found,
        remote: Option<&mut dyn Ordered>,
    ) -> Result<Option<Drift>> {
        let mut chains = [Side::Right, Side::Left].map(|side| Some(Chain::new(bucket.line, side)));
        while chains.iter().any(Option::is_some) {
            for candidate in &mut chains {
                let Some(chain) = candidate else { continue };
                match self.step(chain, bucket) {
                    Step::Done => return self.with_digests(candidate.take(), remote),
                    Step::More => (),
                    Step::Stuck => *candidate = None,
                }
            }
        }
        Ok(None)
    }

    /// The line beside another, if it is in use.
    fn neighbour(&self, line: usize, side: Side) -> Option<usize> {
        match side {
            Side::Left => (line > self.first).then(|| line - 1),
            Side::Right => (line + 1 < self.lines.len()).then_some(line + 1),
        }
    }

    /// Lets the last line of a chain hand on what it has no room for.
    fn step(&self, chain: &mut Chain, newcomer: Found) -> Step {
        let shape = &self.shape;
        if chain.steps == MOST_STEPS {
            return Step::Stuck;
        }
        let at = chain.line(chain.steps);
        let line = &self.lines[at];
        let got = if chain.steps == 0 { 0 } else { usize::from(chain.buckets[chain.steps - 1]) };
        let own = usize::from(chain.steps == 0);
        let mut excess = (line.used(shape) + chain.slots + own).saturating_sub(shape.slots);
        let mut too_long = (line.window() + got).saturating_sub(MOST_BUCKETS);
        let window = line.window();
        let (mut buckets, mut slots) = (0, 0);
        let mut hand_on = |len: usize, index: usize| {
            if excess == 0 && too_long == 0 {
                return false;
            }
            let len = len + usize::from(own == 1 && index == newcomer.index as usize);
            excess = excess.saturating_sub(len);
            too_long = too_long.saturating_sub(1);
            buckets += 1;
            slots += len;
            true
        };
        let lengths = line.lengths(shape);
        match chain.side {
            Side::Right => {
                (0..window).rev().zip(lengths.rev()).all(|(index, len)| hand_on(len, index));
            }
            Side::Left => {
                (0..window).zip(lengths).all(|(index, len)| hand_on(len, index));
            }
        }
        if excess > 0 || too_long > 0 {
            return Step::Stuck;
        }
        let Some(next) = self.neighbour(at, chain.side) else { return Step::Stuck };
        // The border that moves is where the right one of the two starts.
        let drift = match chain.side {
            Side::Right => self.lines[next].drift() + buckets as i32,
            Side::Left => buckets as i32 - line.drift(),
        };
        if drift > MOST_DRIFT {
            return Step::Stuck;
        }
        chain.buckets[chain.steps] = buckets as u8;
        chain.steps += 1;
        chain.slots = slots;
        let neighbour = &self.lines[next];
        let has_room = neighbour.used(shape) + slots <= shape.slots
            && neighbour.window() + buckets <= MOST_BUCKETS;
        if has_room { Step::Done } else { Step::More }
    }

    /// A chain with the digests of all buckets that move to a line of another epoch.
    fn with_digests(
        &self,
        chain: Option<Chain>,
        mut remote: Option<&mut dyn Ordered>,
    ) -> Result<Option<Drift>> {
        let Some(chain) = chain else { return Ok(None) };
        let mut rehashed = Vec::new();
        for step in (0..chain.steps).rev() {
            let (from, to) = (chain.line(step), chain.line(step + 1));
            if self.lines[from].epoch() == self.lines[to].epoch() {
                continue;
            }
            let Some(remote) = remote.as_deref_mut() else { return Ok(None) };
            let lengths = self.lines[from].lengths(&self.shape);
            let count = usize::from(chain.buckets[step]);
            let (start, window) = (self.first_bucket(from), self.lines[from].window());
            let moves = |nth: usize| match chain.side {
                Side::Right => start + window - 1 - nth,
                Side::Left => start + nth,
            };
            let lengths: Vec<usize> = match chain.side {
                Side::Right => lengths.rev().take(count).collect(),
                Side::Left => lengths.take(count).collect(),
            };
            for (nth, len) in lengths.into_iter().enumerate() {
                rehashed.push(self.digests_of_bucket(moves(nth), len, remote)?);
            }
        }
        Ok(Some(Drift { chain, rehashed }))
    }

    /// The digests of a bucket, which has so many slots.
    pub(super) fn digests_of_bucket(
        &self,
        bucket: usize,
        len: usize,
        remote: &mut dyn Ordered,
    ) -> Result<Vec<Digest>> {
        let digests = self.digests(bucket..bucket + 1, remote)?;
        if digests.len() > len {
            return Err(Error::Remote(strangers(len, digests.len())));
        }
        Ok(digests)
    }

    /// Moves buckets as planned.
    pub(super) fn drift(&mut self, plan: Drift) {
        let Drift { chain, rehashed } = plan;
        let mut rehashed = rehashed.into_iter();
        for step in (0..chain.steps).rev() {
            for _ in 0..chain.buckets[step] {
                let (from, to) = (chain.line(step), chain.line(step + 1));
                let other_epoch = self.lines[from].epoch() != self.lines[to].epoch();
                let digests = if other_epoch { rehashed.next() } else { None };
                self.move_bucket(from, chain.side, digests);
            }
        }
    }

    /// Moves a line's first or last bucket to its neighbour, whose hash functions are the same or
    /// which gets the bucket's digests.
    pub(super) fn move_bucket(&mut self, from: usize, side: Side, digests: Option<Vec<Digest>>) {
        let shape = self.shape;
        let (to, index) = match side {
            Side::Left => (from - 1, 0),
            Side::Right => (from + 1, self.lines[from].window() - 1),
        };
        let bucket = self.first_bucket(from) + index;
        let group = bucket % GROUPS;
        let was_adapted = self.lines[from].states() >> group & 1 == 1;
        let first = self.first_bucket(to);
        let mut run = match side {
            Side::Left => self.lines[from].take_first(&shape),
            Side::Right => self.lines[from].take_last(&shape),
        };
        let keeps_selector = was_adapted && digests.is_none();
        if let Some(digests) = digests {
            // Copies, and slots of keys that the remote has lost, are left behind.
            run = run_of(&digests, self.lines[to].epoch(), 0, &shape);
        }
        if keeps_selector && run.len > 0 {
            self.change(to, |line| line.adapt_group(group, first, &shape));
        }
        let is_adapted = self.lines[to].states() >> group & 1 == 1;
        if is_adapted && !keeps_selector {
            run.planes[0] = 0;
        }
        match side {
            Side::Left => self.lines[to].put_last(&run, &shape),
            Side::Right => self.lines[to].put_first(&run, &shape),
        }
        self.counts.kicks += run.len as u64;
    }

    /// Lets buckets come home to a line that has got room, and then to those they leave.
    pub(super) fn pull_home(&mut self, line: usize) {
        let mut at = line;
        while self.pull_from(at, Side::Right) {
            at += 1;
        }
        at = line;
        while self.pull_from(at, Side::Left) {
            at -= 1;
        }
    }

    /// Pulls buckets from the neighbour on one side, as long as they are not at home there and
    /// there is room. Whether any slots came.
    fn pull_from(&mut self, line: usize, side: Side) -> bool {
        let shape = self.shape;
        let Some(next) = self.neighbour(line, side) else { return false };
        let mut pulled = false;
        loop {
            let (here, there) = (&self.lines[line], &self.lines[next]);
            let is_astray = match side {
                Side::Right => there.drift() > 0,
                Side::Left => here.drift() < 0,
            };
            if !is_astray || here.epoch() != there.epoch() || here.window() == MOST_BUCKETS {
                return pulled;
            }
            let len = match side {
                Side::Right => there.lengths(&shape).next(),
                Side::Left => there.lengths(&shape).next_back(),
            };
            let Some(len) = len.filter(|len| here.used(&shape) + len <= shape.slots) else {
                return pulled;
            };
            let back = if side == Side::Right { Side::Left } else { Side::Right };
            self.move_bucket(next, back, None);
            pulled |= len > 0;
        }
    }
}

/// The slots of a bucket's digests under a selector. Planes are as in a group that has not
/// adapted; [`selected`] makes it one that has.
pub(super) fn run_of(digests: &[Digest], epoch: Epoch, selector: u32, shape: &Shape) -> Run {
    debug_assert!(digests.len() <= MOST_SLOTS, "a run fits a line");
    let mut run = Run { len: digests.len(), ..Run::EMPTY };
    for (slot, &digest) in digests.iter().enumerate() {
        let fingerprint = Hash::of(digest, epoch).select(selector, shape);
        run.remainders[slot] = fingerprint.remainder();
        for (plane, bits) in run.planes.iter_mut().enumerate().take(shape.planes) {
            *bits |= fingerprint.plane(plane) & 1 << slot;
        }
    }
    run
}

/// The same in a group that has adapted.
pub(super) fn selected(digests: &[Digest], epoch: Epoch, selector: u32, shape: &Shape) -> Run {
    let mut run = run_of(digests, epoch, selector, shape);
    run.planes[0] = u64::from(selector);
    run
}
