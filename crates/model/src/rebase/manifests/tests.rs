//! Tests of replaced manifests.

use super::*;

const SNAPSHOT: i64 = 77;

/// Returns a manifest with these numbers of added, existing and deleted files of ten rows each.
fn manifest(path: &str, snapshot_id: i64, files: [i32; 3]) -> ManifestFile {
    let [added, existing, deleted] = files.map(|files| Some(i64::from(files) * 10));
    ManifestFile {
        path: path.to_owned(),
        length: 100,
        spec_id: 0,
        content: 0,
        sequence_number: 2,
        min_sequence_number: 1,
        added_snapshot_id: snapshot_id,
        added_files_count: Some(files[0]),
        existing_files_count: Some(files[1]),
        deleted_files_count: Some(files[2]),
        added_rows_count: added,
        existing_rows_count: existing,
        deleted_rows_count: deleted,
        partitions: None,
        key_metadata: None,
        first_row_id: None,
    }
}

fn deletes(manifest: ManifestFile) -> ManifestFile {
    ManifestFile { content: 1, ..manifest }
}

fn old(path: &str) -> ManifestFile {
    manifest(path, 1, [2, 0, 0])
}

fn append(list: Vec<ManifestFile>) -> Result<ClientManifests, NotRebased> {
    ClientManifests::of(SNAPSHOT, Operation::Append, list)
}

fn compaction(list: Vec<ManifestFile>) -> Result<ClientManifests, NotRebased> {
    ClientManifests::of(SNAPSHOT, Operation::Replace, list)
}

/// Returns the paths of the manifests that the client has replaced in `base`, if they can be
/// replaced in `head`.
fn replaced(
    client: &ClientManifests,
    base: &[ManifestFile],
    head: &[ManifestFile],
) -> Result<Vec<String>, NotRebased> {
    let replaced = client.replaced(base)?;
    client.check_replaced(&replaced, base, head)?;
    Ok(replaced.into_iter().map(|it| it.path).collect())
}

#[test]
fn append_that_merges_manifests_replaces_them() {
    let (base, head) =
        (vec![old("a"), old("b"), old("c")], vec![old("d"), old("c"), old("b"), old("a")]);
    let merged = manifest("m", SNAPSHOT, [1, 4, 0]);
    let client = append(vec![merged.clone(), old("c")]).expect("an append");
    assert!(client.replaces());
    assert_eq!(client.own(), [merged]);
    assert_eq!(replaced(&client, &base, &head), Ok(vec!["a".to_owned(), "b".to_owned()]));
    let without_a = &head[..3];
    assert_eq!(replaced(&client, &base, without_a), Err(NotRebased::Replaced));
    let reassigned = ManifestFile { first_row_id: Some(5), ..old("a") };
    let head = [old("b"), reassigned];
    assert_eq!(replaced(&client, &base, &head), Err(NotRebased::Replaced), "other row ids");
}

#[test]
fn own_manifests_must_account_for_all_files_of_the_replaced_ones() {
    let base = vec![old("a"), old("b")];
    for existing in [0, 1, 3, 4] {
        let client = append(vec![manifest("m", SNAPSHOT, [1, existing, 0]), old("b")]);
        let client = client.expect("an append");
        let found = client.replaces().then(|| replaced(&client, &base, &base));
        let expected = (existing > 0).then_some(Err(NotRebased::Manifests));
        assert_eq!(found, expected, "{existing}");
    }
    let list =
        vec![manifest("m", SNAPSHOT, [1, 0, 0]), deletes(manifest("n", SNAPSHOT, [0, 2, 0]))];
    let client = append(list).expect("an append");
    let base = vec![deletes(old("a"))];
    assert_eq!(replaced(&client, &base, &base), Ok(vec!["a".to_owned()]), "delete files");
    let data = [old("a")];
    assert_eq!(replaced(&client, &data, &data), Err(NotRebased::Manifests), "other content");
}

