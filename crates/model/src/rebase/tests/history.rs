//! Histories of writers with stale states: each rebased commit has the result of a retry by its
//! client. The model of a table is the set of its live files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use proptest::prelude::*;

use super::super::super::testing::table;
use super::*;

/// Rows of each file.
const ROWS: i64 = 10;
const ADDED: u8 = 1;
const EXISTING: u8 = 0;
const DELETED: u8 = 2;

/// An entry of a manifest. Sequence number and row id may be inherited.
#[derive(Debug, Clone)]
struct Entry {
    file: i64,
    status: u8,
    rows: i64,
    sequence_number: Option<i64>,
    first_row_id: Option<i64>,
}

/// A live file: its rows, its data sequence number, and its first row id.
type Live = BTreeMap<i64, (i64, i64, Option<i64>)>;

/// A commit of a writer.
#[derive(Debug, Clone, Copy)]
enum Step {
    Append,
    /// This number of appends in one commit.
    Appends(usize),
    /// An append that merges this number of manifests, from this one on.
    Merge(usize, usize),
    /// Replaces the files of these manifests with one file. Its sequence number is that of the
    /// state that the writer has loaded, or inherited.
    Compact(usize, usize, bool),
    /// Writes the entries of these manifests to one manifest.
    RewriteManifests(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..6_usize, 1..5_usize);
    prop_oneof![
        3 => Just(Step::Append),
        2 => (2..4_usize).prop_map(Step::Appends),
        3 => range().prop_map(|(from, count)| Step::Merge(from, count)),
        2 => (range(), any::<bool>())
            .prop_map(|((from, count), explicit)| Step::Compact(from, count, explicit)),
        1 => range().prop_map(|(from, count)| Step::RewriteManifests(from, count)),
    ]
}

/// A table with the content of its files.
struct World {
    table: TableMetadata,
    lists: HashMap<String, Vec<ManifestFile>>,
    manifests: HashMap<String, Vec<Entry>>,
    next_id: i64,
}

/// A commit that a writer has prepared.
struct Commit {
    /// Id of the last snapshot.
    id: i64,
    base: Option<i64>,
    snapshots: Vec<Value>,
    is_append: bool,
    /// The files that each snapshot adds.
    added: Vec<Live>,
    removed: BTreeSet<i64>,
}

/// Returns the location of the manifest list that the client has written for a snapshot.
fn list_location(snapshot: &Value) -> &str {
    snapshot["manifest-list"].as_str().expect("a location")
}

impl Commit {
    fn updates(&self) -> Vec<TableUpdate> {
        let added = self.snapshots.iter().cloned().map(add_snapshot);
        let all: Vec<_> = added.chain([set_ref("main", "branch", self.id)]).collect();
        updates(&Value::from(all)).expect("valid updates")
    }
}

impl World {
    fn list(&self, table: &TableMetadata) -> Vec<ManifestFile> {
        let head = table.refs.get("main").and_then(|it| table.snapshot(it.snapshot_id));
        let location = head.and_then(|head| head.manifest_list());
        location.map(|location| self.lists[&location].clone()).unwrap_or_default()
    }

    /// Returns the live entries of a manifest with the values that they inherit.
    fn entries(&self, manifest: &ManifestFile) -> Vec<Entry> {
        let mut next = manifest.first_row_id;
        let live = self.manifests[&manifest.path].iter().filter(|it| it.status != DELETED);
        let resolved = |it: &Entry| {
            let mut entry = it.clone();
            entry.sequence_number.get_or_insert(manifest.sequence_number);
            if entry.first_row_id.is_none() {
                entry.first_row_id = next;
                next = next.map(|id| id + it.rows);
            }
            entry
        };
        live.map(resolved).collect()
    }

    fn live(&self, list: &[ManifestFile]) -> Live {
        let mut live = Live::new();
        for entry in list.iter().flat_map(|manifest| self.entries(manifest)) {
            let sequence_number = entry.sequence_number.expect("it is resolved");
            let value = (entry.rows, sequence_number, entry.first_row_id);
            assert_eq!(live.insert(entry.file, value), None, "file {} is there twice", entry.file);
        }
        live
    }

