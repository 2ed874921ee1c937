use futures_util::FutureExt as _;
use tokio::time::timeout;

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn digest(n: u64) -> Digest {
    Digest::new([n, n])
}

/// Nobody forgets: who adds does not wait.
fn add(changes: &Arc<Changes>, n: u64) -> Adding {
    changes.add(vec![digest(n)]).now_or_never().expect("it is not being forgotten")
}

fn remove(changes: &Arc<Changes>, digests: Vec<Digest>) -> Removal {
    changes.remove(digests).now_or_never().expect("they are few")
}

fn forgotten(removal: Removal) -> Vec<Digest> {
    removal.finish(|_| true, <[Digest]>::to_vec)
}

/// So much time has passed.
fn pass(changes: &Changes, time: Duration) {
    let mut state = changes.lock();
    state.turned = state.turned.checked_sub(time).expect("a clock that is old enough");
}

#[test]
fn a_removal_that_nobody_disturbs_is_forgotten() {
    let changes = Arc::new(Changes::default());
    drop(add(&changes, 1));
    assert_eq!(forgotten(remove(&changes, vec![digest(1)])), [digest(1)]);
    let state = changes.lock();
    assert!(state.removing.is_empty() && state.setting.is_empty());
    assert!(state.forgetting.is_empty());
}

#[test]
fn what_is_added_around_a_removal_stays() {
    let changes = Arc::new(Changes::default());
    // Began before it and still goes on.
    let adding = add(&changes, 1);
    let removal = remove(&changes, vec![digest(1), digest(2), digest(3)]);
    // Begins and ends within it.
    drop(add(&changes, 2));
    drop(adding);
    assert_eq!(forgotten(removal), [digest(3)]);
    assert_eq!(forgotten(remove(&changes, vec![digest(1)])), [digest(1)]);
}

/// Who adds a key that is being forgotten waits until it has been, or the filter
/// would forget what it has just been told; who adds another waits for nothing.
#[test]
fn what_is_being_forgotten_is_added_afterwards() {
    let changes = Arc::new(Changes::default());
    let removal = remove(&changes, vec![digest(1)]);
    let mut waiting = Box::pin(changes.add(vec![digest(2), digest(1)]));
    let forgotten = removal.finish(
        |_| true,
        |digests| {
            assert!(waiting.as_mut().now_or_never().is_none());
            assert!(changes.announce(vec![digest(1)]).now_or_never().is_none());
            // Nobody else begins to forget what somebody waits to add.
            assert_eq!(self::forgotten(remove(&changes, vec![digest(1), digest(2)])), []);
            drop(add(&changes, 3));
            digests.to_vec()
        },
    );
    assert_eq!(forgotten, [digest(1)]);
    let adding = waiting.now_or_never().expect("it has been forgotten");
    assert_eq!(changes.lock().setting.len(), 2);
    changes.forget_unseen(vec![digest(1), digest(4)], |digests| {
        assert_eq!(digests, [digest(4)]);
        assert!(changes.add(vec![digest(4)]).now_or_never().is_none());
        drop(add(&changes, 1));
    });
    drop(adding);
    drop(add(&changes, 4));
    assert!(changes.lock().setting.is_empty());
}

/// An addition that waits is woken, also when the thread that forgets panics.
#[test]
fn who_waits_for_what_is_being_forgotten_is_woken() {
    let changes = Arc::new(Changes::default());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().expect("a runtime");
    for panics in [false, true] {
        let adding = std::thread::scope(|scope| {
            let (begun, has_begun) = std::sync::mpsc::channel();
            let (end, may_end) = std::sync::mpsc::channel::<()>();
            let removal = remove(&changes, vec![digest(1)]);
            let forgetting = scope.spawn(move || {
                removal.finish(
                    |_| true,
                    |_| {
                        begun.send(()).expect("somebody waits");
                        let _ = may_end.recv();
                        assert!(!panics, "on purpose");
                    },
                );
            });
            has_begun.recv().expect("it begins");
            let adding = runtime.block_on(async {
                let mut adding = Box::pin(changes.add(vec![digest(1)]));
                assert!(adding.as_mut().now_or_never().is_none());
                drop(end);
                timeout(Duration::from_secs(60), adding).await.expect("it is woken")
            });
            assert_eq!(forgetting.join().is_err(), panics);
            adding
        });
        assert_eq!(changes.lock().setting.len(), 1);
        drop(adding);
    }
}

