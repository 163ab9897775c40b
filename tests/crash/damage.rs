//! Deliberately damaged or deleted files: the server does not start, `slateberg fsck` reports them,
//! and both name the file.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::Client;
use crate::server::{Server, assert_sound, fsck, run, serve_expecting_failure};

const TABLE: &str = "namespaces/ns/tables/t";
const KEYS: [&str; 3] = ["a", "b", "c"];

/// Starts a server with the table `ns.t`, which has [`KEYS`] as properties.
async fn with_table(data_dir: &Path) -> Server {
    let server = Server::start(data_dir);
    let client = Client::of(&server.uri);
    client.create_namespace("ns").await.expect(200);
    client.create_table("ns", "t").await.expect(200);
    for key in KEYS {
        client.set(TABLE, key).await.expect(200);
    }
    server
}

/// Returns the directory of a killed server.
async fn killed() -> tempfile::TempDir {
    let data_dir = tempfile::tempdir().expect("a temporary directory");
    with_table(data_dir.path()).await.kill();
    data_dir
}

/// Returns the directory of a stopped server.
async fn stopped() -> tempfile::TempDir {
    let data_dir = tempfile::tempdir().expect("a temporary directory");
    with_table(data_dir.path()).await.stop();
    data_dir
}

/// Returns the newest file in a directory of the state, by name.
fn newest(data_dir: &Path, directory: &str, extension: &str) -> PathBuf {
    files(data_dir, directory, extension).pop().expect("there is one")
}

fn files(data_dir: &Path, directory: &str, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data_dir.join("state").join(directory));
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect();
    paths.sort();
    paths
}

/// Returns the properties of the table that the tests have set.
async fn properties(server: &Server) -> Vec<String> {
    let loaded = Client::of(&server.uri).load(TABLE).await;
    let properties = loaded["metadata"]["properties"].as_object().expect("an object").clone();
    KEYS.iter().filter(|key| properties.contains_key(**key)).map(ToString::to_string).collect()
}

/// Asserts that both the server and `fsck` reject the directory, and name this file in one line.
#[track_caller]
fn assert_rejected(data_dir: &Path, file: &str, what: &str) {
    for (command, (code, output_text)) in
        [("serve", serve_expecting_failure(data_dir)), ("fsck", fsck(data_dir))]
    {
        assert_eq!(code, Some(65), "{command}, {what}: {output_text}");
        let names_it = |line: &str| line.contains(file) && line.contains(". ");
        assert!(
            output_text.lines().any(names_it),
            "{command}, {what}: no line names {file}: {output_text}"
        );
    }
}

/// Returns the end of each frame of a segment.
pub fn frame_ends(segment: &[u8]) -> Vec<usize> {
    let mut ends = vec![];
    let mut at = 0;
    // Zeros follow the last frame.
    while let Some(header) = segment.get(at..at + 32).filter(|header| header[0] != 0) {
        let length = u32::from_le_bytes(header[12..16].try_into().expect("four bytes"));
        at += 32 + length as usize;
        ends.push(at);
    }
    ends
}

#[tokio::test]
async fn journal_that_lost_acknowledged_frames_is_rejected_until_the_loss_is_accepted() {
    let data_dir = killed().await;
    let path = data_dir.path();
    let segment = newest(path, "journal", "segment");
    let whole = std::fs::read(&segment).expect("it can be read");
    let ends = frame_ends(&whole);
    let border = ends[ends.len() - 2];
    let name = segment.file_name().expect("a name").to_string_lossy().into_owned();
    let lengths = [None, Some(0), Some(ends[0]), Some(border), Some(border + 10)];
    for length in lengths {
        match length {
            Some(length) => std::fs::write(&segment, &whole[..length]).expect("it can be written"),
            None => std::fs::remove_file(&segment).expect("it can be deleted"),
        }
        assert_rejected(path, &name, &format!("{length:?} bytes are left"));
        let left = segment.metadata().ok().map(|metadata| metadata.len() as usize);
        assert_eq!(left, length, "the rejected start changed the segment");
        std::fs::write(&segment, &whole).expect("it can be written");
        assert_sound(path, "with the segment put back");
    }
    std::fs::write(&segment, &whole[..border]).expect("it can be written");
    let (code, output_text) = run(path, "store accept-loss", &[]);
    assert_eq!(code, Some(65), "{output_text}");
    assert!(output_text.contains(&name) && output_text.contains("--yes"), "{output_text}");
    assert_rejected(path, &name, "the loss was not confirmed");
    let (code, output_text) = run(path, "store accept-loss", &["--yes"]);
    assert_eq!(code, Some(0), "{output_text}");
    assert_sound(path, "after the loss was accepted");
    let server = Server::start(path);
    assert_eq!(properties(&server).await, ["a", "b"], "the last commit is lost");
    Client::of(&server.uri).set(TABLE, "c").await.expect(200);
    server.kill();
    let (code, output_text) = run(path, "store accept-loss", &["--yes"]);
    assert_eq!((code, output_text.contains("Nothing is lost")), (Some(0), true), "{output_text}");
    let server = Server::start(path);
    assert_eq!(properties(&server).await, KEYS);
}