    fn new_id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id
    }

    /// Adds the file of a manifest with these entries.
    fn put_manifest(&mut self, snapshot: (i64, i64), entries: Vec<Entry>) -> ManifestFile {
        let (snapshot_id, sequence_number) = snapshot;
        let path = format!("s3://b/t/metadata/{}-m0.avro", self.new_id());
        let count = |status| entries.iter().filter(|it| it.status == status).count();
        let files = |status| i32::try_from(count(status)).ok();
        let rows = |status| {
            Some(entries.iter().filter(|it| it.status == status).map(|it| it.rows).sum::<i64>())
        };
        let live = entries.iter().filter(|it| it.status != DELETED);
        let numbers = live.map(|it| it.sequence_number.unwrap_or(sequence_number));
        let manifest = ManifestFile {
            path: path.clone(),
            sequence_number,
            min_sequence_number: numbers.min().unwrap_or(sequence_number),
            added_snapshot_id: snapshot_id,
            added_files_count: files(ADDED),
            existing_files_count: files(EXISTING),
            deleted_files_count: files(DELETED),
            added_rows_count: rows(ADDED),
            existing_rows_count: rows(EXISTING),
            deleted_rows_count: rows(DELETED),
            ..sent(0).manifest
        };
        self.manifests.insert(path, entries);
        manifest
    }

    /// Prepares a commit for the state `base`, as a client does.
    fn prepare(&mut self, base: &TableMetadata, step: Step) -> Commit {
        let Step::Appends(count) = step else {
            return self.prepare_snapshot(base, step);
        };
        let mut all = self.prepare_snapshot(base, Step::Append);
        let mut state = applied(base, &[], &all.updates());
        for _ in 1..count {
            let next = self.prepare_snapshot(&state, Step::Append);
            state = applied(&state, &[], &next.updates());
            all.id = next.id;
            all.snapshots.extend(next.snapshots);
            all.added.extend(next.added);
        }
        all
    }

    /// Prepares a commit of one snapshot.
    fn prepare_snapshot(&mut self, base: &TableMetadata, step: Step) -> Commit {
        let list = self.list(base);
        let id = self.new_id();
        let sequence_number = base.last_sequence_number + 1;
        let at = (id, sequence_number);
        let file = self.new_id();
        let new = |rows, sequence_number| Entry {
            file,
            status: ADDED,
            rows,
            sequence_number,
            first_row_id: None,
        };
        let picked = |from: usize, count: usize| -> (Vec<_>, Vec<_>) {
            let numbered = list.iter().cloned().enumerate();
            let (picked, rest): (Vec<_>, Vec<_>) =
                numbered.partition(|(at, _)| (from..from + count).contains(at));
            let manifests =
                |it: Vec<(usize, ManifestFile)>| it.into_iter().map(|it| it.1).collect();
            (manifests(picked), manifests(rest))
        };
        let former = |world: &Self, picked: &[ManifestFile], status| -> Vec<Entry> {
            let all = picked.iter().flat_map(|it| world.entries(it));
            all.map(|entry| Entry { status, ..entry }).collect()
        };
        let (mut added, mut removed) = (Live::new(), BTreeSet::new());
        let (mut own, rest) = match step {
            Step::Append | Step::Appends(_) => (vec![vec![new(ROWS, None)]], list.clone()),
            Step::Merge(from, count) => {
                let (picked, rest) = picked(from, count);
                let mut entries = vec![new(ROWS, None)];
                entries.extend(former(self, &picked, EXISTING));
                (vec![entries], rest)
            }
            Step::Compact(from, count, explicit) => {
                let (picked, rest) = picked(from, count);
                let deleted = former(self, &picked, DELETED);
                let rows = deleted.iter().map(|it| it.rows).sum();
                removed.extend(deleted.iter().map(|it| it.file));
                let explicit = explicit.then_some(base.last_sequence_number);
                (vec![vec![new(rows, explicit)], deleted], rest)
            }
            Step::RewriteManifests(from, count) => {
                let (picked, rest) = picked(from, count);
                (vec![former(self, &picked, EXISTING)], rest)
            }
        };
        for entry in own.iter().flatten().filter(|it| it.status == ADDED) {
            // 0 means an inherited sequence number.
            added.insert(entry.file, (entry.rows, entry.sequence_number.unwrap_or(0), None));
        }
        own.retain(|entries| !entries.is_empty());
        let mut manifests: Vec<_> =
            own.into_iter().map(|entries| self.put_manifest(at, entries)).collect();
        let mut snapshot = json!({"snapshot-id": id, "sequence-number": sequence_number,
            "schema-id": 0, "timestamp-ms": base.last_updated_ms + 1,
            "manifest-list": format!("s3://b/t/metadata/snap-{id}-client.avro")});
        if base.format_version >= 3 {
            let mut next = base.next_row_id;
            for manifest in &mut manifests {
                manifest.first_row_id = Some(next);
                next += manifest.added_rows_count.unwrap() + manifest.existing_rows_count.unwrap();
            }
            snapshot["first-row-id"] = base.next_row_id.into();
            snapshot["added-rows"] = (next - base.next_row_id).into();
        }
        let base = base.refs.get("main").map(|it| it.snapshot_id);
        if let Some(base) = base {
            snapshot["parent-snapshot-id"] = base.into();
        }
        let is_append = matches!(step, Step::Append | Step::Merge(..));
        let rows = |of: &mut dyn Iterator<Item = i64>| of.sum::<i64>().to_string();
        let removed_rows = if is_append { 0 } else { added.values().map(|it| it.0).sum() };
        snapshot["summary"] = json!({"operation": if is_append { "append" } else { "replace" },
            "added-data-files": added.len().to_string(),
            "deleted-data-files": removed.len().to_string(),
            "added-records": rows(&mut added.values().map(|it| it.0)),
            "deleted-records": removed_rows.to_string(),
            "total-records": "0", "total-data-files": "0"});
        manifests.extend(rest);
        self.lists.insert(list_location(&snapshot).to_owned(), manifests);
        Commit { id, base, snapshots: vec![snapshot], is_append, added: vec![added], removed }
    }

    /// Returns the manifests of an append without the older files in merged manifests.
    fn extracted(&mut self, commit: &Commit, own: &[ManifestFile]) -> Vec<ManifestFile> {
        let number = commit.snapshots[0]["sequence-number"].as_i64().expect("a number");
        let mut extracted = Vec::new();
        for manifest in own {
            let entries = self.manifests[&manifest.path].iter().filter(|it| it.status == ADDED);
            let new = self.put_manifest((commit.id, number), entries.cloned().collect());
            extracted.push(ManifestFile { first_row_id: manifest.first_row_id, ..new });
        }
        extracted
    }

    /// Commits like the server: if the base has changed, rebases.
    fn commit(&mut self, commit: &Commit) -> Result<(), NotRebased> {
        let requirement = json!({"type": "assert-ref-snapshot-id", "ref": "main",
            "snapshot-id": commit.base});
        let requirements = [parse_requirement(&raw(&requirement)).expect("a requirement")];
        let sent = commit.updates();
        let table = self.table.clone();
        let candidate = RebaseCandidate::of(&requirements, &sent);
        if table.refs.get("main").map(|it| it.snapshot_id) == commit.base {
            self.table = applied(&table, &requirements, &sent);
            return Ok(());
        }
        let candidate = candidate?;
        candidate.check(&table)?;
        let lists = candidate.added().iter().map(|it| self.lists[it.manifest_list()].clone());
        let clients = candidate.manifests(lists.collect::<Vec<_>>())?;
        let mut chain = RebaseChain::new(&candidate, &table);
        let now_ms = table.last_updated_ms + 1;
        let mut lists = Vec::new();
        let mut head = self.list(&table);
        for (position, client) in clients.iter().enumerate() {
            let (own, removed) = self.compose(commit, &candidate, client, &head)?;
            head.retain(|it| !removed.contains(&it.path));
            let location = format!("s3://b/t/metadata/snap-{}-{position}-server.avro", commit.id);
            let (kept, replaced) = (head.len(), removed.len());
            let list = NewList { location: &location, kept, replaced, now_ms };
            let rebased = chain.add(&own, list)?;
            head = [rebased.own, head].concat();
            lists.push((location, head.clone()));
        }
        self.lists.extend(lists);
        let rebased = chain.finish(&requirements);
        self.table = applied(&table, &rebased.requirements, &rebased.updates);
        Ok(())
    }

    /// Returns the manifests that a snapshot adds to the branch, and the paths of those that it
    /// removes.
    fn compose(
        &mut self,
        commit: &Commit,
        candidate: &RebaseCandidate,
        client: &ClientManifests,
        head: &[ManifestFile],
    ) -> Result<(Vec<ManifestFile>, HashSet<String>), NotRebased> {
        let own = client.own().to_vec();
        if !client.replaces() {
            return Ok((own, HashSet::new()));
        }
        let base = candidate.base(&self.table).and_then(|base| base.manifest_list());
        let base = base.map(|base| self.lists[&base].clone()).unwrap_or_default();
        let replaced = client.replaced(&base).and_then(|replaced| {
            client.check_replaced(&replaced, &base, head)?;
            Ok(replaced)
        });
        match replaced {
            Ok(replaced) => Ok((own, replaced.into_iter().map(|it| it.path).collect())),
            Err(_) if commit.is_append => Ok((self.extracted(commit, &own), HashSet::new())),
            Err(reason) => Err(reason),
        }
    }

    /// Checks that the state after a commit is that after a retry by its client.
    fn check(&self, before: &(TableMetadata, Live), commit: &Commit) {
        let (table, live) = before;
        let mut parent = table.refs.get("main").map(|it| it.snapshot_id);
        for (snapshot, sequence_number) in
            commit.snapshots.iter().zip(table.last_sequence_number + 1..)
        {
            let id = snapshot["snapshot-id"].as_i64().expect("an id");
            let snapshot = self.table.snapshot(id).expect("it is there");
            assert_eq!(snapshot.sequence_number, sequence_number);
            assert_eq!(snapshot.parent_snapshot_id, parent);
            parent = Some(id);
        }
        assert_eq!(self.table.refs.get("main").map(|it| it.snapshot_id), parent);
        let after = self.live(&self.list(&self.table));
        let mut expected = live.clone();
        expected.retain(|file, _| !commit.removed.contains(file));
        for (added, sequence_number) in commit.added.iter().zip(table.last_sequence_number + 1..) {
            for (file, (rows, number, _)) in added {
                let number = if *number == 0 { sequence_number } else { *number };
                expected.insert(*file, (*rows, number, after.get(file).and_then(|it| it.2)));
            }
        }
        assert_eq!(
            self.table.last_sequence_number - table.last_sequence_number,
            i64::try_from(commit.added.len()).expect("a small number"),
        );
        assert_eq!(after, expected, "older files keep their sequence numbers and row ids");
        if commit.base.is_some() && table.format_version >= 3 {
            let mut next = 0;
            let mut ranges: Vec<_> = after
                .values()
                .map(|(rows, _, first)| (first.expect("a row id"), *rows))
                .filter(|(_, rows)| *rows > 0)
                .collect();
            ranges.sort_unstable();
            for (first, rows) in ranges {
                assert!(first >= next, "row ids overlap");
                next = first + rows;
            }
            assert!(self.table.next_row_id >= next);
        }
        for manifest in self.list(&self.table) {
            let numbers = self.entries(&manifest).into_iter().filter_map(|it| it.sequence_number);
            if let Some(min) = numbers.min() {
                assert_eq!(manifest.min_sequence_number, min, "{}", manifest.path);
            }
        }
    }
}