/// Somebody says that it will store a key, and somebody else that it has removed
/// it: the store may have it in a moment.
#[test]
fn what_is_announced_is_not_forgotten_before_it_can_be_there() {
    let changes = Arc::new(Changes::default());
    let announce = |n| drop(changes.announce(vec![digest(n)]).now_or_never().expect("at once"));
    announce(1);
    assert_eq!(forgotten(remove(&changes, vec![digest(1)])), []);
    // One turn later it may still be a moment old.
    pass(&changes, GRACE + Duration::from_secs(1));
    announce(2);
    assert_eq!(forgotten(remove(&changes, vec![digest(1), digest(2)])), []);
    pass(&changes, GRACE + Duration::from_secs(1));
    drop(add(&changes, 3));
    assert_eq!(forgotten(remove(&changes, vec![digest(1), digest(2)])), [digest(1)]);
    pass(&changes, 2 * GRACE + Duration::from_secs(1));
    drop(add(&changes, 4));
    assert_eq!(forgotten(remove(&changes, vec![digest(2)])), [digest(2)]);
}

/// A SET whose answer never came may reach the store after the DEL that follows.
#[test]
fn what_may_come_late_is_not_forgotten_for_a_while() {
    let changes = Arc::new(Changes::default());
    let adding = add(&changes, 1);
    adding.may_come_late().now_or_never().expect("it is one");
    drop(adding);
    assert_eq!(forgotten(remove(&changes, vec![digest(1)])), []);
    pass(&changes, 2 * GRACE + Duration::from_secs(1));
    drop(add(&changes, 2));
    assert_eq!(forgotten(remove(&changes, vec![digest(1)])), [digest(1)]);
    // Nor by a resync, however long the SET took.
    let adding = add(&changes, 3);
    pass(&changes, 3 * GRACE);
    adding.may_come_late().now_or_never().expect("it is one");
    drop(adding);
    changes.begin_resync(Arc::new(Seen::new(0, 1)));
    let unseen = vec![digest(3), digest(4)];
    assert_eq!(changes.forget_unseen(unseen, <[Digest]>::to_vec), [digest(4)]);
}

/// It began long before the resync, and ends after the scan has passed its place.
#[test]
fn a_resync_keeps_what_was_still_being_added_when_it_began() {
    let changes = Arc::new(Changes::default());
    let adding = add(&changes, 1);
    pass(&changes, 3 * GRACE);
    changes.begin_resync(Arc::new(Seen::new(0, 1)));
    drop(adding);
    let unseen = vec![digest(1), digest(2)];
    assert_eq!(changes.forget_unseen(unseen, <[Digest]>::to_vec), [digest(2)]);
}

#[test]
fn a_removal_beside_another_one_is_disturbed_as_well() {
    let changes = Arc::new(Changes::default());
    let first = remove(&changes, vec![digest(1)]);
    drop(add(&changes, 1));
    let second = remove(&changes, vec![digest(1)]);
    assert_eq!(forgotten(first), []);
    assert_eq!(forgotten(second), []);
    assert_eq!(forgotten(remove(&changes, vec![digest(1)])), [digest(1)]);
}

/// However long it takes, and whatever is still remembered as recent.
#[test]
fn a_resync_keeps_what_was_added_since_it_began_or_shortly_before() {
    let changes = Arc::new(Changes::default());
    let unseen = |numbers: &[u64]| {
        let digests = numbers.iter().copied().map(digest).collect();
        changes.forget_unseen(digests, <[Digest]>::to_vec)
    };
    let turn = GRACE + Duration::from_secs(1);
    drop(add(&changes, 1));
    pass(&changes, turn);
    drop(add(&changes, 2));
    changes.begin_resync(Arc::new(Seen::new(0, 1)));
    for n in 3..10 {
        pass(&changes, turn);
        drop(add(&changes, n));
    }
    pass(&changes, 10 * GRACE);
    drop(add(&changes, 10));
    assert_eq!(unseen(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), [digest(11)]);
    // In no more memory than the resync has anyway.
    {
        let state = changes.lock();
        assert_eq!((state.recent.len(), state.earlier.len()), (1, 0), "the others are old");
    }
    changes.end_resync();
    // For the next one they are what they are.
    assert_eq!(unseen(&[1, 9, 10]), [digest(1), digest(9)]);
    pass(&changes, turn);
    drop(add(&changes, 12));
    assert_eq!(unseen(&[10, 12]), []);
    pass(&changes, turn);
    drop(add(&changes, 13));
    assert_eq!(unseen(&[10, 12, 13]), [digest(10)]);
    pass(&changes, 2 * turn);
    drop(add(&changes, 14));
    assert_eq!(unseen(&[12, 13, 14]), [digest(12), digest(13)]);
}

