//! Resolves the type of plain scalars in YAML 1.1, as PyYAML's resolver does.

const PREFIX: &str = "tag:yaml.org,2002:";

/// The tag of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    Bool,
    Int,
    Float,
    Str,
    Unicode,
    Timestamp,
    Merge,
    Value,
    Binary,
    Seq,
    Map,
    Omap,
    Pairs,
    Set,
    Other(Box<str>),
}

const NAMES: [(Tag, &str); 15] = [
    (Tag::Null, "null"),
    (Tag::Bool, "bool"),
    (Tag::Int, "int"),
    (Tag::Float, "float"),
    (Tag::Str, "str"),
    (Tag::Unicode, "python/unicode"),
    (Tag::Timestamp, "timestamp"),
    (Tag::Merge, "merge"),
    (Tag::Value, "value"),
    (Tag::Binary, "binary"),
    (Tag::Seq, "seq"),
    (Tag::Map, "map"),
    (Tag::Omap, "omap"),
    (Tag::Pairs, "pairs"),
    (Tag::Set, "set"),
];

impl Tag {
    /// Returns the tag for the full name `full`.
    pub(super) fn from_name(full: &str) -> Self {
        full.strip_prefix(PREFIX)
            .and_then(|short| NAMES.iter().find(|(_, name)| *name == short))
            .map_or_else(|| Self::Other(full.into()), |(tag, _)| tag.clone())
    }

    /// Returns the full name of the tag.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Other(full) => full.to_string(),
            tag => {
                let name = NAMES
                    .iter()
                    .find(|(known, _)| known == tag)
                    .map_or("", |(_, name)| name);
                format!("{PREFIX}{name}")
            }
        }
    }
}

/// Returns the tag of a plain scalar; a quoted one is always a string.
pub(super) fn resolve(text: &str) -> Tag {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Tag::Null,
        "yes" | "Yes" | "YES" | "no" | "No" | "NO" | "true" | "True" | "TRUE" | "false"
        | "False" | "FALSE" | "on" | "On" | "ON" | "off" | "Off" | "OFF" => Tag::Bool,
        "<<" => Tag::Merge,
        "=" => Tag::Value,
        "!" | "&" | "*" => Tag::Other("tag:yaml.org,2002:yaml".into()),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || "-+.".contains(c)) => number(text),
        _ => Tag::Str,
    }
}

fn number(text: &str) -> Tag {
    let matches = |rule: fn(&mut Scan<'_>) -> bool| {
        let mut scan = Scan(text.as_bytes());
        rule(&mut scan) && scan.0.is_empty()
    };
    if [
        point_float,
        bare_fraction,
        sexagesimal_float,
        infinity,
        not_a_number,
    ]
    .into_iter()
    .any(matches)
    {
        Tag::Float
    } else if [binary, octal, decimal, hexadecimal, sexagesimal]
        .into_iter()
        .any(matches)
    {
        Tag::Int
    } else if [date, timestamp].into_iter().any(matches) {
        Tag::Timestamp
    } else {
        Tag::Str
    }
}

