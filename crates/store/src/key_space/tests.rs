//! Tests that the tables in the documentation match the registry, and that restore, clone and
//! `fsck` follow the rules of every key space.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use uuid::Uuid;

use super::*;
use crate::Store;
use crate::codec::Value;
use crate::fsck;
use crate::golden::examples;
use crate::keys::{Key, StoreKey, TabularKey};
use crate::read::{KeyRange, StoreRead};
use crate::records::{Change, CloneOf, PolicyRevision};
use crate::restore::RestorePlan;
use crate::test_support::{in_memory, open, permit};
use slateberg_base::progress::Progress;

const TIMELINE: Uuid = Uuid::from_u128(1);

/// The records of a key space, by key.
type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn restore(rule: RestoreRule) -> &'static str {
    match rule {
        RestoreRule::Keep => "the current records stay",
        RestoreRule::Replace => "the earlier records",
        RestoreRule::NewTimeline => "the earlier record, in a new timeline",
        RestoreRule::Warehouses | RestoreRule::Namespaces | RestoreRule::Functions => {
            "the earlier records, at a new version"
        }
        RestoreRule::Tabulars => "the earlier records, at a new version if the metadata changes",
        RestoreRule::Dropped => "the earlier records, with a marker for each restored one",
        RestoreRule::Heads | RestoreRule::Chunks => "restored or removed with their table or view",
        RestoreRule::Markers => "one for each table and view with changed metadata",
        RestoreRule::Cancel => "removed, because a job could delete files that are needed again",
        RestoreRule::Remove => "removed, so that no job deletes files without another dry run",
        RestoreRule::Revise => "the earlier records, by a new revision",
        RestoreRule::Append => "the current entries, and an entry for the restore",
    }
}

fn clone(rule: CloneRule) -> &'static str {
    match rule {
        CloneRule::Share => "shared",
        CloneRule::NewIdentity => "a record of its own",
        CloneRule::Append => "shared, and an entry for the clone",
        CloneRule::LeaveOut => "left out",
        CloneRule::Cancel => "left out, together with metadata that exists only for jobs",
    }
}

fn export(rule: ExportRule) -> &'static str {
    match rule {
        ExportRule::Header => "first line",
        ExportRule::Lines(_) => "lines",
        ExportRule::WithTabular => "in the line of the table or view",
        ExportRule::Derive => "written by the import",
        ExportRule::LeaveOut => "left out",
    }
}

fn cache(rule: CacheRule) -> &'static str {
    match rule {
        CacheRule::None => "–",
        CacheRule::Records => "records",
        CacheRule::RecordsAndPages => "records, pages of names",
    }
}

fn removal(removal: Removal) -> &'static str {
    match removal {
        Removal::Never => "never",
        Removal::WithObject => "with their object",
        Removal::Published => "after publication",
        Removal::JobEnd => "when the job ends",
        Removal::Collection => "when a job is created for its files",
        Removal::Expiry(Expiry::Idempotency) => "after `catalog.idempotency_lifetime_seconds`",
        Removal::Expiry(Expiry::Changes) => "the oldest, beyond `catalog.change_log_entries_max`",
        Removal::Expiry(Expiry::Dropped) => "after `catalog.dropped_kept_seconds`",
        Removal::Expiry(Expiry::EndedJobs) => {
            "after `catalog.jobs_kept_seconds`, beyond `catalog.jobs_kept_max`"
        }
        Removal::Limit => "the oldest, beyond `authn.api_keys_max`",
        Removal::Rotation => "when their tokens have expired",
    }
}

fn files(rule: FilesRule) -> &'static str {
    match rule {
        FilesRule::None => "–",
        FilesRule::Keep(FileOwner::Existing) => "stay",
        FilesRule::Keep(FileOwner::Dropped) => "stay until the retention ends",
        FilesRule::Index => "– (leads jobs to tables and views whose files stay)",
        FilesRule::Publish => "written",
        FilesRule::Delete => "deleted, except files of other tables and views",
    }
}

