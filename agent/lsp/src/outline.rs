//! Reads the outline of an SLS from its text: the keys above a line. The text is read line by line
//! and not as YAML, because it is incomplete while it is typed.

/// A line of YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The byte column of the dash, if the line is an item of a list.
    pub(crate) dash: Option<usize>,
    /// The byte column of the key, or of the text of an item.
    pub(crate) column: usize,
    /// The key, or the text of an item. It is unquoted.
    pub(crate) key: &'a str,
    /// The text after the colon, if there is a colon.
    pub(crate) value: Option<&'a str>,
}

impl<'a> Line<'a> {
    /// Reads a line. Returns `None` if it is empty, a comment or a tag of Jinja.
    pub(crate) fn read(line: &'a str) -> Option<Self> {
        let text = line.trim_start();
        let mut column = line.len() - text.len();
        let mut dash = None;
        let mut text = text;
        if let Some(rest) = text.strip_prefix('-')
            && (rest.is_empty() || rest.starts_with(' '))
        {
            dash = Some(column);
            text = rest.trim_start();
            column = line.len() - text.len();
        }
        if dash.is_none() && (text.is_empty() || text.starts_with(['#', '{'])) {
            return None;
        }
        let (key, value) = split(text);
        Some(Self {
            dash,
            column,
            key: unquoted(key),
            value,
        })
    }

    /// Returns the column where the element begins: that of its dash, or else of its key.
    fn start(&self) -> usize {
        self.dash.unwrap_or(self.column)
    }
}

/// Splits a line into its key and the text after the colon.
fn split(text: &str) -> (&str, Option<&str>) {
    let text = text.trim_end();
    if let Some(key) = text.strip_suffix(':') {
        return (key, Some(""));
    }
    match text.split_once(": ") {
        Some((key, value)) => (key.trim_end(), Some(value.trim_start())),
        None => (text, None),
    }
}

/// Returns a key or value without its quotes.
pub(crate) fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

/// Returns the keys above an element, the outermost first, with the numbers of their lines. The
/// element begins in `column` of line `at`, as an item of a list or as a key. Returns `None` if it
/// is inside a block of text.
pub(crate) fn above<'a>(
    lines: &[&'a str],
    at: usize,
    column: usize,
    is_item: bool,
) -> Option<Vec<(usize, &'a str)>> {
    let (mut column, mut is_item) = (column, is_item);
    let mut path = Vec::new();
    for (number, line) in lines.iter().enumerate().take(at).rev() {
        if column == 0 && !is_item {
            break;
        }
        let Some(line) = Line::read(line) else {
            continue;
        };
        let holds_list = is_item && line.column == column;
        if line.value.is_some() && (line.column < column || holds_list) {
            if !line.value.is_some_and(opens) {
                return None;
            }
            path.push((number, line.key));
            (column, is_item) = (line.start(), line.dash.is_some());
        } else if !is_item && line.dash.is_some() && line.column == column {
            // The item to which this key belongs begins here.
            (column, is_item) = (line.start(), true);
        }
    }
    path.reverse();
    Some(path)
}

/// Returns whether the value after a colon is on the following lines.
fn opens(value: &str) -> bool {
    value.is_empty() || value.starts_with('#')
}

/// Returns the outermost keys of an SLS with the numbers of their lines: its IDs, and `include`,
/// `extend` and `exclude`.
pub(crate) fn outermost(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(number, line)| {
        let line = Line::read(line)?;
        let is_key = line.dash.is_none() && line.column == 0 && line.value.is_some();
        is_key.then_some((number, line.key))
    })
}

/// Returns the IDs of an SLS, each with its line and the state modules that it uses.
pub(crate) fn ids(text: &str) -> Vec<(usize, &str, Vec<&str>)> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = outermost(text).collect::<Vec<_>>();
    let ends = starts.iter().skip(1).map(|(number, _)| *number);
    let ends = ends.chain([lines.len()]);
    let each = starts.iter().zip(ends);
    let ids = each.filter(|((_, key), _)| !matches!(*key, "include" | "extend" | "exclude"));
    ids.map(|((from, key), to)| {
        let body = lines.get(from + 1..to).unwrap_or_default().iter();
        let mut keys = body.filter_map(|line| Line::read(line).filter(|line| line.dash.is_none()));
        let first = keys.next();
        let level = first.map_or(0, |line| line.column);
        let keys = first.into_iter().chain(keys);
        let of_level = keys.filter(|line| line.column == level && level > 0);
        let modules = of_level.map(|line| line.key.split('.').next().unwrap_or(line.key));
        (*from, *key, modules.collect())
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
include:
- base
nginx:
  pkg.installed:
    - name: nginx
    - require:
      # a comment
      - pkg: other
  file.managed:
  - name: /x
  - contents: |
      a: b
      -
{% if x %}
'b c':
  service:
    - running
    - watch:
      - file: nginx
{% endif %}
";

    fn keys(at: usize, column: usize, is_item: bool) -> Option<Vec<&'static str>> {
        let lines: Vec<&str> = TEXT.lines().collect();
        let path = above(&lines, at, column, is_item)?;
        Some(path.into_iter().map(|(_, key)| key).collect())
    }

    #[test]
    fn keys_above_a_line() {
        assert_eq!(keys(1, 0, true).unwrap(), ["include"]);
        assert_eq!(keys(2, 0, false).unwrap(), [""; 0]);
        assert_eq!(keys(3, 2, false).unwrap(), ["nginx"]);
        assert_eq!(keys(5, 4, true).unwrap(), ["nginx", "pkg.installed"]);
        let path = ["nginx", "pkg.installed", "require"];
        assert_eq!(keys(7, 6, true).unwrap(), path);
        assert_eq!(keys(10, 2, true).unwrap(), ["nginx", "file.managed"]);
        assert_eq!(keys(12, 6, true), None);
        assert_eq!(keys(18, 6, true).unwrap(), ["b c", "service", "watch"]);
    }

    #[test]
    fn ids_with_their_modules() {
        let found = ids(TEXT);
        let shown: Vec<_> = found
            .iter()
            .map(|(line, id, of)| (*line, *id, of.join(" ")))
            .collect();
        let nginx = (2, "nginx", "pkg file".to_owned());
        assert_eq!(shown, [nginx, (14, "b c", "service".to_owned())]);
    }
}
