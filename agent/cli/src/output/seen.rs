//! Makes the data of others safe to show on a terminal.

use std::borrow::Cow;

use value::visible;

use super::Output;
use super::color::Color;

/// Returns text with terminal control sequences escaped, except for the output's own colours. If
/// the output does not go to a terminal, the text is unchanged.
pub(super) fn text<'a>(text: &'a str, how: &Output) -> Cow<'a, str> {
    if !how.terminal {
        return Cow::Borrowed(text);
    }
    visible::kept(text, |rest| match how.strip_colors {
        true => how.color.then(|| Color::at(rest)).flatten(),
        false => color_sequence(rest),
    })
}

/// Returns the length of the colour sequence at the start of a text. `strip_colors: False` permits
/// such sequences in the data.
fn color_sequence(text: &str) -> Option<usize> {
    let numbers = text.strip_prefix("\x1b[")?;
    let end = numbers.find(|sign: char| !sign.is_ascii_digit() && sign != ';')?;
    let after = numbers.get(end..)?;
    after.starts_with('m').then_some(2 + end + 1)
}

#[cfg(test)]
mod tests {
    use value::{Map, Value};

    use super::*;
    use crate::output::corpus::NoYaml;
    use crate::output::display;

    const EVIL: &str = "\x1b[31mred\x1b]0;title\x07\rover \u{9b}2J\u{202e}x";

    fn displayed(outputter: &str, opts: Map, terminal: bool) -> String {
        let data = Map::new().with("m1", EVIL).with(EVIL, 1);
        let how = Output::from_opts(&opts.with("output", outputter), terminal);
        display(&Value::Map(data), None, &how, 0, &NoYaml)
    }

    #[test]
    fn no_outputter_writes_escapes_of_the_data_to_a_terminal() {
        for outputter in [
            "txt",
            "raw",
            "nested",
            "json",
            "pprint",
            "key",
            "highstate",
            "table",
            "no_return",
        ] {
            for color in [true, false] {
                let text = displayed(outputter, Map::new().with("color", color), true);
                let mut rest = text.as_str();
                while let Some((_, at)) = rest.split_once('\x1b') {
                    let whole = format!("\x1b{at}");
                    assert!(
                        color && Color::at(&whole).is_some(),
                        "{outputter}: {text:?}"
                    );
                    rest = at;
                }
                for sign in ['\x07', '\r', '\u{9b}', '\u{202e}'] {
                    assert!(!text.contains(sign), "{outputter}: {text:?}");
                }
                assert!(text.contains("title"), "{outputter}: {text:?}");
            }
        }
    }

    #[test]
    fn a_pipe_gets_the_bytes_that_salt_would_write() {
        let text = displayed("txt", Map::new(), false);
        let first = "m1: \x1b[31mred\x1b]0;title\x07\n";
        assert!(text.starts_with(first), "{text:?}");
    }

    #[test]
    fn strip_colors_switched_off_lets_colours_through_and_nothing_else() {
        let text = displayed("nested", Map::new().with("strip_colors", false), true);
        assert!(text.contains("\x1b[31mred\\u001b]0;title"), "{text:?}");
    }
}
