//! The colours of Salt's output.

/// A colour, with Salt's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Red,
    LightRed,
    Green,
    LightGreen,
    LightYellow,
    Blue,
    LightBlue,
    Magenta,
    LightMagenta,
    Cyan,
    LightGray,
    White,
    /// The terminal's default colour.
    End,
}

impl Color {
    const ALL: [Self; 13] = [
        Self::Red,
        Self::LightRed,
        Self::Green,
        Self::LightGreen,
        Self::LightYellow,
        Self::Blue,
        Self::LightBlue,
        Self::Magenta,
        Self::LightMagenta,
        Self::Cyan,
        Self::LightGray,
        Self::White,
        Self::End,
    ];

    /// Returns the length of the colour sequence at the start of a text.
    pub(crate) fn at(text: &str) -> Option<usize> {
        let mut codes = Self::ALL.iter().map(|color| color.code(true));
        codes.find(|code| text.starts_with(code)).map(str::len)
    }

    /// Returns the escape sequence, or an empty text if colours are off.
    pub(crate) fn code(self, on: bool) -> &'static str {
        if !on {
            return "";
        }
        match self {
            Self::Red => "\x1b[0;31m",
            Self::LightRed => "\x1b[0;1;31m",
            Self::Green => "\x1b[0;32m",
            Self::LightGreen => "\x1b[0;1;32m",
            Self::LightYellow => "\x1b[0;1;33m",
            Self::Blue => "\x1b[0;34m",
            Self::LightBlue => "\x1b[0;1;34m",
            Self::Magenta => "\x1b[0;35m",
            Self::LightMagenta => "\x1b[0;1;35m",
            Self::Cyan => "\x1b[0;36m",
            Self::LightGray => "\x1b[0;37m",
            Self::White => "\x1b[0;1;37m",
            Self::End => "\x1b[0;0m",
        }
    }
}