/// Returns the state after these updates.
fn applied(
    table: &TableMetadata,
    requirements: &[TableRequirement],
    updates: &[TableUpdate],
) -> TableMetadata {
    let base = CommitBase { metadata: table, metadata_location: Some(METADATA_LOCATION) };
    let applied = apply(Some(base), requirements, updates, &ctx(table.last_updated_ms + 1));
    applied.expect("it is applied").metadata
}

proptest! {
    #[test]
    fn rebased_commits_have_the_result_of_a_retry(
        version in 2..=3_u8,
        steps in prop::collection::vec((step(), 0..4_usize), 1..24),
    ) {
        let mut world = World {
            table: table(version), lists: HashMap::new(), manifests: HashMap::new(), next_id: 100,
        };
        let first = world.prepare(&world.table.clone(), Step::Append);
        world.commit(&first).expect("it is accepted");
        let mut states = vec![world.table.clone()];
        for (step, age) in steps {
            let base = states[states.len().saturating_sub(1 + age)].clone();
            let commit = world.prepare(&base, step);
            let list = &world.lists[list_location(commit.snapshots.last().unwrap())];
            if list.iter().all(|it| it.added_snapshot_id != commit.id) {
                continue;
            }
            let before = (world.table.clone(), world.live(&world.list(&world.table)));
            match world.commit(&commit) {
                Ok(()) => {
                    world.check(&before, &commit);
                    states.push(world.table.clone());
                }
                Err(reason) => {
                    prop_assert!(!commit.is_append, "{step:?}: {reason}");
                    prop_assert!(
                        matches!(reason, NotRebased::NotOnlyAppends | NotRebased::Replaced),
                        "{step:?}: {reason}"
                    );
                    prop_assert_eq!(&world.table, &before.0);
                }
            }
        }
    }
}
