//! [`FixedEncoding`]: two encodings of values of the type `fixed`.

/// Encoding of the values of types `fixed` without a logical type in a block.
///
/// Avro has no length before these values. Iceberg's Java library writes the length before each
/// partition value of a column of the type `fixed[n]`, as if it were of the type `bytes`
/// ([issue 17501](https://github.com/apache/iceberg/issues/17501)). Other writers follow Avro. The
/// schema does not show the difference, but the entries of a block must end where the block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FixedEncoding {
    /// Only the value.
    Plain,
    /// The length, and then the value.
    WithLength,
}
