//! Tests of turns.

use super::*;

const TABLE: Uuid = Uuid::from_u128(1);
const MAX: Duration = Duration::from_millis(1000);

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

#[test]
fn only_the_next_load_of_the_principal_begins_a_hold() {
    let (turns, now) = (Turns::new(MAX), Instant::now());
    assert!(!turns.begins_hold(TABLE, "ann", now), "ann has no turn");
    turns.grant(TABLE, "ann", now);
    assert!(turns.held(TABLE, now).is_none(), "nothing is held before the load");
    assert!(!turns.begins_hold(TABLE, "bob", now));
    assert!(!turns.begins_hold(Uuid::nil(), "ann", now), "another table");
    assert!(turns.begins_hold(TABLE, "ann", now));
    let (_, until) = turns.held(TABLE, now).expect("a hold");
    assert_eq!(until, now + MAX);
    assert!(turns.begins_hold(TABLE, "ann", now + ms(1)), "earlier commits are still running");
    turns.settle(TABLE);
    assert!(!turns.begins_hold(TABLE, "ann", now + ms(2)));
}

#[test]
fn hold_ends_with_the_commit_of_its_principal_or_after_the_maximum() {
    let (turns, now) = (Turns::new(MAX), Instant::now());
    turns.grant(TABLE, "ann", now);
    turns.begins_hold(TABLE, "ann", now);
    turns.end(TABLE, "bob", now + ms(10));
    turns.end(TABLE, "ann", now - ms(1));
    assert!(turns.held(TABLE, now + ms(10)).is_some());
    turns.end(TABLE, "ann", now + ms(20));
    assert!(turns.held(TABLE, now + ms(20)).is_none());

    turns.grant(TABLE, "ann", now + ms(30));
    assert!(turns.begins_hold(TABLE, "ann", now + ms(40)), "the last hold was used");
    assert!(turns.held(TABLE, now + ms(1039)).is_some());
    assert!(turns.held(TABLE, now + ms(1040)).is_none());
    turns.grant(TABLE, "bob", now + ms(1100));
    turns.grant(TABLE, "ann", now + ms(1100));
    assert!(!turns.begins_hold(TABLE, "bob", now + ms(2039)), "the last hold was not used");
    assert!(!turns.begins_hold(TABLE, "ann", now + ms(2040)), "bob is first");
    assert!(turns.begins_hold(TABLE, "bob", now + ms(2040)));
}

#[test]
fn unused_turn_expires() {
    let (turns, now) = (Turns::new(MAX), Instant::now());
    turns.grant(TABLE, "ann", now);
    assert!(!turns.begins_hold(TABLE, "ann", now + GRANT_LIFETIME));
    let off = Turns::new(Duration::ZERO);
    off.grant(TABLE, "ann", now);
    assert!(!off.begins_hold(TABLE, "ann", now), "turns are disabled");
}

#[tokio::test]
async fn append_waits_until_the_hold_ends() {
    let turns = Turns::new(ms(50));
    let began = Instant::now();
    turns.wait(TABLE).await;
    turns.grant(TABLE, "ann", began);
    turns.begins_hold(TABLE, "ann", Instant::now());
    turns.wait(TABLE).await;
    assert!(began.elapsed() >= ms(50), "the hold was never ended");
    let turns = Turns::new(Duration::from_secs(3600));
    turns.grant(TABLE, "ann", Instant::now());
    turns.begins_hold(TABLE, "ann", Instant::now());
    let end = async {
        tokio::task::yield_now().await;
        turns.end(TABLE, "ann", Instant::now());
    };
    tokio::join!(turns.wait(TABLE), end);
}