#[test]
fn manifest_without_live_files_is_not_replaced() {
    let base = vec![manifest("dead", 1, [0, 0, 3]), old("a")];
    let client = append(vec![manifest("m", SNAPSHOT, [1, 2, 0])]).expect("an append");
    assert_eq!(replaced(&client, &base, &[old("a")]), Ok(vec!["a".to_owned()]));
    let fast = append(vec![manifest("m", SNAPSHOT, [1, 0, 0])]).expect("an append");
    assert!(!fast.replaces(), "an append without merges replaces nothing");
}

#[test]
fn compaction_replaces_manifests_and_marks_their_files_as_deleted() {
    let base = vec![old("a"), old("b"), old("c")];
    let head = vec![old("d"), old("a"), old("b"), old("c")];
    let list =
        vec![manifest("new", SNAPSHOT, [1, 0, 0]), manifest("rest", SNAPSHOT, [0, 1, 3]), old("c")];
    let client = compaction(list).expect("a compaction");
    assert_eq!(replaced(&client, &base, &head), Ok(vec!["a".to_owned(), "b".to_owned()]));
    let lost = compaction(vec![manifest("rest", SNAPSHOT, [1, 0, 3]), old("c")]);
    let lost = lost.expect("a compaction");
    assert_eq!(replaced(&lost, &base, &head), Err(NotRebased::Manifests), "a file is missing");
}

#[test]
fn compaction_is_refused_if_it_or_the_branch_adds_delete_files() {
    let rewritten = manifest("new", SNAPSHOT, [1, 0, 2]);
    for files in [[1, 0, 0], [1, 0, 2], [1, 1, 0]] {
        let list = vec![rewritten.clone(), deletes(manifest("d", SNAPSHOT, files))];
        assert_eq!(compaction(list).err(), Some(NotRebased::DeleteFiles), "{files:?}");
    }
    let client = compaction(vec![rewritten, deletes(old("d"))]).expect("a compaction");
    let base = vec![old("a"), deletes(old("d"))];
    assert_eq!(replaced(&client, &base, &base), Ok(vec!["a".to_owned()]));
    let head = vec![deletes(old("e")), old("a"), deletes(old("d"))];
    assert_eq!(replaced(&client, &base, &head), Err(NotRebased::DeleteFiles), "a new one");
    // A rewrite of manifests keeps all delete files.
    let list =
        vec![manifest("n", SNAPSHOT, [0, 2, 0]), deletes(manifest("o", SNAPSHOT, [0, 2, 0]))];
    let client = compaction(list).expect("a compaction");
    let all = Ok(vec!["a".to_owned(), "d".to_owned()]);
    assert_eq!(replaced(&client, &base, &base), all);
}

#[test]
fn compaction_may_remove_delete_files() {
    let base = vec![old("a"), deletes(old("d"))];
    let head = vec![old("b"), old("a"), deletes(old("d"))];
    let rewritten = manifest("new", SNAPSHOT, [1, 0, 2]);
    for files in [[0, 0, 2], [0, 1, 1]] {
        let list = vec![rewritten.clone(), deletes(manifest("e", SNAPSHOT, files))];
        let client = compaction(list).expect("a compaction");
        let all = Ok(vec!["a".to_owned(), "d".to_owned()]);
        assert_eq!(replaced(&client, &base, &head), all, "{files:?}");
    }
    let list = vec![rewritten, deletes(manifest("e", SNAPSHOT, [0, 0, 1]))];
    let client = compaction(list).expect("a compaction");
    assert_eq!(replaced(&client, &base, &head), Err(NotRebased::Manifests), "one is missing");
}

#[test]
fn append_that_changes_delete_files_or_removes_files_is_refused() {
    for own in [
        deletes(manifest("d", SNAPSHOT, [1, 0, 0])),
        deletes(manifest("d", SNAPSHOT, [0, 1, 1])),
        manifest("m", SNAPSHOT, [1, 0, 1]),
    ] {
        let list = vec![manifest("m", SNAPSHOT, [1, 0, 0]), own];
        assert_eq!(append(list).err(), Some(NotRebased::Manifests));
    }
}
