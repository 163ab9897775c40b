//! The format of the register.

use super::*;

const RECORD: &str = r#"{
  "format": 1,
  "catalog": "00000000-0000-0000-0000-000000000001",
  "term": 42,
  "renewal": 1187,
  "nonce": "00000000-0000-0000-0000-000000000002",
  "state": "serving",
  "epoch": 17,
  "sequence": 9001,
  "lease-ms": 4000,
  "holder": {
    "node": "00000000-0000-0000-0000-000000000003",
    "name": "lake-7f9c",
    "version": "0.3.0"
  },
  "peer": {
    "url": "https://10.2.3.4:9182",
    "certificate-sha256": "00ff"
  }
}"#;

#[test]
fn record_keeps_its_json() {
    let record = WriterRecord::from_json(RECORD.as_bytes()).unwrap();
    assert_eq!(record.state, WriterState::Serving);
    assert_eq!(String::from_utf8(record.to_json().unwrap()).unwrap(), RECORD);
}

#[test]
fn record_of_an_older_version_has_no_sequence_number() {
    let json = RECORD.replacen("\"sequence\": 9001,", "", 1);
    let record = WriterRecord::from_json(json.as_bytes()).unwrap();
    assert_eq!(record.sequence, 0);
}

#[test]
fn unknown_members_of_a_record_are_ignored() {
    let json = RECORD.replacen('{', "{ \"zone\": \"eu-central-1a\",", 1);
    let record = WriterRecord::from_json(json.as_bytes()).unwrap();
    assert_eq!(record, WriterRecord::from_json(RECORD.as_bytes()).unwrap());
}

#[test]
fn record_of_a_newer_format_is_rejected_by_its_format() {
    let error = WriterRecord::from_json(br#"{ "format": 3, "leader": [] }"#).unwrap_err();
    assert!(matches!(error, RecordError::NewerFormat { format: 3 }));
    assert!(error.to_string().contains("format 3"), "{error}");
}

#[test]
fn only_a_paused_record_has_the_second_format() {
    let states = [
        WriterState::Opening,
        WriterState::Serving,
        WriterState::Leaving,
        WriterState::Released,
        WriterState::Paused,
    ];
    assert_eq!(states.map(WriterState::format), [1, 1, 1, 1, 2]);
    let json =
        RECORD.replace("\"serving\"", "\"paused\"").replace("\"format\": 1", "\"format\": 2");
    let paused = WriterRecord::from_json(json.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(paused.to_json().unwrap()).unwrap(), json);
    let nonce = Uuid::from_u64_pair(0, 9);
    let resumed = paused.resumed(nonce);
    assert_eq!((resumed.format, resumed.state), (1, WriterState::Released));
    assert_eq!((resumed.term, resumed.renewal, resumed.nonce), (42, 1188, nonce));
}

#[test]
fn invalid_records_are_rejected() {
    let zero = WriterRecord::from_json(br#"{ "format": 0 }"#);
    assert!(matches!(zero, Err(RecordError::InvalidFormat)));
    let partial = WriterRecord::from_json(br#"{ "format": 1, "term": 1 }"#);
    assert!(matches!(partial, Err(RecordError::Malformed(_))));
    let empty = WriterRecord::from_json(b"");
    assert!(matches!(empty, Err(RecordError::Malformed(_))));
    let large = WriterRecord::from_json(&[b' '; MAX_BYTES + 1]);
    assert!(matches!(large, Err(RecordError::TooLarge { .. })));
    let mut record = WriterRecord::from_json(RECORD.as_bytes()).unwrap();
    record.holder.name = "x".repeat(MAX_BYTES);
    assert!(matches!(record.to_json(), Err(RecordError::TooLarge { .. })));
}
