//! Data on a disk: no bytes crash the decoders of the master's rows and of a spool's records, and a
//! value that they read is the same after it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The master's sources, of which this test uses a part.
#[allow(dead_code, unused_imports)]
#[path = "."]
mod store {
    #[path = "../../master-lite/src/store/command.rs"]
    pub(crate) mod command;
    #[path = "../../master-lite/src/store/rows.rs"]
    mod rows;

    use rows::{Event, Job, Key, Log, Received, Returned};
    use value::Map;
    use wire::Id;

    /// Reads bytes, writes the value, and reads it again.
    fn row<T: PartialEq + std::fmt::Debug>(
        bytes: &[u8],
        from_row: impl Fn(&[u8]) -> Option<T>,
        to_row: impl Fn(&T) -> Map,
    ) {
        let Some(read) = from_row(bytes) else { return };
        let Ok(written) = rows::encode(to_row(&read)) else {
            return;
        };
        let again = from_row(&written).unwrap();
        assert_eq!(format!("{read:?}"), format!("{again:?}"));
    }

    pub(crate) fn rows(bytes: &[u8]) {
        let id: Id = "m1".parse().unwrap();
        let place = 7_u64.to_be_bytes();
        row(bytes, |bytes| Key::from_row(id.clone(), bytes), Key::row);
        row(
            bytes,
            |bytes| Event::from_row(&place, bytes),
            |event| event.row(""),
        );
        row(
            bytes,
            |bytes| Job::from_row("20260101000000000001", bytes),
            |job| job.row(""),
        );
        row(
            bytes,
            |bytes| Returned::from_row(id.clone(), bytes),
            Returned::row,
        );
        row(bytes, Log::from_row, |log| log.row());
        row(bytes, rows::from_shown_row, |files| rows::shown_row(files));
        let _ = Event::from_row(bytes, &rows::encode(Map::new()).unwrap());
        if let Some(received) = Received::from_row(bytes) {
            assert_eq!(received.row(), bytes);
        }
        if let Some(place) = rows::at::of_reaction(bytes) {
            assert_eq!(
                rows::at::of_reaction(&rows::at::reaction(place)),
                Some(place)
            );
        }
        if let Some((at_ms, jid)) = rows::at::of_time(bytes) {
            assert_eq!(
                rows::at::of_time(&rows::at::time(at_ms, &jid)),
                Some((at_ms, jid))
            );
        }
        for prefix in 0..3 {
            let _ = rows::at::id(bytes, prefix);
        }
    }
}

/// The minion's sources, of which this test uses a part.
#[allow(dead_code)]
#[path = "."]
mod spool {
    /// The error of encoding. The spool's own error type has more variants.
    #[derive(Debug)]
    pub(crate) struct Error;

    impl From<wire::Error> for Error {
        fn from(_: wire::Error) -> Self {
            Self
        }
    }

    #[path = "../../agent/minion/src/spool/record.rs"]
    mod record;

    pub(crate) fn records(bytes: &[u8]) {
        let _ = record::Kind::from_value(bytes);
        if let Some(gap) = record::Gap::decoded(bytes) {
            let written = gap.encoded().unwrap();
            assert_eq!(record::Gap::decoded(&written), Some(gap));
        }
        let Some(entry) = record::decoded(bytes) else {
            return;
        };
        let sequence = entry.sequence();
        let Ok(written) = record::encoded(entry, sequence) else {
            return;
        };
        let again = record::decoded(&written).unwrap();
        let twice = record::encoded(again, sequence).unwrap();
        assert_eq!(written, twice);
    }
}

fuzz_target!(|bytes: &[u8]| {
    store::rows(bytes);
    spool::records(bytes);
});