#[tokio::test]
async fn directory_without_its_journal_is_rejected_unless_an_older_version_wrote_it() {
    let data_dir = killed().await;
    let path = data_dir.path();
    let (journal, mark) = (path.join("state/journal"), path.join("state/journal.mark"));
    let aside = path.join("aside");
    std::fs::rename(&journal, &aside).expect("it can be moved");
    assert_rejected(path, ".segment", "without the directory of the journal");
    std::fs::remove_dir_all(&journal).expect("it can be deleted");
    std::fs::rename(&aside, &journal).expect("it can be moved");
    let mut bytes = std::fs::read(&mark).expect("it can be read");
    bytes[9] ^= 1;
    std::fs::write(&mark, bytes).expect("it can be written");
    assert_rejected(path, "journal.mark", "with a damaged mark");
    std::fs::remove_file(&mark).expect("it can be deleted");
    assert_sound(path, "without a mark");
    let server = Server::start(path);
    assert_eq!(properties(&server).await, KEYS);
    server.kill();
    let segments = files(path, "journal", "segment");
    segments.iter().for_each(|segment| std::fs::remove_file(segment).expect("it can be deleted"));
    assert_rejected(path, ".segment", "without segments, after a start wrote the mark again");
}

#[tokio::test]
async fn manifest_older_than_the_last_clean_shutdown_is_rejected() {
    let data_dir = tempfile::tempdir().expect("a temporary directory");
    let path = data_dir.path();
    let server = with_table(path).await;
    let before = files(path, "manifest", "manifest");
    server.stop();
    assert_sound(path, "after an orderly stop");
    for manifest in files(path, "manifest", "manifest") {
        if !before.contains(&manifest) {
            std::fs::remove_file(manifest).expect("it can be deleted");
        }
    }
    assert_rejected(path, "manifest", "the newest manifests are missing");
}

#[tokio::test]
async fn damaged_or_missing_manifest_is_reported_by_name() {
    let data_dir = killed().await;
    let path = data_dir.path();
    let manifest = newest(path, "manifest", "manifest");
    let name = manifest.file_name().expect("a name").to_string_lossy().into_owned();
    let whole = std::fs::read(&manifest).expect("it can be read");
    for damaged in [&b""[..], &whole[..whole.len() / 2], b"rubbish"] {
        std::fs::write(&manifest, damaged).expect("it can be written");
        assert_rejected(path, &name, "a damaged manifest");
    }
    std::fs::remove_file(&manifest).expect("it can be deleted");
    assert_rejected(path, &name, "without its newest manifest");
    std::fs::write(&manifest, &whole).expect("it can be written");
    let server = Server::start(path);
    assert_eq!(properties(&server).await, KEYS, "with the manifest put back");
}

#[tokio::test]
async fn damaged_compactions_file_is_reported_and_the_server_starts() {
    let data_dir = killed().await;
    let path = data_dir.path();
    let compactions = newest(path, "compactions", "compactions");
    let name = compactions.file_name().expect("a name").to_string_lossy().into_owned();
    let whole = std::fs::read(&compactions).expect("it can be read");
    for damaged in [&b""[..], &whole[..whole.len() / 2], b"rubbish"] {
        std::fs::write(&compactions, damaged).expect("it can be written");
        assert_rejected(path, &name, "a damaged list of compactions");
    }
    std::fs::remove_file(&compactions).expect("it can be deleted");
    let server = Server::start(path);
    assert_eq!(properties(&server).await, KEYS);
    server.stop();
    assert_sound(path, "without the damaged file");
}