/// The unread rest of a scalar; each method reads from its front.
struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    /// Reads at most `most` bytes that fit, and returns true if there were at least `least`.
    fn many(&mut self, fits: impl Fn(u8) -> bool, least: usize, most: usize) -> bool {
        let count = self
            .0
            .iter()
            .take(most)
            .take_while(|byte| fits(**byte))
            .count();
        self.0 = self.0.get(count..).unwrap_or_default();
        count >= least
    }

    fn digits(&mut self, least: usize, most: usize) -> bool {
        self.many(|byte| byte.is_ascii_digit(), least, most)
    }

    /// Reads digits and underscores after a digit that `first` accepts.
    fn grouped(&mut self, first: impl Fn(u8) -> bool) -> bool {
        self.many(first, 1, 1) && self.rest_of_group()
    }

    fn rest_of_group(&mut self) -> bool {
        self.many(|byte| byte.is_ascii_digit() || byte == b'_', 0, usize::MAX)
    }

    fn word(&mut self, word: &str) -> bool {
        let rest = self.0.strip_prefix(word.as_bytes());
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.word(word))
    }

    /// Reads an optional sign; always returns true.
    fn sign(&mut self) -> bool {
        self.any(&["-", "+"]);
        true
    }

    /// Reads an optional exponent, whose sign is mandatory.
    fn exponent(&mut self) -> bool {
        !self.any(&["e", "E"]) || (self.any(&["-", "+"]) && self.digits(1, usize::MAX))
    }

    /// Reads `:59` once or more.
    fn sixtieths(&mut self) -> bool {
        let mut found = false;
        while self.word(":") {
            found = true;
            let two = matches!(self.0, [b'0'..=b'5', b'0'..=b'9', ..]);
            if !self.digits(1, if two { 2 } else { 1 }) {
                return false;
            }
        }
        found
    }

    fn blanks(&mut self, least: usize) -> bool {
        self.many(|byte| matches!(byte, b' ' | b'\t'), least, usize::MAX)
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

fn point_float(scan: &mut Scan<'_>) -> bool {
    scan.sign()
        && scan.grouped(is_digit)
        && scan.word(".")
        && scan.rest_of_group()
        && scan.exponent()
}

fn bare_fraction(scan: &mut Scan<'_>) -> bool {
    scan.word(".") && scan.grouped(is_digit) && scan.exponent()
}

fn sexagesimal_float(scan: &mut Scan<'_>) -> bool {
    scan.sign()
        && scan.grouped(is_digit)
        && scan.sixtieths()
        && scan.word(".")
        && scan.rest_of_group()
}

fn infinity(scan: &mut Scan<'_>) -> bool {
    scan.sign() && scan.any(&[".inf", ".Inf", ".INF"])
}

fn not_a_number(scan: &mut Scan<'_>) -> bool {
    scan.any(&[".nan", ".NaN", ".NAN"])
}

fn binary(scan: &mut Scan<'_>) -> bool {
    scan.sign()
        && scan.word("0b")
        && scan.many(|byte| matches!(byte, b'0' | b'1' | b'_'), 1, usize::MAX)
}

fn octal(scan: &mut Scan<'_>) -> bool {
    scan.sign()
        && scan.word("0")
        && scan.many(|byte| matches!(byte, b'0'..=b'7' | b'_'), 1, usize::MAX)
}

fn decimal(scan: &mut Scan<'_>) -> bool {
    scan.sign() && (scan.word("0") || scan.grouped(|byte| matches!(byte, b'1'..=b'9')))
}

fn hexadecimal(scan: &mut Scan<'_>) -> bool {
    scan.sign()
        && scan.word("0x")
        && scan.many(
            |byte| byte.is_ascii_hexdigit() || byte == b'_',
            1,
            usize::MAX,
        )
}

fn sexagesimal(scan: &mut Scan<'_>) -> bool {
    scan.sign() && scan.grouped(|byte| matches!(byte, b'1'..=b'9')) && scan.sixtieths()
}

fn date(scan: &mut Scan<'_>) -> bool {
    scan.digits(4, 4) && scan.word("-") && scan.digits(2, 2) && scan.word("-") && scan.digits(2, 2)
}

fn timestamp(scan: &mut Scan<'_>) -> bool {
    let day = scan.digits(4, 4)
        && scan.word("-")
        && scan.digits(1, 2)
        && scan.word("-")
        && scan.digits(1, 2);
    let hour = day && (scan.any(&["T", "t"]) || scan.blanks(1)) && scan.digits(1, 2);
    let time = hour && scan.word(":") && scan.digits(2, 2) && scan.word(":") && scan.digits(2, 2);
    if time && scan.word(".") {
        scan.digits(0, usize::MAX);
    }
    time && (scan.0.is_empty() || zone(scan))
}

fn zone(scan: &mut Scan<'_>) -> bool {
    scan.blanks(0);
    if scan.word("Z") {
        return true;
    }
    let hours = scan.any(&["-", "+"]) && scan.digits(1, 2);
    hours && (!scan.word(":") || scan.digits(2, 2))
}
