//! [`UnverifiedBodies`]: bounds the memory for bodies of requests whose credential may be invalid.
//!
//! Only the writer can check a credential. So a standby reads the body of a request before it knows
//! whether the credential is valid. Without a bound, requests with an invalid credential could use
//! up the memory that other clients need.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::header;
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use crate::api::admission::{AtCapacity, content_length, has_body};
use crate::api::peer::source;
use slateberg_base::network::network;
use slateberg_config::server;

/// Parts of the memory for bodies that one address, and that all addresses may use without a
/// credential that a writer has accepted.
const ADDRESS_DIVISOR: usize = 8;
const ALL_DIVISOR: usize = 2;
/// Number of accepted credentials that are remembered, and the time for which they are.
const REMEMBERED_MAX: usize = 4096;
const REMEMBERED_FOR: Duration = Duration::from_secs(10 * 60);

/// The hash of a request's credential.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Credential([u8; 32]);

impl Credential {
    /// The credential of a request, if it has one.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let value = request.headers().get(header::AUTHORIZATION)?;
        Some(Self(Sha256::digest(value.as_bytes()).into()))
    }
}

/// Bounds the memory for bodies of requests whose credential no writer has accepted recently.
pub(super) struct UnverifiedBodies {
    accepted: Cache<Credential, Instant>,
    address_bytes_max: usize,
    all_bytes_max: usize,
    used: Arc<Mutex<Used>>,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The memory of one body. Dropping it releases the memory.
#[derive(Debug)]
pub(super) struct Share {
    used: Arc<Mutex<Used>>,
    address: IpAddr,
    bytes: usize,
}

impl UnverifiedBodies {
    /// Derives the bounds from the memory for all bodies. A single body always fits.
    pub(super) fn new(settings: &server::Settings) -> Self {
        let part =
            |divisor: usize| (settings.bodies_bytes_max / divisor).max(settings.body_bytes_max);
        Self {
            accepted: Cache::new(REMEMBERED_MAX),
            address_bytes_max: part(ADDRESS_DIVISOR),
            all_bytes_max: part(ALL_DIVISOR),
            used: Arc::default(),
        }
    }

    /// Reserves memory for the body of a request, unless a writer has accepted its credential.
    /// `bytes_max` is the maximum length of the body.
    pub(super) fn admit(
        &self,
        request: &Request,
        credential: Option<&Credential>,
        bytes_max: usize,
    ) -> Result<Option<Share>, AtCapacity> {
        let is_accepted = |it: &Credential| {
            self.accepted.get(it).is_some_and(|since: Instant| since.elapsed() < REMEMBERED_FOR)
        };
        let Some(address) = source(request.extensions()) else { return Ok(None) };
        if !has_body(request) || credential.is_some_and(is_accepted) {
            return Ok(None);
        }
        let length = content_length(request.headers());
        let bytes = length.map_or(bytes_max, |length| length.min(bytes_max));
        self.take(network(address), bytes).map(Some)
    }

    fn take(&self, address: IpAddr, bytes: usize) -> Result<Share, AtCapacity> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = used.by_address.get(&address).copied().unwrap_or_default();
        let fits = of_address.saturating_add(bytes) <= self.address_bytes_max
            && used.bytes.saturating_add(bytes) <= self.all_bytes_max;
        if !fits {
            return Err(AtCapacity);
        }
        used.bytes += bytes;
        used.by_address.insert(address, of_address + bytes);
        Ok(Share { used: Arc::clone(&self.used), address, bytes })
    }

    /// Remembers a credential that the writer has accepted.
    pub(super) fn accept(&self, credential: Option<Credential>) {
        if let Some(credential) = credential {
            self.accepted.insert(credential, Instant::now());
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.bytes -= self.bytes;
        if let Some(of_address) = used.by_address.get_mut(&self.address) {
            *of_address -= self.bytes;
            if *of_address == 0 {
                used.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_share_a_part_of_the_memory() {
        let settings = server::Settings {
            body_bytes_max: 100,
            bodies_bytes_max: 1_600,
            ..server::Settings::default()
        };
        let bodies = UnverifiedBodies::new(&settings);
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let first = bodies.take(address(1), 150).expect("it fits");
        assert!(bodies.take(address(1), 100).is_err(), "an address has an eighth of the memory");
        let _others: Vec<_> =
            (2..5).map(|last| bodies.take(address(last), 200).expect("it fits")).collect();
        assert!(bodies.take(address(9), 100).is_err(), "all addresses have a half of the memory");
        drop(first);
        assert!(bodies.take(address(1), 100).is_ok());
    }
}