/// Of what the store told before, a scan sees what is still there.
#[tokio::test]
async fn a_resync_keeps_what_the_store_tells_of_meanwhile() {
    let changes = Arc::new(Changes::default());
    let hear = async |n| changes.hear(vec![digest(n)]).await;
    drop(hear(1).await);
    let unfinished = hear(2).await;
    changes.begin_resync(Arc::new(Seen::new(0, 1)));
    drop(unfinished);
    drop(hear(3).await);
    let unseen = changes.forget_unseen([1, 2, 3].map(digest).to_vec(), <[Digest]>::to_vec);
    assert_eq!(unseen, [digest(1)]);
    changes.end_resync();
    assert!(changes.lock().announced.is_empty());
}

/// Or a request with a million keys would keep a thread, and the lock, for as long as
/// all of them take.
#[tokio::test]
async fn others_have_their_turn_between_the_keys_of_a_large_change() {
    const CHUNKS: usize = 10;
    let many: Vec<Digest> = (0..(CHUNKS * AT_ONCE) as u64).map(digest).collect();
    let changes = Arc::new(Changes::default());
    let turns = Arc::new(AtomicUsize::new(0));
    let others = tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        }
    });
    let took_turns = |what: &str, passes: usize| {
        let (count, least) = (turns.swap(0, Ordering::Relaxed), passes * (CHUNKS - 1));
        assert!(count >= least, "{what}: others had {count} turns, not {least}");
    };
    let adding = changes.announce(many.clone()).await;
    // They are noted, and then looked for among those that are being forgotten.
    took_turns("adding", 2);
    adding.may_come_late().await;
    took_turns("adding late", 1);
    adding.finish().await;
    took_turns("added", 1);
    let removal = changes.remove(many.clone()).await;
    took_turns("removing", 1);
    assert_eq!(forgotten(removal), [], "they were announced");
    assert!(changes.lock().setting.is_empty());
    assert!(changes.lock().removing.is_empty());
    assert!(changes.lock().forgetting.is_empty());
    pass(&changes, 3 * GRACE);
    drop(changes.add(vec![digest(u64::MAX)]).await);
    let removal = changes.remove(many.clone()).await;
    assert_eq!(forgotten(removal), many);
    assert!(changes.lock().forgetting.is_empty());
    others.abort();
}

/// A log tells of a key before the store shows it, and before the filter has it on disk.
#[test]
fn what_the_log_has_inserted_stays_until_it_is_on_disk_and_can_be_seen() {
    let changes = Arc::new(Changes::default());
    let removal = remove(&changes, vec![digest(1)]);
    changes.stream(&[digest(1), digest(2)]);
    assert_eq!(forgotten(removal), [], "it came meanwhile");
    for _ in 0..2 {
        assert_eq!(forgotten(remove(&changes, vec![digest(1), digest(2)])), []);
        changes.streamed(&[digest(1), digest(2)]);
    }
    assert_eq!(forgotten(remove(&changes, vec![digest(1)])), [digest(1)]);
    assert!(changes.lock().streamed.is_empty());
}

/// The log's own removals come in its order, and only clients of ours know better.
#[test]
fn what_the_log_has_removed_is_forgotten_unless_a_client_adds_it() {
    let changes = Arc::new(Changes::default());
    changes.stream(&[digest(1)]);
    let adding = add(&changes, 2);
    drop(changes.announce(vec![digest(3)]).now_or_never());
    let all: Vec<Digest> = (1..=4).map(digest).collect();
    let forget = |digests: &[Digest]| digests.to_vec();
    assert_eq!(changes.forget_streamed(all.clone(), forget), [digest(1), digest(4)]);
    drop(adding);
    assert_eq!(changes.forget_streamed(all, forget), [digest(1), digest(2), digest(4)]);
}

/// What the store said before or during a new build is of another time.
#[test]
fn removals_beside_a_new_build_forget_nothing() {
    let changes = Arc::new(Changes::default());
    let before = remove(&changes, vec![digest(1)]);
    changes.begin_build().now_or_never().expect("nothing is being forgotten");
    let during = remove(&changes, vec![digest(2)]);
    changes.end_build();
    assert_eq!((forgotten(before), forgotten(during)), (vec![], vec![]));
    assert_eq!(forgotten(remove(&changes, vec![digest(1)])), [digest(1)]);
    // It begins when the last key has been forgotten.
    let removal = remove(&changes, vec![digest(3)]);
    removal.finish(|_| true, |_| assert!(changes.begin_build().now_or_never().is_none()));
}
