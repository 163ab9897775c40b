//! Kinds of input and output errors, by what a retry can do about them.

use std::error::Error;
use std::io::{self, ErrorKind};

/// Too many open files of this process (EMFILE) and of the system (ENFILE). The standard library has no kind
/// for them; the numbers are the same on Linux, macOS and the BSDs.
const DESCRIPTORS_EXHAUSTED: [i32; 2] = [24, 23];

/// Kind of a failed operation on a file or a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoFailure {
    /// The file system has no space left, or a quota is used up: a retry succeeds when space was freed.
    Full,
    /// File descriptors, memory or time ran out: a retry may succeed a moment later.
    Transient,
    /// No retry succeeds before an operator has acted: EIO, EACCES, EROFS, ENAMETOOLONG and the like.
    Final,
}

impl IoFailure {
    /// Returns the kind of an error.
    pub fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full,
            ErrorKind::Interrupted
            | ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::ResourceBusy
            | ErrorKind::OutOfMemory
            | ErrorKind::StaleNetworkFileHandle
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown => Self::Transient,
            _ if error.raw_os_error().is_some_and(|it| DESCRIPTORS_EXHAUSTED.contains(&it)) => {
                Self::Transient
            }
            _ => Self::Final,
        }
    }
}

/// Returns the innermost input or output error among an error and its sources.
pub fn io_error<'a>(mut error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut found = None;
    loop {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            found = Some(io);
            // `io::Error::source()` leaves out the error that it wraps.
            match io.get_ref() {
                Some(inner) => error = inner,
                None => return found,
            }
        } else {
            match error.source() {
                Some(source) => error = source,
                None => return found,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_classified_by_what_a_retry_can_do() {
        let of = |code| IoFailure::of(&io::Error::from_raw_os_error(code));
        // EMFILE, ENFILE, EINTR, ENOMEM
        for code in [24, 23, 4, 12] {
            assert_eq!(of(code), IoFailure::Transient, "{code}");
        }
        // EIO, EACCES, EISDIR, EROFS
        for code in [5, 13, 21, 30] {
            assert_eq!(of(code), IoFailure::Final, "{code}");
        }
        assert_eq!(of(28), IoFailure::Full, "ENOSPC");
        #[cfg(target_os = "linux")]
        assert_eq!(of(122), IoFailure::Full, "EDQUOT");
    }

    #[test]
    fn the_innermost_error_of_a_chain_is_found() {
        let full = io::Error::from_raw_os_error(28);
        let wrapped = io::Error::other(io::Error::other(full));
        assert_eq!(io_error(&wrapped).and_then(io::Error::raw_os_error), Some(28));
        assert!(io_error(&std::fmt::Error).is_none());
    }
}
