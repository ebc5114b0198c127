//! How old a document may be.

use crate::Error;

/// How far the clocks of a cloud and of this machine may differ, in seconds.
pub const CLOCK_SKEW_MAX_S: i64 = 60;

/// Now, and how old a document may be then.
#[derive(Clone, Copy, Debug)]
pub struct When {
    /// Seconds since 1970.
    pub now_s: i64,
    /// How many seconds a document is good for, whatever it says itself.
    pub max_age_s: Option<i64>,
}

impl When {
    /// Whether what happened at a time was not too long ago, and has happened at all.
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

    /// Whether its own end has not come.
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
