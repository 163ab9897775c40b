//! Commits that append several snapshots.

use super::*;

/// Returns the manifest of the snapshot `id`, which was made for the state after snapshot 2.
fn manifest_of(id: i64, sequence_number: i64) -> ManifestFile {
    ManifestFile {
        path: format!("s3://b/t/metadata/m-{id}.avro"),
        sequence_number,
        min_sequence_number: sequence_number,
        added_snapshot_id: id,
        ..sent(2).manifest
    }
}

/// The snapshots 77 and 78, made for the state after snapshot 2, with their operations.
fn snapshots(operations: [&str; 2]) -> [Value; 2] {
    let mut snapshots = [snapshot(77, Some(2), 3), snapshot(78, Some(77), 4)];
    for (snapshot, operation) in snapshots.iter_mut().zip(operations) {
        snapshot["summary"] = json!({"operation": operation, "added-records": "10"});
    }
    snapshots
}

/// Returns the updates of a commit with these snapshots. Some clients also move the branch after
/// the first one.
fn chain_of([first, second]: [Value; 2], moves_twice: bool) -> Vec<TableUpdate> {
    let mut all = vec![add_snapshot(first)];
    if moves_twice {
        all.push(set_ref("main", "branch", 77));
    }
    all.extend([add_snapshot(second), set_ref("main", "branch", 78)]);
    updates(&Value::from(all)).expect("valid updates")
}

fn candidate(updates: &[TableUpdate]) -> Result<RebaseCandidate, NotRebased> {
    RebaseCandidate::of(&sent(2).requirements(), updates)
}

#[test]
fn snapshots_of_one_commit_are_rebased_together() {
    for (version, moves_twice) in [(2, false), (2, true), (3, false), (3, true)] {
        let table = table_with_snapshots(version, 4);
        let mut sent_snapshots = snapshots(["append", "append"]);
        let mut manifests = [manifest_of(77, 3), manifest_of(78, 4)];
        if version >= 3 {
            for ((snapshot, manifest), first) in
                sent_snapshots.iter_mut().zip(&mut manifests).zip([20_i64, 30])
            {
                snapshot["first-row-id"] = first.into();
                snapshot["added-rows"] = 10.into();
                manifest.first_row_id = Some(first);
            }
        }
        let updates = chain_of(sent_snapshots, moves_twice);
        let candidate = candidate(&updates).expect("appends");
        assert_eq!(candidate.check(&table), Ok(()));
        let [first, second] = manifests;
        let clients = candidate
            .manifests([vec![first.clone()], vec![second, first]])
            .expect("the manifests match");
        let mut chain = RebaseChain::new(&candidate, &table);
        let now_ms = table.last_updated_ms + 1000;
        for (client, kept) in clients.iter().zip(3..) {
            let location = format!("{LOCATION}{kept}");
            let list = NewList { location: &location, kept, replaced: 0, now_ms };
            let rebased = chain.add(client.own(), list).expect("it is rebased");
            let number = rebased.snapshot.sequence_number;
            assert_eq!(rebased.own[0].sequence_number, number);
            assert_eq!(rebased.own[0].first_row_id, rebased.snapshot.first_row_id);
        }
        let rebased = chain.finish(&sent(2).requirements());
        let base = CommitBase { metadata: &table, metadata_location: Some(METADATA_LOCATION) };
        let applied = apply(Some(base), &rebased.requirements, &rebased.updates, &ctx(now_ms));
        let after = applied.expect("it is applied").metadata;
        assert_eq!((after.current_snapshot_id, after.last_sequence_number), (Some(78), 6));
        let new = [77, 78].map(|id| Arc::clone(after.snapshot(id).expect("it is there")));
        assert_eq!(new.each_ref().map(|it| it.parent_snapshot_id), [Some(4), Some(77)]);
        if version >= 3 {
            assert_eq!(new.each_ref().map(|it| it.first_row_id), [Some(40), Some(50)]);
            assert_eq!(after.next_row_id, 60);
        }
        assert_eq!(new[1].summary()[REBASED_FROM], "2");
        let base = CommitBase { metadata: &after, metadata_location: Some(METADATA_LOCATION) };
        let again = apply(Some(base), &sent(2).requirements(), &updates, &ctx(now_ms));
        assert!(!again.expect("it is recognized").changed);
    }
}

#[test]
fn snapshots_that_do_more_than_append_are_not_rebased_together() {
    for operations in [["append", "overwrite"], ["replace", "append"], ["delete", "append"]] {
        let updates = chain_of(snapshots(operations), false);
        assert_eq!(candidate(&updates).err(), Some(NotRebased::Chain), "{operations:?}");
    }
    let mut unrelated = snapshots(["append", "append"]);
    unrelated[1]["parent-snapshot-id"] = 2.into();
    let unrelated = chain_of(unrelated, false);
    assert_eq!(candidate(&unrelated).err(), Some(NotRebased::NotAnAppend));
    let mut only_first = chain_of(snapshots(["append", "append"]), true);
    only_first.pop();
    assert_eq!(candidate(&only_first).err(), Some(NotRebased::NotAnAppend));
}

#[test]
fn snapshot_that_drops_or_merges_manifests_of_an_earlier_one_is_not_rebased() {
    let updates = chain_of(snapshots(["append", "append"]), false);
    let candidate = candidate(&updates).expect("appends");
    let (first, second) = (manifest_of(77, 3), manifest_of(78, 4));
    let dropped = candidate.manifests([vec![first.clone()], vec![second.clone()]]);
    assert_eq!(dropped.err(), Some(NotRebased::Chain));
    let merging = ManifestFile { existing_files_count: Some(1), ..second };
    let merged = candidate.manifests([vec![first.clone()], vec![merging, first]]);
    assert_eq!(merged.err(), Some(NotRebased::Chain));
}
