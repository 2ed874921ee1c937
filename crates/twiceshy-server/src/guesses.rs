//! [`Guesses`]: limits how fast passwords can be guessed.
//!
//! A guess is charged before it is examined, and a correct one is refunded, so an attacker gains
//! nothing by not waiting for replies or by using many connections. Guesses are charged to the
//! network address, so those from one address do not delay logins from another.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The cost of a wrong guess: its reply is delayed by this time, and an address may guess once
/// in it.
pub(crate) const PRICE: Duration = Duration::from_millis(500);

/// Wrong guesses after which a connection is closed.
pub(crate) const TRIES: u32 = 5;

/// Wrong guesses that an address may make before it has to wait.
const BURST: u32 = 10;

/// The longest wait for a turn; less than connections have when the server stops.
const LONGEST_WAIT: Duration = Duration::from_secs(4);

/// The most addresses that are remembered. All others share one account.
const ADDRESSES: usize = 1 << 14;
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The addresses that have guessed, and until when their guesses are paid for.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    accounts: Mutex<Accounts>,
}

#[derive(Debug, Default)]
struct Accounts {
    paid_until: HashMap<IpAddr, Instant>,
    /// When addresses that need not be remembered were last dropped.
    swept_at: Option<Instant>,
}

/// A guess that has been paid for.
#[derive(Debug)]
pub(crate) struct Guess {
    account: IpAddr,
    /// How long to wait before it is looked at.
    pub(crate) wait: Duration,
}

impl Guesses {
    /// Charges a guess. The error is the time after which to try again.
    pub(crate) fn pay(&self, address: IpAddr) -> Result<Guess, Duration> {
        self.pay_at(address, Instant::now())
    }

    fn pay_at(&self, address: IpAddr, now: Instant) -> Result<Guess, Duration> {
        let mut accounts = self.lock();
        let Accounts { paid_until, swept_at } = &mut *accounts;
        // Now and then: it takes long.
        let swept = swept_at.is_some_and(|at| now.duration_since(at) < PRICE);
        if paid_until.len() >= ADDRESSES && !swept {
            paid_until.retain(|_, until| *until > now);
            *swept_at = Some(now);
        }
        let known = |account: &IpAddr| paid_until.contains_key(account);
        let account = Some(network(address))
            .filter(|account| known(account) || paid_until.len() < ADDRESSES)
            .unwrap_or(OTHERS);
        let until = paid_until.get(&account).map_or(now, |until| now.max(*until));
        let wait = (until - now).saturating_sub(PRICE * (BURST - 1));
        if wait > LONGEST_WAIT {
            return Err(wait);
        }
        paid_until.insert(account, until + PRICE);
        Ok(Guess { account, wait })
    }

    /// Refunds a guess that was correct.
    pub(crate) fn pay_back(&self, guess: &Guess) {
        let paid_until = &mut self.lock().paid_until;
        if let Some(until) = paid_until.get_mut(&guess.account) {
            *until -= PRICE;
            if *until <= Instant::now() {
                paid_until.remove(&guess.account);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of IPv6, the prefix that a provider gives to one customer, who can choose the rest.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & u128::MAX << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn many_guesses_at_once_take_turns() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        let attacker = address("192.0.2.1");
        let waits: Vec<Duration> =
            (0..).map_while(|_| Some(guesses.pay_at(attacker, now).ok()?.wait)).collect();
        let turns = LONGEST_WAIT.as_millis() / PRICE.as_millis();
        assert_eq!(waits.len(), BURST as usize + turns as usize);
        assert!(waits[..BURST as usize].iter().all(Duration::is_zero));
        let later = waits[BURST as usize..].iter().zip(1..);
        assert!(later.clone().count() > 0);
        later.for_each(|(wait, turn)| assert_eq!(*wait, PRICE * turn));
        // From then on, one each time, however often it is tried.
        for turn in 1..5 {
            let now = now + PRICE * turn;
            assert!(guesses.pay_at(attacker, now).is_ok());
            assert!(guesses.pay_at(attacker, now).is_err_and(|wait| wait > LONGEST_WAIT));
        }
        // Others do not wait.
        assert_eq!(guesses.pay_at(address("192.0.2.2"), now).expect("a turn").wait, Duration::ZERO);
        assert!(guesses.pay_at(address("::ffff:192.0.2.1"), now).is_err(), "the same address");
    }

    #[test]
    fn the_right_password_costs_nothing() {
        let guesses = Guesses::default();
        for _ in 0..1000 {
            let guess = guesses.pay(address("127.0.0.1")).expect("a turn");
            assert_eq!(guess.wait, Duration::ZERO);
            guesses.pay_back(&guess);
        }
        assert!(guesses.lock().paid_until.is_empty());
    }

    #[test]
    fn an_attacker_with_many_addresses_fills_no_memory() {
        let (guesses, now) = (Guesses::default(), Instant::now());
        for number in 0..2 * ADDRESSES as u32 {
            let _ = guesses.pay_at(Ipv4Addr::from_bits(number + 1).into(), now);
            // All of one customer.
            let _ = guesses.pay_at(Ipv6Addr::from_bits(u128::from(number)).into(), now);
        }
        assert!(guesses.lock().paid_until.len() <= ADDRESSES + 1);
        assert!(guesses.pay_at(address("203.0.113.9"), now).is_err(), "one account for all others");
        let later = now + PRICE * (2 * BURST + 20);
        assert!(guesses.pay_at(address("203.0.113.9"), later).is_ok());
        assert_eq!(guesses.lock().paid_until.len(), 1);
    }
}
