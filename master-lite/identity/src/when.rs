//! The time limits of documents.

use crate::Error;

/// The maximum difference between the clocks of a cloud and of this machine, in seconds.
pub const CLOCK_SKEW_MAX_S: i64 = 60;

/// The current time, and the maximum age of a document.
#[derive(Clone, Copy, Debug)]
pub struct When {
    /// The current time, in seconds since 1970.
    pub now_s: i64,
    /// The maximum age of a document in seconds, whatever the document says about its expiry.
    pub max_age_s: Option<i64>,
}

impl When {
    /// Returns an error unless the time is in the past and not too long ago.
    pub(crate) fn recent(self, what: &'static str, at_s: i64) -> Result<(), Error> {
        let ago_s = self.now_s.saturating_sub(at_s);
        if ago_s < -CLOCK_SKEW_MAX_S {
            let ahead_s = ago_s.saturating_neg();
            return Err(Error::Future { ahead_s });
        }
        match self.max_age_s.filter(|limit_s| ago_s > *limit_s) {
            None => Ok(()),
            Some(limit_s) => Err(Error::Expired {
                what,
                ago_s,
                limit_s,
            }),
        }
    }

    /// Returns an error if a document's own expiry has passed.
    pub(crate) fn before(self, what: &'static str, end_s: i64) -> Result<(), Error> {
        match self.now_s < end_s {
            true => Ok(()),
            false => Err(Error::Expired {
                what,
                ago_s: self.now_s.saturating_sub(end_s),
                limit_s: 0,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_good_from_its_making_to_its_end() {
        let when = When {
            now_s: 1000,
            max_age_s: Some(100),
        };
        assert_eq!(when.recent("made", 900), Ok(()));
        assert_eq!(when.recent("made", 1000 + CLOCK_SKEW_MAX_S), Ok(()));
        assert!(matches!(
            when.recent("made", 899),
            Err(Error::Expired { ago_s: 101, .. })
        ));
        assert_eq!(
            when.recent("made", 1001 + CLOCK_SKEW_MAX_S),
            Err(Error::Future { ahead_s: 61 })
        );
        assert_eq!(when.before("ended", 1001), Ok(()));
        assert!(when.before("ended", 1000).is_err());
        for extreme in [i64::MIN, i64::MAX] {
            assert!(when.recent("made", extreme).is_err());
        }
    }
}
