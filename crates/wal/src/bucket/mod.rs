//! The log of a store in a bucket: one object for each frame.
//!
//! A writer puts up to [`PUTS_MAX`] files at the same time, and acknowledges them in the order of
//! their numbers. A file is never replaced, because each put has the condition that the file does
//! not exist. So if a file is missing, no later file is acknowledged.
//!
//! A new writer **fences** its predecessor with an empty file at the first missing number. The
//! predecessor can no longer put this file, so it acknowledges neither this file nor a later one.
//! But it may still put the next `PUTS_MAX - 1` files, or may have put some of them already: they
//! are **dead**, because no client received a response for them. The new writer puts empty frames
//! under these numbers as far as they are free, so that no number is missing, and begins with the
//! number after them. [`Fences`] recognizes dead files. A fence is never deleted
//! ([SlateDB's issue 352](https://github.com/slatedb/slatedb/issues/352)): a writer that was
//! suspended for a long time could otherwise still put its file.
//!
//! In older versions of slateberg, SlateDB wrote these files, as sorted runs and one after the other.
//! Its fences are the same. Such files can precede the others, and are still read.

mod file;
mod log;
mod reader;
mod requests;
mod writer;

#[cfg(test)]
mod tests;

pub use file::{Fences, FileContent, LogFile, ReadError};
pub use log::{BucketLog, PUTS_MAX, READS_MAX, directory, last_consecutive, missing_file, number};
