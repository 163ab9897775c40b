//! The name of the host.

use rustix::system::uname;

/// Returns the name of the host, or `localhost` if it has none.
pub fn host_name() -> String {
    match uname().nodename().to_string_lossy().as_ref() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_has_a_name() {
        assert_ne!(host_name(), "");
    }
}
