//! Field ids of entries ("Manifests" in the table specification).

pub(super) const STATUS: i32 = 0;
pub(super) const SNAPSHOT_ID: i32 = 1;
pub(super) const DATA_FILE: i32 = 2;
pub(super) const SEQUENCE_NUMBER: i32 = 3;
pub(super) const FILE_SEQUENCE_NUMBER: i32 = 4;
pub(super) const PATH: i32 = 100;
pub(super) const FORMAT: i32 = 101;
pub(super) const PARTITION: i32 = 102;
pub(super) const RECORD_COUNT: i32 = 103;
pub(super) const SIZE: i32 = 104;
pub(super) const COLUMN_SIZES: i32 = 108;
pub(super) const VALUE_COUNTS: i32 = 109;
pub(super) const NULL_COUNTS: i32 = 110;
pub(super) const LOWER_BOUNDS: i32 = 125;
pub(super) const UPPER_BOUNDS: i32 = 128;
pub(super) const KEY_METADATA: i32 = 131;
pub(super) const SPLIT_OFFSETS: i32 = 132;
pub(super) const CONTENT: i32 = 134;
pub(super) const EQUALITY_IDS: i32 = 135;
pub(super) const NAN_COUNTS: i32 = 137;
pub(super) const SORT_ORDER_ID: i32 = 140;
pub(super) const FIRST_ROW_ID: i32 = 142;
pub(super) const REFERENCED_DATA_FILE: i32 = 143;
pub(super) const CONTENT_OFFSET: i32 = 144;
pub(super) const CONTENT_SIZE: i32 = 145;

/// The fields of a data file that are read.
pub(super) const FILE_FIELDS: [i32; 19] = [
    PATH,
    FORMAT,
    RECORD_COUNT,
    SIZE,
    COLUMN_SIZES,
    VALUE_COUNTS,
    NULL_COUNTS,
    LOWER_BOUNDS,
    UPPER_BOUNDS,
    KEY_METADATA,
    SPLIT_OFFSETS,
    CONTENT,
    EQUALITY_IDS,
    NAN_COUNTS,
    SORT_ORDER_ID,
    FIRST_ROW_ID,
    REFERENCED_DATA_FILE,
    CONTENT_OFFSET,
    CONTENT_SIZE,
];
