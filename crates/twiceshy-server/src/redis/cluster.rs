//! [`Cluster`]: sends each command to the master of its key's slot.
//!
//! ```text
//! commands ─▶ one pipeline per master, all at once ─▶ replies, in the order of the commands
//!    ▲                                                 │ MOVED: learn the slots again
//!    └──── those without a reply, with growing ◀───────┤ ASK: ask that node this once
//!          pauses, at most until the timeout           │ a node is down, or not ready
//! ```
//!
//! A command that may have been executed is sent again only if it is one of [`READS`].

mod map;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use redis::{Arg, Client, Cmd, ConnectionInfo, Pipeline, Value};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::backend::Failure;

use super::masters::Master;
use super::node::{Node, reason};
use super::slot::slot;
use super::unexpected;
use map::{Map, Nodes};

pub(super) use map::View;

/// Commands that are sent again when their connection breaks, as they only read. Any other may
/// have been executed, although no reply came: a second INCR would count twice, and a second SET
/// could undo what another client has written since.
const READS: [&str; 7] = ["EXISTS", "GET", "GETRANGE", "PTTL", "STRLEN", "TTL", "TYPE"];

/// Replies of a node that has not executed a command, and may do so soon.
const NOT_YET: [&str; 5] = ["TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"];

/// Pauses before commands are sent a third time, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// A Redis Cluster. Requests may be dropped at any time.
pub(super) struct Cluster {
    nodes: Nodes,
    timeout: Duration,
}

/// A command that has no reply yet.
struct Open<'c> {
    /// Its place among all commands.
    number: usize,
    command: &'c Cmd,
    redirected: Option<Redirected>,
}

/// The node that a command was redirected to.
struct Redirected {
    to: Arc<Node>,
    /// Whether the node has to be told, as the slot is not its own yet.
    asking: bool,
}

/// What became of a command.
enum Outcome {
    Reply(Value),
    Redirected(Redirected),
    /// It was not executed, or only reads: the reason.
    Again(String),
}

impl Cluster {
    /// The cluster of a node. Requests wait at most `timeout`.
    pub(super) fn new(given: Client, timeout: Duration) -> Self {
        Cluster { nodes: Nodes::new(given, timeout), timeout }
    }