fn check(check: Check) -> &'static str {
    match check {
        Check::Store => "this binary supports the format",
        Check::Warehouses => "ids are unique",
        Check::Namespaces => "each has one name and a parent",
        Check::Tabulars => "each has a namespace and an id of its own",
        Check::Dropped => "each has an id of its own and a warehouse",
        Check::DroppedNamespaces => "each has an id of its own and a warehouse",
        Check::TabularNames => "each belongs to one table or view, which has only this name",
        Check::Functions => "each has a namespace and an id of its own",
        Check::DroppedFunctions => "each has a dropped namespace and an id of its own",
        Check::Locations => {
            "each table or view (including dropped ones) has as many entries as locations in its \
             record; an encoded location can have two"
        }
        Check::Uuids => "those in the records of tables and views, including dropped ones",
        Check::Publications => "no marker has a newer version than its table or view",
        Check::Jobs => "can be decoded",
        Check::Protections => "each protected resource exists",
        Check::Metadata => "complete, and matches its table or view",
        Check::Policies => "the log results in the policies and grants",
        Check::EndedJobs => "each job has ended",
        Check::ApiKeys => "the id in each record is that of its key",
        Check::Decoding => "can be decoded",
    }
}

fn tables() -> String {
    let mut text = String::from("| byte | space | rest of the key | value |\n|---|---|---|---|\n");
    for &space in KeySpace::ALL {
        let Rules { name, key, value, .. } = space.rules();
        let byte = space.byte();
        writeln!(text, "| 0x{byte:02x} | {name} | {key} | {value} |").expect("a string");
    }
    text.push_str("\nOperations on all records of a store:\n\n");
    text.push_str("| space | `fsck` | restore | clone | export | cached | removed | its files |\n");
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    for &space in KeySpace::ALL {
        let rules = space.rules();
        let columns = [
            rules.name,
            check(rules.check),
            restore(rules.restore),
            clone(rules.clone),
            export(rules.export),
            cache(rules.cache),
            removal(rules.removal),
            files(rules.files),
        ];
        writeln!(text, "| {} |", columns.join(" | ")).expect("a string");
    }
    text
}

/// Run `UPDATE_DOCS=1 cargo test -p slateberg-store key_space` to write the tables.
#[test]
fn documented_key_space_tables_match_the_registry() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/storage-layout.md");
    let text = std::fs::read_to_string(&page).expect("the page can be read");
    let (begin, end) = ("<!-- key spaces -->\n", "<!-- end of key spaces -->\n");
    let (before, rest) = text.split_once(begin).expect("the tables begin");
    let (found, after) = rest.split_once(end).expect("the tables end");
    #[expect(clippy::disallowed_methods, reason = "the variable is for authors of a record kind")]
    if std::env::var("UPDATE_DOCS").is_ok() {
        let text = [before, begin, &tables(), end, after].concat();
        return std::fs::write(&page, text).expect("the page can be written");
    }
    assert_eq!(found, tables());
}

#[test]
fn leading_byte_identifies_the_key_space_in_key_order() {
    for &space in KeySpace::ALL {
        assert_eq!(KeySpace::of(&[space.byte(), 1]), Some(space));
    }
    assert!(KeySpace::ALL.is_sorted());
    assert_eq!((KeySpace::of(&[]), KeySpace::of_byte(0xff)), (None, None));
}

/// Returns a store with an example record in each of these key spaces.
async fn store_with(spaces: impl Fn(KeySpace) -> bool) -> Store {
    let store = open(&in_memory()).await;
    let entries: Vec<_> = examples().into_iter().filter(|(space, _)| spaces(*space)).collect();
    let (entries, permit) = (&entries, permit());
    let written = store.transact("test", &permit, |t| async move {
        entries.iter().try_for_each(|(_, (key, value))| t.put_at(key.clone(), value))
    });
    let ((), accepted) = written.await.expect("they are written");
    accepted.durable().await.expect("they are durable");
    store
}

async fn records(store: &impl StoreRead, space: KeySpace) -> Records {
    let mut entries = store.iterate(&KeyRange::all(space)).await.expect("the store is readable");
    let mut found = Records::new();
    while let Some(entry) = entries.next().await.expect("the store is readable") {
        found.insert(entry.key.to_vec(), entry.value.to_vec());
    }
    found
}

async fn state(store: &Store) -> BTreeMap<KeySpace, Records> {
    let mut state = BTreeMap::new();
    for &space in KeySpace::ALL {
        state.insert(space, records(&store.latest(), space).await);
    }
    state
}

fn change() -> Change {
    let (_, value) = &examples()[&KeySpace::Changes];
    Change::decode(value).expect("it is a change")
}

