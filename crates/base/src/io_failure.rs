//! Classification of I/O errors by the effect of a retry.

use std::error::Error;
use std::io::{self, ErrorKind};

/// Too many open files in this process (EMFILE) or in the system (ENFILE). The standard library has
/// no kind for them. The numbers are the same on Linux, macOS and the BSDs.
const DESCRIPTORS_EXHAUSTED: [i32; 2] = [24, 23];

/// The kind of a failed operation on a file or socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoFailure {
    /// The file system is full or a quota is used up. A retry succeeds after space was freed.
    Full,
    /// File descriptors, memory or time ran out. A retry may succeed soon.
    Transient,
    /// Retries fail until an operator acts: EIO, EACCES, EROFS, ENAMETOOLONG and similar errors.
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

/// Returns the innermost I/O error among an error and its sources.
pub fn io_error<'a>(mut error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut found = None;
    loop {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            found = Some(io);
            // `io::Error::source()` skips the wrapped error.
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
    fn io_errors_are_classified_by_the_effect_of_a_retry() {
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
    fn innermost_io_error_of_a_chain_is_returned() {
        let full = io::Error::from_raw_os_error(28);
        let wrapped = io::Error::other(io::Error::other(full));
        assert_eq!(io_error(&wrapped).and_then(io::Error::raw_os_error), Some(28));
        assert!(io_error(&std::fmt::Error).is_none());
    }
}
