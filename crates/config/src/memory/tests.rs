//! The shares add up to the budget. The budget is a fraction of the available memory.

use super::*;

const GIB: u64 = 1 << 30;

fn with_budget(memory_bytes_max: u64) -> Settings {
    Settings { memory_bytes_max, ..Settings::default() }
}

fn permitted(settings: &Settings) -> u64 {
    PARTS.iter().map(|part| part.bytes(settings)).sum()
}

#[test]
fn default_memory_limits_add_up_to_the_budget() {
    for budget in [BUDGET_BYTES_MIN, 100 * MIB, 256 * MIB, GIB, 64 * GIB] {
        let settings = with_budget(budget).with_memory_shares();
        let permitted = permitted(&settings);
        assert!(permitted <= budget, "{permitted} of {budget} bytes");
        assert!(permitted > budget - MIB, "{permitted} of {budget} bytes");
        assert_eq!(settings.memory_warning(), None);
        assert!(PARTS.iter().all(|part| part.bytes(&settings) >= part.bytes_min));
        assert!(settings.server.bodies_bytes_max >= settings.server.body_bytes_max);
    }
}

#[test]
fn weights_are_64ths() {
    assert_eq!(PARTS.iter().map(|part| part.weight).sum::<u64>(), 64);
}

#[test]
fn deriving_memory_shares_is_idempotent() {
    let once = with_budget(GIB).with_memory_shares();
    assert_eq!(once.clone().with_memory_shares(), once);
}

#[test]
fn explicit_memory_setting_reduces_the_shared_budget() {
    let mut settings = with_budget(GIB);
    settings.store.block_cache_bytes = 512 * MIB;
    let shared = settings.clone().with_memory_shares();
    assert_eq!(shared.store.block_cache_bytes, 512 * MIB);
    assert!(permitted(&shared) <= GIB);
    let usual = with_budget(GIB).with_memory_shares();
    assert!(shared.store.record_cache_bytes < usual.store.record_cache_bytes);
    assert_eq!(settings.memory_warning(), None);
    assert!(!settings.is_memory_share("store.block_cache_bytes"));
    assert!(settings.is_memory_share("store.meta_cache_bytes"));
    assert!(!settings.is_memory_share("store.manifest_poll_ms"));
}

#[test]
fn explicit_settings_beyond_the_budget_are_warned_about() {
    let mut settings = with_budget(GIB);
    settings.store.block_cache_bytes = GIB;
    let warning = settings.memory_warning().expect("a warning");
    assert!(warning.starts_with("memory_bytes_max: "), "{warning}");
    assert!(
        warning.ends_with("or lower store.block_cache_bytes, server.body_bytes_max"),
        "{warning}"
    );
    let mut settings = with_budget(GIB);
    settings.server.body_bytes_max = 2 * GIB as usize;
    assert!(settings.memory_warning().is_some(), "a body of the longest size is part of it");
}

#[test]
fn shares_of_a_derived_budget_have_maximums() {
    let derived = |url: &str| {
        let mut settings = with_budget(0);
        settings.state.url = url.to_owned();
        settings.with_memory_shares()
    };
    let (in_bucket, explicit) =
        (derived("s3://bucket/state"), with_budget(64 * GIB).with_memory_shares());
    for part in PARTS.iter().filter(|part| CACHES_OF_STATE.contains(&part.key)) {
        for local in ["", "file:///data/state"] {
            assert!(part.bytes(&derived(local)) <= LOCAL_CACHE_BYTES_MAX, "{}", part.key);
        }
        assert!(part.bytes(&in_bucket) >= part.bytes(&derived("")), "{}", part.key);
        assert!(part.bytes(&explicit) > LOCAL_CACHE_BYTES_MAX, "{}", part.key);
    }
    assert!(in_bucket.store.unflushed_bytes_max as u64 <= UNFLUSHED_BYTES_MAX);
    assert!(explicit.store.unflushed_bytes_max as u64 > UNFLUSHED_BYTES_MAX);
}

#[test]
fn a_budget_below_64_mib_is_rejected() {
    assert!(with_budget(BUDGET_BYTES_MIN - 1).check_memory().is_err());
    assert_eq!(with_budget(BUDGET_BYTES_MIN).check_memory(), Ok(()));
    assert_eq!(with_budget(0).check_memory(), Ok(()));
}

#[test]
fn default_budget_is_a_quarter_of_the_memory_within_bounds() {
    for (available, budget) in [
        (Some(2 * GIB), 512 * MIB),
        (Some(64 * GIB), GIB),
        (Some(100 * MIB), BUDGET_BYTES_MIN),
        (None, GIB),
    ] {
        assert_eq!(budget_of(available), budget, "{available:?}");
    }
}

/// Returns the memory available to a process with these files below the root of the file system.
fn available(files: &[(&str, &str)]) -> Option<u64> {
    let root = tempfile::tempdir().expect("a directory");
    for (path, content) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("it is below the root")).expect("a directory");
        std::fs::write(path, content).expect("it can be written");
    }
    available_bytes(root.path())
}

#[test]
fn available_memory_is_the_minimum_of_machine_and_cgroups() {
    let machine = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");
    assert_eq!(available(&[]), None);
    assert_eq!(available(&[machine]), Some(8 * GIB));

    let v2 = ("proc/self/cgroup", "0::/a.slice/b.service\n");
    let unlimited = ("sys/fs/cgroup/a.slice/b.service/memory.max", "max\n");
    assert_eq!(available(&[machine, v2, unlimited]), Some(8 * GIB));
    let outer = ("sys/fs/cgroup/a.slice/memory.max", "1073741824\n");
    assert_eq!(available(&[machine, v2, unlimited, outer]), Some(GIB));
    let inner = ("sys/fs/cgroup/a.slice/b.service/memory.max", "536870912\n");
    assert_eq!(available(&[machine, v2, inner, outer]), Some(512 * MIB));
    // In a container, the process's own cgroup is the root.
    let own = ("sys/fs/cgroup/memory.max", "268435456\n");
    assert_eq!(available(&[machine, ("proc/self/cgroup", "0::/\n"), own]), Some(256 * MIB));

    let v1 = ("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/docker/1\n0::/\n");
    let limit = ("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "2147483648\n");
    assert_eq!(available(&[machine, v1, limit]), Some(2 * GIB));
    let own = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    assert_eq!(available(&[machine, v1, own]), Some(2 * GIB), "the host's path is not mounted");
    let unlimited = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_eq!(available(&[machine, v1, unlimited]), Some(8 * GIB));
}
