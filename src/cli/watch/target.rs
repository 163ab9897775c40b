//! [`Target`]: the message broker to which events are sent.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// Maximum length of the name of a topic of Kafka.
const TOPIC_CHARS_MAX: usize = 249;
const EXPECTED: &str = "expected nats://HOST:PORT/SUBJECT, tls://HOST:PORT/SUBJECT (NATS with TLS) or kafka://HOST:PORT/TOPIC";

/// A message broker, and the subject or topic to which events are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) protocol: Protocol,
    /// Addresses of servers, as `HOST:PORT`.
    pub(super) servers: Vec<String>,
    /// Subject of NATS or topic of Kafka.
    pub(super) channel: String,
}

/// The protocol of a message broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// NATS. The connection uses TLS only if the server requires it.
    Nats,
    /// NATS with TLS.
    NatsTls,
    /// Kafka.
    Kafka,
}

impl Protocol {
    fn scheme(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::NatsTls => "tls",
            Self::Kafka => "kafka",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Nats | Self::NatsTls => 4222,
            Self::Kafka => 9092,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.protocol.scheme(), self.servers.join(","), self.channel)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or(EXPECTED)?;
        let protocols = [Protocol::Nats, Protocol::NatsTls, Protocol::Kafka];
        let protocol = protocols.into_iter().find(|it| it.scheme() == scheme).ok_or(EXPECTED)?;
        if rest.contains('@') {
            return Err(match protocol {
                Protocol::Kafka => "the URL contains a credential, which the list of processes would show: set KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD instead",
                Protocol::Nats | Protocol::NatsTls => "the URL contains a credential, which the list of processes would show: set NATS_USER and NATS_PASSWORD, NATS_TOKEN or NATS_CREDS instead",
            }
            .to_owned());
        }
        if rest.contains(['?', '#']) {
            return Err("the URL has parameters: set variables such as NATS_CREDS or KAFKA_SASL_USERNAME instead".to_owned());
        }
        let (hosts, channel) = rest.split_once('/').ok_or(EXPECTED)?;
        let servers =
            hosts.split(',').map(|host| server(host, protocol)).collect::<Result<_, _>>()?;
        match protocol {
            Protocol::Kafka => check_topic(channel)?,
            Protocol::Nats | Protocol::NatsTls => check_subject(channel)?,
        }
        Ok(Self { protocol, servers, channel: channel.to_owned() })
    }
}

/// Returns the address of a server as `HOST:PORT`.
fn server(host: &str, protocol: Protocol) -> Result<String, String> {
    let invalid = || format!("'{host}' is not the address of a server: {EXPECTED}");
    let url = Url::parse(&format!("{}://{host}", protocol.scheme())).map_err(|_| invalid())?;
    let name = url.host_str().filter(|name| !name.is_empty()).ok_or_else(invalid)?;
    Ok(format!("{name}:{}", url.port().unwrap_or(protocol.default_port())))
}

fn check_subject(subject: &str) -> Result<(), String> {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '*' | '>' | '/');
    if subject.split('.').any(str::is_empty) || !subject.chars().all(is_plain) {
        return Err(format!(
            "'{subject}' is not a subject of NATS: expected names separated by dots, without wildcards"
        ));
    }
    Ok(())
}

fn check_topic(topic: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = (1..=TOPIC_CHARS_MAX).contains(&topic.len()) && topic.chars().all(is_plain);
    if !fits || topic == "." || topic == ".." {
        return Err(format!(
            "'{topic}' is not a topic of Kafka: expected 1 to {TOPIC_CHARS_MAX} letters, digits, '-', '_' or '.'"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_of_a_broker_has_servers_and_a_channel() {
        let valid = [
            ("nats://127.0.0.1:4300/lake.events", "nats://127.0.0.1:4300/lake.events"),
            ("nats://a,b:1/x", "nats://a:4222,b:1/x"),
            ("tls://nats.example.com/x", "tls://nats.example.com:4222/x"),
            ("kafka://[::1]:9093,b/lake-events", "kafka://[::1]:9093,b:9092/lake-events"),
        ];
        for (text, parsed) in valid {
            assert_eq!(text.parse::<Target>().expect(text).to_string(), parsed);
        }
    }

    #[test]
    fn invalid_url_of_a_broker_is_rejected() {
        let long = format!("kafka://a/{}", "t".repeat(250));
        let invalid = [
            "",
            "a",
            "nats:a/b",
            "http://a/b",
            "nats://a",
            "nats://a/",
            "nats:///b",
            "nats://a:x/b",
            "nats://a:70000/b",
            "nats://a,/b",
            "nats://a/b.",
            "nats://a/b..c",
            "nats://a/b.*",
            "nats://a/>",
            "nats://a/b c",
            "nats://a/b/c",
            "nats://user:pw@a/b",
            "nats://a/b?x=1",
            "kafka://a/",
            "kafka://a/..",
            "kafka://a/ä",
            "kafka://a/b/c",
            &long,
        ];
        for text in invalid {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
