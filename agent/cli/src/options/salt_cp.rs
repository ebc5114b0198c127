//! Reads the options of `salt-cp`.

use super::salt::{Target, target_type, tgt_value};
use super::salt_flags::{CP_FILES, CP_TARGETS};
use super::settings::{self, About, Settings};
use super::{SALT_CP, UsageError};

/// The request of a command line of `salt-cp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaltCpOptions {
    /// To print the help or the version.
    About(About),
    /// To copy files.
    Copy {
        /// The minions.
        target: Target,
        /// The files and folders on the master.
        sources: Vec<String>,
        /// The target on the minions.
        dest: String,
        /// True to send the files in pieces.
        chunked: bool,
    },
}

/// A parsed command line of `salt-cp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaltCp {
    /// The request.
    pub request: SaltCpOptions,
    /// The settings of the configuration.
    pub settings: Settings,
}

impl SaltCp {
    /// Parses a command line without the program's name.
    ///
    /// # Errors
    /// If an option is wrong, or the target, the sources or the destination is missing.
    pub fn parse(
        args: Vec<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let parsed = SALT_CP.parse(args)?;
        let tgt_type = target_type(&parsed, CP_TARGETS.flags)?;
        let request = match (settings::about(&parsed), parsed.words.as_slice()) {
            (Some(about), _) => SaltCpOptions::About(about),
            (None, [tgt, sources @ .., dest]) if !sources.is_empty() => SaltCpOptions::Copy {
                target: Target {
                    tgt: tgt_value(tgt.clone(), tgt_type),
                    tgt_type,
                    delimiter: parsed.text("delimiter").unwrap_or(":").to_owned(),
                },
                sources: sources.to_vec(),
                dest: dest.clone(),
                chunked: parsed.has("chunked"),
            },
            _ => {
                return Err(UsageError {
                    message: "Insufficient arguments".to_owned(),
                    hint: Some(
                        "salt-cp '*' motd /etc/motd; salt-cp --help lists the options".into(),
                    ),
                });
            }
        };
        Ok(Self {
            request,
            settings: Settings::from_parsed(
                &SALT_CP,
                &parsed,
                &[CP_TARGETS.flags, CP_FILES.flags],
                &env,
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<SaltCpOptions, UsageError> {
        let words = line.iter().map(|word| (*word).to_owned()).collect();
        SaltCp::parse(words, |_| None).map(|line| line.request)
    }

    #[test]
    fn the_last_word_is_the_destination_and_c_sends_pieces() {
        let request = read(&["-C", "-L", "a,b", "one", "two", "/srv"]).unwrap();
        let SaltCpOptions::Copy {
            target,
            sources,
            dest,
            chunked,
        } = request
        else {
            panic!("{request:?}");
        };
        assert_eq!(
            (target.tgt_type, target.tgt.to_text().as_str()),
            ("list", "['a', 'b']")
        );
        assert_eq!(
            (sources.join(" ").as_str(), dest.as_str(), chunked),
            ("one two", "/srv", true)
        );
    }

    #[test]
    fn a_line_without_a_source_is_refused() {
        for line in [&[][..], &["a"], &["a", "/srv"]] {
            assert_eq!(read(line).unwrap_err().message, "Insufficient arguments");
        }
        assert!(read(&["-E", "-G", "a", "b", "c"]).is_err());
        assert!(read(&["-H", "a", "b", "c"]).is_err());
    }
}