    /// Sends commands, whose second words are their keys. Each has a reply, which may be an
    /// error.
    ///
    /// # Errors
    /// When a command has no reply in time, or has none and may have been executed.
    pub(super) async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let deadline = Instant::now() + self.timeout;
        let open = |(number, command)| Open { number, command, redirected: None };
        let mut open: Vec<Open> = commands.cmd_iter().enumerate().map(open).collect();
        let mut replies = vec![Value::Nil; open.len()];
        let mut pauses = pauses();
        loop {
            let (mut hint, mut is_stale, mut why) = (None, false, String::new());
            let outcomes = self.round(open, deadline).await?;
            open = Vec::new();
            for (command, outcome) in outcomes {
                let redirected = match outcome {
                    Outcome::Reply(reply) => {
                        replies[command.number] = reply;
                        continue;
                    }
                    Outcome::Redirected(redirected) => {
                        if !redirected.asking {
                            (hint, is_stale) = (Some(Arc::clone(&redirected.to)), true);
                        }
                        why = "its nodes redirect requests to each other".into();
                        Some(redirected)
                    }
                    Outcome::Again(reason) => {
                        (is_stale, why) = (true, reason);
                        None
                    }
                };
                open.push(Open { redirected, ..command });
            }
            if open.is_empty() {
                return Ok(replies);
            }
            // Those of a group stay in their order.
            open.sort_unstable_by_key(|open| open.number);
            sleep_until(deadline.min(Instant::now() + pauses.next().unwrap_or_default())).await;
            if is_stale {
                let refresh = self.nodes.refresh(hint.as_ref());
                if let Ok(Err(failure)) = timeout_at(deadline, refresh).await {
                    why = reason(failure);
                }
            }
            if Instant::now() >= deadline {
                return Err(Failure::Upstream(why));
            }
        }
    }

    /// Sends each command once.
    async fn round<'c>(
        &self,
        open: Vec<Open<'c>>,
        deadline: Instant,
    ) -> Result<Vec<(Open<'c>, Outcome)>, Failure> {
        let map = self.nodes.map();
        let mut groups: Vec<(Arc<Node>, Vec<Open>)> = Vec::new();
        let mut outcomes = Vec::with_capacity(open.len());
        for open in open {
            let Some(node) = open.node(&map) else {
                let reason = "a slot has no working master; see redis-cli --cluster check";
                outcomes.push((open, Outcome::Again(reason.into())));
                continue;
            };
            match groups.iter_mut().find(|(other, _)| Arc::ptr_eq(other, node)) {
                Some((_, group)) => group.push(open),
                None => groups.push((Arc::clone(node), vec![open])),
            }
        }
        let asked = groups.into_iter().map(|(node, open)| self.ask(&map, node, open, deadline));
        for answered in join_all(asked).await {
            outcomes.extend(answered?);
        }
        Ok(outcomes)
    }

    /// Sends commands to a node as one pipeline. Fails if some may have been executed.
    async fn ask<'c>(
        &self,
        map: &Map,
        node: Arc<Node>,
        open: Vec<Open<'c>>,
        deadline: Instant,
    ) -> Result<Vec<(Open<'c>, Outcome)>, Failure> {
        let again = |open: Vec<Open<'c>>, why: &str| {
            let again = |open| (open, Outcome::Again(why.into()));
            Ok(open.into_iter().map(again).collect())
        };
        let connection = match timeout_at(deadline, node.connection()).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(failure)) => return again(open, &reason(failure)),
            Err(_) => return again(open, &format!("no connection in {:?}", self.timeout)),
        };
        let mut commands = Pipeline::with_capacity(open.len());
        for open in &open {
            if open.is_asking() {
                commands.cmd("ASKING");
            }
            commands.add_command(open.command.clone());
        }
        let mut replies = match node.ask(&connection, &commands, deadline).await {
            Ok(replies) => replies.into_iter(),
            Err(failure) => {
                let why = reason(failure);
                let mut names = open.iter().map(Open::name);
                return match names.find(|name| !READS.contains(&&**name)) {
                    None => again(open, &why),
                    Some(write) => Err(Failure::Upstream(format!(
                        "{why}; {write} may have been executed or not, so look at the key before \
                         you send it again"
                    ))),
                };
            }
        };
        let mut outcomes = Vec::with_capacity(open.len());
        for open in open {
            if open.is_asking() {
                replies.next();
            }
            let reply = replies.next().ok_or_else(|| unexpected(&Value::Nil))?;
            outcomes.push((open, self.outcome(map, &node, reply)));
        }
        Ok(outcomes)
    }

    fn outcome(&self, map: &Map, node: &Node, reply: Value) -> Outcome {
        let Value::ServerError(error) = &reply else { return Outcome::Reply(reply) };
        let (code, details) = (error.code(), error.details().unwrap_or_default());
        if NOT_YET.contains(&code) {
            return Outcome::Again(format!("{code} {details}"));
        }
        // "MOVED slot address"
        match details.split(' ').nth(1).and_then(Master::named) {
            Some(named) if code == "MOVED" || code == "ASK" => Outcome::Redirected(Redirected {
                to: self.nodes.named(map, node, &named),
                asking: code == "ASK",
            }),
            _ => Outcome::Reply(reply),
        }
    }

    /// What a node says of the cluster, if every slot has a master that works.
    pub(super) async fn whole(&self) -> Result<View, Failure> {
        self.nodes.learn(None).await?.whole()
    }

    /// The node at an address.
    pub(super) fn node(&self, address: &ConnectionInfo) -> Arc<Node> {
        self.nodes.at(address)
    }

    /// The replies of all masters to a command that has no key.
    pub(super) async fn of_each(&self, command: &Pipeline) -> Result<Vec<Value>, Failure> {
        let view = self.whole().await?;
        let asked = view.masters().map(|(_, address)| {
            let node = self.node(&address);
            async move { Ok(node.send(command).await?.pop().unwrap_or_default()) }
        });
        try_join_all(asked).await
    }
}

impl<'c> Open<'c> {
    fn node<'a>(&'a self, map: &'a Map) -> Option<&'a Arc<Node>> {
        match &self.redirected {
            Some(redirected) => Some(&redirected.to),
            None => map.master(slot(self.word(1))),
        }
    }

    fn is_asking(&self) -> bool {
        self.redirected.as_ref().is_some_and(|redirected| redirected.asking)
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(self.word(0)).to_ascii_uppercase()
    }

    fn word(&self, number: usize) -> &'c [u8] {
        match self.command.args_iter().nth(number) {
            Some(Arg::Simple(word)) => word,
            _ => b"",
        }
    }
}

/// None before commands are sent a second time.
fn pauses() -> impl Iterator<Item = Duration> {
    let growing = |pause: &Duration| Some((2 * *pause).min(LONGEST_PAUSE));
    std::iter::once(Duration::ZERO).chain(std::iter::successors(Some(FIRST_PAUSE), growing))
}