/// Restores the store `now` to the state of `then`, and checks the records of every kind.
async fn assert_restored(now: &Store, then: &Store) {
    let (is, was) = (state(now).await, state(then).await);
    let plan = RestorePlan::between(&now.latest(), &then.latest(), &Progress::default()).await;
    let plan = plan.expect("it is planned");
    let (_, example) = &examples()[&KeySpace::PolicyLog];
    let revision = PolicyRevision::decode(example).expect("it is a revision");
    let number = is[&KeySpace::PolicyLog].len() as u64 * 2 + 1;
    let changes = plan.policy_changes.clone();
    let revision = PolicyRevision { number, changes, ..revision };
    let done = now.restore(&permit(), &plan, TIMELINE, Some(&revision), &change()).await;
    done.expect("it is restored");
    let after = state(now).await;
    for &space in KeySpace::ALL {
        let (is, was, after) = (&is[&space], &was[&space], &after[&space]);
        match space.rules().restore {
            RestoreRule::Keep => assert_eq!(after, is, "{space:?}"),
            RestoreRule::Replace | RestoreRule::Dropped => assert_eq!(after, was, "{space:?}"),
            RestoreRule::NewTimeline => {
                let format = now.latest().get(&StoreKey).await.expect("the store is readable");
                assert_eq!(format.expect("the record exists").timeline, Some(TIMELINE));
            }
            RestoreRule::Warehouses
            | RestoreRule::Namespaces
            | RestoreRule::Functions
            | RestoreRule::Tabulars
            | RestoreRule::Heads
            | RestoreRule::Chunks => assert!(after.keys().eq(was.keys()), "{space:?}"),
            // The only markers are those of one table and of one dropped table.
            RestoreRule::Markers => assert_eq!(after.len(), 2 * was.len(), "{space:?}"),
            RestoreRule::Cancel | RestoreRule::Remove => assert!(after.is_empty(), "{space:?}"),
            RestoreRule::Revise if matches!(space, KeySpace::Policies | KeySpace::Grants) => {
                assert_eq!(after, was, "{space:?}");
            }
            RestoreRule::Revise => assert_ne!(after, is, "{space:?}"),
            RestoreRule::Append => assert_eq!(after.len(), is.len() + 1, "{space:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_of_lost_records_follows_the_rule_of_each_key_space() {
    let now = store_with(|space| space == KeySpace::Store).await;
    assert_restored(&now, &store_with(|_| true).await).await;
    let (key, _) = &examples()[&KeySpace::Tabulars];
    let key = TabularKey::decode(key).expect("it is a key");
    let restored =
        now.latest().get(&key).await.expect("the store is readable").expect("the record exists");
    assert_eq!(restored.version, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_of_an_empty_state_follows_the_rule_of_each_key_space() {
    let then = store_with(|space| space == KeySpace::Store).await;
    assert_restored(&store_with(|_| true).await, &then).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clone_follows_the_rule_of_each_key_space() {
    let store = store_with(|_| true).await;
    let parent = state(&store).await;
    let clone_of = CloneOf {
        parent_url: "memory:///parent".to_owned(),
        parent_catalog: Uuid::nil(),
        pin: Uuid::nil(),
        pin_name: "clone".to_owned(),
        checkpoint: None,
        as_of_ms: 0,
        cloned_ms: 0,
    };
    let done = store.become_clone(&permit(), Uuid::max(), &clone_of, &change()).await;
    done.expect("the clone is complete");
    let clone = state(&store).await;
    for &space in KeySpace::ALL {
        let (parent, clone) = (&parent[&space], &clone[&space]);
        match space.rules().clone {
            CloneRule::Share => assert_eq!(clone, parent, "{space:?}"),
            CloneRule::NewIdentity => assert_ne!(clone, parent, "{space:?}"),
            CloneRule::Append => assert_eq!(clone.len(), parent.len() + 1, "{space:?}"),
            CloneRule::LeaveOut | CloneRule::Cancel => assert!(clone.is_empty(), "{space:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fsck_reads_a_record_of_each_key_space() {
    let store = store_with(|_| true).await;
    let report =
        fsck::walk(&store.latest(), &Progress::default()).await.expect("the store is readable");
    assert_eq!(report.records, KeySpace::ALL.len());
    let unknown = |broken: &&String| broken.contains("unknown space");
    assert_eq!(report.broken.iter().find(unknown), None);
}
