//! [`TargetRules`]: the URLs and addresses to which webhooks may send events.
//!
//! Without these rules, a principal that may create webhooks could let the server send requests to
//! services that only the server can reach, such as the metadata service of a cloud.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use super::settings::Settings;
use slateberg_base::setting::InvalidSetting;

/// Maximum length of a URL, in bytes.
const URL_BYTES_MAX: usize = 2048;

/// Networks of IPv4 that are not public: this network, private networks, carrier-grade NAT,
/// loopback, link-local (with the metadata services of clouds), protocol assignments,
/// documentation, 6to4 relays, benchmarks, multicast, and reserved addresses.
const NOT_PUBLIC_V4: [(Ipv4Addr, u8); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The global unicast addresses of IPv6.
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// Parts of `GLOBAL_V6` that are not public: protocol assignments with Teredo, documentation, and
/// 6to4, whose addresses contain an address of IPv4.
const NOT_PUBLIC_V6: [(Ipv6Addr, u8); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];
/// Addresses of NAT64. The last four bytes are an address of IPv4.
const NAT64: (Ipv6Addr, u8) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// The URLs and addresses to which webhooks may send events.
#[derive(Debug, Clone)]
pub struct TargetRules {
    settings: Settings,
    allowed: Vec<Network>,
}

/// A network: the first address, and the length of the prefix in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    V4(Ipv4Addr, u8),
    V6(Ipv6Addr, u8),
}

impl TargetRules {
    /// Returns the rules of these settings. Errors if a network is invalid.
    pub fn new(settings: &Settings) -> Result<Self, InvalidSetting> {
        let parsed = settings.allowed_networks.iter().map(|text| {
            Network::parse(text).ok_or_else(|| {
                let message =
                    format!("expected networks such as 10.1.0.0/16 or fd00::/8, got '{text}'");
                InvalidSetting::new("webhooks.allowed_networks", message)
            })
        });
        Ok(Self { settings: settings.clone(), allowed: parsed.collect::<Result<_, _>>()? })
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Parses the URL of a receiver. Errors with a message if a webhook may not have this URL.
    pub fn parse(&self, text: &str) -> Result<Url, String> {
        if text.len() > URL_BYTES_MAX {
            return Err(format!("expected at most {URL_BYTES_MAX} bytes"));
        }
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        match url.scheme() {
            "https" => {}
            "http" if self.settings.allow_http => {}
            "http" => return Err("expected https (webhooks.allow_http is false)".to_owned()),
            _ => return Err("expected a URL that begins with https://".to_owned()),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("expected a URL without a user name or password".to_owned());
        }
        let address = match url.host() {
            None => return Err("expected a host".to_owned()),
            Some(Host::Domain(_)) => None,
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        };
        match address.filter(|address| !self.permits(*address)) {
            None => Ok(url),
            Some(address) => Err(not_permitted(address)),
        }
    }

    /// Whether the server may connect to this address.
    pub fn permits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.settings.allow_private
            || self.allowed.iter().any(|network| network.contains(address))
            || is_public(address)
    }
}

/// Returns the message about an address to which the server does not connect.
pub fn not_permitted(address: IpAddr) -> String {
    format!(
        "the address {address} is not public, and webhooks.allowed_networks does not contain it"
    )
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC_V4
            .iter()
            .any(|(first, bits)| Network::V4(*first, *bits).contains_v4(address)),
        IpAddr::V6(address) => {
            let is_in = |(first, bits): &(Ipv6Addr, u8)| {
                Network::V6(*first, *bits).contains(IpAddr::V6(address))
            };
            if is_in(&NAT64) {
                let [.., a, b, c, d] = address.octets();
                return is_public(IpAddr::V4(Ipv4Addr::new(a, b, c, d)));
            }
            is_in(&GLOBAL_V6) && !NOT_PUBLIC_V6.iter().any(is_in)
        }
    }
}

impl Network {
    /// Parses `10.1.0.0/16`, or an address without a prefix length. `None` if the text is invalid.
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text, None),
        };
        match address.parse().ok()? {
            IpAddr::V4(address) => {
                let bits = bits.unwrap_or(32);
                (bits <= 32).then_some(Self::V4(address, bits))
            }
            IpAddr::V6(address) => {
                let bits = bits.unwrap_or(128);
                (bits <= 128).then_some(Self::V6(address, bits))
            }
        }
    }

    fn contains(self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::V4(..), IpAddr::V4(address)) => self.contains_v4(address),
            (Self::V6(first, bits), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(bits);
                let prefix = |address: Ipv6Addr| address.to_bits().checked_shr(shift).unwrap_or(0);
                prefix(first) == prefix(address)
            }
            _ => false,
        }
    }

    fn contains_v4(self, address: Ipv4Addr) -> bool {
        let Self::V4(first, bits) = self else { return false };
        let shift = 32 - u32::from(bits);
        let prefix = |address: Ipv4Addr| address.to_bits().checked_shr(shift).unwrap_or(0);
        prefix(first) == prefix(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(change: impl FnOnce(&mut Settings)) -> TargetRules {
        let mut settings = Settings::default();
        change(&mut settings);
        TargetRules::new(&settings).expect("the networks are valid")
    }

    #[test]
    fn only_public_addresses_are_permitted() {
        let rules = rules(|_| {});
        let public = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111"];
        for address in public.into_iter().chain(["::ffff:8.8.8.8", "64:ff9b::808:808"]) {
            assert!(rules.permits(address.parse().expect(address)), "{address}");
        }
        let others = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.8.9.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
        ];
        for address in others {
            assert!(!rules.permits(address.parse().expect(address)), "{address}");
        }
    }

    #[test]
    fn allowed_networks_extend_the_permitted_addresses() {
        let rules = rules(|settings| {
            let networks = ["10.1.0.0/16", "fd00::/8", "127.0.0.1"];
            settings.allowed_networks = networks.map(ToOwned::to_owned).to_vec();
        });
        for address in ["10.1.2.3", "fd12::1", "127.0.0.1", "::ffff:10.1.0.1"] {
            assert!(rules.permits(address.parse().expect(address)), "{address}");
        }
        for address in ["10.2.0.1", "fe80::1", "127.0.0.2"] {
            assert!(!rules.permits(address.parse().expect(address)), "{address}");
        }
        for wrong in ["10.0.0.0/33", "fd00::/129", "example.com", "10.0.0.0/-1", ""] {
            let settings =
                Settings { allowed_networks: vec![wrong.to_owned()], ..Settings::default() };
            let problem = TargetRules::new(&settings).expect_err(wrong);
            assert_eq!(problem.key, "webhooks.allowed_networks");
        }
        let all = Network::parse("0.0.0.0/0").expect("valid");
        assert!(all.contains_v4(Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn url_with_another_scheme_or_a_private_address_is_rejected() {
        let strict = rules(|_| {});
        assert!(strict.parse("https://example.com:8443/hook?a=b").is_ok());
        let wrong = [
            "http://example.com/",
            "ftp://example.com/",
            "https://",
            "example.com",
            "https://user:secret@example.com/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://[::ffff:10.0.0.1]/",
        ];
        for url in wrong {
            assert!(strict.parse(url).is_err(), "{url}");
        }
        assert!(strict.parse(&format!("https://example.com/{}", "a".repeat(2048))).is_err());
        let open = rules(|settings| {
            settings.allow_http = true;
            settings.allow_private = true;
        });
        assert!(open.parse("http://127.0.0.1:8080/").is_ok());
    }
}