#[tokio::test]
async fn fsck_checks_every_part_of_a_sorted_run() {
    let data_dir = stopped().await;
    let path = data_dir.path();
    for run in files(path, "compacted", "sst") {
        let name = run.file_name().expect("a name").to_string_lossy().into_owned();
        let whole = std::fs::read(&run).expect("it can be read");
        let mut damages = vec![vec![], whole[..whole.len() / 2].to_vec()];
        for at in (0..whole.len()).step_by(whole.len() / 16 + 1) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            damages.push(flipped);
        }
        for damaged in damages {
            std::fs::write(&run, &damaged).expect("it can be written");
            let (code, output_text) = fsck(path);
            assert_eq!(code, Some(65), "{} bytes: {output_text}", damaged.len());
            assert!(output_text.contains(&name), "{output_text}");
        }
        std::fs::write(&run, &whole).expect("it can be written");
    }
    assert_sound(path, "with everything put back");
}

#[tokio::test]
async fn damaged_metadata_file_of_the_last_commit_is_found_and_rewritten_by_the_next_start() {
    let data_dir = stopped().await;
    let path = data_dir.path();
    for (key, bytes_left) in [("empty", 0), ("torn", 100)] {
        // The server is killed before the next commit, which would remove the record of this
        // commit's publication.
        let server = Server::start(path);
        let client = Client::of(&server.uri);
        client.set(TABLE, key).await.expect(200);
        let loaded = client.load(TABLE).await;
        server.kill();
        let location = loaded["metadata-location"].as_str().expect("a location");
        let file = PathBuf::from(location.strip_prefix("file://").expect("a local warehouse"));
        let whole = std::fs::read(&file).expect("it is published");
        std::fs::write(&file, &whole[..bytes_left]).expect("it can be written");
        let (code, output_text) = fsck(path);
        assert_eq!(code, Some(65), "{key}: {output_text}");
        assert!(
            output_text.contains(location) && output_text.contains("differs from its record"),
            "{output_text}"
        );
        Server::start(path).kill();
        assert_eq!(std::fs::read(&file).expect("it is there"), whole, "{key}: not rewritten");
        let log = std::fs::read_to_string(path.join("test-server.log")).expect("a log");
        let line = log.lines().rfind(|line| line.contains("replaced metadata files"));
        assert!(line.is_some_and(|line| line.contains(location)), "{key}: {log}");
        assert_sound(path, "after the file was replaced");
    }
}

/// If mounting is not permitted on this machine, the test prints this and checks nothing.
#[tokio::test]
async fn fsck_checks_a_directory_mounted_read_only() {
    let data_dir = killed().await;
    let path = data_dir.path().to_string_lossy().into_owned();
    let binary = env!("CARGO_BIN_EXE_slateberg");
    let fsck = |prepare: &str| {
        let script = format!(
            "mount --bind {path} {path} && mount -o remount,bind,ro {path} && {prepare} \
             exec {binary} fsck --data-dir {path}"
        );
        let unshare = ["--user", "--map-root-user", "--mount", "sh", "-c", &script];
        Command::new("unshare").args(unshare).current_dir("/").output()
    };
    let attempt = fsck("touch writable 2>/dev/null; ");
    let attempt = match attempt {
        Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("mount:") => output,
        other => {
            eprintln!("SKIPPED: this machine does not let the test mount a directory: {other:?}");
            return;
        }
    };
    let output_text = String::from_utf8_lossy(&attempt.stdout).into_owned();
    assert!(attempt.status.success(), "{output_text}{}", String::from_utf8_lossy(&attempt.stderr));
    assert!(output_text.contains("0 damaged") && output_text.contains("0 broken"), "{output_text}");
    std::fs::remove_file(data_dir.path().join("lock")).expect("there was a lock file");
    let output = fsck("").expect("it could be started before");
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && output_text.contains("without a lock"), "{output_text}");
    let _server = Server::start(data_dir.path());
    let output = fsck("").expect("it could be started before");
    let output_text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output_text.contains("in use"), "{output_text}");
}
