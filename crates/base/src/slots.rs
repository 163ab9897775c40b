//! [`SlotsPerKey`]: a maximum number of concurrent operations for each key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// The slots in use, by key. Clones share one state.
#[derive(Clone)]
pub struct SlotsPerKey<K> {
    in_use: Arc<Mutex<HashMap<K, usize>>>,
    per_key_max: usize,
}

/// A slot of a key. Dropping it releases the slot.
pub struct Slot<K: Eq + Hash> {
    key: K,
    in_use: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Clone + Eq + Hash> SlotsPerKey<K> {
    /// Creates `per_key_max` slots for each key.
    pub fn new(per_key_max: usize) -> Self {
        Self { in_use: Arc::default(), per_key_max }
    }

    /// Takes a slot. `None` if all slots of the key are in use.
    pub fn try_take(&self, key: K) -> Option<Slot<K>> {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if in_use.get(&key).is_some_and(|count| *count >= self.per_key_max) {
            return None;
        }
        *in_use.entry(key.clone()).or_default() += 1;
        drop(in_use);
        Some(Slot { key, in_use: Arc::clone(&self.in_use) })
    }
}

impl<K: Eq + Hash> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = in_use.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                in_use.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_cannot_take_slots_of_another_key() {
        let slots = SlotsPerKey::new(2);
        let first = slots.try_take("a");
        let second = slots.try_take("a");
        assert!(first.is_some() && second.is_some());
        assert!(slots.try_take("a").is_none(), "all slots of the key are in use");
        assert!(slots.try_take("b").is_some());
        drop(first);
        assert!(slots.try_take("a").is_some(), "a slot is free again");
    }

    #[test]
    fn key_without_slots_in_use_uses_no_memory() {
        let slots = SlotsPerKey::new(1);
        let slot = slots.try_take("a");
        assert!(slots.try_take("a").is_none());
        drop(slot);
        assert!(slots.in_use.lock().expect("no panic").is_empty());
    }
}
