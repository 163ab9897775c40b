//! Many concurrent writers of one name, as in `slateberg store check`.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use slateberg_objects::conditional::Conditional;
use slateberg_objects::conditional_put_test::{Course, race};
use slateberg_objects::open::{Opened, open_url};

use crate::support::bucket::{ambient_options, bucket, fresh_id, store_url};
use crate::support::env_numbers::number_from_env;
use crate::support::faults::{EVERYTHING, Fault, FaultStore, Verb};

/// Default number of names.
const ROUNDS: u64 = 100;
const WRITERS: usize = 32;
const PUT_MAX: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs an S3 store: make stores"]
async fn exactly_one_of_many_writers_wins() {
    let url = store_url().expect("SLATEBERG_TEST_STORE is set");
    let opened = open_url(&url, &ambient_options()).expect("it opens");
    let rounds =
        usize::try_from(number_from_env("SLATEBERG_RACE_ROUNDS", ROUNDS)).expect("it is a number");
    let course = Course { rounds, writers: WRITERS, put_max: PUT_MAX };
    let outcome = race(&opened, fresh_id(), course).await;
    eprintln!("{outcome:?}");
    assert_eq!(outcome.broken, Vec::<String>::new());
    assert_eq!(outcome.puts, rounds * WRITERS * 2);
}

/// The check itself must detect a store that sometimes ignores conditions.
#[tokio::test]
async fn store_check_detects_two_winners() {
    let faults = FaultStore::new(bucket());
    let opened = Opened {
        object_store: Conditional::around(Arc::clone(&faults) as _),
        path: "race".into(),
        conditional_update: true,
        directory: None,
        is_remote: false,
    };
    let course = Course { rounds: 3, writers: 8, put_max: PUT_MAX };
    let sound = race(&opened, fresh_id(), course).await;
    assert_eq!(sound.broken, Vec::<String>::new());
    assert_eq!((sound.rounds, sound.puts, sound.unknown), (3, 48, 0));
    faults.inject_times(Verb::Put, "/1", Fault::IgnoreCondition, 2);
    let broken = race(&opened, fresh_id(), course).await.broken;
    // The fault lets two writers overwrite the object. On a networked store, the correct winner may
    // be a third writer.
    let several = ["round 1, If-None-Match: 2 writers", "round 1, If-None-Match: 3 writers"];
    assert!(several.iter().any(|output_text| broken[0].starts_with(output_text)), "{broken:?}");
    faults.lift();
    faults.inject(Verb::Put, EVERYTHING, Fault::LoseResponse);
    let unknown = race(&opened, fresh_id(), course).await;
    assert_eq!((unknown.broken.len(), unknown.unknown), (0, 24), "{:?}", unknown.broken);
}

#[test]
#[ignore = "needs an S3 store: make stores"]
fn store_check_exits_with_0_for_a_good_store() {
    let url = store_url().expect("SLATEBERG_TEST_STORE is set");
    let check = |url: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slateberg"));
        command.args(["store", "check", url, "--rounds", "10", "--writers", "16"]).args(more);
        let output = command.output().expect("it can be started");
        let output_text =
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), output_text)
    };
    let (code, output_text) = check(&format!("{url}/checked"), &[]);
    assert_eq!(code, Some(0), "{output_text}");
    assert!(output_text.contains("no double winner"), "{output_text}");
    let (code, output_text) = check("s3://no-such-bucket/x", &[]);
    assert_eq!(code, Some(1), "{output_text}");
    assert!(output_text.contains("NoSuchBucket"), "{output_text}");
    let (code, output_text) = check(&url, &["--option", "aws_secret_access_key=wrong"]);
    assert_eq!(code, Some(1), "{output_text}");
    assert!(output_text.contains("cannot write a probe file"), "{output_text}");
}
